//! The file of this process, which it alone writes.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::files::name_of;
use super::record::{FILE_LEN, Header, Note, Phase, RECORD_COUNT, Record, WORDS, Words};
use crate::file_ban;
use crate::model::{Proc, Status};

/// The records of this process: mapped from its file, or in memory alone.
pub struct Ring {
    memory: MmapRaw,
    /// The number of the next record.
    next: AtomicU64,
    /// The process that made it.
    pid: u32,
}

impl Ring {
    /// Makes the file of a process, in the directory around a namespace's directory. A file that an earlier process of the rank has left
    /// there is replaced.
    ///
    /// # Errors
    /// The directory is not this user's own, or an error of the system; nothing is left behind.
    pub fn create(directory: BorrowedFd<'_>, me: &Proc) -> io::Result<Ring> {
        file_ban::check();
        // A directory that was mounted alone somewhere else has another one around it.
        let outer = fstatat(directory, "..", AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if outer.st_uid != geteuid().as_raw() || outer.st_mode != SFlag::S_IFDIR.bits() | 0o700 {
            return Err(io::Error::other("the directory around the segments is not this user's alone"));
        }
        // The kernel ends a process that writes beyond this limit.
        if getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(soft, _)| soft < FILE_LEN as u64) {
            return Err(Errno::EFBIG.into());
        }
        let name = format!("../{}", name_of(me.rank.0));
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let make = || openat(directory, name.as_str(), flags, Mode::from_bits_truncate(0o600));
        let file = match make() {
            Err(Errno::EEXIST) => {
                unlinkat(directory, name.as_str(), UnlinkatFlags::NoRemoveDir)?;
                make()?
            }
            file => file?,
        };
        let mut file = File::from(file);
        // Written, not only extended: a store into a hole of a full file system would end the process.
        let mapped = file.write_all(&image(me)).and_then(|()| Ring::map(&file));
        if mapped.is_err() {
            // A failure is ignored: the server removes the file with the directory.
            let _ = unlinkat(directory, name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        mapped
    }

    /// A ring in memory alone, for a process without a directory to write to.
    ///
    /// # Errors
    /// No memory.
    pub fn in_memory(me: &Proc) -> io::Result<Ring> {
        let mut memory = MmapMut::map_anon(FILE_LEN)?;
        memory.copy_from_slice(&image(me));
        Ok(Ring::of(memory.into()))
    }

    fn map(file: &File) -> io::Result<Ring> {
        Ok(Ring::of(MmapOptions::new().len(FILE_LEN).map_raw(file)?))
    }

    fn of(memory: MmapRaw) -> Ring {
        Ring { memory, next: AtomicU64::new(1), pid: std::process::id() }
    }

    /// The process that made it. A forked child has the memory, too, but is not to write there.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The words after the header.
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is writable, aligned to a page, of FILE_LEN bytes, and lives as long as `self`. All access in this process
        // is atomic. Another process could change the file: atomics of any content are valid.
        let all = unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast::<AtomicU64>(), FILE_LEN / 8) };
        &all[WORDS..]
    }

    fn slot(&self, serial: u64) -> &[AtomicU64] {
        let index = (serial.wrapping_sub(1) % RECORD_COUNT as u64) as usize;
        &self.words()[index * WORDS..][..WORDS]
    }

    /// The record of this number, if it is still there.
    fn read(&self, serial: u64) -> Option<Record> {
        let mut words: Words = [0; WORDS];
        for (word, at) in words.iter_mut().zip(self.slot(serial)) {
            *word = at.load(Ordering::Relaxed);
        }
        Record::of_words(&words).filter(|record| record.serial == serial)
    }

    fn write(&self, record: Record) {
        // In any order: the check tells whether all words have come. Two threads that are a whole ring apart tear a record.
        for (word, at) in record.to_words().into_iter().zip(self.slot(record.serial)) {
            at.store(word, Ordering::Relaxed);
        }
    }

    fn add(&self, phase: Phase, status: Status, (begun, took): (u32, Duration), note: Note) -> u64 {
        let serial = self.next.fetch_add(1, Ordering::Relaxed);
        self.write(Record { serial, time: now(), phase, took, status, begun, note });
        serial
    }

    /// Records that a step begins; returns its number, for [`Ring::end`].
    pub fn begin(&self, note: Note) -> u64 {
        self.add(Phase::Begun, Status::SUCCESS, (0, Duration::ZERO), note)
    }

    /// Records that a step has ended.
    pub fn end(&self, begun: u64, note: Note, status: Status) {
        let took = self.read(begun).map_or(Duration::ZERO, |record| now().saturating_sub(record.time));
        self.add(Phase::Ended, status, (begun as u32, took), note);
    }

    /// Records a step without duration.
    pub fn happen(&self, note: Note, status: Status) {
        self.add(Phase::Happened, status, (0, Duration::ZERO), note);
    }

    /// Calls `say` for each step that is over, and then for those that are not; oldest first. It takes no lock and allocates nothing: a
    /// signal handler calls it.
    pub fn tell(&self, mut say: impl FnMut(&dyn std::fmt::Display)) {
        let next = self.next.load(Ordering::Relaxed);
        let all = || (next.saturating_sub(RECORD_COUNT as u64).max(1)..next).filter_map(|serial| self.read(serial));
        let now = now();
        all().filter(|record| record.phase != Phase::Begun).for_each(|record| say(&record.in_words(now)));
        let has_ended =
            |begun: &Record| all().any(|record| record.phase == Phase::Ended && record.begun == begun.serial as u32);
        let open = all().filter(|record| record.phase == Phase::Begun && !has_ended(record));
        open.for_each(|record| say(&record.in_words(now)));
    }
}

/// The time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A file without records.
fn image(me: &Proc) -> Vec<u8> {
    let header = Header::new(std::process::id(), me.rank.0, now(), me.nspace.as_bytes());
    let mut image: Vec<u8> = header.to_words().iter().flat_map(|word| word.to_ne_bytes()).collect();
    image.resize(FILE_LEN, 0);
    image
}
