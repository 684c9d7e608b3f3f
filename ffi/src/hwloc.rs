//! hwloc's bitmaps, for those who ask for a cpuset.
//!
//! A `pmix_cpuset_t` holds a bitmap of hwloc's, which the caller passes on to hwloc's own functions, so it must be a real one. Few
//! processes ask for one: the library is not linked to hwloc, whose loading each rank's start would pay for, but opens it
//! when it is first needed.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::LazyLock;

use pmix_dstore::model::{Result, Status};

use crate::convert::text::string;

/// What cpusets with bitmaps of hwloc's name as their source.
pub const SOURCE: &[u8] = b"hwloc";
/// Longer numbers than any processor's: a list from elsewhere must not make a bitmap of gigabytes.
const DIGITS_MAX: usize = 7;

/// The functions of hwloc 2 that are used here.
pub struct Hwloc {
    alloc: unsafe extern "C" fn() -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    set: unsafe extern "C" fn(*mut c_void, c_uint) -> c_int,
    read: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    write: unsafe extern "C" fn(*mut *mut c_char, *const c_void) -> c_int,
}

/// hwloc, once somebody has asked for it; it stays.
static HWLOC: LazyLock<Option<Hwloc>> = LazyLock::new(Hwloc::open);

impl Hwloc {
    /// hwloc, which is opened now if nobody has needed it before.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` where there is none.
    pub fn get() -> Result<&'static Hwloc> {
        HWLOC.as_ref().ok_or(Status::ERR_NOT_SUPPORTED)
    }

    fn open() -> Option<Hwloc> {
        // SAFETY: a plain C string; hwloc's constructors have no needs of ours.
        let library = unsafe { libc::dlopen(c"libhwloc.so.15".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        let find = |name: &CStr| {
            // SAFETY: the library is open and stays so.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            Some(symbol).filter(|symbol| !symbol.is_null())
        };
        // SAFETY: the functions of hwloc's second major release, which the file's name stands for, have these types.
        unsafe {
            Some(Hwloc {
                alloc: transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_void>(find(c"hwloc_bitmap_alloc")?),
                free: transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(find(c"hwloc_bitmap_free")?),
                set: transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, c_uint) -> c_int>(find(
                    c"hwloc_bitmap_set",
                )?),
                read: transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int>(find(
                    c"hwloc_bitmap_list_sscanf",
                )?),
                write: transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_char, *const c_void) -> c_int>(find(
                    c"hwloc_bitmap_list_asprintf",
                )?),
            })
        }
    }

    fn empty(&self) -> Result<*mut c_void> {
        // SAFETY: hwloc gives a bitmap or NULL.
        let bitmap = unsafe { (self.alloc)() };
        if bitmap.is_null() { Err(Status::ERR_NOMEM) } else { Ok(bitmap) }
    }

    /// A bitmap of these numbers, which the caller owns.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn bitmap(&self, numbers: impl Iterator<Item = u32>) -> Result<*mut c_void> {
        let bitmap = self.empty()?;
        for number in numbers {
            // SAFETY: the bitmap is hwloc's and ours alone.
            if unsafe { (self.set)(bitmap, number) } != 0 {
                // SAFETY: as above; nobody else has it.
                unsafe { (self.free)(bitmap) };
                return Err(Status::ERR_NOMEM);
            }
        }
        Ok(bitmap)
    }

    /// A bitmap of a list such as `0-3,8`, which the caller owns.
    ///
    /// # Errors
    /// `BAD_PARAM` for what is no list, or has numbers beyond all processors; `NOMEM`.
    pub fn parse(&self, list: &CStr) -> Result<*mut c_void> {
        if list.to_bytes().split(|byte| !byte.is_ascii_alphanumeric()).any(|number| number.len() > DIGITS_MAX) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let bitmap = self.empty()?;
        // SAFETY: the bitmap is hwloc's and ours alone, the list a C string.
        if unsafe { (self.read)(bitmap, list.as_ptr()) } != 0 {
            // SAFETY: as above; nobody else has it.
            unsafe { (self.free)(bitmap) };
            return Err(Status::ERR_BAD_PARAM);
        }
        Ok(bitmap)
    }

    /// The list of a bitmap.
    ///
    /// # Errors
    /// `NOMEM`.
    ///
    /// # Safety
    /// The bitmap is one of hwloc's.
    pub unsafe fn list(&self, bitmap: *const c_void) -> Result<Vec<u8>> {
        let mut text = ptr::null_mut();
        // SAFETY: the caller's promise; hwloc sets the text to one from malloc.
        if unsafe { (self.write)(&mut text, bitmap) } < 0 || text.is_null() {
            return Err(Status::ERR_NOMEM);
        }
        // SAFETY: a C string that hwloc made for us.
        let list = unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
        // SAFETY: from malloc, and nobody else has it.
        unsafe { libc::free(text.cast()) };
        Ok(list)
    }

    /// Frees a bitmap.
    ///
    /// # Safety
    /// The bitmap is one of hwloc's that nobody uses any more.
    pub unsafe fn free(&self, bitmap: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { (self.free)(bitmap) }
    }
}

/// Whether a cpuset's bitmap is hwloc's, by the name of its source.
///
/// # Safety
/// `source` is NULL or a C string.
pub unsafe fn is_hwlocs(source: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    let source = unsafe { string(source) }.map(CStr::to_bytes).unwrap_or_default();
    source.get(..SOURCE.len()).is_some_and(|start| start.eq_ignore_ascii_case(SOURCE))
}

/// The processors that a thread of this process may use; 0 is the caller.
///
/// # Errors
/// `NOT_SUPPORTED` where the kernel does not tell.
pub fn processors_of(thread: libc::pid_t) -> Result<Vec<u32>> {
    // Kernels are built for no more than 8192 processors.
    let mut mask = [0_u64; 128];
    // SAFETY: the mask is as long as is said.
    let told = unsafe { libc::sched_getaffinity(thread, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if told != 0 {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    let is_set = |number: &u32| mask[*number as usize / 64] >> (number % 64) & 1 == 1;
    Ok((0..64 * mask.len() as u32).filter(is_set).collect())
}
