//! Job-info replies as job data and back.
//!
//! Input: the dialect, then the reply.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pmix_client::wire::Version;
use pmix_client::wire::jobinfo::{self, Recipient};
use pmix_dstore::codec::{Dialect, Module};

fuzz_target!(|input: &[u8]| {
    let [selector, bytes @ ..] = input else {
        return;
    };
    let dialect = Dialect::plain(Module::ALL[usize::from(*selector) % Module::ALL.len()]);
    let Ok(job) = jobinfo::decode(dialect, bytes) else {
        return;
    };
    let version = if selector & 0x80 == 0 { Version::new(6, 1, 0) } else { Version::new(3, 0, 0) };
    let to = Recipient { dialect, version, version_text: "4.2.2", hostname: b"node" };
    if let Ok(again) = jobinfo::encode(&job, &to, jobinfo::all_ranks(&job)) {
        jobinfo::decode(dialect, &again).unwrap();
    }
});
