//! The names of attributes and the keys that they stand for.

use std::ffi::CStr;

use pmix_dstore::model::{DataType, Key, Regattr};

/// The key of an attribute's name, such as `pmix.job.size` of `PMIX_JOB_SIZE`.
pub fn key_of(name: &CStr) -> Option<&'static CStr> {
    pairs(ATTRIBUTES).find(|(known, _)| *known == name.to_bytes_with_nul()).and_then(|(_, key)| text(key))
}

/// The description of an attribute by its name. An unknown attribute has its name as its key.
pub fn described(name: &CStr) -> Regattr {
    let known = pairs(ATTRIBUTES).zip(TYPES).find(|((known, _), _)| *known == name.to_bytes_with_nul());
    let known = known.and_then(|((_, key), ty)| Some((text(key)?, *ty)));
    let (key, ty) = known.unwrap_or((name, DataType::UNDEF));
    let key = Key::new(key.to_bytes()).unwrap_or_else(|_| Key::from(""));
    Regattr { name: Some(name.to_owned()), key, ty, description: Vec::new() }
}

/// The name of the attribute with a key, which may be a newer one ([`renamed`](pmix_dstore::model::renamed)). Where a key
/// has had several names, the first one of the headers.
pub fn name_of(key: &CStr) -> Option<&'static CStr> {
    let by_key = |table| pairs(table).find(|(_, known)| *known == key.to_bytes_with_nul());
    by_key(ATTRIBUTES).or_else(|| by_key(NEWER)).and_then(|(name, _)| text(name))
}

/// Names and keys of a table, each with its NUL.
fn pairs(mut table: &'static [u8]) -> impl Iterator<Item = (&'static [u8], &'static [u8])> {
    let mut next = move || {
        let (len, rest) = table.split_first()?;
        let (text, rest) = rest.split_at_checked(usize::from(*len) + 1)?;
        table = rest;
        Some(text)
    };
    std::iter::from_fn(move || Some((next()?, next()?)))
}

fn text(bytes: &'static [u8]) -> Option<&'static CStr> {
    CStr::from_bytes_with_nul(bytes).ok()
}

// Every attribute of the releases 4.2.2 to 7.0, in the order of the headers: the table `ATTRIBUTES`; and those that the
// newest release has another key for: `NEWER`. The types of all: `TYPES`.
include!("attributes/generated.rs");
