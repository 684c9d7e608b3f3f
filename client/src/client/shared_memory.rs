//! The shared memory of a launched process, and of a tool that reads other jobs: where it is, and why a process does without.
//!
//! A process without shared memory works, but each Get goes over the socket. So it says why, in one line: a warning if the cause is a
//! fault, otherwise, at level `info`, which setting it is.

use std::ffi::CString;
use std::sync::Arc;
use std::time::Instant;

use nix::unistd::geteuid;
use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Info, InfoFlags, Nspace, Proc, Query, Result, Status, Value, keys};
use pmix_dstore::recorder::Step;
use pmix_dstore::segment::{AttachError, Directory, NamespaceView};
use pmix_wire::reply::InfosReply;
use pmix_wire::{Request, Version};

use super::{ClientKind, Inner};
use crate::inspection::{self, Element, JobDirectory};
use crate::other_jobs::Segments;
use crate::{Environment, recorder};

/// Opens the directory that the environment names. Checks that it is the one that the server made.
pub(super) fn directory(env: &Environment, me: &Proc) -> Option<Arc<Directory>> {
    let opened = Directory::open(env.directory.as_ref()?, env.directory_id?);
    opened.inspect_err(|error| report_unusable(me, error)).ok().map(Arc::new)
}

/// Attaches the segments in the server's directory. `None` if the user does not want it, if they cannot be used, or if they are those of
/// another namespace.
pub(super) fn attach(env: &Environment, directory: Arc<Directory>, me: &Proc) -> Option<NamespaceView> {
    if !env.shared_memory {
        report(Level::Info, me, "PMIX_DSTORE_SHM=0");
        return None;
    }
    let view = NamespaceView::attach(Arc::clone(&directory)).inspect_err(|error| report_unusable(me, error)).ok()?;
    if *view.nspace() != me.nspace {
        // The environment of an inner job may still hold the variables of an outer one.
        report(Level::Info, me, &format!("{} is the directory of job {}", directory.path().display(), view.nspace()));
        return None;
    }
    log::write(
        Level::Info,
        Target::Store,
        Writer::Client(me),
        format_args!("values are read in shared memory, in {}", directory.path().display()),
    );
    Some(view)
}

/// Logs that segments are not used and why.
pub(super) fn report_unusable(me: &Proc, error: &AttachError) {
    let level = if error.is_usual() { Level::Info } else { Level::Warn };
    if log::is_on(level, Target::Store) || recorder::is_on() {
        report(level, me, &error.to_string());
    }
}

/// Logs why a tool does not use the segments of a job. Another user's job is no fault.
fn report_other(me: &Proc, nspace: &Nspace, error: &AttachError) {
    let is_damage =
        matches!(error, AttachError::Page { .. } | AttachError::PageVersion { .. } | AttachError::Segment { .. });
    let level = if is_damage { Level::Warn } else { Level::Info };
    if log::is_on(level, Target::Store) {
        log::write(
            level,
            Target::Store,
            Writer::Client(me),
            format_args!("{error}; values of job {nspace} come over the socket"),
        );
    }
}

/// Logs why this process has reached its server over TCP, unless a line has said it already. `no_socket` is why the Unix socket in the
/// directory was of no use; `was_attached` tells whether only that is missing.
pub(super) fn report_tcp(env: &Environment, me: &Proc, no_socket: Option<&str>, was_attached: bool) {
    match no_socket {
        Some(why) if was_attached => {
            let path = env.directory.as_deref().unwrap_or_else(|| "".as_ref()).display();
            report(Level::Warn, me, &format!("the socket in {path}: {why}"));
        }
        None if env.directory.is_none() && env.server_is_ours => {
            report(
                Level::Info,
                me,
                "the server offers no shared memory; its log says why, unless PMIX_DSTORE_SHM=0 is set there",
            );
        }
        None if env.directory.is_none() => {
            report(Level::Info, me, &format!("the server (release {}) is another library's", env.server_version));
        }
        _ => {}
    }
}

fn report(level: Level, me: &Proc, why: &str) {
    recorder::happened(Step::NoSharedMemory, 0, why.as_bytes(), Status::SUCCESS);
    log::write(level, Target::Store, Writer::Client(me), format_args!("{why}; values come over the socket"));
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
        if !others.is_unknown(nspace) {
            return Ok(false);
        }
        // Servers of this library announce this release. Others would bother their hosts with the question.
        let may_know = self.link.is_ours() || self.link.server_version() == Version::OURS;
        if !may_know || self.kind() != ClientKind::Launched {
            return Ok(false);
        }
        let Ok(nspace) = Nspace::new(nspace) else { return Ok(false) };
        let segments = match self.ask_directory(&nspace, deadline) {
            Err(status @ (Status::ERR_TIMEOUT | Status::ERR_LOST_CONNECTION)) => return Err(status),
            Ok(Some(directory)) => match attach_other(&directory, &nspace) {
                Ok(view) => Segments::Mapped(Arc::new(view)),
                Err(why) => {
                    report_other(&self.me, &nspace, &why);
                    if why.may_pass() { Segments::Nothing(Instant::now()) } else { Segments::Unusable }
                }
            },
            Ok(None) | Err(_) => Segments::Nothing(Instant::now()),
        };
        let is_mapped = matches!(segments, Segments::Mapped(_));
        others.set(nspace, segments);
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
fn attach_other(directory: &JobDirectory, nspace: &Nspace) -> std::result::Result<NamespaceView, AttachError> {
    let opened = Directory::open(&directory.path, directory.id)?;
    let refused = |what| Err(AttachError::File { path: directory.path.clone(), what });
    if ![0, geteuid().as_raw()].contains(&opened.uid()) {
        return refused("owned by neither root nor this process's user");
    }
    let view = NamespaceView::attach(opened)?;
    if view.nspace() == nspace { Ok(view) } else { refused("the directory of another job") }
}

#[cfg(test)]
#[path = "shared_memory_tests.rs"]
mod tests;
