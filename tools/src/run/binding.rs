//! Which rank runs where on the node.

use std::fmt::Write;

use hwlocality::Topology;
use hwlocality::cpu::binding::CpuBindingFlags;
use hwlocality::cpu::cpuset::CpuSet;
use hwlocality::object::types::ObjectType;
use nix::unistd::Pid;

use super::args::BindTo;

/// The node's cores, where ranks are bound to them.
pub(super) struct Binding {
    topology: Topology,
    /// Cores in the order in which they are given to ranks; empty where ranks run anywhere.
    cores: Vec<CpuSet>,
}

impl Binding {
    /// Looks at the node.
    pub fn new(bind_to: BindTo) -> Result<Binding, String> {
        let topology = Topology::new().map_err(|error| format!("the node's topology cannot be read: {error}"))?;
        let cores: Vec<CpuSet> = match bind_to {
            BindTo::None => Vec::new(),
            BindTo::Core => {
                // Of cores that the launcher itself has in part, ranks get that part.
                let own = topology
                    .cpu_binding(CpuBindingFlags::PROCESS)
                    .map_err(|error| format!("where this process may run is not known: {error}"))?;
                let cores = topology.objects_with_type(ObjectType::Core).filter_map(|core| core.cpuset());
                cores.map(|set| set.clone_target() & &own).filter(|set| !set.is_empty()).collect()
            }
        };
        if bind_to == BindTo::Core && cores.is_empty() {
            return Err("--bind-to core: no cores are known on this node".into());
        }
        Ok(Binding { topology, cores })
    }

    /// Processing units of the node: as many ranks fit without sharing one.
    pub fn slots(&self) -> u32 {
        u32::try_from(self.topology.objects_with_type(ObjectType::PU).count()).unwrap_or(u32::MAX)
    }

    fn core(&self, rank: u32) -> Option<&CpuSet> {
        match self.cores.len() {
            0 => None,
            count => self.cores.get(rank as usize % count),
        }
    }

    /// The processing units of a rank in hwloc's list form, where it is bound.
    pub fn cpuset_list(&self, rank: u32) -> Option<String> {
        let core = self.core(rank)?;
        Some(ranges(core.iter_set().map(usize::from)))
    }

    /// Where a rank is in the node, in the form that MPI libraries compare: levels with the numbers of their objects.
    pub fn locality(&self, rank: u32) -> Option<String> {
        const LEVELS: [(ObjectType, &str); 7] = [
            (ObjectType::NUMANode, "NM"),
            (ObjectType::Package, "SK"),
            (ObjectType::L3Cache, "L3"),
            (ObjectType::L2Cache, "L2"),
            (ObjectType::L1Cache, "L1"),
            (ObjectType::Core, "CR"),
            (ObjectType::PU, "HT"),
        ];
        let core = self.core(rank)?;
        let mut text = String::new();
        for (level, name) in LEVELS {
            let objects = self.topology.objects_with_type(level);
            let mine = objects.filter(|object| object.cpuset().is_some_and(|set| set.intersects(core)));
            let list = ranges(mine.map(|object| object.logical_index()));
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

    /// Runs `start` while the process `parent` has the binding of the rank: a child inherits it.
    pub fn bound<R>(&self, rank: u32, parent: Pid, start: impl FnOnce() -> R) -> Result<R, String> {
        let Some(core) = self.core(rank) else { return Ok(start()) };
        let failed = |error: &dyn std::fmt::Display| format!("rank {rank} cannot be bound to its core: {error}");
        let (parent, flags) = (parent.as_raw().unsigned_abs(), CpuBindingFlags::empty());
        let before = self.topology.process_cpu_binding(parent, flags).map_err(|error| failed(&error))?;
        self.topology.bind_process_cpu(parent, core, flags).map_err(|error| failed(&error))?;
        let result = start();
        self.topology.bind_process_cpu(parent, &before, flags).map_err(|error| failed(&error))?;
        Ok(result)
    }
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
        let binding = Binding::new(BindTo::Core).unwrap();
        let count = binding.cores.len() as u32;
        assert_eq!(binding.cpuset_list(0), binding.cpuset_list(count));
        assert!(binding.locality(0).is_some_and(|text| text.contains("CR")));
        assert_eq!(Binding::new(BindTo::None).unwrap().cpuset_list(0), None);
    }
}
