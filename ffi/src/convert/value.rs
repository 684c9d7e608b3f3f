//! `pmix_value_t`: a type code and a union, in which structures are held by pointer.

use std::ffi::c_void;
use std::ptr;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::model::{DataArray, DataType, Result, Status, Value};

use super::array;
use super::object::{Object, destroy_any, element_size, read_any, read_bits, write_any};
use super::text;
use crate::memory::{copy_bytes, copy_string, copy_string_or_null, free, reserve, zeroed};
use crate::types::*;

/// How a value holds its data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holding {
    /// In the union itself.
    Inline,
    /// Behind a pointer in the union.
    Pointer,
    /// Not at all: structures that only arrays hold, and unknown codes.
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
        // SAFETY: the value is initialised, by the promise of `Object::read`.
        let ty = DataType(unsafe { (*at).type_ });
        // SAFETY: within the value.
        let data = unsafe { &raw const (*at).data }.cast::<c_void>();
        match holding(ty) {
            _ if ty == DataType::UNDEF => Ok(Value::Undef),
            // A map in memory of its own is its text; in a value it is a byte object.
            Holding::Inline if ty == DataType::REGEX => {
                // SAFETY: the type says that the union holds a byte object.
                let map = unsafe { pmix_byte_object_t::read(data.cast()) };
                map.map(Value::Regex)
            }
            // SAFETY: the union holds an object of the value's type.
            Holding::Inline => unsafe { read_any(ty, data) },
            Holding::Pointer => {
                // SAFETY: the type says that the union holds a pointer.
                let object = unsafe { data.cast::<*const c_void>().read() };
                match ty {
                    DataType::DATA_ARRAY if object.is_null() => {
                        Ok(Value::DataArray(Box::new(DataArray { ty: DataType::UNDEF, items: Vec::new() })))
                    }
                    // A directive that was loaded with NULL looks like this. Its presence is its meaning.
                    _ if object.is_null() => Ok(Value::Undef),
                    // SAFETY: not NULL, hence an object of the value's type.
                    ty => unsafe { read_any(ty, object) },
                }
            }
            Holding::Nothing => Err(Status::ERR_UNKNOWN_DATA_TYPE),
        }
    }

    unsafe fn write(value: &Value, at: *mut pmix_value_t) -> Result<()> {
        let ty = value.data_type();
        // SAFETY: zeroed memory for a value, which is a valid empty one, by the promise of `Object::write`.
        let to = unsafe { &mut *at };
        to.type_ = ty.0;
        match (holding(ty), value) {
            _ if ty == DataType::UNDEF => Ok(()),
            (Holding::Inline, Value::Regex(map)) => {
                to.data.bo = pmix_byte_object_t { bytes: copy_bytes(map)?, size: map.len() };
                Ok(())
            }
            // SAFETY: the union is zeroed and has room for what is held in it.
            (Holding::Inline, value) => unsafe { write_any(value, (&raw mut to.data).cast()) },
            (Holding::Pointer, value) => {
                let size = element_size(ty).ok_or(Status::ERR_NOT_SUPPORTED)?;
                let object = zeroed::<u8>(size)?.cast::<c_void>();
                to.data.pointer = object;
                // SAFETY: new zeroed memory of the size of an object of this type.
                unsafe { write_any(value, object) }
            }
            (Holding::Nothing, _) => {
                to.type_ = DataType::UNDEF.0;
                Err(Status::ERR_UNKNOWN_DATA_TYPE)
            }
        }
    }

    unsafe fn destroy(at: *mut pmix_value_t) {
        // SAFETY: the value is initialised, by the promise of `Object::destroy`.
        let ty = DataType(unsafe { (*at).type_ });
        // SAFETY: within the value.
        let data = unsafe { &raw mut (*at).data }.cast::<c_void>();
        match holding(ty) {
            // SAFETY: the type says that the union holds a byte object, whose bytes come from `malloc`.
            Holding::Inline if ty == DataType::REGEX => unsafe { pmix_byte_object_t::destroy(data.cast()) },
            // SAFETY: the union holds an object of the value's type, whose contents come from `malloc`.
            Holding::Inline => unsafe { destroy_any(ty, data) },
            Holding::Pointer => {
                // SAFETY: the type says that the union holds a pointer.
                let object = unsafe { data.cast::<*mut c_void>().read() };
                if !object.is_null() {
                    // SAFETY: an object of the value's type; it and its contents come from `malloc`.
                    unsafe {
                        destroy_any(ty, object);
                        free(object);
                    }
                }
            }
            // Not written: PRRTE 3.0 destructs the element behind the end of an array, where another object is.
            Holding::Nothing => return,
        }
        // SAFETY: the value may be written, by the promise of `Object::destroy`.
        unsafe { at.write_bytes(0, 1) };
    }
}

/// A view of a value that C code holds, without allocating; `None` for structures.
///
/// # Safety
/// `value` is an initialised value that stays unchanged for `'a`.
pub unsafe fn borrow<'a>(value: *const pmix_value_t) -> Option<ValueRef<'a>> {
    // SAFETY: the value is initialised, by the caller's promise.
    let ty = DataType(unsafe { (*value).type_ });
    // SAFETY: within the value.
    let data = unsafe { &raw const (*value).data };
    Some(match ty {
        // SAFETY: the type says that the union holds a string: NULL, or a C string that stays for `'a`.
        DataType::STRING => ValueRef::Str(unsafe { text::string((*data).string) }),
        DataType::BYTE_OBJECT | DataType::REGEX | DataType::COMPRESSED_STRING | DataType::COMPRESSED_BYTE_OBJECT => {
            // SAFETY: the type says that the union holds a byte object.
            let pmix_byte_object_t { bytes, size } = unsafe { (*data).bo };
            // SAFETY: the pointer is NULL or leads to as many bytes as the size says, which stay for `'a`.
            ValueRef::Bytes { ty, bytes: unsafe { array::bytes(bytes, size) } }
        }
        // SAFETY: of a number's type the union holds the number; of another type nothing is read.
        ty => ValueRef::Scalar { ty, bits: unsafe { read_bits(ty, data.cast()) }.ok()? },
    })
}

/// Writes a value from a store over whatever is there. Numbers take no allocation, strings and bytes take one.
///
/// # Errors
/// `NOMEM`, and what decoding a packed structure says.
///
/// # Safety
/// `at` has room for one value.
#[inline]
pub unsafe fn write_ref(value: ValueRef<'_>, at: *mut pmix_value_t) -> Result<()> {
    let (ty, words) = match value {
        // A number lies in the first bytes of the union. The machine is little-endian, so a word in its place has the same bytes.
        ValueRef::Scalar { ty, bits } => (ty, [bits, 0, 0]),
        ValueRef::Str(string) => (DataType::STRING, [copy_string_or_null(string)?.expose_provenance() as u64, 0, 0]),
        ValueRef::Bytes { ty, bytes } if ty != DataType::DATA_BUFFER => {
            (ty, [copy_bytes(bytes)?.expose_provenance() as u64, bytes.len() as u64, 0])
        }
        // SAFETY: `at` has room for one value, by the caller's promise.
        structure => return unsafe { write_structure(structure, at) },
    };
    // SAFETY: `at` has room for one value, by the caller's promise.
    unsafe { at.write(pmix_value_t { type_: ty.0, data: pmix_value_data { words } }) };
    Ok(())
}

/// # Safety
/// As [`write_ref`].
#[cold]
unsafe fn write_structure(value: ValueRef<'_>, at: *mut pmix_value_t) -> Result<()> {
    // SAFETY: `at` has room for one value, by the caller's promise; zeros are an empty one, which stays after an error.
    unsafe { at.write_bytes(0, 1) };
    match value {
        // SAFETY: `at` has room for one value, by the caller's promise.
        ValueRef::Owned(value) => unsafe { write_over(value, at) },
        packed => {
            let value = packed.to_value()?;
            // SAFETY: as above.
            unsafe { write_over(&value, at) }
        }
    }
}

/// Writes a value over whatever is there, which is not freed. After an error the value is empty.
///
/// # Errors
/// As [`Object::write`].
///
/// # Safety
/// `at` has room for one value.
unsafe fn write_over(value: &Value, at: *mut pmix_value_t) -> Result<()> {
    // SAFETY: `at` has room for one value, by the caller's promise; zeroed here, as `Object::write` wants it.
    let written = unsafe {
        at.write_bytes(0, 1);
        pmix_value_t::write(value, at)
    };
    if written.is_err() {
        // SAFETY: `write` leaves a value that can be destroyed.
        unsafe { pmix_value_t::destroy(at) };
    }
    written
}

const _: () = assert!(
    cfg!(target_endian = "little"),
    "a number is written as a word, whose first bytes must be those of the number"
);

/// A value without further structure: a number, or a pointer to a string or to bytes.
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

    /// A string, with its NUL, that is not copied.
    #[inline(always)]
    pub fn text(text: &[u8]) -> Plain {
        Plain { ty: DataType::STRING, words: [text.as_ptr().expose_provenance() as u64, 0] }
    }

    /// Bytes that are not copied.
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

/// A plain value from `malloc`, which C code frees; `None` without memory.
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
    // Not calloc: every byte is written anyway, and glibc's calloc does not use the cache of the thread.
    let at = reserve::<pmix_value_t>()?;
    // SAFETY: new memory for one value.
    if let Err(status) = unsafe { write_ref(value, at) } {
        // SAFETY: nobody else knows the memory, and a write that fails leaves nothing in it that would have to be freed.
        unsafe { free(at) };
        return Err(status);
    }
    Ok(at)
}

/// Fills a value with a copy of the object at `data`. The former contents are overwritten without being freed.
///
/// # Errors
/// `NOMEM`, and what reading the object says.
///
/// # Safety
/// `at` is writable; `data` is NULL, for STRING a C string, for REGEX a map as [`text::map`] reads it, for PROC_NSPACE a
/// namespace, for POINTER any address, and otherwise an object of the type's C form.
pub unsafe fn load(at: *mut pmix_value_t, data: *const c_void, ty: DataType) -> Result<()> {
    // SAFETY: `at` has room for one value, by the caller's promise, and a value may be all zero.
    let to = unsafe {
        at.write_bytes(0, 1);
        &mut *at
    };
    to.type_ = ty.0;
    match ty {
        DataType::BOOL if data.is_null() => to.data.bytes = TRUE,
        _ if data.is_null() => {}
        // SAFETY: not NULL, hence a C string by the caller's promise.
        DataType::STRING => to.data.string = copy_string_or_null(unsafe { text::string(data.cast()) })?,
        DataType::REGEX => {
            // SAFETY: not NULL, hence a map by the caller's promise.
            let map = unsafe { text::map(data.cast()) };
            to.data.bo = pmix_byte_object_t { bytes: copy_bytes(map)?, size: map.len() };
        }
        DataType::POINTER => to.data.pointer = data.cast_mut(),
        _ if holding(ty) == Holding::Nothing => {}
        ty => {
            // SAFETY: not NULL, hence an object of this type by the caller's promise.
            let read = unsafe { read_any(ty, data) };
            let value = read.inspect_err(|_| to.type_ = DataType::UNDEF.0)?;
            // SAFETY: `at` has room for one value, by the caller's promise.
            unsafe { write_over(&value, at) }?;
        }
    }
    Ok(())
}

/// What the union holds for a boolean that is true.
const TRUE: [u8; 24] = {
    let mut bytes = [0; 24];
    bytes[0] = 1;
    bytes
};

/// Copies a value over another one, whose former contents are not freed.
///
/// # Errors
/// `NOMEM`, and what reading the value says.
///
/// # Safety
/// `dest` is writable and `src` initialised.
pub unsafe fn transfer(dest: *mut pmix_value_t, src: *const pmix_value_t) -> Result<()> {
    // SAFETY: `src` is initialised, by the caller's promise.
    let value = unsafe { pmix_value_t::read(src) }?;
    // SAFETY: `dest` has room for one value, by the caller's promise.
    unsafe { write_over(&value, dest) }
}

/// Copies an object into new memory of its own, which C code frees.
///
/// # Errors
/// `UNKNOWN_DATA_TYPE`, `NOMEM`, and what reading the object says.
///
/// # Safety
/// `at` is an initialised object of the type's C form.
pub unsafe fn copy_object(ty: DataType, at: *const c_void) -> Result<*mut c_void> {
    // SAFETY: the caller's promise.
    let value = unsafe { read_any(ty, at) }?;
    let size = element_size(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    let copy = zeroed::<u8>(size)?.cast::<c_void>();
    // SAFETY: new zeroed memory of the size of an object of this type.
    if let Err(status) = unsafe { write_any(&value, copy) } {
        // SAFETY: `write_any` leaves an object that can be destroyed, and nobody else knows the memory.
        unsafe {
            destroy_any(ty, copy);
            free(copy);
        }
        return Err(status);
    }
    Ok(copy)
}

/// Copies the contents of a value to C code, in the forms of `PMIx_Value_unload`: returns where they lie, and their size. `None`
/// for a string that is NULL.
///
/// # Errors
/// `UNKNOWN_DATA_TYPE` for a value that holds nothing; `BAD_PARAM` where the caller's memory is missing; `NOMEM`.
///
/// # Safety
/// `at` is initialised. If it holds a number, PROC or TIMEVAL, `*room` is NULL or the address of memory for one; else `*room` is
/// not read.
pub unsafe fn unload(at: *const pmix_value_t, room: *const *mut c_void) -> Result<Option<(*mut c_void, usize)>> {
    // SAFETY: the value is initialised, by the caller's promise.
    let ty = DataType(unsafe { (*at).type_ });
    // SAFETY: within the value.
    let union = unsafe { &raw const (*at).data };
    let source = match ty {
        DataType::STRING => {
            // SAFETY: the type says that the union holds a string, which is NULL or a C string.
            let string = unsafe { text::string((*union).string) };
            return string.map(|string| Ok((copy_string(string)?.cast(), string.count_bytes()))).transpose();
        }
        DataType::BYTE_OBJECT | DataType::REGEX | DataType::COMPRESSED_STRING | DataType::COMPRESSED_BYTE_OBJECT => {
            // SAFETY: the type says that the union holds a byte object.
            let object = unsafe { (*union).bo };
            let is_empty = object.bytes.is_null() || object.size == 0;
            return Ok(Some(if is_empty { (ptr::null_mut(), 0) } else { (object.bytes.cast(), object.size) }));
        }
        // SAFETY: the type says that the union holds a pointer.
        DataType::POINTER => return Ok(Some((unsafe { (*union).pointer }, size_of::<*mut c_void>()))),
        DataType::UNDEF => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
        ty => match holding(ty) {
            Holding::Inline => union.cast::<c_void>(),
            // SAFETY: the type says that the union holds a pointer.
            Holding::Pointer => unsafe { (*union).pointer.cast_const() },
            Holding::Nothing => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
        },
    };
    let width = element_size(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    if source.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    if ty.scalar_width().is_some() || matches!(ty, DataType::TIMEVAL | DataType::PROC) {
        // SAFETY: the caller's promise about a value of these types.
        let room = unsafe { *room };
        if room.is_null() {
            return Err(Status::ERR_BAD_PARAM);
        }
        // SAFETY: the value's object has this width, and the caller's memory has room for it, by the caller's promise.
        unsafe { room.cast::<u8>().copy_from_nonoverlapping(source.cast(), width) };
        return Ok(Some((room, width)));
    }
    // SAFETY: not NULL, hence an object of the value's type.
    let copy = unsafe { copy_object(ty, source) }?;
    let size = match ty {
        // SAFETY: the type says that this is a namespace, and it has just been read.
        DataType::PROC_NSPACE => unsafe { text::nspace_text(source.cast()) }?.len(),
        _ => width,
    };
    Ok(Some((copy, size)))
}
