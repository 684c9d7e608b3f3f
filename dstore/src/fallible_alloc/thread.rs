//! Threads whose start may fail for want of memory. The standard library's cannot: it allocates a handle for each past this module's
//! allocator and its reserve, and ends the process where it gets none.

use std::ffi::c_void;
use std::io;
use std::mem::{self, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a thread's stack: what the standard library gives its threads. The program's `ulimit -s` may be anything.
const STACK: usize = 2 << 20;
/// Bytes of address space that a new thread needs at once for its first allocations.
const FIRST_ROOM: usize = 1 << 20;
/// Bytes of the largest page of x86-64's and AArch64's.
const PAGE: usize = 64 << 10;
/// The longest name of a thread on Linux, with its NUL.
const NAME_LEN: usize = 16;

/// A thread of this library. Dropping it detaches the thread.
pub struct Thread {
    id: libc::pthread_t,
    /// The process that it runs in. A forked child has no such thread, and may have another one with its id.
    process: u32,
}

/// What a new thread gets.
struct Start {
    name: [u8; NAME_LEN],
    body: Box<dyn FnOnce() + Send>,
}

/// Starts a thread with this name (up to 15 bytes of it), if there is room for it. A panic ends this thread alone.
///
/// It looks for room first: glibc's first allocations in a new thread, whose stack just fits, would end the process.
///
/// # Errors
/// The system has no memory or no thread for it.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    let stack = stack_len();
    look_for_room(stack + FIRST_ROOM)?;
    let mut bytes = [0; NAME_LEN];
    bytes.iter_mut().zip(name.bytes().take(NAME_LEN - 1)).for_each(|(to, from)| *to = from);
    let start = Box::into_raw(Box::new(Start { name: bytes, body: Box::new(body) }));
    create(start, stack).inspect_err(|_| {
        // SAFETY: no thread has got it.
        drop(unsafe { Box::from_raw(start) });
    })
}

/// Bytes of a stack with room for the program's thread-local variables, which glibc puts there: those of Fortran programs may have megabytes.
fn stack_len() -> usize {
    /// 0 before the first thread. The look-up takes a lock of the loader's.
    static LEN: AtomicUsize = AtomicUsize::new(0);
    let known = LEN.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let len = look_up_stack_len();
    LEN.store(len, Ordering::Relaxed);
    len
}

fn look_up_stack_len() -> usize {
    // SAFETY: the name is a C string.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
    if symbol.is_null() {
        return STACK;
    }
    // SAFETY: glibc's function of this name has this type. Other C libraries have none.
    let least: unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize = unsafe { mem::transmute(symbol) };
    // SAFETY: it does not use the attributes.
    STACK + unsafe { least(ptr::null()) }.saturating_sub(libc::PTHREAD_STACK_MIN).next_multiple_of(PAGE)
}

/// # Errors
/// There are not so many bytes of address space.
fn look_for_room(len: usize) -> io::Result<()> {
    // Not by malloc: a large block that is given back changes the thresholds by which glibc's malloc works for the whole program.
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at a place that the kernel chooses touches no memory of the process.
    let room = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, -1, 0) };
    if room == libc::MAP_FAILED {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    // SAFETY: the mapping just made, which nobody knows.
    unsafe { libc::munmap(room, len) };
    Ok(())
}

/// Starts a thread that takes `start`, with a stack of so many bytes.
///
/// # Errors
/// The system's; nobody has `start` then.
fn create(start: *mut Start, stack: usize) -> io::Result<Thread> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: it initialises them.
    succeeded(unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) })?;
    let mut id = MaybeUninit::uninit();
    // SAFETY: the attributes are initialised, and `run` takes `start`, which nobody else uses.
    let created = unsafe {
        succeeded(libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), stack))
            .and_then(|()| succeeded(libc::pthread_create(id.as_mut_ptr(), attributes.as_ptr(), run, start.cast())))
    };
    // SAFETY: the attributes are initialised, and not used any more.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    // SAFETY: a successful call has written it.
    created.map(|()| Thread { id: unsafe { id.assume_init() }, process: std::process::id() })
}

/// The result of a pthread function, which returns the error.
fn succeeded(error: libc::c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` has made it for this thread.
    let Start { name, body } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: the calling thread, and a text with a NUL. A thread without its name works as well.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr().cast()) };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        // The panic's own message has reported it. The end of what it carries might panic again, across C.
        mem::forget(panic);
    }
    ptr::null_mut()
}

impl Thread {
    /// The system's identifier.
    #[must_use]
    pub fn id(&self) -> libc::pthread_t {
        self.id
    }

    /// Waits for the end of the thread, which must not be the calling one.
    pub fn join(self) {
        // SAFETY: it is neither joined nor detached yet: both take `self`.
        unsafe { libc::pthread_join(self.id, ptr::null_mut()) };
        mem::forget(self);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // SAFETY: as in `join`.
            unsafe { libc::pthread_detach(self.id) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_thread_has_its_name_and_is_waited_for() {
        let done = Arc::new(AtomicUsize::new(0));
        let own = done.clone();
        let thread = spawn("a-name-that-is-too-long", move || {
            let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
            assert_eq!(name.trim_end(), "a-name-that-is-");
            own.store(1, Ordering::Relaxed);
        });
        thread.unwrap().join();
        assert_eq!((done.load(Ordering::Relaxed), Arc::strong_count(&done)), (1, 1));
    }

    #[test]
    fn a_panic_ends_its_thread_alone() {
        let kept = Arc::new(());
        let own = kept.clone();
        spawn("panics", move || {
            let _own = own;
            panic!("in a thread of a test");
        })
        .unwrap()
        .join();
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[test]
    fn threads_that_nobody_joins_leave_no_stack() {
        let stacks = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        let ended = Arc::new(AtomicUsize::new(0));
        let before = stacks();
        for count in 1..=200 {
            let own = ended.clone();
            let ends = move || {
                own.fetch_add(1, Ordering::Release);
            };
            drop(spawn("detached", ends).unwrap());
            while ended.load(Ordering::Acquire) < count {
                std::thread::yield_now();
            }
        }
        // Other tests have threads, too.
        assert!(stacks() < before + 200, "{before}, {}", stacks());
    }
}
