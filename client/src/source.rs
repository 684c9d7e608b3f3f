//! Where a Get has found its value: a note of each thread, for the trace and the counts of Gets.

use std::cell::Cell;

pub use pmix_dstore::get_counts::Source;

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
