//! The machine's topology (hwloc), loaded on demand.
//!
//! It is loaded at the first use: from the XML that the server shares with its clients, or else by hwloc's discovery.
//! It stays loaded until the process ends, because callers have pointers to it.

use std::ffi::{CStr, CString, c_int, c_void};

use parking_lot::Mutex;
use pmix_dstore::model::{DeviceDistance, Info, Proc, Rank, Result, Status, Value, keys};

use pmix_hwloc::{Hwloc, Kind, MEMORY, Object};

use crate::process;

/// An hwloc topology.
#[derive(Clone, Copy, PartialEq)]
pub struct Topology(pub *mut c_void);

// SAFETY: a loaded topology is only read, and hwloc allows concurrent reads.
unsafe impl Send for Topology {}

/// The topology of this process.
static OWN: Mutex<Option<Topology>> = Mutex::new(None);

/// The kinds of objects in a locality string, with their names there.
const NAMED: [(Kind, &str); 6] = [
    (Kind::Package, "SK"),
    (Kind::L1, "L1"),
    (Kind::L2, "L2"),
    (Kind::L3, "L3"),
    (Kind::Core, "CR"),
    (Kind::Processor, "HT"),
];
/// `HWLOC_TYPE_DEPTH_OS_DEVICE`.
const DEVICES: c_int = -6;

/// The topology of this process, loaded at the first call.
///
/// # Errors
/// `NOT_SUPPORTED` if hwloc is missing or cannot discover the machine.
pub fn own() -> Result<Topology> {
    let mut own = OWN.lock();
    if let Some(topology) = *own {
        return Ok(topology);
    }
    let hwloc = Hwloc::get()?;
    let shared = shared().iter().find_map(|xml| hwloc.topology(Some(xml)).ok());
    let topology = Topology(shared.map_or_else(|| hwloc.topology(None), Ok)?);
    *own = Some(topology);
    Ok(topology)
}

/// Uses a topology from the host as that of this process, unless one is loaded already.
pub fn adopt(topology: Topology) {
    OWN.lock().get_or_insert(topology);
}

/// Whether this is the topology of this process.
pub fn is_own(topology: Topology) -> bool {
    *OWN.lock() == Some(topology)
}

/// The XML topologies that the server shares.
fn shared() -> Vec<CString> {
    let optional = [Info::new(keys::OPTIONAL, Value::Bool(true))];
    let Some(client) = process::hold() else { return Vec::new() };
    let job = Proc::new(client.me().nspace.clone(), Rank::WILDCARD);
    let find = |key: &str| match client.get_value(&job, key, &optional) {
        Ok(Value::String(xml)) => xml,
        _ => None,
    };
    [keys::HWLOC_XML_V2, keys::HWLOC_XML_V1].into_iter().filter_map(find).collect()
}

/// The XML of this process's topology, in the format of hwloc 2, and in the format of hwloc 1 if that is possible.
///
/// # Errors
/// As [`own`].
pub fn to_xml() -> Result<(CString, Option<CString>)> {
    let (hwloc, topology) = (Hwloc::get()?, own()?);
    // SAFETY: the process's topology was made by hwloc and is never freed.
    unsafe { Ok((hwloc.xml(topology.0, false)?, hwloc.xml(topology.0, true).ok())) }
}

/// The topology of this process as a value. Each copy of the value becomes a separate topology.
///
/// # Errors
/// As [`own`].
pub fn to_keep() -> Result<Value> {
    let (hwloc, topology) = (Hwloc::get()?, own()?.0);
    // SAFETY: the process's topology was made by hwloc and is never freed.
    let (xml, support) = unsafe { (hwloc.xml(topology, false)?, hwloc.support(topology)) };
    Ok(Value::Topology { xml: Some(xml), support })
}

/// A topology as text, in the format of the stock library: each object with hwloc's description, its children below it
/// and indented.
///
/// # Errors
/// As [`own`]; `NOT_SUPPORTED` if the XML is not a topology.
pub fn in_words(xml: &CStr, support: &[u8]) -> Result<Vec<u8>> {
    let hwloc = Hwloc::get()?;
    let topology = hwloc.topology(Some(xml))?;
    let mut words = Vec::new();
    // SAFETY: the topology was made by hwloc, nothing else uses it, and its objects are not used after it is destroyed.
    unsafe {
        let told = hwloc.objects(topology, 0).try_for_each(|machine| tell(hwloc, machine, 0, support, &mut words));
        hwloc.destroy_topology(topology);
        told?;
    }
    words.push(b'\n');
    Ok(words)
}

/// The last bytes of a topology's support data are about binding: to processors, then to memory.
const BINDING: usize = 26;
/// Offsets in those bytes, and the text for each.
const BOUND: [(usize, &str); 4] = [(0, "CPU proc:  "), (4, "CPU thread:"), (11, "MEM proc:  "), (15, "MEM thread:")];

/// Describes an object and its children. The binding support is described at the machine, which is the root.
///
/// # Safety
/// The object is hwloc's.
unsafe fn tell(hwloc: &Hwloc, object: &Object, depth: usize, support: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let line = format!("\n{}", "\t".repeat(depth + 1));
    let separator = CString::new(line.as_str()).unwrap_or_default();
    // SAFETY: the object is hwloc's; its names are C strings, and its bitmaps are hwloc's.
    let (kind, attributes, name, mask) = unsafe {
        let (kind, attributes) = (hwloc.kind_name(object), hwloc.attributes(object, &separator));
        (kind, attributes, text(object.name), hwloc.mask(object.cpuset)?)
    };
    let mut add = |part: &[u8]| out.extend_from_slice(part);
    add(&[b"Type: ", &kind[..]].concat());
    add(format!(" Number of child objects: {}", object.children().count()).as_bytes());
    add(format!("{line}Name={}", name.as_deref().unwrap_or("NULL")).as_bytes());
    if !attributes.is_empty() {
        add(&[line.as_bytes(), &attributes].concat());
    }
    add(&[line.as_bytes(), b"Cpuset:  ", &mask].concat());
    // All zero: the topology is of another machine, where nothing can be bound.
    match support.last_chunk::<BINDING>().filter(|binding| **binding != [0; BINDING]) {
        _ if depth > 0 => {}
        None => add(format!("{line}Bind support:    not available").as_bytes()),
        Some(binding) => BOUND.iter().for_each(|(at, what)| {
            let can = if binding[*at] != 0 { "TRUE" } else { "FALSE" };
            add(format!("{line}Bind {what} {can}").as_bytes());
        }),
    }
    for child in object.children() {
        out.extend_from_slice(line.as_bytes());
        // SAFETY: the object is hwloc's.
        unsafe { tell(hwloc, child, depth + 1, support, out)? };
    }
    Ok(())
}

/// The locality string of a set of processors; `None` if it is the whole machine.
///
/// # Errors
/// As [`own`]; `NOMEM`.
///
/// # Safety
/// The bitmap is hwloc's.
pub unsafe fn locality(bitmap: *const c_void) -> Result<Option<Vec<u8>>> {
    let hwloc = Hwloc::get()?;
    // SAFETY: by the caller's promise.
    if unsafe { hwloc.is_everything(bitmap) } {
        return Ok(None);
    }
    let topology = own()?.0;
    let mut text: Vec<u8> = Vec::new();
    let mut tell = |level: c_int, name: &str| -> Result<()> {
        // SAFETY: the process's topology was made by hwloc and is never freed; objects of these levels have a cpuset.
        let objects = unsafe { hwloc.objects(topology, level) }.zip(0..);
        // SAFETY: the bitmaps are hwloc's.
        let met = objects.filter(|(object, _)| unsafe { hwloc.meet(object.cpuset, bitmap) }).map(|(_, index)| index);
        let met: Vec<u32> = met.collect();
        if met.is_empty() {
            return Ok(());
        }
        let found = hwloc.bitmap(met.into_iter())?;
        // SAFETY: the bitmap is hwloc's, and nothing else uses it.
        let list = unsafe {
            let list = hwloc.list(found);
            hwloc.free(found);
            list?
        };
        if !text.is_empty() {
            text.push(b':');
        }
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(&list);
        Ok(())
    };
    // SAFETY: as above.
    let levels = unsafe { hwloc.levels(topology) };
    for level in 1..levels {
        // SAFETY: as above; the level exists.
        let kind = unsafe { hwloc.kind(topology, level) };
        if let Some((_, name)) = NAMED.iter().find(|(named, _)| named.code() == kind) {
            tell(level, name)?;
        }
    }
    tell(MEMORY, "NM")?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Kinds of devices (`hwloc_obj_osdev_type_t`) for which distances are reported, with their PMIx codes, in the stock
/// library's order.
const GPU: (c_int, u64) = (1, 0x02);
const NETWORK: (c_int, u64) = (2, 0x04);
const OPENFABRICS: (c_int, u64) = (3, 0x08);

/// The distances of devices from a set of processors: of all devices, or of those that `infos` select by type
/// (`PMIX_DEVICE_TYPE`) or id (`PMIX_DEVICE_ID`). `hostname` becomes a part of the id of devices that have no unique
/// one.
///
/// # Errors
/// `NOT_AVAILABLE` if no object below the machine contains all the processors; `NOT_FOUND` without a device; `ERROR`
/// for a device without an address.
///
/// # Safety
/// Topology and bitmap are hwloc's.
pub unsafe fn distances(
    topology: *const c_void,
    bitmap: *const c_void,
    infos: &[Info],
    hostname: &str,
) -> Result<Vec<DeviceDistance>> {
    let hwloc = Hwloc::get()?;
    // SAFETY: by the caller's promise.
    let levels = unsafe { hwloc.levels(topology) };
    // The lowest object that contains all the processors.
    let holder = (1..levels)
        .map_while(|level| {
            // SAFETY: by the caller's promise; the level exists.
            let mut objects = unsafe { hwloc.objects(topology, level) };
            // SAFETY: the bitmaps are hwloc's.
            objects.find(|object| !object.cpuset.is_null() && unsafe { hwloc.is_within(bitmap, object.cpuset) })
        })
        .last()
        .ok_or(Status::ERR_NOT_AVAILABLE)?;
    let types = infos.iter().filter(|info| info.key.is(keys::DEVICE_TYPE)).filter_map(|info| info.value.as_u64());
    let wanted = types.reduce(|mask, ty| mask | ty);
    let named: Vec<&[u8]> =
        infos.iter().filter(|info| info.key.is(keys::DEVICE_ID)).filter_map(|info| info.value.as_text()).collect();
    // SAFETY: by the caller's promise; the level exists.
    let level = (0..levels).rev().find(|level| unsafe { hwloc.kind(topology, *level) } == Kind::Processor.code());
    // SAFETY: by the caller's promise.
    let processors = level.into_iter().flat_map(|level| unsafe { hwloc.objects(topology, level) });
    // SAFETY: the bitmaps are hwloc's.
    let used: Vec<&Object> = processors.filter(|pu| unsafe { hwloc.meet(pu.cpuset, bitmap) }).collect();
    let reach = Reach { used, levels, whole: holder.depth + levels };
    let mut found = Vec::new();
    for (kind, ty) in [GPU, NETWORK, OPENFABRICS] {
        if wanted.is_some_and(|wanted| wanted & ty == 0) {
            continue;
        }
        // SAFETY: by the caller's promise.
        let devices = unsafe { hwloc.objects(topology, DEVICES) };
        // SAFETY: devices have attributes.
        for device in devices.filter(|device| unsafe { *device.attributes } == kind) {
            // SAFETY: names are C strings.
            let name = unsafe { text(device.name) }.unwrap_or_default();
            // A second device entry of the same graphics card.
            if kind == GPU.0 && name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("card")) {
                continue;
            }
            // SAFETY: a device's infos are pairs of C strings.
            let uuid = unsafe { identity(device, kind, &name, hostname) }.ok_or(Status::ERROR)?;
            let is_meant =
                |id: &&[u8]| id.eq_ignore_ascii_case(name.as_bytes()) || id.eq_ignore_ascii_case(uuid.as_bytes());
            if !named.is_empty() && !named.iter().any(is_meant) {
                continue;
            }
            // SAFETY: parents of objects are objects, up to the machine.
            let (min, max) = unsafe { reach.of(device) }?;
            found.push(DeviceDistance { uuid: CString::new(uuid).ok(), osname: CString::new(name).ok(), ty, min, max });
        }
    }
    if found.is_empty() { Err(Status::ERR_NOT_FOUND) } else { Ok(found) }
}

/// The processors from which distances are measured, in levels of the topology.
struct Reach<'a> {
    used: Vec<&'a Object>,
    levels: c_int,
    /// The distance of a device that shares only the machine with a processor.
    whole: c_int,
}

impl Reach<'_> {
    /// The distances of a device from the nearest and from the farthest of the processors.
    ///
    /// # Errors
    /// `NOT_FOUND` for a device that is not attached to processors; `ERROR` for a device of another machine.
    ///
    /// # Safety
    /// Parents of objects are objects.
    unsafe fn of(&self, device: &Object) -> Result<(u16, u16)> {
        // SAFETY: by the caller's promise.
        let place = unsafe { place_of(device) }.ok_or(Status::ERR_NOT_FOUND)?;
        let (mut min, mut max) = (u16::MAX, 0);
        for processor in &self.used {
            // SAFETY: by the caller's promise.
            let common = unsafe { common_depth(processor, place) }.ok_or(Status::ERROR)?;
            let away = if common == 0 { self.whole } else { self.levels - common } as u16;
            (min, max) = (min.min(away), max.max(away));
        }
        Ok((min, max))
    }
}

/// # Safety
/// The pointer is NULL or a C string.
unsafe fn text(at: *const std::ffi::c_char) -> Option<String> {
    // SAFETY: by the caller's promise.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

/// An id of a device that is unique across nodes.
///
/// # Safety
/// Its infos are pairs of C strings.
unsafe fn identity(device: &Object, kind: c_int, name: &str, hostname: &str) -> Option<String> {
    let find = |wanted: &str| {
        (0..device.infos_count as usize).find_map(|index| {
            // SAFETY: there are `infos_count` infos, each a pair of C strings.
            let [key, value] = unsafe { *device.infos.add(index) };
            // SAFETY: as above.
            unsafe { text(key) }.filter(|key| key.eq_ignore_ascii_case(wanted)).and_then(|_| unsafe { text(value) })
        })
    };
    match kind {
        kind if kind == NETWORK.0 => {
            let address = find("Address")?;
            match address.matches(':').count() {
                5 => Some(format!("ipv4://{address}")),
                19 => Some(format!("ipv6://{address}")),
                _ => None,
            }
        }
        kind if kind == OPENFABRICS.0 => Some(format!("fab://{}::{}", find("NodeGUID")?, find("SysImageGUID")?)),
        _ => Some(format!("gpu://{hostname}::{name}")),
    }
}

/// The nearest object with a cpuset above a device.
///
/// # Safety
/// Parents of objects are objects.
unsafe fn place_of(device: &Object) -> Option<&Object> {
    let mut place = Some(device);
    while let Some(object) = place.filter(|object| object.cpuset.is_null()) {
        // SAFETY: by the caller's promise.
        place = unsafe { object.parent.as_ref() };
    }
    place
}

/// The level of the lowest common ancestor of two objects.
///
/// # Safety
/// As [`place_of`].
unsafe fn common_depth(one: &Object, other: &Object) -> Option<c_int> {
    let (mut one, mut other) = (one, other);
    while !std::ptr::eq(one, other) {
        let goes_up = one.depth >= other.depth;
        // SAFETY: by the caller's promise.
        let up = |object: &Object| unsafe { object.parent.as_ref() };
        match goes_up {
            true => one = up(one)?,
            false => other = up(other)?,
        }
    }
    Some(one.depth)
}
