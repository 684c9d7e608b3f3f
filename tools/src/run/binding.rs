//! Binding of ranks to cores, by hwloc's picture of the machine.

use hwlocality::Topology;
use hwlocality::cpu::binding::CpuBindingFlags;
use hwlocality::cpu::cpuset::CpuSet;
use hwlocality::object::types::ObjectType;

use super::job::Place;

/// The levels that Open MPI compares, by the names that it knows.
const LEVELS: [(ObjectType, &str); 7] = [
    (ObjectType::NUMANode, "NM"),
    (ObjectType::Package, "SK"),
    (ObjectType::L3Cache, "L3"),
    (ObjectType::L2Cache, "L2"),
    (ObjectType::L1Cache, "L1"),
    (ObjectType::Core, "CR"),
    (ObjectType::PU, "HT"),
];

/// The cores that this process may use, to be given to ranks in turn.
pub struct Cores {
    topology: Topology,
    own: CpuSet,
    cores: Vec<CpuSet>,
}

impl Cores {
    /// Finds the cores.
    ///
    /// # Errors
    /// A message where hwloc cannot tell.
    pub fn find() -> Result<Cores, String> {
        let topology = Topology::new().map_err(|error| format!("hwloc finds no topology: {error}"))?;
        let own = topology
            .cpu_binding(CpuBindingFlags::THREAD)
            .map_err(|error| format!("hwloc cannot tell the own binding: {error}"))?;
        let usable = |ty| -> Vec<CpuSet> {
            let sets = topology.objects_with_type(ty).filter_map(|object| object.cpuset());
            sets.map(|set| &*set & &own).filter(|set| !set.is_empty()).collect()
        };
        let mut cores = usable(ObjectType::Core);
        if cores.is_empty() {
            // Some virtual machines tell of processing units only.
            cores = usable(ObjectType::PU);
        }
        if cores.is_empty() {
            return Err("hwloc finds no core to bind to".into());
        }
        Ok(Cores { topology, own, cores })
    }

    fn of(&self, rank: u32) -> &CpuSet {
        &self.cores[rank as usize % self.cores.len()]
    }

    /// What the job's data say of a rank.
    pub fn place(&self, rank: u32) -> Place {
        let set = self.of(rank);
        let levels = LEVELS.into_iter().filter_map(|(ty, name)| {
            let objects = self.topology.objects_with_type(ty);
            let around = objects.filter(|object| object.cpuset().is_some_and(|cpuset| cpuset.intersects(set)));
            let list = list_form(around.map(|object| object.logical_index()));
            (!list.is_empty()).then(|| format!("{name}{list}"))
        });
        Place {
            cpuset: Some(list_form(set.iter_set().map(usize::from))),
            locality: Some(levels.collect::<Vec<_>>().join(":")),
        }
    }

    /// Runs `start` bound to a rank's core: what it starts inherits the binding.
    ///
    /// # Errors
    /// A message where the kernel does not allow it.
    pub fn bound<R>(&self, rank: u32, start: impl FnOnce() -> R) -> Result<R, String> {
        let bind = |set: &CpuSet| {
            let flags = CpuBindingFlags::THREAD;
            self.topology.bind_cpu(set, flags).map_err(|error| format!("binding to processors {set}: {error}"))
        };
        bind(self.of(rank))?;
        let result = start();
        bind(&self.own)?;
        Ok(result)
    }
}

/// Ascending numbers as `0-2,5`.
fn list_form(numbers: impl Iterator<Item = usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    runs.into_iter().map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_list_form() {
        let form = |numbers: &[usize]| list_form(numbers.iter().copied());
        assert_eq!(form(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(form(&[4]), "4");
        assert_eq!(form(&[]), "");
    }

    #[test]
    fn a_bound_thread_comes_back() {
        let cores = Cores::find().unwrap();
        let count = cores.cores.len() as u32;
        let now = || cores.topology.cpu_binding(CpuBindingFlags::THREAD).unwrap();
        let before = now();
        // One more than there are cores: the first is used again.
        for rank in 0..=count {
            let inside = cores.bound(rank, now).unwrap();
            assert_eq!(inside, cores.cores[(rank % count) as usize]);
            let place = cores.place(rank);
            assert_eq!(place.cpuset, Some(list_form(inside.iter_set().map(usize::from))));
            assert!(place.locality.is_some_and(|locality| locality.contains("HT")));
        }
        assert_eq!(now(), before);
    }
}
