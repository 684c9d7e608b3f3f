//! Messages of every kind: what decodes encodes again, and then stays the same.
//!
//! Input: the kind, the dialect, the peers' releases, then the message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pmix_dstore::model::Bytes;
use pmix_fuzz::message::{Form, Message};
use pmix_fuzz::{bounded, input, is_ambiguous};
use pmix_wire::Request;

/// Heap bytes for each byte of a message.
const HEAP_PER_BYTE: usize = 512;
/// A compressed contribution, or a compressed string for a peer that does not know such, may expand by this.
const EXPANSION: usize = 1040;

fuzz_target!(|bytes: &[u8]| {
    let Some(message) = input::read(bytes) else {
        return;
    };
    let expansion =
        if message.form == Form::Fence || !message.client.reads_compressed_strings() { EXPANSION } else { 1 };
    bounded(message.bytes.len(), expansion * HEAP_PER_BYTE, || {
        if let Ok(once) = message.recode(&message.bytes) {
            // A request was written as its server wants it, as a client of that release would have.
            let client = if message.form == Form::Request { message.server } else { message.client };
            let again = Message { exchange: String::new(), bytes: once, client, ..message };
            let twice = again.recode(&again.bytes);
            assert!(twice.as_ref() == Ok(&again.bytes) || is_ambiguous(&again.bytes), "{:?}: {twice:?}", again.form);
        }
        if message.form == Form::Request {
            in_place(&message);
        }
    });
});

/// A request whose long values stay in its message is what it is without, and so is a commit of values that lie elsewhere.
fn in_place(message: &Message) {
    let (dialect, client, server) = (message.dialect, message.client, message.server);
    let encode = |request: &Request| request.encode(dialect, server);
    let copied = Request::decode(dialect, client, &message.bytes);
    let lying = Request::decode_message(dialect, client, &Bytes::from(message.bytes.clone()));
    let once = lying.as_ref().map(encode);
    assert_eq!(once, copied.as_ref().map(encode));
    let Ok(Request::Commit { parts }) = &lying else { return };
    let parts: Vec<(u8, Vec<_>)> = parts
        .iter()
        .map(|(scope, kvals)| (*scope, kvals.iter().map(|kval| (&kval.key, &kval.value)).collect()))
        .collect();
    let pieces = Request::encode_commit(dialect, &parts).and_then(|pieces| pieces.into_bytes());
    assert_eq!(once, Ok(pieces), "of {} parts", parts.len());
}
