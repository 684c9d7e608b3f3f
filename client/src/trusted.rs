//! Users whose rendezvous files and listeners a tool trusts.
//!
//! Any user can create files in directories for temporary files. A tool that followed another user's file would connect
//! to that user's process. So a tool trusts only root and its own user. A site whose node server runs as a service user
//! lists that user in [`LIST`].

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::geteuid;

use crate::regular_file::{OnLink, read_regular};
use crate::user_namespace::UserIds;

/// The administrator's list: a numeric user id on each line, and comments after `#`. Root must own the file, and no
/// other user may have write permission.
pub const LIST: &str = "/etc/pmix-dstore/trusted-uids";
/// The largest file of the administrator that is read, in bytes.
const LIST_LEN_MAX: u64 = 64 << 10;

/// The users that this process trusts.
#[derive(Clone, Debug, PartialEq)]
pub struct Trusted {
    uids: Vec<u32>,
    numbers: UserIds,
}

impl Trusted {
    /// Root, the effective user of this process, and the listed users. `log` gets a line if the list is unusable.
    pub fn of_node(log: impl FnOnce(String)) -> Trusted {
        let mut uids = vec![0, geteuid().as_raw()];
        match read_list(Path::new(LIST)) {
            Ok(listed) => uids.extend(listed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => log(format!("{LIST} is ignored: {error}")),
        }
        Trusted { uids, numbers: UserIds::of_this_thread() }
    }

    /// Whether a user is trusted. Never true for the id that unmapped users share, even if it is this process's own.
    pub fn holds(&self, uid: u32) -> bool {
        self.uids.contains(&uid) && self.numbers.is_unique(uid)
    }

    /// Trusts only these users.
    #[cfg(test)]
    pub fn only(uids: &[u32]) -> Trusted {
        Trusted { uids: uids.to_vec(), numbers: UserIds::of_this_thread() }
    }
}

fn read_list(path: &Path) -> io::Result<Vec<u32>> {
    parse_list(&read_of_administrator(path)?)
}

/// The text of a file by which the administrator decides: root owns it, and no other user may write it.
///
/// # Errors
/// `NotFound` if there is no file; it cannot be read, is too long, or is not the administrator's.
pub fn read_of_administrator(path: &Path) -> io::Result<String> {
    let (text, metadata) = read_regular(path, OnLink::Refuse, LIST_LEN_MAX)?;
    if metadata.uid() != 0 || metadata.mode() & 0o022 != 0 {
        let why = format!(
            "user {} owns it with mode {:o}; root must own it, with mode 644",
            metadata.uid(),
            metadata.mode() & 0o7777
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(text)
}

/// The entries of such a file: one on each line, and comments after `#`.
pub fn entries(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty())
}

fn parse_list(text: &str) -> io::Result<Vec<u32>> {
    entries(text)
        .map(|line| {
            line.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{line:?} is not a user id")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::user_namespace::tests::{again_inside, inside};

    #[test]
    fn a_list_is_read_as_it_is_written() {
        assert_eq!(parse_list("# services\n17\n\n  18 # of the DVM\n").unwrap(), [17, 18]);
        assert_eq!(parse_list("").unwrap(), [0; 0]);
        for broken in ["slurm", "-1", "17 18", "4294967296"] {
            assert!(parse_list(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn root_and_the_process_itself_are_trusted() {
        let trusted = Trusted::of_node(|line| panic!("{line}"));
        assert!(trusted.holds(0) && trusted.holds(geteuid().as_raw()) && !trusted.holds(u32::MAX));
    }

    #[test]
    fn an_unmapped_uid_is_not_trusted() {
        if inside().is_some() {
            let own = geteuid().as_raw();
            assert_ne!(own, 0, "it has no number");
            assert!(!Trusted::of_node(drop).holds(own) && !Trusted::only(&[own]).holds(own));
            assert!(Trusted::of_node(drop).holds(0));
        } else if let Some(mut again) = again_inside("trusted::tests::an_unmapped_uid_is_not_trusted", &[]) {
            assert!(again.status().unwrap().success());
        }
    }

    #[test]
    fn a_list_that_others_may_write_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        fs::write(&path, "17\n").unwrap();
        let with_mode = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read_list(&path).map_err(|error| error.kind())
        };
        let denied = Err(io::ErrorKind::PermissionDenied);
        assert_eq!((with_mode(0o664), with_mode(0o646)), (denied.clone(), denied.clone()));
        let as_root = if geteuid().is_root() { Ok(vec![17]) } else { denied };
        assert_eq!(with_mode(0o644), as_root);
        assert!(read_list(directory.path()).is_err());
    }
}
