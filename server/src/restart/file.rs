//! The file of a journal.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use pmix_dstore::file_ban;
use pmix_dstore::gather::Slices;
use pmix_dstore::model::Nspace;
use pmix_dstore::segment::{JOURNAL_NAME, JOURNAL_NEW_NAME, Publisher, check_length};

use super::record::{Journal, Origin, Record};

/// The journal of a namespace, open for writing.
pub(crate) struct JournalFile {
    directory: OwnedFd,
    path: PathBuf,
    file: File,
    len: u64,
    nspace: Nspace,
    origin: Origin,
    pid: u32,
}

/// The boot of the machine: a journal of another one is of no use.
pub(super) fn boot() -> Vec<u8> {
    let mut boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.truncate(64);
    boot
}

impl JournalFile {
    /// Makes the journal of a namespace in its inner directory, in place of one that is there. `origin` need not name boot and directory.
    ///
    /// # Errors
    /// The system's; nothing new is left.
    pub fn create(of: &Publisher, nspace: &Nspace, origin: &Origin, records: &[Record]) -> io::Result<JournalFile> {
        let origin = Origin { boot: boot(), directory: of.directory_id().to_string().into(), ..origin.clone() };
        let directory = of.dir_fd().try_clone_to_owned()?;
        let (file, len) = write_new(directory.as_fd(), nspace, &origin, records)?;
        let path = of.directory().join(JOURNAL_NAME);
        Ok(JournalFile { directory, path, file, len, nspace: nspace.clone(), origin, pid: std::process::id() })
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Adds a record. A failure may leave a part of it: then the journal must be removed.
    ///
    /// # Errors
    /// The system's.
    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        file_ban::check();
        self.len += record.total_len() as u64;
        check_length(self.len)?;
        write(&mut self.file, record)
    }

    /// Replaces all records. A server that is killed meanwhile leaves the former ones.
    ///
    /// # Errors
    /// The system's.
    pub fn rewrite(&mut self, records: &[Record]) -> io::Result<()> {
        (self.file, self.len) = write_new(self.directory.as_fd(), &self.nspace, &self.origin, records)?;
        Ok(())
    }

    /// Removes it. A forked child has but a copy of this.
    pub fn remove(self) {
        if self.pid == std::process::id() {
            remove(self.directory.as_fd());
        }
    }
}

/// Removes the journal of a directory.
pub(crate) fn remove(directory: BorrowedFd<'_>) {
    file_ban::check();
    for name in [JOURNAL_NAME, JOURNAL_NEW_NAME] {
        let _ = unlinkat(directory, name, UnlinkatFlags::NoRemoveDir);
    }
}

/// Writes a record, or a whole journal.
pub(crate) fn write(to: &mut impl Write, what: &impl Slices) -> io::Result<()> {
    what.slices().try_for_each(|slice| to.write_all(slice))
}

/// Writes a journal under another name, and gives it its own.
pub(super) fn write_new(
    directory: BorrowedFd<'_>,
    nspace: &Nspace,
    origin: &Origin,
    records: &[Record],
) -> io::Result<(File, u64)> {
    file_ban::check();
    let journal = Journal::new(nspace, origin, records).map_err(|status| io::Error::other(status.to_string()))?;
    let len = journal.total_len() as u64;
    check_length(len)?;
    let _ = unlinkat(directory, JOURNAL_NEW_NAME, UnlinkatFlags::NoRemoveDir);
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = openat(directory, JOURNAL_NEW_NAME, flags, Mode::from_bits_truncate(0o600))?;
    // Buffered: most records are short.
    let mut file = io::BufWriter::new(File::from(file));
    let written = write(&mut file, &journal)
        .and_then(|()| file.into_inner().map_err(io::IntoInnerError::into_error))
        .and_then(|file| {
            renameat(directory, JOURNAL_NEW_NAME, directory, JOURNAL_NAME)?;
            Ok(file)
        });
    match written {
        Ok(file) => Ok((file, len)),
        Err(error) => {
            let _ = unlinkat(directory, JOURNAL_NEW_NAME, UnlinkatFlags::NoRemoveDir);
            Err(error)
        }
    }
}
