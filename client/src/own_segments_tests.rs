//! Segments that are replaced again and again while threads read them in every way that there is.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

use pmix_dstore::codec::{Dialect, Module, ValueRef};
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Info, Key, Nspace, Proc, Rank, Result, Status, Value, keys};
use pmix_dstore::segment::{
    Directory, FastResult, FastValue, ModexBuilder, NamespaceView, Publisher, SegmentKind, build_job,
};
use pmix_wire::Version;

use super::*;
use crate::hazard::HazardCell;
use crate::local::Local;
use crate::pin::PinToken;
use crate::{Client, GetFlags, GetRequest, Link, NspaceRef, Receiver, ReplyFn, Task};

const KEY: &str = "number";

/// A server that is not asked.
struct Nobody;

impl Link for Nobody {
    fn ready(&self) -> Result<()> {
        Ok(())
    }

    fn request(&self, _payload: Vec<u8>, reply: ReplyFn) {
        reply(Err(Status::ERR_NOT_SUPPORTED));
    }

    fn request_wait(&self, _payload: GatherBuf, _deadline: Option<Instant>) -> Result<Vec<u8>> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    fn send(&self, _payload: Vec<u8>) -> Result<()> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    fn defer(&self, task: Task) {
        task();
    }

    fn dialect(&self) -> Dialect {
        Dialect::plain(Module::V41)
    }

    fn server_version(&self) -> Version {
        Version::OURS
    }

    fn close(&self) {}
}

fn nspace() -> Nspace {
    Nspace::new("job").unwrap()
}

/// A job of one rank that puts a text of this number anew, again and again.
struct Job {
    publisher: Publisher,
    client: Client,
    newest: Option<u64>,
    _temporary: tempfile::TempDir,
}

/// The text of a number. Its length is another one for each.
fn text(number: u32) -> Vec<u8> {
    format!("{number:08}").repeat(1 + number as usize % 700).into_bytes()
}

/// The number of a text, which is whole.
fn number(text_of: &[u8]) -> u32 {
    let number = std::str::from_utf8(&text_of[..8]).unwrap().parse().unwrap();
    assert!(text_of == text(number), "{number} is torn");
    number
}

impl Job {
    fn new() -> Job {
        let temporary = tempfile::tempdir().unwrap();
        let mut publisher = Publisher::create(temporary.path(), &nspace(), None).unwrap();
        let mut job = JobData::new(nspace());
        job.job.insert(Key::from(keys::JOB_SIZE), Value::Uint32(1));
        publisher.publish(SegmentKind::Job, &build_job(&job, "test").unwrap()[..]).unwrap();
        let directory = Directory::open(publisher.directory(), publisher.directory_id()).unwrap();
        let me = Proc::new(nspace(), Rank(0));
        let view = NamespaceView::attach(directory).unwrap();
        let local = Local::new(me.clone(), b"node".to_vec(), Some(view), None);
        let client = Client::for_tests(me, Arc::new(Nobody), local);
        let mut job = Job { publisher, client, newest: None, _temporary: temporary };
        job.publish(0);
        job
    }

    /// Publishes a number in place of the one before, as a fence does.
    fn publish(&mut self, number: u32) {
        let (key, value) = (Key::from(KEY), Value::string(text(number)));
        let mut builder = ModexBuilder::new(nspace());
        builder.add(Rank(0), &key, &value).unwrap();
        let segment = builder.finish("test").unwrap();
        let count = match self.newest {
            Some(newest) => self.publisher.publish_replacing(SegmentKind::Modex, &segment, newest..=newest).unwrap(),
            None => self.publisher.publish(SegmentKind::Modex, &segment).unwrap(),
        };
        self.newest = Some(count - 1);
    }

    fn segments(&self) -> &OwnSegments {
        self.client.inner.local.segments.as_ref().unwrap()
    }

    fn mapped(&self) -> u64 {
        self.segments().read().stats().segments_mapped
    }

    /// How many mappings the kernel knows of segments.
    fn mappings(&self) -> usize {
        mappings(self.publisher.directory())
    }
}

fn mappings(directory: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let directory = directory.to_str().unwrap();
    maps.lines().filter(|line| line.contains(directory) && line.contains("/segment-")).count()
}

/// A caller that keeps a pointer to the value, as C code does.
#[derive(Default)]
struct Kept(Cell<Option<(*const u8, usize)>>);

impl Receiver for &Kept {
    fn prepare(self, _form: GetFlags) -> Result<()> {
        Ok(())
    }

    fn take_plain(self, _client: &Client, value: FastValue<'_>, _form: GetFlags) -> Option<Status> {
        let FastResult::Text(text) = value.result() else { return None };
        self.0.set(Some((text.as_ptr(), text.len() - 1)));
        Some(Status::SUCCESS)
    }

    fn take(self, client: &Client, value: ValueRef<'_>, _form: GetFlags) -> Result<()> {
        let ValueRef::Str(Some(text)) = value else { return Err(Status::ERR_BAD_PARAM) };
        // As with `Pinned` of the C interface: what is not lent is copied.
        let text =
            if client.lend(text.to_bytes_with_nul()) { text.to_bytes() } else { text.to_bytes().to_vec().leak() };
        self.0.set(Some((text.as_ptr(), text.len())));
        Ok(())
    }
}

/// The number that a Get finds in one of the ways.
fn get(client: &Client, pin: Option<&PinToken>, way: usize) -> u32 {
    let optional = [Info::new(keys::OPTIONAL, Value::Bool(true))];
    let me = client.me().clone();
    let request = GetRequest::new(&me, KEY, &optional);
    let take = |value: ValueRef<'_>| number(value.as_text().unwrap());
    let found = match (way % 4, pin) {
        (0, _) => client.get_by_slow_path(&request, take),
        (1, _) => client.get(&request, take),
        (2, _) => {
            let all = GetRequest { key: None, ..request };
            client.get_by_slow_path(&all, |value| {
                let all = value.to_value().unwrap();
                let mut infos = all.iter_infos();
                let found = infos.find(|info| info.key.is(KEY)).map(|info| number(info.value.as_text().unwrap()));
                found.unwrap()
            })
        }
        (_, Some(pin)) => client.get_pinned(pin, &request, take),
        (_, None) => client.get(&request, take),
    };
    found.unwrap_or_else(|status| panic!("way {way}: {status}"))
}

/// A pointer to the current value, as C code may keep it.
fn keep(client: &Client, pin: Option<&PinToken>, is_slow: bool) -> (usize, usize) {
    let infos = [Info::new(keys::GET_POINTER_VALUES, Value::Bool(true))];
    let me = client.me().clone();
    // A name of another form takes the slow path.
    let nspace = NspaceRef::Name(me.nspace.as_bytes());
    let request = GetRequest { nspace, rank: me.rank, key: Some(KEY.as_bytes()), directives: &infos };
    let kept = Kept::default();
    let status = if is_slow { client.get_with_source(&request, &kept) } else { client.get_into(pin, &request, &kept) };
    assert_eq!(status, Status::SUCCESS);
    let (start, len) = kept.0.get().unwrap();
    (start.expose_provenance(), len)
}

/// The number at a pointer of before.
fn look_again((start, len): (usize, usize)) -> u32 {
    // SAFETY: the segment was lent or the value was copied and leaked, and the client lives.
    number(unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(start), len) })
}

/// Runs with a pin of the calling thread.
fn pinned<R>(cell: &'static HazardCell<Client>, run: impl FnOnce(&Client, &PinToken) -> R) -> R {
    pin::get_slot();
    // SAFETY: it is used by this thread alone, which ends later.
    let slot = unsafe { pin::slot() }.expect("it was given");
    // SAFETY: the slot is of this cell and of this thread, and free, as calls are not nested.
    let client = unsafe { cell.enter(slot) }.expect("it was set");
    // SAFETY: the guard has the slot for longer.
    run(&client, &unsafe { PinToken::new() })
}

#[test]
fn a_rank_that_fences_often_maps_few_segments_while_threads_read() {
    static CELL: HazardCell<Client> = HazardCell::new(&pin::SLOTS);
    const FENCES: u32 = 1200;
    let mut job = Job::new();
    drop(CELL.set(job.client.clone()));
    let (known, is_over, reads) = (AtomicU32::new(0), AtomicBool::new(false), AtomicUsize::new(0));
    let most = std::thread::scope(|scope| {
        for way in 0..5 {
            let (known, is_over, reads, client) = (&known, &is_over, &reads, job.client.clone());
            scope.spawn(move || {
                let mut kept = Vec::new();
                while !is_over.load(Ordering::Acquire) {
                    let least = known.load(Ordering::Acquire);
                    let found = match way {
                        3 | 4 => pinned(&CELL, |client, pin| get(client, Some(pin), way)),
                        way => get(&client, None, way),
                    };
                    assert!(found >= least, "way {way}: {found} after {least}");
                    if kept.len() < 20 && least as usize >= kept.len() * 50 {
                        kept.push(match way {
                            3 => pinned(&CELL, |client, pin| keep(client, Some(pin), false)),
                            way => keep(&client, None, way % 2 == 0),
                        });
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                    // Else a processor's thread would nearly always be interrupted within a Get.
                    std::thread::yield_now();
                }
                let numbers: Vec<_> = kept.into_iter().map(look_again).collect();
                assert!(numbers.is_sorted() && numbers.len() > 1, "{numbers:?}");
            });
        }
        let mut most = 0;
        for number in 1..=FENCES {
            job.publish(number);
            let before = reads.load(Ordering::Relaxed);
            job.segments().refresh();
            known.store(number, Ordering::Release);
            // Where processors are few, threads would read nothing.
            let begun = Instant::now();
            while reads.load(Ordering::Relaxed) == before && begun.elapsed().as_secs() < 10 {
                std::thread::yield_now();
            }
            most = most.max(job.mapped());
        }
        is_over.store(true, Ordering::Release);
        most
    });

    assert!(most < u64::from(FENCES) / 2, "{most} segments were mapped at a time");
    while job.mapped() > 250 {
        job.publish(FENCES);
        job.segments().refresh();
    }
    assert!(job.mappings() <= 251, "{}", job.mappings());
    let directory = job.publisher.directory().to_owned();
    drop(CELL.take());
    drop(job);
    assert_eq!(mappings(&directory), 0);
}

#[test]
fn nothing_is_unmapped_under_a_reader() {
    static CELL: HazardCell<Client> = HazardCell::new(&pin::SLOTS);
    const MANY: u32 = 200;
    let mut job = Job::new();
    drop(CELL.set(job.client.clone()));
    let client = job.client.clone();
    let mut next = 1;
    let mut replace_many = |job: &mut Job| {
        for _ in 0..MANY {
            job.publish(next);
            job.segments().refresh();
            next += 1;
        }
    };
    let key = pmix_dstore::model::KeyRef::from(KEY);
    let mut check = |job: &mut Job, reading: Reading<'_>| {
        let FastResult::Text(borrowed) = client.inner.local.fast_value(reading, Rank(0), &key).result() else {
            panic!("a text");
        };
        let before = number(&borrowed[..borrowed.len() - 1]);
        replace_many(job);
        assert!(job.mapped() > u64::from(MANY), "{} are mapped", job.mapped());
        assert_eq!(number(&borrowed[..borrowed.len() - 1]), before);
    };
    pinned(&CELL, |_, pin| check(&mut job, Reader::new(Some(pin)).reading()));
    check(&mut job, Reader::new(None).reading());
    // Other tests may read now and then.
    let begun = Instant::now();
    while job.mapped() > 130 && begun.elapsed().as_secs() < 60 {
        job.segments().refresh();
    }
    assert!(job.mapped() <= 130, "{} are mapped without readers", job.mapped());
}
