//! The mapped segments of the own namespace, and who may look into them.
//!
//! A rank may live through millions of publications, each of which may replace segments. They can be unmapped only while nobody reads
//! in them, and a Get must not pay for that. So whoever reads shows a proof, which a pinned thread has anyway and others get by counting
//! themselves ([`Reader`]). Fences and commits take replaced segments out of reach, many at a time, and later ones unmap them, when all who
//! read at that time have ended.

use std::ops::Deref;

use pmix_dstore::segment::{AttachError, IsOver, NamespaceView};

use crate::pin::{self, Reader, Reading};

/// The mapped segments of the own namespace.
pub struct OwnSegments {
    /// Only [`OwnSegments::by`] and [`OwnSegments::read`] give references into it away.
    view: NamespaceView,
}

impl OwnSegments {
    /// The segments of a view, from which nobody else has borrowed.
    pub fn new(view: NamespaceView) -> OwnSegments {
        OwnSegments { view }
    }

    /// The view, for a reader.
    #[inline(always)]
    pub fn by<'a>(&'a self, _: Reading<'a>) -> &'a NamespaceView {
        &self.view
    }

    /// The view, for the calling thread, which is counted as a reader.
    pub fn read(&self) -> ViewRef<'_> {
        let reader = Reader::new(None);
        ViewRef { view: &self.view, _reader: reader }
    }

    /// Maps new segments, and unmaps replaced ones that nobody reads.
    pub fn refresh(&self) {
        self.view.refresh();
        self.reclaim();
    }

    /// Unmaps replaced segments that nobody reads, if there are many.
    pub fn reclaim(&self) {
        let begin = || {
            let mut grace = pin::begin_grace()?;
            Some(Box::new(move || grace.is_over()) as IsOver)
        };
        // SAFETY: a thread has references into the view only while it is a reader: `by` and `read` are the only ways to it, and the
        // view had no borrowers when it came here. A reader has a pin or is counted for as long as it has its proof, and a grace period
        // is over only when each pin and each count of its beginning has ended. What begins later finds what was current at its
        // beginning, or newer (`hazard`). `refresh`, `reclaim` and `last_error` use segments and sets under the view's lock alone.
        unsafe { self.view.reclaim(begin) }
    }

    /// Why a segment was not attached, or is not reliable any more.
    pub fn last_error(&self) -> Option<AttachError> {
        self.view.last_error()
    }
}

/// The mapped segments of the own namespace, none of which is unmapped while this lives.
pub struct ViewRef<'a> {
    view: &'a NamespaceView,
    _reader: Reader<'static>,
}

impl Deref for ViewRef<'_> {
    type Target = NamespaceView;

    fn deref(&self) -> &NamespaceView {
        self.view
    }
}

#[cfg(test)]
#[path = "own_segments_tests.rs"]
mod tests;
