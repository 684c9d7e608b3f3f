//! Replays recorded messages of stock libraries: every message decodes, and encodes to the same bytes again.

mod job;
mod malformed;
mod memory;
mod message;
mod vectors;

use pmix_wire::blob::{self, Contribution, Origin};

use message::{Form, Message, messages};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");

fn all_messages() -> Vec<Message> {
    vectors::all(VECTORS).iter().flat_map(messages).collect()
}

/// Messages that do not encode to the same bytes, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("s4.2.9-c3.2.5.deferred-get-bug.get", "the server answered in its own encoder; ours answers in the agreed one"),
    ("s6.1.0.types.modex-blob", "the contribution was compressed by another implementation of zlib"),
];

#[test]
fn recorded_messages_come_back_byte_for_byte() {
    let mut failed = Vec::new();
    let mut different = Vec::new();
    for message in all_messages() {
        let again = message.recode(&message.bytes);
        if again.as_ref() == Ok(&message.bytes) {
            continue;
        }
        if let Some((name, _)) = DIFFERENT.iter().find(|(name, _)| *name == message.exchange) {
            // The bytes differ from the recording, but encoding is stable: decoding them and encoding again gives the
            // same bytes.
            let again = again.unwrap();
            assert_eq!(message.recode(&again).as_ref(), Ok(&again), "{name}");
            different.push(*name);
            continue;
        }
        let Message { exchange, form, bytes, .. } = &message;
        failed.push(format!("{exchange} {form:?}: {bytes:02x?} became {again:02x?}"));
    }
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n"));
    different.sort_unstable();
    let expected: Vec<_> = DIFFERENT.iter().map(|(name, _)| *name).collect();
    assert_eq!(different, expected, "all exceptions are needed");
}

#[test]
fn every_exchange_is_here() {
    let exchanges = vectors::all(VECTORS);
    assert_eq!(exchanges.len(), 367);
    let (requests, replies) =
        all_messages().into_iter().fold((0, 0), |(requests, replies), message| match message.form {
            Form::Request => (requests + 1, replies),
            Form::Reply(_) => (requests, replies + 1),
            _ => (requests, replies),
        });
    assert!(requests > 280 && replies > 270, "{requests} requests, {replies} replies");
}

#[test]
fn fence_contributions_use_a_key_map_where_released_servers_do() {
    let mut with_map = 0;
    for message in all_messages().iter().filter(|message| message.form == Form::Fence) {
        for contribution in blob::decode_fence(message.dialect, &message.bytes).unwrap() {
            let blob::Form::Relative { key_map } = contribution.form else {
                continue;
            };
            with_map += usize::from(key_map);
            let ranks = contribution.ranks.into_iter().map(|(origin, kvals)| match origin {
                Origin::Relative(rank) => (rank, kvals),
                Origin::Proc(proc) => panic!("{proc}"),
            });
            let ranks: Vec<_> = ranks.collect();
            let again = Contribution::encode(message.dialect, contribution.collected, &ranks).unwrap();
            assert_eq!(again, message.bytes, "{}", message.exchange);
        }
    }
    assert!(with_map > 0, "no recorded contribution has a key map");
}
