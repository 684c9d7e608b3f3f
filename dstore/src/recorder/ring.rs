//! The file of this process, which it alone writes.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::files::name_of;
use super::record::{FILE_LEN, Header, Note, OPEN_COUNT, Phase, RECORD_COUNT, Record, WORDS, Words};
use crate::file_ban;
use crate::model::{Proc, Status};

/// The records of this process: mapped from its file, or in memory alone.
pub struct Ring {
    memory: MmapRaw,
    /// The number of the next record.
    next: AtomicU64,
    /// The places for open steps that are taken, a bit for each.
    taken: AtomicU32,
    /// The process that made it.
    pid: u32,
}

/// A step that has begun, for [`Ring::end`].
#[derive(Clone, Copy, Debug)]
#[must_use = "the step ends when this is told"]
pub struct Open {
    serial: u64,
    time: Duration,
    /// Its place among the open steps. None is free if many are open: then the last records alone have it.
    place: Option<usize>,
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
        Ring { memory, next: AtomicU64::new(1), taken: AtomicU32::new(0), pid: std::process::id() }
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

    /// The words of a record: the last ones, and then those of open steps.
    fn slot(&self, index: usize) -> &[AtomicU64] {
        &self.words()[index * WORDS..][..WORDS]
    }

    fn slot_of(&self, serial: u64) -> &[AtomicU64] {
        self.slot((serial.wrapping_sub(1) % RECORD_COUNT as u64) as usize)
    }

    fn read(slot: &[AtomicU64]) -> Option<Record> {
        let mut words: Words = [0; WORDS];
        for (word, at) in words.iter_mut().zip(slot) {
            *word = at.load(Ordering::Relaxed);
        }
        Record::of_words(&words)
    }

    fn write(slot: &[AtomicU64], record: &Record) {
        // In any order: the check tells whether all words have come. Two threads that are a whole ring apart tear a record.
        for (word, at) in record.to_words().into_iter().zip(slot) {
            at.store(word, Ordering::Relaxed);
        }
    }

    fn add(&self, phase: Phase, status: Status, (begun, took): (u32, Duration), note: Note) -> Record {
        let serial = self.next.fetch_add(1, Ordering::Relaxed);
        let record = Record { serial, time: now(), phase, took, status, begun, note };
        Ring::write(self.slot_of(serial), &record);
        record
    }

    /// Takes a place for an open step.
    fn take_place(&self) -> Option<usize> {
        let free = |taken: u32| Some(taken.trailing_ones()).filter(|place| *place < OPEN_COUNT as u32);
        let with_one = |taken: u32| free(taken).map(|place| taken | 1 << place);
        let before = self.taken.fetch_update(Ordering::Acquire, Ordering::Relaxed, with_one).ok()?;
        free(before).map(|place| place as usize)
    }

    /// Records that a step begins.
    pub fn begin(&self, note: Note) -> Open {
        let record = self.add(Phase::Begun, Status::SUCCESS, (0, Duration::ZERO), note);
        let place = self.take_place();
        if let Some(place) = place {
            Ring::write(self.slot(RECORD_COUNT + place), &record);
        }
        Open { serial: record.serial, time: record.time, place }
    }

    /// Records that a step has ended.
    pub fn end(&self, begun: Open, note: Note, status: Status) {
        let took = now().saturating_sub(begun.time);
        self.add(Phase::Ended, status, (begun.serial as u32, took), note);
        // After its end is recorded: a process that is killed in between has not lost the step.
        if let Some(place) = begun.place {
            self.slot(RECORD_COUNT + place)[0].store(0, Ordering::Relaxed);
            self.taken.fetch_and(!(1 << place), Ordering::Release);
        }
    }

    /// Records a step without duration.
    pub fn happen(&self, note: Note, status: Status) {
        self.add(Phase::Happened, status, (0, Duration::ZERO), note);
    }

    /// Calls `say` for each step that is over, and then for those that are not; oldest first. It takes no lock and allocates nothing: a
    /// signal handler calls it.
    pub fn tell(&self, mut say: impl FnMut(&dyn std::fmt::Display)) {
        let next = self.next.load(Ordering::Relaxed);
        let oldest = next.saturating_sub(RECORD_COUNT as u64).max(1);
        let of_number = |serial| Ring::read(self.slot_of(serial)).filter(|record| record.serial == serial);
        let all = || (oldest..next).filter_map(of_number);
        let open = (RECORD_COUNT..RECORD_COUNT + OPEN_COUNT).filter_map(|index| Ring::read(self.slot(index)));
        let older = open.filter(|record| record.serial < oldest);
        let now = now();
        all().filter(|record| record.phase != Phase::Begun).for_each(|record| say(&record.in_words(now)));
        let has_ended =
            |begun: &Record| all().any(|record| record.phase == Phase::Ended && record.begun == begun.serial as u32);
        let open = older.chain(all()).filter(|record| record.phase == Phase::Begun && !has_ended(record));
        open.for_each(|record| say(&record.in_words(now)));
    }
}

/// The time since 1970, in which records tell when.
pub fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A file without records.
fn image(me: &Proc) -> Vec<u8> {
    let header = Header::new(std::process::id(), me.rank.0, now(), me.nspace.as_bytes());
    let mut image: Vec<u8> = header.to_words().iter().flat_map(|word| word.to_ne_bytes()).collect();
    image.resize(FILE_LEN, 0);
    image
}
