//! The segments of jobs that are not the own one: what a tool reads without asking the server each time.
//!
//! A launched process knows its directory from its environment. A tool learns that of a job from the server, once, at the first Get that
//! would go to the server anyway (`client::shared_memory`). The kernel decides whether the tool may open it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pmix_dstore::model::Nspace;
use pmix_dstore::segment::NamespaceView;

use crate::forked::{RwLock, RwLockWriteGuard};

/// How long a job counts as one without segments before the server is asked again. It may be about to start.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// The segments of a job, as far as this process knows.
pub(crate) enum Segments {
    Mapped(Arc<NamespaceView>),
    /// At this time the server told of none, or they could not be mapped for lack of descriptors or memory.
    Nothing(Instant),
    /// This process cannot use them.
    Unusable,
}

impl Segments {
    /// Whether the server is to be asked again.
    fn is_outdated(&self) -> bool {
        match self {
            Segments::Mapped(view) => view.is_retired(),
            Segments::Nothing(since) => since.elapsed() >= AGAIN,
            Segments::Unusable => false,
        }
    }
}

/// The segments of other jobs.
#[derive(Default)]
pub struct OtherJobs {
    /// Whether this process maps any.
    is_on: bool,
    /// Whether any are mapped. Saves a Get the lock if not.
    has_any: AtomicBool,
    /// A tree costs the start of a rank, which has none, nothing.
    jobs: RwLock<BTreeMap<Nspace, Segments>>,
}

/// The lock during a fork.
pub(crate) struct Held<'a> {
    _jobs: Option<RwLockWriteGuard<'a, BTreeMap<Nspace, Segments>>>,
}

impl OtherJobs {
    /// `is_on`: segments may be mapped.
    pub fn new(is_on: bool) -> OtherJobs {
        OtherJobs { is_on, ..OtherJobs::default() }
    }

    /// Holds the lock for a fork.
    pub fn hold_for_fork(&self) -> Held<'_> {
        Held { _jobs: self.jobs.hold_for_fork() }
    }

    /// The segments of a job, if they are mapped and the server has not given them up.
    pub fn view(&self, nspace: &[u8]) -> Option<Arc<NamespaceView>> {
        if !self.has_any.load(Ordering::Relaxed) {
            return None;
        }
        match self.jobs.read().ok()?.get(nspace)? {
            Segments::Mapped(view) if !view.is_retired() => Some(Arc::clone(view)),
            _ => None,
        }
    }

    /// Whether the server is to be asked for the segments of a job.
    pub fn is_unknown(&self, nspace: &[u8]) -> bool {
        self.is_on && self.jobs.read().is_ok_and(|jobs| jobs.get(nspace).is_none_or(Segments::is_outdated))
    }

    /// Notes what was found.
    pub fn set(&self, nspace: Nspace, found: Segments) {
        let is_mapped = matches!(found, Segments::Mapped(_));
        let mut jobs = self.jobs.wait_write();
        // What would be asked for anew is not kept: a tool may see many jobs come and go.
        jobs.retain(|_, known| !known.is_outdated());
        jobs.insert(nspace, found);
        self.has_any.fetch_or(is_mapped, Ordering::Relaxed);
    }
}
