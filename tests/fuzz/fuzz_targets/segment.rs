//! Segments and directories: whatever their bytes are, every lookup ends, stays inside, and answers a miss or a value;
//! what lies elsewhere than the damage is what was put.
//!
//! Input: the form, then for each form
//! * 0: a segment, which is given a header that fits and its hashes;
//! * 1: which segment, which of its values, and what to write over that value;
//! * 2: packed values that a rank commits, for a modex segment;
//! * 3: a job-info reply, for a job segment;
//! * 4: what to write over which file of a directory, and where;
//! * 5: which segment, and where and how long it is filled with which byte after it was mapped;
//! * 6: which segment, and lies in its tables, each with the check that fits: which entry, where in it, eight bytes;
//! * 7: lies in the table of contents, with a hash that fits: which word of all that are of different kinds, and what it becomes; more
//!   such words of the same segment;
//! * 8: which segment, and what is copied from entry to entry after it was mapped, without a check that fits: to which, from which, where
//!   in it, how many bytes.
#![no_main]

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use pmix_dstore::codec::ValueRef;
use pmix_dstore::codec::{self, Dialect};
use pmix_dstore::job::JobData;
use pmix_dstore::maps::{RANK_COUNT_MAX, RANK_MAX};
use pmix_dstore::model::{Key, KeyRef, Kval, Rank, Value, keys};
use pmix_dstore::modex::ModexData;
use pmix_dstore::qualified;
use pmix_dstore::realm_resolution::{Caller, JobLookup, Realm, Selector, find, node_row_of};
use pmix_dstore::segment::{
    Directory, FastValue, FileId, InspectOptions, JobReader, MappedRegion, ModexReader, NamespaceView, Publisher,
    SegmentKind, Target, build_job, inspect_directory, inspect_segment,
};
use pmix_fuzz::samples::{self, build_modex};
use pmix_fuzz::{DIALECTS, Exact, bounded, checked_in, dialect, forge, sections, sign};
use pmix_wire::{blob, jobinfo};

/// Heap bytes for each byte of a segment that opening takes: a column is smaller than its description.
const HEAP_PER_BYTE: usize = 4;
/// As many keys and ranks of a segment are asked for.
const ASKED_MAX: usize = 32;
/// Jobs with more rows only take long.
const ROWS_MAX: u32 = 2000;
const FEW: InspectOptions = InspectOptions { rows_max: 2, bytes_max: 4 };
/// Of a text of more nodes only the beginning is made, and none of more ranks: a segment of a few bytes may have one of 2^24 ranks.
const TEXT_NODES_MAX: u32 = 100;
const TEXT_RANKS_MAX: usize = 100_000;
/// Forms that the samples have, as the inspector names them.
const FORMS: [&str; 13] = [
    " nodes in each row",
    " pieces with a formula each",
    " in all rows",
    " * (row / ",
    " numbers of ",
    " as index of ",
    ", some without a value",
    " sparse values",
    "stride",
    "slots",
    "table",
    "sorted",
    "pmix.qual.val",
];
/// Who asks.
const ME: Rank = Rank(1);
/// Rows and ranks that are asked for whatever the segment says.
const ODD: [u32; 14] = [0, 1, 2, 3, 7, 17, 63, 64, 65, 299, 4_000_000_000, 4_000_000_004, u32::MAX - 2, u32::MAX];

fuzz_target!(|input: &[u8]| {
    let [form, rest @ ..] = input else { return };
    match (form % 9, rest) {
        (0, bytes) => any_segment(bytes),
        (1, [which, first, second, damage @ ..]) => {
            damaged_value(usize::from(*which), usize::from(u16::from_le_bytes([*first, *second])), damage);
        }
        (2, [selector, bytes @ ..]) => committed(dialect(*selector), *selector >= DIALECTS, bytes),
        (3, [selector, bytes @ ..]) => registered(dialect(*selector), bytes),
        (4, damage) => directory(damage),
        (5, [which, low, middle, high, len, byte]) => {
            let pos = u32::from_le_bytes([*low, *middle, *high, 0]) as usize;
            damaged_later(usize::from(*which), pos, usize::from(*len), *byte);
        }
        (6, [which, lies @ ..]) => forged(usize::from(*which), lies),
        (7, lies) => forged_contents(lies),
        (8, [which, copies @ ..]) => copied_later(usize::from(*which), copies),
        _ => {}
    }
});

fn any_segment(bytes: &[u8]) {
    read_any(bytes.to_vec());
}

/// A segment whose tables lie, as one is that somebody writes who knows the format.
fn forged(which: usize, lies: &[u8]) {
    let Segment { bytes, entries, .. } = segment(which);
    let mut bytes = bytes.to_vec();
    for [low, high, at, lie @ ..] in lies.as_chunks::<11>().0 {
        forge(&mut bytes, *entry(entries, *low, *high), (*at).into(), lie);
    }
    read_any(bytes);
}

/// A segment whose table of contents lies.
fn forged_contents(lies: &[u8]) {
    static WORDS: OnceLock<Vec<(usize, usize)>> = OnceLock::new();
    let words = WORDS.get_or_init(|| samples::contents_words(known_bytes()));
    let Some((&[low, high, lie], more)) = lies.split_first_chunk() else { return };
    let (which, first) = *entry(words, low, high);
    let Segment { bytes, words, .. } = segment(which);
    let mut bytes = bytes.to_vec();
    let more = more.as_chunks().0.iter().map(|&[low, high, lie]| (*entry(words, low, high), lie));
    for (pos, lie) in [(first, lie)].into_iter().chain(more) {
        let word = bytes[pos..].first_chunk_mut().expect("in the segment");
        let number = u32::from_le_bytes(*word);
        let lie = match lie {
            0 => number.wrapping_mul(2),
            1 => number / 2,
            2 => number.wrapping_add(1),
            3 => number.wrapping_sub(1),
            4 => !number,
            small => u32::from(small) - 5,
        };
        *word = lie.to_le_bytes();
    }
    read_any(bytes);
}

/// One of the samples, with all that has a check of its own, and the words of its table of contents.
struct Segment {
    bytes: &'static [u8],
    entries: Vec<(usize, usize)>,
    words: Vec<usize>,
}

fn segment(which: usize) -> &'static Segment {
    static SEGMENTS: OnceLock<Vec<Segment>> = OnceLock::new();
    let segments = SEGMENTS.get_or_init(|| {
        let segment = |bytes: &'static [u8]| {
            let words = sections(bytes).into_iter().flat_map(|(_, words)| words).collect();
            Segment { bytes, entries: checked_in(bytes), words }
        };
        known_bytes().map(segment).collect()
    });
    &segments[which % segments.len()]
}

/// The segments of the samples, in the order that [`samples::segments`] has.
fn known_bytes() -> impl Iterator<Item = &'static [u8]> {
    let (jobs, modexes) = known_samples();
    jobs.iter().map(|job| &*job.bytes).chain(modexes.iter().map(|modex| &*modex.bytes))
}

/// The one of some things that two bytes of the input choose.
fn entry<T>(all: &[T], low: u8, high: u8) -> &T {
    &all[usize::from(u16::from_le_bytes([low, high])) % all.len()]
}

fn read_any(mut bytes: Vec<u8>) {
    sign(&mut bytes);
    let _ = inspect_segment(&bytes, &FEW).to_text();
    let (job, modex) = bounded(bytes.len(), HEAP_PER_BYTE, || {
        (JobReader::open(Box::new(Exact::new(&bytes))), ModexReader::open(Box::new(Exact::new(&bytes))))
    });
    assert!(job.is_err() || modex.is_err(), "of one kind");
    if let Ok(reader) = job {
        read_job(&reader, |_, _| {}, |_, _, _| {});
    }
    if let Ok(reader) = modex {
        read_modex(&reader, |_, _, _| {});
    }
}

/// The values that a test asks for: those of the segment and those that are in none.
fn asked_keys<'a>(own: impl Iterator<Item = KeyRef<'a>>) -> Vec<Key> {
    let own = own.take(ASKED_MAX).filter_map(|key| Key::new(key.text()).ok());
    own.chain(["none", keys::LOCAL_PEERS, keys::APP_SIZE].map(Key::from)).collect()
}

/// What a value is, with all that it leads to.
fn whole(value: ValueRef<'_>) -> Option<Value> {
    let mut value = value;
    let len = match &mut value {
        ValueRef::Str(text) => text.map_or(0, |text| text.to_bytes().len()),
        ValueRef::Bytes { bytes, .. } | ValueRef::Packed { bytes, .. } => bytes.len(),
        ValueRef::Ranks(list) => {
            assert!(list.first < list.end && list.end <= list.runs.nodes(), "{list:?}");
            list.end = list.end.min(list.first + TEXT_NODES_MAX);
            if list.rank_count() > TEXT_RANKS_MAX {
                return None;
            }
            list.len_max()
        }
        _ => 0,
    };
    let owned = bounded(len, 512, || value.to_value().ok())?;
    assert_eq!(owned.data_type(), value.data_type());
    Some(owned)
}

/// Asks a job segment for everything: all rows of the realms, and what a Get without more is answered, the short way where that is
/// sure.
fn read_job(
    reader: &JobReader,
    mut found: impl FnMut((Realm, u32, &Key), ValueRef<'_>),
    mut got: impl FnMut((Rank, &Key), FastValue<'_>, Option<ValueRef<'_>>),
) {
    let caller = Caller { rank: Some(ME), hostname: b"node000" };
    let selectors = [
        Selector::default(),
        Selector { session: true, ..Selector::default() },
        Selector { job: true, ..Selector::default() },
        Selector { app: true, ..Selector::default() },
        Selector { node: true, ..Selector::default() },
        Selector { nodeid: Some(1), ..Selector::default() },
        Selector { appnum: Some(1), ..Selector::default() },
        Selector { hostname: Some(b"node001"), ..Selector::default() },
    ];
    for key in asked_keys(reader.keys().map(|(key, _)| key)) {
        let key_ref = KeyRef::from(&key);
        let ranks = ODD.map(Rank).into_iter().chain([Rank::WILDCARD, Rank(1), Rank::WILDCARD]);
        for (rank, selector) in ranks.zip(selectors.iter().cycle()) {
            find(reader, rank, &key_ref, selector, &caller).map(whole);
            let short = reader.fast_value(rank, &key_ref, ME);
            short.value().map(whole);
            got((rank, &key), short, find(reader, rank, &key_ref, &Selector::NOTHING, &caller));
        }
        for of in ODD.into_iter().flat_map(|number| [Target::App(number), Target::NodeId(number)]) {
            reader.fast_value_in(of, &key_ref).value().map(whole);
        }
        for of in [Target::Job, Target::NodeName(b"node001"), Target::NodeName(b"")] {
            reader.fast_value_in(of, &key_ref).value().map(whole);
        }
        let Some((handle, _)) = reader.find_key(&key_ref) else { continue };
        for realm in Realm::ALL {
            for row in ODD {
                if let Some(value) = reader.value(realm, row, handle) {
                    whole(value);
                    found((realm, row, &key), value);
                }
            }
        }
    }
    for number in ODD {
        let _ = (reader.node_row_by_id(number), reader.app_row(number), node_row_of(reader, Rank(number)));
        let _ = reader.node_row_by_name(format!("node{number:03}").as_bytes());
        if let Some(ranks) = reader.node_ranks(number) {
            assert!(number < reader.node_count() && ranks.iter().len() <= RANK_COUNT_MAX, "{ranks:?} of node {number}");
            assert!(ranks.iter().all(|rank| rank.0 <= RANK_MAX), "{ranks:?} of node {number}");
        }
    }
    let _ = (reader.node_count(), reader.app_count(), reader.proc_count(), reader.node_row_by_name(b""));
}

/// Asks a modex segment for everything.
fn read_modex(reader: &ModexReader, mut found: impl FnMut(Rank, &Key, ValueRef<'_>)) {
    let keys = asked_keys(reader.keys());
    let ranks: Vec<Rank> = reader.ranks().take(ASKED_MAX).chain(ODD.map(Rank)).collect();
    for key in &keys {
        let key_ref = KeyRef::from(key);
        for rank in ranks.iter().copied().chain(reader.first_rank_with(&key_ref)) {
            reader.fast_value(rank, &key_ref).value().map(whole);
            if let Some(value) = reader.get(rank, &key_ref) {
                let owned = whole(value);
                if let Some(all) = owned.filter(|_| qualified::is_key(key)) {
                    let _ = (qualified::find(&all, b"qualified", &[]), qualified::each(&all).len());
                }
                found(rank, key, value);
            }
        }
    }
    for rank in ranks {
        for (_, value) in reader.rank(rank).take(4 * ASKED_MAX) {
            whole(value);
        }
    }
}

/// Whether two values are the same, bit for bit.
fn assert_same(put: &Value, found: ValueRef<'_>, what: impl std::fmt::Debug) {
    assert_eq!(found.data_type(), put.data_type(), "{what:?}");
    let found = found.to_value().expect("a value that was put");
    assert_eq!(codec::pack_stored(&found), codec::pack_stored(put), "{what:?}");
}

/// Where in the segment a value's bytes are.
fn place(segment: &Range<usize>, value: ValueRef<'_>) -> Option<Range<usize>> {
    let slice = match value {
        ValueRef::Str(Some(text)) => text.to_bytes(),
        ValueRef::Bytes { bytes, .. } | ValueRef::Packed { bytes, .. } => bytes,
        _ => return None,
    };
    let start = slice.as_ptr() as usize;
    let end = start + slice.len();
    assert!(segment.start <= start && end <= segment.end, "a value outside its segment");
    (start < end).then(|| start - segment.start..end - segment.start)
}

/// All values of a segment by what leads to them, with the places of those that are not numbers.
type Contents<K> = Vec<(K, Value, Option<Range<usize>>)>;

/// A segment of which all values are known.
struct Sample<K> {
    bytes: Vec<u8>,
    contents: Contents<K>,
    /// Of a job, what Gets are answered the short way.
    gets: Contents<(Rank, Key)>,
}

type Samples = (Vec<Sample<(Realm, u32, Key)>>, Vec<Sample<(Rank, Key)>>);

fn known_samples() -> &'static Samples {
    static SAMPLES: OnceLock<Samples> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let mut described = String::new();
        let jobs: Vec<_> = samples::jobs()
            .into_iter()
            .map(|job| {
                let bytes = build_job(&job, "fuzz").expect("a segment");
                let region = Exact::new(&bytes);
                let base = region.range();
                let reader = JobReader::open(Box::new(region)).expect("as built");
                let (mut contents, mut gets) = (Vec::new(), Vec::new());
                let all = |(realm, row, key): (Realm, u32, &Key), value: ValueRef<'_>| {
                    let heap_row =
                        if realm == Realm::App { *job.apps.keys().nth(row as usize).expect("its row") } else { row };
                    let put = job.value(realm, heap_row, KeyRef::from(key)).expect("registered").to_value();
                    assert_same(&put.expect("memory"), value, (realm, row, key));
                    contents.push(((realm, row, key.clone()), value.to_value().expect("as put"), place(&base, value)));
                };
                read_job(&reader, all, |(rank, key), short, long| {
                    if short.needs_slow_path() {
                        return;
                    }
                    let long = long.map(|long| long.to_value().expect("as put"));
                    let value = short.value();
                    assert_eq!(value.is_some(), long.is_some(), "{key} of {rank}");
                    if let (Some(long), Some(value)) = (long, value) {
                        assert_same(&long, value, (rank, key));
                        gets.push(((rank, key.clone()), long, place(&base, value)));
                    }
                });
                described.push_str(&inspect_segment(&bytes, &FEW).to_text());
                Sample { bytes, contents, gets }
            })
            .collect();
        let modexes: Vec<_> = samples::modexes()
            .into_iter()
            .chain(samples::large_modexes())
            .map(|data| {
                let bytes = build_modex(&samples::nspace(), &data);
                let region = Exact::new(&bytes);
                let base = region.range();
                let reader = ModexReader::open(Box::new(region)).expect("as built");
                let mut contents = Vec::new();
                read_modex(&reader, |rank, key, value| {
                    assert_same(data.get(rank, key.as_bytes()).expect("put"), value, (rank, key));
                    contents.push(((rank, key.clone()), value.to_value().expect("as put"), place(&base, value)));
                });
                described.push_str(&inspect_segment(&bytes, &FEW).to_text());
                Sample { bytes, contents, gets: Vec::new() }
            })
            .collect();
        for form in FORMS {
            assert!(described.contains(form), "no sample has {form:?}");
        }
        (jobs, modexes)
    })
}

/// Writes over one value's bytes: all others are what they were.
fn damaged_value(which: usize, victim: usize, damage: &[u8]) {
    let (jobs, modexes) = known_samples();
    match which % (jobs.len() + modexes.len()) {
        job if job < jobs.len() => {
            let Some((bytes, hit)) = write_over(&jobs[job], victim, damage) else { return };
            let reader = JobReader::open(Box::new(Exact::new(&bytes))).expect("header and contents are good");
            for ((realm, row, key), put, place) in &jobs[job].contents {
                let (handle, realms) = reader.find_key(&KeyRef::from(key)).expect("a key of the segment");
                assert!(realms.has(*realm));
                judge(put, place.as_ref(), &hit, reader.value(*realm, *row, handle));
            }
            for ((rank, key), put, place) in &jobs[job].gets {
                judge_short(put, place.as_ref(), &hit, reader.fast_value(*rank, &KeyRef::from(key), ME), judge);
            }
            read_job(&reader, |_, _| {}, |_, _, _| {});
        }
        other => {
            let sample = &modexes[other - jobs.len()];
            let Some((bytes, hit)) = write_over(sample, victim, damage) else { return };
            let reader = ModexReader::open(Box::new(Exact::new(&bytes))).expect("header and contents are good");
            for ((rank, key), put, place) in &sample.contents {
                judge(put, place.as_ref(), &hit, reader.get(*rank, &KeyRef::from(key)));
                judge_short(put, place.as_ref(), &hit, reader.fast_value(*rank, &KeyRef::from(key)), judge);
            }
            read_modex(&reader, |_, _, _| {});
        }
    }
}

/// Damages a segment that is mapped already: what is found is what was put, or its own bytes were hit, as those of
/// numbers in the records of a modex segment may be. (Nobody here forges checks: that takes more than one byte repeated.)
fn damaged_later(which: usize, pos: usize, len: usize, byte: u8) {
    let (jobs, modexes) = known_samples();
    match which % (jobs.len() + modexes.len()) {
        job if job < jobs.len() => {
            let sample = &jobs[job];
            let file = Mapped::new(&sample.bytes);
            let reader = JobReader::open(Box::new(file.map())).expect("as built");
            let hit = file.fill(pos, len, byte);
            for ((realm, row, key), put, place) in &sample.contents {
                let found =
                    reader.find_key(&KeyRef::from(key)).and_then(|(handle, _)| reader.value(*realm, *row, handle));
                judge_later(put, place.as_ref(), &hit, found);
            }
            for ((rank, key), put, place) in &sample.gets {
                judge_short(put, place.as_ref(), &hit, reader.fast_value(*rank, &KeyRef::from(key), ME), judge_later);
            }
            read_job(&reader, |_, _| {}, |_, _, _| {});
        }
        other => {
            let sample = &modexes[other - jobs.len()];
            let file = Mapped::new(&sample.bytes);
            let reader = ModexReader::open(Box::new(file.map())).expect("as built");
            let hit = file.fill(pos, len, byte);
            for ((rank, key), put, place) in &sample.contents {
                let anywhere = 0..sample.bytes.len();
                let place = place.as_ref().or(Some(&anywhere));
                judge_later(put, place, &hit, reader.get(*rank, &KeyRef::from(key)));
                judge_short(put, place, &hit, reader.fast_value(*rank, &KeyRef::from(key)), judge_later);
            }
            read_modex(&reader, |_, _, _| {});
        }
    }
}

/// Writes parts of entries over others of a segment that is mapped already: no value is hit, so each is found as it was put, or is
/// missing in a segment that is known to be damaged.
fn copied_later(which: usize, copies: &[u8]) {
    let (jobs, modexes) = known_samples();
    let which = which % (jobs.len() + modexes.len());
    let Segment { bytes, entries, .. } = segment(which);
    let file = Mapped::new(bytes);
    let copy = || {
        for &[low, high, other, at, len] in copies.as_chunks().0 {
            let (to, whole) = *entry(entries, low, high);
            // Of neighbours the next ones are most alike.
            let alike = || entries.iter().filter(|(start, len)| *len == whole && *start != to);
            let after = alike().filter(|(start, _)| *start > to).nth(other.into());
            let Some((from, _)) = after.or_else(|| alike().next()) else { continue };
            let at = usize::from(at) % whole;
            let len = usize::from(len).min(whole - at);
            file.write(to + at, &bytes[from + at..from + at + len]);
        }
    };
    let judge = |put: &Value, found: Option<ValueRef<'_>>, is_damaged: &dyn Fn() -> bool| match found {
        Some(found) => assert_same(put, found, ()),
        None => assert!(is_damaged(), "a miss of {put:?}, and no damage"),
    };
    if which < jobs.len() {
        let reader = JobReader::open(Box::new(file.map())).expect("as built");
        copy();
        for ((realm, row, key), put, _) in &jobs[which].contents {
            let found = reader.find_key(&KeyRef::from(key)).and_then(|(handle, _)| reader.value(*realm, *row, handle));
            judge(put, found, &|| reader.is_damaged());
        }
        for ((rank, key), put, _) in &jobs[which].gets {
            let short = reader.fast_value(*rank, &KeyRef::from(key), ME);
            if !short.needs_slow_path() {
                judge(put, short.value(), &|| false);
            }
        }
        read_job(&reader, |_, _| {}, |_, _, _| {});
    } else {
        let reader = ModexReader::open(Box::new(file.map())).expect("as built");
        copy();
        for ((rank, key), put, _) in &modexes[which - jobs.len()].contents {
            judge(put, reader.get(*rank, &KeyRef::from(key)), &|| reader.is_damaged());
            let short = reader.fast_value(*rank, &KeyRef::from(key));
            if !short.needs_slow_path() {
                judge(put, short.value(), &|| false);
            }
        }
        read_modex(&reader, |_, _, _| {});
    }
}

/// A segment in a file without a name.
struct Mapped {
    file: fs::File,
    len: usize,
}

impl Mapped {
    fn new(bytes: &[u8]) -> Mapped {
        let file = nix::fcntl::open(&std::env::temp_dir(), OFlag::O_TMPFILE | OFlag::O_RDWR, Mode::S_IRUSR);
        let file = fs::File::from(file.expect("a file in the temporary directory"));
        file.write_all_at(bytes, 0).expect("room");
        Mapped { file, len: bytes.len() }
    }

    fn map(&self) -> MappedRegion {
        MappedRegion::map(&self.file, self.len).expect("memory")
    }

    /// Fills some bytes; tells which.
    fn fill(&self, pos: usize, len: usize, byte: u8) -> Range<usize> {
        let hit = pos % self.len..(pos % self.len + len).min(self.len);
        self.write(hit.start, &vec![byte; hit.len()]);
        hit
    }

    fn write(&self, pos: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, pos as u64).expect("a file of that length");
    }
}

fn write_over<K>(sample: &Sample<K>, victim: usize, damage: &[u8]) -> Option<(Vec<u8>, Range<usize>)> {
    let place = sample.contents.iter().cycle().skip(victim % sample.contents.len()).find_map(|(_, _, p)| p.clone())?;
    let hit = place.start..place.end.min(place.start + damage.len());
    let mut bytes = sample.bytes.clone();
    bytes[hit.clone()].copy_from_slice(&damage[..hit.len()]);
    Some((bytes, hit))
}

/// A value elsewhere is as it was; a damaged one is of its type or missing.
fn judge(put: &Value, place: Option<&Range<usize>>, hit: &Range<usize>, found: Option<ValueRef<'_>>) {
    let is_hit = place.is_some_and(|place| place.start < hit.end && hit.start < place.end);
    match found {
        Some(value) if is_hit => assert_eq!(value.data_type(), put.data_type()),
        Some(value) => assert_same(put, value, place),
        None => assert!(is_hit, "a miss of {put:?} at {place:?}, damaged was {hit:?}"),
    }
}

/// The same of a segment that was damaged after it was mapped, whose reader may have met other damage.
fn judge_later(put: &Value, place: Option<&Range<usize>>, hit: &Range<usize>, found: Option<ValueRef<'_>>) {
    let is_hit = place.is_some_and(|place| place.start < hit.end && hit.start <= place.end);
    match found {
        Some(found) if !is_hit => assert_same(put, found, (place, hit)),
        Some(found) => assert_eq!(found.data_type(), put.data_type()),
        None => {}
    }
}

/// Judges what the short way gives, where it is sure.
fn judge_short(
    put: &Value,
    place: Option<&Range<usize>>,
    hit: &Range<usize>,
    short: FastValue<'_>,
    judge: impl Fn(&Value, Option<&Range<usize>>, &Range<usize>, Option<ValueRef<'_>>),
) {
    if !short.needs_slow_path() {
        judge(put, place, hit, short.value());
    }
}

/// What a peer commits, published and read.
fn committed(dialect: Dialect, apart: bool, bytes: &[u8]) {
    let Ok(kvals) = blob::decode_modex(dialect, bytes) else { return };
    let mut data = ModexData::default();
    for (number, Kval { key, value }) in kvals.into_iter().enumerate() {
        // What cannot be stored is refused when it is put.
        if codec::pack_stored(&value).is_ok() {
            let rank = if apart { number as u32 % 3 * 1000 } else { number as u32 / 4 };
            data.set(Rank(rank), key, value).expect("memory");
        }
    }
    if data.ranks().next().is_none() {
        return;
    }
    let bytes = build_modex(&samples::nspace(), &data);
    let reader = ModexReader::open(Box::new(Exact::new(&bytes))).expect("as built");
    let mut count = 0;
    for rank in data.ranks() {
        for (key, value) in data.rank(rank) {
            let found = reader.get(rank, &KeyRef::from(key)).unwrap_or_else(|| panic!("{key} of {rank} is missing"));
            assert_same(value, found, (rank, key));
            let short = reader.fast_value(rank, &KeyRef::from(key));
            if !short.needs_slow_path() {
                assert_same(value, short.value().expect("it is there"), (rank, key));
            }
            count += 1;
        }
    }
    assert_eq!(reader.ranks().map(|rank| reader.rank(rank).count()).sum::<usize>(), count);
    read_modex(&reader, |_, _, _| {});
}

/// What a host registered, published and read.
fn registered(dialect: Dialect, bytes: &[u8]) {
    let Ok(job) = jobinfo::decode(dialect, bytes) else { return };
    if job.procs.rows() > ROWS_MAX {
        return;
    }
    let Ok(bytes) = build_job(&job, "fuzz") else { return };
    let reader = JobReader::open(Box::new(Exact::new(&bytes))).expect("as built");
    let appnums: Vec<u32> = job.apps.keys().copied().collect();
    for key in asked_keys(reader.keys().map(|(key, _)| key)) {
        for realm in Realm::ALL {
            for row in 0..rows(&job, realm).min(64) {
                // In the heap an application's number is its row.
                let heap_row = if realm == Realm::App { appnums[row as usize] } else { row };
                let put = job.value(realm, heap_row, KeyRef::from(&key)).and_then(|value| value.to_value().ok());
                let found =
                    reader.find_key(&KeyRef::from(&key)).and_then(|(handle, _)| reader.value(realm, row, handle));
                match (put, found) {
                    (Some(put), Some(found)) => assert_same(&put, found, (realm, row, &key)),
                    (None, None) => {}
                    (put, found) => panic!("{key} of {realm:?} {row}: {put:?} became {found:?}"),
                }
            }
        }
    }
    for (row, node) in (0..).zip(&job.nodes) {
        if let Some(ranks) = reader.node_ranks(row) {
            let list: Vec<String> = ranks.iter().map(|rank| rank.0.to_string()).collect();
            let said = node.values.get(keys::LOCAL_PEERS.as_bytes()).and_then(Value::as_text);
            assert_eq!(said.unwrap_or_default(), list.join(",").as_bytes(), "ranks of node {row}");
        }
        assert_eq!(reader.node_row_by_name(&node.hostname), job.node_row_by_name(&node.hostname));
    }
    read_job(&reader, |_, _| {}, |_, _, _| {});
}

fn rows(job: &JobData, realm: Realm) -> u32 {
    match realm {
        Realm::Session | Realm::Job => 1,
        Realm::App => job.apps.len() as u32,
        Realm::Node => job.nodes.len() as u32,
        Realm::Proc => job.procs.rows(),
    }
}

/// A directory with a job segment and three modex segments, of which the last replaces the middle one, attached as
/// clients do after some bytes were written over.
fn directory(mut damage: &[u8]) {
    let job = &known_samples().0[0].bytes;
    let [first, second, third] = versions();
    let nspace = samples::nspace();
    let mut publisher =
        Publisher::create(&std::env::temp_dir(), &nspace, None).expect("room in the temporary directory");
    publisher.publish(SegmentKind::Job, job).expect("room");
    for data in [&first, &second] {
        publisher.publish(SegmentKind::Modex, &build_modex(&nspace, data)).expect("room");
    }
    publisher.publish_replacing(SegmentKind::Modex, &build_modex(&nspace, &third), 2..=2).expect("room");
    let path = publisher.directory().to_owned();
    // The page is damaged before, segments are damaged afterwards: a changed one would not be attached.
    let mut hit: HashMap<&str, Vec<u8>> = HashMap::new();
    while let Some((file, rest)) = damage.split_first()
        && let Some((pos, rest)) = rest.split_first_chunk::<3>()
        && let Some((byte, rest)) = rest.split_first()
    {
        damage = rest;
        let name = ["page-0", "page-0", "page-0", "segment-0", "segment-1", "segment-3"][usize::from(*file) % 6];
        let bytes = hit.entry(name).or_insert_with(|| fs::read(path.join(name)).expect("a file of the directory"));
        let at = u32::from_le_bytes([pos[0], pos[1], pos[2], 0]) as usize;
        // Of the page the header's first words and the first entries mean most.
        let at = if *file % 6 == 1 { 512 + at % 256 } else { at % bytes.len() };
        bytes[at] = *byte;
    }
    if let Some(page) = hit.get("page-0") {
        rewrite(&path.join("page-0"), page);
    }
    let opened = FileId::of(&path).map(|id| Directory::open(&path, id).expect("our own"));
    if let Ok(view) = NamespaceView::attach(opened.expect("our own")) {
        for (name, bytes) in hit.iter().filter(|(name, _)| name.starts_with("segment")) {
            let path = path.join(name);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("own file");
            let file = fs::OpenOptions::new().write(true).open(path).expect("own file");
            file.write_all_at(bytes, 0).expect("as long as before");
        }
        let only_page = hit.keys().all(|name| name.starts_with("page"));
        read_view(&view, hit.is_empty().then_some(&third), only_page.then_some([&first, &second, &third]));
    }
    let _ = inspect_directory(&path, &FEW).map(|report| report.to_text());
    drop(publisher);
    // What is not its own any more it has left.
    let _ = fs::remove_dir_all(path.parent().expect("the outer directory"));
}

/// What three ranks put one after the other.
fn versions() -> [ModexData; 3] {
    [1, 2, 3].map(|version| {
        let mut data = ModexData::default();
        for rank in 0..3 {
            let text = Value::string(format!("version {version} of {rank}"));
            for (key, value) in [("number", Value::Uint32(version * 100 + rank)), ("text", text)] {
                data.set(Rank(rank), Key::from(key), value).expect("room");
            }
        }
        data
    })
}

fn read_view(view: &NamespaceView, newest: Option<&ModexData>, ever: Option<[&ModexData; 3]>) {
    view.refresh();
    let _ = (view.is_complete(), view.is_retired(), view.count(), view.stats(), view.last_error());
    for key in ["number", "text", "none", keys::RANK] {
        let key = KeyRef::from(key);
        let any = view.modex_any(&key).map(|(_, value)| value);
        any.map(whole);
        for rank in ODD.map(Rank) {
            let found = view.modex(rank, &key);
            found.map(whole);
            if let Some(newest) = newest {
                let put = newest.get(rank, key.text());
                assert_eq!(found.and_then(|value| value.to_value().ok()).as_ref(), put);
            }
            if let (Some(ever), Some(found)) = (ever, found) {
                let found = found.to_value().expect("its segment is good");
                assert!(ever.iter().any(|data| data.get(rank, key.text()) == Some(&found)), "{found:?} was never put");
            }
        }
    }
    if let Some(job) = view.job() {
        read_job(job, |_, _| {}, |_, _, _| {});
    }
}

/// Puts other bytes into a file that nobody may write, as its owner can.
fn rewrite(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).expect("a file of the directory");
    fs::write(path, bytes).expect("room");
    fs::set_permissions(path, fs::Permissions::from_mode(0o444)).expect("own file");
}
