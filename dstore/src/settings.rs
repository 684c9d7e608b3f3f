//! The library's own environment variables, and what is wrong with those that are set.
//!
//! A misspelt name or value would have no effect and say nothing. One process of a node tells of it: the server, or a process that has none.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use crate::environment;
use crate::texts::{Names, names_len};

/// The beginning of their names.
const PREFIX: &str = "PMIX_DSTORE_";

/// The values that a setting takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// Any text; what reads it says what is wrong with it.
    Text,
    /// A number of seconds, as [`seconds`] reads it.
    Seconds,
    /// 0 or 1.
    Switch,
    /// When Slurm is asked for a fence.
    Fences,
    /// What a server sets for its ranks.
    OfServer,
}

impl Values {
    /// The values, if there are few.
    fn listed(self) -> Option<[&'static str; 2]> {
        match self {
            Values::Switch => Some(["0", "1"]),
            Values::Fences => Some(["always", "never"]),
            Values::Text | Values::Seconds | Values::OfServer => None,
        }
    }
}

/// Whom a setting is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    /// Servers and tools.
    Servers,
    /// Ranks, and others.
    Ranks,
}

/// The settings without [`PREFIX`].
const SETTINGS: &[((For, Values), &str)] = &[
    ((For::Ranks, Values::Switch), "SHM"),
    ((For::Servers, Values::Fences), "SLURM_FENCE"),
    ((For::Servers, Values::Switch), "TRUST_CLAIMS"),
    ((For::Servers, Values::Switch), "TOOL_PROOF"),
    ((For::Servers, Values::Seconds), "GET_WAIT"),
    ((For::Servers, Values::Seconds), "RESTART"),
    ((For::Ranks, Values::Text), "LOG"),
    ((For::Ranks, Values::Text), "LOG_FILE"),
    ((For::Ranks, Values::Switch), "TRACE"),
    ((For::Ranks, Values::Switch), "SUMMARY"),
    ((For::Ranks, Values::Switch), "STATS"),
    ((For::Ranks, Values::Switch), "RECORD"),
    ((For::Ranks, Values::Text), "DUMP_SIGNAL"),
    ((For::Servers, Values::OfServer), "SEGMENTS"),
    ((For::Servers, Values::OfServer), "INODE"),
    ((For::Servers, Values::OfServer), "SECRET"),
    ((For::Servers, Values::OfServer), "SERVER"),
];
/// The same in the form in which they are looked up.
static NAMES: Names<(For, Values), { SETTINGS.len() }, { names_len(SETTINGS) }> = Names::new(SETTINGS);

/// A year.
const SECONDS_MAX: f64 = 31_536_000.0;

/// The time that a setting names in seconds; `None` if it names none.
pub fn seconds(value: &str) -> Option<Duration> {
    let seconds = value.parse::<f64>().ok()?;
    (0.0..=SECONDS_MAX).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// Whether a variable of this name is a setting that users make for ranks. A launcher passes it on.
pub fn is_for_ranks(name: &str) -> bool {
    find(name).is_some_and(|(whom, _)| whom == For::Ranks)
}

/// By these a launcher tells its ranks how to reach it by PMI-1 or PMI-2. A user's own, such as `PMI_DEBUG`, are others.
const PMI_VARIABLES: [&str; 7] = ["PMI_FD", "PMI_PORT", "PMI_ID", "PMI_RANK", "PMI_SIZE", "PMI_SPAWNED", "PMI_JOBID"];

/// Whether a variable belongs to the PMIx or PMI server of an outer launcher. A client would use it, so launchers keep it from their ranks.
/// Ranks do get the variables with which users configure the library.
pub fn is_of_launcher(name: &OsStr) -> bool {
    let is_setting = name.to_str().is_some_and(is_for_ranks);
    let name = name.as_encoded_bytes();
    let is_pmi = PMI_VARIABLES.iter().any(|variable| name == variable.as_bytes());
    is_pmi || name.starts_with(b"PMIX_") && !name.starts_with(b"PMIX_MCA_") && !is_setting
}

/// Whom the setting of this name is for, and its values.
fn find(name: &str) -> Option<(For, Values)> {
    let name = name.strip_prefix(PREFIX)?;
    NAMES.rows().find(|(_, known)| *known == name).map(|(setting, _)| setting)
}

/// A line for each setting of this process that has no effect.
pub fn complaints() -> Vec<String> {
    if !environment::has(|variable| variable.starts_with(PREFIX.as_bytes())) {
        return Vec::new();
    }
    let mut lines: Vec<String> = std::env::vars_os().filter_map(|(name, value)| complaint(&name, &value)).collect();
    lines.sort();
    lines
}

fn complaint(name: &OsStr, value: &OsString) -> Option<String> {
    let name = name.to_str().filter(|name| name.starts_with(PREFIX))?;
    let listed = find(name).and_then(|(_, values)| values.listed());
    match (find(name), listed) {
        // A stock server's, for its own shared memory.
        (None, _) if name.ends_with("_BASE_PATH") => None,
        (None, _) => {
            let set_by_users = NAMES.rows().filter(|((_, values), _)| *values != Values::OfServer);
            let names: Vec<&str> = set_by_users.map(|(_, name)| name).collect();
            Some(format!("{name} is no setting of this library; settings are {PREFIX} with {}", names.join(", ")))
        }
        (_, Some(values)) if !value.is_empty() && !values.iter().any(|known| value == known) => {
            Some(format!("{name}={} has no effect; values are {}", value.to_string_lossy(), values.join(" and ")))
        }
        (Some((_, Values::Seconds)), _) if !value.is_empty() && value.to_str().and_then(seconds).is_none() => {
            let value = value.to_string_lossy();
            Some(format!("{name}={value} has no effect; it takes seconds, such as 0.5, up to {SECONDS_MAX}"))
        }
        (Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_and_values_are_told() {
        let said = |name: &str, value: &str| complaint(OsStr::new(name), &value.into());
        for (name, value) in [
            ("PMIX_DSTORE_SHM", "0"),
            ("PMIX_DSTORE_LOG", "loud"),
            ("PMIX_DSTORE_SHM", ""),
            ("PMIX_RANK", "x"),
            ("PMIX_DSTORE_SECRET", "x"),
            (concat!("PMIX_DSTORE_", "21_BASE_PATH"), "/tmp"),
            (concat!("PMIX_DSTORE_", "ESH_BASE_PATH"), "/tmp"),
            ("PMIX_DSTORE_GET_WAIT", "0"),
            ("PMIX_DSTORE_GET_WAIT", "2.5"),
        ] {
            assert_eq!(said(name, value), None, "{name}={value}");
        }
        assert_eq!(
            said("PMIX_DSTORE_SHM", "off").as_deref(),
            Some("PMIX_DSTORE_SHM=off has no effect; values are 0 and 1")
        );
        for none in ["soon", "-1", "NaN", "1e9", "2 s"] {
            let told = said("PMIX_DSTORE_GET_WAIT", none);
            assert!(told.is_some_and(|told| told.contains("has no effect; it takes seconds")), "{none}");
        }
        let misspelt = format!("{PREFIX}SMH");
        let unknown = said(&misspelt, "0").unwrap();
        assert!(unknown.starts_with(&format!("{misspelt} is no setting")) && unknown.contains(", TRACE,"), "{unknown}");
        assert!(!unknown.contains("SECRET"), "{unknown}");
    }
}
