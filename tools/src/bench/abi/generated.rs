// Written by `make generate` from types.tsv, members.tsv and functions.tsv of ffi/abi.

/// `PMIX_MAX_NSLEN + 1` bytes: a namespace, NUL-terminated.
pub type pmix_nspace_t = [c_char; 256];
/// `PMIX_MAX_KEYLEN + 1` bytes: a key, NUL-terminated.
pub type pmix_key_t = [c_char; 512];
pub type pmix_rank_t = u32;
pub type pmix_status_t = c_int;
pub type pmix_data_type_t = u16;
pub type pmix_scope_t = u8;
pub type pmix_info_directives_t = u32;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_byte_object_t {
    pub bytes: *mut c_char,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_proc_t {
    pub nspace: pmix_nspace_t,
    pub rank: pmix_rank_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_value_t {
    pub type_: pmix_data_type_t,
    pub data: pmix_value_data,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_info_t {
    pub key: pmix_key_t,
    pub flags: pmix_info_directives_t,
    pub value: pmix_value_t,
}
pub type PMIx_Commit = unsafe extern "C" fn() -> pmix_status_t;
pub type PMIx_Fence = unsafe extern "C" fn(procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) -> pmix_status_t;
pub type PMIx_Finalize = unsafe extern "C" fn(info: *const pmix_info_t, ninfo: usize) -> pmix_status_t;
pub type PMIx_Get = unsafe extern "C" fn(proc: *const pmix_proc_t, key: *const c_char, info: *const pmix_info_t, ninfo: usize, val: *mut *mut pmix_value_t) -> pmix_status_t;
pub type PMIx_Get_version = unsafe extern "C" fn() -> *const c_char;
pub type PMIx_Init = unsafe extern "C" fn(proc: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) -> pmix_status_t;
pub type PMIx_Put = unsafe extern "C" fn(scope: pmix_scope_t, key: *const c_char, val: *mut pmix_value_t) -> pmix_status_t;

const _: () = {
    assert!(size_of::<pmix_byte_object_t>() == 16);
    assert!(align_of::<pmix_byte_object_t>() == 8);
    assert!(size_of::<pmix_proc_t>() == 260);
    assert!(align_of::<pmix_proc_t>() == 4);
    assert!(size_of::<pmix_value_t>() == 32);
    assert!(align_of::<pmix_value_t>() == 8);
    assert!(size_of::<pmix_info_t>() == 552);
    assert!(align_of::<pmix_info_t>() == 8);
    assert!(size_of::<pmix_nspace_t>() == 256);
    assert!(align_of::<pmix_nspace_t>() == 1);
    assert!(size_of::<pmix_key_t>() == 512);
    assert!(align_of::<pmix_key_t>() == 1);
    assert!(size_of::<pmix_rank_t>() == 4);
    assert!(align_of::<pmix_rank_t>() == 4);
    assert!(size_of::<pmix_status_t>() == 4);
    assert!(align_of::<pmix_status_t>() == 4);
    assert!(size_of::<pmix_data_type_t>() == 2);
    assert!(align_of::<pmix_data_type_t>() == 2);
    assert!(size_of::<pmix_scope_t>() == 1);
    assert!(align_of::<pmix_scope_t>() == 1);
    assert!(size_of::<pmix_info_directives_t>() == 4);
    assert!(align_of::<pmix_info_directives_t>() == 4);
    assert!(std::mem::offset_of!(pmix_byte_object_t, bytes) == 0);
    assert!(member_size(|whole: &pmix_byte_object_t| &whole.bytes) == 8);
    assert!(std::mem::offset_of!(pmix_byte_object_t, size) == 8);
    assert!(member_size(|whole: &pmix_byte_object_t| &whole.size) == 8);
    assert!(std::mem::offset_of!(pmix_proc_t, nspace) == 0);
    assert!(member_size(|whole: &pmix_proc_t| &whole.nspace) == 256);
    assert!(std::mem::offset_of!(pmix_proc_t, rank) == 256);
    assert!(member_size(|whole: &pmix_proc_t| &whole.rank) == 4);
    assert!(std::mem::offset_of!(pmix_value_t, type_) == 0);
    assert!(member_size(|whole: &pmix_value_t| &whole.type_) == 2);
    assert!(std::mem::offset_of!(pmix_value_t, data) == 8);
    assert!(member_size(|whole: &pmix_value_t| &whole.data) == 24);
    assert!(std::mem::offset_of!(pmix_info_t, key) == 0);
    assert!(member_size(|whole: &pmix_info_t| &whole.key) == 512);
    assert!(std::mem::offset_of!(pmix_info_t, flags) == 512);
    assert!(member_size(|whole: &pmix_info_t| &whole.flags) == 4);
    assert!(std::mem::offset_of!(pmix_info_t, value) == 520);
    assert!(member_size(|whole: &pmix_info_t| &whole.value) == 32);
};
