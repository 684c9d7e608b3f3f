//! The counts of this process's Gets, if the user asks for them (`PMIX_DSTORE_STATS=1`).
//!
//! They stay until the process ends, over any number of finalizes.

use std::sync::OnceLock;

use pmix_dstore::environment;
use pmix_dstore::get_counts::Counter;
pub use pmix_dstore::get_counts::{Class, Counts, Source};
use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Proc, Rank};
use pmix_dstore::segment::Directory;

static COUNTER: OnceLock<Counter> = OnceLock::new();

/// The counter of this process. A forked child has none: the file is its parent's.
fn counter() -> Option<&'static Counter> {
    COUNTER.get().filter(|counter| counter.pid() == std::process::id())
}

/// Begins to count, in a file in `directory`, the namespace's.
#[cold]
pub(crate) fn start(directory: Option<&Directory>, me: &Proc) {
    if COUNTER.get().is_some() {
        return;
    }
    let writable = directory.filter(|_| !environment::is_privileged());
    let counter = match writable.map(|directory| Counter::create(directory.as_fd(), me)) {
        Some(Ok(counter)) => Ok(counter),
        no_file => {
            let why = no_file.and_then(Result::err).map(|why| why.to_string());
            let why = why.unwrap_or_else(|| match directory {
                Some(_) => "a program with more rights than its user writes no file".into(),
                None => "the server has no directory for this process".into(),
            });
            let line = format_args!("the Gets of this process are counted in its memory alone: {why}");
            log::write(Level::Info, Target::Client, Writer::Client(me), line);
            Counter::in_memory(me)
        }
    };
    // Without memory nothing is counted.
    if let Ok(counter) = counter {
        let _ = COUNTER.set(counter);
    }
}

/// A Get has ended: of a value of this process, under this key. Without a namespace it is about the own one.
pub fn count((nspace, rank): (Option<&[u8]>, Rank), key: &[u8], source: Source, is_found: bool) {
    if let Some(counter) = counter() {
        counter.count(Class::of(counter.me(), nspace, rank, key), source, is_found);
    }
}

/// Takes all counts, and begins anew.
pub fn take() -> Counts {
    counter().map(Counter::take).unwrap_or_default()
}
