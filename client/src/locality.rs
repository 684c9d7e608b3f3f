//! Locality strings: the places of its node to which a process is bound, as a text that two processes compare.
//!
//! A string like `hwloc:NM0:SK0:L30-1:CR0,2:HT0-3` lists, for each kind of place, the numbers of the places that the
//! process may use. Comparing two strings needs neither a topology nor hwloc.

use std::ops::RangeInclusive;

use pmix_dstore::model::{Result, Status};

/// `PMIX_LOCALITY_SHARE_NODE`: always set, because processes with strings to compare are on the same node.
const SHARE_NODE: u16 = 0x4000;

/// The kinds of places, and the bit for sharing one (`PMIX_LOCALITY_SHARE_...`).
const KINDS: [(&[u8], u16); 7] = [
    (b"NM", 0x0040),
    (b"SK", 0x0020),
    (b"L3", 0x0010),
    (b"L2", 0x0008),
    (b"L1", 0x0004),
    (b"CR", 0x0002),
    (b"HT", 0x0001),
];

/// The kinds of places that two processes of a node share (`pmix_locality_t`), by their locality strings.
///
/// # Errors
/// `ERR_NOT_SUPPORTED` for strings of another form; `ERR_BAD_PARAM` for malformed numbers.
pub fn relative_locality(one: &[u8], other: &[u8]) -> Result<u16> {
    let (one, other) = (places(one)?, places(other)?);
    let meets = |a: &RangeInclusive<u32>, b: &RangeInclusive<u32>| a.start() <= b.end() && b.start() <= a.end();
    let shared = KINDS
        .iter()
        .zip(one.iter().zip(&other))
        .filter_map(|((_, bit), (one, other))| one.iter().any(|a| other.iter().any(|b| meets(a, b))).then_some(*bit));
    Ok(shared.fold(SHARE_NODE, |all, bit| all | bit))
}

/// The numbers of a process's places, for each kind.
fn places(text: &[u8]) -> Result<[Vec<RangeInclusive<u32>>; KINDS.len()]> {
    const PREFIX: &[u8] = b"hwloc:";
    let mut places: [Vec<_>; KINDS.len()] = Default::default();
    let own = text.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
    let text = if own { &text[PREFIX.len()..] } else { text };
    for place in text.split(|byte| *byte == b':').filter(|place| !place.is_empty()) {
        let kind = KINDS.iter().position(|(kind, _)| place.starts_with(kind)).ok_or(Status::ERR_NOT_SUPPORTED)?;
        for range in place[KINDS[kind].0.len()..].split(|byte| *byte == b',') {
            places[kind].push(numbers(range).ok_or(Status::ERR_BAD_PARAM)?);
        }
    }
    Ok(places)
}

/// Parses `3`, `3-5`, or `3-` (all numbers from 3).
fn numbers(text: &[u8]) -> Option<RangeInclusive<u32>> {
    let text = std::str::from_utf8(text).ok()?;
    let number = |text: &str| text.parse().ok();
    match text.split_once('-') {
        None => number(text).map(|number| number..=number),
        Some((first, "")) => Some(number(first)?..=u32::MAX),
        Some((first, last)) => Some(number(first)?..=number(last)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_locality_is_the_intersection() {
        let one = b"hwloc:NM0:SK0:L30:L20:L10:CR0:HT0-1";
        for (other, shared) in [
            (&one[..], 0x407f),
            (b"hwloc:NM0:SK0:L30:L21:L11:CR1:HT2-3", 0x4070),
            (b"hwloc:SK0,2:HT1", 0x4021),
            (b"hwloc:SK1:L31:HT2-", 0x4000),
            (b"HWLOC:HT0-", 0x4001),
            (b"CR0:HT7", 0x4002),
            (b"", 0x4000),
        ] {
            assert_eq!(relative_locality(one, other), Ok(shared), "{}", String::from_utf8_lossy(other));
            assert_eq!(relative_locality(other, one), Ok(shared));
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for (other, status) in [
            (&b"elsewhere:SK0"[..], Status::ERR_NOT_SUPPORTED),
            (b"hwloc:XX0", Status::ERR_NOT_SUPPORTED),
            (b"hwloc:SKx", Status::ERR_BAD_PARAM),
            (b"hwloc:SK", Status::ERR_BAD_PARAM),
            (b"hwloc:SK0--1", Status::ERR_BAD_PARAM),
            (b"hwloc:SK99999999999", Status::ERR_BAD_PARAM),
        ] {
            assert_eq!(relative_locality(b"hwloc:SK0", other), Err(status), "{}", String::from_utf8_lossy(other));
        }
    }
}
