//! `pmix_value_t`: a type code and a union, in which structures are held by pointer.

use std::ffi::c_void;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::model::{DataArray, DataType, Result, Status, Value};

use super::array;
use super::object::{Object, destroy_any, element_size, read_any, read_bits, write_any};
use super::text;
use crate::memory::{copy_bytes, copy_string_or_null, free, reserve, zeroed};
use crate::types::*;

/// How a value holds its data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holding {
    /// In the union itself.
    Inline,
    /// Behind a pointer in the union.
    Pointer,
    /// Not at all: structures of arrays, and codes nobody knows.
    Nothing,
}

fn holding(ty: DataType) -> Holding {
    match ty {
        DataType::STRING
        | DataType::TIMEVAL
        | DataType::BYTE_OBJECT
        | DataType::REGEX
        | DataType::COMPRESSED_STRING
        | DataType::COMPRESSED_BYTE_OBJECT
        | DataType::ENVAR => Holding::Inline,
        DataType::PROC
        | DataType::PROC_NSPACE
        | DataType::PROC_INFO
        | DataType::DATA_ARRAY
        | DataType::COORD
        | DataType::REGATTR
        | DataType::PROC_CPUSET
        | DataType::GEOMETRY
        | DataType::DEVICE_DIST
        | DataType::ENDPOINT
        | DataType::TOPO
        | DataType::PROC_STATS
        | DataType::DISK_STATS
        | DataType::NET_STATS
        | DataType::NODE_STATS
        | DataType::DATA_BUFFER
        | DataType::DEVICE
        | DataType::RESOURCE_UNIT
        | DataType::NODE_PID
        | DataType::REGEX2 => Holding::Pointer,
        ty if ty.scalar_width().is_some() => Holding::Inline,
        _ => Holding::Nothing,
    }
}

impl Object for pmix_value_t {
    type Model = Value;

    unsafe fn read(at: *const pmix_value_t) -> Result<Value> {
        // SAFETY: the promise of `Object::read`.
        unsafe {
            let ty = DataType((*at).type_);
            let data = (&raw const (*at).data).cast::<c_void>();
            let pointer = data.cast::<*const c_void>();
            match holding(ty) {
                _ if ty == DataType::UNDEF => Ok(Value::Undef),
                // A map in memory of its own is its text; in a value it is a byte object.
                Holding::Inline if ty == DataType::REGEX => pmix_byte_object_t::read(data.cast()).map(Value::Regex),
                Holding::Inline => read_any(ty, data),
                Holding::Pointer if (*pointer).is_null() && ty == DataType::DATA_ARRAY => {
                    Ok(Value::DataArray(Box::new(DataArray { ty: DataType::UNDEF, items: Vec::new() })))
                }
                // Loading a directive with NULL leaves this; its presence is its meaning.
                Holding::Pointer if (*pointer).is_null() => Ok(Value::Undef),
                Holding::Pointer => read_any(ty, *pointer),
                Holding::Nothing => Err(Status::ERR_UNKNOWN_DATA_TYPE),
            }
        }
    }

    unsafe fn write(value: &Value, at: *mut pmix_value_t) -> Result<()> {
        let ty = value.data_type();
        // SAFETY: the promise of `Object::write`; structures go to new memory of their size.
        unsafe {
            (*at).type_ = ty.0;
            let data = (&raw mut (*at).data).cast::<c_void>();
            match holding(ty) {
                _ if ty == DataType::UNDEF => Ok(()),
                Holding::Inline => match value {
                    Value::Regex(map) => pmix_byte_object_t::write(map, data.cast()),
                    value => write_any(value, data),
                },
                Holding::Pointer => {
                    let size = element_size(ty).ok_or(Status::ERR_NOT_SUPPORTED)?;
                    let object = zeroed::<u8>(size)?.cast::<c_void>();
                    data.cast::<*mut c_void>().write(object);
                    write_any(value, object)
                }
                Holding::Nothing => {
                    (*at).type_ = DataType::UNDEF.0;
                    Err(Status::ERR_UNKNOWN_DATA_TYPE)
                }
            }
        }
    }

    unsafe fn destroy(at: *mut pmix_value_t) {
        // SAFETY: the promise of `Object::destroy`.
        unsafe {
            let ty = DataType((*at).type_);
            let data = (&raw mut (*at).data).cast::<c_void>();
            match holding(ty) {
                Holding::Inline if ty == DataType::REGEX => pmix_byte_object_t::destroy(data.cast()),
                Holding::Inline => destroy_any(ty, data),
                Holding::Pointer => {
                    let object = data.cast::<*mut c_void>().read();
                    if !object.is_null() {
                        destroy_any(ty, object);
                        free(object);
                    }
                }
                Holding::Nothing => {}
            }
            at.write_bytes(0, 1);
        }
    }
}

/// A view of a value that C code holds, without allocating; `None` for structures.
///
/// # Safety
/// `value` is an initialised value that stays unchanged for `'a`.
pub unsafe fn borrow<'a>(value: *const pmix_value_t) -> Option<ValueRef<'a>> {
    // SAFETY: the union holds what the type says.
    unsafe {
        let ty = DataType((*value).type_);
        let data = &raw const (*value).data;
        Some(match ty {
            DataType::STRING => ValueRef::Str(text::string((*data).string)),
            DataType::BYTE_OBJECT
            | DataType::REGEX
            | DataType::COMPRESSED_STRING
            | DataType::COMPRESSED_BYTE_OBJECT => {
                let object = (&raw const (*data).bo).read();
                ValueRef::Bytes { ty, bytes: array::bytes(object.bytes, object.size) }
            }
            ty => ValueRef::Scalar { ty, bits: read_bits(ty, data.cast()).ok()? },
        })
    }
}

/// Writes a value from a store over whatever is there; numbers cost no allocation, strings and bytes one.
///
/// # Errors
/// `NOMEM`, and what decoding a packed structure says.
///
/// # Safety
/// `at` has room for one value.
#[inline]
pub unsafe fn write_ref(value: ValueRef<'_>, at: *mut pmix_value_t) -> Result<()> {
    let (ty, words) = match value {
        // The bytes of a number are the first ones of the union: bits are little-endian, as the machine is.
        ValueRef::Scalar { ty, bits } => (ty, [bits, 0, 0]),
        ValueRef::Str(string) => (DataType::STRING, [copy_string_or_null(string)?.expose_provenance() as u64, 0, 0]),
        ValueRef::Bytes { ty, bytes } if ty != DataType::DATA_BUFFER => {
            (ty, [copy_bytes(bytes)?.expose_provenance() as u64, bytes.len() as u64, 0])
        }
        // SAFETY: the caller's promise.
        structure => return unsafe { write_structure(structure, at) },
    };
    // SAFETY: the caller's promise.
    unsafe { at.write(pmix_value_t { type_: ty.0, data: pmix_value_data { words } }) };
    Ok(())
}

/// # Safety
/// As [`write_ref`].
#[cold]
unsafe fn write_structure(value: ValueRef<'_>, at: *mut pmix_value_t) -> Result<()> {
    // SAFETY: the caller's promise; zeroed here, as `Object::write` wants it.
    unsafe {
        at.write_bytes(0, 1);
        let written = match value {
            ValueRef::Owned(value) => pmix_value_t::write(value, at),
            packed => packed.to_value().and_then(|value| pmix_value_t::write(&value, at)),
        };
        if written.is_err() {
            pmix_value_t::destroy(at);
        }
        written
    }
}

const _: () = assert!(cfg!(target_endian = "little"), "numbers are written into the union by their first bytes");

/// A value whose type and union say everything: a number, or what points to a string or bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Plain {
    /// Its type.
    pub ty: DataType,
    /// The union: the bits of a number, the address of a string, address and length of bytes.
    pub words: [u64; 2],
}

impl Plain {
    /// A number, whose bytes are the first ones of the union.
    #[inline(always)]
    pub fn number(ty: DataType, bits: u64) -> Plain {
        Plain { ty, words: [bits, 0] }
    }

    /// A string, with its NUL, where it lies.
    #[inline(always)]
    pub fn text(text: &[u8]) -> Plain {
        Plain { ty: DataType::STRING, words: [text.as_ptr().expose_provenance() as u64, 0] }
    }

    /// Bytes where they lie.
    #[inline(always)]
    pub fn bytes(ty: DataType, bytes: &[u8]) -> Plain {
        Plain { ty, words: [bytes.as_ptr().expose_provenance() as u64, bytes.len() as u64] }
    }

    /// The C form.
    #[inline(always)]
    pub fn to_c(self) -> pmix_value_t {
        let [first, second] = self.words;
        pmix_value_t { type_: self.ty.0, data: pmix_value_data { words: [first, second, 0] } }
    }
}

/// A plain value from `malloc`, which C code frees; `None` where there is none left.
#[inline(always)]
pub fn allocate(plain: Plain) -> Option<*mut pmix_value_t> {
    let at = reserve::<pmix_value_t>().ok()?;
    // SAFETY: new memory for one value.
    unsafe { at.write(plain.to_c()) };
    Some(at)
}

/// A value from `malloc`, which C code frees.
///
/// # Errors
/// As [`write_ref`].
#[inline]
pub fn allocate_ref(value: ValueRef<'_>) -> Result<*mut pmix_value_t> {
    // Not calloc: every byte is written, and glibc's calloc passes its thread's cache by.
    let at = reserve::<pmix_value_t>()?;
    // SAFETY: new memory for one value, freed where writing fails; nothing is left in it then.
    unsafe {
        if let Err(status) = write_ref(value, at) {
            free(at);
            return Err(status);
        }
    }
    Ok(at)
}

/// Fills a value, whose former contents do not count, with a copy of the object at `data`.
///
/// # Errors
/// `NOMEM`, and what reading the object says.
///
/// # Safety
/// `at` is writable; `data` is NULL, for STRING a C string, for REGEX a map as [`text::map`] reads it, for PROC_NSPACE a
/// namespace, for POINTER any address, and otherwise an object of the type's C form.
pub unsafe fn load(at: *mut pmix_value_t, data: *const c_void, ty: DataType) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        at.write_bytes(0, 1);
        (*at).type_ = ty.0;
        let union = &raw mut (*at).data;
        match ty {
            DataType::BOOL if data.is_null() => (*union).bytes[0] = 1,
            _ if data.is_null() => {}
            DataType::STRING => (*union).string = copy_string_or_null(text::string(data.cast()))?,
            DataType::REGEX => {
                let map = text::map(data.cast());
                (*union).bo = pmix_byte_object_t { bytes: copy_bytes(map)?, size: map.len() };
            }
            DataType::POINTER => (*union).pointer = data.cast_mut(),
            _ if holding(ty) == Holding::Nothing => {}
            ty => {
                let written = read_any(ty, data).and_then(|value| pmix_value_t::write(&value, at));
                if let Err(status) = written {
                    pmix_value_t::destroy(at);
                    return Err(status);
                }
            }
        }
    }
    Ok(())
}

/// Copies a value over one whose former contents do not count.
///
/// # Errors
/// `NOMEM`, and what reading the value says.
///
/// # Safety
/// `dest` is writable and `src` initialised.
pub unsafe fn transfer(dest: *mut pmix_value_t, src: *const pmix_value_t) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        let value = pmix_value_t::read(src)?;
        dest.write_bytes(0, 1);
        let written = pmix_value_t::write(&value, dest);
        if written.is_err() {
            pmix_value_t::destroy(dest);
        }
        written
    }
}

/// Copies what a value holds to C code, in the forms of `PMIx_Value_unload`.
///
/// # Errors
/// `UNKNOWN_DATA_TYPE` for a value that holds nothing; `BAD_PARAM` where the caller's memory is missing; `NOMEM`.
///
/// # Safety
/// `at` is initialised; `data` and `size` are writable, and `*data` has room for a number, PROC or TIMEVAL.
pub unsafe fn unload(at: *const pmix_value_t, data: *mut *mut c_void, size: *mut usize) -> Result<()> {
    // SAFETY: the caller's promise; the union holds what the type says.
    unsafe {
        let ty = DataType((*at).type_);
        let union = &raw const (*at).data;
        let width = element_size(ty);
        match ty {
            DataType::STRING => {
                if let Some(string) = text::string((*union).string) {
                    *data = crate::memory::copy_string(string)?.cast();
                    *size = string.to_bytes().len();
                }
                return Ok(());
            }
            DataType::BYTE_OBJECT
            | DataType::REGEX
            | DataType::COMPRESSED_STRING
            | DataType::COMPRESSED_BYTE_OBJECT => {
                let object = (&raw const (*union).bo).read();
                let empty = object.bytes.is_null() || object.size == 0;
                *data = if empty { std::ptr::null_mut() } else { object.bytes.cast() };
                *size = if empty { 0 } else { object.size };
                return Ok(());
            }
            DataType::POINTER => {
                *data = (*union).pointer;
                *size = size_of::<*mut c_void>();
                return Ok(());
            }
            DataType::UNDEF => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
            _ => {}
        }
        let width = width.ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        let source = match holding(ty) {
            Holding::Inline => union.cast::<c_void>(),
            Holding::Pointer => (*union).pointer.cast_const(),
            Holding::Nothing => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
        };
        if source.is_null() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let plain = ty.scalar_width().is_some() || matches!(ty, DataType::TIMEVAL | DataType::PROC);
        if plain {
            if (*data).is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            (*data).cast::<u8>().copy_from_nonoverlapping(source.cast(), width);
        } else {
            let value = read_any(ty, source)?;
            let copy = zeroed::<u8>(width)?.cast::<c_void>();
            if let Err(status) = write_any(&value, copy) {
                destroy_any(ty, copy);
                free(copy);
                return Err(status);
            }
            *data = copy;
        }
        // Of a namespace its text counts.
        *size = if ty == DataType::PROC_NSPACE { text::nspace_text(source.cast())?.len() } else { width };
    }
    Ok(())
}
