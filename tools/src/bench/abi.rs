//! The declarations of the C interface that measuring needs, written from the tables of `ffi/abi`.

// Every item here is a C declaration that the standard documents under the same name.
#![allow(missing_docs, non_camel_case_types)]

use std::ffi::{c_char, c_int};

/// What a value holds, as far as it is put or read here.
#[repr(C)]
#[derive(Clone, Copy)]
pub union pmix_value_data {
    pub bytes: [u8; 24],
    pub uint32: u32,
    pub string: *mut c_char,
    pub bo: pmix_byte_object_t,
}

/// The size of a member of a structure.
const fn member_size<T, M>(_: fn(&T) -> &M) -> usize {
    size_of::<M>()
}

include!("abi/generated.rs");
