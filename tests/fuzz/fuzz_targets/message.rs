//! Messages of every kind: what decodes encodes again, and then stays the same.
//!
//! Input: the kind, the dialect, the peers' releases, then the message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pmix_fuzz::message::Form;
use pmix_fuzz::{bounded, input};

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
            assert_eq!(message.recode(&once).as_ref(), Ok(&once), "{:?}", message.form);
        }
    });
});
