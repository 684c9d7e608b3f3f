//! Fallible allocation: a failed allocation is an error of one call, not the end of the process.
//!
//! Rust ends a process whose allocation fails. This library runs inside other programs, possibly under `ulimit -v` or with an
//! address space that the host has filled. Two measures prevent the end of the process:
//!
//! * The functions of this module make allocations whose size a peer, a caller's value or the size of the job decides.
//!   A failure is `ERR_NOMEM`, which ends one call or one request.
//! * All other allocations are small, and [`Allocator`] has a reserve for them: address space that is given up when a
//!   small allocation fails for the first time. From then on the functions here fail, so that the current work ends soon,
//!   until the reserve can be acquired again.
//!
//! Only code that uses up the whole reserve in small allocations, without calling a function of this module meanwhile, can still
//! end the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::hash::{BuildHasher, Hash};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::status::{Result, Status};

mod thread;

pub use thread::{Thread, spawn};

/// Allocations up to this many bytes may use the reserve.
pub(crate) const SMALL_MAX: usize = 256 << 10;
/// Allocations of at least this many bytes use huge pages where the system has them: page faults are most of the cost of filling
/// new memory.
const HUGE_MIN: usize = 4 << 20;
/// Bytes of a huge page. On systems with larger ones, the advice does nothing.
const HUGE_PAGE: usize = 2 << 20;
/// Bytes of address space in reserve; they are never touched and cost no memory.
const RESERVE_LEN: usize = 1 << 20;
/// The smallest useful reserve.
const RESERVE_LEN_MIN: usize = RESERVE_LEN / 2;

/// The reserve of this process.
static RESERVE: Reserve = Reserve::new();

/// The system's allocator with a reserve for small allocations, once [`reserve_emergency`] was called.
///
/// Libraries and programs that end in C or in a user's hands name it as their `#[global_allocator]`.
pub struct Allocator;

/// Repeats a failed small allocation after giving up the reserve.
#[cold]
#[inline(never)]
fn retry(len: usize, allocate: impl FnOnce() -> *mut u8) -> *mut u8 {
    if len <= SMALL_MAX && RESERVE.give_up() { allocate() } else { ptr::null_mut() }
}

/// Requests huge pages for a large block that is not filled yet. Partial huge pages at the ends are left alone. An error is
/// ignored: the system may not support huge pages.
#[cold]
#[inline(never)]
pub fn advise(block: *mut u8, len: usize) {
    if len < HUGE_MIN {
        return;
    }
    let first = block.addr().next_multiple_of(HUGE_PAGE);
    let end = (block.addr() + len) / HUGE_PAGE * HUGE_PAGE;
    if end > first {
        // SAFETY: the pages lie in our own block; the advice does not change their contents.
        unsafe { libc::madvise(block.with_addr(first).cast(), end - first, libc::MADV_HUGEPAGE) };
    }
}

// SAFETY: every block comes from `System` and returns to it with its original layout.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() {
            // SAFETY: the caller's promise.
            return retry(layout.size(), || unsafe { System.alloc(layout) });
        }
        if layout.size() >= HUGE_MIN {
            advise(memory, layout.size());
        }
        memory
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if memory.is_null() {
            // SAFETY: the caller's promise.
            return retry(layout.size(), || unsafe { System.alloc_zeroed(layout) });
        }
        if layout.size() >= HUGE_MIN {
            advise(memory, layout.size());
        }
        memory
    }

    #[inline]
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let memory = unsafe { System.realloc(old, layout, len) };
        if memory.is_null() {
            // SAFETY: the caller's promise; a failed reallocation leaves the old block as it was.
            return retry(len, || unsafe { System.realloc(old, layout, len) });
        }
        if len >= HUGE_MIN && len > layout.size() {
            advise(memory, len);
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Reserved address space. It also records that the reserve was given up.
struct Reserve {
    address: AtomicPtr<libc::c_void>,
    /// Zero while there is no reserve, and while a thread acquires it or gives it up.
    len: AtomicUsize,
    /// Whether the reserve was given up and not acquired again.
    spent: AtomicBool,
}

impl Reserve {
    const fn new() -> Reserve {
        let address = AtomicPtr::new(ptr::null_mut());
        Reserve { address, len: AtomicUsize::new(0), spent: AtomicBool::new(false) }
    }

    /// Acquires the reserve, unless it exists.
    fn acquire(&self) -> Result<()> {
        if !self.address.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        let mut len = RESERVE_LEN;
        let reserve = loop {
            match map(len) {
                Some(reserve) => break reserve.as_ptr(),
                None if len / 2 < RESERVE_LEN_MIN => return Err(Status::ERR_NOMEM),
                None => len /= 2,
            }
        };
        match self.address.compare_exchange(ptr::null_mut(), reserve, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.spent.store(false, Ordering::Release);
                // From here on, other threads can give it up.
                self.len.store(len, Ordering::Release);
            }
            // Another thread was faster.
            Err(_) => unmap(reserve, len),
        }
        Ok(())
    }

    /// Gives up the reserve. Returns whether there was one.
    fn give_up(&self) -> bool {
        let len = self.len.swap(0, Ordering::AcqRel);
        if len != 0 {
            self.spent.store(true, Ordering::Release);
            unmap(self.address.swap(ptr::null_mut(), Ordering::AcqRel), len);
        }
        len != 0
    }

    #[inline]
    fn check(&self) -> Result<()> {
        if self.spent.load(Ordering::Relaxed) { self.acquire() } else { Ok(()) }
    }
}

fn map(len: usize) -> Option<NonNull<libc::c_void>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address that the kernel chooses affects no other memory.
    let reserve = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
    if reserve == libc::MAP_FAILED { None } else { NonNull::new(reserve) }
}

fn unmap(reserve: *mut libc::c_void, len: usize) {
    // SAFETY: the caller has taken this mapping out of the reserve, or never put it there; its bytes are not in use.
    unsafe { libc::munmap(reserve, len) };
}

/// Acquires the reserve, unless this process has it.
///
/// # Errors
/// `ERR_NOMEM` if the address space cannot even hold the reserve.
pub fn reserve_emergency() -> Result<()> {
    RESERVE.acquire()
}

/// Whether new work may begin. It may not while the reserve is given up and cannot be acquired again.
///
/// # Errors
/// `ERR_NOMEM`.
#[inline]
pub fn check() -> Result<()> {
    RESERVE.check()
}

/// Reserves capacity for `more` items: with amortized growth if possible, otherwise exactly.
///
/// # Errors
/// `ERR_NOMEM`; the vector is unchanged.
#[inline]
pub fn reserve<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    if vec.capacity() - vec.len() >= more { Ok(()) } else { grow(vec, more) }
}

#[cold]
#[inline(never)]
fn grow<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    check()?;
    vec.try_reserve(more).or_else(|_| vec.try_reserve_exact(more)).map_err(|_| Status::ERR_NOMEM)
}

/// Reserves capacity for exactly `more` items.
///
/// # Errors
/// `ERR_NOMEM`; the vector is unchanged.
#[inline]
pub fn reserve_exact<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    check()?;
    vec.try_reserve_exact(more).map_err(|_| Status::ERR_NOMEM)
}

/// Adds an item.
///
/// # Errors
/// As [`reserve`].
#[inline]
pub fn push<T>(vec: &mut Vec<T>, item: T) -> Result<()> {
    reserve(vec, 1)?;
    vec.push(item);
    Ok(())
}

/// Adds bytes.
///
/// # Errors
/// As [`reserve`].
#[inline]
pub fn extend(vec: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    reserve(vec, bytes.len())?;
    vec.extend_from_slice(bytes);
    Ok(())
}

/// An empty vector with capacity for exactly `len` items.
///
/// # Errors
/// `ERR_NOMEM`.
#[inline]
pub fn vec<T>(len: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    reserve_exact(&mut vec, len)?;
    Ok(vec)
}

/// A vector of `len` equal items.
///
/// # Errors
/// `ERR_NOMEM`.
pub fn filled<T: Clone>(item: T, len: usize) -> Result<Vec<T>> {
    let mut all = vec(len)?;
    all.resize(len, item);
    Ok(all)
}

/// Collects an iterator of known length into a vector.
///
/// # Errors
/// `ERR_NOMEM`.
pub fn collect<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut all = vec(items.len())?;
    all.extend(items);
    Ok(all)
}

/// A copy of bytes.
///
/// # Errors
/// `ERR_NOMEM`.
#[inline]
pub fn copy(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = vec(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// A C string of bytes without NUL.
///
/// # Errors
/// `ERR_NOMEM`; `ERR_UNPACK_FAILURE` for a NUL inside.
pub fn c_string(text: &[u8]) -> Result<CString> {
    let mut copy = vec(text.len() + 1)?;
    copy.extend_from_slice(text);
    copy.push(0);
    CString::from_vec_with_nul(copy).map_err(|_| Status::ERR_UNPACK_FAILURE)
}

/// A copy of a string.
///
/// # Errors
/// `ERR_NOMEM`.
pub fn copy_c_str(text: &CStr) -> Result<CString> {
    c_string(text.to_bytes())
}

/// Checks that tables of `len` bytes together, which the caller is about to allocate, would fit into memory.
///
/// # Errors
/// `ERR_NOMEM`.
pub fn probe(len: usize) -> Result<()> {
    vec::<u8>(len).map(drop)
}

/// Returns freed memory to the system, after work whose tables were much larger than the memory that remains in use. Otherwise
/// the C library keeps up to about 64 MiB.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Reserves capacity for `more` entries of a map.
///
/// # Errors
/// `ERR_NOMEM`; the map is unchanged.
#[inline]
pub fn reserve_entries<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>, more: usize) -> Result<()> {
    check()?;
    map.try_reserve(more).map_err(|_| Status::ERR_NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_allocations_are_errors() {
        assert_eq!(vec::<u64>(usize::MAX / 16).map(drop), Err(Status::ERR_NOMEM));
        assert_eq!(vec::<u64>(usize::MAX).map(drop), Err(Status::ERR_NOMEM));
        let mut bytes = b"as before".to_vec();
        assert_eq!(reserve(&mut bytes, isize::MAX as usize), Err(Status::ERR_NOMEM));
        assert_eq!(bytes, b"as before");
        let mut map = HashMap::from([(1, 2)]);
        assert_eq!(reserve_entries(&mut map, usize::MAX / 64), Err(Status::ERR_NOMEM));
        assert_eq!(map[&1], 2);
    }

    #[test]
    fn copies_are_equal() {
        assert_eq!(copy(b"bytes"), Ok(b"bytes".to_vec()));
        assert_eq!(c_string(b"text"), Ok(c"text".to_owned()));
        assert_eq!(c_string(b"te\0xt"), Err(Status::ERR_UNPACK_FAILURE));
        assert_eq!(collect([1, 2].into_iter()), Ok(vec![1, 2]));
        assert_eq!(filled(7, 2), Ok(vec![7, 7]));
    }

    #[test]
    fn a_reserve_is_given_up_once_and_taken_back_by_the_next_check() {
        let reserve = Reserve::new();
        assert!(!reserve.give_up());
        reserve.acquire().unwrap();
        reserve.acquire().unwrap();
        assert!(reserve.give_up());
        assert!(!reserve.give_up());
        assert!(reserve.spent.load(Ordering::Relaxed));
        reserve.check().unwrap();
        assert!(!reserve.spent.load(Ordering::Relaxed));
        assert!(reserve.give_up());
    }
}
