//! The binding of ranks to the node's cores.

use std::ffi::CString;
use std::fmt::Write;

use nix::unistd::{Pid, getpid};
use pmix_dstore::model::Status;
use pmix_hwloc::{Kind, Machine, bind, processors_of};

use super::placement::BindTo;

/// The levels of a locality string, with their names in it.
const LEVELS: [(Kind, &str); 7] = [
    (Kind::MemoryNode, "NM"),
    (Kind::Package, "SK"),
    (Kind::L3, "L3"),
    (Kind::L2, "L2"),
    (Kind::L1, "L1"),
    (Kind::Core, "CR"),
    (Kind::Processor, "HT"),
];

/// From this many ranks on they get the node's topology as XML: MPI libraries discover it in each rank otherwise. The discovery of devices,
/// which only the ranks need, delays the start of all. With four ranks it pays (docs/log/wire-up.md); fewer were not measured.
const SHARING_RANKS: u32 = 4;

/// Numbers of processors, ascending.
type Set = Vec<u32>;

/// The node's cores and the binding of ranks to them.
pub(super) struct Binding {
    /// The processors of each object of [`LEVELS`].
    objects: [Vec<Set>; LEVELS.len()],
    slots: u32,
    /// Cores in the order in which ranks are bound to them; empty if ranks are not bound.
    cores: Vec<Set>,
    /// The node's topology with its devices as XML, if ranks get it.
    topology: Option<CString>,
}

impl Binding {
    /// Discovers the node's processors, for this many ranks.
    pub fn new(bind_to: BindTo, ranks: u32) -> Result<Binding, String> {
        let unread = |status: Status| format!("the node's topology cannot be read by libhwloc.so.15: {status}");
        let is_shared = ranks >= SHARING_RANKS;
        let machine = Machine::look(is_shared).map_err(unread)?;
        // Without it each rank makes its own discovery.
        let topology = if is_shared { machine.xml().ok() } else { None };
        let objects = LEVELS.map(|(kind, _)| machine.processors_by(kind));
        let slots = u32::try_from(machine.processors_by(Kind::Processor).len()).unwrap_or(u32::MAX);
        let cores = match bind_to {
            BindTo::None => Vec::new(),
            BindTo::Core => own_cores(machine.processors_by(Kind::Core))?,
        };
        Ok(Binding { objects, slots, cores, topology })
    }

    /// The node's topology for the ranks, as XML of hwloc 2.
    pub fn topology(&self) -> Option<&CString> {
        self.topology.as_ref()
    }

    /// The number of the node's processing units, which is the number of ranks that need not share one.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Whether this many ranks are more than the node has processing units.
    pub fn is_oversubscribed(&self, ranks: u32) -> bool {
        ranks > self.slots
    }

    fn core(&self, rank: u32) -> Option<&Set> {
        match self.cores.len() {
            0 => None,
            count => self.cores.get(rank as usize % count),
        }
    }

    /// The processing units of a rank in hwloc's list form, if ranks are bound.
    pub fn cpuset_list(&self, rank: u32) -> Option<String> {
        let core = self.core(rank)?;
        Some(ranges(core.iter().map(|number| *number as usize)))
    }

    /// The locality string of a rank, which MPI libraries compare: levels with the numbers of the rank's objects.
    pub fn locality(&self, rank: u32) -> Option<String> {
        let core = self.core(rank)?;
        let mut text = String::new();
        for ((_, name), objects) in LEVELS.iter().zip(&self.objects) {
            let is_mine = |set: &Set| set.iter().any(|number| core.contains(number));
            let list = ranges(objects.iter().enumerate().filter(|(_, set)| is_mine(set)).map(|(index, _)| index));
            if !list.is_empty() {
                // Writing to a string does not fail.
                let _ = write!(text, "{}{name}{list}", if text.is_empty() { "" } else { ":" });
            }
        }
        Some(text)
    }

    /// Whether ranks are bound.
    pub fn is_bound(&self) -> bool {
        self.core(0).is_some()
    }

    /// Binds the single-threaded process `parent` as the rank while `start` runs, so that a child inherits the binding.
    pub fn bound<R>(&self, rank: u32, parent: Pid, start: impl FnOnce() -> R) -> Result<R, String> {
        let Some(core) = self.core(rank) else { return Ok(start()) };
        let failed = |error: &dyn std::fmt::Display| format!("rank {rank} cannot be bound to its core: {error}");
        let before = processors_of(parent.as_raw()).map_err(|error| failed(&error))?;
        bind(parent.as_raw(), core).map_err(|error| failed(&error))?;
        let result = start();
        bind(parent.as_raw(), &before).map_err(|error| failed(&error))?;
        Ok(result)
    }
}

/// The part of each core on which the launcher itself may run.
fn own_cores(cores: Vec<Set>) -> Result<Vec<Set>, String> {
    let own = processors_of(getpid().as_raw())
        .map_err(|status| format!("where this process may run is not known: {status}"))?;
    let part = |core: Set| core.into_iter().filter(|number| own.contains(number)).collect();
    let cores: Vec<Set> = cores.into_iter().map(part).filter(|set: &Set| !set.is_empty()).collect();
    if cores.is_empty() { Err("--bind-to core: no cores are known on this node".into()) } else { Ok(cores) }
}

/// Ascending numbers as a list of ranges: `0-3,8`.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let text = runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    text.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ranges() {
        assert_eq!(ranges([].into_iter()), "");
        assert_eq!(ranges([3].into_iter()), "3");
        assert_eq!(ranges([0, 1, 2, 5, 7, 8].into_iter()), "0-2,5,7-8");
    }

    #[test]
    fn ranks_go_round_the_cores() {
        let binding = Binding::new(BindTo::Core, 1).unwrap();
        let count = binding.cores.len() as u32;
        assert_eq!(binding.cpuset_list(0), binding.cpuset_list(count));
        assert!(binding.locality(0).is_some_and(|text| text.contains("CR")));
        assert_eq!(Binding::new(BindTo::None, 1).unwrap().cpuset_list(0), None);
    }
}
