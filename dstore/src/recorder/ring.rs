//! The file of this process, which it alone writes.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::record::{FILE_LEN, MAGIC, Note, OPEN_COUNT, Phase, RECORD_COUNT, Record, VERSION_WORD, WORDS, Words};
use crate::model::{Proc, Status};
use crate::rank_file::{Header, Kind, RankMemory, now};

/// The records of this process: mapped from its file, or in memory alone.
pub struct Ring {
    memory: RankMemory,
    /// The number of the next record.
    next: AtomicU64,
    /// The places for open steps that are taken, a bit for each.
    taken: AtomicU32,
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
        RankMemory::create(directory, Kind::Steps, me.rank.0, &image(me)).map(Ring::of)
    }

    /// A ring in memory alone, for a process without a directory to write to.
    ///
    /// # Errors
    /// No memory.
    pub fn in_memory(me: &Proc) -> io::Result<Ring> {
        RankMemory::anonymous(&image(me)).map(Ring::of)
    }

    fn of(memory: RankMemory) -> Ring {
        Ring { memory, next: AtomicU64::new(1), taken: AtomicU32::new(0) }
    }

    /// The process that made it. A forked child has the memory, too, but is not to write there.
    pub fn pid(&self) -> u32 {
        self.memory.pid()
    }

    /// The words of a record: the last ones, and then those of open steps.
    fn slot(&self, index: usize) -> &[AtomicU64] {
        &self.memory.words()[index * WORDS..][..WORDS]
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

/// A file without records.
fn image(me: &Proc) -> Vec<u8> {
    Header::new((MAGIC, VERSION_WORD), me, now()).image(FILE_LEN)
}
