//! How C code enters the library.
//!
//! Two macros write every entry point, so that none forgets the boundary: a panic ends there, as `PMIX_ERROR` and a
//! line on standard error, instead of ending somebody's MPI process. With `PMIX_DSTORE_TRACE=1` in the environment
//! every call is named on standard error, with what it answered.

use std::fmt::{self, Debug};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use pmix_dstore::model::{Result, Status};

use crate::types::pmix_status_t;

/// What a function answers when its body panicked.
pub trait OnPanic {
    /// The answer that claims nothing.
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

static TRACE: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("PMIX_DSTORE_TRACE").is_some_and(|value| value == "1"));

/// Runs the body of the function `name`.
#[inline]
pub fn guard<R: OnPanic + Debug>(name: &str, body: impl FnOnce() -> R) -> R {
    let answer = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        report_panic(name, &*panic);
        R::on_panic()
    });
    if *TRACE {
        trace(name, &answer);
    }
    answer
}

/// Runs the body of a function that answers a status: an error is any other code than success.
#[inline]
pub fn guard_status(name: &str, body: impl FnOnce() -> Result<()>) -> pmix_status_t {
    guard(name, || code(body()))
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
    say(format_args!("pmix-dstore: {name} failed inside the library: {text}; it answers PMIX_ERROR"));
}

#[cold]
fn trace(name: &str, answer: &dyn Debug) {
    say(format_args!("pmix-dstore[{}]: {name} -> {answer:?}", std::process::id()));
}

/// Writes a line to standard error. A process may have closed it; then there is nobody to tell, and nothing to fail.
fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes entry points that answer something else than a status.
///
/// Bodies may dereference what they were given: see the pointer rules of the [crate].
macro_rules! entry {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block)+) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The pointer rules of the [crate].
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unused_unsafe)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the caller keeps the pointer rules of the crate.
            $crate::entry::guard(stringify!($name), || unsafe { $body })
        }
    )+};
}

/// Writes entry points that answer a status; bodies are of type [`Result<()>`](pmix_dstore::model::Result).
///
/// Bodies may dereference what they were given: see the pointer rules of the [crate].
macro_rules! status_entry {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)+) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The pointer rules of the [crate].
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unused_unsafe)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::types::pmix_status_t {
            // SAFETY: the caller keeps the pointer rules of the crate.
            $crate::entry::guard_status(stringify!($name), || unsafe { $body })
        }
    )+};
}

pub(crate) use {entry, status_entry};

#[cfg(test)]
mod tests {
    use super::*;

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
