//! What a user asks to see of the calls of the C interface: a trace of each (`PMIX_DSTORE_TRACE=1`), the sources of Gets
//! (`PMIX_DSTORE_STATS=1`), a summary at the end (`PMIX_DSTORE_SUMMARY=1`).
//!
//! The choice is made once in a process. Where nothing is asked for, a call compares one byte before its body and one after it, a Get one
//! altogether.

mod arguments;
mod totals;

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use pmix_client::source;
use pmix_dstore::environment;
use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Rank, Status};

use crate::types::pmix_status_t;
pub use arguments::Arguments;

/// What this process shows: [`UNREAD`] or a set of the flags below.
static MODE: AtomicU8 = AtomicU8::new(UNREAD);
const OFF: u8 = 0;
const TRACE: u8 = 1;
const STATS: u8 = 2;
const SUMMARY: u8 = 4;
/// The variables have not been read.
const UNREAD: u8 = 0x80;

/// A call that has begun.
struct Begun {
    arguments: String,
    at: Instant,
}

thread_local! {
    /// The calls of this thread that have begun, the outermost first: a callback within a call may make others.
    static BEGUN: RefCell<Vec<Begun>> = const { RefCell::new(Vec::new()) };
}

/// The answer of a call, as a trace shows it.
pub trait Shown {
    /// Its text.
    fn text(&self) -> String;
}

impl Shown for () {
    fn text(&self) -> String {
        "()".into()
    }
}

impl Shown for pmix_status_t {
    fn text(&self) -> String {
        Status(*self).name().map_or_else(|| self.to_string(), str::to_owned)
    }
}

/// Whether calls of this process are watched.
#[inline(always)]
pub fn is_on() -> bool {
    MODE.load(Ordering::Relaxed) != OFF && mode() != OFF
}

/// What is watched; reads the variables at the first call.
#[cold]
#[inline(never)]
fn mode() -> u8 {
    let known = MODE.load(Ordering::Relaxed);
    if known != UNREAD {
        return known;
    }
    let flag_of = |variable: &[u8]| match variable.strip_suffix(b"=1").map(str::from_utf8) {
        Some(Ok("PMIX_DSTORE_TRACE")) => TRACE,
        Some(Ok("PMIX_DSTORE_STATS")) => STATS,
        Some(Ok("PMIX_DSTORE_SUMMARY")) => SUMMARY,
        _ => OFF,
    };
    let mut mode = if log::is_on(Level::Trace, Target::Api) { TRACE } else { OFF };
    environment::has(|variable| {
        mode |= flag_of(variable);
        false
    });
    MODE.store(mode, Ordering::Relaxed);
    mode
}

fn traces() -> bool {
    mode() & TRACE != 0
}

/// A call begins. `note` notes its arguments, which the call may free or change.
#[cold]
#[inline(never)]
pub fn begin(note: impl FnOnce(&mut Arguments)) {
    let mut arguments = Arguments::default();
    if traces() {
        note(&mut arguments);
    }
    let begun = Begun { arguments: arguments.finish(), at: Instant::now() };
    // A thread that ends has no list any more; then its call is not shown.
    let _ = BEGUN.try_with(|all| all.borrow_mut().push(begun));
}

fn take() -> Option<Begun> {
    BEGUN.try_with(|all| all.borrow_mut().pop()).ok().flatten()
}

/// The call that began last has ended.
#[cold]
#[inline(never)]
pub fn end(name: &str, answer: &dyn Shown) {
    let Some(Begun { arguments, at }) = take() else { return };
    let took = at.elapsed();
    if traces() {
        let line = format_args!("{name}({arguments}) -> {} [{} us]", answer.text(), took.as_micros());
        log::write_always(Writer::Process, line);
    }
    totals::call(mode(), name, took);
}

/// As [`end`], for a Get of a value of `proc`. Without a namespace it is about the own one.
#[cold]
#[inline(never)]
pub fn end_get(proc: (Option<&[u8]>, Rank), status: Status, key: Option<&[u8]>) {
    let source = source::take();
    let Some(Begun { arguments, at }) = take() else { return };
    if traces() {
        let (answer, took) = (status.0.text(), at.elapsed().as_micros());
        let line = format_args!("PMIx_Get({arguments}) -> {answer} [{source}, {took} us]");
        log::write_always(Writer::Process, line);
    }
    totals::get(proc, source, status, key);
}

/// A function that neither waits nor enters the kernel has ended.
#[cold]
#[inline(never)]
pub fn helper(name: &str, answer: &dyn Debug) {
    if traces() {
        log::write_always(Writer::Process, format_args!("{name} -> {answer:?}"));
    }
}
