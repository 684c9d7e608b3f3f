//! The values that processes have published under `pmixrun`, and lookups that wait for keys not published yet.
//!
//! All processes have one user, so access lists say nothing here. All are on one node, so the ranges up to the global one are the same.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::MutexGuard;
use pmix_client::events::range;
use pmix_dstore::codec::{pack_stored, unpack_stored};
use pmix_dstore::model::{Info, Key, Nspace, Pdata, Proc, Result, Status, Value, keys};
use pmix_server::Completion;

pub(super) type Lookup = Completion<(Status, Vec<Pdata>)>;

/// The most values that a process may have published.
const VALUES_MAX: usize = 65_536;
/// The most bytes of these values, keys included.
const BYTES_MAX: usize = 16 << 20;
/// The most bytes of all processes' values.
const BYTES_ALL_MAX: usize = 256 << 20;

/// Infos of a publication that are not values.
const DIRECTIVES: [&str; 7] = [
    keys::USERID,
    keys::GRPID,
    keys::RANGE,
    keys::PERSISTENCE,
    keys::EVENT_CUSTOM_RANGE,
    keys::ACCESS_PERMISSIONS,
    keys::TIMEOUT,
];

/// The values of a publication.
pub(super) fn values(infos: &[Info]) -> impl Iterator<Item = (&Key, &Value)> + Clone {
    let values = infos.iter().filter(|info| !DIRECTIVES.iter().any(|key| info.key.is(key)));
    values.map(|info| (&info.key, &info.value))
}

/// Answers the lookups that can be answered now. With the lock of what was published: no time limit comes between.
pub(super) fn answer_ready(mut published: MutexGuard<'_, Published>) {
    let ready = published.ready();
    drop(published);
    for (done, data) in ready {
        done.complete((Status::SUCCESS, data));
    }
}

/// Who finds a value.
#[derive(Clone, Debug, Default, PartialEq)]
enum Range {
    /// Every process.
    #[default]
    All,
    /// The processes of the publisher's job.
    Namespace,
    /// The publisher.
    Own,
    /// These, which all values of one publication share.
    These(Arc<[Proc]>),
    /// None: it is for the resource manager.
    Nobody,
}

impl Range {
    /// The memory for named processes.
    fn bytes(&self) -> usize {
        match self {
            Range::These(these) => size_of_val(&**these),
            _ => 0,
        }
    }

    /// The number of a range, the narrowest first.
    fn width(&self) -> u8 {
        match self {
            Range::Nobody => 0,
            Range::Own => 1,
            Range::These(_) => 2,
            Range::Namespace => 3,
            Range::All => 4,
        }
    }
}

/// How long a value stays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Persistence {
    /// Until the launcher ends.
    Session,
    /// Until all ranks of the publisher's job have ended; the standard's default.
    #[default]
    Job,
    /// Until the publisher has ended.
    Process,
    /// Until the first lookup.
    FirstRead,
}

/// Who finds values, and how long.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Terms {
    range: Range,
    persistence: Persistence,
    /// The processes of a partner find them, too: the range is the global one, or names some. What the first reader takes stays here, so that
    /// there is one.
    is_beyond: bool,
}

impl Terms {
    /// Reads the directives of a publication.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a range or persistence that does not exist, or a custom range without processes.
    pub fn read(infos: &[Info]) -> Result<Terms> {
        let number =
            |key: &str| Info::find(infos, key).map(|value| value.as_u64().ok_or(Status::ERR_BAD_PARAM)).transpose();
        let named = || Info::find(infos, keys::EVENT_CUSTOM_RANGE).map(|value| value.iter_procs().cloned().collect());
        let named = || named().filter(|these: &Arc<[Proc]>| !these.is_empty());
        let range = match number(keys::RANGE)?.map(u8::try_from) {
            None | Some(Ok(range::UNDEF | range::LOCAL | range::SESSION | range::GLOBAL)) => Range::All,
            Some(Ok(range::NAMESPACE)) => Range::Namespace,
            Some(Ok(range::PROC_LOCAL)) => Range::Own,
            Some(Ok(range::CUSTOM)) => Range::These(named().ok_or(Status::ERR_BAD_PARAM)?),
            Some(Ok(range::RM)) => Range::Nobody,
            Some(_) => return Err(Status::ERR_BAD_PARAM),
        };
        // PMIX_PERSIST_INDEF, _FIRST_READ, _PROC, _APP, _SESSION.
        let persistence = match number(keys::PERSISTENCE)? {
            Some(0 | 4) => Persistence::Session,
            Some(1) => Persistence::FirstRead,
            Some(2) => Persistence::Process,
            None | Some(3) => Persistence::Job,
            Some(_) => return Err(Status::ERR_BAD_PARAM),
        };
        let is_beyond = match &range {
            Range::All => number(keys::RANGE)? == Some(u64::from(range::GLOBAL)),
            Range::These(these) => these.iter().any(|proc| proc.nspace.has_cluster()),
            _ => false,
        };
        Ok(Terms { range, persistence, is_beyond: is_beyond && persistence != Persistence::FirstRead })
    }

    /// Whether the processes of a partner find the values, too.
    pub fn is_beyond(&self) -> bool {
        self.is_beyond
    }

    /// The directives from which such terms were read.
    fn infos(&self) -> Vec<Info> {
        let persistence = match self.persistence {
            Persistence::Session => 4,
            Persistence::FirstRead => 1,
            Persistence::Process => 2,
            Persistence::Job => 3,
        };
        let (range, these) = match &self.range {
            Range::These(these) => (range::CUSTOM, &these[..]),
            _ => (range::GLOBAL, &[][..]),
        };
        let mut infos =
            vec![Info::new(keys::RANGE, Value::Uint8(range)), Info::new(keys::PERSISTENCE, Value::Uint8(persistence))];
        if !these.is_empty() {
            infos.push(Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs(these.iter().cloned())));
        }
        infos
    }
}

/// A lookup that waits for its keys.
pub(super) struct WaitingLookup {
    pub by: Proc,
    pub keys: Vec<Key>,
    /// A process of a partner may publish them.
    pub is_beyond: bool,
    pub deadline: Option<Instant>,
    pub done: Lookup,
}

/// A published value.
struct Item {
    publisher: Proc,
    value: Value,
    terms: Terms,
    bytes: usize,
}

impl Item {
    fn is_found_by(&self, process: &Proc) -> bool {
        match &self.terms.range {
            Range::All => true,
            Range::Namespace => self.publisher.nspace == process.nspace,
            Range::Own => self.publisher == *process,
            Range::These(these) => these.iter().any(|named| named.covers(process)),
            Range::Nobody => false,
        }
    }

    /// Whether it is in the range in which `publisher` publishes on these terms. Of values in different ranges a process finds the one in
    /// the narrowest.
    fn collides(&self, publisher: &Proc, terms: &Terms) -> bool {
        match (&self.terms.range, &terms.range) {
            (Range::Namespace, Range::Namespace) => self.publisher.nspace == publisher.nspace,
            (Range::Own, Range::Own) => self.publisher == *publisher,
            (Range::These(one), Range::These(other)) => one == other,
            (one, other) => one == other,
        }
    }
}

/// The amount that a process has published.
#[derive(Default)]
struct Share {
    values: usize,
    bytes: usize,
}

/// Published values, and lookups that wait for keys not published yet.
#[derive(Default)]
pub(super) struct Published {
    values: HashMap<Key, Vec<Item>>,
    shares: BTreeMap<Proc, Share>,
    /// The bytes of all shares.
    bytes: usize,
    waiting: Vec<WaitingLookup>,
}

impl Published {
    /// Adds values: all of them, or none.
    ///
    /// # Errors
    /// `ERR_DUPLICATE_KEY` for one that is published in the same range; `ERR_OUT_OF_RESOURCE` if the process, or all
    /// of them together, would exceed their limits.
    pub fn add<'a>(
        &mut self,
        publisher: &Proc,
        values: impl Iterator<Item = (&'a Key, &'a Value)> + Clone,
        terms: &Terms,
    ) -> Result<()> {
        let mut names = HashSet::new();
        let is_there =
            |key: &Key| self.values.get(key).is_some_and(|all| all.iter().any(|item| item.collides(publisher, terms)));
        if values.clone().any(|(key, _)| is_there(key) || !names.insert(key)) {
            return Err(Status::ERR_DUPLICATE_KEY);
        }
        let share = self.shares.entry(publisher.clone()).or_default();
        let (mut items, mut bytes_all) = (Vec::new(), share.bytes);
        for (key, value) in values {
            // Store a copy: the received value may keep the memory of the whole message.
            let packed = pack_stored(value)?;
            // Each value counts its finders, although values of one publication share them: a process may publish one by one.
            let bytes = key.as_bytes().len() + packed.len() + terms.range.bytes();
            bytes_all += bytes;
            let of_all = self.bytes - share.bytes + bytes_all;
            if share.values + items.len() >= VALUES_MAX || bytes_all > BYTES_MAX || of_all > BYTES_ALL_MAX {
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
            let value = unpack_stored(value.data_type(), &packed)?;
            items.push((key, Item { publisher: publisher.clone(), value, terms: terms.clone(), bytes }));
        }
        for (key, item) in items {
            share.values += 1;
            share.bytes += item.bytes;
            self.bytes += item.bytes;
            self.values.entry(key.clone()).or_default().push(item);
        }
        Ok(())
    }

    /// Unpublishes values of a process: those of `keys`, or all if `keys` is empty.
    pub fn remove(&mut self, publisher: &Proc, keys: &[Key]) {
        self.take_out(|key, item| item.publisher == *publisher && (keys.is_empty() || keys.contains(key)));
    }

    /// A process has ended.
    pub fn process_ended(&mut self, process: &Proc) {
        // It waits for nothing any more. The server takes no answer for it.
        self.waiting.retain(|lookup| lookup.by != *process);
        self.take_out(|_, item| item.publisher == *process && item.terms.persistence == Persistence::Process);
    }

    /// All ranks of a job have ended.
    pub fn job_ended(&mut self, job: &Nspace) {
        self.take_out(|_, item| item.publisher.nspace == *job && item.terms.persistence == Persistence::Job);
    }

    /// The launcher of these jobs has ended, and with it what their processes have published.
    pub fn launcher_ended(&mut self, is_its: impl Fn(&Nspace) -> bool) {
        self.take_out(|_, item| is_its(&item.publisher.nspace));
    }

    /// The values that the processes of a partner find, too, with their terms, as their publishers have given them.
    pub fn for_partner(&self) -> impl Iterator<Item = (&Proc, Vec<Info>)> {
        let of_this_cluster = |item: &Item| item.terms.is_beyond && !item.publisher.nspace.has_cluster();
        let items = self.values.iter().flat_map(|(key, items)| items.iter().map(move |item| (key, item)));
        items.filter(move |(_, item)| of_this_cluster(item)).map(|(key, item)| {
            let mut infos = item.terms.infos();
            infos.push(Info::new(key.clone(), item.value.clone()));
            (&item.publisher, infos)
        })
    }

    /// Removes and returns the lookups for which a process of a partner might have published a value.
    pub fn take_waiting_beyond(&mut self) -> Vec<Lookup> {
        self.waiting.extract_if(.., |lookup| lookup.is_beyond).map(|lookup| lookup.done).collect()
    }

    fn take_out(&mut self, is_gone: impl Fn(&Key, &Item) -> bool) {
        let (shares, bytes) = (&mut self.shares, &mut self.bytes);
        self.values.retain(|key, items| {
            for item in items.extract_if(.., |item| is_gone(key, item)) {
                if let Some(share) = shares.get_mut(&item.publisher) {
                    share.values -= 1;
                    share.bytes -= item.bytes;
                    *bytes -= item.bytes;
                }
            }
            !items.is_empty()
        });
        shares.retain(|_, share| share.values > 0);
    }

    /// The value that a process finds under a key: that of the narrowest range comes first.
    fn found(&self, by: &Proc, key: &Key) -> Option<&Item> {
        let found = self.values.get(key)?.iter().filter(|item| item.is_found_by(by));
        found.min_by_key(|item| item.terms.range.width())
    }

    /// Whether a process finds all of `keys`.
    pub fn has_all(&self, by: &Proc, keys: &[Key]) -> bool {
        keys.iter().all(|key| self.found(by, key).is_some())
    }

    /// Nobody waits for a lookup any more.
    pub fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Adds a waiting lookup.
    pub fn wait(&mut self, lookup: WaitingLookup) {
        self.waiting.push(lookup);
    }

    /// The values that a process finds under `keys`; values for one reader are removed.
    pub fn read(&mut self, by: &Proc, keys: &[Key]) -> Vec<Pdata> {
        let mut data = Vec::new();
        for key in keys {
            let Some(item) = self.found(by, key) else { continue };
            let (publisher, terms) = (item.publisher.clone(), item.terms.clone());
            data.push(Pdata { proc: publisher.clone(), key: key.clone(), value: item.value.clone() });
            if terms.persistence == Persistence::FirstRead {
                self.take_out(|other, item| other == key && item.publisher == publisher && item.terms == terms);
            }
        }
        data
    }

    /// Lookups that can be answered now, with their answers.
    pub fn ready(&mut self) -> Vec<(Lookup, Vec<Pdata>)> {
        let mut ready = Vec::new();
        // One after the other: a lookup may take what another one waits for.
        for lookup in std::mem::take(&mut self.waiting) {
            if self.has_all(&lookup.by, &lookup.keys) {
                let data = self.read(&lookup.by, &lookup.keys);
                ready.push((lookup.done, data));
            } else {
                self.waiting.push(lookup);
            }
        }
        ready
    }

    /// Removes and returns the lookups whose time limit has passed; also returns the next time limit.
    pub fn expire(&mut self, now: Instant) -> (Vec<Lookup>, Option<Instant>) {
        let is_late = |lookup: &WaitingLookup| lookup.deadline.is_some_and(|deadline| deadline <= now);
        let (late, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting).into_iter().partition(is_late);
        self.waiting = waiting;
        let next = self.waiting.iter().filter_map(|lookup| lookup.deadline).min();
        (late.into_iter().map(|lookup| lookup.done).collect(), next)
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Nspace, Rank};

    use super::*;

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    fn add(published: &mut Published, rank: u32, key: &str, value: Value, once: bool) -> Result<()> {
        let persistence = if once { Persistence::FirstRead } else { Persistence::Job };
        let terms = Terms { persistence, ..Terms::default() };
        published.add(&proc(rank), [(&Key::new(key).unwrap(), &value)].into_iter(), &terms)
    }

    fn terms(range: u8, persistence: u64) -> Terms {
        let custom = Value::procs([proc(1)]);
        let infos = [
            Info::new(keys::RANGE, Value::Uint8(range)),
            Info::new(keys::PERSISTENCE, Value::Uint64(persistence)),
            Info::new(keys::EVENT_CUSTOM_RANGE, custom),
        ];
        Terms::read(&infos).unwrap()
    }

    #[test]
    fn a_value_is_found_in_its_range() {
        let other = Proc::new(Nspace::new("other").unwrap(), Rank(0));
        let key = Key::from("key");
        for (range, finders) in [
            (range::SESSION, [true, true, true]),
            (range::NAMESPACE, [true, true, false]),
            (range::PROC_LOCAL, [true, false, false]),
            (range::CUSTOM, [false, true, false]),
            (range::RM, [false, false, false]),
        ] {
            let mut published = Published::default();
            let value = Value::Int(i32::from(range));
            published.add(&proc(0), [(&key, &value)].into_iter(), &terms(range, 3)).unwrap();
            let found = [proc(0), proc(1), other.clone()].map(|by| published.has_all(&by, std::slice::from_ref(&key)));
            assert_eq!(found, finders, "range {range}");
            let again = |published: &mut Published, by: &Proc| {
                published.add(by, [(&key, &value)].into_iter(), &terms(range, 3))
            };
            assert_eq!(again(&mut published, &proc(0)), Err(Status::ERR_DUPLICATE_KEY));
            let is_own = matches!(range, range::NAMESPACE | range::PROC_LOCAL);
            assert_eq!(again(&mut published, &other).is_ok(), is_own, "range {range}");
        }
        assert_eq!(Terms::read(&[Info::new(keys::RANGE, Value::Uint8(99))]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(Terms::read(&[Info::new(keys::PERSISTENCE, Value::Uint8(99))]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(Terms::read(&[]), Ok(Terms::default()));
    }

    /// Those of the global range and those for its processes; with the terms that they had.
    #[test]
    fn a_partner_is_told_of_what_its_processes_find() {
        let mut published = Published::default();
        let of = |name: &str| Proc::new(Nspace::new(name).unwrap(), Rank(0));
        let custom = |named: Proc| {
            let infos = [
                Info::new(keys::RANGE, Value::Uint8(range::CUSTOM)),
                Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs([named])),
            ];
            Terms::read(&infos).unwrap()
        };
        let all = [
            ("global", terms(range::GLOBAL, 4), true),
            ("once", terms(range::GLOBAL, 1), false),
            ("session", terms(range::SESSION, 3), false),
            ("undefined", Terms::default(), false),
            ("theirs", custom(of("B:job")), true),
            ("ours", custom(proc(1)), false),
        ];
        for (key, terms, is_beyond) in &all {
            assert_eq!(terms.is_beyond(), *is_beyond, "{key}");
            published.add(&proc(0), [(&Key::from(*key), &Value::Int(1))].into_iter(), terms).unwrap();
        }
        published.add(&of("B:job"), [(&Key::from("back"), &Value::Int(1))].into_iter(), &all[0].1).unwrap();
        let told = |published: &Published| {
            let told = published.for_partner().map(|(publisher, infos)| {
                let key = values(&infos).map(|(key, _)| key.to_string()).collect::<String>();
                (key, publisher.clone(), Terms::read(&infos).unwrap())
            });
            let mut told: Vec<_> = told.collect();
            told.sort_by(|one, other| one.0.cmp(&other.0));
            told
        };
        let wanted = [("global", &all[0].1), ("theirs", &all[4].1)];
        assert_eq!(told(&published), wanted.map(|(key, terms)| (key.to_owned(), proc(0), terms.clone())));
        assert!(published.has_all(&proc(2), &[Key::from("back")]));
        published.launcher_ended(|nspace| nspace.as_bytes().starts_with(b"B:"));
        assert!(
            !published.has_all(&proc(2), &[Key::from("back")]) && published.has_all(&proc(2), &[Key::from("global")])
        );
        let wait = |is_beyond| WaitingLookup {
            by: proc(0),
            keys: vec![Key::from("never")],
            is_beyond,
            deadline: None,
            done: Completion::by_id(0),
        };
        published.wait(wait(true));
        published.wait(wait(false));
        assert_eq!((published.take_waiting_beyond().len(), published.waiting.len()), (1, 1));
    }

    #[test]
    fn all_processes_share_a_limit() {
        let mut published = Published { bytes: BYTES_ALL_MAX - 1000, ..Published::default() };
        assert_eq!(add(&mut published, 0, "small", Value::Int(1), false), Ok(()));
        let large = Value::string("x".repeat(2000));
        assert_eq!(add(&mut published, 1, "large", large.clone(), false), Err(Status::ERR_OUT_OF_RESOURCE));
        published.bytes -= 2000;
        assert_eq!(add(&mut published, 1, "large", large, false), Ok(()));
        published.remove(&proc(0), &[]);
        published.remove(&proc(1), &[]);
        assert_eq!(published.bytes, BYTES_ALL_MAX - 3000);
    }

    #[test]
    fn a_value_goes_with_its_process_its_job_or_its_reader() {
        let mut published = Published::default();
        let names = ["indefinite", "read", "process", "job", "session"].map(Key::from);
        for (persistence, name) in (0..).zip(&names) {
            let value = Value::Uint64(persistence);
            published.add(&proc(0), [(name, &value)].into_iter(), &terms(range::SESSION, persistence)).unwrap();
        }
        let count = |published: &Published| names.iter().filter(|key| published.found(&proc(1), key).is_some()).count();
        assert_eq!(published.read(&proc(1), &names[1..2]).len(), 1);
        assert_eq!(count(&published), 4, "the first lookup has taken one");
        published.process_ended(&proc(1));
        assert_eq!(count(&published), 4, "it was not the publisher");
        published.process_ended(&proc(0));
        assert_eq!(count(&published), 3);
        published.job_ended(&Nspace::new("other").unwrap());
        assert_eq!(count(&published), 3);
        published.job_ended(&proc(0).nspace);
        assert_eq!(count(&published), 2, "those of the session stay");
        assert_eq!(published.shares[&proc(0)].values, 2);
    }

    #[test]
    fn published_data_of_a_process_is_bounded() {
        let mut published = Published::default();
        let mebibyte = || Value::ByteObject(vec![7; 1 << 20].into());
        for number in 0..15 {
            assert_eq!(add(&mut published, 0, &format!("large-{number}"), mebibyte(), false), Ok(()));
        }
        assert_eq!(add(&mut published, 0, "large-15", mebibyte(), false), Err(Status::ERR_OUT_OF_RESOURCE));
        let (small, large) = (Value::Bool(true), mebibyte());
        let twice = [&small, &large].map(|value| (Key::from("twice"), value));
        let twice = published.add(&proc(0), twice.iter().map(|(key, value)| (key, *value)), &Terms::default());
        assert_eq!(twice, Err(Status::ERR_DUPLICATE_KEY));
        // Each process has a limit of its own; unpublished and consumed values free it.
        assert_eq!(add(&mut published, 1, "other", mebibyte(), false), Ok(()));
        published.remove(&proc(1), &[Key::from("large-0")]);
        assert_eq!(add(&mut published, 0, "large-15", mebibyte(), false), Err(Status::ERR_OUT_OF_RESOURCE));
        published.remove(&proc(0), &[Key::from("large-0")]);
        assert_eq!(add(&mut published, 0, "large-15", mebibyte(), true), Ok(()));
        assert_eq!(published.read(&proc(1), &[Key::from("large-15")]).len(), 1);
        assert_eq!(add(&mut published, 0, "large-16", mebibyte(), false), Ok(()));
        published.remove(&proc(0), &[]);
        for number in 0..VALUES_MAX {
            assert_eq!(add(&mut published, 0, &format!("small-{number}"), Value::Bool(true), false), Ok(()));
        }
        assert_eq!(add(&mut published, 0, "small", Value::Bool(true), false), Err(Status::ERR_OUT_OF_RESOURCE));
    }
}
