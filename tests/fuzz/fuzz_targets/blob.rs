//! What servers bring each other: fence contributions, direct modex, job data in it, compressed bytes.
//!
//! Input: the form with the dialect, then the bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pmix_dstore::codec::Dialect;
use pmix_dstore::compression;
use pmix_dstore::model::{Bytes, Nspace};
use pmix_fuzz::{DIALECTS, bounded, dialect};
use pmix_wire::{blob, jobinfo};

/// Heap bytes for each byte of a blob.
const HEAP_PER_BYTE: usize = 512;
/// A compressed contribution may expand by this, and what it holds then weighs as above.
const EXPANSION: usize = 1040;

fuzz_target!(|input: &[u8]| {
    let [selector, bytes @ ..] = input else { return };
    let dialect = dialect(*selector);
    match selector / DIALECTS % 4 {
        0 => bounded(bytes.len(), EXPANSION * HEAP_PER_BYTE, || fence(dialect, bytes)),
        1 => bounded(bytes.len(), HEAP_PER_BYTE, || modex(dialect, bytes)),
        2 => bounded(bytes.len(), HEAP_PER_BYTE, || job(dialect, bytes)),
        _ => bounded(bytes.len(), 4 * EXPANSION, || compressed(bytes)),
    }
});

fn fence(dialect: Dialect, bytes: &[u8]) {
    let Ok(contributions) = blob::decode_fence(dialect, bytes) else { return };
    let encode = |contributions: &[blob::Contribution]| -> Option<Vec<u8>> {
        contributions
            .iter()
            .map(|one| one.encode_again(dialect).ok())
            .collect::<Option<Vec<_>>>()
            .map(|all| all.concat())
    };
    let Some(once) = encode(&contributions) else { return };
    let lying = blob::decode_shared_fence(dialect, &Bytes::from(bytes.to_vec())).expect("it decodes");
    assert_eq!(encode(&lying).as_ref(), Some(&once), "with long values in their place");
    let again = blob::decode_fence(dialect, &once).expect("what was encoded decodes");
    let ranks = |contributions: &[blob::Contribution]| -> Vec<usize> {
        contributions.iter().map(|contribution| contribution.ranks.len()).collect()
    };
    assert_eq!(ranks(&again), ranks(&contributions));
    assert_eq!(encode(&again).as_ref(), Some(&once));
    contributions.into_iter().for_each(|contribution| columns(dialect, contribution));
}

/// A contribution in columns, whatever form it had.
fn columns(dialect: Dialect, mut contribution: blob::Contribution) {
    contribution.form = blob::Form::Columns;
    let Ok(once) = contribution.encode_again(dialect) else { return };
    let again = blob::decode_fence(dialect, &once).expect("what was encoded decodes").remove(0);
    let values = |of: &blob::Contribution| of.ranks.iter().map(|(_, kvals)| kvals.len()).sum::<usize>();
    assert_eq!((again.ranks.len(), values(&again)), (contribution.ranks.len(), values(&contribution)));
    assert_eq!(again.encode_again(dialect).as_ref(), Ok(&once));
}

fn modex(dialect: Dialect, bytes: &[u8]) {
    let Ok(kvals) = blob::decode_modex(dialect, bytes) else { return };
    let encode = |kvals: &[pmix_dstore::model::Kval]| {
        blob::encode_modex(dialect, kvals.iter().map(|kval| (&kval.key, &kval.value)))
    };
    let Ok(once) = encode(&kvals) else { return };
    let again = blob::decode_modex(dialect, &once).expect("what was encoded decodes");
    assert_eq!(encode(&again).as_ref(), Ok(&once));
}

/// The data of another server's job, as direct modex brings it.
fn job(dialect: Dialect, bytes: &[u8]) {
    let Ok(kvals) = blob::decode_modex(dialect, bytes) else { return };
    let nspace = Nspace::new("fuzz").expect("a short namespace");
    let _ = jobinfo::from_kvals(nspace, dialect, kvals);
}

fn compressed(bytes: &[u8]) {
    if let Ok(expanded) = compression::decompress(bytes) {
        let again = compression::compress(&expanded).expect("short enough");
        assert_eq!(compression::decompress(&again).as_ref(), Ok(&expanded));
    }
}
