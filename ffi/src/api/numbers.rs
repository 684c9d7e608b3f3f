//! Values as truth values and as numbers of another type; the sizes of values.

use std::ffi::{CStr, CString, c_void};

use pmix_dstore::compression;
use pmix_dstore::model::{DataType, Result, Status, Value};

use super::{Out, object, present, writable};
use crate::convert::object::{element_size, write_any};
use crate::convert::text;
use crate::entry::{entry, status_entry};
use crate::types::*;

/// The truth value of a text: of one that begins with a word of truth, or is such a letter, in either case. An empty text is true: it is the
/// value of a directive, whose presence is its meaning.
fn truth_of_text(text: &[u8]) -> pmix_boolean_t {
    let text = text.trim_ascii_start();
    match text.first() {
        None => BOOL_TRUE,
        Some(first) if first.is_ascii_digit() => {
            let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
            if digits.into_iter().all(|&digit| digit == b'0') { BOOL_FALSE } else { BOOL_TRUE }
        }
        Some(_) => {
            let begins =
                |word: &str| text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word.as_bytes()));
            let is_any = |words: &str, letters: &[u8]| {
                let letter = || matches!(text, [letter] if letters.contains(&letter.to_ascii_lowercase()));
                words.split(' ').any(begins) || letter()
            };
            match (is_any("yes true enable", b"yt"), is_any("no false disable", b"nf")) {
                (true, _) => BOOL_TRUE,
                (_, true) => BOOL_FALSE,
                _ => NON_BOOL,
            }
        }
    }
}

/// The truth value of a value. A directive without a value is true.
///
/// # Safety
/// `value` is NULL or initialised.
unsafe fn truth(value: *const pmix_value_t) -> pmix_boolean_t {
    if value.is_null() {
        return BOOL_FALSE;
    }
    // SAFETY: not NULL, hence initialised, by the caller's promise.
    match DataType(unsafe { (*value).type_ }) {
        DataType::UNDEF => BOOL_TRUE,
        // SAFETY: the type says that the union holds a flag, which is one byte.
        DataType::BOOL if unsafe { (*value).data.bytes[0] } != 0 => BOOL_TRUE,
        DataType::BOOL => BOOL_FALSE,
        DataType::STRING => {
            // SAFETY: the type says that the union holds a string, which is NULL or a C string.
            let text = unsafe { text::string((*value).data.string) };
            truth_of_text(text.map_or(&[], CStr::to_bytes))
        }
        _ => NON_BOOL,
    }
}

/// A number in a form that holds the numbers of all types.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Real(f64),
}

fn number_of(value: &Value) -> Result<Number> {
    Ok(match *value {
        Value::Int(n) | Value::Int32(n) | Value::Pid(n) => Number::Whole(n.into()),
        Value::Status(status) => Number::Whole(status.0.into()),
        Value::Int8(n) => Number::Whole(n.into()),
        Value::Int16(n) => Number::Whole(n.into()),
        Value::Int64(n) => Number::Whole(n.into()),
        Value::Float(n) => Number::Real(n.into()),
        Value::Double(n) => Number::Real(n),
        Value::Size(n) | Value::Uint64(n) => Number::Whole(n.into()),
        Value::Uint(n) | Value::Uint32(n) => Number::Whole(n.into()),
        Value::Uint16(n) => Number::Whole(n.into()),
        Value::Uint8(n) => Number::Whole(n.into()),
        Value::Rank(rank) => Number::Whole(rank.0.into()),
        _ => return Err(Status::ERR_BAD_PARAM),
    })
}

/// The least and the greatest whole number of a type.
fn range(ty: DataType) -> Option<(i128, i128)> {
    Some(match ty {
        DataType::INT8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::INT16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::INT | DataType::INT32 | DataType::PID | DataType::STATUS => (i32::MIN.into(), i32::MAX.into()),
        DataType::INT64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UINT8 => (0, u8::MAX.into()),
        DataType::UINT16 => (0, u16::MAX.into()),
        DataType::UINT | DataType::UINT32 | DataType::PROC_RANK => (0, u32::MAX.into()),
        DataType::SIZE | DataType::UINT64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// The number of a value in another type.
///
/// # Errors
/// `CHANGE_SIGN` for a negative number in an unsigned type, `LOST_PRECISION` for a number outside the range of the type,
/// `BAD_PARAM` if one of the types is not a number's. Digits after the decimal point are cut off.
fn converted(value: &Value, ty: DataType) -> Result<Value> {
    let number = number_of(value)?;
    if matches!(ty, DataType::FLOAT | DataType::DOUBLE) {
        let real = match number {
            Number::Whole(whole) => whole as f64,
            Number::Real(real) => real,
        };
        return Ok(if ty == DataType::FLOAT { Value::Float(real as f32) } else { Value::Double(real) });
    }
    let (least, greatest) = range(ty).ok_or(Status::ERR_BAD_PARAM)?;
    let (whole, is_negative) = match number {
        Number::Whole(whole) => (whole, whole < 0),
        Number::Real(real) if real.is_nan() => return Err(Status::ERR_LOST_PRECISION),
        // A number outside the range of an i128 becomes the least or the greatest i128, which is outside all types' ranges, too.
        Number::Real(real) => (real as i128, real < 0.0),
    };
    if is_negative && least == 0 {
        return Err(Status::ERR_CHANGE_SIGN);
    }
    if whole < least || whole > greatest {
        return Err(Status::ERR_LOST_PRECISION);
    }
    // Bits beyond the type's width are cut.
    Value::from_scalar(ty, whole as u64).ok_or(Status::ERR_BAD_PARAM)
}

fn text_size(text: Option<&CStr>) -> usize {
    text.map_or(0, CStr::count_bytes) + 1
}

/// As [`text_size`], but zero for NULL.
fn name_size(text: &Option<CString>) -> usize {
    text.as_deref().map_or(0, |text| text_size(Some(text)))
}

/// The memory that an object takes: its structure, and what it holds.
fn object_size(ty: DataType, value: &Value) -> Result<usize> {
    let structure = match ty {
        // Only the text of a string counts, and only the expanded contents of a compressed object.
        DataType::STRING | DataType::COMPRESSED_STRING | DataType::COMPRESSED_BYTE_OBJECT => 0,
        DataType::PROC_NSPACE => size_of::<pmix_nspace_t>() - 1,
        DataType::REGEX => size_of::<pmix_byte_object_t>(),
        ty => element_size(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?,
    };
    let held = match value {
        Value::String(text) => text_size(text.as_deref()),
        Value::ByteObject(bytes) | Value::Regex(bytes) | Value::DataBuffer(bytes) => bytes.len(),
        Value::CompressedByteObject(bytes) => compression::decompress(bytes)?.len(),
        // With its NUL, where there is any text.
        Value::CompressedString(bytes) => match compression::decompress(bytes)?.len() {
            0 => 0,
            len => len + 1,
        },
        Value::Regex2 { ty, bytes } => name_size(ty) + bytes.len(),
        Value::ProcStats(stats) => name_size(&stats.node) + name_size(&stats.cmd),
        Value::DiskStats(stats) => name_size(&stats.disk),
        Value::NetStats(stats) => name_size(&stats.interface),
        Value::NodeStats(stats) => {
            let disks = stats.disks.iter().map(|disk| size_of::<pmix_disk_stats_t>() + name_size(&disk.disk));
            let interfaces = &stats.interfaces;
            let interfaces = interfaces.iter().map(|at| size_of::<pmix_net_stats_t>() + name_size(&at.interface));
            name_size(&stats.node) + disks.sum::<usize>() + interfaces.sum::<usize>()
        }
        Value::ProcInfo(info) => text_size(info.hostname.as_deref()) + text_size(info.executable.as_deref()),
        Value::Envar(envar) => text_size(envar.name.as_deref()) + text_size(envar.value.as_deref()),
        Value::Coord(coord) => size_of_val(coord.coords.as_slice()),
        Value::Geometry(geometry) => {
            let points = geometry.coordinates.iter();
            let points = points.map(|point| size_of::<pmix_coord_t>() + size_of_val(point.coords.as_slice()));
            text_size(geometry.uuid.as_deref()) + text_size(geometry.osname.as_deref()) + points.sum::<usize>()
        }
        Value::Device(device) => text_size(device.uuid.as_deref()) + text_size(device.osname.as_deref()),
        Value::DeviceDistance(distance) => text_size(distance.uuid.as_deref()) + text_size(distance.osname.as_deref()),
        Value::Endpoint(endpoint) => {
            text_size(endpoint.uuid.as_deref()) + text_size(endpoint.osname.as_deref()) + endpoint.bytes.len()
        }
        Value::Regattr(regattr) => {
            let lines = regattr.description.iter().map(|line| text_size(Some(line)));
            text_size(regattr.name.as_deref()) + lines.sum::<usize>()
        }
        Value::Cpuset { list, .. } => name_size(list),
        Value::Topology { xml: text, .. } | Value::NodePid { hostname: text, .. } => name_size(text),
        Value::Info(info) => info_size(info.key.as_bytes().len(), &info.value)? - size_of::<pmix_info_t>(),
        Value::DataArray(array) => {
            let items = array.items.iter().map(|item| match array.ty {
                // Here a pointer to the text counts, too.
                DataType::STRING => Ok(object_size(array.ty, item)? + size_of::<usize>()),
                ty => object_size(ty, item),
            });
            items.sum::<Result<usize>>()?
        }
        _ => 0,
    };
    Ok(structure + held)
}

fn value_size(value: &Value) -> Result<usize> {
    match value {
        Value::Undef => Err(Status::ERR_UNKNOWN_DATA_TYPE),
        value => Ok(object_size(value.data_type(), value)? + size_of::<pmix_value_t>()),
    }
}

fn info_size(key_len: usize, value: &Value) -> Result<usize> {
    Ok(value_size(value)? + key_len + 1 + size_of::<pmix_info_t>())
}

status_entry! {
    /// `PMIx_Value_get_number`: the number of a value, in the type that `dest` points to.
    ///
    /// `PMIX_ERR_CHANGE_SIGN` and `PMIX_ERR_LOST_PRECISION` for numbers that the type does not have.
    fn PMIx_Value_get_number(value: *const pmix_value_t, dest: *mut c_void, type_: pmix_data_type_t) {
        let (value, dest) = (present(value)?, writable(dest)?);
        // SAFETY: `value` is not NULL, hence initialised.
        let (from, to) = (DataType(unsafe { (*value).type_ }), DataType(type_));
        // A process id, a status and a rank are not converted into each other.
        let is_name = |ty| matches!(ty, DataType::PID | DataType::STATUS | DataType::PROC_RANK);
        if from.scalar_width().is_none() || (from != to && is_name(from) && is_name(to)) {
            return Err(Status::ERR_BAD_PARAM);
        }
        // SAFETY: `value` is NULL or initialised.
        let number = converted(&unsafe { object(value) }?, to)?;
        // SAFETY: `dest` is not NULL, hence has room for a number of this type.
        unsafe { write_any(&number, dest) }
    }

    /// `PMIx_Value_get_size`: the memory that a value takes, with all that it holds.
    fn PMIx_Value_get_size(val: *const pmix_value_t, size: *mut usize) {
        // SAFETY: `size` is NULL or a place for a size.
        let size = unsafe { Out::new(size) }?;
        // SAFETY: `val` is NULL or initialised.
        let value = unsafe { object(val) }?;
        size.set(value_size(&value)?);
        Ok(())
    }

    /// `PMIx_Info_get_size`: the memory that an info takes, with all that it holds.
    fn PMIx_Info_get_size(val: *const pmix_info_t, size: *mut usize) {
        // SAFETY: `size` is NULL or a place for a size.
        let size = unsafe { Out::new(size) }?;
        // SAFETY: `val` is NULL or initialised.
        let info = unsafe { object(val) }?;
        size.set(info_size(info.key.as_bytes().len(), &info.value)?);
        Ok(())
    }
}

entry! {
    /// `PMIx_Value_true`: whether a value is true, false or no truth value.
    fn PMIx_Value_true(v: *const pmix_value_t) -> pmix_boolean_t {
        // SAFETY: `v` is NULL or initialised.
        unsafe { truth(v) }
    }

    /// `PMIx_Info_true`: whether the value of an info is true, false or no truth value.
    fn PMIx_Info_true(p: *const pmix_info_t) -> pmix_boolean_t {
        // SAFETY: `p` is not NULL where its value is read, hence initialised.
        if p.is_null() { BOOL_FALSE } else { unsafe { truth(&raw const (*p).value) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_say_yes_and_no() {
        for yes in ["", "  ", "1", "007", "yes", "Yessir", "TRUE", "t", " y", "enabled"] {
            assert_eq!(truth_of_text(yes.as_bytes()), BOOL_TRUE, "{yes:?}");
        }
        for no in ["0", "00", "no", "None", "false", "F", "n", "disable"] {
            assert_eq!(truth_of_text(no.as_bytes()), BOOL_FALSE, "{no:?}");
        }
        for neither in ["maybe", "-1", "tr", "ye"] {
            assert_eq!(truth_of_text(neither.as_bytes()), NON_BOOL, "{neither:?}");
        }
    }

    #[test]
    fn numbers_fit_or_say_why_not() {
        assert_eq!(converted(&Value::Int(-1), DataType::INT64), Ok(Value::Int64(-1)));
        assert_eq!(converted(&Value::Int(-1), DataType::SIZE), Err(Status::ERR_CHANGE_SIGN));
        assert_eq!(converted(&Value::Size(300), DataType::UINT8), Err(Status::ERR_LOST_PRECISION));
        assert_eq!(converted(&Value::Size(u64::MAX), DataType::INT64), Err(Status::ERR_LOST_PRECISION));
        assert_eq!(converted(&Value::Int8(-128), DataType::INT8), Ok(Value::Int8(-128)));
        assert_eq!(converted(&Value::Double(2.9), DataType::UINT16), Ok(Value::Uint16(2)));
        assert_eq!(converted(&Value::Double(-0.5), DataType::UINT16), Err(Status::ERR_CHANGE_SIGN));
        assert_eq!(converted(&Value::Double(1e300), DataType::UINT64), Err(Status::ERR_LOST_PRECISION));
        assert_eq!(converted(&Value::Double(f64::NAN), DataType::INT), Err(Status::ERR_LOST_PRECISION));
        assert_eq!(converted(&Value::Uint32(7), DataType::FLOAT), Ok(Value::Float(7.0)));
        assert_eq!(converted(&Value::string("7"), DataType::INT), Err(Status::ERR_BAD_PARAM));
        assert_eq!(converted(&Value::Int(7), DataType::STRING), Err(Status::ERR_BAD_PARAM));
        assert_eq!(converted(&Value::Bool(true), DataType::INT), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn sizes_count_what_is_held() {
        assert_eq!(value_size(&Value::Uint16(1)), Ok(32 + 2));
        assert_eq!(value_size(&Value::string("abc")), Ok(32 + 4));
        assert_eq!(value_size(&Value::ByteObject(vec![0; 5].into())), Ok(32 + 16 + 5));
        assert_eq!(info_size(4, &Value::Bool(true)), Ok(32 + 1 + 5 + 552));
        assert_eq!(value_size(&Value::Undef), Err(Status::ERR_UNKNOWN_DATA_TYPE));
    }
}
