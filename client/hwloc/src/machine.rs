//! The machine's processors, and those that a process may use.

use std::ffi::{CString, c_int, c_void};
use std::io;

use pmix_dstore::model::{Result, Status};

use crate::Hwloc;

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A processor package, or socket.
    Package,
    /// A memory node.
    MemoryNode,
    /// A third-level cache.
    L3,
    /// A second-level cache.
    L2,
    /// A first-level cache for data.
    L1,
    /// A core.
    Core,
    /// A hardware thread, the unit of binding.
    Processor,
}

impl Kind {
    /// `hwloc_obj_type_t`.
    pub const fn code(self) -> c_int {
        match self {
            Kind::Package => 1,
            Kind::Core => 2,
            Kind::Processor => 3,
            Kind::L1 => 4,
            Kind::L2 => 5,
            Kind::L3 => 6,
            Kind::MemoryNode => 13,
        }
    }
}

/// `HWLOC_TYPE_DEPTH_NUMANODE`: the level of memory nodes, outside the tree.
pub const MEMORY: c_int = -3;

/// The machine's processors, with or without its devices.
pub struct Machine {
    hwloc: &'static Hwloc,
    topology: *mut c_void,
}

impl Machine {
    /// Discovers the machine. Devices take most of the time. hwloc's variables `HWLOC_XMLFILE` and `HWLOC_SYNTHETIC` replace the
    /// discovery.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if hwloc cannot be loaded, or its discovery fails.
    pub fn look(has_devices: bool) -> Result<Machine> {
        let hwloc = Hwloc::get()?;
        Ok(Machine { hwloc, topology: hwloc.load(None, has_devices)? })
    }

    /// The machine as XML, in the form of hwloc 2.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if hwloc fails.
    pub fn xml(&self) -> Result<CString> {
        // SAFETY: the topology is hwloc's and lives as long as `self`.
        unsafe { self.hwloc.xml(self.topology, false) }
    }

    /// The processors of each object of a kind, in hwloc's order; empty if the machine has no object of the kind.
    pub fn processors_by(&self, kind: Kind) -> Vec<Vec<u32>> {
        // SAFETY: the topology is hwloc's and lives as long as `self`.
        let levels = unsafe { self.hwloc.levels(self.topology) };
        // SAFETY: as above; the level exists.
        let is_kind = |level: &c_int| unsafe { self.hwloc.kind(self.topology, *level) } == kind.code();
        let level = if kind == Kind::MemoryNode { Some(MEMORY) } else { (0..levels).find(is_kind) };
        let Some(level) = level else { return Vec::new() };
        // SAFETY: as above; objects of these kinds have an hwloc bitmap.
        unsafe { self.hwloc.objects(self.topology, level).map(|object| self.hwloc.numbers(object.cpuset)).collect() }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: the topology is hwloc's and only `self` uses it.
        unsafe { self.hwloc.destroy_topology(self.topology) }
    }
}

/// The length of a processor mask in words: kernels are built for at most 8192 processors.
const MASK_WORDS: usize = 128;

/// The processors that a thread of this process may use; 0 is the caller.
///
/// # Errors
/// `NOT_SUPPORTED` if the system call fails.
pub fn processors_of(thread: libc::pid_t) -> Result<Vec<u32>> {
    let mut mask = [0_u64; MASK_WORDS];
    // SAFETY: the size is that of the mask.
    let status = unsafe { libc::sched_getaffinity(thread, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if status != 0 {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    let is_set = |number: &u32| mask[*number as usize / 64] >> (number % 64) & 1 == 1;
    Ok((0..64 * mask.len() as u32).filter(is_set).collect())
}

/// Binds a thread to these processors; for a single-threaded process this binds the process.
///
/// # Errors
/// As `sched_setaffinity(2)`; `EINVAL` for a number beyond the mask.
pub fn bind(thread: libc::pid_t, processors: &[u32]) -> io::Result<()> {
    let mut mask = [0_u64; MASK_WORDS];
    for number in processors {
        let word = mask.get_mut(*number as usize / 64).ok_or(io::Error::from_raw_os_error(libc::EINVAL))?;
        *word |= 1 << (number % 64);
    }
    // SAFETY: the size is that of the mask.
    let bound = unsafe { libc::sched_setaffinity(thread, size_of_val(&mask), mask.as_ptr().cast()) };
    if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use hwlocality::Topology;
    use hwlocality::object::types::ObjectType;

    use super::*;

    #[test]
    fn machine_agrees_with_hwlocality() {
        let (ours, theirs) = (Machine::look(false).unwrap(), Topology::new().unwrap());
        for (kind, other) in [
            (Kind::Package, ObjectType::Package),
            (Kind::MemoryNode, ObjectType::NUMANode),
            (Kind::L3, ObjectType::L3Cache),
            (Kind::L2, ObjectType::L2Cache),
            (Kind::L1, ObjectType::L1Cache),
            (Kind::Core, ObjectType::Core),
            (Kind::Processor, ObjectType::PU),
        ] {
            let sets = theirs.objects_with_type(other).filter_map(|object| object.cpuset());
            let sets: Vec<Vec<u32>> =
                sets.map(|set| set.iter_set().map(|number| usize::from(number) as u32).collect()).collect();
            assert_eq!(ours.processors_by(kind), sets, "{kind:?}");
        }
    }

    #[test]
    fn a_thread_is_bound_to_the_given_cpuset() {
        let before = processors_of(0).unwrap();
        bind(0, &before[..1]).unwrap();
        assert_eq!(processors_of(0).unwrap(), before[..1]);
        bind(0, &before).unwrap();
        assert_eq!(processors_of(0).unwrap(), before);
        assert_eq!(bind(0, &[1 << 20]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
