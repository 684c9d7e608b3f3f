//! Checks a host's registration: refuses contradictions and values that cannot be interpreted.
//!
//! Unusual registrations are accepted: hosts register unknown keys, numbers of other types, and fewer processes than their maps
//! have. Only values that would make a reply wrong are refused.

use std::borrow::Cow;
use std::collections::HashSet;

use super::refused::{Refused, Result};
use super::{JobData, Maps, Values, peers_of};
use crate::codec::ValueRef;
use crate::fallible_alloc;
use crate::maps::parse_regex2;
use crate::model::{DataType, Info, Key, Value, keys};

/// Placement attributes of a process.
pub(super) const PLACES: [&str; 4] = [keys::HOSTNAME, keys::NODEID, keys::LOCAL_RANK, keys::NODE_RANK];

const ARRAYS: [&str; 6] = [
    keys::SESSION_INFO_ARRAY,
    keys::JOB_INFO_ARRAY,
    keys::APP_INFO_ARRAY,
    keys::NODE_INFO_ARRAY,
    keys::PROC_INFO_ARRAY,
    keys::PROC_DATA,
];

/// Numbers that the library interprets; any integer type is accepted.
const NUMBERS: [&str; 17] = [
    keys::RANK,
    keys::APPNUM,
    keys::NODEID,
    keys::SESSION_ID,
    keys::JOB_SIZE,
    keys::LOCAL_SIZE,
    keys::APP_SIZE,
    keys::NODE_SIZE,
    keys::UNIV_SIZE,
    keys::MAX_PROCS,
    keys::NUM_NODES,
    keys::JOB_NUM_APPS,
    keys::NPROC_OFFSET,
    keys::GLOBAL_RANK,
    keys::APP_RANK,
    keys::LOCAL_RANK,
    keys::NODE_RANK,
];

/// Texts that the library interprets.
const TEXTS: [&str; 3] = [keys::HOSTNAME, keys::HOSTNAME_ALIASES, keys::NODE_LIST];

/// Whether values under this key must be arrays of infos.
pub(super) fn is_array(key: &Key) -> bool {
    ARRAYS.iter().any(|array| key.is(array))
}

/// Whether the key is a placement attribute of a process.
pub(super) fn is_place(key: &Key) -> bool {
    PLACES.iter().any(|place| key.is(place))
}

/// The form that values under a key must have.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Array,
    Number,
    Text,
    /// A list of ranks.
    Peers,
    Any,
}

impl Form {
    pub fn of(key: &Key) -> Form {
        let is_one_of = |keys: &[&str]| keys.iter().any(|name| key.is(name));
        match () {
            () if is_array(key) => Form::Array,
            () if is_one_of(&NUMBERS) => Form::Number,
            () if key.is(keys::LOCAL_PEERS) => Form::Peers,
            () if is_one_of(&TEXTS) => Form::Text,
            () => Form::Any,
        }
    }

    /// Whether a value certainly has this form. `plain` is the value if it is a number or a text.
    #[inline]
    pub fn fits(self, plain: Option<ValueRef<'_>>) -> bool {
        match self {
            Form::Number => plain.is_some_and(|value| value.as_u32().is_some()),
            Form::Text => matches!(plain, Some(ValueRef::Str(_))),
            Form::Array | Form::Peers => false,
            Form::Any => true,
        }
    }

    /// Whether all numbers, or all texts, of a type have this form.
    pub fn fits_all_of(self, ty: DataType) -> bool {
        let is_text = ty == DataType::STRING;
        match self {
            Form::Number => matches!(ty, DataType::UINT8 | DataType::UINT16 | DataType::UINT32 | DataType::PROC_RANK),
            Form::Text => is_text,
            Form::Array | Form::Peers => false,
            // In C, a true value may be any nonzero number.
            Form::Any => is_text || ty.scalar_width().is_some() && ty != DataType::BOOL,
        }
    }
}

/// Checks the type of a value.
pub(super) fn form(info: &Info) -> Result<()> {
    let of = |what: &str| Err(Refused::new(info.key.clone(), format!("{} is not {what}", info.value.data_type())));
    match (Form::of(&info.key), &info.value) {
        (Form::Array, Value::DataArray(array)) if array.items.is_empty() => {
            Err(Refused::new(info.key.clone(), "the array is empty"))
        }
        (Form::Array, Value::DataArray(array)) if array.items.iter().all(|item| matches!(item, Value::Info(_))) => {
            Ok(())
        }
        (Form::Array, _) => of("an array of infos"),
        (Form::Number, value) if value.as_u32().is_none() => of("a number in range"),
        (Form::Text | Form::Peers, value) if !matches!(value, Value::String(_)) => of("a string"),
        (Form::Peers, value) if peers_of(value).is_none() => Err(Refused::new(info.key.clone(), "not a list of ranks")),
        _ => Ok(()),
    }
}

/// The bytes of a map.
pub(super) fn map_bytes(info: &Info) -> Result<Cow<'_, [u8]>> {
    match &info.value {
        Value::Regex(bytes) | Value::ByteObject(bytes) => Ok(Cow::Borrowed(bytes)),
        Value::Regex2 { ty, bytes } => parse_regex2(ty.as_deref(), bytes)
            .map(Cow::Owned)
            .map_err(|status| Refused::new(info.key.clone(), format!("the map cannot be read: {status}"))),
        other => other
            .as_text()
            .map(Cow::Borrowed)
            .ok_or_else(|| Refused::new(info.key.clone(), format!("{} is not a map", info.value.data_type()))),
    }
}

/// Checks each map, and the maps against each other. `is_once`: each rank is known to be on one node only.
pub(super) fn maps(maps: &Maps, is_once: bool) -> Result<()> {
    let names = maps.nodes.as_deref().unwrap_or_default();
    let mut known = HashSet::new();
    if let Some(twice) = names.iter().find(|name| !known.insert(name.as_slice())) {
        let why = format!("node {} occurs twice", String::from_utf8_lossy(twice));
        return Err(Refused::new(keys::NODE_MAP, why));
    }
    let Some(procs) = &maps.procs else { return Ok(()) };
    if procs.len() > names.len() {
        // The process map places ranks on the nodes of the node map, which may be from an earlier registration.
        let why = format!("ranks on {} nodes, but {} has {}", procs.len(), keys::NODE_MAP, names.len());
        return Err(Refused::new(keys::PROC_MAP, why));
    }
    match if is_once { None } else { duplicate(procs)? } {
        Some(twice) => Err(Refused::new(keys::PROC_MAP, format!("rank {twice} occurs twice"))),
        None => Ok(()),
    }
}

/// A rank that occurs twice. A job usually has nearly all ranks up to the highest: one bit for each is faster than sorting.
fn duplicate(procs: &[Vec<u32>]) -> crate::model::Result<Option<u32>> {
    let ranks = || procs.iter().flatten().copied();
    let (count, highest) = (ranks().count(), ranks().max().unwrap_or(0) as usize);
    if highest / u32::BITS as usize <= count {
        let mut known = fallible_alloc::filled(0u64, highest / 64 + 1)?;
        return Ok(ranks().find(|rank| {
            let (word, bit) = (&mut known[*rank as usize / 64], 1 << (rank % 64));
            let is_known = *word & bit != 0;
            *word |= bit;
            is_known
        }));
    }
    let mut all = fallible_alloc::vec(count)?;
    all.extend(ranks());
    all.sort_unstable();
    Ok(all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]))
}

/// Checks the host's sizes and placements against the maps. `is_map_new`: this registration has a node map.
pub(super) fn sizes(job: &JobData, is_map_new: bool) -> Result<()> {
    let number = |values: &Values, key: &str| values.get(key.as_bytes()).and_then(Value::as_u32);
    let job_size = number(&job.job, keys::JOB_SIZE);
    let names = job.maps.nodes.as_deref().unwrap_or_default();
    if let Some(said) = number(&job.job, keys::NUM_NODES).filter(|said| (*said as usize) < names.len()) {
        let why = format!("{said}, but {} has {}", keys::NODE_MAP, names.len());
        return Err(Refused::new(keys::NUM_NODES, why));
    }
    match &job.maps.procs {
        Some(procs) => {
            let placed: usize = procs.iter().map(Vec::len).sum();
            // Fewer processes than the map has can be intended; further processes would have no node.
            if let Some(said) = job_size.filter(|said| *said as usize > placed) {
                let why = format!("{said}, but {} has {placed} ranks", keys::PROC_MAP);
                return Err(Refused::new(keys::JOB_SIZE, why));
            }
        }
        None => {
            let is_placed = |key: &str| job.procs.columns().any(|(column, _)| column.is(key));
            let has_peers = |values: &Values| values.contains_key(keys::LOCAL_PEERS.as_bytes());
            let known = is_placed(keys::HOSTNAME) || is_placed(keys::NODEID);
            if is_map_new && !known && !job.nodes.iter().any(|node| has_peers(&node.values)) {
                let why = format!("{} lists nodes, but no value places ranks on them", keys::NODE_MAP);
                return Err(Refused::new(keys::PROC_MAP, why));
            }
        }
    }
    let of_apps: u64 = job.apps.values().filter_map(|app| number(app, keys::APP_SIZE)).map(u64::from).sum();
    if let Some(size) = job_size.filter(|size| of_apps > u64::from(*size)) {
        let why = format!("{of_apps} in all applications, but {} is {size}", keys::JOB_SIZE);
        return Err(Refused::new(keys::APP_SIZE, why));
    }
    for (row, node) in job.nodes.iter().enumerate() {
        let mapped = job.maps.procs.as_ref().filter(|_| row < names.len());
        let mapped = mapped.map(|procs| procs.get(row).map_or(&[][..], Vec::as_slice));
        let said = node.values.get(keys::LOCAL_PEERS.as_bytes()).and_then(peers_of);
        let name = String::from_utf8_lossy(&node.hostname);
        if let (Some(said), Some(mapped)) = (&said, mapped)
            && sorted(said) != sorted(mapped)
        {
            let why = format!("the ranks of node {name} differ from those in {}", keys::PROC_MAP);
            return Err(Refused::new(keys::LOCAL_PEERS, why));
        }
        let count = said.as_deref().or(mapped).map(<[u32]>::len);
        if let (Some(size), Some(count)) = (number(&node.values, keys::LOCAL_SIZE), count)
            && size as usize != count
        {
            return Err(Refused::new(keys::LOCAL_SIZE, format!("{size} for node {name}, which has {count} ranks")));
        }
    }
    Ok(())
}

pub(super) fn sorted(ranks: &[u32]) -> Vec<u32> {
    let mut ranks = ranks.to_vec();
    ranks.sort_unstable();
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_occur_twice_are_found_among_few_and_many() {
        for far in [0, 1 << 20] {
            let map = |last: u32| [vec![64, 0, far + 130], vec![3, 63], vec![], vec![far + 65, last]];
            for twice in [0, 64, 63, far + 130, far + 65] {
                assert_eq!(duplicate(&map(twice)), Ok(Some(twice)), "{far}");
            }
            assert_eq!(duplicate(&map(far + 129)), Ok(None), "{far}");
        }
        assert_eq!(duplicate(&[]), Ok(None));
    }
}
