//! The counts of a rank's Gets by class of key and by source, in a file of its own, for `pmixctl top` to read while the rank runs.
//!
//! Threads count in slots of their own, so that they do not wait for each other; beyond [`SLOT_COUNT`] of them some share a slot.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::model::{Proc, Rank};
use crate::rank_file::{self, Found, HEADER_WORDS, Header, Kind, RankMemory, now};

/// The first word of a file: `PMIXGETS`.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"PMIXGETS");
/// The version of the layout.
const VERSION: u64 = 1;
/// The slots of a file. With them it is one page.
pub const SLOT_COUNT: usize = 15;
/// Words of 8 bytes of a slot: four cache lines.
const SLOT_WORDS: usize = 32;
/// Bytes of a file.
pub const FILE_LEN: usize = (HEADER_WORDS + SLOT_COUNT * SLOT_WORDS) * 8;
/// Files that are read.
const FILES_MAX: usize = 4096;

/// The classes of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Of a whole job, of a node or of an application: the rank is `PMIX_RANK_WILDCARD`.
    Job,
    /// Of the process that asks.
    Own,
    /// A reserved key of another process, which its host has given: it begins with `pmix`.
    Reserved,
    /// A key that another process has put.
    Put,
}

impl Class {
    /// All classes, as they lie in a slot.
    pub const ALL: [Class; 4] = [Class::Job, Class::Own, Class::Reserved, Class::Put];

    /// The class of a Get by `me`. Without a process it is about the own namespace.
    pub fn of(me: &Proc, nspace: Option<&[u8]>, rank: Rank, key: &[u8]) -> Class {
        let is_own = nspace.is_none_or(|nspace| nspace == me.nspace.as_bytes());
        match rank {
            Rank::WILDCARD => Class::Job,
            rank if is_own && rank == me.rank => Class::Own,
            _ if key.starts_with(b"pmix") => Class::Reserved,
            _ => Class::Put,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Job => "job",
            Class::Own => "own process",
            Class::Reserved => "reserved, of others",
            Class::Put => "put by others",
        })
    }
}

/// Where a Get has looked last: where its value comes from, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Among the values that this process has put or stored, and what it knows of itself.
    Own,
    /// In the data of the own job, which lie in its segment where there is shared memory.
    Job,
    /// In a segment with values that ranks have put.
    Modex,
    /// Among earlier replies of the server.
    ReplyCache,
    /// At the server.
    Server,
    /// In this process, without a note of the place.
    Unnoted,
}

impl Source {
    /// All sources, as they lie in a slot.
    pub const ALL: [Source; 6] =
        [Source::Own, Source::Job, Source::Modex, Source::ReplyCache, Source::Server, Source::Unnoted];
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Own => "own values",
            Source::Job => "job segment",
            Source::Modex => "modex segment",
            Source::ReplyCache => "reply cache",
            Source::Server => "server",
            Source::Unnoted => "this process",
        })
    }
}

/// Numbers of a class: one for each source, and one for values that were not found.
const NUMBERS: usize = Source::ALL.len() + 1;
const _: () = assert!(Class::ALL.len() * NUMBERS <= SLOT_WORDS);

/// The Gets of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfClass {
    /// By source.
    pub by_source: [u64; Source::ALL.len()],
    /// Those of them whose value was not found.
    pub not_found: u64,
}

/// The counts of a process, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub [OfClass; Class::ALL.len()]);

impl Counts {
    /// All Gets.
    pub fn total(&self) -> u64 {
        self.0.iter().flat_map(|class| class.by_source).fold(0, u64::saturating_add)
    }

    /// All Gets of a source.
    pub fn of_source(&self, at: usize) -> u64 {
        self.0.iter().map(|class| class.by_source[at]).fold(0, u64::saturating_add)
    }

    /// Adds those of another process.
    pub fn add(&mut self, other: &Counts) {
        for (class, other) in self.0.iter_mut().zip(&other.0) {
            let numbers = class.by_source.iter_mut().zip(other.by_source);
            numbers.for_each(|(number, other)| *number = number.saturating_add(other));
            class.not_found = class.not_found.saturating_add(other.not_found);
        }
    }

    /// The sum of slots.
    fn of_slots<'a>(slots: impl Iterator<Item = &'a [u64]>) -> Counts {
        let mut sum = Counts::default();
        for slot in slots {
            let of_class = |numbers: &[u64; NUMBERS]| {
                let [by_source @ .., not_found] = *numbers;
                OfClass { by_source, not_found }
            };
            let (classes, _) = slot.as_chunks::<NUMBERS>();
            let mut counts = Counts::default();
            counts.0.iter_mut().zip(classes).for_each(|(class, numbers)| *class = of_class(numbers));
            sum.add(&counts);
        }
        sum
    }
}

/// The counts of this process, which it alone writes.
pub struct Counter {
    me: Proc,
    memory: RankMemory,
}

/// The number of the next thread that counts.
static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SLOT: usize = NEXT_THREAD.fetch_add(1, Ordering::Relaxed) % SLOT_COUNT;
}

impl Counter {
    /// Counts in a file, in the directory around a namespace's directory.
    ///
    /// # Errors
    /// As [`RankMemory::create`].
    pub fn create(directory: BorrowedFd<'_>, me: &Proc) -> io::Result<Counter> {
        let memory = RankMemory::create(directory, Kind::Gets, me.rank.0, &image(me))?;
        Ok(Counter { me: me.clone(), memory })
    }

    /// Counts in memory, for a process without a directory to write to.
    ///
    /// # Errors
    /// No memory.
    pub fn in_memory(me: &Proc) -> io::Result<Counter> {
        Ok(Counter { me: me.clone(), memory: RankMemory::anonymous(&image(me))? })
    }

    /// The process.
    pub fn me(&self) -> &Proc {
        &self.me
    }

    /// The process that made it. A forked child has the memory, too, but is not to write there.
    pub fn pid(&self) -> u32 {
        self.memory.pid()
    }

    /// A Get has ended.
    pub fn count(&self, class: Class, source: Source, is_found: bool) {
        // A thread that ends has no slot any more.
        let slot = SLOT.try_with(|slot| *slot).unwrap_or_default();
        let numbers = &self.memory.words()[slot * SLOT_WORDS + class as usize * NUMBERS..][..NUMBERS];
        numbers[source as usize].fetch_add(1, Ordering::Relaxed);
        if !is_found {
            numbers[NUMBERS - 1].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes all counts, and begins anew.
    pub fn take(&self) -> Counts {
        let words: Vec<u64> =
            self.memory.words().iter().map(|word: &AtomicU64| word.swap(0, Ordering::Relaxed)).collect();
        Counts::of_slots(words.chunks_exact(SLOT_WORDS))
    }
}

/// A file without counts.
fn image(me: &Proc) -> Vec<u8> {
    Header::new((MAGIC, VERSION), me, now()).image(FILE_LEN)
}

/// What a file says, which may have any contents.
#[derive(Debug)]
pub struct CountsFile {
    /// The beginning of the job's name.
    pub nspace: String,
    /// The process's rank in it.
    pub rank: u32,
    /// The process.
    pub pid: u32,
    /// Its Gets.
    pub counts: Counts,
}

impl CountsFile {
    /// Reads a file, whatever its name leads to.
    ///
    /// # Errors
    /// It is none, or cannot be read.
    pub fn read(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<CountsFile> {
        let mut file: File = rank_file::open_file(directory, name, FILE_LEN)?;
        let mut bytes = vec![0; FILE_LEN];
        file.read_exact(&mut bytes)?;
        CountsFile::parse(&bytes)
    }

    /// The counts in these bytes of a whole file.
    ///
    /// # Errors
    /// They are none.
    pub fn parse(bytes: &[u8]) -> io::Result<CountsFile> {
        let (words, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().take(FILE_LEN / 8).map(|word| u64::from_ne_bytes(*word)).collect();
        let Some((header, slots)) = words.split_first_chunk::<HEADER_WORDS>().filter(|(header, _)| header[0] == MAGIC)
        else {
            return Err(io::Error::other("not a file with counts of Gets"));
        };
        if header[1] != VERSION {
            let told = format!("version {} of a file with counts of Gets; this program reads {VERSION}", header[1]);
            return Err(io::Error::other(told));
        }
        if bytes.len() != FILE_LEN || !rest.is_empty() {
            return Err(io::Error::other("its length is not that of a file with counts of Gets"));
        }
        let damaged = || io::Error::other("a file with counts of Gets, whose header is damaged");
        let header = Header::of_words(header).ok_or_else(damaged)?;
        let counts = Counts::of_slots(slots.chunks_exact(SLOT_WORDS));
        Ok(CountsFile { nspace: header.nspace(), rank: header.rank, pid: header.pid, counts })
    }
}

/// Reads the files of all ranks in the directory at `path` around a namespace's directory. They are sorted by rank.
///
/// # Errors
/// The directory cannot be read.
pub fn files_in(path: &Path) -> io::Result<Found<io::Result<CountsFile>>> {
    rank_file::files_in(path, (Kind::Gets, FILES_MAX), |_| true, CountsFile::read)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::model::Nspace;

    fn me(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    fn directories() -> (tempfile::TempDir, fs::File) {
        let outer = tempfile::tempdir().unwrap();
        fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::create_dir(outer.path().join("s")).unwrap();
        let inner = fs::File::open(outer.path().join("s")).unwrap();
        (outer, inner)
    }

    fn only(class: Class, source: Source, count: u64, not_found: u64) -> Counts {
        let mut counts = Counts::default();
        counts.0[class as usize].by_source[source as usize] = count;
        counts.0[class as usize].not_found = not_found;
        counts
    }

    #[test]
    fn classes_follow_from_process_and_key() {
        let me = me(3);
        let of = |nspace, rank, key: &[u8]| Class::of(&me, nspace, Rank(rank), key);
        assert_eq!(of(None, Rank::WILDCARD.0, b"pmix.job.size"), Class::Job);
        assert_eq!(of(Some(b"other"), Rank::WILDCARD.0, b"a"), Class::Job);
        assert_eq!(of(None, 3, b"pmix.lrank"), Class::Own);
        assert_eq!(of(Some(b"job"), 3, b"a"), Class::Own);
        assert_eq!(of(Some(b"other"), 3, b"a"), Class::Put);
        assert_eq!(of(None, 4, b"pmix.lrank"), Class::Reserved);
        assert_eq!(of(None, 4, b"a"), Class::Put);
    }

    #[test]
    fn counts_of_threads_are_read_from_the_file_and_taken_at_the_end() {
        const EACH: u64 = 200_000;
        let (outer, inner) = directories();
        let counter = Counter::create(inner.as_fd(), &me(7)).unwrap();
        // So many threads that some share a slot. Those of one slot count at the same time, the others once.
        let threads = 2 * SLOT_COUNT;
        let (start, shared) = (std::sync::Barrier::new(threads), AtomicUsize::new(usize::MAX));
        let counted: u64 = std::thread::scope(|scope| {
            let count = || {
                let _ =
                    shared.compare_exchange(usize::MAX, SLOT.with(|slot| *slot), Ordering::SeqCst, Ordering::SeqCst);
                start.wait();
                let is_shared = SLOT.with(|slot| *slot) == shared.load(Ordering::SeqCst);
                let count = if is_shared { EACH } else { 1 };
                (0..count).for_each(|number| counter.count(Class::Put, Source::Modex, number % 2 > 0));
                count
            };
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(count)).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(counted >= 2 * EACH);
        let found = files_in(outer.path()).unwrap();
        let [(7, Ok(file))] = &found.files[..] else { panic!("{:?}", found.files) };
        assert_eq!((file.nspace.as_str(), file.rank, file.pid), ("job", 7, std::process::id()));
        let ones = counted % EACH;
        let wanted = only(Class::Put, Source::Modex, counted, ones + (counted - ones) / 2);
        assert_eq!(file.counts, wanted);
        assert_eq!((wanted.total(), wanted.of_source(Source::Modex as usize)), (counted, counted));
        assert_eq!(counter.take(), wanted);
        assert_eq!(counter.take(), Counts::default());
        let path = outer.path().join("gets-7");
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o400);
    }

    #[test]
    fn each_class_and_source_has_a_number_of_its_own() {
        let counter = Counter::in_memory(&me(0)).unwrap();
        for class in Class::ALL {
            for source in Source::ALL {
                counter.count(class, source, true);
                assert_eq!(counter.take(), only(class, source, 1, 0));
                counter.count(class, source, false);
                assert_eq!(counter.take(), only(class, source, 1, 1));
            }
        }
    }

    #[test]
    fn other_files_are_refused_and_no_sum_overflows() {
        let (outer, inner) = directories();
        drop(Counter::create(inner.as_fd(), &me(0)).unwrap());
        let bytes = fs::read(outer.path().join("gets-0")).unwrap();
        let error = |bytes: &[u8]| CountsFile::parse(bytes).unwrap_err().to_string();
        let with = |at: usize| {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            bytes
        };
        assert_eq!(error(&with(0)), "not a file with counts of Gets");
        assert_eq!(error(&with(8)), "version 0 of a file with counts of Gets; this program reads 1");
        for at in 16..128 {
            assert_eq!(error(&with(at)), "a file with counts of Gets, whose header is damaged", "{at}");
        }
        for len in 0..128 {
            assert_eq!(error(&bytes[..len]), "not a file with counts of Gets", "{len}");
        }
        for other in [&bytes[..bytes.len() - 1], &[&bytes[..], b"x"].concat()] {
            assert_eq!(error(other), "its length is not that of a file with counts of Gets");
        }
        let mut full = bytes.clone();
        full[128..].fill(0xff);
        assert_eq!(CountsFile::parse(&full).unwrap().counts.total(), u64::MAX);
        symlink(outer.path().join("gets-0"), outer.path().join("gets-1")).unwrap();
        fs::write(outer.path().join("gets-2"), "").unwrap();
        let found: Vec<_> =
            files_in(outer.path()).unwrap().files.into_iter().map(|(rank, file)| (rank, file.is_ok())).collect();
        assert_eq!(found, [(0, true), (1, false), (2, false)]);
    }
}
