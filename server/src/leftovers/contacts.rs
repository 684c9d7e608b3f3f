//! Contact files of servers that have ended: this library's, and stock ones, which have the same names.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;
use pmix_client::rendezvous::Point;
use pmix_client::tool;
use pmix_client::trusted::Trusted;

/// A file is written and renamed within milliseconds. One that is older than this under its first name was left in between.
const WRITING_MAX: Duration = Duration::from_secs(3600);
/// The hexadecimal digits at the end of such a name.
const DIGITS: usize = 16;

/// Whether a name is one of a contact file of this host, of the proof beside it, or of one of these that is being written.
pub(super) fn is_name(name: &OsStr, hostname: &str) -> bool {
    let Some(name) = name.to_str() else { return false };
    let name = written_as(name).unwrap_or(name);
    let name = name.strip_prefix('.').and_then(|name| name.strip_suffix(".proof")).unwrap_or(name);
    let of = |point: Point<'_>| point.file_name(hostname);
    let names = [of(Point::System), of(Point::Scheduler), of(Point::Session)];
    names.iter().any(|known| known == name)
        || [of(Point::Server("")), of(Point::Remote(""))]
            .iter()
            .any(|beginning| name.strip_prefix(beginning.as_str()).is_some_and(|rest| !rest.is_empty()))
}

/// The name that a file gets when it is written.
fn written_as(name: &str) -> Option<&str> {
    let (written, digits) = name.strip_prefix('.')?.rsplit_once('.')?;
    (digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(written)
}

/// Why nobody needs a contact file of this user; `None` if a server may live behind it, or if it is another user's.
///
/// # Errors
/// Why it is not touched, though it is this user's.
pub(super) fn ended(path: &Path, trusted: &Trusted) -> io::Result<Option<String>> {
    let Ok(status) = path.symlink_metadata() else { return Ok(None) };
    if status.uid() != geteuid().as_raw() {
        return Ok(None);
    }
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if !status.is_file() {
        return refused("it is no regular file");
    }
    if status.nlink() > 1 {
        return refused("it has another name, too");
    }
    let is_unfinished = path.file_name().and_then(OsStr::to_str).is_some_and(|name| written_as(name).is_some());
    if is_unfinished {
        return Ok(is_old(&status).then(|| "it was not written to its end, more than an hour ago".to_owned()));
    }
    // A proof names no process: it goes with the contact file beside it, or when it has long been alone.
    let Some(beside) = beside(path) else { return Ok(tool::ended(path, trusted).map(|why| why.to_string())) };
    if beside.symlink_metadata().is_ok() {
        return Ok(tool::ended(&beside, trusted).map(|why| why.to_string()));
    }
    Ok(is_old(&status).then(|| "the contact file beside it is gone".to_owned()))
}

/// The contact file beside a proof.
fn beside(proof: &Path) -> Option<PathBuf> {
    let name = proof.file_name()?.to_str()?.strip_prefix('.')?.strip_suffix(".proof")?;
    Some(proof.with_file_name(name))
}

/// The proof beside a contact file; `None` if the name is that of a proof.
pub(super) fn proof_of(contact: &OsStr) -> Option<OsString> {
    let name = contact.to_str().filter(|name| !name.starts_with('.'))?;
    Some(format!(".{name}.proof").into())
}

fn is_old(status: &Metadata) -> bool {
    status.modified().ok().and_then(|written| written.elapsed().ok()).is_some_and(|age| age > WRITING_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_host_alone_are_contact_files() {
        let is = |name: &str| is_name(OsStr::new(name), "here");
        for name in [
            "pmix.sys.here",
            "pmix.sched.here",
            "pmix.here.tool",
            "pmix.here.tool.17",
            "pmix.remote.here.17",
            ".pmix.here.tool.17.proof",
            ".pmix.here.tool.17.0123456789abcdef",
            "..pmix.here.tool.17.proof.0123456789abcdef",
        ] {
            assert!(is(name), "{name}");
        }
        for name in [
            "pmix.sys.there",
            "pmix.here.toolbox",
            "pmix.here.tool.",
            "pmix.remote.there.17",
            ".pmix.sys.there.proof",
            ".proof",
            ".0123456789abcdef",
            "pmix.sys.here.0123456789abcdef",
            "notes",
        ] {
            assert!(!is(name), "{name}");
        }
    }
}
