//! The names of attributes and the keys that they stand for.

use std::ffi::CStr;

use pmix_dstore::model::{DataType, Key, Regattr};

/// The key of an attribute's name, such as `pmix.job.size` of `PMIX_JOB_SIZE`.
pub fn key_of(name: &CStr) -> Option<&'static CStr> {
    ATTRIBUTES.iter().find(|(known, _)| *known == name).map(|(_, key)| *key)
}

/// What is known of an attribute by its name; an unknown one has its name for a key.
pub fn described(name: &CStr) -> Regattr {
    let known = ATTRIBUTES.iter().zip(TYPES).find(|((known, _), _)| *known == name);
    let (key, ty) = known.map_or((name, DataType::UNDEF), |((_, key), ty)| (*key, *ty));
    let key = Key::new(key.to_bytes()).unwrap_or_else(|_| Key::from(""));
    Regattr { name: Some(name.to_owned()), key, ty, description: Vec::new() }
}

/// The name of the attribute with a key, which may be a newer one ([`renamed`](pmix_dstore::model::renamed)). Where a key
/// has had several names, the first one of the headers.
pub fn name_of(key: &CStr) -> Option<&'static CStr> {
    let by_key = |table: &'static [(&CStr, &CStr)]| table.iter().find(|(_, known)| *known == key);
    by_key(ATTRIBUTES).or_else(|| by_key(NEWER)).map(|(name, _)| *name)
}

// Every attribute of the releases 4.2.2 to 7.0, in the order of the headers: the table `ATTRIBUTES`; and those that the
// newest release has another key for: `NEWER`. The types of all: `TYPES`.
include!(concat!(env!("OUT_DIR"), "/attributes.rs"));
