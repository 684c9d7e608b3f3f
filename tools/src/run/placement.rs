//! `--map-by` and `--bind-to` in the words of Open MPI and MPICH. On one node `pmixrun` binds each rank to a core of its own, in the order of
//! ranks, or leaves ranks to the kernel; what asks for anything else is refused by its name.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};

/// Reads the words of an option, of which help and completions name the common ones.
#[derive(Clone)]
pub(super) struct Words<T> {
    read: fn(&str) -> Result<T, String>,
    common: &'static [&'static str],
}

/// The words of `--bind-to`.
pub(super) const BIND_TO: Words<BindTo> = Words { read: bind_to, common: &["core", "none"] };
/// The words of `--map-by`.
pub(super) const MAP_BY: Words<MapBy> = Words { read: map_by, common: &["slot", "node", "core", "ppr:1:node"] };

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Words<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        self.read.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.common.iter().copied().map(PossibleValue::new)))
    }
}

/// What a word of `--bind-to` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindTo {
    /// Not bound.
    None,
    /// Each rank to its own core.
    Core,
}

/// What a word of `--map-by` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapBy {
    /// Ranks go round the cores.
    pub by_core: bool,
    /// So many ranks for each node, hence altogether.
    pub per_node: Option<u32>,
    /// More ranks than slots are welcome.
    pub oversubscribes: bool,
}

/// Reads the word of `--bind-to`.
fn bind_to(text: &str) -> Result<BindTo, String> {
    let (what, modifiers) = text.split_once(':').unwrap_or((text, ""));
    for modifier in modifiers.split(',').filter(|modifier| !modifier.is_empty()) {
        // Ranks beyond the number of cores share them, and a node without hwloc's cores is an error.
        if !["overload-allowed", "if-supported"].iter().any(|known| modifier.eq_ignore_ascii_case(known)) {
            return Err(format!("the modifier {modifier} is not known; type core or none"));
        }
    }
    match what.to_ascii_lowercase().as_str() {
        // The whole node is where ranks run anyway.
        "none" | "machine" | "node" => Ok(BindTo::None),
        "core" => Ok(BindTo::Core),
        _ => Err("pmixrun binds each rank to a core of its own (type core) or to nothing (type none); mpirun and prterun bind to other parts".into()),
    }
}

/// Reads the word of `--map-by`.
fn map_by(text: &str) -> Result<MapBy, String> {
    const NEXT: &str = "pmixrun takes slot, node, core and ppr:N:node, and mpirun and prterun the others";
    let (mut map, mut modifiers) = (MapBy::default(), text.split(':'));
    let what = modifiers.next().unwrap_or_default();
    match what.to_ascii_lowercase().as_str() {
        // On one node these are the order of ranks.
        "slot" | "node" => {}
        "core" => map.by_core = true,
        "ppr" => {
            let count = modifiers.next().and_then(|count| count.parse::<u32>().ok()).filter(|count| *count > 0);
            let is_node = modifiers.next().is_some_and(|part| part.eq_ignore_ascii_case("node"));
            map.per_node = count.filter(|_| is_node);
            if map.per_node.is_none() {
                return Err(format!("of ppr it is ppr:N:node that works on one node; {NEXT}"));
            }
        }
        _ => return Err(format!("ranks are not placed by {what}; {NEXT}")),
    }
    for modifier in modifiers.flat_map(|list| list.split(',')) {
        match modifier.to_ascii_lowercase().as_str() {
            "oversubscribe" => map.oversubscribes = true,
            "" | "nooversubscribe" => {}
            _ => return Err(format!("the modifier {modifier} is not known; OVERSUBSCRIBE and NOOVERSUBSCRIBE are")),
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_launchers_do_what_they_say_or_are_refused() {
        let default = MapBy::default();
        for (text, map) in [
            ("slot", default),
            ("node", default),
            ("NODE:NOOVERSUBSCRIBE", default),
            ("core", MapBy { by_core: true, ..default }),
            ("slot:OVERSUBSCRIBE", MapBy { oversubscribes: true, ..default }),
            ("ppr:3:node", MapBy { per_node: Some(3), ..default }),
            ("ppr:3:node:oversubscribe", MapBy { per_node: Some(3), oversubscribes: true, ..default }),
        ] {
            assert_eq!(map_by(text), Ok(map), "{text}");
        }
        for text in
            ["socket", "numa", "hwthread", "seq", "ppr:2:socket", "ppr:x:node", "ppr", "core:PE=2", "dist:auto", ""]
        {
            assert!(map_by(text).is_err(), "{text}");
        }
        for (text, bind) in [
            ("none", BindTo::None),
            ("machine", BindTo::None),
            ("core", BindTo::Core),
            ("core:overload-allowed", BindTo::Core),
            ("CORE:if-supported", BindTo::Core),
        ] {
            assert_eq!(bind_to(text), Ok(bind), "{text}");
        }
        for text in ["socket", "numa", "hwthread", "l3cache", "core:now", "user:0,1", ""] {
            assert!(bind_to(text).is_err(), "{text}");
        }
    }
}
