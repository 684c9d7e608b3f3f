//! How C code enters the library.
//!
//! Macros write all entry points, so that each has the same boundary. A panic ends there: the call answers `PMIX_ERROR`, a line goes to
//! standard error, and the MPI process goes on. The thread cannot be cancelled where a cancellation would end the process. Callbacks
//! come only after the call has returned. What a user asks to see of each call is the work of [`crate::watch`].
//!
//! The macros put no `unsafe` around bodies. The functions of [`api`](crate::api) read their arguments with small helpers, whose callers
//! say why an argument may be read or written.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pmix_client::Inside;
use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Result, Status};

use crate::types::pmix_status_t;
use crate::watch::{self, Arguments, Shown};

/// What a function answers when its body panicked.
pub trait OnPanic {
    /// An error, or a value that says that there is nothing.
    fn on_panic() -> Self;
}

impl OnPanic for () {
    fn on_panic() {}
}

impl OnPanic for bool {
    fn on_panic() -> bool {
        false
    }
}

impl OnPanic for usize {
    fn on_panic() -> usize {
        0
    }
}

impl OnPanic for pmix_status_t {
    fn on_panic() -> pmix_status_t {
        Status::ERROR.0
    }
}

impl<T> OnPanic for *mut T {
    fn on_panic() -> *mut T {
        std::ptr::null_mut()
    }
}

impl<T> OnPanic for *const T {
    fn on_panic() -> *const T {
        std::ptr::null()
    }
}

/// Runs the body of the function `name`: a panic in it becomes an answer.
#[inline]
fn caught<R: OnPanic>(name: &str, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        report_panic(name, &*panic);
        R::on_panic()
    })
}

/// Runs the body of the function `name`, which neither waits nor enters the kernel.
#[inline]
pub fn guard<R: OnPanic + Debug>(name: &str, body: impl FnOnce() -> R) -> R {
    let answer = caught(name, body);
    if watch::is_on() {
        watch::helper(name, &answer);
    }
    answer
}

/// As [`guard`], for a function that is watched by its own body: one whose callers count instructions.
#[inline]
pub fn guard_unwatched<R: OnPanic>(name: &str, body: impl FnOnce() -> R) -> R {
    caught(name, body)
}

/// Runs the body of a function that answers a status: an error is any other code than success.
#[inline]
pub fn guard_status(name: &str, body: impl FnOnce() -> Result<()>) -> pmix_status_t {
    guard(name, || code(body()))
}

/// Runs the body of `name`, a function of ours that C code calls, as [`guard_api_call`] does; its arguments are not shown.
#[inline]
pub fn guard_call<R: OnPanic + Shown>(name: &str, body: impl FnOnce() -> R) -> R {
    guard_api_call(name, |_| {}, body)
}

/// Runs the body of the function `name`, which may wait, enter the kernel or ask for a callback. `arguments` notes what it was called with.
#[inline]
pub fn guard_api_call<R: OnPanic + Shown>(
    name: &str,
    arguments: impl FnOnce(&mut Arguments),
    body: impl FnOnce() -> R,
) -> R {
    let inside = Inside::enter();
    if watch::is_on() {
        watch::begin(arguments);
    }
    let answer = caught(name, body);
    if watch::is_on() {
        watch::end(name, &answer);
    }
    #[cfg(test)]
    tests::before_last_act();
    drop(inside);
    answer
}

/// As [`guard_api_call`], for a function that answers a status.
#[inline]
pub fn guard_status_call(
    name: &str,
    arguments: impl FnOnce(&mut Arguments),
    body: impl FnOnce() -> Result<()>,
) -> pmix_status_t {
    guard_api_call(name, arguments, || code(body()))
}

/// The C form of a result.
pub fn code<T>(result: Result<T>) -> pmix_status_t {
    match result {
        Ok(_) => Status::SUCCESS.0,
        Err(status) => status.0,
    }
}

#[cold]
fn report_panic(name: &str, panic: &(dyn std::any::Any + Send)) {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let line = format_args!("{name} failed inside the library: {text}; it answers PMIX_ERROR");
    log::write(Level::Error, Target::Api, Writer::Library, line);
}

/// Writes entry points whose bodies the function `$guard` of this module runs.
macro_rules! entries {
    ($guard:ident: $($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block)+) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The pointer rules of the [crate].
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
            $crate::entry::$guard(stringify!($name), || $body)
        }
    )+};
}

/// As [`entries`], for functions whose arguments are shown in a trace.
macro_rules! calls {
    ($guard:ident: $($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block)+) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The pointer rules of the [crate].
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
            let arguments = move |_line: &mut $crate::watch::Arguments| {
                // SAFETY: the caller keeps the pointer rules of the crate.
                $(unsafe { _line.add(stringify!($ty), $arg) };)*
            };
            $crate::entry::$guard(stringify!($name), arguments, || $body)
        }
    )+};
}

/// As [`entries`], for functions that answer a status.
macro_rules! status_entries {
    ($guard:ident: $($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)+) => {
        $crate::entry::entries! { $guard: $($(#[$doc])* fn $name($($arg: $ty),*) -> $crate::types::pmix_status_t $body)+ }
    };
}

/// As [`calls`], for functions that answer a status.
macro_rules! status_calls {
    ($guard:ident: $($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)+) => {
        $crate::entry::calls! { $guard: $($(#[$doc])* fn $name($($arg: $ty),*) -> $crate::types::pmix_status_t $body)+ }
    };
}

/// Writes entry points that do not answer a status, and that neither wait, enter the kernel nor take callbacks.
///
/// The caller of an entry point keeps the pointer rules of the [crate]. Bodies are safe code all the same: each unsafe step in one has
/// its own `unsafe` block and says which rule it relies on.
macro_rules! entry {
    ($($entries:tt)+) => { $crate::entry::entries! { guard: $($entries)+ } };
}

/// As [`entry`], for functions that answer a status; bodies are of type [`Result<()>`](pmix_dstore::model::Result).
macro_rules! status_entry {
    ($($entries:tt)+) => { $crate::entry::status_entries! { guard_status: $($entries)+ } };
}

/// Writes entry points that do not answer a status, and that may wait, enter the kernel or take callbacks.
macro_rules! call {
    ($($entries:tt)+) => { $crate::entry::calls! { guard_api_call: $($entries)+ } };
}

/// As [`call`], for functions that answer a status; bodies are of type [`Result<()>`](pmix_dstore::model::Result).
macro_rules! status_call {
    ($($entries:tt)+) => { $crate::entry::status_calls! { guard_status_call: $($entries)+ } };
}

pub(crate) use {call, calls, entries, entry, status_call, status_calls, status_entries, status_entry};

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, c_char, c_void};
    use std::ptr;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::api::data::*;
    use crate::api::server::*;
    use crate::types::*;

    /// How many callbacks have come.
    static CAME: AtomicU32 = AtomicU32::new(0);
    /// How many had come before the last act of the call that asked for them.
    static EARLY: AtomicU32 = AtomicU32::new(0);
    /// How long a call waits before its last act, in microseconds.
    static WAIT_US: AtomicU32 = AtomicU32::new(0);

    /// Runs in each entry point before its last act: gives callbacks time to come too early.
    pub fn before_last_act() {
        if WAIT_US.load(Ordering::Relaxed) > 0 {
            thread::sleep(Duration::from_micros(WAIT_US.load(Ordering::Relaxed).into()));
            EARLY.fetch_add(CAME.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    unsafe extern "C" fn op_came(_status: pmix_status_t, _cbdata: *mut c_void) {
        CAME.fetch_add(1, Ordering::Release);
    }

    unsafe extern "C" fn setup_came(
        _status: pmix_status_t,
        _info: *mut pmix_info_t,
        _ninfo: usize,
        _data: *mut c_void,
        done: Option<pmix_op_cbfunc_t>,
        done_data: *mut c_void,
    ) {
        if let Some(done) = done {
            // SAFETY: what the library passed for this.
            unsafe { done(0, done_data) };
        }
        CAME.fetch_add(1, Ordering::Release);
    }

    unsafe extern "C" fn value_came(_status: pmix_status_t, _value: *mut pmix_value_t, _data: *mut c_void) {
        CAME.fetch_add(1, Ordering::Release);
    }

    /// A process of the job.
    fn proc() -> pmix_proc_t {
        // SAFETY: all zero is a process without a name.
        let mut proc: pmix_proc_t = unsafe { std::mem::zeroed() };
        proc.nspace[0] = b'j'.cast_signed();
        proc
    }

    // In one test, since all count the same callbacks.
    #[test]
    fn no_callback_comes_before_the_last_act_of_its_call() {
        const JOB: *const c_char = CStr::as_ptr(c"j");
        let none = ptr::null_mut::<pmix_info_t>();
        let nobody = ptr::null_mut::<c_void>();
        let proc = proc();
        type Kind<'a> = (&'a str, Box<dyn Fn() -> pmix_status_t + 'a>);
        // SAFETY: objects of this test, or NULL where that is allowed; the callbacks take what they are passed.
        let kinds: [Kind<'_>; 9] = unsafe {
            [
                ("register_nspace", Box::new(|| PMIx_server_register_nspace(JOB, 1, none, 0, Some(op_came), nobody))),
                (
                    "register_client",
                    Box::new(|| PMIx_server_register_client(&proc, 0, 0, nobody, Some(op_came), nobody)),
                ),
                (
                    "setup_local_support",
                    Box::new(|| PMIx_server_setup_local_support(JOB, none, 0, Some(op_came), nobody)),
                ),
                (
                    "setup_application",
                    Box::new(|| PMIx_server_setup_application(JOB, none, 0, Some(setup_came), nobody)),
                ),
                ("register_resources", Box::new(|| PMIx_server_register_resources(none, 0, Some(op_came), nobody))),
                (
                    "deregister_client",
                    Box::new(|| {
                        PMIx_server_deregister_client(&proc, Some(op_came), nobody);
                        0
                    }),
                ),
                (
                    "deregister_nspace",
                    Box::new(|| {
                        PMIx_server_deregister_nspace(JOB, Some(op_came), nobody);
                        0
                    }),
                ),
                ("Fence_nb", Box::new(|| PMIx_Fence_nb(ptr::null(), 0, none, 0, Some(op_came), nobody))),
                (
                    "Get_nb",
                    Box::new(|| PMIx_Get_nb(ptr::null(), c"pmix.procid".as_ptr(), none, 0, Some(value_came), nobody)),
                ),
            ]
        };
        // SAFETY: a server without a module and attributes.
        assert_eq!(unsafe { PMIx_server_init(ptr::null_mut(), ptr::null_mut(), 0) }, 0);
        WAIT_US.store(30, Ordering::Relaxed);
        for (name, call) in &kinds {
            for number in 0..3000 {
                CAME.store(0, Ordering::Relaxed);
                assert_eq!(call(), 0, "{name}");
                assert_eq!(EARLY.load(Ordering::Relaxed), 0, "{name}: came before call {number} was over");
                while CAME.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                }
            }
        }
        WAIT_US.store(0, Ordering::Relaxed);
        // SAFETY: as above.
        assert_eq!(unsafe { PMIx_server_finalize() }, 0);
    }

    #[test]
    fn a_panic_ends_at_the_boundary() {
        assert_eq!(guard_status("PMIx_Test", || panic!("on purpose")), Status::ERROR.0);
        assert!(guard("PMIx_Test", || -> *mut u8 { panic!("{}", "on purpose") }).is_null());
        assert!(!guard("PMIx_Test", || -> bool { panic!("on purpose") }));
    }

    #[test]
    fn statuses_are_results() {
        assert_eq!(guard_status("PMIx_Test", || Ok(())), 0);
        assert_eq!(guard_status("PMIx_Test", || Err(Status::ERR_NOT_FOUND)), -46);
    }
}
