//! The topologies and cpusets that C code passes: which of them are hwloc's.

use std::ffi::{CStr, c_char};

use pmix_client::topology::Topology;
use pmix_dstore::model::{DataType, keys};
use pmix_hwloc::SOURCE;

use super::text::string;
use crate::types::{pmix_info_t, pmix_topology_t};

/// Whether a cpuset or a topology is one of hwloc, by the name of its source.
///
/// # Safety
/// `source` is NULL or a C string.
pub unsafe fn is_hwlocs(source: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    let source = unsafe { string(source) }.map(CStr::to_bytes).unwrap_or_default();
    source.get(..SOURCE.len()).is_some_and(|start| start.eq_ignore_ascii_case(SOURCE))
}

/// The topology among the attributes of a host. It still belongs to the host. If both forms of the attribute are there,
/// `PMIX_TOPOLOGY2` is taken.
///
/// # Safety
/// `infos` is NULL or an array of `count` infos. A value of type TOPO holds NULL or a topology.
pub unsafe fn given(infos: *const pmix_info_t, count: usize) -> Option<Topology> {
    // SAFETY: not NULL, hence an array of `count` infos, by the caller's promise.
    let infos = if infos.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(infos, count) } };
    let find = |key: &str, ty: DataType| {
        let is_it = |info: &&pmix_info_t| {
            let name = info.key.iter().map(|letter| *letter as u8).take_while(|letter| *letter != 0);
            name.eq(key.bytes()) && info.value.type_ == ty.0
        };
        // SAFETY: the union of a value of either type, TOPO or POINTER, holds a pointer.
        infos.iter().find(is_it).map(|info| unsafe { info.value.data.pointer })
    };
    let new = find(keys::TOPOLOGY2, DataType::TOPO).and_then(|given| {
        // SAFETY: NULL or a topology, by the caller's promise, which stays for this call.
        let given = unsafe { given.cast::<pmix_topology_t>().as_ref() }?;
        // SAFETY: the source of a topology is NULL or a C string.
        unsafe { is_hwlocs(given.source) }.then_some(given.topology)
    });
    new.or_else(|| find(keys::TOPOLOGY, DataType::POINTER)).filter(|given| !given.is_null()).map(Topology)
}
