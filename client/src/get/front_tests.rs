//! Compares the fast path of a Get with the slow path: for generated directives, keys, ranks and types both must return
//! the same value in the same form, and send the server the same requests.

use std::cell::RefCell;
use std::ffi::CString;
use std::time::Instant;

use parking_lot::Mutex;
use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::{JobData, Node};
use pmix_dstore::model::{InfoFlags, Key, Kval, NSPACE_LEN_MAX, Nspace, keys};
use pmix_dstore::realm_resolution::Selector;
use pmix_dstore::segment::{Directory, ModexBuilder, NamespaceView, Publisher, SegmentKind, Target, build_job};
use pmix_wire::reply::GetReply;
use pmix_wire::{Reply, Request, Version};

use super::*;
use crate::local::Local;
use crate::overlay::Origin;
use crate::{Link, ReplyFn, Task};

#[expect(dead_code, reason = "other tests shuffle")]
#[path = "../../../tests/src/random.rs"]
mod random;
use random::Random;

const DIALECT: Dialect = Dialect::plain(Module::V41);
const RANKS: u32 = 12;
const NODES: u32 = 3;

/// A server that answers equal requests equally, and records its requests.
#[derive(Default)]
struct Server {
    asked: Mutex<Vec<Request>>,
}

impl Server {
    fn answer(&self, payload: &[u8]) -> Result<Vec<u8>> {
        let request = Request::decode(DIALECT, Version::OURS, payload)?;
        let Request::Get { nspace, rank, key, .. } = &request else { return Err(Status::ERR_NOT_SUPPORTED) };
        // The same value for all ranks: a Get without a rank may find any of them.
        let hash = key.as_ref().map_or(0, |key| KeyRef::from(key).hash());
        let (told, value) = ((hash as u32 ^ rank.0) % 3 == 1, Value::Uint64(hash));
        let kvals = key.iter().map(|key| Kval { key: key.clone(), value: value.clone() }).collect();
        let reply = match told {
            true => GetReply { status: Status::SUCCESS, objects: vec![(Proc::new(nspace.clone(), *rank), kvals)] },
            false => GetReply { status: Status::ERR_NOT_FOUND, objects: Vec::new() },
        };
        self.asked.lock().push(request);
        reply.encode(DIALECT, Version::OURS)
    }
}

impl Link for Server {
    fn ready(&self) -> Result<()> {
        Ok(())
    }

    fn request(&self, payload: Vec<u8>, reply: ReplyFn) {
        reply(self.answer(&payload));
    }

    fn request_wait(&self, payload: GatherBuf, _deadline: Option<Instant>) -> Result<Vec<u8>> {
        self.answer(&payload.into_bytes()?)
    }

    fn send(&self, _payload: Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn defer(&self, task: Task) {
        task();
    }

    fn dialect(&self) -> Dialect {
        DIALECT
    }

    fn server_version(&self) -> Version {
        Version::OURS
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn close(&self) {}
}

/// Records the values that it receives.
#[derive(Default)]
struct Recorder(RefCell<Vec<(GetFlags, Value)>>);

impl Receiver for &Recorder {
    fn prepare(self, form: GetFlags) -> Result<()> {
        // Like a C caller that passes no storage.
        if form.static_values() && form.immediate() { Err(Status::ERR_BAD_PARAM) } else { Ok(()) }
    }

    fn take_plain(self, _client: &Client, value: FastValue<'_>, form: GetFlags) -> Option<Status> {
        let value = value.value()?.to_value().expect("memory");
        self.0.borrow_mut().push((form, value));
        Some(Status::SUCCESS)
    }

    fn take(self, _client: &Client, value: ValueRef<'_>, form: GetFlags) -> Result<()> {
        self.0.borrow_mut().push((form, value.to_value()?));
        Ok(())
    }
}

fn some_value(random: &mut Random) -> Value {
    let number = random.below(1000) as u32;
    let text = "x".repeat(random.below(40));
    match random.below(12) {
        0 => Value::Bool(number.is_multiple_of(2)),
        1 => Value::Uint16(number as u16),
        2 | 3 => Value::Uint32(number),
        4 => Value::Int64(-i64::from(number)),
        5 => Value::Rank(Rank(number)),
        6 | 7 => Value::string(text),
        8 => Value::String(None),
        9 => Value::ByteObject(text.into_bytes().into()),
        10 => Value::Proc(Proc::new(Nspace::new("other").unwrap(), Rank(number))),
        _ => Value::infos([Info::new("part", Value::Uint32(number))]),
    }
}

/// Keys that the host registers, with and without a standard realm.
const HOST_KEYS: [&str; 12] = [
    keys::JOB_SIZE,
    keys::UNIV_SIZE,
    keys::APP_SIZE,
    keys::LOCAL_SIZE,
    keys::LOCAL_PEERS,
    keys::LOCAL_RANK,
    keys::NODE_SIZE,
    keys::TMPDIR,
    keys::NSDIR,
    "pmix.made.up",
    "colour",
    "shape",
];
const PUT_KEYS: [&str; 5] = ["put.a", "put.b", "put.c", "colour", keys::GROUP_LOCAL_CID];
const OTHER_KEYS: [&str; 9] = [
    keys::RANK,
    keys::PROCID,
    keys::SERVER_URI,
    keys::SERVER_NSPACE,
    keys::HOSTNAME,
    keys::NODEID,
    keys::TOPOLOGY2,
    keys::CREDENTIAL,
    "nobody.has.it",
];

fn some_job(random: &mut Random) -> JobData {
    let mut job = JobData::new(Nspace::new("job").unwrap());
    for key in HOST_KEYS {
        if random.one_in(3) {
            job.session.insert(key.into(), some_value(random));
        }
        if random.one_in(2) {
            job.job.insert(key.into(), some_value(random));
        }
        for appnum in [0, 1] {
            if random.one_in(3) {
                job.apps.entry(appnum).or_default().insert(key.into(), some_value(random));
            }
        }
    }
    for nodeid in 0..NODES {
        let hostname = format!("node{nodeid}").into_bytes();
        let aliases = vec![format!("alias{nodeid}").into_bytes()].into_iter().collect();
        let mut values: pmix_dstore::job::Values = [(keys::HOSTNAME.into(), Value::string(&hostname))].into();
        for key in HOST_KEYS {
            if random.one_in(2) {
                values.insert(key.into(), some_value(random));
            }
        }
        job.nodes.push(Node { nodeid: Some(nodeid), hostname, aliases, values, ..Node::default() });
    }
    for rank in 0..RANKS {
        let mut set = |key: &'static str, value| job.procs.set(Rank(rank), key.into(), value).unwrap();
        set(keys::NODEID, Value::Uint32(rank % NODES));
        set(keys::HOSTNAME, Value::string(format!("node{}", rank % NODES)));
        set(keys::APPNUM, Value::Uint32(rank % 2));
        for key in HOST_KEYS {
            if random.one_in(3) {
                set(key, some_value(random));
            }
        }
    }
    job
}

fn some_directive(random: &mut Random) -> Info {
    let flag = [
        keys::OPTIONAL,
        keys::OPTIONAL,
        keys::IMMEDIATE,
        keys::GET_POINTER_VALUES,
        keys::GET_STATIC_VALUES,
        keys::NODE_INFO,
        keys::APP_INFO,
        keys::JOB_INFO,
        keys::SESSION_INFO,
        keys::GET_REFRESH_CACHE,
    ];
    let number = Value::Uint32(random.below(4) as u32);
    let (key, value) = match random.below(16) {
        0..8 => (*random.pick(&flag), Value::Bool(!random.one_in(4))),
        8 => (*random.pick(&flag), some_value(random)),
        9 => (*random.pick(&[keys::NODEID, keys::APPNUM]), number),
        10 => (*random.pick(&[keys::NODEID, keys::APPNUM, keys::SESSION_ID]), some_value(random)),
        11 => (keys::HOSTNAME, Value::string(*random.pick(&["node0", "node1", "alias2", "nobody", ""]))),
        12 => (keys::HOSTNAME, some_value(random)),
        13 => (keys::TIMEOUT, Value::Int(random.below(3) as i32)),
        14 => (*random.pick(&[keys::DATA_SCOPE, keys::SESSION_ID]), number),
        _ => (*random.pick(&["unknown", "pmix.unknown"]), some_value(random)),
    };
    let flags = [0, 0, 0, InfoFlags::REQUIRED, InfoFlags::QUALIFIER];
    Info { flags: *random.pick(&flags), ..Info::new(key, value) }
}

/// Where the client's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    Segments,
    Retired,
    Heap,
}

/// A client of rank 1, and its server.
fn client(publisher: Option<&Publisher>, heap: Option<JobData>) -> (Client, Arc<Server>) {
    let me = Proc::new(Nspace::new("job").unwrap(), Rank(1));
    let server = Arc::new(Server::default());
    let attach = |from: &Publisher| {
        NamespaceView::attach(Directory::open(from.directory(), from.directory_id()).unwrap()).unwrap()
    };
    let view = publisher.map(attach);
    let local = Local::new(me.clone(), b"node1".to_vec(), view, heap);
    (Client::for_tests(me, Arc::clone(&server) as Arc<dyn Link>, local), server)
}

/// The arguments of a Get, to run it several times.
struct Asked {
    nspace: usize,
    rank: Rank,
    key: Option<&'static str>,
    directives: Vec<Info>,
}

fn buffer(name: &str) -> [u8; NSPACE_LEN_MAX + 1] {
    let mut buffer = [0xee; NSPACE_LEN_MAX + 1];
    buffer[..name.len()].copy_from_slice(name.as_bytes());
    buffer[name.len()] = 0;
    buffer
}

impl Asked {
    fn some(random: &mut Random) -> Asked {
        let rank = match random.below(8) {
            0 => Rank::WILDCARD,
            1 => *random.pick(&[Rank::UNDEF, Rank::INVALID, Rank::LOCAL_NODE, Rank(RANKS), Rank(1 << 20)]),
            2 => Rank(1),
            _ => Rank(random.below(RANKS as usize) as u32),
        };
        let key = match random.below(20) {
            0 => None,
            1..5 => Some(*random.pick(&OTHER_KEYS)),
            5..11 => Some(*random.pick(&PUT_KEYS)),
            _ => Some(*random.pick(&HOST_KEYS)),
        };
        let mut directives: Vec<_> = (0..random.below(5)).map(|_| some_directive(random)).collect();
        if random.one_in(5) {
            // Values of an application on a node.
            directives.push(Info::new(keys::APP_INFO, Value::Bool(true)));
            directives.push(Info::new(keys::NODEID, Value::Uint32(random.below(4) as u32)));
        }
        Asked { nspace: random.below(12), rank, key, directives }
    }

    /// The client's result, and the requests that its server got meanwhile.
    fn of(&self, (client, server): &(Client, Arc<Server>), how: How) -> (Status, Vec<(GetFlags, Value)>, Vec<Request>) {
        let (own, other) = (buffer("job"), buffer("other"));
        let nspace = match self.nspace {
            0 => NspaceRef::Name(b"other"),
            1 => NspaceRef::Buffer(&other),
            2 => NspaceRef::Name(b""),
            3 => NspaceRef::Own,
            4 => NspaceRef::Name(b"job"),
            _ => NspaceRef::Buffer(&own),
        };
        let key = self.key.map(str::as_bytes);
        let request = GetRequest { nspace, rank: self.rank, key, directives: &self.directives };
        let recorder = Recorder::default();
        let status = match how {
            How::Slowly => client.get_slowly(&request, &recorder),
            How::Fast => client.get_into(None, &request, &recorder),
            How::Pinned => client.get_into(Some(&PinToken::for_tests()), &request, &recorder),
        };
        (status, recorder.0.take(), std::mem::take(&mut server.asked.lock()))
    }
}

#[derive(Clone, Copy, Debug)]
enum How {
    Slowly,
    Fast,
    Pinned,
}

/// Runs a number of Gets on both paths, with data that the seed determines.
fn compare(seed: u64, data: Data, gets: usize) -> usize {
    let mut random = Random::new(seed);
    let job = some_job(&mut random);
    let temporary = tempfile::tempdir().unwrap();
    let mut publisher = Publisher::create(temporary.path(), &job.nspace, None).unwrap();
    publisher.publish(SegmentKind::Job, &build_job(&job, "test").unwrap()[..]).unwrap();
    for _ in 0..2 {
        let values: Vec<_> = (0..RANKS)
            .flat_map(|rank| PUT_KEYS.map(|key| (Rank(rank), Key::from(key))))
            .filter_map(|(rank, key)| random.one_in(2).then(|| (rank, key, some_value(&mut random))))
            .collect();
        let mut builder = ModexBuilder::new(job.nspace.clone());
        values.iter().for_each(|(rank, key, value)| builder.add(*rank, key, value).unwrap());
        publisher.publish(SegmentKind::Modex, &builder.finish("test").unwrap()).unwrap();
    }
    let ways = [How::Slowly, How::Fast, How::Pinned];
    let clients = ways.map(|_| match data {
        Data::Heap => client(None, Some(some_job(&mut Random::new(seed)))),
        _ => client(Some(&publisher), None),
    });
    if data == Data::Retired {
        publisher.retire();
    }
    let mut found = 0;
    for number in 0..gets {
        if random.one_in(20) {
            let (rank, key) = (Rank(random.below(4) as u32), *random.pick(&PUT_KEYS));
            let value = Arc::new(some_value(&mut random));
            for (client, _) in &clients {
                let overlay = &client.inner.local.overlay;
                overlay.set(&job.nspace, rank, key.into(), Arc::clone(&value), Origin::Own).unwrap();
            }
        }
        let asked = Asked::some(&mut random);
        let Asked { nspace, rank, key, directives } = &asked;
        let slow = asked.of(&clients[0], ways[0]);
        for (client, how) in clients.iter().zip(ways).skip(1) {
            let said = asked.of(client, how);
            assert_eq!(
                said, slow,
                "seed {seed} {data:?}, Get {number} {how:?} (left) and by the slow path (right): \
                 namespace {nspace} rank {rank} {key:?} {directives:?}"
            );
        }
        found += usize::from(slow.0.is_success());
    }
    found
}

#[test]
fn the_fast_front_answers_as_the_slow_path() {
    let seeds = if std::env::var_os("PMIX_TEST_LARGE").is_some() { 0..2000 } else { 0..24 };
    for seed in seeds {
        let data = [Data::Segments, Data::Segments, Data::Retired, Data::Heap][seed as usize % 4];
        let found = compare(seed, data, 2000);
        assert!((200..1900).contains(&found), "seed {seed} {data:?}: {found} of 2000 Gets found a value");
    }
}

#[test]
fn the_parser_goes_on_where_the_front_stops() {
    let mut random = Random::new(1);
    let text = |options: Result<GetOptions<'_>>| format!("{options:?}");
    for _ in 0..100_000 {
        let directives: Vec<_> = (0..random.below(6)).map(|_| some_directive(&mut random)).collect();
        let whole = GetOptions::default().resume(&directives);
        assert_eq!(text(GetOptions::of(&directives)), text(whole), "{directives:?}");
        let (flags, rest) = GetFlags::leading(&directives);
        let (fast, options) = (get_options::instance(flags, rest), GetOptions::of(&directives).unwrap());
        if let Ok((flags, of)) = fast {
            let Selector { session, job, session_id, appnum, nodeid, hostname, .. } = options.selector;
            assert!(flags == options.flags && !session && !job && session_id.is_none(), "{directives:?}");
            let is_named = match of {
                Target::NodeId(id) => nodeid == Some(id),
                Target::NodeName(name) => hostname == Some(name) && nodeid.is_none(),
                Target::App(number) => appnum == Some(number) && nodeid.is_none() && hostname.is_none(),
                Target::Job => false,
            };
            assert!(is_named, "{of:?} {directives:?}");
        }
    }
}

#[test]
fn a_name_ends_at_its_nul() {
    let name = |nspace: NspaceRef<'_>| nspace.name().map(|name| name.map(|name| CString::new(name).unwrap()));
    assert_eq!(name(NspaceRef::Buffer(&buffer("job"))), Ok(Some(c"job".into())));
    assert_eq!((name(NspaceRef::Buffer(&buffer(""))), name(NspaceRef::Own)), (Ok(None), Ok(None)));
    assert_eq!(name(NspaceRef::Buffer(&[b'x'; NSPACE_LEN_MAX + 1])), Err(Status::ERR_BAD_PARAM));
}
