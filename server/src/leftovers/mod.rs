//! What servers and launchers have left that ended without removing it: directories of namespaces, contact files, directories of `pmixrun`.
//! Each server removes what lies in its directory when it starts; `pmixctl clean` removes it at any time.
//!
//! Only this user's files are touched, and only where it is certain that nobody needs them: a lock that nobody holds, a process that has ended
//! and an address at which nobody listens. The directory of a server that is to be started again is needed for as long as its clients wait
//! (`crate::restart`). Directories are reached through open descriptors and links are not followed, so that nobody can
//! lead this elsewhere. What is this user's and looks otherwise than a server leaves it is refused, with the reason.

mod contacts;
pub mod launchers;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use pmix_client::rendezvous::Point;
use pmix_client::trusted::Trusted;
use pmix_dstore::segment::Abandoned;

use self::launchers::{Dead, inside, open};
use crate::restart;

/// How deep below a directory a search looks.
const DEPTH_MAX: usize = 8;
/// How many directories a search reads.
const DIRECTORIES_MAX: usize = 20_000;

/// The kinds of what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A namespace's directory, with segments, socket and the recorded steps of ranks.
    Namespace,
    /// A file by which tools find a server.
    Contact,
    /// The directory of a job of `pmixrun`.
    Job,
}

impl Kind {
    /// A word for programs; it does not change between releases of this library.
    pub fn code(self) -> &'static str {
        match self {
            Kind::Namespace => "namespace",
            Kind::Contact => "contact",
            Kind::Job => "job",
        }
    }
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It stays, because nothing is to be removed.
    Found,
    /// It is removed.
    Removed,
    /// It stays: it is not what a server leaves.
    Refused,
    /// It could not be removed.
    Failed(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Found => f.write_str("found"),
            Outcome::Removed => f.write_str("removed"),
            Outcome::Refused => f.write_str("refused"),
            Outcome::Failed(error) => write!(f, "not removed: {error}"),
        }
    }
}

/// Something that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Why nobody needs it, or why it is not touched.
    pub reason: String,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// Something of which it is certain that nobody needs it, how it is removed, and why.
enum Found {
    Namespace(Abandoned),
    Job(Dead),
    /// With the file that was looked at: a server may put another one in its place.
    Contact(String, Option<(u64, u64)>),
}

/// Looks for what is left.
pub struct Search {
    hostname: String,
    trusted: Trusted,
    removes: bool,
    /// The lasting name of the server that looks.
    own: Option<String>,
    found: Vec<Leftover>,
    /// Device and inode of the directories that were read.
    read: HashSet<(u64, u64)>,
}

impl Search {
    /// Contact files count that have this host's name. With `removes`, what is found is removed.
    pub fn new(hostname: &str, removes: bool) -> Search {
        let (hostname, trusted) = (hostname.to_owned(), Trusted::of_node(drop));
        Search { hostname, trusted, removes, own: None, found: Vec::new(), read: HashSet::new() }
    }

    /// Looks in a directory, and in this user's directories below it.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn look_below(&mut self, directory: &Path) -> io::Result<()> {
        self.look_in(&open_named(directory)?, directory, DEPTH_MAX)
    }

    /// What was found.
    pub fn found(self) -> Vec<Leftover> {
        self.found
    }

    /// Whether there were more directories than a search reads.
    pub fn is_cut(&self) -> bool {
        self.read.len() >= DIRECTORIES_MAX
    }

    fn look_in(&mut self, directory: &File, path: &Path, depth: usize) -> io::Result<()> {
        pmix_dstore::file_ban::check();
        let status = directory.metadata()?;
        if self.is_cut() || !self.read.insert((status.dev(), status.ino())) {
            return Ok(());
        }
        let own = geteuid().as_raw();
        for entry in fs::read_dir(inside(directory))?.flatten() {
            let name = entry.file_name();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if self.look_at(directory, path, &name) || !is_directory || depth == 0 {
                continue;
            }
            // Directories of others may be of any size, and may change meanwhile.
            let below = open(&inside(directory).join(&name), OFlag::O_DIRECTORY);
            if let Ok(below) = below
                && below.metadata().is_ok_and(|status| status.uid() == own)
            {
                // One that cannot be read has nothing of a server's.
                let _ = self.look_in(&below, &path.join(&name), depth - 1);
            }
        }
        Ok(())
    }

    /// Looks at one name. Returns whether it is one of a server or launcher, so that nobody else looks into it.
    fn look_at(&mut self, directory: &File, path: &Path, name: &OsStr) -> bool {
        let (kind, found) = if launchers::is_name(name) {
            let dead = Dead::find(directory, name, |file| Ok(file.try_lock()?));
            (Kind::Job, dead.map(|dead| dead.map(Found::Job)))
        } else if Abandoned::is_name(name) {
            let abandoned = Abandoned::find(directory.as_fd(), name).map(|abandoned| {
                abandoned.filter(|abandoned| !restart::is_kept(abandoned, self.own.as_deref(), self.removes))
            });
            (Kind::Namespace, abandoned.map(|abandoned| abandoned.map(Found::Namespace)))
        } else if contacts::is_name(name, &self.hostname) {
            let (file, id) = (inside(directory).join(name), identity(directory, name));
            let ended = contacts::ended(&file, &self.trusted);
            (Kind::Contact, ended.map(|why| why.map(|why| Found::Contact(why, id))))
        } else {
            return false;
        };
        if let (Ok(Some(Found::Contact(..))), Some(proof)) = (&found, contacts::proof_of(name)) {
            // Before the file by which it is judged is gone.
            self.look_at(directory, path, &proof);
        }
        let path = path.join(name);
        match found {
            _ if self.found.iter().any(|known| known.path == path) => {}
            Ok(None) => {}
            Ok(Some(found)) => {
                let reason = match &found {
                    Found::Namespace(_) => "its server has ended".to_owned(),
                    Found::Job(_) => "its launcher has ended".to_owned(),
                    Found::Contact(why, _) => why.clone(),
                };
                let outcome = if self.removes { removed(directory, name, found) } else { Outcome::Found };
                self.found.push(Leftover { path, kind, reason, outcome });
            }
            Err(why) => {
                self.found.push(Leftover { path, kind, reason: why.to_string(), outcome: Outcome::Refused });
            }
        }
        true
    }
}

/// Device and inode of a name.
fn identity(directory: &File, name: &OsStr) -> Option<(u64, u64)> {
    let status = inside(directory).join(name).symlink_metadata().ok()?;
    Some((status.dev(), status.ino()))
}

fn removed(directory: &File, name: &OsStr, found: Found) -> Outcome {
    let removed = match found {
        Found::Namespace(abandoned) => abandoned.remove(directory.as_fd(), name),
        Found::Job(dead) => dead.remove(directory, name),
        Found::Contact(_, id) if id != identity(directory, name) => return Outcome::Removed,
        Found::Contact(..) => unlinkat(directory, name, UnlinkatFlags::NoRemoveDir).map_err(io::Error::from),
    };
    match removed {
        // Another process was faster.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Outcome::Failed(error.to_string()),
        _ => Outcome::Removed,
    }
}

/// The caller names this directory: it may be a link.
fn open_named(directory: &Path) -> io::Result<File> {
    let file = File::open(directory)?;
    if file.metadata()?.is_dir() { Ok(file) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Removes what is left in a directory, and not below it. Returns what was found; a directory that cannot be read has nothing. `own` is the
/// lasting name of a server, which nobody starts in the place of one with this name.
pub fn sweep(directory: &Path, hostname: &str, own: Option<&str>) -> Vec<Leftover> {
    let mut search = Search { own: own.map(str::to_owned), ..Search::new(hostname, true) };
    // A server that cannot use the directory says so itself.
    let _ = open_named(directory).and_then(|open| search.look_in(&open, directory, 0));
    search.found
}

/// Removes the contact files of the node's server and scheduler, if these have ended.
pub(crate) fn sweep_system(directory: &Path, hostname: &str) -> Vec<Leftover> {
    let mut search = Search::new(hostname, true);
    if let Ok(open) = open_named(directory) {
        for point in [Point::System, Point::Scheduler] {
            let name = point.file_name(hostname);
            for name in [pmix_client::rendezvous::proof_path(Path::new(&name)), name.into()] {
                search.look_at(&open, directory, name.as_os_str());
            }
        }
    }
    search.found
}

#[cfg(test)]
mod tests;
