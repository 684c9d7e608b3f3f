//! The structures and callback types of the C interface.
//!
//! Names and members are those of the C headers; all but the union of a value are written from the tables of `abi`. Sizes and
//! offsets are compared at compile time with what was measured in the releases 4.2.2 to 7.0. All of them agree, except about
//! the server module.

// Every item here is a C declaration that the standard documents under the same name.
#![allow(missing_docs, non_camel_case_types)]

mod generated;

use std::ffi::{c_char, c_void};

use libc::timeval;

pub use generated::*;

/// `PMIX_BOOL_TRUE`, which is zero.
pub const BOOL_TRUE: pmix_boolean_t = 0;
/// `PMIX_BOOL_FALSE`.
pub const BOOL_FALSE: pmix_boolean_t = 1;
/// `PMIX_NON_BOOL`.
pub const NON_BOOL: pmix_boolean_t = 2;

/// What a value holds: by itself for numbers, strings, byte objects and environment variables, by pointer otherwise.
///
/// Numbers are read and written through `bytes`, by the width of their type.
#[repr(C)]
#[derive(Clone, Copy)]
pub union pmix_value_data {
    pub bytes: [u8; 24],
    pub words: [u64; 3],
    pub string: *mut c_char,
    pub pointer: *mut c_void,
    pub tv: timeval,
    pub bo: pmix_byte_object_t,
    pub envar: pmix_envar_t,
    pub darray: *mut pmix_data_array_t,
    pub proc: *mut pmix_proc_t,
}

/// The size of a member of a structure.
const fn member_size<T, M>(_: fn(&T) -> &M) -> usize {
    size_of::<M>()
}

include!("types/layouts.rs");
