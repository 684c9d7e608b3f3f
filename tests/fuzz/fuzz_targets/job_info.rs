//! Job-info replies as job data and back.
//!
//! Input: the dialect and release, then the reply.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pmix_fuzz::{DIALECTS, bounded, dialect};
use pmix_wire::Version;
use pmix_wire::jobinfo::{self, Recipient};

/// Heap bytes for each byte of a reply.
const HEAP_PER_BYTE: usize = 1024;
/// A compressed string is expanded for peers that do not know such.
const EXPANSION: usize = 1040;

fuzz_target!(|input: &[u8]| {
    let [selector, bytes @ ..] = input else {
        return;
    };
    let dialect = dialect(*selector);
    let releases = [Version::new(6, 1, 0), Version::new(4, 2, 2), Version::new(3, 0, 0)];
    let version = releases[usize::from(selector / DIALECTS) % releases.len()];
    let Some(job) = bounded(bytes.len(), HEAP_PER_BYTE, || jobinfo::decode(dialect, bytes).ok()) else {
        return;
    };
    let to = Recipient { dialect, version, version_text: "4.2.2", hostname: b"node" };
    let encoded =
        bounded(bytes.len(), EXPANSION + HEAP_PER_BYTE, || jobinfo::encode(&job, &to, jobinfo::all_ranks(&job)));
    // What is packed for an old release says less; what is packed for the newest one says all that its encoder knows.
    if let Ok(again) = encoded {
        let again = jobinfo::decode(dialect, &again).expect("what was encoded decodes");
        let twice = jobinfo::encode(&again, &to, jobinfo::all_ranks(&again)).expect("and encodes");
        jobinfo::decode(dialect, &twice).expect("and decodes");
        assert_eq!(again.nspace, job.nspace);
    }
});
