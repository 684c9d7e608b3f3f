//! Every recorded message, cut short and with single bytes changed: no decoder may panic or allocate out of proportion.

use std::collections::HashSet;

use pmix_dstore::codec::{Dialect, Module, Packer};
use pmix_dstore::model::{Key, Rank, Value, keys};
use pmix_wire::{Command, jobinfo};

use crate::message::{Form, Message};
use crate::{all_messages, memory};

/// Heap bytes that decoding and encoding again may take for each byte of a message. Small values in arrays and nested
/// messages take the most: about 40 bytes for a value, more for an info with its key, and vectors grow by doubling.
const HEAP_PER_BYTE: usize = 256;
/// Heap bytes that any message may take.
const HEAP_BASE: usize = 64 * 1024;
/// The same for a compressed body, which may expand by a factor of 1040.
const HEAP_PER_BYTE_COMPRESSED: usize = 1040 * HEAP_PER_BYTE;

/// Decodes bytes as a message of the kind of `message` and checks the heap that this takes.
fn try_bytes(message: &Message, bytes: &[u8]) {
    let per_byte = if message.form == Form::Fence { HEAP_PER_BYTE_COMPRESSED } else { HEAP_PER_BYTE };
    let limit = HEAP_BASE + bytes.len() * per_byte;
    let (_, peak) = memory::peak(|| message.recode(bytes).is_ok());
    assert!(peak <= limit, "{} {:?}: {peak} bytes for {}: {bytes:02x?}", message.exchange, message.form, bytes.len());
    if message.form == Form::Reply(Command::JOB_INFO) {
        let _ = jobinfo::decode(message.dialect, bytes);
    }
}

/// The offsets to change: not those inside a long run of equal bytes, and only a sample in long messages.
fn offsets(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let step = 1 + bytes.len() / 1024;
    (0..bytes.len())
        .step_by(step)
        .filter(|&at| at < 8 || at + 8 > bytes.len() || bytes[at - 8..at + 8].iter().any(|b| *b != bytes[at]))
}

/// Recorded messages, each kind and content once.
fn distinct() -> Vec<Message> {
    let mut seen = HashSet::new();
    let mut messages = all_messages();
    messages.retain(|message| seen.insert((message.form, message.dialect, message.bytes.clone())));
    messages
}

#[test]
fn cut_messages_are_refused_or_read_as_far_as_they_go() {
    for message in distinct() {
        offsets(&message.bytes).for_each(|len| try_bytes(&message, &message.bytes[..len]));
    }
}

#[test]
fn changed_bytes_cause_no_panic_or_large_allocation() {
    for message in distinct() {
        let mut bytes = message.bytes.clone();
        for at in offsets(&message.bytes) {
            let original = bytes[at];
            for changed in [original ^ 1, original ^ 0x80, original.wrapping_add(1), 0, 0x7f, 0xff] {
                bytes[at] = changed;
                try_bytes(&message, &bytes);
            }
            bytes[at] = original;
        }
    }
}

#[test]
fn inserted_counts_cause_no_panic_or_large_allocation() {
    // A flexible number of nearly 2^63 and a fixed one of nearly 2^31, inserted wherever a field may begin.
    let huge: [&[u8]; 2] = [&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], &[0x7f, 0xff, 0xff, 0xfe]];
    for message in distinct() {
        for at in offsets(&message.bytes) {
            for count in huge {
                let (before, after) = message.bytes.split_at(at);
                try_bytes(&message, &[before, count, after].concat());
                try_bytes(&message, &[before, count, &after[after.len().min(count.len())..]].concat());
            }
        }
    }
}

#[test]
fn a_high_rank_under_many_keys_costs_no_more_than_its_bytes() {
    let dialect = Dialect::plain(Module::V41);
    let mut row = Packer::new(dialect);
    row.rank(Rank(65_000));
    (0..200).for_each(|number| row.kval(&Key::new(format!("k{number}")).unwrap(), &Value::Bool(true)).unwrap());
    let mut reply = row.nested();
    reply.string(Some(b"job")).unwrap();
    reply.kval_bytes(keys::PROC_BLOB, row.as_bytes()).unwrap();
    let bytes = reply.into_bytes();
    let (job, peak) = memory::peak(|| jobinfo::decode(dialect, &bytes).unwrap());
    assert_eq!(job.procs.row(Rank(65_000)).count(), 200);
    assert!(peak <= HEAP_BASE + bytes.len() * HEAP_PER_BYTE, "{peak} bytes for {}", bytes.len());
    let (ranks, peak) = memory::peak(|| jobinfo::all_ranks(&job).count());
    assert!(ranks == 1 && peak <= 2 * HEAP_BASE, "{ranks} ranks, {peak} bytes");
}
