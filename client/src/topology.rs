//! The machine's topology, for those who ask for it.
//!
//! It is loaded once, when a process first asks: from the XML that its server shares with its clients, or else by looking at the
//! machine. It stays until the process ends, as pointers to it have been handed out.

use std::ffi::{CStr, CString, c_int, c_void};

use parking_lot::Mutex;
use pmix_dstore::model::{DeviceDistance, Info, Proc, Rank, Result, Status, Value, keys};

use pmix_hwloc::{Hwloc, Kind, MEMORY, Object};

use crate::process;

/// A topology of hwloc's.
#[derive(Clone, Copy, PartialEq)]
pub struct Topology(pub *mut c_void);

// SAFETY: a loaded topology is only read, which hwloc allows from any thread.
unsafe impl Send for Topology {}

/// That of this process.
static OWN: Mutex<Option<Topology>> = Mutex::new(None);

/// Kinds of objects that a locality string tells of, with their names there.
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

/// The topology of this process, which is loaded now if nobody has needed it before.
///
/// # Errors
/// `NOT_SUPPORTED` where there is no hwloc, or it can make nothing of the machine.
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

/// Uses a topology of the host's as that of this process, unless it has one.
pub fn adopt(topology: Topology) {
    OWN.lock().get_or_insert(topology);
}

/// Whether it is the one of this process.
pub fn is_own(topology: Topology) -> bool {
    *OWN.lock() == Some(topology)
}

/// What the server shares of the machine.
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

/// The XML of this process's topology, in the form of hwloc 2, and in that of hwloc 1 where it has one.
///
/// # Errors
/// As [`own`].
pub fn to_xml() -> Result<(CString, Option<CString>)> {
    let (hwloc, topology) = (Hwloc::get()?, own()?);
    // SAFETY: the process's topology is hwloc's, and stays.
    unsafe { Ok((hwloc.xml(topology.0, false)?, hwloc.xml(topology.0, true).ok())) }
}

/// The topology of this process as a value, each copy of which is a topology of its own.
///
/// # Errors
/// As [`own`].
pub fn to_keep() -> Result<Value> {
    let (hwloc, topology) = (Hwloc::get()?, own()?.0);
    // SAFETY: the process's topology is hwloc's, and stays.
    let (xml, support) = unsafe { (hwloc.xml(topology, false)?, hwloc.support(topology)) };
    Ok(Value::Topology { xml: Some(xml), support })
}

/// A topology in words, as the stock library has it: each object with what hwloc says of it, those that it consists of below and
/// further in.
///
/// # Errors
/// As [`own`]; `NOT_SUPPORTED` for what is no XML of a topology.
pub fn in_words(xml: &CStr, support: &[u8]) -> Result<Vec<u8>> {
    let hwloc = Hwloc::get()?;
    let topology = hwloc.topology(Some(xml))?;
    let mut words = Vec::new();
    // SAFETY: the topology is hwloc's and ours alone, and goes when its objects have been told.
    unsafe {
        let told = hwloc.objects(topology, 0).try_for_each(|machine| tell(hwloc, machine, 0, support, &mut words));
        hwloc.destroy_topology(topology);
        told?;
    }
    words.push(b'\n');
    Ok(words)
}

/// The last bytes of what a topology supports are about binding: to processors, and behind that to memory.
const BINDING: usize = 26;
/// Where in them stands what can be bound to what.
const BOUND: [(usize, &str); 4] = [(0, "CPU proc:  "), (4, "CPU thread:"), (11, "MEM proc:  "), (15, "MEM thread:")];

/// An object and those that it consists of. What can be bound belongs to the machine, which is none's part.
///
/// # Safety
/// An object of hwloc's.
unsafe fn tell(hwloc: &Hwloc, object: &Object, depth: usize, support: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let line = format!("\n{}", "\t".repeat(depth + 1));
    let separator = CString::new(line.as_str()).unwrap_or_default();
    // SAFETY: an object of hwloc's; names are C strings, and bitmaps hwloc's.
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
    // Nothing can be bound on another machine.
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
        // SAFETY: an object of hwloc's.
        unsafe { tell(hwloc, child, depth + 1, support, out)? };
    }
    Ok(())
}

/// What of the machine a set of processors is in; `None` where it is everywhere.
///
/// # Errors
/// As [`own`]; `NOMEM`.
///
/// # Safety
/// The bitmap is one of hwloc's.
pub unsafe fn locality(bitmap: *const c_void) -> Result<Option<Vec<u8>>> {
    let hwloc = Hwloc::get()?;
    // SAFETY: the caller's promise.
    if unsafe { hwloc.is_everything(bitmap) } {
        return Ok(None);
    }
    let topology = own()?.0;
    let mut text: Vec<u8> = Vec::new();
    let mut tell = |level: c_int, name: &str| -> Result<()> {
        // SAFETY: the process's topology is hwloc's, and stays; objects of these levels have processors.
        let objects = unsafe { hwloc.objects(topology, level) }.zip(0..);
        // SAFETY: the bitmaps are hwloc's.
        let met = objects.filter(|(object, _)| unsafe { hwloc.meet(object.cpuset, bitmap) }).map(|(_, index)| index);
        let met: Vec<u32> = met.collect();
        if met.is_empty() {
            return Ok(());
        }
        let found = hwloc.bitmap(met.into_iter())?;
        // SAFETY: a bitmap of hwloc's, and ours alone.
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
        // SAFETY: as above, for a level that there is.
        let kind = unsafe { hwloc.kind(topology, level) };
        if let Some((_, name)) = NAMED.iter().find(|(named, _)| named.code() == kind) {
            tell(level, name)?;
        }
    }
    tell(MEMORY, "NM")?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Kinds of devices (`hwloc_obj_osdev_type_t`) that distances are told of, with PMIx's codes for them, in the stock library's
/// order.
const GPU: (c_int, u64) = (1, 0x02);
const NETWORK: (c_int, u64) = (2, 0x04);
const OPENFABRICS: (c_int, u64) = (3, 0x08);

/// How far devices are from a set of processors: all, or those that `infos` name by type (`PMIX_DEVICE_TYPE`) or identity
/// (`PMIX_DEVICE_ID`). `hostname` is for the names of devices that have no other.
///
/// # Errors
/// `NOT_AVAILABLE` for processors that only the whole machine has together; `NOT_FOUND` without a device; `ERROR` for a device
/// without an address.
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
    // SAFETY: the caller's promise.
    let levels = unsafe { hwloc.levels(topology) };
    // The lowest object that has them all.
    let holder = (1..levels)
        .map_while(|level| {
            // SAFETY: the caller's promise, for a level that there is.
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
    // SAFETY: the caller's promise, for a level that there is.
    let level = (0..levels).rev().find(|level| unsafe { hwloc.kind(topology, *level) } == Kind::Processor.code());
    // SAFETY: the caller's promise.
    let processors = level.into_iter().flat_map(|level| unsafe { hwloc.objects(topology, level) });
    // SAFETY: the bitmaps are hwloc's.
    let used: Vec<&Object> = processors.filter(|pu| unsafe { hwloc.meet(pu.cpuset, bitmap) }).collect();
    let reach = Reach { used, levels, whole: holder.depth + levels };
    let mut found = Vec::new();
    for (kind, ty) in [GPU, NETWORK, OPENFABRICS] {
        if wanted.is_some_and(|wanted| wanted & ty == 0) {
            continue;
        }
        // SAFETY: the caller's promise.
        let devices = unsafe { hwloc.objects(topology, DEVICES) };
        // SAFETY: devices have attributes.
        for device in devices.filter(|device| unsafe { *device.attributes } == kind) {
            // SAFETY: names are C strings.
            let name = unsafe { text(device.name) }.unwrap_or_default();
            // A graphics card's other face.
            if kind == GPU.0 && name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("card")) {
                continue;
            }
            // SAFETY: infos of devices are pairs of C strings.
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

/// Processors, from which distances are counted in levels.
struct Reach<'a> {
    used: Vec<&'a Object>,
    levels: c_int,
    /// How far away is what has only the machine in common with a processor.
    whole: c_int,
}

impl Reach<'_> {
    /// How far a device is from the nearest and from the farthest of the processors.
    ///
    /// # Errors
    /// `NOT_FOUND` for a device at no processors; `ERROR` for one of another machine.
    ///
    /// # Safety
    /// Parents of objects are objects.
    unsafe fn of(&self, device: &Object) -> Result<(u16, u16)> {
        // SAFETY: the caller's promise.
        let place = unsafe { place_of(device) }.ok_or(Status::ERR_NOT_FOUND)?;
        let (mut min, mut max) = (u16::MAX, 0);
        for processor in &self.used {
            // SAFETY: the caller's promise.
            let common = unsafe { common_depth(processor, place) }.ok_or(Status::ERROR)?;
            let away = if common == 0 { self.whole } else { self.levels - common } as u16;
            (min, max) = (min.min(away), max.max(away));
        }
        Ok((min, max))
    }
}

/// # Safety
/// NULL or a C string.
unsafe fn text(at: *const std::ffi::c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

/// What a device is called anywhere.
///
/// # Safety
/// Its infos are pairs of C strings.
unsafe fn identity(device: &Object, kind: c_int, name: &str, hostname: &str) -> Option<String> {
    let find = |wanted: &str| {
        (0..device.infos_count as usize).find_map(|index| {
            // SAFETY: so many there are, each a pair of C strings.
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

/// The object with processors that a device is at.
///
/// # Safety
/// Parents of objects are objects.
unsafe fn place_of(device: &Object) -> Option<&Object> {
    let mut place = Some(device);
    while let Some(object) = place.filter(|object| object.cpuset.is_null()) {
        // SAFETY: the caller's promise.
        place = unsafe { object.parent.as_ref() };
    }
    place
}

/// The level of the lowest object that two are parts of.
///
/// # Safety
/// As [`place_of`].
unsafe fn common_depth(one: &Object, other: &Object) -> Option<c_int> {
    let (mut one, mut other) = (one, other);
    while !std::ptr::eq(one, other) {
        let goes_up = one.depth >= other.depth;
        // SAFETY: the caller's promise.
        let up = |object: &Object| unsafe { object.parent.as_ref() };
        match goes_up {
            true => one = up(one)?,
            false => other = up(other)?,
        }
    }
    Some(one.depth)
}
