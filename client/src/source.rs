//! Where a Get has found its value: a note of each thread, for the trace and the counts of Gets.

use std::cell::Cell;

/// Where a Get has looked last: where its value comes from, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In this process, without a note of the place.
    Unnoted,
    /// Among the values that this process has put or stored, and what it knows of itself.
    Own,
    /// In the data of the own job, which lie in its segment where there is shared memory.
    Job,
    /// In a segment with values that ranks have put.
    Modex,
    /// Among earlier replies of the server.
    ReplyCache,
    /// At the server.
    Server,
}

thread_local! {
    static LAST: Cell<Source> = const { Cell::new(Source::Unnoted) };
}

/// The calling thread's Get looks here.
pub(crate) fn note(source: Source) {
    LAST.set(source);
}

/// Takes the note of the calling thread's last Get.
pub fn take() -> Source {
    LAST.replace(Source::Unnoted)
}
