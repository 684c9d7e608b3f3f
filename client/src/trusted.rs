//! Users whose contact files and listeners are taken for those of a server.
//!
//! Directories for temporary files are for everybody: who finds a file there that another user has left would hand itself to
//! that user. Root and the user of the process itself are trusted. A site whose server of the node runs as a service user lists
//! that user in [`LIST`].

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::geteuid;

use crate::regular_file::{OnLink, read_regular};
use crate::user_namespace::UserNumbers;

/// The administrator's list: a user's number on each line, and comments behind `#`. The file is root's, and nobody else may write it.
pub const LIST: &str = "/etc/pmix-dstore/trusted-uids";
/// More users than a site has services.
const LIST_LEN_MAX: u64 = 64 << 10;

/// Who is trusted in this process.
#[derive(Clone, Debug, PartialEq)]
pub struct Trusted {
    uids: Vec<u32>,
    numbers: UserNumbers,
}

impl Trusted {
    /// Root, the effective user of this process, and who is listed; `log` hears of a list that cannot count.
    pub fn of_node(log: impl FnOnce(String)) -> Trusted {
        let mut uids = vec![0, geteuid().as_raw()];
        match read_list(Path::new(LIST)) {
            Ok(listed) => uids.extend(listed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => log(format!("{LIST} does not count: {error}")),
        }
        Trusted { uids, numbers: UserNumbers::of_this_thread() }
    }

    /// Whether a user is trusted. Nobody is by a number that many may have, be it this process's own.
    pub fn holds(&self, uid: u32) -> bool {
        self.uids.contains(&uid) && self.numbers.tells(uid)
    }

    /// These users alone.
    #[cfg(test)]
    pub fn only(uids: &[u32]) -> Trusted {
        Trusted { uids: uids.to_vec(), numbers: UserNumbers::of_this_thread() }
    }
}

fn read_list(path: &Path) -> io::Result<Vec<u32>> {
    let (text, metadata) = read_regular(path, OnLink::Refuse, LIST_LEN_MAX)?;
    if metadata.uid() != 0 || metadata.mode() & 0o022 != 0 {
        let why = format!(
            "user {} owns it with mode {:o}; it must be root's, with mode 644",
            metadata.uid(),
            metadata.mode() & 0o7777
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    parse_list(&text)
}

fn parse_list(text: &str) -> io::Result<Vec<u32>> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            line.parse()
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{line:?} is no user's number")))
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
