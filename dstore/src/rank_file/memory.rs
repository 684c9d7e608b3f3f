//! The words of this process's file: mapped from the file, or in memory alone.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::{HEADER_WORDS, Kind};
use crate::file_ban;

/// The words of a file of this process.
pub struct RankMemory {
    memory: MmapRaw,
    /// The process that made it.
    pid: u32,
}

impl RankMemory {
    /// Makes the file of a rank, with these contents, in the directory around a namespace's directory. A file that an earlier process of
    /// the rank has left there is replaced.
    ///
    /// # Errors
    /// The directory is not this user's own, or an error of the system; nothing is left behind.
    pub fn create(directory: BorrowedFd<'_>, kind: Kind, rank: u32, image: &[u8]) -> io::Result<RankMemory> {
        file_ban::check();
        // A directory that was mounted alone somewhere else has another one around it.
        let outer = fstatat(directory, "..", AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if outer.st_uid != geteuid().as_raw() || outer.st_mode != SFlag::S_IFDIR.bits() | 0o700 {
            return Err(io::Error::other("the directory around the segments is not this user's alone"));
        }
        // The kernel ends a process that writes beyond this limit.
        if getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(soft, _)| soft < image.len() as u64) {
            return Err(Errno::EFBIG.into());
        }
        let name = format!("../{}", kind.name(rank));
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        // For this process alone the file is open for writing: one that is cut would end the process.
        let make = || openat(directory, name.as_str(), flags, Mode::from_bits_truncate(0o400));
        let file = match make() {
            Err(Errno::EEXIST) => {
                unlinkat(directory, name.as_str(), UnlinkatFlags::NoRemoveDir)?;
                make()?
            }
            file => file?,
        };
        let mut file = File::from(file);
        // Written, not only extended: a store into a hole of a full file system would end the process.
        let written = file.write_all(image);
        let mapped = written.and_then(|()| MmapOptions::new().len(image.len()).map_raw(&file));
        if mapped.is_err() {
            // A failure is ignored: the server removes the file with the directory.
            let _ = unlinkat(directory, name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        mapped.map(RankMemory::of)
    }

    /// Words in memory alone, for a process without a directory to write to.
    ///
    /// # Errors
    /// No memory.
    pub fn anonymous(image: &[u8]) -> io::Result<RankMemory> {
        let mut memory = MmapMut::map_anon(image.len())?;
        memory.copy_from_slice(image);
        Ok(RankMemory::of(memory.into()))
    }

    fn of(memory: MmapRaw) -> RankMemory {
        RankMemory { memory, pid: std::process::id() }
    }

    /// The process that made it. A forked child has the memory, too, but is not to write there.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The words after the header.
    pub fn words(&self) -> &[AtomicU64] {
        let len = self.memory.len() / size_of::<u64>();
        // SAFETY: the mapping is writable, aligned to a page, of this length, and lives as long as `self`. All access in this process
        // is atomic. Another process could change the file: atomics of any content are valid.
        let all = unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast::<AtomicU64>(), len) };
        &all[HEADER_WORDS..]
    }
}
