//! Comparing values.

use std::cmp::Ordering;
use std::ffi::{CStr, CString};

use pmix_dstore::model::{Coord, DataArray, DiskStats, NetStats, NodeStats, ProcStats, Regattr, Value};

use crate::convert::object::Object;
use crate::entry::entry;
use crate::types::*;

/// `PMIX_EQUAL`.
const EQUAL: pmix_value_cmp_t = 0;
/// `PMIX_VALUE1_GREATER`.
const FIRST_GREATER: pmix_value_cmp_t = 1;
/// `PMIX_VALUE2_GREATER`.
const SECOND_GREATER: pmix_value_cmp_t = 2;
/// `PMIX_VALUE_TYPE_DIFFERENT`.
const TYPE_DIFFERENT: pmix_value_cmp_t = 3;
/// `PMIX_VALUE_INCOMPATIBLE_OBJECTS`.
const INCOMPATIBLE: pmix_value_cmp_t = 4;
/// `PMIX_VALUE_COMPARISON_NOT_AVAIL`.
const NOT_AVAILABLE: pmix_value_cmp_t = 5;

entry! {
    /// `PMIx_Value_compare`: a `pmix_value_cmp_t`.
    ///
    /// Numbers compare as numbers, texts and structures member by member, arrays and byte objects by their length first.
    fn PMIx_Value_compare(v1: *mut pmix_value_t, v2: *mut pmix_value_t) -> pmix_value_cmp_t {
        if v1.is_null() || v2.is_null() {
            return NOT_AVAILABLE;
        }
        // SAFETY: neither is NULL, hence both are initialised values.
        if unsafe { (*v1).type_ != (*v2).type_ } {
            return TYPE_DIFFERENT;
        }
        // SAFETY: as above.
        match unsafe { (pmix_value_t::read(v1), pmix_value_t::read(v2)) } {
            // A value whose pointer is NULL is read as one without a type.
            (Ok(one), Ok(other)) if one.data_type() != other.data_type() => NOT_AVAILABLE,
            (Ok(one), Ok(other)) => match compared(&one, &other) {
                Ok(Ordering::Equal) => EQUAL,
                Ok(Ordering::Greater) => FIRST_GREATER,
                Ok(Ordering::Less) => SECOND_GREATER,
                Err(code) => code,
            },
            _ => NOT_AVAILABLE,
        }
    }
}

/// An order, or why there is none.
type Compared = Result<Ordering, pmix_value_cmp_t>;

/// The order of two lists: by their lengths, then by the first items that differ.
fn first_difference<T>(one: &[T], other: &[T], compared: impl Fn(&T, &T) -> Compared) -> Compared {
    if one.len() != other.len() {
        return Ok(one.len().cmp(&other.len()));
    }
    for (one, other) in one.iter().zip(other) {
        match compared(one, other)? {
            Ordering::Equal => {}
            order => return Ok(order),
        }
    }
    Ok(Ordering::Equal)
}

fn bytes(one: &[u8], other: &[u8]) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

fn text(text: &Option<CString>) -> Option<&CStr> {
    text.as_deref()
}

fn real(one: f64, other: f64) -> Compared {
    one.partial_cmp(&other).ok_or(NOT_AVAILABLE)
}

/// The order of two objects of the same kind. Objects of different kinds are incompatible.
fn of_kind<T: PartialEq>(kind: T, other_kind: T, order: Ordering) -> Compared {
    if kind == other_kind { Ok(order) } else { Err(INCOMPATIBLE) }
}

fn coords(one: &Coord, other: &Coord) -> Compared {
    of_kind(one.view, other.view, one.coords.len().cmp(&other.coords.len()).then_with(|| one.coords.cmp(&other.coords)))
}

fn arrays(one: &DataArray, other: &DataArray) -> Compared {
    if one.ty != other.ty {
        return Err(TYPE_DIFFERENT);
    }
    first_difference(&one.items, &other.items, compared)
}

fn regattrs(one: &Regattr, other: &Regattr) -> Compared {
    if one.name.is_none() && other.name.is_none() {
        return Err(NOT_AVAILABLE);
    }
    let lines = one.description.len().cmp(&other.description.len());
    let key = |regattr: &Regattr| regattr.key.as_bytes().to_vec();
    let order = one.name.cmp(&other.name).then_with(|| key(one).cmp(&key(other)));
    Ok(order.then(one.ty.cmp(&other.ty)).then(lines).then_with(|| one.description.cmp(&other.description)))
}

fn proc_stats(one: &ProcStats, other: &ProcStats) -> Compared {
    let names = |stats: &ProcStats| (stats.node.clone(), stats.proc.nspace.as_bytes().to_vec(), stats.proc.rank.0);
    let first = |stats: &ProcStats| (stats.pid, stats.cmd.clone(), stats.state, stats.time);
    let sizes = |stats: &ProcStats| [stats.pss, stats.vsize, stats.rss, stats.peak_vsize];
    let counts = |stats: &ProcStats| (stats.priority, stats.num_threads);
    let last = |stats: &ProcStats| (stats.processor, stats.sample_time);
    let order = names(one).cmp(&names(other)).then_with(|| first(one).cmp(&first(other)));
    let order = order.then(real(one.percent_cpu.into(), other.percent_cpu.into())?);
    let order = order.then(counts(one).cmp(&counts(other))).then(amounts(&sizes(one), &sizes(other))?);
    Ok(order.then(last(one).cmp(&last(other))))
}

fn amounts(one: &[f32], other: &[f32]) -> Compared {
    first_difference(one, other, |one, other| real((*one).into(), (*other).into()))
}

fn disks(one: &DiskStats, other: &DiskStats) -> Compared {
    Ok(one.disk.cmp(&other.disk).then(one.counts.cmp(&other.counts)))
}

fn interfaces(one: &NetStats, other: &NetStats) -> Compared {
    Ok(one.interface.cmp(&other.interface).then(one.counts.cmp(&other.counts)))
}

fn node_stats(one: &NodeStats, other: &NodeStats) -> Compared {
    let order = one.node.cmp(&other.node).then(amounts(&one.amounts, &other.amounts)?);
    let order = order.then(one.sample_time.cmp(&other.sample_time));
    let order = order.then(first_difference(&one.disks, &other.disks, disks)?);
    Ok(order.then(first_difference(&one.interfaces, &other.interfaces, interfaces)?))
}

/// The order of two values of the same type.
fn compared(one: &Value, other: &Value) -> Compared {
    if one.data_type() != other.data_type() {
        return Err(TYPE_DIFFERENT);
    }
    Ok(match (one, other) {
        (Value::Undef, Value::Undef) => Ordering::Equal,
        (Value::Float(a), Value::Float(b)) => return real((*a).into(), (*b).into()),
        (Value::Double(a), Value::Double(b)) => return real(*a, *b),
        (Value::Int(a) | Value::Int32(a) | Value::Pid(a), Value::Int(b) | Value::Int32(b) | Value::Pid(b)) => a.cmp(b),
        (Value::Int8(a), Value::Int8(b)) => a.cmp(b),
        (Value::Int16(a), Value::Int16(b)) => a.cmp(b),
        (Value::Int64(a) | Value::Time(a), Value::Int64(b) | Value::Time(b)) => a.cmp(b),
        (Value::Status(a), Value::Status(b)) => a.0.cmp(&b.0),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Timeval { sec: a, usec: c }, Value::Timeval { sec: b, usec: d }) => (a, c).cmp(&(b, d)),
        (Value::ByteObject(a), Value::ByteObject(b))
        | (Value::CompressedString(a), Value::CompressedString(b))
        | (Value::CompressedByteObject(a), Value::CompressedByteObject(b))
        | (Value::Regex(a), Value::Regex(b))
        | (Value::DataBuffer(a), Value::DataBuffer(b)) => bytes(a, b),
        (Value::ProcNspace(a), Value::ProcNspace(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Proc(a), Value::Proc(b)) => a.nspace.as_bytes().cmp(b.nspace.as_bytes()).then(a.rank.0.cmp(&b.rank.0)),
        (Value::ProcInfo(a), Value::ProcInfo(b)) => {
            let names = a.proc.nspace.as_bytes().cmp(b.proc.nspace.as_bytes()).then(a.proc.rank.0.cmp(&b.proc.rank.0));
            let (texts, others) = ((&a.hostname, &a.executable), (&b.hostname, &b.executable));
            names.then(texts.cmp(&others)).then((a.pid, a.exit_code).cmp(&(b.pid, b.exit_code)))
        }
        (Value::Envar(a), Value::Envar(b)) => {
            let separators = (a.separator as i8).cmp(&(b.separator as i8));
            (text(&a.name), text(&a.value)).cmp(&(text(&b.name), text(&b.value))).then(separators)
        }
        (Value::DataArray(a), Value::DataArray(b)) => return arrays(a, b),
        (Value::Value(a), Value::Value(b)) => return compared(a, b),
        (Value::Info(a), Value::Info(b)) => {
            let keys = a.key.as_bytes().cmp(b.key.as_bytes());
            if keys.is_ne() { keys } else { return compared(&a.value, &b.value) }
        }
        (Value::Coord(a), Value::Coord(b)) => return coords(a, b),
        (Value::Geometry(a), Value::Geometry(b)) => {
            let names = (text(&a.uuid), text(&a.osname)).cmp(&(text(&b.uuid), text(&b.osname)));
            match of_kind(a.fabric, b.fabric, names)? {
                Ordering::Equal => return first_difference(&a.coordinates, &b.coordinates, coords),
                order => order,
            }
        }
        (Value::Device(a), Value::Device(b)) => {
            let names = (text(&a.uuid), text(&a.osname)).cmp(&(text(&b.uuid), text(&b.osname)));
            return of_kind(a.ty, b.ty, names);
        }
        (Value::DeviceDistance(a), Value::DeviceDistance(b)) => {
            let names = (text(&a.uuid), text(&a.osname)).cmp(&(text(&b.uuid), text(&b.osname)));
            return of_kind(a.ty, b.ty, names.then((a.min, a.max).cmp(&(b.min, b.max))));
        }
        (Value::Endpoint(a), Value::Endpoint(b)) => {
            let names = (text(&a.uuid), text(&a.osname)).cmp(&(text(&b.uuid), text(&b.osname)));
            names.then_with(|| bytes(&a.bytes, &b.bytes))
        }
        (Value::Regattr(a), Value::Regattr(b)) => return regattrs(a, b),
        (Value::Cpuset { list: a, .. }, Value::Cpuset { list: b, .. }) => text(a).cmp(&text(b)),
        (Value::Topology { xml: a, .. }, Value::Topology { xml: b, .. }) => text(a).cmp(&text(b)),
        (Value::ResourceUnit { ty: a, count: c }, Value::ResourceUnit { ty: b, count: d }) => {
            return of_kind(a, b, c.cmp(d));
        }
        (Value::NodePid { hostname: a, nodeid: c, pid: e }, Value::NodePid { hostname: b, nodeid: d, pid: f }) => {
            (text(a), c, e).cmp(&(text(b), d, f))
        }
        (Value::Regex2 { ty: a, bytes: c }, Value::Regex2 { ty: b, bytes: d }) => {
            text(a).cmp(&text(b)).then_with(|| bytes(c, d))
        }
        (Value::ProcStats(a), Value::ProcStats(b)) => return proc_stats(a, b),
        (Value::DiskStats(a), Value::DiskStats(b)) => return disks(a, b),
        (Value::NetStats(a), Value::NetStats(b)) => return interfaces(a, b),
        (Value::NodeStats(a), Value::NodeStats(b)) => return node_stats(a, b),
        _ => match (one.scalar_bits(), other.scalar_bits()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ if one == other => Ordering::Equal,
            _ => return Err(NOT_AVAILABLE),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_compare_by_type_and_order() {
        assert_eq!(compared(&Value::Int(1), &Value::Uint(1)), Err(TYPE_DIFFERENT));
        assert_eq!(compared(&Value::Int(-1), &Value::Int(1)), Ok(Ordering::Less));
        assert_eq!(compared(&Value::Int(256), &Value::Int(1)), Ok(Ordering::Greater));
        assert_eq!(compared(&Value::string("b"), &Value::string("a")), Ok(Ordering::Greater));
        assert_eq!(compared(&Value::Size(7), &Value::Size(7)), Ok(Ordering::Equal));
        assert_eq!(compared(&Value::Double(f64::NAN), &Value::Double(1.0)), Err(NOT_AVAILABLE));
    }

    #[test]
    fn structures_compare_member_by_member() {
        let coord = |view, coords: &[u32]| Value::Coord(Box::new(Coord { view, coords: coords.to_vec() }));
        assert_eq!(compared(&coord(1, &[1, 9]), &coord(1, &[2, 0])), Ok(Ordering::Less));
        assert_eq!(compared(&coord(1, &[1]), &coord(2, &[1])), Err(INCOMPATIBLE));
        let array = |items: &[i32]| {
            let items = items.iter().map(|item| Value::Int(*item)).collect();
            Value::DataArray(Box::new(DataArray { ty: pmix_dstore::model::DataType::INT, items }))
        };
        assert_eq!(compared(&array(&[5]), &array(&[1, 1])), Ok(Ordering::Less));
        assert_eq!(compared(&array(&[1, 3]), &array(&[1, 2])), Ok(Ordering::Greater));
        let pid = |nodeid| Value::NodePid { hostname: None, nodeid, pid: 1 };
        assert_eq!(compared(&pid(3), &pid(2)), Ok(Ordering::Greater));
    }
}
