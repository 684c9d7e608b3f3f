//! The shared memory of a launched process: where it is, and why a process does without.
//!
//! A process without shared memory works, but each Get goes over the socket. So it says why, in one line: a warning if the cause is a
//! fault, otherwise, at level `info`, which setting it is.

use std::sync::Arc;

use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Nspace, Proc, Status};
use pmix_dstore::recorder::Step;
use pmix_dstore::segment::{AttachError, Directory, NamespaceView};

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
pub(crate) fn report_other(me: &Proc, nspace: &Nspace, error: &AttachError) {
    let is_damage = matches!(error, AttachError::Page { .. } | AttachError::Segment { .. });
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
