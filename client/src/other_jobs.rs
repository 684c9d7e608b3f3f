//! The segments of jobs that are not the own one: what a tool reads without asking the server each time.
//!
//! A launched process knows its directory from its environment. A tool learns that of a job from the server, once, at the first Get that
//! would go to the server anyway. The kernel decides whether the tool may open it.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use parking_lot::RwLock;
use pmix_dstore::model::{Info, InfoFlags, Nspace, Query, Result, Status, Value, keys};
use pmix_dstore::segment::{AttachError, Directory, NamespaceView};
use pmix_wire::reply::InfosReply;
use pmix_wire::{Request, Version};

use crate::client::{ClientKind, Inner, shared_memory};
use crate::inspection::{self, Element, JobDirectory};

/// How long a job counts as one without segments before the server is asked again. It may be about to start.
const AGAIN: Duration = Duration::from_secs(1);

/// What is known of the segments of a job.
enum Known {
    Mapped(Arc<NamespaceView>),
    /// The server told of none, at this time.
    Nothing(Instant),
    /// This process cannot use them.
    Unusable,
}

/// The segments of other jobs.
#[derive(Default)]
pub struct OtherJobs {
    /// Whether this process maps any.
    is_on: bool,
    /// Whether any are mapped. Saves a Get the lock if not.
    has_any: AtomicBool,
    jobs: RwLock<HashMap<Nspace, Known>>,
}

impl OtherJobs {
    /// `is_on`: segments may be mapped.
    pub fn new(is_on: bool) -> OtherJobs {
        OtherJobs { is_on, ..OtherJobs::default() }
    }

    /// The segments of a job, if they are mapped and the server has not given them up.
    pub fn view(&self, nspace: &[u8]) -> Option<Arc<NamespaceView>> {
        if !self.has_any.load(Ordering::Relaxed) {
            return None;
        }
        match self.jobs.read().get(nspace)? {
            Known::Mapped(view) if !view.is_retired() => Some(Arc::clone(view)),
            _ => None,
        }
    }

    /// Whether the server is to be asked for the segments of a job.
    fn is_unknown(&self, nspace: &[u8]) -> bool {
        self.is_on
            && match self.jobs.read().get(nspace) {
                None => true,
                Some(Known::Mapped(view)) => view.is_retired(),
                Some(Known::Nothing(since)) => since.elapsed() >= AGAIN,
                Some(Known::Unusable) => false,
            }
    }

    /// Notes what was found. Without memory for that, a later Get asks once more.
    fn set(&self, nspace: Nspace, known: Known) {
        let is_mapped = matches!(known, Known::Mapped(_));
        let mut jobs = self.jobs.write();
        if jobs.try_reserve(1).is_ok() {
            jobs.insert(nspace, known);
            self.has_any.fetch_or(is_mapped, Ordering::Relaxed);
        }
    }
}

impl Inner {
    /// Maps the segments of a job that is not the own one, if the server tells where they are. Returns whether they are mapped now and
    /// were not before.
    ///
    /// # Errors
    /// `TIMEOUT` after the deadline; `LOST_CONNECTION`.
    #[cold]
    pub(crate) fn map_other_job(&self, nspace: &[u8], deadline: Option<Instant>) -> Result<bool> {
        let others = &self.local.others;
        // Servers of this library announce this release. Others would bother their hosts with the question.
        let may_know = self.link.is_ours() || self.link.server_version() == Version::OURS;
        if !others.is_unknown(nspace) || !may_know || self.kind() != ClientKind::Launched {
            return Ok(false);
        }
        let Ok(nspace) = Nspace::new(nspace) else { return Ok(false) };
        let known = match self.ask_directory(&nspace, deadline) {
            Err(status @ (Status::ERR_TIMEOUT | Status::ERR_LOST_CONNECTION)) => return Err(status),
            Ok(Some(directory)) => match attach(&directory, &nspace) {
                Ok(view) => Known::Mapped(Arc::new(view)),
                Err(why) => {
                    shared_memory::report_other(&self.me, &nspace, &why);
                    Known::Unusable
                }
            },
            Ok(None) | Err(_) => Known::Nothing(Instant::now()),
        };
        let is_mapped = matches!(known, Known::Mapped(_));
        others.set(nspace, known);
        Ok(is_mapped)
    }

    /// The directory of a job, as the server says; `None` if there is none, or none for this process.
    fn ask_directory(&self, nspace: &Nspace, deadline: Option<Instant>) -> Result<Option<JobDirectory>> {
        let about = Info { flags: InfoFlags::QUALIFIER, ..Info::new(keys::NSPACE, Value::string(nspace.as_bytes())) };
        let query = Query {
            keys: vec![CString::new(JobDirectory::KEY).map_err(|_| Status::ERR_BAD_PARAM)?],
            qualifiers: vec![about],
        };
        let payload = self.encode(&Request::Query { queries: vec![query] })?;
        let reply: InfosReply = self.decode_and_drop(self.link.request_wait(payload.into(), deadline)?)?;
        Ok(inspection::elements(&reply.infos.unwrap_or_default()).pop())
    }
}

/// Attaches a job's segments.
///
/// # Errors
/// They cannot be used. Among the reasons: another user owns them, who could shorten a mapped file, so that this process would end with
/// a signal.
fn attach(directory: &JobDirectory, nspace: &Nspace) -> std::result::Result<NamespaceView, AttachError> {
    let opened = Directory::open(&directory.path, directory.id)?;
    let refused = |what| Err(AttachError::File { path: directory.path.clone(), what });
    if ![0, geteuid().as_raw()].contains(&opened.uid()) {
        return refused("owned by neither root nor this process's user");
    }
    let view = NamespaceView::attach(opened)?;
    if view.nspace() == nspace { Ok(view) } else { refused("the directory of another job") }
}

#[cfg(test)]
#[path = "other_jobs_tests.rs"]
mod tests;
