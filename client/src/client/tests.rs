//! A client against a scripted server: its requests, its cache, and its handling of answers.

use std::collections::VecDeque;
use std::ffi::CString;
use std::thread;

use crossbeam::channel::{Receiver, Sender, unbounded};
use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::{JobData, Node};
use pmix_dstore::model::{DataType, InfoFlags, Kval, Nspace, Query};

use super::*;
use crate::{EventHandler, GetRequest, InfoReply, NspaceRef, ReplyFn, Returned, Task};
use pmix_wire::Version;
use pmix_wire::reply::{ConnectReply, GetReply, InfosReply, IoPullReply, LookupReply, NodesReply, PeersReply};

const DIALECT: Dialect = Dialect::plain(Module::V41);
const VERSION: Version = Version::OURS;

/// A server with prepared answers, which records the requests.
struct Script {
    version: Version,
    answers: Mutex<VecDeque<Result<Vec<u8>>>>,
    asked: Mutex<Vec<Request>>,
    is_lost: Mutex<bool>,
    /// Whether callbacks can run.
    readiness: Mutex<Result<()>>,
    is_ours: bool,
    /// Whether first commits are not answered, and the refusal of one.
    first_commits: Mutex<Option<Option<Status>>>,
    /// Runs before a request is answered.
    meanwhile: Mutex<Option<Meanwhile>>,
    callbacks: Sender<Task>,
}

type Meanwhile = Box<dyn FnMut(&Request) + Send>;

impl Script {
    fn take(&self, payload: &[u8]) -> Result<Vec<u8>> {
        let request = Request::decode(DIALECT, self.version, payload).unwrap();
        if let Some(meanwhile) = &mut *self.meanwhile.lock() {
            meanwhile(&request);
        }
        self.asked.lock().push(request);
        self.answers.lock().pop_front().expect("an answer is ready")
    }
}

impl Link for Script {
    fn ready(&self) -> Result<()> {
        *self.readiness.lock()
    }

    fn request(&self, payload: Vec<u8>, reply: ReplyFn) {
        let answer = self.take(&payload);
        self.callbacks.send(Box::new(move || reply(answer))).unwrap();
    }

    fn request_wait(&self, payload: GatherBuf, _deadline: Option<Instant>) -> Result<Vec<u8>> {
        self.take(&payload.into_bytes()?)
    }

    fn send(&self, payload: Vec<u8>) -> Result<()> {
        self.asked.lock().push(Request::decode(DIALECT, self.version, &payload).unwrap());
        if *self.is_lost.lock() { Err(Status::ERR_LOST_CONNECTION) } else { Ok(()) }
    }

    fn defer(&self, task: Task) {
        self.callbacks.send(task).unwrap();
    }

    fn after(&self, returned: Returned, task: Task) {
        // The test waits for callbacks while a call runs, so this must not block.
        let callbacks = self.callbacks.clone();
        thread::spawn(move || {
            returned.wait();
            // Ignore the error: the receiver may be gone.
            let _ = callbacks.send(task);
        });
    }

    fn dialect(&self) -> Dialect {
        DIALECT
    }

    fn server_version(&self) -> Version {
        self.version
    }

    fn is_ours(&self) -> bool {
        self.is_ours
    }

    fn first_commit(&self) -> Option<&dyn FirstCommit> {
        self.first_commits.lock().is_some().then_some(self)
    }

    fn close(&self) {}
}

impl FirstCommit for Script {
    fn send(&self, payload: GatherBuf) -> Result<()> {
        Link::send(self, payload.into_bytes()?)
    }

    fn take_refusal(&self) -> Option<Result<Vec<u8>>> {
        let status = self.first_commits.lock().as_mut()?.take()?;
        Some(StatusReply { status }.encode(DIALECT, self.version))
    }
}

/// Values of a rank of a namespace, as a server sends them.
type Object<'a> = (&'a str, Rank, &'a [(&'a str, Value)]);

pub(crate) struct Stage {
    pub(crate) client: Client,
    script: Arc<Script>,
}

pub(crate) fn nspace(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

/// A rank of a job of four on two nodes, without shared memory, with a stock server.
pub(crate) fn stage() -> Stage {
    stage_under(VERSION, false)
}

pub(crate) fn stage_under(version: Version, is_our_server: bool) -> Stage {
    stage_that_maps(version, is_our_server, false)
}

/// As [`stage_under`]; with `maps_other_jobs` as a tool.
pub(crate) fn stage_that_maps(version: Version, is_our_server: bool, maps_other_jobs: bool) -> Stage {
    let (callbacks, tasks) = unbounded::<Task>();
    thread::spawn(move || tasks.into_iter().for_each(|task| task()));
    let script = Arc::new(Script {
        version,
        answers: Mutex::default(),
        asked: Mutex::default(),
        is_lost: Mutex::default(),
        readiness: Mutex::new(Ok(())),
        is_ours: is_our_server,
        first_commits: Mutex::default(),
        meanwhile: Mutex::default(),
        callbacks,
    });
    let mut job = JobData::new(nspace("job"));
    job.job.insert(keys::JOB_SIZE.into(), Value::Uint32(4));
    for (name, list) in [("n0", "0,1"), ("n1", "2,3")] {
        let values = [(keys::LOCAL_PEERS.into(), Value::string(list)), (keys::HOSTNAME.into(), Value::string(name))];
        job.nodes.push(Node { hostname: name.into(), values: values.into(), ..Node::default() });
    }
    for rank in 0..4 {
        let name = if rank < 2 { "n0" } else { "n1" };
        job.procs.set(Rank(rank), keys::HOSTNAME.into(), Value::string(name)).unwrap();
        job.procs.set(Rank(rank), keys::LOCAL_RANK.into(), Value::Uint16(rank as u16 % 2)).unwrap();
        job.procs.set(Rank(rank), "host.key".into(), Value::Uint32(rank)).unwrap();
    }
    let me = Proc::new(nspace("job"), Rank(1));
    let local = Local::new(me.clone(), b"n0".to_vec(), None, Some(job)).with_other_jobs(maps_other_jobs);
    let link: Arc<dyn Link> = Arc::clone(&script) as Arc<dyn Link>;
    Stage { client: Client::new(me, ClientKind::Launched, link, is_our_server, local), script }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The closure may hold the client, which holds the script: break the cycle.
        *self.script.meanwhile.lock() = None;
    }
}

impl Stage {
    pub(crate) fn answers<Y: Reply>(&self, reply: Y) {
        self.script.answers.lock().push_back(Ok(reply.encode(DIALECT, self.script.version).unwrap()));
    }

    pub(crate) fn script_answers(&self, answer: Result<Vec<u8>>) {
        self.script.answers.lock().push_back(answer);
    }

    pub(crate) fn answers_status(&self, status: Status) {
        self.answers(StatusReply { status });
    }

    pub(crate) fn answers_values(&self, objects: &[Object<'_>]) {
        let objects = objects.iter().map(|(name, rank, values)| {
            let kvals = values.iter().map(|(key, value)| Kval { key: Key::new(key).unwrap(), value: value.clone() });
            (Proc::new(nspace(name), *rank), kvals.collect())
        });
        self.answers(GetReply { status: Status::SUCCESS, objects: objects.collect() });
    }

    pub(crate) fn meanwhile(&self, run: impl FnMut(&Request) + Send + 'static) {
        *self.script.meanwhile.lock() = Some(Box::new(run));
    }

    /// Registers a handler for an event. Returns a receiver of its calls. The handler returns `status`.
    pub(crate) fn reports(&self, code: Status, status: Status) -> Receiver<(&'static str, Event)> {
        let (sender, calls) = unbounded();
        self.answers_status(Status::SUCCESS);
        let handler = reporter("reports", status, &sender);
        self.client.register_event_handler(vec![code], Vec::new(), handler).wait().unwrap();
        calls
    }

    pub(crate) fn asked(&self) -> Vec<Request> {
        std::mem::take(&mut self.script.asked.lock())
    }

    pub(crate) fn get_of(&self, name: Option<&str>, rank: Rank, key: Option<&str>, infos: &[Info]) -> Result<Value> {
        let nspace = name.map_or(NspaceRef::Own, |name| NspaceRef::Name(name.as_bytes()));
        let request = GetRequest { nspace, rank, key: key.map(str::as_bytes), directives: infos };
        self.client.get(&request, |value| value.to_value())?
    }

    fn get(&self, rank: u32, key: &str) -> Result<Value> {
        self.get_of(None, Rank(rank), Some(key), &[])
    }
}

pub(crate) fn flag(key: &'static str) -> Info {
    Info::new(key, Value::Bool(true))
}

#[test]
fn own_job_data_is_read_without_the_server() {
    let stage = stage();
    assert_eq!(stage.get_of(None, Rank::WILDCARD, Some(keys::JOB_SIZE), &[]), Ok(Value::Uint32(4)));
    assert_eq!(stage.get(2, keys::JOB_SIZE), Ok(Value::Uint32(4)), "a job-level key with a rank");
    assert_eq!(stage.get(3, keys::HOSTNAME), Ok(Value::string("n1")));
    assert_eq!(stage.get_of(None, Rank::WILDCARD, Some(keys::LOCAL_PEERS), &[]), Ok(Value::string("0,1")));
    let elsewhere = [flag(keys::NODE_INFO), Info::new(keys::HOSTNAME, Value::string("n1"))];
    assert_eq!(stage.get_of(None, Rank::WILDCARD, Some(keys::LOCAL_PEERS), &elsewhere), Ok(Value::string("2,3")));
    assert_eq!(stage.get(3, "host.key"), Ok(Value::Uint32(3)), "a key of the host's own");
    assert_eq!(stage.get_of(None, Rank::UNDEF, Some(keys::LOCAL_RANK), &[]), Ok(Value::Uint16(1)), "the caller's own");
    assert_eq!(stage.get_of(Some("job"), Rank(0), Some(keys::LOCAL_RANK), &[]), Ok(Value::Uint16(0)));
    assert_eq!(stage.asked(), []);
}

#[test]
fn a_process_answers_for_itself_and_its_server() {
    let stage = stage();
    let me = Proc::new(nspace("job"), Rank(1));
    let optional = [flag(keys::OPTIONAL)];
    for infos in [&[][..], &optional] {
        assert_eq!(stage.get_of(None, Rank::UNDEF, Some(keys::PROCID), infos), Ok(Value::Proc(me.clone())));
        for rank in [Rank::INVALID, Rank::UNDEF] {
            assert_eq!(stage.get_of(Some("job"), rank, Some(keys::RANK), infos), Ok(Value::Rank(Rank(1))));
        }
    }
    let uri = "server.0;tcp4://127.0.0.1:4711";
    stage.client.inner.server_uri.set(uri.into()).unwrap();
    for rank in [Rank(1), Rank::UNDEF] {
        for infos in [&[][..], &optional] {
            let get = |key: &str| stage.get_of(None, rank, Some(key), infos);
            assert_eq!(get(keys::SERVER_URI), Ok(Value::string(uri)));
            assert_eq!(get(keys::SERVER_NSPACE), Ok(Value::string("server")));
            assert_eq!(get(keys::SERVER_RANK), Ok(Value::Rank(Rank(0))));
        }
    }
    assert_eq!(stage.asked(), []);
    // Only the server could know these values of other processes.
    let not_found = Err(Status::ERR_NOT_FOUND);
    for key in [keys::SERVER_URI, keys::SERVER_NSPACE, keys::SERVER_RANK] {
        assert_eq!(stage.get_of(None, Rank(2), Some(key), &optional), not_found);
    }
    assert_eq!(stage.get_of(Some("other"), Rank::UNDEF, Some(keys::PROCID), &optional), not_found);
    assert_eq!(stage.get_of(None, Rank(1), Some(keys::MYSERVER_URI), &optional), not_found, "only a server listens");
}

#[test]
fn misses_that_need_no_request() {
    let stage = stage();
    let not_found = Err(Status::ERR_NOT_FOUND);
    assert_eq!(stage.get_of(None, Rank(0), Some("key"), &[flag(keys::OPTIONAL)]), not_found);
    assert_eq!(stage.get_of(None, Rank(0), Some("pmix.nothing"), &[flag(keys::OPTIONAL)]), not_found);
    assert_eq!(stage.get_of(None, Rank(0), Some("pmix.nothing"), &[flag(keys::IMMEDIATE)]), not_found);
    assert_eq!(stage.get_of(None, Rank(0), Some(&"x".repeat(512)), &[]), Err(Status::ERR_BAD_PARAM));
    assert_eq!(stage.asked(), []);
}

#[test]
fn one_request_caches_all_values_of_a_rank_until_the_next_fence() {
    let stage = stage();
    let values = [("one", Value::Int(1)), ("two", Value::string("2"))];
    stage.answers_values(&[("job", Rank(2), &values)]);
    let timeout = Info::new(keys::TIMEOUT, Value::Int(5));
    assert_eq!(stage.get_of(None, Rank(2), Some("one"), std::slice::from_ref(&timeout)), Ok(Value::Int(1)));
    let asked = Request::Get { nspace: nspace("job"), rank: Rank(2), infos: vec![timeout], key: Some("one".into()) };
    assert_eq!(stage.asked(), [asked]);
    assert_eq!(stage.get(2, "two"), Ok(Value::string("2")));
    assert_eq!(stage.get_of(None, Rank::UNDEF, Some("two"), &[]), Ok(Value::string("2")));
    assert_eq!(stage.asked(), []);

    stage.answers(FenceReply { status: Status::SUCCESS, segment_count: None });
    stage.client.fence(&[], vec![flag(keys::COLLECT_DATA)]).wait().unwrap();
    let everybody = vec![Proc::new(nspace("job"), Rank::WILDCARD)];
    assert_eq!(stage.asked(), [Request::Fence { procs: everybody, infos: vec![flag(keys::COLLECT_DATA)] }]);
    stage.answers_values(&[("job", Rank(2), &[("two", Value::string("3"))])]);
    assert_eq!(stage.get(2, "two"), Ok(Value::string("3")));
}

#[test]
fn a_key_that_the_reply_does_not_hold_is_not_found() {
    let stage = stage();
    stage.answers_values(&[("job", Rank(2), &[("other", Value::Int(1))])]);
    assert_eq!(stage.get(2, "key"), Err(Status::ERR_NOT_FOUND));
    stage.answers_values(&[]);
    assert_eq!(stage.get(2, "key"), Err(Status::ERR_NOT_FOUND));
    stage.answers_status(Status::ERR_TIMEOUT);
    assert_eq!(stage.get(2, "key"), Err(Status::ERR_TIMEOUT));
    stage.script.answers.lock().push_back(Err(Status::ERR_LOST_CONNECTION));
    assert_eq!(stage.get(2, "key"), Err(Status::ERR_LOST_CONNECTION));
    stage.script.answers.lock().push_back(Ok(vec![0xff; 3]));
    assert!(stage.get(2, "key").is_err());
    assert_eq!(stage.asked().len(), 5);
}

#[test]
fn the_server_need_not_wait_for_reserved_keys_of_the_own_job() {
    let stage = stage();
    stage.answers_values(&[("job", Rank::WILDCARD, &[("pmix.late", Value::Int(1))])]);
    assert_eq!(stage.get_of(None, Rank::WILDCARD, Some("pmix.late"), &[]), Ok(Value::Int(1)));
    let Request::Get { infos, .. } = &stage.asked()[0] else { panic!("a Get") };
    assert_eq!(infos, &[flag(keys::IMMEDIATE)]);
    assert_eq!(stage.get_of(None, Rank::WILDCARD, Some("pmix.late"), &[]), Ok(Value::Int(1)));
    assert_eq!(stage.asked(), []);
}

#[test]
fn another_jobs_data_is_requested_once() {
    let stage = stage();
    let job = [(keys::JOB_SIZE, Value::Uint32(9))];
    stage.answers_values(&[("other", Rank::WILDCARD, &job), ("other", Rank(0), &[("key", Value::Int(1))])]);
    assert_eq!(stage.get_of(Some("other"), Rank(0), Some("key"), &[]), Ok(Value::Int(1)));
    assert_eq!(stage.asked().len(), 1);
    assert_eq!(stage.get_of(Some("other"), Rank::WILDCARD, Some(keys::JOB_SIZE), &[]), Ok(Value::Uint32(9)));
    assert_eq!(stage.get_of(Some("other"), Rank(3), Some(keys::JOB_SIZE), &[]), Ok(Value::Uint32(9)));
    assert_eq!(stage.asked(), []);
    // Values that the host registered for a process precede the job's data.
    let host = [(keys::HOSTNAME, Value::string("n7"))];
    let job = [(keys::JOB_SIZE, Value::Uint32(4)), (keys::HOSTNAME, Value::string("n0"))];
    stage.answers_values(&[("third", Rank(2), &host), ("third", Rank::WILDCARD, &job)]);
    assert_eq!(stage.get_of(Some("third"), Rank(2), Some(keys::HOSTNAME), &[]), Ok(Value::string("n7")));
    assert_eq!(stage.asked().len(), 1);
    let optional = [flag(keys::OPTIONAL)];
    assert_eq!(stage.get_of(Some("third"), Rank::WILDCARD, Some(keys::JOB_SIZE), &optional), Ok(Value::Uint32(4)));
    assert_eq!(stage.asked(), []);
}

#[test]
fn one_value_of_another_job_is_not_the_whole_job() {
    let stage = stage();
    let other = nspace("other");
    stage.answers_values(&[("other", Rank::WILDCARD, &[(keys::JOB_SIZE, Value::Uint32(2))])]);
    assert_eq!(stage.get_of(Some("other"), Rank::WILDCARD, Some(keys::JOB_SIZE), &[]), Ok(Value::Uint32(2)));
    stage.answers_values(&[("other", Rank::WILDCARD, &[(keys::NODE_LIST, Value::string("n7,n8"))])]);
    assert_eq!(stage.client.resolve_nodes(Some(&other)), Ok(Some(b"n7,n8".to_vec())));
    stage.answers_values(&[("other", Rank::UNDEF, &[(keys::LOCAL_PEERS, Value::string("0,1"))])]);
    let peers = stage.client.resolve_peers(Some(b"n7"), Some(&other)).unwrap();
    assert_eq!(peers, [0, 1].map(|rank| Proc::new(other.clone(), Rank(rank))));
    // The requests: the job's peers, its nodes, and whether the server knows the job at all.
    (0..3).for_each(|_| stage.answers_status(Status::ERR_NOT_FOUND));
    let unknown = nspace("unknown");
    assert_eq!(stage.client.resolve_peers(None, Some(&unknown)), Err(Status::ERR_INVALID_NAMESPACE));
    assert_eq!(stage.asked().len(), 6);
    assert_eq!(stage.client.resolve_nodes(None), Ok(Some(b"n0,n1".to_vec())));
    assert_eq!(stage.client.resolve_peers(None, None).unwrap().len(), 2);
    assert_eq!(stage.asked(), []);
}

#[test]
fn requests_to_resolve_depend_on_the_servers_release() {
    let other = nspace("other");
    for (version, peers, nodes) in [("5.0.11", false, false), ("6.1.0", true, false), ("7.0.0", true, true)] {
        let stage = stage_under(Version::parse(version).unwrap(), false);
        // If a server does not resolve peers, the client sends further requests: the server may know the job's nodes,
        // or the job.
        let count = [(false, false, 5), (true, false, 3), (true, true, 2)];
        let count = count.into_iter().find(|case| (case.0, case.1) == (peers, nodes)).map_or(0, |case| case.2);
        (0..count).for_each(|_| stage.answers_status(Status::ERR_NOT_FOUND));
        let found = stage.client.resolve_peers(Some(b"n7"), Some(&other)).is_ok();
        assert!(!found && stage.client.resolve_nodes(Some(&other)).is_err(), "{version}");
        let asked = stage.asked();
        assert_eq!(matches!(asked[0], Request::ResolvePeers { .. }), peers, "{version}");
        assert_eq!(matches!(asked[count - 1], Request::ResolveNodes { .. }), nodes, "{version}");
        assert_eq!(asked.len(), count, "{version}");
    }
}

#[test]
fn our_server_resolves_whichever_release_it_announces() {
    let other = nspace("other");
    let stage = stage_under(VERSION, true);
    let procs = vec![Proc::new(other.clone(), Rank(5))];
    stage.answers(PeersReply { status: Status::SUCCESS, procs: Some(procs.clone()) });
    assert_eq!(stage.client.resolve_peers(Some(b"n7"), Some(&other)), Ok(procs));
    stage.answers(NodesReply { status: Status::SUCCESS, nodes: None });
    assert_eq!(stage.client.resolve_nodes(Some(&other)), Ok(None));
    assert!(matches!(stage.asked()[..], [Request::ResolvePeers { .. }, Request::ResolveNodes { .. }]));
}

/// What this process knows itself comes first, its own job at the front; the server adds the jobs that only it knows.
#[test]
fn without_a_namespace_the_server_adds_the_jobs_that_it_knows() {
    let at = |name: &str, rank| Proc::new(nspace(name), Rank(rank));
    let known = |stage: &Stage| {
        let mut job = JobData::new(nspace("known"));
        let values = [(keys::LOCAL_PEERS.into(), Value::string("7")), (keys::HOSTNAME.into(), Value::string("n0"))];
        job.nodes.push(Node { hostname: "n0".into(), values: values.into(), ..Node::default() });
        stage.client.inner.local.reply_cache.add_job(job, true).unwrap();
    };
    let own = [at("job", 0), at("job", 1), at("known", 7)];
    let cases = [
        (VERSION, true, 1, 1),
        (VERSION, false, 0, 0),
        (Version::new(6, 1, 0), false, 1, 0),
        (Version::new(7, 0, 0), false, 1, 1),
    ];
    for (version, is_ours, of_peers, of_nodes) in cases {
        let stage = stage_under(version, is_ours);
        known(&stage);
        let told = vec![at("aaa", 3), at("job", 3), at("known", 8)];
        if of_peers > 0 {
            stage.answers(PeersReply { status: Status::SUCCESS, procs: Some(told) });
        }
        let mut expected = own.to_vec();
        expected.extend((of_peers > 0).then(|| at("aaa", 3)));
        assert_eq!(stage.client.resolve_peers(Some(b"n0"), None), Ok(expected), "{version}");
        assert_eq!(stage.asked().len(), of_peers, "{version}");
        if of_nodes > 0 {
            stage.answers(NodesReply { status: Status::SUCCESS, nodes: Some(c"n9,n1,n0".into()) });
        }
        let expected = if of_nodes > 0 { &b"n0,n1,n9"[..] } else { b"n0,n1" };
        assert_eq!(stage.client.resolve_nodes(Some(&nspace(""))), Ok(Some(expected.to_vec())), "{version}");
        assert_eq!(stage.asked().len(), of_nodes, "{version}");
    }
    // A server that fails takes nothing away.
    let stage = stage_under(VERSION, true);
    known(&stage);
    (0..2).for_each(|_| stage.answers_status(Status::ERR_TIMEOUT));
    assert_eq!(stage.client.resolve_peers(Some(b"n0"), None), Ok(own.to_vec()));
    assert_eq!(stage.client.resolve_nodes(None), Ok(Some(b"n0,n1".to_vec())));
    assert_eq!(stage.asked().len(), 2);
}

#[test]
fn a_job_that_is_known_without_nodes_has_none() {
    let other = nspace("other");
    // Client and server know the job's size; neither knows its nodes.
    for is_our_server in [false, true] {
        let stage = stage_under(VERSION, is_our_server);
        stage.answers_status(Status::ERR_NOT_FOUND);
        if !is_our_server {
            stage.answers_values(&[("other", Rank::WILDCARD, &[(keys::JOB_SIZE, Value::Uint32(2))])]);
        }
        let resolved = stage.client.resolve_nodes(Some(&other));
        assert_eq!(resolved, if is_our_server { Err(Status::ERR_NOT_FOUND) } else { Ok(None) });
    }
    let stage = stage();
    let mut job = JobData::new(other.clone());
    job.job.insert(keys::JOB_SIZE.into(), Value::Uint32(2));
    stage.client.inner.local.reply_cache.add_job(job, true).unwrap();
    // The requests: the job's peers, its nodes, and whether the server knows the job.
    (0..3).for_each(|_| stage.answers_status(Status::ERR_NOT_FOUND));
    assert_eq!(stage.client.resolve_peers(None, Some(&other)), Ok(vec![]));
    (0..2).for_each(|_| stage.answers_status(Status::ERR_NOT_FOUND));
    assert_eq!(stage.client.resolve_nodes(Some(&other)), Ok(None));
}

#[test]
fn unknown_required_attributes_are_refused() {
    let unknown = |flags| vec![Info { flags, ..Info::new("pmix.nobody", Value::Bool(true)) }];
    let (required, optional) = (unknown(InfoFlags::REQUIRED), unknown(0));
    let refused = Err(Status::ERR_NOT_SUPPORTED);
    let env = Environment::from_lookup(|_| None).unwrap();
    assert_eq!(Client::connect(&env, &required).map(drop), refused);
    let client = Client::connect(&env, &optional).unwrap();
    let me = Proc::new(client.inner.me.nspace.clone(), client.inner.me.rank);
    assert_eq!(client.get_value(&me, keys::RANK, &required).map(drop), refused);
    assert_eq!(client.get_value(&me, keys::RANK, &optional).map(drop), Ok(()));
    let handler: EventHandler = Arc::new(|_, _, _| {});
    let register = |infos: &Vec<Info>| client.register_event_handler(vec![], infos.clone(), handler.clone()).wait();
    assert_eq!(register(&required).map(drop), refused);
    assert_eq!(register(&optional).map(drop), Ok(()));
    assert_eq!(client.finalize(&required), refused);
    assert_eq!(client.finalize(&optional), Ok(()));
}

#[test]
fn library_queries_are_answered_without_the_server() {
    let query = |keys: &[&str]| {
        let keys = keys.iter().map(|key| CString::new(*key).unwrap()).collect();
        vec![Query { keys, qualifiers: Vec::new() }]
    };
    let version = || Info::new(keys::QUERY_STABLE_ABI_VERSION, Value::string("0.0"));
    let both = [keys::QUERY_STABLE_ABI_VERSION, keys::QUERY_NAMESPACES];
    let stage = stage();
    let alone = stage.client.query(query(&both[..1])).wait();
    assert_eq!(alone, Ok(InfoReply { status: Status::SUCCESS, infos: vec![version()] }));
    assert_eq!(stage.asked(), []);
    let told = Info::new(keys::QUERY_NAMESPACES, Value::string("job"));
    stage.answers(InfosReply { status: Status::SUCCESS, infos: Some(vec![told.clone()]) });
    let answered = stage.client.query(query(&both)).wait();
    assert_eq!(answered, Ok(InfoReply { status: Status::SUCCESS, infos: vec![told, version()] }));
    stage.answers_status(Status::ERR_NOT_SUPPORTED);
    let partial = Ok(InfoReply { status: Status::QUERY_PARTIAL_SUCCESS, infos: vec![version()] });
    assert_eq!(stage.client.query(query(&both)).wait(), partial);
    assert!(matches!(&stage.asked()[..], [Request::Query { queries }, _] if queries[0].keys.len() == 1));
    // A singleton has no server to query; an uninitialised process must not query anything else.
    let singleton = Client::connect(&Environment::from_lookup(|_| None).unwrap(), &[]).unwrap();
    assert_eq!(singleton.query(query(&both)).wait(), partial);
    assert_eq!(singleton.query(query(&both[1..])).wait(), Err(Status::ERR_UNREACH));
    assert_eq!(InfoReply::of_library(query(&both[..1])), alone.ok());
    assert_eq!(InfoReply::of_library(query(&both)), None);
    assert_eq!(InfoReply::of_library(query(&both[1..])), None);
}

#[test]
fn a_node_of_another_job_without_a_list_of_ranks_may_have_none() {
    let other = nspace("other");
    let node_list: Object<'_> = ("other", Rank::WILDCARD, &[(keys::NODE_LIST, Value::string("n7,n8"))]);
    let size = |size| [(keys::LOCAL_SIZE, Value::Uint32(size))];
    for (node, told, expected) in
        [("n8", Some(0), Ok(vec![])), ("n8", Some(2), Err(Status::ERR_DATA_VALUE_NOT_FOUND)), ("n9", None, Ok(vec![]))]
    {
        let stage = stage();
        stage.answers_status(Status::ERR_NOT_FOUND);
        stage.answers_values(&[node_list]);
        if let Some(told) = told {
            stage.answers_values(&[("other", Rank::UNDEF, &size(told))]);
        }
        assert_eq!(stage.client.resolve_peers(Some(node.as_bytes()), Some(&other)), expected, "{node}");
        assert_eq!(stage.asked().len(), 2 + usize::from(told.is_some()), "{node}");
    }
}

#[test]
fn an_answer_for_one_node_is_not_kept_for_all() {
    let stage = stage();
    let node = |name: &str| [flag(keys::NODE_INFO), Info::new(keys::HOSTNAME, Value::string(name))];
    for list in ["0", "1"] {
        stage.answers_values(&[("other", Rank::WILDCARD, &[(keys::LOCAL_PEERS, Value::string(list))])]);
        let value = stage.get_of(Some("other"), Rank::WILDCARD, Some(keys::LOCAL_PEERS), &node(list));
        assert_eq!(value, Ok(Value::string(list)));
    }
    stage.answers_status(Status::ERR_NOT_FOUND);
    let general = stage.get_of(Some("other"), Rank::WILDCARD, Some(keys::LOCAL_PEERS), &[]);
    assert_eq!(general, Err(Status::ERR_NOT_FOUND));
    assert_eq!(stage.asked().len(), 3);
}

impl Stage {
    /// A Get of a rank with `PMIX_IMMEDIATE`.
    fn get_immediately(&self, rank: u32, key: &str) -> Result<Value> {
        self.get_of(None, Rank(rank), Some(key), &[flag(keys::IMMEDIATE)])
    }

    /// A stage whose client has committed. No request is noted.
    fn committed(self) -> Stage {
        self.answers_status(Status::SUCCESS);
        self.client.commit().unwrap();
        self.asked();
        self
    }
}

#[test]
fn an_immediate_get_awaits_a_neighbours_first_commit_under_a_stock_server() {
    let stage = stage().committed();
    stage.answers_status(Status::ERR_NOT_FOUND);
    stage.answers_values(&[("job", Rank(0), &[("one", Value::Int(1)), ("two", Value::Int(2))])]);
    assert_eq!(stage.get_immediately(0, "one"), Ok(Value::Int(1)));
    let get = |key: Option<&'static str>, infos| Request::Get {
        nspace: nspace("job"),
        rank: Rank(0),
        infos,
        key: key.map(Key::from),
    };
    // A server keeps the second request until there are values, and answers at once if there are some.
    let waits = vec![Info::new(keys::TIMEOUT, Value::Int(2))];
    assert_eq!(stage.asked(), [get(Some("one"), vec![flag(keys::IMMEDIATE)]), get(None, waits)]);
    assert_eq!(stage.get_immediately(0, "two"), Ok(Value::Int(2)));
    assert_eq!(stage.asked(), []);
    // The rank has committed, so there is nothing to wait for.
    stage.answers_status(Status::ERR_NOT_FOUND);
    assert_eq!(stage.get_immediately(0, "three"), Err(Status::ERR_NOT_FOUND));
    assert_eq!(stage.asked().len(), 1);
}

#[test]
fn a_neighbour_that_does_not_commit_is_awaited_once() {
    let stage = stage().committed();
    stage.answers_status(Status::ERR_NOT_FOUND);
    stage.answers_status(Status::ERR_TIMEOUT);
    assert_eq!(stage.get_immediately(0, "key"), Err(Status::ERR_NOT_FOUND), "not a time-out, which was not asked for");
    assert_eq!(stage.asked().len(), 2);
    stage.answers_status(Status::ERR_NOT_FOUND);
    assert_eq!(stage.get_immediately(0, "key"), Err(Status::ERR_NOT_FOUND));
    assert_eq!(stage.asked().len(), 1);
}

#[test]
fn first_commits_are_awaited_of_neighbours_alone_and_after_the_own_one() {
    let not_found = Err(Status::ERR_NOT_FOUND);
    let asks_once = |stage: &Stage, rank, key, infos: &[Info]| {
        stage.answers_status(Status::ERR_NOT_FOUND);
        assert_eq!(stage.get_of(None, Rank(rank), Some(key), infos), not_found);
        assert_eq!(stage.asked().len(), 1, "{rank} {key}");
    };
    let immediate = [flag(keys::IMMEDIATE)];
    asks_once(&stage(), 0, "key", &immediate);
    let committed = stage().committed();
    asks_once(&committed, 2, "key", &immediate);
    asks_once(&committed, 1, "key", &immediate);
    asks_once(&committed, 0, "key", &[]);
    asks_once(&stage_under(VERSION, true).committed(), 0, "key", &immediate);
    asks_once(&stage_under(Version::new(4, 0, 0), false).committed(), 0, "key", &immediate);
    // A value has come from the rank.
    committed.answers_values(&[("job", Rank(0), &[("one", Value::Int(1))])]);
    assert_eq!(committed.get(0, "one"), Ok(Value::Int(1)));
    committed.asked();
    asks_once(&committed, 0, "two", &immediate);
}

#[test]
fn a_refresh_asks_again_and_replaces() {
    let stage = stage();
    for n in 1..=2 {
        stage.answers_values(&[("job", Rank(2), &[("key", Value::Int(n))])]);
        let value = stage.get_of(None, Rank(2), Some("key"), &[flag(keys::GET_REFRESH_CACHE)]);
        assert_eq!(value, Ok(Value::Int(n)));
        assert_eq!(stage.get(2, "key"), Ok(Value::Int(n)));
    }
    assert_eq!(stage.asked().len(), 2);
}

/// The answers are those of stock servers from 4.2 to 7.0.
#[test]
fn a_server_without_refresh_is_asked_for_its_present_value() {
    let stage = stage();
    let directives = [flag(keys::GET_REFRESH_CACHE), flag(keys::IMMEDIATE)];
    stage.answers_values(&[]);
    stage.answers_values(&[("job", Rank(2), &[("key", Value::Int(1))])]);
    assert_eq!(stage.get_of(None, Rank(2), Some("key"), &directives), Ok(Value::Int(1)));
    let asked = stage.asked();
    let told = asked.iter().map(|request| match request {
        Request::Get { infos, .. } => infos.iter().map(|info| info.key.to_string()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, [vec![keys::GET_REFRESH_CACHE, keys::IMMEDIATE], vec![keys::IMMEDIATE]]);
    // The client repeats the request once, and only if it got no value.
    stage.answers_values(&[]);
    stage.answers_values(&[]);
    assert_eq!(stage.get_of(None, Rank(2), Some("key"), &directives), Err(Status::ERR_NOT_FOUND));
    stage.answers_status(Status::ERR_NOT_FOUND);
    assert_eq!(stage.get_of(None, Rank(2), Some("key"), &directives), Err(Status::ERR_NOT_FOUND));
    assert_eq!(stage.asked().len(), 3);
}

#[test]
fn own_values_are_refreshed_without_a_request() {
    let stage = stage();
    let me = Proc::new(nspace("job"), Rank(1));
    stage.client.store_internal(&me, "inner".into(), Value::Int(1)).unwrap();
    stage.client.put(Scope::Global, "put".into(), Value::Int(2)).unwrap();
    let refreshed = |rank, key| stage.get_of(None, rank, Some(key), &[flag(keys::GET_REFRESH_CACHE)]);
    assert_eq!(refreshed(Rank(1), "inner"), Ok(Value::Int(1)));
    assert_eq!(refreshed(Rank(1), "put"), Ok(Value::Int(2)));
    assert_eq!(stage.asked(), []);
    // Values of this process that came from a server may have changed there. So may values of another process that this
    // one stored.
    for n in 1..=2 {
        stage.answers_values(&[("job", Rank(1), &[("told", Value::Int(n))])]);
        assert_eq!(refreshed(Rank(1), "told"), Ok(Value::Int(n)));
    }
    stage.client.store_internal(&Proc::new(nspace("job"), Rank(2)), "peer".into(), Value::Int(3)).unwrap();
    stage.answers_values(&[("job", Rank(2), &[("peer", Value::Int(4))])]);
    assert_eq!(refreshed(Rank(2), "peer"), Ok(Value::Int(4)));
    assert_eq!(stage.asked().len(), 3);
}

/// Servers of releases before 7.0 know no deletions; of one that the process joins nobody has read the key.
#[test]
fn a_key_that_was_deleted_without_a_server_is_not_sent() {
    let singleton = Client::connect(&Environment::from_lookup(|_| None).unwrap(), &[]).unwrap();
    for key in ["deleted", "kept"] {
        singleton.put(Scope::Global, key.into(), Value::Int(1)).unwrap();
    }
    assert_eq!(singleton.delete(Scope::Global, "deleted".into()), Ok(()));
    let puts = singleton.inner.puts.wait_lock();
    let sent: Vec<_> = puts
        .parts()
        .unwrap()
        .into_iter()
        .flat_map(|(code, kvals)| kvals.into_iter().map(move |(key, _)| (Scope::from_code(code), key.to_string())))
        .collect();
    assert_eq!(sent, [Scope::Local, Scope::Remote].map(|scope| (Some(scope), "kept".to_owned())));
}

#[test]
fn compressed_strings_are_expanded() {
    let stage = stage();
    let compressed = Value::CompressedString(pmix_dstore::compression::compress(&[b'x'; 5000]).unwrap().into());
    // Our own packer would expand it for a client of this release; another implementation need not.
    let reply = GetReply {
        status: Status::SUCCESS,
        objects: vec![(Proc::new(nspace("job"), Rank(2)), vec![Kval { key: "key".into(), value: compressed }])],
    };
    for _ in 0..2 {
        let payload = reply.encode(DIALECT, Version::new(6, 1, 0)).unwrap();
        stage.script.answers.lock().push_back(Ok(payload));
        assert_eq!(stage.get(2, "key"), Ok(Value::string([b'x'; 5000])));
    }
    assert_eq!(stage.asked().len(), 1, "kept as it came, expanded at each Get");
}

#[test]
fn own_values_come_first() {
    let stage = stage();
    stage.client.put(Scope::Remote, "key".into(), Value::Int(1)).unwrap();
    assert_eq!(stage.get(1, "key"), Ok(Value::Int(1)));
    let peer = Proc::new(nspace("job"), Rank(0));
    stage.client.store_internal(&peer, keys::HOSTNAME.into(), Value::string("renamed")).unwrap();
    assert_eq!(stage.get(0, keys::HOSTNAME), Ok(Value::string("renamed")));
    assert_eq!(stage.get_of(None, Rank::UNDEF, Some("key"), &[]), Ok(Value::Int(1)));
    assert_eq!(stage.client.put(Scope::Global, "".into(), Value::Int(1)), Err(Status::ERR_BAD_PARAM));
    assert_eq!(stage.asked(), []);
}

#[test]
fn all_values_of_a_rank_come_as_infos() {
    let stage = stage();
    stage.client.put(Scope::Local, "mine".into(), Value::Int(1)).unwrap();
    stage.answers_values(&[("job", Rank(1), &[("mine", Value::Int(0)), ("sent", Value::Int(2))])]);
    let all = stage.get_of(None, Rank(1), None, &[]).unwrap();
    assert_eq!(all.data_type(), DataType::DATA_ARRAY);
    let keys: Vec<_> = all.iter_infos().map(|info| (info.key.to_string(), info.value.clone())).collect();
    assert_eq!(keys[..2], [("mine".into(), Value::Int(1)), ("sent".into(), Value::Int(2))]);
    assert!(keys.iter().any(|(key, _)| key == keys::HOSTNAME));
    let local = stage.get_of(None, Rank(1), None, &[flag(keys::OPTIONAL)]).unwrap();
    assert!(local.iter_infos().count() >= 3);
}

#[test]
fn all_values_of_a_rank_are_the_local_ones_if_the_server_has_none() {
    let stage = stage();
    let other = Proc::new(nspace("other"), Rank(3));
    stage.client.store_internal(&other, "mine".into(), Value::Int(1)).unwrap();
    stage.answers_status(Status::ERR_NOT_FOUND);
    let all = stage.get_of(Some("other"), Rank(3), None, &[]).unwrap();
    assert_eq!(all, Value::infos(vec![Info::new("mine", Value::Int(1))]));
    stage.answers_status(Status::ERR_NOT_FOUND);
    assert_eq!(stage.get_of(Some("other"), Rank(4), None, &[]), Err(Status::ERR_NOT_FOUND));
    stage.answers_status(Status::ERR_TIMEOUT);
    assert_eq!(stage.get_of(Some("other"), Rank(3), None, &[]), Err(Status::ERR_TIMEOUT));
    assert_eq!(stage.asked().len(), 3);
}

#[test]
fn a_get_may_call_back() {
    let stage = stage();
    let (sender, values) = unbounded();
    let get = |rank, key: &'static str| {
        let sender = sender.clone();
        let key = Some(key.as_bytes());
        let request: GetRequest<'_> = GetRequest { nspace: NspaceRef::Own, rank: Rank(rank), key, directives: &[] };
        stage.client.get_nb(&request, Box::new(move |value| sender.send(value).unwrap())).unwrap();
        values.recv().unwrap()
    };
    assert_eq!(get(0, keys::HOSTNAME), Ok(Value::string("n0")));
    stage.answers_values(&[("job", Rank(2), &[("key", Value::Int(1))])]);
    assert_eq!(get(2, "key"), Ok(Value::Int(1)));
    assert_eq!(get(2, "key"), Ok(Value::Int(1)));
    stage.answers_status(Status::ERR_NOT_FOUND);
    assert_eq!(get(3, "key"), Err(Status::ERR_NOT_FOUND));
    assert_eq!(stage.asked().len(), 2);
}

#[test]
fn stock_servers_get_all_values_at_each_commit() {
    let stage = stage();
    stage.answers_status(Status::SUCCESS);
    stage.client.commit().unwrap();
    stage.client.put(Scope::Global, "a".into(), Value::Int(1)).unwrap();
    stage.client.put(Scope::Internal, "b".into(), Value::Int(1)).unwrap();
    stage.client.put(Scope::Global, keys::HOSTNAME.into(), Value::Int(1)).unwrap();
    for _ in 0..2 {
        stage.answers_status(Status::SUCCESS);
        stage.client.commit().unwrap();
    }
    let kval = || vec![Kval { key: "a".into(), value: Value::Int(1) }];
    let full = Request::Commit { parts: vec![(1, kval()), (2, kval())] };
    assert_eq!(stage.asked(), [Request::Commit { parts: vec![] }, full.clone(), full]);
    assert_eq!(stage.get(1, keys::HOSTNAME), Ok(Value::string("n0")), "a reserved key is not put");
}

#[test]
fn the_local_context_id_of_a_group_is_put_and_asked_for_as_a_ranks_own_value() {
    let stage = stage();
    let key = keys::GROUP_LOCAL_CID;
    stage.client.put(Scope::Global, key.into(), Value::Size(7)).unwrap();
    assert_eq!(stage.get(1, key), Ok(Value::Size(7)));
    stage.answers_status(Status::SUCCESS);
    stage.client.commit().unwrap();
    let parts = [1, 2].map(|scope| (scope, vec![Kval { key: key.into(), value: Value::Size(7) }])).to_vec();
    assert_eq!(stage.asked(), [Request::Commit { parts }]);
    // The rank may still put it, so the server must be asked to wait, even if the client has all registered values.
    stage.answers_values(&[("job", Rank(2), &[(key, Value::Size(9))])]);
    assert_eq!(stage.get(2, key), Ok(Value::Size(9)));
    let Request::Get { infos, .. } = &stage.asked()[0] else { panic!("a Get") };
    assert_eq!(infos, &[]);
}

#[test]
fn only_a_member_constructs_a_group() {
    let stage = stage();
    let group = || CString::new("team").unwrap();
    let of = |name: &str, rank| Proc::new(nspace(name), rank);
    let others = vec![of("job", Rank(2)), of("job", Rank(3)), of("other", Rank::WILDCARD)];
    let constructed = |procs: Vec<Proc>| stage.client.group_construct(group(), procs, vec![]);
    assert_eq!(constructed(others.clone()).wait(), Err(Status::ERR_NOT_A_MEMBER));
    let started = constructed(others.clone()).start(Box::new(|_| panic!("called back")));
    assert_eq!(started, Err(Status::ERR_NOT_A_MEMBER));
    assert_eq!(stage.asked(), [], "no request was sent");
    // The caller is a member by its own name, by its job's, or by a group's.
    stage
        .client
        .inner
        .groups
        .lock()
        .insert(CString::new("pair").unwrap(), vec![of("job", Rank(2)), of("job", Rank(1))]);
    let own = [of("job", Rank(1)), of("job", Rank::WILDCARD), of("pair", Rank::WILDCARD), of("pair", Rank(1))];
    for own in own {
        stage.answers_status(Status::ERR_NOT_SUPPORTED);
        let procs = others.iter().cloned().chain([own.clone()]).collect();
        assert_eq!(constructed(procs).wait(), Err(Status::ERR_NOT_SUPPORTED), "{own}");
    }
    assert_eq!(constructed(vec![of("pair", Rank(0))]).wait(), Err(Status::ERR_NOT_A_MEMBER));
    assert_eq!(stage.asked().len(), 4);
    // If the call does not name all members, only the server can check membership.
    for key in [keys::GROUP_ADD_MEMBERS, keys::GROUP_BOOTSTRAP] {
        stage.answers_status(Status::ERR_NOT_SUPPORTED);
        let formed = stage.client.group_construct(group(), others.clone(), vec![flag(key)]);
        assert_eq!(formed.wait(), Err(Status::ERR_NOT_SUPPORTED));
    }
}

#[test]
fn commits_to_our_server_send_only_the_delta() {
    let stage = stage_under(VERSION, true);
    stage.answers_status(Status::ERR_NOMEM);
    assert_eq!(stage.client.commit(), Err(Status::ERR_NOMEM));
    stage.answers_status(Status::SUCCESS);
    stage.client.commit().unwrap();
    stage.client.commit().unwrap();
    let empty = Request::Commit { parts: vec![] };
    assert_eq!(
        stage.asked(),
        [empty.clone(), empty],
        "others wait for a commit, so even an empty one is sent until the server accepts one"
    );
    stage.client.put(Scope::Local, "a".into(), Value::Int(1)).unwrap();
    stage.answers_status(Status::ERR_NOMEM);
    assert_eq!(stage.client.commit(), Err(Status::ERR_NOMEM));
    stage.answers_status(Status::SUCCESS);
    stage.client.commit().unwrap();
    stage.client.commit().unwrap();
    assert_eq!(stage.asked().len(), 2, "refused once, accepted once");
}

#[test]
fn a_first_commit_is_not_waited_for_and_a_refused_one_is_repeated() {
    const KEYS: [&str; 3] = ["k0", "k1", "k2"];
    let stage = stage_under(VERSION, true);
    *stage.script.first_commits.lock() = Some(None);
    let part = |values: &[i32]| {
        let kvals = values.iter().map(|value| Kval { key: KEYS[*value as usize].into(), value: Value::Int(*value) });
        Request::Commit { parts: vec![(1, kvals.collect())] }
    };
    let put = |value: i32| stage.client.put(Scope::Local, KEYS[value as usize].into(), Value::Int(value));
    let fence = || {
        stage.answers(FenceReply { status: Status::SUCCESS, segment_count: None });
        stage.client.fence(&[], Vec::new()).wait()
    };
    put(1).unwrap();
    // No answer is prepared.
    stage.client.commit().unwrap();
    stage.client.commit().unwrap();
    assert_eq!(stage.asked(), [part(&[1])]);
    put(2).unwrap();
    *stage.script.first_commits.lock() = Some(Some(Status::ERR_NOMEM));
    assert_eq!((fence(), fence()), (Err(Status::ERR_NOMEM), Ok(())), "told once");
    stage.asked();
    stage.answers_status(Status::ERR_NOMEM);
    assert_eq!(stage.client.commit(), Err(Status::ERR_NOMEM), "from now on each commit is waited for");
    stage.answers_status(Status::SUCCESS);
    stage.client.commit().unwrap();
    stage.client.commit().unwrap();
    let sent = stage.asked();
    let sorted = |request: &Request| {
        let Request::Commit { parts } = request else { panic!("a commit") };
        let mut keys: Vec<String> =
            parts.iter().flat_map(|(_, kvals)| kvals).map(|kval| kval.key.to_string()).collect();
        keys.sort();
        keys
    };
    assert_eq!(sent.iter().map(sorted).collect::<Vec<_>>(), [["k1", "k2"], ["k1", "k2"]]);
    // A refusal that comes before a second commit is no error of that commit, which sends both.
    let stage = stage_under(VERSION, true);
    *stage.script.first_commits.lock() = Some(None);
    stage.client.commit().unwrap();
    *stage.script.first_commits.lock() = Some(Some(Status::ERR_NOMEM));
    stage.answers_status(Status::SUCCESS);
    stage.client.commit().unwrap();
    assert_eq!(stage.asked().len(), 2);
}

#[test]
fn a_refused_first_commit_is_reported_by_connect_or_finalize() {
    let refused = || {
        let stage = stage_under(VERSION, true);
        *stage.script.first_commits.lock() = Some(None);
        stage.client.commit().unwrap();
        *stage.script.first_commits.lock() = Some(Some(Status::ERR_NOMEM));
        stage
    };
    let stage = refused();
    stage.answers(ConnectReply { status: Status::SUCCESS, jobs: Vec::new() });
    let procs = || vec![Proc::new(nspace("other"), Rank::WILDCARD)];
    assert_eq!(stage.client.connect_procs(procs(), Vec::new()).wait(), Err(Status::ERR_NOMEM));
    stage.answers_status(Status::SUCCESS);
    assert_eq!(stage.client.finalize(&[]), Ok(()), "reported once");
    // What does not depend on the values does not report it; finalize does at the latest.
    let stage = refused();
    stage.answers_status(Status::SUCCESS);
    assert_eq!(stage.client.job_control(Vec::new(), Vec::new()).wait().map(drop), Ok(()));
    stage.answers_status(Status::SUCCESS);
    assert_eq!(stage.client.finalize(&[]), Err(Status::ERR_NOMEM));
}

#[test]
fn operations_return_the_servers_reply() {
    let stage = stage();
    let other = nspace("other");
    let kvals = vec![Kval { key: keys::JOB_SIZE.into(), value: Value::Uint32(2) }];
    stage.answers(ConnectReply { status: Status::SUCCESS, jobs: vec![(other.clone(), kvals)] });
    stage.client.connect_procs(vec![Proc::new(other, Rank::WILDCARD)], Vec::new()).wait().unwrap();
    assert_eq!(stage.get_of(Some("other"), Rank::WILDCARD, Some(keys::JOB_SIZE), &[]), Ok(Value::Uint32(2)));

    // A host that completes at once answers with only a status.
    stage.answers_status(Status::OPERATION_SUCCEEDED);
    let answer = stage.client.job_control(Vec::new(), Vec::new()).wait();
    assert_eq!(answer, Ok(InfoReply { status: Status::SUCCESS, infos: Vec::new() }));
    stage.answers_status(Status::OPERATION_SUCCEEDED);
    assert_eq!(stage.client.publish(Vec::new()).wait(), Ok(()));
    stage.answers(LookupReply { status: Status::ERR_NOT_FOUND, data: Vec::new() });
    assert_eq!(stage.client.lookup(vec![c"key".into()], Vec::new()).wait(), Err(Status::ERR_NOT_FOUND));
    let (sender, result) = unbounded();
    stage.answers_status(Status::ERR_NOT_SUPPORTED);
    stage.client.publish(Vec::new()).start(Box::new(move |result| sender.send(result).unwrap())).unwrap();
    assert_eq!(result.recv().unwrap(), Err(Status::ERR_NOT_SUPPORTED));
}

/// A handler that sends its arguments to a channel and returns `status`.
pub(crate) fn reporter(name: &'static str, status: Status, calls: &Sender<(&'static str, Event)>) -> EventHandler {
    let calls = calls.clone();
    Arc::new(move |_, event, done| {
        calls.send((name, event)).unwrap();
        done.finish(status, vec![Info::new("result", Value::string(name))]);
    })
}

fn names(calls: &Receiver<(&'static str, Event)>, count: usize) -> Vec<&'static str> {
    (0..count).map(|_| calls.recv().unwrap().0).collect()
}

#[test]
fn an_event_passes_single_then_multi_then_default_handlers() {
    let stage = stage();
    let (sender, calls) = unbounded();
    let (code, other) = (Status(-3001), Status(-3002));
    let register = |codes: &[Status], infos: Vec<Info>, name, status| {
        let answers = stage.script.answers.lock().len();
        if answers == 0 {
            stage.answers_status(Status::SUCCESS);
        }
        stage.client.register_event_handler(codes.to_vec(), infos, reporter(name, status, &sender)).wait()
    };
    let named = |name: &str| Info::new(keys::EVENT_HDLR_NAME, Value::string(name));
    let go_on = Status::EVENT_NO_ACTION_TAKEN;
    register(&[], vec![], "default", go_on).unwrap();
    register(&[code, other], vec![], "multi", go_on).unwrap();
    register(&[code], vec![named("older")], "older", go_on).unwrap();
    register(&[code], vec![], "newer", go_on).unwrap();
    register(&[code], vec![flag(keys::EVENT_HDLR_APPEND)], "appended", go_on).unwrap();
    let before = Info::new(keys::EVENT_HDLR_BEFORE, Value::string("older"));
    register(&[code], vec![before], "before older", go_on).unwrap();
    register(&[other, code], vec![flag(keys::EVENT_HDLR_LAST)], "last", go_on).unwrap();
    register(&[code], vec![flag(keys::EVENT_HDLR_FIRST)], "first", go_on).unwrap();
    let refused = Err(Status::ERR_EVENT_REGISTRATION);
    assert_eq!(register(&[code], vec![flag(keys::EVENT_HDLR_FIRST)], "second first", go_on), refused);
    let after = Info::new(keys::EVENT_HDLR_AFTER, Value::string("nobody"));
    assert_eq!(register(&[code], vec![after], "after a missing handler", go_on), refused);
    // Each code is registered at the server once.
    let registered = stage.asked().into_iter().map(|request| match request {
        Request::RegisterEvents { codes, .. } => codes,
        other => panic!("{other:?}"),
    });
    assert_eq!(registered.collect::<Vec<_>>(), [vec![], vec![code, other]]);

    let source = Proc::new(nspace("job"), Rank(3));
    stage.client.deliver(Event::new(code, source.clone(), vec![flag("pmix.srvr.internal.notify")]));
    let order = ["first", "newer", "before older", "older", "appended", "multi", "default", "last"];
    let seen: Vec<_> = order.iter().map(|_| calls.recv().unwrap()).collect();
    assert_eq!(seen.iter().map(|(name, _)| *name).collect::<Vec<_>>(), order);
    let older = &seen[3].1;
    assert_eq!(*older.infos, [named("older")]);
    assert_eq!(older.results.len(), 6);
    assert_eq!(older.results[0], Info::new("UNKNOWN", Value::Status(go_on)));
    assert_eq!(older.results[1], Info::new("result", Value::string("first")));
    assert_eq!(older.source, source);

    stage.client.deliver(Event::new(other, source.clone(), vec![flag(keys::EVENT_NON_DEFAULT)]));
    assert_eq!(names(&calls, 2), ["multi", "last"]);
    let elsewhere = Value::Proc(Proc::new(nspace("job"), Rank(0)));
    stage.client.deliver(Event::new(other, source.clone(), vec![Info::new(keys::EVENT_CUSTOM_RANGE, elsewhere)]));
    stage.client.deliver(Event::new(Status(-3003), source, vec![]));
    assert_eq!(names(&calls, 1), ["default"], "the event for another process was not delivered");
}

#[test]
fn a_handler_may_end_the_chain_and_be_removed() {
    let stage = stage();
    let (sender, calls) = unbounded();
    let code = Status(-3001);
    let me = || Proc::new(nspace("job"), Rank(1));
    stage.answers_status(Status::SUCCESS);
    let late = reporter("late", Status::SUCCESS, &sender);
    let late = stage.client.register_event_handler(vec![code], vec![], late).wait().unwrap();
    let ending = reporter("ending", Status::EVENT_ACTION_COMPLETE, &sender);
    let ending = stage.client.register_event_handler(vec![code], vec![], ending).wait().unwrap();
    // Slurm deregisters handler 0, which must not be a real one.
    assert_ne!(ending, 0);
    let once = reporter("once", Status::SUCCESS, &sender);
    let once = stage.client.register_event_handler(vec![code], vec![flag(keys::EVENT_ONESHOT)], once).wait();
    assert!(once.is_ok());
    stage.client.deliver(Event::new(code, me(), vec![]));
    assert_eq!(names(&calls, 2), ["once", "ending"]);
    stage.client.deliver(Event::new(code, me(), vec![]));
    assert_eq!(names(&calls, 1), ["ending"]);
    stage.client.deregister_event_handler(ending).wait().unwrap();
    stage.client.deliver(Event::new(code, me(), vec![]));
    assert_eq!(names(&calls, 1), ["late"]);
    stage.asked();
    stage.client.deregister_event_handler(late).wait().unwrap();
    stage.client.deregister_event_handler(late).wait().unwrap();
    assert_eq!(stage.asked(), [Request::DeregisterEvents { codes: vec![code] }]);
}

#[test]
fn a_removed_handler_misses_events_whose_chain_has_begun() {
    let stage = stage();
    let (sender, calls) = unbounded();
    let (code, me) = (Status(-3001), stage.client.me().clone());
    let register = |name, infos| {
        if name == "gone" {
            stage.answers_status(Status::SUCCESS);
        }
        let handler = reporter(name, Status::SUCCESS, &sender);
        stage.client.register_event_handler(vec![code], infos, handler).wait().unwrap()
    };
    let gone = register("gone", vec![]);
    register("stays", vec![]);
    register("once", vec![flag(keys::EVENT_ONESHOT)]);
    // Both events have their list of handlers before any handler runs.
    let (go, gate) = unbounded::<()>();
    stage.script.defer(Box::new(move || gate.recv().unwrap()));
    stage.client.deliver(Event::new(code, me.clone(), vec![]));
    stage.client.deliver(Event::new(code, me, vec![]));
    stage.client.deregister_event_handler(gone).wait().unwrap();
    go.send(()).unwrap();
    let mut names = names(&calls, 3);
    names.sort_unstable();
    assert_eq!(names, ["once", "stays", "stays"]);
    let (sender, idle) = unbounded();
    stage.script.defer(Box::new(move || sender.send(()).unwrap()));
    idle.recv().unwrap();
    assert!(calls.try_recv().is_err());
}

#[test]
fn a_handler_is_removed_even_after_the_server_is_lost() {
    let stage = stage();
    let (sender, calls) = unbounded();
    stage.answers_status(Status::SUCCESS);
    let handler = reporter("gone", Status::SUCCESS, &sender);
    let id = stage.client.register_event_handler(vec![Status(-1)], vec![], handler).wait().unwrap();
    *stage.script.is_lost.lock() = true;
    let (done, taken) = unbounded();
    // Open MPI waits for the callback and ignores the call's own return value.
    let started = stage.client.deregister_event_handler(id).start(Box::new(move |result| done.send(result).unwrap()));
    assert_eq!((started, taken.recv().unwrap()), (Ok(()), Ok(())));
    stage.client.deliver(Event::new(Status(-1), stage.client.me().clone(), vec![]));
    assert!(calls.try_recv().is_err());
}

#[test]
fn a_handler_that_the_server_refuses_is_removed() {
    let stage = stage();
    let (sender, calls) = unbounded();
    stage.answers_status(Status::ERR_NOT_SUPPORTED);
    let handler = reporter("refused", Status::SUCCESS, &sender);
    let refused = stage.client.register_event_handler(vec![Status(-1)], vec![], handler).wait();
    assert_eq!(refused, Err(Status::ERR_NOT_SUPPORTED));
    stage.answers_status(Status::SUCCESS);
    let handler = reporter("taken", Status::SUCCESS, &sender);
    stage.client.register_event_handler(vec![Status(-2)], vec![], handler).wait().unwrap();
    for code in [-1, -2] {
        stage.client.deliver(Event::new(Status(code), stage.client.me().clone(), vec![]));
    }
    assert_eq!(names(&calls, 1), ["taken"]);
}

#[test]
fn notifying_reaches_the_server_and_the_own_handlers() {
    let stage = stage();
    let (sender, calls) = unbounded();
    let me = stage.client.me().clone();
    stage.answers_status(Status::SUCCESS);
    let handler = reporter("own", Status::SUCCESS, &sender);
    stage.client.register_event_handler(vec![Status(-1)], vec![], handler).wait().unwrap();
    stage.asked();
    stage.answers_status(Status::SUCCESS);
    let range = crate::events::range::GLOBAL;
    stage.client.notify_event(Status(-1), me.clone(), range, vec![flag("why")]).wait().unwrap();
    assert_eq!(stage.asked(), [Request::Notify { status: Status(-1), range, infos: vec![flag("why")] }]);
    assert_eq!(names(&calls, 1), ["own"]);
    stage.client.notify_event(Status(-1), me, crate::events::range::PROC_LOCAL, vec![]).wait().unwrap();
    assert_eq!(names(&calls, 1), ["own"]);
    assert_eq!(stage.asked(), []);
}

#[test]
fn a_handler_for_this_process_alone_is_not_registered_at_the_server() {
    let stage = stage();
    let (sender, calls) = unbounded();
    let here = Value::Code { ty: DataType::DATA_RANGE, bits: crate::events::range::PROC_LOCAL.into() };
    let infos = vec![Info::new(keys::RANGE, here)];
    let handler = reporter("here", Status::SUCCESS, &sender);
    let id = stage.client.register_event_handler(vec![Status(-1)], infos, handler).wait().unwrap();
    assert_eq!(stage.asked(), []);
    stage.answers_status(Status::SUCCESS);
    let handler = reporter("anywhere", Status::SUCCESS, &sender);
    stage.client.register_event_handler(vec![Status(-1)], vec![], handler).wait().unwrap();
    assert_eq!(stage.asked().len(), 1, "the code was not registered at the server before");
    stage.client.deliver(Event::new(Status(-1), Proc::new(nspace("job"), Rank(0)), vec![]));
    stage.client.deliver(Event::new(Status(-1), stage.client.me().clone(), vec![]));
    assert_eq!(names(&calls, 3), ["anywhere", "anywhere", "here"]);
    stage.client.deregister_event_handler(id).wait().unwrap();
    assert_eq!(stage.asked(), [], "another handler still needs the code");
}

#[test]
fn a_declared_model_waits_for_its_handler() {
    let stage = stage();
    let (sender, calls) = unbounded();
    let model = Info::new(keys::PROGRAMMING_MODEL, Value::string("MPI"));
    stage.client.declare_model(&[flag("unrelated")]);
    stage.client.declare_model(&[model.clone(), flag("unrelated")]);
    stage.answers_status(Status::SUCCESS);
    let default = reporter("default", Status::SUCCESS, &sender);
    stage.client.register_event_handler(vec![], vec![], default).wait().unwrap();
    stage.answers_status(Status::SUCCESS);
    let handler = reporter("model", Status::SUCCESS, &sender);
    stage.client.register_event_handler(vec![Status::MODEL_DECLARED], vec![], handler).wait().unwrap();
    let (name, event) = calls.recv().unwrap();
    assert_eq!((name, &event.source), ("model", stage.client.me()));
    assert_eq!(*event.infos, [model, flag(keys::EVENT_NON_DEFAULT)]);
    assert!(calls.try_recv().is_err());
}

#[test]
fn a_call_fails_directly_if_no_callback_can_run() {
    let stage = stage();
    for status in [Status::ERR_UNREACH, Status::ERR_OUT_OF_RESOURCE] {
        *stage.script.readiness.lock() = Err(status);
        let before = stage.script.asked.lock().len();
        assert_eq!(stage.client.fence(&[], Vec::new()).start(Box::new(|_| panic!("a callback"))), Err(status));
        let proc = Proc::new(nspace("job"), Rank(1));
        let request = GetRequest::new(&proc, "absent", &[]);
        assert_eq!(stage.client.get_nb(&request, Box::new(|_| panic!("a callback"))), Err(status));
        assert_eq!(stage.script.asked.lock().len(), before, "no request is sent");
    }
}

#[test]
fn output_that_comes_before_the_answer_to_finalize_is_written() {
    let stage = stage();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("output");
    let infos =
        vec![Info::new(keys::IOF_OUTPUT_TO_FILE, Value::string(file.to_str().unwrap())), flag(keys::IOF_FILE_ONLY)];
    stage.answers(IoPullReply { status: Status::SUCCESS, handler: Some(1) });
    let everybody = vec![Proc::new(nspace("job"), Rank::WILDCARD)];
    let handler = stage.client.pull_output(everybody, infos, crate::output::STDOUT, None).wait().unwrap();
    stage.answers_status(Status::SUCCESS);
    let inner = Arc::downgrade(&stage.client.inner);
    stage.meanwhile(move |request| {
        assert_eq!(*request, Request::Finalize);
        let source = Proc::new(nspace("job"), Rank(2));
        let (channel, data) = (crate::output::STDOUT, b"a text without an end of line".to_vec());
        let output = IoDelivery { source, channel, handler, infos: Vec::new(), data };
        inner.upgrade().unwrap().take_incoming(Incoming::Output(output.encode(DIALECT, VERSION).unwrap()));
    });
    stage.client.finalize(&[]).unwrap();
    assert_eq!(std::fs::read(directory.path().join("output.job.2.stdout")).unwrap(), b"a text without an end of line");
}
