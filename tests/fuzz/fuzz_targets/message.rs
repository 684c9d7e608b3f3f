//! Messages of every kind: what decodes encodes again, and then stays the same.
//!
//! Input: the kind, the dialect, the peers' releases, then the message.
#![no_main]

#[path = "../input.rs"]
mod input;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(message) = input::read(bytes) else {
        return;
    };
    if let Ok(once) = message.recode(&message.bytes) {
        assert_eq!(message.recode(&once).as_ref(), Ok(&once), "{:?}", message.form);
    }
});
