//! Attributes whose key differs between releases.
//!
//! Each of these attributes had, by oversight, the key of another attribute, and received its own key in a later
//! release. The older key is ambiguous, so it always means the other attribute. The newer key is not translated. Where
//! the context identifies the attribute, both keys are sent: see [`say_both`].

use super::{Info, Query, Value, keys};

/// An attribute that has two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The attribute.
    pub name: &'static str,
    /// Its key in releases before `since`.
    pub older: &'static str,
    /// Its key from `since` on, as in [`keys`].
    pub newer: &'static str,
    /// The first release with the newer key.
    pub since: &'static str,
    /// The attribute that has the older key.
    pub other: &'static str,
}

/// The attribute that queries the qualifiers that a query supports.
const SUPPORTED_QUALIFIERS: Renamed = Renamed {
    name: "PMIX_QUERY_SUPPORTED_QUALIFIERS",
    older: keys::QUERY_QUALIFIERS,
    newer: keys::QUERY_SUPPORTED_QUALIFIERS,
    since: "7.0",
    other: "PMIX_QUERY_QUALIFIERS",
};

/// All renamed attributes.
pub const RENAMED: [Renamed; 4] = [
    SUPPORTED_QUALIFIERS,
    Renamed {
        name: "PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT",
        older: keys::JOB_CTRL_CHECKPOINT_SIGNAL,
        newer: keys::JOB_CTRL_CHECKPOINT_TIMEOUT,
        since: "7.0",
        other: "PMIX_JOB_CTRL_CHECKPOINT_SIGNAL",
    },
    Renamed {
        name: "PMIX_FABRIC_DEVICE_COORDINATES",
        older: keys::FABRIC_COORDINATES,
        newer: keys::FABRIC_DEVICE_COORDINATES,
        since: "7.0",
        other: "PMIX_FABRIC_COORDINATES",
    },
    Renamed {
        name: "PMIX_PROGRESS_THREAD_NAME",
        older: keys::EVENT_HDLR_NAME,
        newer: keys::PROGRESS_THREAD_NAME,
        since: "7.0",
        other: "PMIX_EVENT_HDLR_NAME",
    },
];

/// Adds the missing key to queries that ask for the supported qualifiers under one of the two keys. The answering
/// process may know only the missing one.
///
/// As a qualifier, the older key has no other meaning: the attribute that shares it occurs in results and holds an array.
pub fn say_both(queries: &mut [Query]) {
    let Renamed { older, newer, .. } = SUPPORTED_QUALIFIERS;
    for query in queries {
        let find = |key: &str| query.qualifiers.iter().find(|info| info.key.is(key));
        let asks = |info: &&Info| !matches!(info.value, Value::DataArray(_));
        let (info, key) = match (find(older).filter(asks), find(newer)) {
            (Some(info), None) => (info, newer),
            (None, Some(info)) => (info, older),
            _ => continue,
        };
        // If the copy cannot be allocated, the query goes out with one key.
        if let Ok(copy) = info.copy() {
            query.qualifiers.push(Info { key: key.into(), ..copy });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(key: &'static str, value: Value) -> Vec<Info> {
        let mut queries = [Query { keys: Vec::new(), qualifiers: vec![Info::new(key, value)] }];
        say_both(&mut queries);
        say_both(&mut queries);
        queries[0].qualifiers.clone()
    }

    #[test]
    fn either_key_brings_the_other_one_once() {
        let asked = |key| Info::new(key, Value::Bool(true));
        let (older, newer) = (asked("pmix.qry.quals"), asked("pmix.qry.supqual"));
        assert_eq!(said("pmix.qry.quals", Value::Bool(true)), [older.clone(), newer.clone()]);
        assert_eq!(said("pmix.qry.supqual", Value::Bool(true)), [newer, older]);
    }

    #[test]
    fn the_attribute_that_has_the_older_key_is_left_alone() {
        let array = Value::infos(Vec::new());
        assert_eq!(said("pmix.qry.quals", array).len(), 1);
        assert_eq!(said("pmix.jctrl.ckpttime", Value::Int(3)).len(), 1);
    }
}
