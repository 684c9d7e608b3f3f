//! Topologies and cpusets, which belong to hwloc.

use crate::entry::entry;
use crate::types::*;

entry! {
    /// `PMIx_Cpuset_destruct`: nothing to do. The library makes no cpusets, so none that it could free comes here.
    fn PMIx_Cpuset_destruct(_cpuset: *mut pmix_cpuset_t) {}

    /// `PMIx_Topology_destruct`: nothing to do. The library loads no topologies, so none that it could free comes here.
    fn PMIx_Topology_destruct(_topo: *mut pmix_topology_t) {}
}
