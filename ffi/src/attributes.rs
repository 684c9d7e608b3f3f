//! The names of attributes and the keys that they stand for.

use std::ffi::CStr;

/// The key of an attribute's name, such as `pmix.job.size` of `PMIX_JOB_SIZE`.
pub fn key_of(name: &CStr) -> Option<&'static CStr> {
    ATTRIBUTES.iter().find(|(known, _)| *known == name).map(|(_, key)| *key)
}

/// The name of the attribute with a key, which may be a newer one ([`renamed`](pmix_dstore::model::renamed)). Where a key
/// has had several names, the first one of the headers.
pub fn name_of(key: &CStr) -> Option<&'static CStr> {
    let by_key = |table: &'static [(&CStr, &CStr)]| table.iter().find(|(_, known)| *known == key);
    by_key(ATTRIBUTES).or_else(|| by_key(NEWER)).map(|(name, _)| *name)
}

// Every attribute of the releases 4.2.2 to 7.0, in the order of the headers: the table `ATTRIBUTES`; and those that the
// newest release has another key for: `NEWER`.
include!(concat!(env!("OUT_DIR"), "/attributes.rs"));
