//! The engine fed by hand: scripted peers, several servers, hosts that answer late or never.

mod slurm;

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nix::unistd::{getegid, geteuid};
use parking_lot::Mutex;
use pmix_dstore::codec::{BufferType, Dialect, Module, Unpacker};
use pmix_dstore::gather::Slices;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{
    Bytes, DataArray, DataType, Info, InfoFlags, Key, KeyRef, Kval, Nspace, Proc, Query, Rank, Regattr, Status, Value,
    keys,
};
use pmix_dstore::segment::{Directory, NamespaceView};
use pmix_wire::reply::{
    ConnectReply, FenceReply, GetReply, GroupReply, InfosReply, IoPullReply, RefreshReply, StatusReply,
};
use pmix_wire::{
    ClientReply, FlowControl, Hello, IoDelivery, Notification, PeerKind, Reply, Request, TAG_FLOW_CONTROL, TAG_IOF,
    TAG_NOTIFY, ToolReply, Version, blob, jobinfo,
};

use super::bounds::{GROUPS_MAX, MONITORS_MAX};
use super::events::{Range, Sender};
use super::{EXCHANGE, Engine, JobPlan, LOSS_DELAY, Output, PeerId, RETURN_DELAY, Standing, Transport};
use crate::GroupOperation;
use crate::access::Access;
use crate::cleanup::FileState;
use crate::completion::{Answer, AnswerSink};
use crate::config::{Config, SlurmFence};
use crate::left_out::left_out;
use crate::rendezvous::Wanted;
use crate::secret::Secret;
use crate::upcall::Upcall;

mod apart;
mod deletion;
mod monitors;
mod participants;
mod queries;

/// Over TCP, from whom the kernel does not say.
const TCP: Transport = Transport::Tcp { owner: None };

struct NoSink;
impl AnswerSink for NoSink {
    fn answer(&self, _id: u64, _answer: Answer) {}
    fn defer(&self, _job: Box<dyn FnOnce() + Send>) {}
}

/// A server with its scripted peers.
struct Bench {
    engine: Engine,
    now: Instant,
    sent: Vec<(PeerId, u32, Vec<u8>)>,
    upcalls: Vec<(u64, Upcall)>,
    closed: Vec<PeerId>,
    log: Vec<String>,
    /// Files that are watched are on a file system that does not answer.
    no_look_returns: bool,
    /// How often it was asked.
    looks: usize,
}

const PLAIN: Dialect = Dialect::plain(Module::V41);
const NODES: [&str; 2] = ["nodeA", "nodeB"];

thread_local! {
    /// The name of the test's job, which tells the server whose it is.
    static JOB: Cell<&'static str> = const { Cell::new("job") };
}

fn nspace() -> Nspace {
    Nspace::new(JOB.get()).unwrap()
}

fn proc(rank: u32) -> Proc {
    Proc::new(nspace(), Rank(rank))
}

fn everybody() -> Vec<Proc> {
    vec![Proc::new(nspace(), Rank::WILDCARD)]
}

fn peer(rank: u32) -> PeerId {
    PeerId(u64::from(rank) + 100)
}

fn collect() -> Vec<Info> {
    vec![Info::new(keys::COLLECT_DATA, Value::Bool(true))]
}

impl Bench {
    /// The server of `node`, one of `nodes` with `per_node` ranks each, its ranks connected.
    fn new(node: usize, nodes: usize, per_node: u32) -> Bench {
        let mut bench = Bench::without_clients(node, nodes, per_node);
        for rank in bench.local_ranks(node, per_node) {
            assert_eq!(bench.engine.register_client(&proc(rank), 1000, 1000, 7), Status::SUCCESS);
            bench.connect(rank);
        }
        bench
    }

    fn without_clients(node: usize, nodes: usize, per_node: u32) -> Bench {
        Bench::in_directory(node, nodes, per_node, None)
    }

    /// With a directory: one that has shared memory there.
    fn in_directory(node: usize, nodes: usize, per_node: u32, directory: Option<&Path>) -> Bench {
        let config = Config {
            me: Proc::new(Nspace::new("server").unwrap(), Rank(node as u32)),
            hostname: NODES[node].to_owned(),
            server_tmpdir: directory.unwrap_or(Path::new("/nonexistent")).to_owned(),
            system_tmpdir: "/tmp".into(),
            rendezvous: Wanted::default(),
            uid: 1000,
            gid: 1000,
            foreign_tools: false,
            descriptors: 1024,
            access: Access::default(),
            port: 0,
            socket_mode: 0o600,
            shared_memory: directory.is_some(),
            trust_claims: true,
            tool_secret: None,
            slurm_fence: SlurmFence::Agreed,
        };
        let sink: Weak<dyn AnswerSink> = Weak::<NoSink>::new();
        let mut bench = Bench {
            engine: Engine::new(config, 1, sink),
            now: Instant::now(),
            sent: Vec::new(),
            upcalls: Vec::new(),
            closed: Vec::new(),
            log: Vec::new(),
            no_look_returns: false,
            looks: 0,
        };
        let plan = bench.plan(node, nodes, per_node);
        assert_eq!(bench.engine.register_nspace(plan), Status::SUCCESS);
        bench.drain();
        bench
    }

    /// The job, registered for the first time or again.
    fn plan(&self, node: usize, nodes: usize, per_node: u32) -> JobPlan {
        let ranks: Vec<String> = (0..nodes as u32)
            .map(|n| (n * per_node..(n + 1) * per_node).map(|r| r.to_string()).collect::<Vec<_>>().join(","))
            .collect();
        let infos = [
            Info::new(keys::NODE_MAP, Value::string(NODES[..nodes].join(","))),
            Info::new(keys::PROC_MAP, Value::string(ranks.join(";"))),
        ];
        JobPlan::read(&nspace(), per_node as i32, &infos, self.engine.job(&nspace()), NODES[node]).unwrap()
    }

    fn local_ranks(&self, node: usize, per_node: u32) -> std::ops::Range<u32> {
        node as u32 * per_node..(node as u32 + 1) * per_node
    }

    fn hello(rank: u32) -> Hello {
        Hello {
            psec: "native".into(),
            credential: Hello::native_credential(1000, 1000),
            flag: PeerKind::Client as u8,
            uid_gid: None,
            proc: Some(proc(rank)),
            version: "4.2.2".into(),
            module: Module::V41,
            buffer: BufferType::NonDescribed,
            gds: "hash".into(),
            infos: Vec::new(),
        }
    }

    fn connect(&mut self, rank: u32) {
        self.engine.hello(peer(rank), TCP, Bench::hello(rank));
        self.drain();
        self.answer_last(Answer::Op(Status::SUCCESS));
    }

    /// Collects what the engine wants done.
    fn drain(&mut self) {
        loop {
            let outputs = self.engine.take_outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    Output::Send { peer, tag, payload } => self.sent.push((peer, tag, payload)),
                    Output::Upcall { id, upcall } => self.upcalls.push((id, upcall)),
                    Output::Close(peer) => self.closed.push(peer),
                    Output::Log(_, line) => self.log.push(line),
                    Output::Call(call) => call(),
                    Output::CleanUp((uid, gid), cleanup) => cleanup.run(uid, gid),
                    Output::Look { .. } if self.no_look_returns => self.looks += 1,
                    Output::Look { monitor, path, user: (uid, gid) } => {
                        let seen = FileState::of(&path, uid, gid);
                        self.engine.looked(monitor, seen, self.now);
                    }
                    Output::Measure { monitor, usage, targets, hostname } => {
                        let told = usage.read(&targets, &hostname);
                        self.engine.measured(monitor, told);
                    }
                    Output::Admit { .. } | Output::Listen(..) | Output::Unlisten(_) => {}
                }
            }
        }
    }

    fn answer_last(&mut self, answer: Answer) -> Upcall {
        let (id, upcall) = self.upcalls.pop().expect("an upcall to answer");
        self.engine.answer(id, answer);
        self.drain();
        upcall
    }

    fn request(&mut self, rank: u32, tag: u32, request: Request) {
        let payload = request.encode(PLAIN, Version::OURS).unwrap();
        self.engine.message(peer(rank), tag, payload, self.now);
        self.drain();
    }

    fn put(&mut self, rank: u32, scope: u8, key: &'static str, value: u32) {
        let kval = Kval { key: Key::from(key), value: Value::Uint32(value) };
        self.request(rank, 50, Request::Commit { parts: vec![(scope, vec![kval])] });
        assert_eq!(self.status(rank, 50), Some(Status::SUCCESS));
    }

    fn fence(&mut self, rank: u32, tag: u32, procs: Vec<Proc>, infos: Vec<Info>) {
        self.request(rank, tag, Request::Fence { procs, infos });
    }

    fn get(&mut self, rank: u32, tag: u32, of: u32, key: &'static str, infos: Vec<Info>) {
        let key = Some(Key::from(key));
        self.request(rank, tag, Request::Get { nspace: nspace(), rank: Rank(of), infos, key });
    }

    /// Takes the reply to a request out of what was sent.
    fn reply(&mut self, rank: u32, tag: u32) -> Option<Vec<u8>> {
        let position = self.sent.iter().position(|(to, of, _)| (*to, *of) == (peer(rank), tag))?;
        Some(self.sent.remove(position).2)
    }

    fn status(&mut self, rank: u32, tag: u32) -> Option<Status> {
        let bytes = self.reply(rank, tag)?;
        Some(StatusReply::decode(PLAIN, Version::OURS, &bytes).unwrap().status)
    }

    /// The value in the reply to a Get, or its status.
    fn value(&mut self, rank: u32, tag: u32, key: &str) -> Option<Result<u32, Status>> {
        let bytes = self.reply(rank, tag)?;
        let reply = GetReply::decode(PLAIN, Version::OURS, &bytes).unwrap();
        let kvals = reply.objects.iter().flat_map(|(_, kvals)| kvals);
        let found = kvals.filter(|kval| kval.key.is(key)).filter_map(|kval| kval.value.as_u32()).next();
        Some(found.ok_or(reply.status))
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.engine.tick(self.now);
        self.drain();
    }

    fn lose(&mut self, rank: u32) {
        self.engine.disconnected(peer(rank), self.now);
        self.drain();
    }
}

#[test]
fn what_a_refused_commit_held_is_not_waited_for() {
    let mut bench = Bench::new(0, 1, 2);
    bench.get(1, 101, 0, "k", Vec::new());
    bench.engine.refuse(peer(0), 50, 1 << 20, false);
    bench.drain();
    assert_eq!((bench.status(0, 50), bench.value(1, 101, "k")), (Some(Status::ERR_NOMEM), None));
    assert!(bench.log.pop().is_some_and(|line| line.contains("1048576 bytes from job:0")), "{:?}", bench.log);
    bench.engine.refuse(peer(0), 51, 1 << 20, true);
    bench.drain();
    assert_eq!(bench.status(0, 51), Some(Status::ERR_NOMEM));
    assert_eq!(bench.value(1, 101, "k"), Some(Err(Status::ERR_NOMEM)));
    bench.get(1, 102, 0, "k", Vec::new());
    assert_eq!(bench.value(1, 102, "k"), Some(Err(Status::ERR_NOMEM)));
    // It tries again with success.
    bench.put(0, 1, "k", 7);
    bench.get(1, 103, 0, "k", Vec::new());
    assert_eq!(bench.value(1, 103, "k"), Some(Ok(7)));
    bench.get(1, 104, 0, "later", Vec::new());
    assert_eq!(bench.value(1, 104, "later"), None);
}

#[test]
fn a_fence_of_one_node_asks_nobody() {
    let mut bench = Bench::new(0, 1, 3);
    for rank in 0..3 {
        assert_eq!(bench.status(0, 10), None);
        bench.fence(rank, 10, everybody(), Vec::new());
    }
    for rank in 0..3 {
        assert_eq!(bench.status(rank, 10), Some(Status::SUCCESS));
    }
    assert!(bench.upcalls.is_empty());
}

#[test]
fn a_rank_that_runs_ahead_enters_the_next_fence() {
    let mut bench = Bench::new(0, 2, 2);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.fence(0, 11, everybody(), Vec::new());
    bench.fence(1, 10, everybody(), Vec::new());
    assert_eq!(bench.upcalls.len(), 1, "the second fence lacks rank 1");
    bench.answer_last(Answer::Data(Status::SUCCESS, Bytes::default()));
    assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
    assert_eq!(bench.status(1, 10), Some(Status::SUCCESS));
    assert_eq!(bench.status(0, 11), None);
}

#[test]
fn fences_of_other_participants_are_other_fences() {
    let mut bench = Bench::new(0, 1, 3);
    bench.fence(0, 10, vec![proc(0), proc(1)], Vec::new());
    bench.fence(2, 10, everybody(), Vec::new());
    bench.fence(1, 10, vec![proc(1), proc(0)], Vec::new());
    assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
    assert_eq!(bench.status(1, 10), Some(Status::SUCCESS));
    assert_eq!(bench.status(2, 10), None);
    bench.fence(1, 11, vec![proc(0), proc(2)], Vec::new());
    assert_eq!(bench.status(1, 11), Some(Status::SUCCESS), "rank 1 is not in it, and is let through");
    bench.fence(0, 12, vec![proc(0), proc(2)], Vec::new());
    assert_eq!(bench.status(0, 12), None, "nobody stands in for rank 2");
    bench.fence(2, 12, vec![proc(0), proc(2)], Vec::new());
    assert_eq!((bench.status(0, 12), bench.status(2, 12)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    bench.request(1, 13, Request::Connect { procs: vec![proc(0), proc(2)], infos: Vec::new(), extra: Vec::new() });
    assert_eq!(bench.status(1, 13), Some(Status::ERR_BAD_PARAM), "as little can be told of a connect");
}

/// Lets two servers exchange the fence that both have handed up.
fn exchange(a: &mut Bench, b: &mut Bench) {
    let all = contributions(a, b);
    a.answer_last(Answer::Data(Status::SUCCESS, all.clone().into()));
    b.answer_last(Answer::Data(Status::SUCCESS, all.into()));
}

/// What both have to say in a fence.
fn contributions(a: &Bench, b: &Bench) -> Vec<u8> {
    let mut all = Vec::new();
    for bench in [a, b] {
        match &bench.upcalls.last().expect("a fence at the host").1 {
            Upcall::Fence { data, .. } => data.slices().for_each(|slice| all.extend_from_slice(slice)),
            other => panic!("{other:?}"),
        }
    }
    all
}

#[test]
fn a_collecting_fence_brings_other_nodes_values_by_scope() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    for (bench, rank) in [(&mut a, 0), (&mut b, 1)] {
        bench.put(rank, 1, "local", rank);
        bench.put(rank, 2, "remote", rank + 10);
        bench.put(rank, 3, "global", rank + 20);
        bench.fence(rank, 10, everybody(), collect());
    }
    exchange(&mut a, &mut b);
    assert_eq!(a.status(0, 10), Some(Status::SUCCESS));
    let now = vec![Info::new(keys::IMMEDIATE, Value::Bool(true))];
    for (of, key, expected) in [
        (1, "global", Ok(21)),
        (1, "remote", Ok(11)),
        (1, "local", Err(Status::ERR_NOT_FOUND)),
        (0, "global", Ok(20)),
        (0, "local", Ok(0)),
        (0, "remote", Err(Status::ERR_NOT_FOUND)),
    ] {
        a.get(0, 20, of, key, now.clone());
        assert_eq!(a.value(0, 20, key), Some(expected), "{key} of rank {of}");
    }
}

#[test]
fn large_values_stay_in_the_messages_that_brought_them() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    let value = |byte| Value::ByteObject(vec![byte; 5000].into());
    for (bench, rank) in [(&mut a, 0), (&mut b, 1)] {
        let kvals = (0..3).map(|n| Kval { key: Key::new(format!("k{n}")).unwrap(), value: value(n) }).collect();
        bench.request(rank, 9, Request::Commit { parts: vec![(3, kvals)] });
        bench.fence(rank, 10, everybody(), collect());
    }
    let Upcall::Fence { data, .. } = &b.upcalls.last().expect("a fence at the host").1 else { panic!("no fence") };
    assert_eq!(data.shared_len(), 3 * 5000, "the contribution means what the commit brought");
    exchange(&mut a, &mut b);
    assert_eq!(a.status(0, 10), Some(Status::SUCCESS));
    for rank in [0, 1] {
        let state = &a.engine.nspaces[&nspace()];
        let parts: Vec<_> = (0..3)
            .map(|n| match state.visible.get(Rank(rank), format!("k{n}").as_bytes()) {
                Some(Value::ByteObject(bytes)) => bytes.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!((0..3).all(|n| *parts[n] == [n as u8; 5000]), "rank {rank}");
        let whole = |n: usize| parts[n].backing().expect("a part of a message").as_ptr();
        assert!(whole(0) == whole(1) && whole(1) == whole(2), "all in the message of rank {rank}");
    }
}

/// A host may take nothing new before it has its memory back; the values are copied then, with shared memory, too: what lies in a
/// file somebody may cut.
#[test]
fn what_a_host_lends_is_given_back_before_anybody_hears_its_answer() {
    struct Lent(Vec<u8>, #[expect(dead_code, reason = "it is counted")] Arc<()>);
    impl AsRef<[u8]> for Lent {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let directory = tempfile::tempdir().unwrap();
    for directory in [None, Some(directory.path())] {
        let (mut a, mut b) = (Bench::in_directory(0, 2, 1, directory), Bench::new(1, 2, 1));
        a.engine.register_client(&proc(0), 1000, 1000, 0);
        a.connect(0);
        for (bench, rank) in [(&mut a, 0), (&mut b, 1)] {
            let kvals = (0..3).map(|n| {
                let bytes = vec![n | rank << 4; 1024 + usize::from(n)];
                Kval { key: Key::new(format!("k{n}")).unwrap(), value: Value::ByteObject(bytes.into()) }
            });
            bench.request(rank.into(), 9, Request::Commit { parts: vec![(3, kvals.collect())] });
            bench.fence(rank.into(), 10, everybody(), collect());
        }
        let lent = Arc::new(());
        let all = contributions(&a, &b);
        let (id, _) = a.upcalls.pop().expect("a fence at the host");
        a.engine.answer(id, Answer::Data(Status::SUCCESS, Bytes::external(Lent(all, lent.clone()))));
        assert_eq!(Arc::strong_count(&lent), 2, "not inside the answer");
        let mut has_heard = false;
        for output in a.engine.take_outputs() {
            match output {
                Output::Call(call) => {
                    call();
                    assert!(!has_heard && Arc::strong_count(&lent) == 1);
                }
                Output::Send { .. } => has_heard = true,
                _ => {}
            }
        }
        assert!(has_heard && Arc::strong_count(&lent) == 1 && a.engine.lent.is_empty());
        let state = &a.engine.nspaces[&nspace()];
        let bytes = |rank: u8, n: u8| {
            let value = state.visible.get(Rank(rank.into()), format!("k{n}").as_bytes()).expect("a value");
            let bytes = value.bytes().expect("bytes");
            assert!(bytes.len() == 1024 + usize::from(n) && bytes.iter().all(|byte| *byte == n | rank << 4));
        };
        (0..6).for_each(|n| bytes(n / 3, n % 3));
        for n in 0..3 {
            let key = format!("k{n}");
            let [own, remote] =
                [&state.visible, &state.remote].map(|data| data.shared(Rank(0), key.as_bytes()).unwrap());
            assert!(Arc::ptr_eq(own, remote), "nothing is held twice");
        }
        // Nobody waits for this one any more.
        a.engine.answer(id, Answer::Data(Status::SUCCESS, Bytes::external(Lent(vec![1], lent.clone()))));
        assert_eq!(Arc::strong_count(&lent), 2);
        a.drain();
        assert_eq!(Arc::strong_count(&lent), 1);
    }
}

/// What rank 1 contributed to the last fence.
fn contribution(b: &Bench) -> Vec<Kval> {
    let Upcall::Fence { data, .. } = &b.upcalls.last().expect("a fence at the host").1 else { panic!("no fence") };
    let ranks = blob::decode_fence(EXCHANGE, &data.clone().into_bytes().unwrap()).unwrap().remove(0).ranks;
    ranks.into_iter().flat_map(|(_, kvals)| kvals).collect()
}

/// Its keys.
fn contributed(b: &Bench) -> Vec<String> {
    contribution(b).iter().map(|kval| kval.key.to_string()).collect()
}

/// A value of the key `cid` for one group.
fn of_group(value: u32, group: u32) -> Kval {
    let group = Info { flags: InfoFlags::QUALIFIER, ..Info::new("group", Value::Uint32(group)) };
    Kval { key: keys::QUALIFIED_VALUE.into(), value: Value::infos([Info::new("cid", Value::Uint32(value)), group]) }
}

#[test]
fn a_fence_brings_what_is_new_since_the_last_one_of_the_same_participants() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    let by_name = || vec![proc(0), proc(1)];
    let mut tag = 10;
    let mut fence = |a: &mut Bench, b: &mut Bench, procs: Vec<Proc>, status: Status| {
        tag += 1;
        a.fence(0, tag, procs.clone(), collect());
        b.fence(1, tag, procs, collect());
        let keys = contributed(b);
        match status {
            Status::SUCCESS => exchange(a, b),
            _ => [a, b].into_iter().for_each(|bench| drop(bench.answer_last(Answer::Data(status, Bytes::default())))),
        }
        keys
    };
    b.put(1, 3, "first", 1);
    assert_eq!(fence(&mut a, &mut b, everybody(), Status::ERR_TIMEOUT), ["first"]);
    assert_eq!(fence(&mut a, &mut b, everybody(), Status::SUCCESS), ["first"], "the host had failed");
    assert_eq!(fence(&mut a, &mut b, everybody(), Status::SUCCESS), [""; 0]);
    b.put(1, 3, "second", 2);
    b.put(1, 1, "local", 2);
    b.put(1, 3, "first", 1);
    assert_eq!(fence(&mut a, &mut b, by_name(), Status::SUCCESS), ["first", "second"], "others know of nothing");
    assert_eq!(fence(&mut a, &mut b, everybody(), Status::SUCCESS), ["second"]);
    b.put(1, 3, "first", 3);
    assert_eq!(fence(&mut a, &mut b, everybody(), Status::SUCCESS), ["first"], "a value put anew");
    for (key, value) in [("first", 3), ("second", 2)] {
        a.get(0, 1000, 1, key, vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
        assert_eq!(a.value(0, 1000, key), Some(Ok(value)));
    }
    // A host that gives each server its own part alone.
    b.put(1, 3, "third", 4);
    for tag in [500, 501] {
        b.fence(1, tag, everybody(), collect());
        assert_eq!(contributed(&b), ["third"]);
        let Upcall::Fence { data, .. } = &b.upcalls.last().unwrap().1 else { unreachable!() };
        let own = data.clone().into_bytes().unwrap();
        b.answer_last(Answer::Data(Status::SUCCESS, own.into()));
    }
    // The host registers the job again: it may have come to other servers.
    let plan = JobPlan::read(&nspace(), 1, &[], None, NODES[1]).unwrap();
    assert_eq!(b.engine.register_nspace(plan), Status::SUCCESS);
    b.drain();
    b.fence(1, 502, everybody(), collect());
    assert_eq!(contributed(&b), ["first", "second", "third"]);
}

#[test]
fn a_global_value_with_qualifiers_takes_none_of_another_scope_along() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    let parts = vec![(1, vec![of_group(10, 1)]), (2, vec![of_group(20, 2)]), (3, vec![of_group(30, 3)])];
    b.request(1, 50, Request::Commit { parts });
    a.fence(0, 10, everybody(), collect());
    b.fence(1, 10, everybody(), collect());
    assert_eq!(contribution(&b), [of_group(20, 2), of_group(30, 3)]);
}

#[test]
fn values_with_qualifiers_go_to_other_nodes_one_by_one() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    // Both in one commit, and the first one anew in another.
    b.request(1, 50, Request::Commit { parts: vec![(2, vec![of_group(10, 1), of_group(20, 2)])] });
    b.request(1, 51, Request::Commit { parts: vec![(2, vec![of_group(11, 1)])] });
    a.fence(0, 10, everybody(), collect());
    b.fence(1, 10, everybody(), collect());
    assert_eq!(contribution(&b), [of_group(11, 1), of_group(20, 2)], "as released servers read them");
    exchange(&mut a, &mut b);
    let qualifier = |group| of_group(0, group).value.iter_infos().nth(1).cloned().unwrap();
    for (group, expected) in [(1, Status::SUCCESS), (2, Status::SUCCESS), (3, Status::ERR_NOT_FOUND)] {
        a.get(0, 20, 1, "cid", vec![qualifier(group), Info::new(keys::IMMEDIATE, Value::Bool(true))]);
        let reply = GetReply::decode(PLAIN, Version::OURS, &a.reply(0, 20).expect("a reply")).unwrap();
        assert_eq!(reply.status, expected, "{group}");
        if expected.is_success() {
            assert_eq!(reply.objects[0].1, [of_group(11, 1), of_group(20, 2)], "as released clients read them");
        }
    }
}

#[test]
fn a_fence_of_some_then_of_all_gives_the_newest_everywhere() {
    let (mut a, mut b) = (Bench::new(0, 2, 2), Bench::new(1, 2, 2));
    let some = vec![proc(0), proc(2)];
    a.put(0, 3, "key", 1);
    b.put(2, 3, "key", 2);
    a.fence(0, 10, some.clone(), collect());
    b.fence(2, 10, some, collect());
    exchange(&mut a, &mut b);
    a.put(0, 3, "key", 3);
    a.put(1, 3, "key", 4);
    for rank in 0..2 {
        a.fence(rank, 11, everybody(), collect());
        b.fence(rank + 2, 11, everybody(), collect());
    }
    exchange(&mut a, &mut b);
    for (of, expected) in [(0, 3), (1, 4), (2, 2)] {
        a.get(1, 20, of, "key", Vec::new());
        assert_eq!(a.value(1, 20, "key"), Some(Ok(expected)), "rank {of} on node A");
        b.get(3, 20, of, "key", Vec::new());
        assert_eq!(b.value(3, 20, "key"), Some(Ok(expected)), "rank {of} on node B");
    }
}

#[test]
fn garbage_from_the_exchange_fails_the_fence_and_is_told() {
    let mut bench = Bench::new(0, 2, 1);
    bench.fence(0, 10, everybody(), collect());
    bench.answer_last(Answer::Data(Status::SUCCESS, vec![7, 200, 1, 2].into()));
    assert_ne!(bench.status(0, 10), Some(Status::SUCCESS));
    assert!(bench.log.iter().any(|line| line.contains("fence")), "{:?}", bench.log);
}

#[test]
fn a_get_waits_for_the_commit_of_a_local_rank() {
    let mut bench = Bench::new(0, 1, 2);
    bench.get(0, 20, 1, "key", Vec::new());
    assert_eq!(bench.value(0, 20, "key"), None);
    bench.put(1, 3, "key", 5);
    assert_eq!(bench.value(0, 20, "key"), Some(Ok(5)));
    bench.get(0, 21, 1, "other", Vec::new());
    assert_eq!(bench.value(0, 21, "other"), None, "it may commit again");
    bench.pass(Duration::from_secs(3));
    assert_eq!(bench.value(0, 21, "other"), Some(Err(Status::ERR_NOT_FOUND)));
}

#[test]
fn what_a_local_rank_put_for_other_nodes_only_is_not_waited_for() {
    let mut bench = Bench::new(0, 2, 2);
    bench.get(1, 20, 0, "remote", Vec::new());
    assert_eq!(bench.value(1, 20, "remote"), None);
    bench.put(0, 2, "remote", 10);
    assert_eq!(bench.value(1, 20, "remote"), Some(Err(Status::ERR_NOT_FOUND)));
    bench.get(1, 21, 0, "remote", Vec::new());
    assert_eq!(bench.value(1, 21, "remote"), Some(Err(Status::ERR_NOT_FOUND)));
    // It may be put again for all.
    bench.put(0, 3, "remote", 11);
    bench.get(1, 22, 0, "remote", Vec::new());
    assert_eq!(bench.value(1, 22, "remote"), Some(Ok(11)));
}

#[test]
fn a_get_ends_by_its_timeout_or_the_ranks_death() {
    let mut bench = Bench::new(0, 1, 3);
    bench.get(0, 20, 1, "key", vec![Info::new(keys::TIMEOUT, Value::Int(5))]);
    bench.get(0, 21, 2, "key", Vec::new());
    bench.get(0, 22, 1, "key", vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
    assert_eq!(bench.value(0, 22, "key"), Some(Err(Status::ERR_NOT_FOUND)));
    bench.pass(Duration::from_secs(4));
    assert_eq!(bench.value(0, 20, "key"), None);
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.value(0, 20, "key"), Some(Err(Status::ERR_TIMEOUT)));
    bench.lose(2);
    assert_eq!(bench.value(0, 21, "key"), Some(Err(Status::ERR_NOT_FOUND)));
    bench.pass(LOSS_DELAY);
    assert!(bench.log.iter().any(|line| line.contains("job:2")), "{:?}", bench.log);
}

#[test]
fn whoever_names_a_time_hears_at_that_time() {
    let mut a = Bench::new(0, 1, 2);
    let within = |seconds| vec![Info::new(keys::TIMEOUT, Value::Int(seconds))];
    a.put(1, 3, "first", 1);
    // For a key that its rank may still put: to the end of the time, whether longer or shorter than the server waits itself.
    for (tag, seconds) in [(20, 1), (21, 5)] {
        a.get(0, tag, 1, "second", within(seconds));
    }
    a.get(0, 22, 1, "second", within(0));
    let requests = [
        (30, Request::Lookup { uid: 0, keys: vec!["service".into()], infos: within(3) }),
        (31, Request::Spawn { infos: within(3), apps: Vec::new() }),
        (32, Request::Query { queries: vec![Query { keys: vec![c"what".into()], qualifiers: within(3) }] }),
        (33, Request::JobControl { targets: Vec::new(), directives: within(3) }),
        (34, Request::Lookup { uid: 0, keys: vec!["service".into()], infos: within(0) }),
    ];
    requests.into_iter().for_each(|(tag, request)| a.request(0, tag, request));
    let mut heard = Vec::new();
    for half_second in 1..=12 {
        a.pass(Duration::from_millis(500));
        for tag in (20..40).filter(|tag| !heard.iter().any(|(_, heard, _)| heard == tag)).collect::<Vec<_>>() {
            heard.extend(a.status(0, tag).map(|status| (half_second, tag, status)));
        }
    }
    let late = Status::ERR_TIMEOUT;
    let expected =
        [(2, 20, late), (4, 22, Status::ERR_NOT_FOUND), (6, 30, late), (6, 31, late), (6, 32, late), (6, 33, late)];
    assert_eq!(heard, [&expected[..], &[(10, 21, late)]].concat());
    // The host's answers come too late for those, and in time for the one that waits.
    let upcalls: Vec<u64> = a.upcalls.iter().map(|(id, _)| *id).collect();
    for id in upcalls {
        a.engine.answer(id, Answer::Op(Status::ERR_NOT_FOUND));
    }
    a.drain();
    assert_eq!((30..40).filter_map(|tag| a.status(0, tag).map(|_| tag)).collect::<Vec<_>>(), [34]);
}

#[test]
fn the_first_get_that_may_be_late_wakes_the_server() {
    let mut bench = Bench::new(0, 1, 2);
    let begin = bench.now;
    let at = |seconds| Some(begin + Duration::from_secs(seconds));
    let within = |seconds| vec![Info::new(keys::TIMEOUT, Value::Int(seconds))];
    bench.get(0, 20, 1, "key", Vec::new());
    assert_eq!(bench.engine.deadline(), None);
    bench.get(0, 21, 1, "key", within(60));
    bench.get(0, 22, 1, "key", within(5));
    bench.get(0, 23, 1, "key", within(30));
    assert_eq!(bench.engine.deadline(), at(5));
    bench.pass(Duration::from_secs(5));
    assert_eq!((bench.status(0, 22), bench.status(0, 23)), (Some(Status::ERR_TIMEOUT), None));
    assert_eq!(bench.engine.deadline(), at(30));
    // They are answered; the server wakes once for nothing.
    bench.put(1, 3, "key", 1);
    assert_eq!(bench.value(0, 21, "key"), Some(Ok(1)));
    bench.pass(Duration::from_secs(25));
    assert_eq!(bench.engine.deadline(), None);
}

#[test]
fn direct_modex_is_asked_once_and_kept() {
    let (mut a, mut b) = (Bench::new(0, 2, 2), Bench::new(1, 2, 2));
    a.get(0, 20, 2, "key", Vec::new());
    a.get(1, 20, 2, "key", Vec::new());
    assert_eq!(a.upcalls.len(), 1);
    let answers = Arc::new(Mutex::new(Vec::new()));
    let answered = answers.clone();
    let done = Box::new(move |status, data| answered.lock().push((status, data)));
    assert_eq!(b.engine.dmodex_request(proc(2), done), Status::SUCCESS);
    b.drain();
    assert!(answers.lock().is_empty(), "rank 2 has not committed");
    b.put(2, 1, "hidden", 1);
    b.put(2, 2, "key", 9);
    let (status, data) = answers.lock().pop().expect("the commit answers");
    assert_eq!(status, Status::SUCCESS);
    // The request was answered by the first commit, before `key` was put: as with released servers.
    let answered = answers.clone();
    let done = Box::new(move |status, data| answered.lock().push((status, data)));
    b.engine.dmodex_request(proc(2), done);
    b.drain();
    let (_, whole) = answers.lock().pop().expect("committed ranks are answered at once");
    assert!(whole.len() > data.len());
    a.answer_last(Answer::Data(Status::SUCCESS, whole.into()));
    for rank in 0..2 {
        assert_eq!(a.value(rank, 20, "key"), Some(Ok(9)));
    }
    a.get(0, 21, 2, "key", Vec::new());
    assert_eq!(a.value(0, 21, "key"), Some(Ok(9)));
    a.get(0, 22, 2, "hidden", vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
    assert_eq!(a.value(0, 22, "hidden"), Some(Err(Status::ERR_NOT_FOUND)));
    assert!(a.upcalls.is_empty());
}

/// Open MPI exchanges values in the background while its ranks ask for them, and a host may lose what it was asked.
#[test]
fn a_fence_answers_who_waits_for_direct_modex() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 1));
    a.get(0, 20, 1, "key", Vec::new());
    a.get(0, 21, 1, "late", vec![Info::new(keys::TIMEOUT, Value::Int(5))]);
    a.get(0, 22, 1, "other", Vec::new());
    let (asked, _) = a.upcalls.pop().expect("the host is asked");
    b.put(1, 3, "key", 1);
    let packed = |kvals: &[(&'static str, u32)]| {
        let kvals: Vec<_> = kvals.iter().map(|(key, value)| (Key::from(*key), Value::Uint32(*value))).collect();
        let data = blob::encode_modex(PLAIN, kvals.iter().map(|(key, value)| (key, value))).unwrap();
        Answer::Data(Status::SUCCESS, data.into())
    };
    b.put(1, 3, "key", 2);
    for (bench, rank) in [(&mut a, 0), (&mut b, 1)] {
        bench.fence(rank, 10, everybody(), collect());
    }
    a.pass(Duration::from_secs(4));
    exchange(&mut a, &mut b);
    assert_eq!(a.value(0, 20, "key"), Some(Ok(2)));
    assert_eq!((a.value(0, 21, "late"), a.value(0, 22, "other")), (None, None), "the host may bring these");
    assert!(a.upcalls.is_empty(), "and has been asked for them");
    a.pass(Duration::from_secs(1));
    assert_eq!(a.value(0, 21, "late"), Some(Err(Status::ERR_TIMEOUT)), "the fence is no reason to wait longer");
    // What the host brings was packed before the fence, or after it.
    a.engine.answer(asked, packed(&[("key", 1), ("other", 3)]));
    a.drain();
    assert_eq!(a.value(0, 22, "other"), Some(Ok(3)));
    a.get(0, 23, 1, "key", Vec::new());
    assert_eq!(a.value(0, 23, "key"), Some(Ok(2)), "none older than the last fence");
    // Asked for after the fence, it is news.
    a.get(0, 24, 1, "key", vec![Info::new(keys::GET_REFRESH_CACHE, Value::Bool(true))]);
    a.answer_last(packed(&[("key", 4)]));
    assert_eq!(a.value(0, 24, "key"), Some(Ok(4)));
}

/// Clients from 5.0 on ask so before they look for the value that is to be fresh.
#[test]
fn a_refresh_brings_all_that_there_is_by_now() {
    let (mut a, mut b) = (Bench::new(0, 2, 2), Bench::new(1, 2, 2));
    let refresh = |bench: &mut Bench, tag, of: u32| {
        let of = proc(of);
        bench.request(0, tag, Request::RefreshCache { nspace: of.nspace, rank: of.rank });
    };
    let told = |bench: &mut Bench, tag| -> Option<(Status, Vec<(String, Value)>)> {
        let payload = bench.reply(0, tag)?;
        let RefreshReply { status, kvals } = RefreshReply::decode(PLAIN, Version::OURS, &payload).unwrap();
        Some((status, kvals.into_iter().map(|kval| (kval.key.to_string(), kval.value)).collect()))
    };
    let nothing = Some((Status::ERR_NOT_FOUND, Vec::new()));
    let one = |number| Some((Status::SUCCESS, vec![("key".to_owned(), Value::Uint32(number))]));
    // Who waits for a commit asks for the value next: this is no reason to wait, nor to ask the host.
    for (tag, of) in [(20, 1), (21, 2), (22, 9)] {
        refresh(&mut a, tag, of);
        assert_eq!(told(&mut a, tag), nothing);
    }
    let of = Proc::new(Nspace::new("nobody").unwrap(), Rank(0));
    a.request(0, 23, Request::RefreshCache { nspace: of.nspace, rank: of.rank });
    assert_eq!(a.status(0, 23), Some(Status::ERR_NOT_FOUND));
    assert!(a.upcalls.is_empty());
    for number in 1..=2 {
        a.put(1, 3, "key", number);
        refresh(&mut a, 24 + number, 1);
        assert_eq!(told(&mut a, 24 + number), one(number));
    }
    b.put(2, 3, "key", 5);
    for (bench, ranks) in [(&mut a, 0..2), (&mut b, 2..4)] {
        ranks.for_each(|rank| bench.fence(rank, 10, everybody(), collect()));
    }
    exchange(&mut a, &mut b);
    // Of a process of another node the host brings what it has put since.
    let packed = |number: u32| {
        let (key, value) = (Key::from("key"), Value::Uint32(number));
        let data = blob::encode_modex(PLAIN, [(&key, &value)].into_iter()).unwrap();
        Answer::Data(Status::SUCCESS, data.into())
    };
    refresh(&mut a, 30, 2);
    assert_eq!(told(&mut a, 30), None);
    a.answer_last(packed(6));
    assert_eq!(told(&mut a, 30), one(6));
    // One that does not bring it, or does not answer, leaves what is here.
    refresh(&mut a, 31, 2);
    a.answer_last(Answer::Data(Status::ERR_NOT_FOUND, Vec::new().into()));
    assert_eq!(told(&mut a, 31), one(6));
    refresh(&mut a, 32, 2);
    a.pass(Duration::from_secs(3));
    assert_eq!(told(&mut a, 32), one(6));
}

#[test]
fn a_commit_of_nothing_ends_the_wait_for_it() {
    let (mut a, mut b) = (Bench::new(0, 2, 1), Bench::new(1, 2, 2));
    let answers = Arc::new(Mutex::new(Vec::new()));
    let answered = answers.clone();
    let done = Box::new(move |status, data: Vec<u8>| answered.lock().push((status, data)));
    assert_eq!(b.engine.dmodex_request(proc(2), done), Status::SUCCESS);
    b.get(3, 20, 2, "key", Vec::new());
    b.request(2, 50, Request::Commit { parts: Vec::new() });
    assert_eq!(b.status(2, 50), Some(Status::SUCCESS));
    let (status, data) = answers.lock().pop().expect("the commit answers");
    a.get(0, 20, 1, "key", Vec::new());
    a.answer_last(Answer::Data(status, data.into()));
    b.pass(Duration::from_secs(3));
    for (bench, rank) in [(&mut a, 0), (&mut b, 3)] {
        assert_eq!(bench.value(rank, 20, "key"), Some(Err(Status::ERR_NOT_FOUND)));
    }
}

#[test]
fn a_host_without_direct_modex_is_an_answer() {
    let mut bench = Bench::new(0, 2, 1);
    bench.get(0, 20, 1, "key", Vec::new());
    bench.answer_last(Answer::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.value(0, 20, "key"), Some(Err(Status::ERR_NOT_SUPPORTED)));
}

#[test]
fn who_is_not_who_he_says_is_turned_away() {
    let mut bench = Bench::without_clients(0, 1, 2);
    bench.engine.register_client(&proc(0), 1000, 1000, 0);
    let secret = bench.engine.nspaces[&nspace()].clients[&Rank(0)].secret.text().to_owned();
    let unix = |secret: &str| Hello { psec: "pmix-dstore".into(), credential: secret.into(), ..Bench::hello(0) };
    let claims = |uid, gid| Hello { credential: Hello::native_credential(uid, gid), ..Bench::hello(0) };
    let of_user = |uid| Transport::Tcp { owner: Some(uid) };
    let cases = [
        // The kernel's word counts, and not the peer's. Root is a user like others.
        (of_user(1000), Bench::hello(0), true),
        (of_user(1000), claims(0, 0), true),
        (of_user(1001), Bench::hello(0), false),
        (of_user(0), Bench::hello(0), false),
        (of_user(0), claims(0, 0), false),
        (of_user(1000), Hello { credential: vec![0; 7], ..Bench::hello(0) }, false),
        // Without its word, where claims are believed.
        (TCP, claims(1001, 1000), false),
        (TCP, claims(1000, 1001), false),
        (TCP, Bench::hello(1), false),
        (TCP, Hello { psec: "none".into(), ..Bench::hello(0) }, false),
        (TCP, unix(&secret), false),
        (TCP, Bench::hello(0), true),
        (Transport::Unix { uid: 1000, gid: 1000, pid: 1 }, unix("0000"), false),
        (Transport::Unix { uid: 1001, gid: 1001, pid: 1 }, unix(&secret), false),
        (Transport::Unix { uid: 0, gid: 0, pid: 1 }, unix(&secret), false),
        (Transport::Unix { uid: 1000, gid: 1000, pid: 1 }, Bench::hello(0), false),
        (Transport::Unix { uid: 1000, gid: 1000, pid: 1 }, unix(&secret), true),
    ];
    for (number, (transport, hello, allowed)) in cases.into_iter().enumerate() {
        let id = PeerId(200 + number as u64);
        bench.engine.hello(id, transport, hello);
        bench.drain();
        assert_eq!(bench.closed.contains(&id), !allowed, "case {number}: {:?}", bench.log);
        assert_eq!(!bench.upcalls.is_empty(), allowed, "case {number}");
        bench.upcalls.clear();
    }
    bench.engine.deregister_client(&proc(0));
    bench.engine.hello(PeerId(300), Transport::Unix { uid: 1000, gid: 1000, pid: 1 }, unix(&secret));
    bench.drain();
    assert!(bench.closed.contains(&PeerId(300)), "a secret ends with its client");
}

#[test]
fn roots_socket_is_a_rank_where_the_client_is_roots() {
    let mut bench = Bench::without_clients(0, 1, 1);
    bench.engine.register_client(&proc(0), 0, 0, 0);
    bench.engine.hello(peer(0), Transport::Tcp { owner: Some(0) }, Bench::hello(0));
    bench.engine.hello(peer(1), Transport::Tcp { owner: Some(1000) }, Bench::hello(0));
    bench.drain();
    assert_eq!((bench.upcalls.len(), bench.closed), (1, vec![peer(1)]));
}

#[test]
fn without_the_kernels_word_claims_count_only_where_the_administrator_says_so() {
    let mut bench = Bench::without_clients(0, 1, 1);
    bench.engine.config.trust_claims = false;
    bench.engine.register_client(&proc(0), 1000, 1000, 0);
    for id in 0..3 {
        bench.engine.hello(peer(id), TCP, Bench::hello(0));
    }
    bench.drain();
    let name = || Answer::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("tool").unwrap(), Rank(0))));
    assert!(bench.knock(peer(3), (tool(0).0, TCP), name()).is_none());
    bench.drain();
    assert_eq!((bench.upcalls.len(), bench.closed.len()), (0, 3));
    assert!(bench.log.len() == 1 && bench.log[0].contains("PMIX_DSTORE_TRUST_CLAIMS=1"), "{:?}", bench.log);
}

#[test]
fn a_tool_proves_itself_by_the_servers_secret() {
    let mut bench = Bench::without_clients(0, 1, 1);
    bench.engine.config.trust_claims = false;
    let secret = Secret::new().unwrap();
    let shows = |uid, owner, credential: &str| {
        let hello = Hello { psec: "pmix-dstore".into(), credential: credential.into(), ..tool(uid).0 };
        (hello, Transport::Tcp { owner })
    };
    let name = || Answer::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("tool").unwrap(), Rank(0))));
    assert!(bench.knock(peer(50), shows(1000, Some(1000), secret.text()), name()).is_none(), "there is none");
    bench.engine.config.tool_secret = Some(secret.clone());
    for (uid, owner, credential, allowed) in [
        (1000, None, secret.text(), true),
        (0, None, secret.text(), true),
        (1000, Some(1000), secret.text(), true),
        (0, Some(0), secret.text(), true),
        (1000, None, "0000", false),
        (1000, None, "", false),
        // The secret has got out.
        (1000, Some(2000), secret.text(), false),
        (2000, None, secret.text(), false),
    ] {
        let knocked = bench.knock(peer(50), shows(uid, owner, credential), name());
        assert_eq!(knocked.is_some(), allowed, "{uid} {owner:?} {credential}");
        bench.lose(50);
    }
}

#[test]
fn an_event_reaches_those_who_want_it_once() {
    let mut bench = Bench::new(0, 1, 3);
    let code = Status(-3456);
    for rank in 0..2 {
        bench.request(rank, 30, Request::RegisterEvents { codes: vec![code], infos: Vec::new() });
        assert_eq!(bench.status(rank, 30), Some(Status::SUCCESS));
    }
    bench.request(0, 31, Request::Notify { status: code, range: 3, infos: Vec::new() });
    bench.answer_last(Answer::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.status(0, 31), Some(Status::SUCCESS));
    let event = Notification::decode(PLAIN, &bench.reply(1, TAG_NOTIFY).expect("rank 1 hears")).unwrap();
    assert_eq!((event.status, event.source), (code, proc(0)));
    assert!(bench.reply(0, TAG_NOTIFY).is_none(), "not the originator");
    assert!(bench.reply(2, TAG_NOTIFY).is_none(), "not who did not ask");
    bench.request(2, 32, Request::RegisterEvents { codes: vec![code], infos: Vec::new() });
    assert!(bench.reply(2, TAG_NOTIFY).is_some(), "who registers later gets what was kept");
    bench.request(1, 33, Request::RegisterEvents { codes: vec![code], infos: Vec::new() });
    assert!(bench.reply(1, TAG_NOTIFY).is_none(), "but nobody gets it twice");
    bench.request(1, 0, Request::DeregisterEvents { codes: vec![code] });
    bench.request(0, 34, Request::Notify { status: code, range: 2, infos: Vec::new() });
    assert!(bench.reply(1, TAG_NOTIFY).is_none());
    assert!(bench.upcalls.is_empty(), "the local range is not the host's business");
}

#[test]
fn a_rank_that_dies_in_a_fence_holds_nobody() {
    let mut bench = Bench::new(0, 1, 3);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.fence(1, 10, everybody(), Vec::new());
    bench.lose(2);
    for rank in 0..2 {
        let status = bench.status(rank, 10).expect("released");
        assert_eq!(status, Status::ERR_PARTIAL_SUCCESS);
    }
    assert!(bench.log.iter().any(|line| line.contains("job:2")), "{:?}", bench.log);
}

#[test]
fn a_rank_that_entered_and_died_does_not_count_for_another() {
    let mut bench = Bench::new(0, 1, 3);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.lose(0);
    bench.fence(1, 10, everybody(), Vec::new());
    assert_eq!(bench.status(1, 10), None, "rank 2 is still to come");
    bench.fence(2, 10, everybody(), Vec::new());
    assert_eq!(bench.status(1, 10), Some(Status::ERR_PARTIAL_SUCCESS));
}

#[test]
fn a_rank_that_dies_while_its_fence_is_at_the_host_changes_nothing_for_the_others() {
    let (mut a, mut b) = (Bench::new(0, 2, 2), Bench::new(1, 2, 2));
    for (bench, ranks) in [(&mut a, [0, 1]), (&mut b, [2, 3])] {
        for rank in ranks {
            bench.put(rank, 3, "key", rank);
            bench.fence(rank, 10, everybody(), collect());
        }
    }
    a.lose(1);
    exchange(&mut a, &mut b);
    // All had entered; what it put is there.
    let told = [a.status(0, 10), b.status(2, 10), b.status(3, 10)];
    assert_eq!(told, [Some(Status::SUCCESS); 3]);
    b.get(2, 20, 1, "key", vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
    assert_eq!(b.value(2, 20, "key"), Some(Ok(1)));
    // The next one goes up without it, and says so to the host, who decides.
    a.fence(0, 11, everybody(), Vec::new());
    let Some((_, Upcall::Fence { infos, .. })) = a.upcalls.last() else { panic!("a fence for the host") };
    let told = Info::find(infos, keys::LOCAL_COLLECTIVE_STATUS);
    assert_eq!(told, Some(&Value::Status(Status::ERR_PARTIAL_SUCCESS)));
    a.answer_last(Answer::Data(Status::ERR_TIMEOUT, Bytes::default()));
    assert_eq!(a.status(0, 11), Some(Status::ERR_TIMEOUT));
}

#[test]
fn a_rank_that_the_host_knows_to_be_dead_does_not_count_for_another() {
    let mut bench = Bench::new(0, 1, 3);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.fence(1, 10, everybody(), Vec::new());
    // The host tells of its end before its connection does, and before all that it had sent has been read.
    bench.engine.deregister_client(&proc(1));
    bench.drain();
    assert_eq!(bench.status(1, 10), Some(Status::ERR_LOST_CONNECTION));
    assert_eq!(bench.status(0, 10), None, "rank 2 is still to come");
    bench.fence(1, 11, everybody(), Vec::new());
    assert_eq!(bench.status(1, 11), Some(Status::ERR_LOST_CONNECTION));
    assert_eq!(bench.status(0, 10), None, "rank 2 is still to come");
    bench.fence(2, 10, everybody(), Vec::new());
    for rank in [0, 2] {
        assert_eq!(bench.status(rank, 10), Some(Status::ERR_PARTIAL_SUCCESS));
    }
}

#[test]
fn a_fence_times_out_and_says_who_is_missing() {
    let mut bench = Bench::new(0, 1, 2);
    bench.fence(0, 10, everybody(), vec![Info::new(keys::TIMEOUT, Value::Int(1))]);
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.status(0, 10), Some(Status::ERR_TIMEOUT));
    assert!(bench.log.iter().any(|line| line.contains("job:1")), "{:?}", bench.log);
}

#[test]
fn a_malformed_message_costs_its_sender_the_connection() {
    let mut bench = Bench::new(0, 1, 2);
    bench.engine.message(peer(0), 10, vec![2, 3, 255, 255, 255], bench.now);
    bench.drain();
    assert_eq!(bench.closed, [peer(0)]);
    bench.get(1, 20, 1, "key", vec![Info::new(keys::IMMEDIATE, Value::Bool(true))]);
    assert!(bench.value(1, 20, "key").is_some(), "the others are served on");
}

#[test]
fn a_deregistered_namespace_lets_its_waiters_go() {
    let mut bench = Bench::new(0, 1, 2);
    bench.get(0, 20, 1, "key", Vec::new());
    bench.engine.deregister_nspace(&nspace());
    bench.drain();
    assert_eq!(bench.value(0, 20, "key"), Some(Err(Status::ERR_NOT_FOUND)));
}

#[test]
fn a_forgotten_jobs_data_are_freed_behind_what_was_due_already() {
    let mut bench = Bench::new(0, 1, 2);
    let job = bench.engine.job(&nspace()).unwrap();
    bench.engine.deregister_nspace(&nspace());
    let of_caller = Arc::new(Mutex::new(0));
    let (seen, watched) = (of_caller.clone(), job.clone());
    bench.engine.defer(Box::new(move || *seen.lock() = Arc::strong_count(&watched)));
    bench.engine.free_discarded();
    bench.drain();
    assert_eq!(*of_caller.lock(), 3, "this one's, the callback's, and the data to be freed");
    assert_eq!(Arc::strong_count(&job), 1);
}

/// Puts, fences, gets and deaths in an order that a seed decides: nobody who lives waits for ever.
#[test]
fn no_order_of_deaths_leaves_anybody_waiting() {
    for seed in 0..500_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = move |below: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % u64::from(below)) as u32
        };
        let mut bench = Bench::new(0, 1, 4);
        let mut alive = [true; 4];
        let mut waiting: Vec<(u32, u32)> = Vec::new();
        for tag in 1000..1040 {
            let rank = random(4);
            if !alive[rank as usize] || waiting.iter().any(|(waiter, _)| *waiter == rank) {
                continue;
            }
            match random(8) {
                0 => {
                    alive[rank as usize] = false;
                    bench.lose(rank);
                }
                1..=3 => {
                    bench.fence(rank, tag, everybody(), Vec::new());
                    waiting.push((rank, tag));
                }
                4 | 5 => bench.put(rank, 3, "key", tag),
                _ => {
                    bench.get(rank, tag, random(4), "key", Vec::new());
                    waiting.push((rank, tag));
                }
            }
            waiting.retain(|(rank, tag)| bench.reply(*rank, *tag).is_none());
        }
        for rank in 0..4 {
            if alive[rank as usize] && !waiting.iter().any(|(waiter, _)| *waiter == rank) {
                bench.lose(rank);
                alive[rank as usize] = false;
            }
        }
        bench.pass(Duration::from_secs(3));
        waiting.retain(|(rank, tag)| bench.reply(*rank, *tag).is_none());
        // Those still waiting may wait for each other: a fence for a Get, the Get for a commit that cannot come.
        for (rank, _) in waiting.clone() {
            bench.lose(rank);
            waiting.retain(|(rank, tag)| bench.reply(*rank, *tag).is_none());
        }
        assert!(bench.engine.collectives.is_empty(), "seed {seed}: a fence is left over");
        assert!(bench.engine.gets.deadline().is_none(), "seed {seed}: a Get is left over");
    }
}

/// Numbers that look drawn; a seed replays a run.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as u32 % end
    }
}

/// Attaches as a client of the namespace would.
fn attach(bench: &mut Bench, rank: u32) -> NamespaceView {
    let env = bench.engine.setup_fork(&proc(rank));
    bench.drain();
    let (_, directory) = env.iter().find(|(name, _)| name == "PMIX_DSTORE_SEGMENTS").expect("shared memory");
    let (_, id) = env.iter().find(|(name, _)| name == "PMIX_DSTORE_INODE").expect("shared memory");
    NamespaceView::attach(Directory::open(Path::new(directory), id.to_str().unwrap().parse().unwrap()).unwrap())
        .unwrap()
}

fn read(view: &NamespaceView, rank: u32, key: &str) -> Option<u32> {
    view.modex(Rank(rank), &KeyRef::from(key)).and_then(|value| value.to_value().ok()?.as_u32())
}

/// Puts of some ranks, again and again, with a fence now and then: readers see the newest after each fence, through
/// all the merges.
#[test]
fn segments_hold_the_newest_of_every_rank() {
    const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::in_directory(0, 1, 4, Some(directory.path()));
    for rank in 0..4 {
        bench.engine.register_client(&proc(rank), 1000, 1000, 0);
        bench.connect(rank);
    }
    let view = attach(&mut bench, 0);
    let mut model: HashMap<(u32, &str), u32> = HashMap::new();
    let mut state = 88_172_645_463_325_252_u64;
    for round in 0..200_u32 {
        for _ in 0..round % 7 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (rank, key) = ((state % 4) as u32, KEYS[(state >> 8) as usize % 5]);
            bench.put(rank, 3, key, round);
            model.insert((rank, key), round);
        }
        for rank in 0..4 {
            bench.fence(rank, 1000 + round, everybody(), collect());
        }
        for rank in 0..4 {
            assert_eq!(bench.status(rank, 1000 + round), Some(Status::SUCCESS));
            for key in KEYS {
                assert_eq!(read(&view, rank, key), model.get(&(rank, key)).copied(), "round {round} rank {rank} {key}");
            }
        }
    }
    let stats = bench.engine.stats();
    assert!(stats.segments <= 8, "merging keeps segments few: {stats:?}");
    bench.engine.deregister_nspace(&nspace());
    assert!(view.is_retired());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}

/// Two servers of two ranks each, with all kinds of fences in any order, values short and long, jobs registered anew: readers
/// of both nodes see what the fences have brought, and nothing that they have not.
#[test]
fn readers_of_each_node_see_what_fences_have_brought() {
    const KEYS: [(&str, u8); 6] = [("g0", 3), ("g1", 3), ("long g", 3), ("r0", 2), ("long r", 2), ("l0", 1)];
    let read = |view: &NamespaceView, rank, key: &str| {
        let value = view.modex(Rank(rank), &KeyRef::from(key))?.to_value().expect("as put");
        match &value {
            Value::ByteObject(bytes) => bytes.first_chunk().map(|number| u32::from_le_bytes(*number)),
            number => number.as_u32(),
        }
    };
    for seed in 1..=8 {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut benches = [0, 1].map(|node| Bench::in_directory(node, 2, 2, Some(directories[node].path())));
        let mut random = Xorshift(seed);
        for rank in 0..4 {
            let bench = &mut benches[rank as usize / 2];
            bench.engine.register_client(&proc(rank), 1000, 1000, 0);
            bench.connect(rank);
        }
        let views = [0, 1].map(|node| attach(&mut benches[node], 2 * node as u32));
        // What was put last, and what each node may see of it.
        let mut put: HashMap<(u32, usize), u32> = HashMap::new();
        let mut seen: [HashMap<(u32, usize), u32>; 2] = Default::default();
        for round in 1..150_u32 {
            let (rank, key) = (random.below(4), random.below(KEYS.len() as u32) as usize);
            let (name, scope) = KEYS[key];
            let value = match name.starts_with("long") {
                true => {
                    let mut bytes = vec![round as u8; 1000 + random.below(3000) as usize];
                    bytes[..4].copy_from_slice(&round.to_le_bytes());
                    Value::ByteObject(bytes.into())
                }
                false => Value::Uint32(round),
            };
            let own = rank as usize / 2;
            let kval = Kval { key: Key::from(name), value };
            benches[own].request(rank, 50, Request::Commit { parts: vec![(scope, vec![kval])] });
            assert_eq!(benches[own].status(rank, 50), Some(Status::SUCCESS));
            put.insert((rank, key), round);
            // A reader may hold what was there before.
            seen[own].entry((rank, key)).and_modify(|value| *value = round);
            if random.below(12) == 0 {
                let plan = benches[own].plan(own, 2, 2);
                assert_eq!(benches[own].engine.register_nspace(plan), Status::SUCCESS);
                benches[own].drain();
            }
            if random.below(3) != 0 {
                continue;
            }
            let some =
                [everybody(), vec![proc(0), proc(2)], (0..4).map(proc).collect(), vec![proc(1), proc(2), proc(3)]];
            let procs = &some[random.below(4) as usize];
            let members: Vec<u32> =
                (0..4).filter(|rank| procs.iter().any(|member| member.covers(&proc(*rank)))).collect();
            let is_collecting = random.below(4) != 0;
            for rank in &members {
                let infos = if is_collecting { collect() } else { Vec::new() };
                benches[*rank as usize / 2].fence(*rank, 1000 + round, procs.clone(), infos);
            }
            let has_failed = random.below(6) == 0;
            let [a, b] = &mut benches;
            if has_failed {
                [a, b].into_iter().for_each(|bench| drop(bench.answer_last(Answer::Op(Status::ERR_TIMEOUT))));
            } else {
                let all = contributions(a, b);
                for bench in [a, b] {
                    bench.answer_last(Answer::Data(Status::SUCCESS, Bytes::external(all.clone())));
                }
            }
            for rank in &members {
                let status = benches[*rank as usize / 2].status(*rank, 1000 + round);
                assert_eq!(status, Some(if has_failed { Status::ERR_TIMEOUT } else { Status::SUCCESS }));
            }
            for ((rank, key), value) in &put {
                let (_, scope) = KEYS[*key];
                for (node, seen) in seen.iter_mut().enumerate() {
                    let is_own = node as u32 == rank / 2;
                    let is_brought = is_collecting && !has_failed && scope != 1 && members.contains(rank);
                    // What local ranks have put is published at the end of any fence, whatever it has brought.
                    if if is_own { scope != 2 } else { is_brought } {
                        seen.insert((*rank, *key), *value);
                    }
                }
            }
            for (node, view) in views.iter().enumerate() {
                for (rank, key) in (0..4).flat_map(|rank| (0..KEYS.len()).map(move |key| (rank, key))) {
                    let what = (seed, round, node, rank, KEYS[key].0);
                    assert_eq!(read(view, rank, KEYS[key].0), seen[node].get(&(rank, key)).copied(), "{what:?}");
                    if node as u32 != rank / 2 {
                        let state = &benches[node].engine.nspaces[&nspace()];
                        let own = state.visible.get(Rank(rank), KEYS[key].0.as_bytes());
                        let published =
                            view.modex(Rank(rank), &KeyRef::from(KEYS[key].0)).map(|value| value.to_value());
                        assert_eq!(own, published.map(|value| value.unwrap()).as_ref(), "{what:?}");
                    }
                }
            }
        }
        let segments = benches.each_ref().map(|bench| bench.engine.stats().segments);
        assert!(segments.iter().all(|segments| *segments <= 9), "merged: {segments:?}");
    }
}

#[test]
fn a_value_put_again_is_published_with_its_commit() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::in_directory(0, 1, 2, Some(directory.path()));
    for rank in 0..2 {
        bench.engine.register_client(&proc(rank), 1000, 1000, 0);
        bench.connect(rank);
    }
    let view = attach(&mut bench, 0);
    bench.put(1, 3, "key", 1);
    assert_eq!(read(&view, 1, "key"), None, "the first commit waits for a fence");
    for rank in 0..2 {
        bench.fence(rank, 10, everybody(), Vec::new());
    }
    assert_eq!(read(&view, 1, "key"), Some(1));
    bench.put(1, 3, "key", 2);
    assert_eq!(read(&view, 1, "key"), Some(2), "a reader must not keep the old value");
    bench.put(1, 2, "hidden", 3);
    for rank in 0..2 {
        bench.fence(rank, 11, everybody(), collect());
    }
    assert_eq!(read(&view, 1, "hidden"), None, "remote-only values of local ranks stay out");
}

#[test]
fn what_direct_modex_brings_is_published_a_little_later() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::in_directory(0, 2, 1, Some(directory.path()));
    bench.engine.register_client(&proc(0), 1000, 1000, 0);
    bench.connect(0);
    let view = attach(&mut bench, 0);
    bench.get(0, 20, 1, "key", Vec::new());
    let kval = Kval { key: Key::from("key"), value: Value::Uint32(6) };
    let data = blob::encode_modex(PLAIN, [(&kval.key, &kval.value)].into_iter()).unwrap();
    bench.answer_last(Answer::Data(Status::SUCCESS, data.into()));
    assert_eq!(bench.value(0, 20, "key"), Some(Ok(6)));
    assert!(bench.engine.deadline().is_some());
    bench.pass(Duration::from_secs(1));
    assert_eq!(read(&view, 1, "key"), Some(6));
}

/// Hosts may make the environment in a forked child: what it needs is made before, and in the server's process.
#[test]
fn the_directory_is_made_before_environments_are() {
    let directory = tempfile::tempdir().unwrap();
    let count = || std::fs::read_dir(directory.path()).unwrap().count();
    let mut bench = Bench::in_directory(0, 1, 2, Some(directory.path()));
    // Nobody reads it yet.
    assert_eq!(count(), 0);
    for rank in 0..2 {
        bench.engine.register_client(&proc(rank), 1000, 1000, 0);
        assert_eq!(count(), 1);
    }
    let listening = bench.engine.take_outputs().into_iter().filter(|output| matches!(output, Output::Listen(..)));
    assert_eq!(listening.count(), 1);
    for rank in 0..2 {
        let env = bench.engine.setup_fork(&proc(rank));
        assert!(env.iter().any(|(name, _)| name == "PMIX_DSTORE_SEGMENTS"), "{env:?}");
    }
    assert!(bench.engine.take_outputs().is_empty());
    assert_eq!(count(), 1);
}

/// A host that is faster than the server's thread must not fill the process with sockets.
#[test]
fn jobs_that_nobody_came_to_know_of_leave_no_sockets() {
    let directory = tempfile::tempdir().unwrap();
    for knows in [true, false] {
        let mut bench = Bench::in_directory(0, 1, 1, Some(directory.path()));
        bench.engine.register_client(&proc(0), 1000, 1000, 0);
        if knows {
            bench.engine.take_outputs();
        }
        bench.engine.deregister_nspace(&proc(0).nspace);
        let outputs = bench.engine.take_outputs();
        assert!(!outputs.iter().any(|output| matches!(output, Output::Listen(..))));
        assert_eq!(outputs.iter().any(|output| matches!(output, Output::Unlisten(_))), knows);
    }
}

#[test]
fn the_clients_socket_has_the_mode_that_the_host_wants() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::in_directory(0, 1, 1, Some(directory.path()));
    bench.engine.register_client(&proc(0), geteuid().as_raw(), getegid().as_raw(), 0);
    bench.drain();
    let environment = bench.engine.setup_fork(&proc(0));
    let segments = environment.iter().find(|(name, _)| name == "PMIX_DSTORE_SEGMENTS").expect("shared memory");
    let mode = std::fs::metadata(Path::new(&segments.1).join("sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn without_room_everything_goes_over_the_socket() {
    let mut bench = Bench::in_directory(0, 1, 1, Some(Path::new("/proc/no such directory")));
    bench.engine.register_client(&proc(0), 1000, 1000, 0);
    let env = bench.engine.setup_fork(&proc(0));
    bench.drain();
    assert!(!env.iter().any(|(name, _)| name.starts_with("PMIX_DSTORE")), "{env:?}");
    assert!(env.contains(&("PMIX_GDS_MODULE".into(), "hash".into())));
    assert_eq!(bench.log.len(), 1, "{:?}", bench.log);
    bench.connect(0);
    bench.put(0, 3, "key", 4);
    bench.get(0, 20, 0, "key", Vec::new());
    assert_eq!(bench.value(0, 20, "key"), Some(Ok(4)));
}

#[test]
fn the_reply_to_a_fence_is_short() {
    let mut bench = Bench::new(0, 1, 1);
    bench.fence(0, 10, everybody(), Vec::new());
    let bytes = bench.reply(0, 10).unwrap();
    assert_eq!(FenceReply::decode(PLAIN, Version::OURS, &bytes).unwrap().segment_count, None);
    assert!(bytes.len() < 8, "{bytes:?}");
}

/// Connects another program under a rank.
fn connect_as(bench: &mut Bench, id: PeerId, rank: u32) {
    bench.engine.hello(id, TCP, Bench::hello(rank));
    bench.drain();
    bench.answer_last(Answer::Op(Status::SUCCESS));
}

#[test]
fn a_client_that_closes_before_the_host_has_answered_its_finalize_is_not_lost() {
    let mut bench = Bench::new(0, 1, 2);
    bench.request(0, 10, Request::Finalize);
    bench.lose(0);
    assert!(bench.log.is_empty(), "{:?}", bench.log);
    assert!(matches!(bench.upcalls.pop(), Some((_, Upcall::ClientFinalized { .. }))));
}

#[test]
fn a_rank_with_another_program_still_running_is_not_gone() {
    let mut bench = Bench::new(0, 1, 3);
    connect_as(&mut bench, PeerId(900), 0);
    bench.engine.disconnected(PeerId(900), bench.now);
    bench.drain();
    for rank in 0..2 {
        bench.fence(rank, 10, everybody(), Vec::new());
    }
    assert_eq!(bench.status(0, 10), None, "rank 2 is still to come");
    bench.fence(2, 10, everybody(), Vec::new());
    assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
}

#[test]
fn two_programs_of_a_rank_count_once() {
    let mut bench = Bench::new(0, 1, 2);
    connect_as(&mut bench, PeerId(900), 0);
    bench.fence(0, 10, everybody(), Vec::new());
    let payload = Request::Fence { procs: everybody(), infos: Vec::new() }.encode(PLAIN, Version::OURS).unwrap();
    bench.engine.message(PeerId(900), 10, payload, bench.now);
    bench.drain();
    assert_eq!(bench.status(0, 10), None, "rank 1 is still to come");
}

#[test]
fn a_deregistered_namespace_ends_its_fences_and_connections() {
    let mut bench = Bench::new(0, 1, 2);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.engine.deregister_nspace(&nspace());
    bench.drain();
    assert_eq!(bench.status(0, 10), Some(Status::ERR_NOT_FOUND));
    bench.closed.sort();
    assert_eq!(bench.closed, [peer(0), peer(1)]);
    // The next job of the name: the old one's connections mean nothing to it.
    for rank in 0..2 {
        bench.engine.register_client(&proc(rank), 1000, 1000, 0);
        connect_as(&mut bench, PeerId(u64::from(rank) + 900), rank);
    }
    let payload = Request::Commit { parts: vec![(3, vec![Kval { key: Key::from("old"), value: Value::Int(1) }])] };
    bench.engine.message(peer(1), 10, payload.encode(PLAIN, Version::OURS).unwrap(), bench.now);
    bench.lose(1);
    assert!(bench.engine.nspaces[&nspace()].is_alive(Rank(1)));
    assert!(!bench.engine.nspaces[&nspace()].visible.has_rank(Rank(1)));
}

#[test]
fn a_client_registered_anew_is_not_touched_by_its_old_connection() {
    let mut bench = Bench::new(0, 1, 2);
    bench.engine.deregister_client(&proc(1));
    bench.engine.register_client(&proc(1), 1000, 1000, 0);
    connect_as(&mut bench, PeerId(900), 1);
    bench.lose(1);
    assert!(bench.engine.nspaces[&nspace()].is_alive(Rank(1)));
}

#[test]
fn registering_a_client_again_keeps_its_secret_and_connections() {
    let mut bench = Bench::new(0, 1, 1);
    bench.put(0, 3, "key", 1);
    let before = bench.engine.nspaces[&nspace()].clients[&Rank(0)].secret.text().to_owned();
    bench.engine.register_client(&proc(0), 1000, 1000, 8);
    let client = &bench.engine.nspaces[&nspace()].clients[&Rank(0)];
    assert_eq!((client.secret.text(), client.committed, client.object), (before.as_str(), true, 8));
    assert_eq!(client.connections.len(), 1);
}

#[test]
fn what_a_deregistered_rank_published_is_there_and_nothing_else_comes() {
    let mut bench = Bench::new(0, 2, 2);
    bench.put(1, 3, "key", 5);
    bench.engine.deregister_client(&proc(1));
    bench.get(0, 20, 1, "key", Vec::new());
    assert_eq!(bench.value(0, 20, "key"), Some(Ok(5)));
    bench.get(0, 21, 1, "other", Vec::new());
    assert_eq!(bench.value(0, 21, "other"), Some(Err(Status::ERR_NOT_FOUND)));
    let answers = Arc::new(Mutex::new(Vec::new()));
    bench.engine.deregister_client(&proc(0));
    for rank in 0..2 {
        let answered = answers.clone();
        let done = Box::new(move |status, data: Vec<u8>| answered.lock().push((status, data.is_empty())));
        bench.engine.dmodex_request(proc(rank), done);
    }
    bench.drain();
    assert_eq!(*answers.lock(), [(Status::ERR_NOT_FOUND, true), (Status::SUCCESS, false)]);
}

#[test]
fn another_rank_that_registers_does_not_stand_in_for_one_that_left() {
    let mut bench = Bench::without_clients(0, 1, 3);
    bench.engine.register_client(&proc(0), 1000, 1000, 0);
    bench.engine.deregister_client(&proc(0));
    for rank in 1..3 {
        bench.engine.register_client(&proc(rank), 1000, 1000, 0);
        bench.connect(rank);
        bench.fence(rank, 10, everybody(), Vec::new());
    }
    assert_eq!(bench.status(1, 10), Some(Status::ERR_PARTIAL_SUCCESS), "the fence is over, without rank 0");
    assert!(bench.log[0].contains("goes on without job:0, which ended before"), "{:?}", bench.log);
    (1..3).for_each(|rank| bench.fence(rank, 11, everybody(), Vec::new()));
    assert_eq!(bench.log.len(), 1, "{:?}", bench.log);
}

#[test]
fn what_is_to_go_with_the_job_stays_until_the_job_has_ended() {
    let top = tempfile::tempdir().unwrap();
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let mut bench = Bench::without_clients(0, 1, 2);
    for rank in 0..2 {
        bench.engine.register_client(&proc(rank), uid, gid, 0);
        let hello = Hello { credential: Hello::native_credential(uid, gid), ..Bench::hello(rank) };
        bench.engine.hello(peer(rank), TCP, hello);
        bench.drain();
        bench.answer_last(Answer::Op(Status::SUCCESS));
    }
    let cases = [("own", vec![proc(0)]), ("none", vec![]), ("all", everybody())];
    for (name, targets) in cases.clone() {
        let file = top.path().join(name);
        std::fs::write(&file, "").unwrap();
        let directives = vec![Info::new(keys::REGISTER_CLEANUP, Value::string(file.to_str().unwrap()))];
        bench.request(0, 10, Request::JobControl { targets, directives });
        assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
    }
    // What is not about clean-up is the host's, with what comes beside it.
    let how = [keys::CLEANUP_RECURSIVE, keys::CLEANUP_LEAVE_TOPDIR, keys::JOB_CTRL_PAUSE];
    let how = how.map(|key| Info::new(key, Value::Bool(true)));
    let directory = Info::new(keys::REGISTER_CLEANUP_DIR, Value::string(top.path().join("no").to_str().unwrap()));
    for (count, is_for_host) in [(2, false), (3, true)] {
        let directives = [std::slice::from_ref(&directory), &how[..count]].concat();
        bench.request(0, 10, Request::JobControl { targets: vec![], directives });
        let asked = bench.upcalls.iter().any(|(_, upcall)| matches!(upcall, Upcall::JobControl { .. }));
        assert_eq!(asked, is_for_host);
    }
    bench.answer_last(Answer::Infos(Status::SUCCESS, vec![]));
    let left = || cases.iter().filter(|(name, _)| top.path().join(name).exists()).count();
    bench.request(0, 11, Request::Finalize);
    bench.answer_last(Answer::Op(Status::SUCCESS));
    bench.lose(0);
    assert!(!top.path().join("own").exists());
    assert_eq!(left(), 2, "rank 1 may use what belongs to the job");
    bench.engine.deregister_nspace(&nspace());
    bench.drain();
    assert_eq!(left(), 0);
}

#[test]
fn a_lost_client_is_the_hosts_news_and_not_the_other_clients() {
    let mut bench = Bench::new(0, 1, 2);
    let register = Request::RegisterEvents { codes: Vec::new(), infos: Vec::new() };
    bench.request(1, 10, register.clone());
    bench.engine.message(PeerId::OWN, 200, register.encode(PLAIN, Version::OURS).unwrap(), bench.now);
    let told = |bench: &Bench| {
        let told = |(to, tag, _): &&(PeerId, u32, Vec<u8>)| (*to, *tag) == (PeerId::OWN, TAG_NOTIFY);
        bench.sent.iter().filter(told).count()
    };
    bench.lose(0);
    bench.pass(LOSS_DELAY / 2);
    assert_eq!(told(&bench), 0, "the host is given time to see by itself how the process ended");
    bench.pass(LOSS_DELAY / 2);
    assert_eq!(told(&bench), 1);
    bench.pass(LOSS_DELAY);
    assert_eq!((told(&bench), bench.engine.deadline()), (1, None));
    assert!(bench.reply(1, TAG_NOTIFY).is_none(), "applications abort when they hear of it");
    // Nothing follows the last one.
    let mut bench = Bench::new(0, 1, 2);
    bench.engine.message(PeerId::OWN, 200, register.encode(PLAIN, Version::OURS).unwrap(), bench.now);
    bench.lose(0);
    bench.lose(1);
    bench.pass(Duration::ZERO);
    assert_eq!((told(&bench), bench.engine.deadline()), (2, None));
    // Unless that one has finalized: it is about to end.
    let mut bench = Bench::new(0, 1, 2);
    bench.engine.message(PeerId::OWN, 200, register.encode(PLAIN, Version::OURS).unwrap(), bench.now);
    bench.lose(0);
    bench.request(1, 11, Request::Finalize);
    bench.answer_last(Answer::Op(Status::SUCCESS));
    bench.lose(1);
    bench.pass(LOSS_DELAY / 2);
    assert_eq!(told(&bench), 0);
    bench.pass(LOSS_DELAY / 2);
    assert_eq!(told(&bench), 1);
    bench.pass(RETURN_DELAY);
    assert_eq!((told(&bench), bench.engine.deadline()), (1, None));
    // Nothing is kept of a job that is over.
    let mut bench = Bench::new(0, 1, 2);
    bench.connect(0);
    bench.lose(0);
    assert!(bench.engine.deadline().is_some());
    bench.engine.deregister_nspace(&nspace());
    assert_eq!(bench.engine.deadline(), None);
}

#[test]
fn the_end_of_processes_is_no_news_once_one_has_asked_for_it() {
    let abort = |procs| Request::Abort { status: Status::ERROR, message: None, procs };
    for (procs, lines) in [(vec![], 0), (everybody(), 0), (vec![proc(1)], 2)] {
        let mut bench = Bench::new(0, 1, 3);
        bench.fence(0, 10, everybody(), Vec::new());
        bench.request(1, 11, abort(procs));
        bench.answer_last(Answer::Op(Status::SUCCESS));
        bench.lose(1);
        bench.pass(LOSS_DELAY);
        // The connection, and the fence that waits for it.
        assert_eq!(bench.log.len(), lines, "{:?}", bench.log);
    }
}

#[test]
fn a_timeout_beyond_all_clocks_is_harmless() {
    let mut bench = Bench::new(0, 1, 2);
    let ages = vec![Info::new(keys::TIMEOUT, Value::Uint64(u64::MAX))];
    bench.fence(0, 10, everybody(), ages.clone());
    bench.get(0, 11, 1, "key", ages);
    assert_eq!(bench.status(0, 10), None);
}

#[test]
fn the_shortest_timeout_of_a_fences_participants_counts() {
    let mut bench = Bench::new(0, 1, 3);
    bench.fence(0, 10, everybody(), Vec::new());
    bench.fence(1, 10, everybody(), vec![Info::new(keys::TIMEOUT, Value::Int(1))]);
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.status(1, 10), Some(Status::ERR_TIMEOUT));
}

/// Of an environment, what leads to shared memory.
fn shared_env(env: &[(String, OsString)]) -> Vec<&OsStr> {
    let ours = env.iter().filter(|(name, _)| name.starts_with("PMIX_DSTORE"));
    ours.map(|(_, value)| value.as_os_str()).collect()
}

#[test]
fn a_client_may_be_registered_after_its_environment_was_made_in_a_forked_child() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::in_directory(0, 1, 1, Some(directory.path()));
    let env = bench.engine.setup_fork(&proc(0));
    assert!(env.contains(&("PMIX_RANK".into(), "0".into())));
    assert!(shared_env(&env).is_empty(), "{env:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a child makes nothing");
    bench.engine.register_client(&proc(0), 1000, 1000, 0);
    bench.connect(0);
    bench.put(0, 3, "key", 4);
}

/// As Flux does it. The directory is the server's until a client is registered, and the first client's user's from then on.
#[test]
fn a_client_that_is_registered_after_its_environment_was_made_has_shared_memory() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::in_directory(0, 1, 2, Some(directory.path()));
    let unknown = Proc::new(Nspace::new("unknown").unwrap(), Rank(0));
    bench.engine.prepare_client(&unknown);
    assert!(shared_env(&bench.engine.setup_fork(&unknown)).is_empty());
    let mut secrets = Vec::new();
    for rank in 0..2 {
        bench.engine.prepare_client(&proc(rank));
        let env = bench.engine.setup_fork(&proc(rank));
        assert_eq!(shared_env(&env).len(), 3, "{env:?}");
        bench.engine.prepare_client(&proc(rank));
        assert_eq!(bench.engine.setup_fork(&proc(rank)), env, "made once");
        assert_eq!(bench.engine.register_client(&proc(rank), 1234, 1234, 7), Status::SUCCESS);
        assert_eq!(bench.engine.setup_fork(&proc(rank)), env, "registration keeps the secret");
        let (_, secret) = env.into_iter().find(|(name, _)| name == "PMIX_DSTORE_SECRET").unwrap();
        let secret = secret.into_string().unwrap();
        let hello = |secret: &str| Hello {
            psec: crate::SECURITY_NAME.into(),
            credential: secret.as_bytes().to_vec(),
            gds: crate::STORE_NAME.into(),
            ..Bench::hello(rank)
        };
        bench.engine.hello(peer(rank), Transport::Unix { uid: 1234, gid: 1234, pid: 1 }, hello(&secret));
        bench.drain();
        bench.answer_last(Answer::Op(Status::SUCCESS));
        bench.put(rank, 3, "key", rank);
        secrets.push(secret);
    }
    assert_ne!(secrets[0], secrets[1]);
    assert_eq!((bench.engine.stats().clients_shared, bench.log.len()), (2, 0), "{:?}", bench.log);
    let outer = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap();
    if geteuid().is_root() {
        assert_eq!(outer.metadata().unwrap().uid(), 1234);
    } else {
        left_out("root", "only root can give files away");
    }
    for rank in 0..2 {
        bench.fence(rank, 10, everybody(), collect());
    }
    assert_eq!(read(&attach(&mut bench, 0), 1, "key"), Some(1));
}

#[test]
fn a_job_that_is_ended_by_force_does_not_fill_the_log() {
    let mut bench = Bench::new(0, 1, 100);
    let all: Vec<Proc> = (0..100).map(proc).collect();
    bench.fence(0, 10, all, Vec::new());
    (1..100).for_each(|rank| bench.lose(rank));
    assert_eq!(bench.status(0, 10), Some(Status::ERR_PARTIAL_SUCCESS));
    assert!(bench.log.iter().all(|line| line.len() < 300), "{:?}", bench.log);
    assert!(bench.log[0].contains("job:1"));
    bench.pass(LOSS_DELAY);
    let lost = "lost the connections to 99 processes of job job before they called finalize: ranks 1-99";
    assert_eq!(bench.log[1..], [lost]);
}

#[test]
fn lost_processes_are_named_also_where_the_job_is_deregistered_at_once() {
    let mut bench = Bench::new(0, 1, 30);
    (0..30).step_by(2).for_each(|rank| bench.lose(rank));
    bench.engine.deregister_nspace(&nspace());
    bench.drain();
    let lost =
        "lost the connections to 15 processes of job job before they called finalize: ranks 0,2,4,6,8,10,12,14,...";
    assert_eq!(bench.log, [lost]);
}

#[test]
fn a_process_is_lost_with_its_last_connection() {
    let mut bench = Bench::new(0, 1, 2);
    let register = Request::RegisterEvents { codes: Vec::new(), infos: Vec::new() };
    bench.engine.message(PeerId::OWN, 200, register.encode(PLAIN, Version::OURS).unwrap(), bench.now);
    let told =
        |bench: &Bench| bench.sent.iter().filter(|(id, tag, _)| (*id, *tag) == (PeerId::OWN, TAG_NOTIFY)).count();
    connect_as(&mut bench, PeerId(900), 0);
    bench.engine.disconnected(PeerId(900), bench.now);
    bench.pass(LOSS_DELAY);
    assert_eq!((told(&bench), bench.log.len()), (0, 0), "{:?}", bench.log);
    bench.lose(0);
    bench.pass(LOSS_DELAY);
    assert_eq!((told(&bench), bench.log.len()), (1, 1), "{:?}", bench.log);
}

#[test]
fn peers_of_any_release_do_not_fill_the_memory() {
    let mut bench = Bench::new(0, 1, 1);
    for number in 0..100 {
        let id = PeerId(900 + number);
        bench.engine.hello(id, TCP, Hello { version: format!("4.2.{number}"), ..Bench::hello(0) });
        bench.drain();
        bench.answer_last(Answer::Op(Status::SUCCESS));
        let request = Request::JobInfo.encode(PLAIN, Version::OURS).unwrap();
        bench.engine.message(id, 101, request, bench.now);
        bench.drain();
        bench.engine.disconnected(id, bench.now);
    }
    assert_eq!(bench.sent.len(), 100);
    assert!(bench.engine.nspaces[&nspace()].job_replies.len() < 10);
}

#[test]
fn another_servers_job_is_known_by_what_direct_modex_brings() {
    let other = Nspace::new("other").unwrap();
    let (mut a, mut b) = (Bench::new(0, 1, 1), Bench::without_clients(0, 1, 1));
    let infos = [Info::new(keys::JOB_SIZE, Value::Uint32(3))];
    b.engine.register_nspace(JobPlan::read(&other, 1, &infos, None, NODES[0]).unwrap());
    let ask = |bench: &mut Bench, tag, rank, key: &'static str| {
        let key = Some(Key::from(key));
        bench.request(0, tag, Request::Get { nspace: other.clone(), rank, infos: Vec::new(), key });
    };
    ask(&mut a, 20, Rank(2), "key");
    let kval = Kval { key: Key::from("key"), value: Value::Uint32(6) };
    let data = blob::encode_modex(PLAIN, [(&kval.key, &kval.value)].into_iter()).unwrap();
    a.answer_last(Answer::Data(Status::SUCCESS, data.into()));
    // The data of the job, of which the host knows nothing yet.
    a.answer_last(Answer::Op(Status::ERR_NOT_FOUND));
    assert_eq!(a.value(0, 20, "key"), Some(Ok(6)));
    ask(&mut a, 21, Rank(2), "key");
    assert_eq!(a.value(0, 21, "key"), Some(Ok(6)), "and kept");
    ask(&mut a, 22, Rank::WILDCARD, keys::JOB_SIZE);
    let answer = Arc::new(Mutex::new(Vec::new()));
    let answered = answer.clone();
    let job = Proc::new(other.clone(), Rank::WILDCARD);
    b.engine.dmodex_request(job, Box::new(move |_, data| *answered.lock() = data));
    b.drain();
    let data = std::mem::take(&mut *answer.lock());
    a.answer_last(Answer::Data(Status::SUCCESS, data.into()));
    assert_eq!(a.value(0, 22, keys::JOB_SIZE), Some(Ok(3)));
    ask(&mut a, 23, Rank::WILDCARD, keys::JOB_SIZE);
    assert_eq!(a.value(0, 23, keys::JOB_SIZE), Some(Ok(3)));
    ask(&mut a, 24, Rank::WILDCARD, keys::UNIV_SIZE);
    a.answer_last(Answer::Data(Status::SUCCESS, Bytes::default()));
    assert_eq!(a.value(0, 24, keys::UNIV_SIZE), Some(Err(Status::ERR_NOT_FOUND)));
}

#[test]
fn a_fence_with_a_job_of_which_nothing_is_known_is_the_hosts() {
    let mut bench = Bench::new(0, 1, 1);
    let other = Nspace::new("other").unwrap();
    let infos = [Info::new(keys::REGISTER_NODATA, Value::Bool(true))];
    bench.engine.register_nspace(JobPlan::read(&other, 0, &infos, None, NODES[0]).unwrap());
    bench.fence(0, 10, vec![everybody()[0].clone(), Proc::new(other, Rank::WILDCARD)], Vec::new());
    assert_eq!(bench.status(0, 10), None);
    assert!(matches!(bench.upcalls.pop(), Some((_, Upcall::Fence { .. }))));
}

#[test]
fn old_events_are_no_news() {
    let mut bench = Bench::new(0, 1, 3);
    let notify = Request::Notify { status: Status(-3456), range: 2, infos: Vec::new() };
    bench.request(0, 10, notify);
    let register = Request::RegisterEvents { codes: vec![Status(-3456)], infos: Vec::new() };
    bench.pass(Duration::from_secs(60));
    bench.request(1, 11, register.clone());
    assert!(bench.reply(1, TAG_NOTIFY).is_some());
    bench.pass(Duration::from_secs(100));
    bench.request(2, 11, register);
    assert!(bench.reply(2, TAG_NOTIFY).is_none());
}

/// A namespace of one process on this node, connected as a peer of its own.
fn lone_job(bench: &mut Bench, name: &'static str, id: PeerId) -> Proc {
    let proc = Proc::new(Nspace::new(name).unwrap(), Rank(0));
    let infos = [Info::new(keys::NODE_MAP, Value::string(NODES[0])), Info::new(keys::PROC_MAP, Value::string("0"))];
    bench.engine.register_nspace(JobPlan::read(&proc.nspace, 1, &infos, None, NODES[0]).unwrap());
    bench.engine.register_client(&proc, 1000, 1000, 0);
    bench.engine.hello(id, TCP, Hello { proc: Some(proc.clone()), ..Bench::hello(0) });
    bench.drain();
    bench.answer_last(Answer::Op(Status::SUCCESS));
    proc
}

impl Bench {
    fn enter_as(&mut self, id: PeerId, tag: u32, request: &Request) {
        let payload = request.encode(PLAIN, Version::OURS).unwrap();
        self.engine.message(id, tag, payload, self.now);
        self.drain();
    }

    /// Takes the reply to a connect: its status, and the jobs with their sizes.
    fn connected(&mut self, id: PeerId, tag: u32) -> Option<(Status, Vec<(Nspace, u32)>)> {
        let position = self.sent.iter().position(|(to, of, _)| (*to, *of) == (id, tag))?;
        let bytes = self.sent.remove(position).2;
        let reply = ConnectReply::decode(PLAIN, Version::OURS, &bytes).unwrap();
        let size = |kvals: &[Kval]| kvals.iter().find(|kval| kval.key.is(keys::JOB_SIZE))?.value.as_u32();
        let jobs = reply.jobs.into_iter().map(|(nspace, kvals)| (nspace, size(&kvals).expect("a job's size")));
        Some((reply.status, jobs.collect()))
    }
}

#[test]
fn jobs_that_connect_on_one_node_are_told_of_each_other() {
    let mut bench = Bench::new(0, 1, 2);
    let child = lone_job(&mut bench, "child", PeerId(500));
    let procs = vec![proc(0), proc(1), Proc::new(child.nspace.clone(), Rank::WILDCARD)];
    let connect = Request::Connect { procs: procs.clone(), infos: Vec::new(), extra: Vec::new() };
    bench.request(0, 10, connect.clone());
    bench.enter_as(PeerId(500), 10, &connect);
    assert_eq!(bench.connected(peer(0), 10), None, "rank 1 is not there");
    // A fence of the same processes is another matter.
    bench.fence(1, 9, procs.clone(), Vec::new());
    assert_eq!(bench.connected(peer(0), 10), None);
    bench.request(1, 10, connect);
    for rank in 0..2 {
        assert_eq!(bench.connected(peer(rank), 10), Some((Status::SUCCESS, vec![(child.nspace.clone(), 1)])));
    }
    assert_eq!(bench.connected(PeerId(500), 10), Some((Status::SUCCESS, vec![(nspace(), 2)])));
    assert!(bench.upcalls.is_empty(), "the host is not asked");

    let disconnect = Request::Disconnect { procs, infos: Vec::new() };
    bench.request(0, 11, disconnect.clone());
    bench.enter_as(PeerId(500), 11, &disconnect);
    assert_eq!(bench.status(0, 11), None);
    bench.request(1, 11, disconnect);
    assert_eq!(bench.status(0, 11), Some(Status::SUCCESS));
    assert_eq!(bench.status(1, 11), Some(Status::SUCCESS));
}

#[test]
fn a_connect_across_servers_is_the_hosts() {
    let mut bench = Bench::new(0, 1, 2);
    let other = Nspace::new("other").unwrap();
    let procs = vec![everybody()[0].clone(), Proc::new(other.clone(), Rank(0))];
    let connect = Request::Connect { procs: procs.clone(), infos: Vec::new(), extra: Vec::new() };
    for rank in 0..2 {
        bench.request(rank, 10, connect.clone());
    }
    // The host makes the other job known before it answers.
    let infos = [Info::new(keys::JOB_SIZE, Value::Uint32(5))];
    bench.engine.register_nspace(JobPlan::read(&other, 0, &infos, None, NODES[0]).unwrap());
    let Upcall::Connect { infos, .. } = bench.answer_last(Answer::Op(Status::SUCCESS)) else { panic!("a connect") };
    assert_eq!(
        infos.iter().map(|info| info.key.to_string()).collect::<Vec<_>>(),
        [keys::SORTED_PROC_ARRAY, keys::LOCAL_COLLECTIVE_STATUS]
    );
    for rank in 0..2 {
        assert_eq!(bench.connected(peer(rank), 10), Some((Status::SUCCESS, vec![(other.clone(), 5)])));
    }
    for rank in 0..2 {
        bench.request(rank, 11, Request::Disconnect { procs: procs.clone(), infos: Vec::new() });
    }
    assert!(matches!(bench.answer_last(Answer::Op(Status::ERR_NOT_SUPPORTED)), Upcall::Disconnect { .. }));
    assert_eq!(bench.status(0, 11), Some(Status::ERR_NOT_SUPPORTED));
}

#[test]
fn a_connect_with_a_process_that_dies_fails_for_the_others() {
    let mut bench = Bench::new(0, 1, 2);
    let child = lone_job(&mut bench, "child", PeerId(500));
    let procs = vec![everybody()[0].clone(), Proc::new(child.nspace, Rank::WILDCARD)];
    let connect = Request::Connect { procs, infos: Vec::new(), extra: Vec::new() };
    bench.request(0, 10, connect.clone());
    bench.enter_as(PeerId(500), 10, &connect);
    bench.lose(1);
    assert_eq!(bench.connected(peer(0), 10), Some((Status::ERR_LOST_CONNECTION, Vec::new())));
    assert_eq!(bench.connected(PeerId(500), 10), Some((Status::ERR_LOST_CONNECTION, Vec::new())));
    assert!(bench.log.iter().any(|line| line.starts_with("a connect of ")), "{:?}", bench.log);
}

#[test]
fn the_host_hears_of_the_first_and_the_last_who_want_an_event_of_the_environment() {
    let mut bench = Bench::new(0, 1, 2);
    let (down, own) = (Status(-231), Status(-3456));
    let register = Request::RegisterEvents { codes: vec![down, own], infos: collect() };
    bench.request(0, 10, register.clone());
    assert_eq!(bench.status(0, 10), None, "the host has not answered");
    let Upcall::RegisterEvents { codes, infos } = bench.answer_last(Answer::Op(Status::SUCCESS)) else { panic!() };
    assert_eq!((codes, &infos[..1]), (vec![down], &collect()[..]));
    let of = |key: &str| Info::find(&infos, key).and_then(Value::as_u32);
    assert_eq!((of(keys::USERID), of(keys::GRPID)), (Some(1000), Some(1000)), "who wants it");
    assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
    bench.request(1, 10, register.clone());
    assert_eq!(bench.status(1, 10), Some(Status::SUCCESS));
    bench.request(0, 11, Request::DeregisterEvents { codes: vec![down, own] });
    assert!(bench.upcalls.is_empty(), "rank 1 still wants it");
    bench.lose(1);
    let Upcall::DeregisterEvents { codes } = bench.answer_last(Answer::Op(Status::SUCCESS)) else { panic!() };
    assert_eq!(codes, [down]);

    // A host that does not take registrations hinders nobody; one that refuses does.
    bench.request(0, 12, register.clone());
    bench.answer_last(Answer::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.status(0, 12), Some(Status::SUCCESS));
    bench.request(0, 13, Request::DeregisterEvents { codes: vec![down] });
    bench.answer_last(Answer::Op(Status::OPERATION_SUCCEEDED));
    bench.request(0, 14, register.clone());
    bench.answer_last(Answer::Op(Status::ERR_NO_PERMISSIONS));
    assert_eq!(bench.status(0, 14), Some(Status::ERR_NO_PERMISSIONS));
    bench.request(0, 15, register);
    assert_eq!(bench.upcalls.len(), 1, "it is asked again");
}

#[test]
fn who_leaves_while_the_host_is_asked_takes_no_events_along() {
    let mut bench = Bench::new(0, 1, 3);
    let (down, own) = (Status(-231), Status(-3456));
    bench.request(0, 10, Request::Notify { status: own, range: Range::LOCAL, infos: Vec::new() });
    assert_eq!(bench.status(0, 10), Some(Status::SUCCESS));
    bench.request(1, 11, Request::RegisterEvents { codes: vec![down, own], infos: Vec::new() });
    let (asked, _) = bench.upcalls.pop().expect("the host is asked");
    bench.lose(1);
    bench.engine.answer(asked, Answer::Op(Status::SUCCESS));
    bench.drain();
    bench.request(2, 12, Request::RegisterEvents { codes: vec![own], infos: Vec::new() });
    assert!(bench.reply(2, TAG_NOTIFY).is_some(), "the event is kept for the others");
}

#[test]
fn what_one_connection_has_open_is_bounded() {
    let mut bench = Bench::new(0, 1, 2);
    let refused = |bench: &mut Bench| {
        let sent = std::mem::take(&mut bench.sent);
        let too_many = StatusReply { status: Status::ERR_OUT_OF_RESOURCE }.bytes(PLAIN);
        sent.iter().filter(|(id, _, payload)| *id == peer(0) && *payload == too_many).count()
    };
    let told = |bench: &mut Bench| std::mem::take(&mut bench.log).len();
    // Gets that wait for the other rank's commit; an answer makes room.
    for tag in 0..70_000 {
        bench.get(0, 1000 + tag, 1, "late", Vec::new());
    }
    assert_eq!((refused(&mut bench), told(&mut bench)), (70_000 - 65_536, 1));
    bench.put(1, 3, "late", 1);
    bench.sent.clear();
    bench.get(0, 7, 1, "late", Vec::new());
    assert_eq!((refused(&mut bench), told(&mut bench)), (0, 0));
    // Few that are large, under one tag.
    let large = || vec![Info::new("large", Value::ByteObject(vec![0; 5 << 20].into()))];
    for _ in 0..6 {
        bench.get(0, 8, 1, "never", large());
    }
    assert_eq!(refused(&mut bench), 3);
    bench.engine.disconnected(peer(0), bench.now);
    bench.pass(LOSS_DELAY);
    assert_eq!(bench.engine.deadline(), None, "nothing waits any more");

    let mut bench = Bench::new(0, 1, 2);
    for other in 0..1100 {
        let procs = vec![proc(0), Proc::new(nspace(), Rank(1000 + other)), proc(1)];
        bench.fence(0, 2000 + other, procs, Vec::new());
    }
    assert_eq!((refused(&mut bench), told(&mut bench)), (1100 - 1024, 1));
    let codes = |first: i32| (first..first + 40_000).map(Status).collect();
    bench.request(0, 5, Request::RegisterEvents { codes: codes(-1_000_000), infos: Vec::new() });
    assert_eq!(refused(&mut bench), 0);
    bench.request(0, 6, Request::RegisterEvents { codes: codes(-2_000_000), infos: Vec::new() });
    assert_eq!(refused(&mut bench), 1);
    for number in 0..5000 {
        let path = Value::string(format!("/tmp/no such file {number}"));
        let directives = vec![Info::new(keys::REGISTER_CLEANUP, path)];
        bench.request(0, 10_000 + number, Request::JobControl { targets: Vec::new(), directives });
    }
    assert_eq!(refused(&mut bench), 5000 - 4096);
    assert!(told(&mut bench) == 0, "a connection is told of once");
    bench.engine.disconnected(peer(0), bench.now);
    bench.drain();
    assert!(bench.engine.collectives.is_empty());
    bench.log.clear();
    for number in 0..70 {
        bench.engine.hello(PeerId(900 + number), TCP, Bench::hello(0));
        bench.drain();
    }
    assert_eq!((bench.log.len(), bench.closed.len()), (6, 6));
}

#[test]
fn events_are_kept_by_bytes_too() {
    let mut bench = Bench::new(0, 1, 2);
    let event = |len: usize| Request::Notify {
        status: Status(-3000),
        range: Range::LOCAL,
        infos: vec![Info::new("large", Value::ByteObject(vec![0; len].into()))],
    };
    for (tag, len) in (0..8).zip([1 << 20; 8]) {
        bench.request(0, tag, event(len));
    }
    bench.request(0, 9, event(5 << 20));
    bench.sent.clear();
    bench.request(1, 10, Request::RegisterEvents { codes: vec![Status(-3000)], infos: Vec::new() });
    let events = bench.sent.iter().filter(|(_, tag, _)| *tag == TAG_NOTIFY).count();
    assert_eq!(events, 3, "as many as 4 MiB hold, and none that is larger alone");
}

#[test]
fn the_host_itself_waits_for_nobody() {
    let mut bench = Bench::new(0, 2, 1);
    for (tag, of) in [(10, 0), (11, 1)] {
        let (rank, key) = (Rank(of), Some(Key::from("key")));
        bench.enter_as(PeerId::OWN, tag, &Request::Get { nspace: nspace(), rank, infos: Vec::new(), key });
        let position = bench.sent.iter().position(|(to, of, _)| (*to, *of) == (PeerId::OWN, tag));
        let bytes = bench.sent.remove(position.expect("an answer at once")).2;
        assert_eq!(StatusReply::decode(PLAIN, Version::OURS, &bytes).unwrap().status, Status::ERR_NOT_FOUND);
    }
    assert!(bench.upcalls.is_empty(), "it may be the thread on which it would be answered");
}

/// A tool that wants a name, of this user, from whom the kernel says.
fn tool(uid: u32) -> (Hello, Transport) {
    let hello = Hello {
        credential: Hello::native_credential(uid, uid),
        flag: PeerKind::Tool as u8,
        uid_gid: Some((uid, uid)),
        proc: None,
        ..Bench::hello(0)
    };
    (hello, Transport::Tcp { owner: Some(uid) })
}

/// The same with a name of its own.
fn named_tool(uid: u32, kind: PeerKind, proc: Proc) -> (Hello, Transport) {
    let (hello, transport) = tool(uid);
    (Hello { flag: kind as u8, proc: Some(proc), ..hello }, transport)
}

impl Bench {
    /// What the server answers to a handshake: the status, and the bytes. `None` where it hangs up.
    fn knock(
        &mut self,
        id: PeerId,
        (hello, transport): (Hello, Transport),
        answer: Answer,
    ) -> Option<(Status, Vec<u8>)> {
        let is_named = hello.proc.is_some();
        self.engine.hello(id, transport, hello);
        let asked = self.engine.take_outputs().into_iter().find_map(|output| match output {
            Output::Upcall { id, upcall: Upcall::ToolConnected { infos } } => Some((id, infos)),
            Output::Log(_, line) => {
                self.log.push(line);
                None
            }
            _ => None,
        });
        let (number, infos) = asked?;
        let told = |key: &str| infos.iter().filter(|info| info.key.is(key)).count();
        for key in [keys::USERID, keys::VERSION_INFO, keys::CREDENTIAL] {
            assert_eq!(told(key), 1, "{key}: {infos:?}");
        }
        assert!(told(keys::GRPID) <= 1, "{infos:?}");
        for key in [keys::NSPACE, keys::RANK, keys::TOOL_NSPACE, keys::TOOL_RANK] {
            assert_eq!(told(key), usize::from(is_named), "{key}: {infos:?}");
        }
        self.engine.answer(number, answer);
        self.engine.take_outputs().into_iter().find_map(|output| match output {
            Output::Admit { status, reply, .. } => Some((status, reply)),
            _ => None,
        })
    }
}

#[test]
fn a_tool_gets_its_name_from_the_host_and_leaves_nothing() {
    let mut bench = Bench::new(0, 1, 1);
    let name = Proc::new(Nspace::new("tool").unwrap(), Rank(5));
    let given = Answer::Name(Status::SUCCESS, Some(name.clone()));
    let (status, reply) = bench.knock(peer(50), tool(1000), given).unwrap();
    assert_eq!(status, Status::SUCCESS);
    let reply = ToolReply::decode(PeerKind::Tool, &reply).unwrap();
    assert_eq!((reply.assigned, reply.server.nspace.to_string()), (Some(name.clone()), "server".into()));
    // It reads of itself and of the job, and publishes under its name.
    bench.request(50, 101, Request::JobInfo);
    assert!(bench.reply(50, 101).is_some());
    bench.put(0, 3, "key", 7);
    bench.get(50, 102, 0, "key", Vec::new());
    assert_eq!(bench.value(50, 102, "key"), Some(Ok(7)));
    bench.request(
        50,
        103,
        Request::Get { nspace: name.nspace.clone(), rank: Rank(5), infos: Vec::new(), key: Some("no".into()) },
    );
    assert_eq!(bench.value(50, 103, "no"), None, "it may put it yet");
    bench.request(50, 104, Request::Publish { uid: 1000, infos: Vec::new() });
    let asked = bench.answer_last(Answer::Op(Status::SUCCESS));
    assert!(matches!(asked, Upcall::Publish { proc, .. } if proc == name));
    bench.request(50, 106, Request::Spawn { infos: Vec::new(), apps: Vec::new() });
    let Upcall::Spawn { infos, .. } = bench.answer_last(Answer::Spawn(Status::SUCCESS, None)) else { panic!() };
    let says = |key: &str| Info::is_set(&infos, key);
    assert!(says(keys::REQUESTOR_IS_TOOL) && !says(keys::REQUESTOR_IS_CLIENT), "{infos:?}");
    // The host has not launched it, and hears nothing of its end.
    bench.request(50, 105, Request::Finalize);
    assert_eq!(bench.status(50, 105), Some(Status::SUCCESS));
    assert!(bench.upcalls.is_empty());
    bench.lose(50);
    assert!(bench.engine.job(&name.nspace).is_none());
    assert!(bench.log.is_empty(), "{:?}", bench.log);
}

#[test]
fn a_tool_that_the_host_does_not_want_is_hung_up_on() {
    let mut bench = Bench::new(0, 1, 1);
    for answer in [
        Answer::Name(Status::ERR_INVALID_CRED, None),
        Answer::Op(Status::ERR_INVALID_CRED),
        // No name that anybody can have; nobody there who could name it.
        Answer::Name(Status::SUCCESS, None),
        Answer::Name(Status::SUCCESS, Some(everybody().remove(0))),
        Answer::Op(Status::ERR_NOT_SUPPORTED),
    ] {
        assert_eq!(bench.knock(peer(50), tool(1000), answer), None);
    }
    // A tool with a name needs nobody.
    let silent = || Answer::Op(Status::ERR_NOT_SUPPORTED);
    let own = Proc::new(Nspace::new("own").unwrap(), Rank(0));
    let knocked = bench.knock(peer(51), named_tool(1000, PeerKind::ToolWithId, own.clone()), silent());
    assert_eq!(knocked.map(|(status, _)| status), Some(Status::SUCCESS));
    assert!(bench.engine.job(&own.nspace).is_some());
    // Not one with a name that no process can have.
    let wild = Proc::new(Nspace::new("wild").unwrap(), Rank::WILDCARD);
    for name in [wild, Proc::new(Nspace::new("").unwrap(), Rank(0))] {
        let knocked = bench.knock(peer(53), named_tool(1000, PeerKind::ToolWithId, name.clone()), silent());
        assert_eq!(knocked, None, "{name}");
        assert!(bench.engine.job(&name.nspace).is_none(), "{name}");
    }
    // One that is gone before the host has answered.
    bench.engine.hello(peer(52), TCP, tool(1000).0);
    bench.drain();
    bench.lose(52);
    bench.answer_last(Answer::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("late").unwrap(), Rank(0)))));
    assert!(bench.engine.job(&Nspace::new("late").unwrap()).is_none());
}

#[test]
fn tools_are_of_users_who_have_something_here() {
    let name = || Answer::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("tool").unwrap(), Rank(0))));
    let mut bench = Bench::without_clients(0, 1, 1);
    assert!(bench.knock(peer(50), tool(1000), name()).is_some(), "the server's own user");
    assert!(bench.knock(peer(51), tool(0), name()).is_some(), "root");
    assert!(bench.knock(peer(52), tool(2000), name()).is_none());
    assert!(bench.log.pop().is_some_and(|line| line.contains("user 2000's, who has nothing here")));
    bench.engine.register_client(&proc(0), 2000, 2000, 7);
    bench.lose(50);
    bench.lose(51);
    assert!(bench.knock(peer(53), tool(2000), name()).is_some(), "a user of the job");
    // Root's is root's, whatever it claims.
    let (claims, _) = tool(2000);
    bench.engine.hello(peer(60), Transport::Tcp { owner: Some(0) }, claims);
    bench.drain();
    let Some((_, Upcall::ToolConnected { infos })) = bench.upcalls.pop() else { panic!("it may come") };
    assert_eq!(Info::find(&infos, keys::USERID), Some(&Value::Uint32(0)));
    // What it says of itself must fit together, and to what the kernel says.
    let (mut liar, transport) = tool(1000);
    liar.uid_gid = Some((0, 0));
    assert!(bench.knock(peer(54), (liar, transport), name()).is_none());
    let (pretender, _) = tool(1000);
    assert!(bench.knock(peer(54), (pretender, Transport::Tcp { owner: Some(3000) }), name()).is_none());
    // The names of others are not for the taking.
    for kind in [PeerKind::ToolWithId, PeerKind::LauncherWithId, PeerKind::Scheduler] {
        assert!(bench.knock(peer(55), named_tool(2000, kind, proc(0)), name()).is_none());
    }
    let of_tool = Proc::new(Nspace::new("tool").unwrap(), Rank(0));
    assert!(bench.knock(peer(55), named_tool(1000, PeerKind::ToolWithId, of_tool.clone()), name()).is_none());
    assert!(bench.knock(peer(56), named_tool(2000, PeerKind::ToolWithId, of_tool), name()).is_some());
    // A tool that the host has launched is a client of its own.
    assert!(bench.knock(peer(57), named_tool(1000, PeerKind::ToolClient, proc(0)), name()).is_none());
    assert!(bench.knock(peer(58), named_tool(2000, PeerKind::ToolClient, proc(0)), name()).is_some());
    assert!(bench.knock(peer(59), named_tool(2000, PeerKind::ToolClient, proc(9)), name()).is_none());
}

#[test]
fn tools_of_a_user_and_of_all_users_are_bounded() {
    let mut bench = Bench::without_clients(0, 1, 1);
    let mut next = 500;
    for rank in 0..4 {
        bench.engine.register_client(&proc(rank), 2000 + rank, 2000, 7);
    }
    let mut come = |bench: &mut Bench, uid: u32| {
        next += 1;
        let name = Proc::new(Nspace::new(format!("tool.{next}")).unwrap(), Rank(0));
        bench.knock(peer(next), tool(uid), Answer::Name(Status::SUCCESS, Some(name))).is_some().then_some(next)
    };
    // An eighth of the descriptors, where this is less than 256.
    for (descriptors, most) in [(1024, 128), (1 << 20, 256)] {
        bench.engine.config.descriptors = descriptors;
        let mut came = Vec::new();
        while came.len() <= most
            && let Some(id) = come(&mut bench, 2000)
        {
            came.push(id);
        }
        assert_eq!(came.len(), most);
        assert!(bench.log.pop().is_some_and(|line| line.contains("too many tools are connected")));
        assert!(
            come(&mut bench, 2001).is_some_and(|id| {
                bench.lose(id);
                true
            }),
            "another user's"
        );
        // One that the host has launched is a process of its job.
        assert!(
            bench
                .knock(
                    peer(400),
                    named_tool(2000, PeerKind::ToolClient, proc(0)),
                    Answer::Op(Status::ERR_NOT_SUPPORTED)
                )
                .is_some()
        );
        bench.lose(400);
        bench.lose(came.pop().unwrap());
        came.push(come(&mut bench, 2000).expect("one has left"));
        came.into_iter().for_each(|id| bench.lose(id));
    }
    // A quarter for all users.
    bench.engine.config.descriptors = 1024;
    let all: Vec<u32> = (2000..2003).flat_map(|uid| std::iter::repeat_n(uid, 120)).collect();
    let came: Vec<u32> = all.into_iter().filter_map(|uid| come(&mut bench, uid)).collect();
    assert_eq!(came.len(), 256);
    assert!(come(&mut bench, 2003).is_none());
    // Who could stop the server is not bounded.
    for uid in [0, 1000] {
        assert!((0..300).all(|_| come(&mut bench, uid).is_some()), "user {uid}");
    }
}

#[test]
fn tools_that_wait_for_the_host_are_counted() {
    let mut bench = Bench::without_clients(0, 1, 1);
    bench.engine.config.foreign_tools = true;
    bench.engine.config.descriptors = 128;
    for number in 0..16 {
        let (hello, transport) = tool(2000);
        bench.engine.hello(peer(500 + number), transport, hello);
    }
    bench.drain();
    assert!(bench.knock(peer(600), tool(2000), Answer::Op(Status::ERR_NOT_SUPPORTED)).is_none());
    assert!(bench.log.pop().is_some_and(|line| line.contains("too many tools are connected")));
    bench.engine.disconnected(peer(503), Instant::now());
    let name = Proc::new(Nspace::new("tool").unwrap(), Rank(0));
    assert!(bench.knock(peer(601), tool(2000), Answer::Name(Status::SUCCESS, Some(name))).is_some());
}

/// Where the administrator demands it, tools of root and of the server's user show what only these can read.
#[test]
fn a_proof_is_demanded_where_the_server_is_told_to() {
    let name = || Answer::Name(Status::SUCCESS, Some(Proc::new(Nspace::new("tool").unwrap(), Rank(0))));
    let mut bench = Bench::without_clients(0, 1, 1);
    let secret = Secret::new().unwrap();
    bench.engine.config.tool_secret = Some(secret.clone());
    let showing = |uid: u32| {
        let (mut hello, transport) = tool(uid);
        hello.psec = crate::SECURITY_NAME.into();
        hello.credential = secret.text().as_bytes().to_vec();
        (hello, transport)
    };
    bench.engine.register_client(&proc(0), 2000, 2000, 7);
    for demands in [false, true] {
        bench.engine.config.rendezvous.demands_proof = demands;
        for uid in [0, 1000] {
            assert_eq!(bench.knock(peer(51), tool(uid), name()).is_some(), !demands, "user {uid} without");
            bench.lose(51);
            assert!(bench.knock(peer(52), showing(uid), name()).is_some(), "user {uid} with");
            bench.lose(52);
        }
        // One that says that it was launched is root's all the same.
        let launched = named_tool(0, PeerKind::ToolClient, proc(0));
        assert_eq!(bench.knock(peer(53), launched, name()).is_some(), !demands, "launched");
        bench.lose(53);
        // Others have none to show.
        assert!(bench.knock(peer(54), tool(2000), name()).is_some());
        bench.lose(54);
    }
}

#[test]
fn singletons_are_answered_as_their_release_expects() {
    let mut bench = Bench::new(0, 1, 1);
    let silent = || Answer::Op(Status::ERR_NOT_SUPPORTED);
    let alone = Proc::new(Nspace::new("singleton.here.1").unwrap(), Rank(0));
    for (version, len) in [("4.2.2", ToolReply::len(PeerKind::Singleton)), ("5.0.1", ClientReply::LEN)] {
        let (hello, transport) = named_tool(1000, PeerKind::Singleton, alone.clone());
        let knocked = bench.knock(peer(50), (Hello { version: version.into(), ..hello }, transport), silent());
        assert_eq!(knocked.map(|(_, reply)| reply.len()), Some(len), "{version}");
        bench.lose(50);
    }
    assert_eq!(bench.log.len(), 2, "they did not say farewell: {:?}", bench.log);
}

fn group() -> Option<CString> {
    Some(c"team".to_owned())
}

impl Bench {
    fn construct(&mut self, rank: u32, tag: u32, procs: Vec<Proc>, infos: Vec<Info>) {
        self.request(rank, tag, Request::GroupConstruct { group: group(), procs, infos });
    }

    fn destruct(&mut self, rank: u32, tag: u32) {
        self.request(rank, tag, Request::GroupDestruct { group: group(), procs: Vec::new(), infos: Vec::new() });
    }

    /// The status and context id in the reply to a construction.
    fn constructed(&mut self, rank: u32, tag: u32) -> Option<(Status, Option<u64>)> {
        let bytes = self.reply(rank, tag)?;
        let reply = GroupReply::decode(PLAIN, Version::OURS, &bytes).unwrap();
        Some((reply.status, reply.group.and_then(|group| group.context)))
    }

    fn heard(&self, rank: u32) -> Vec<(Status, Proc)> {
        let to_it = self.sent.iter().filter(|(to, tag, _)| (*to, *tag) == (peer(rank), TAG_NOTIFY));
        let events = to_it.map(|(_, _, bytes)| Notification::decode(PLAIN, bytes).unwrap());
        events.map(|event| (event.status, event.source)).collect()
    }
}

#[test]
fn a_group_of_one_node_is_formed_used_and_dissolved_without_the_host() {
    let mut bench = Bench::new(0, 1, 3);
    let members = vec![proc(2), proc(0)];
    for (rank, others) in [(0, members.clone()), (2, vec![proc(0), proc(2)])] {
        bench.construct(rank, 10, others, Vec::new());
    }
    for rank in [0, 2] {
        assert_eq!(bench.constructed(rank, 10), Some((Status::SUCCESS, None)));
    }
    // All of them by the wildcard, and one by its place.
    let team = |rank| Proc::new(Nspace::new("team").unwrap(), rank);
    bench.fence(0, 11, vec![team(Rank::WILDCARD)], Vec::new());
    assert_eq!(bench.status(0, 11), None);
    bench.fence(2, 11, members, Vec::new());
    assert_eq!((bench.status(0, 11), bench.status(2, 11)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    bench.fence(2, 12, vec![team(Rank(0))], Vec::new());
    assert_eq!(bench.status(2, 12), Some(Status::SUCCESS));
    bench.fence(2, 12, vec![team(Rank(1)), team(Rank(2))], Vec::new());
    assert_eq!(bench.status(2, 12), Some(Status::ERR_BAD_PARAM));
    // Who is none of them takes no part, and is let through.
    bench.fence(1, 12, vec![team(Rank::WILDCARD)], Vec::new());
    assert_eq!(bench.status(1, 12), Some(Status::SUCCESS));
    assert!(bench.engine.collectives.is_empty());
    bench.destruct(1, 13);
    assert_eq!(bench.status(1, 13), Some(Status::ERR_BAD_PARAM));
    bench.destruct(0, 13);
    assert_eq!(bench.status(0, 13), None);
    bench.destruct(2, 13);
    assert_eq!((bench.status(0, 13), bench.status(2, 13)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
    bench.destruct(0, 14);
    assert_eq!(bench.status(0, 14), Some(Status::ERR_NOT_FOUND));
    assert!(bench.upcalls.is_empty());
}

#[test]
fn the_host_gives_a_group_its_context_id_and_hears_of_its_end() {
    let mut bench = Bench::new(0, 1, 2);
    let wanted = vec![Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, Value::Bool(true))];
    for rank in 0..2 {
        bench.construct(rank, 10, everybody(), wanted.clone());
    }
    let context = vec![Info::new(keys::GROUP_CONTEXT_ID, Value::Size(77))];
    let upcall = bench.answer_last(Answer::Infos(Status::SUCCESS, context));
    let Upcall::Group { operation: GroupOperation::Construct, procs, .. } = upcall else { panic!("{upcall:?}") };
    assert_eq!(procs, [proc(0), proc(1)]);
    for rank in 0..2 {
        assert_eq!(bench.constructed(rank, 10), Some((Status::SUCCESS, Some(77))));
    }
    for rank in 0..2 {
        bench.destruct(rank, 11);
    }
    let upcall = bench.answer_last(Answer::Infos(Status::SUCCESS, Vec::new()));
    assert!(matches!(upcall, Upcall::Group { operation: GroupOperation::Destruct, .. }), "{upcall:?}");
    assert_eq!(bench.status(0, 11), Some(Status::SUCCESS));
    // A host that cannot forms none.
    for rank in 0..2 {
        bench.construct(rank, 12, everybody(), wanted.clone());
    }
    bench.answer_last(Answer::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.constructed(1, 12), Some((Status::ERR_NOT_SUPPORTED, None)));
    bench.destruct(0, 13);
    assert_eq!(bench.status(0, 13), Some(Status::ERR_NOT_FOUND));
}

#[test]
fn a_group_of_several_nodes_is_the_hosts() {
    let mut bench = Bench::new(0, 2, 1);
    bench.construct(0, 10, everybody(), Vec::new());
    let upcall = bench.answer_last(Answer::Infos(Status::SUCCESS, Vec::new()));
    assert!(matches!(upcall, Upcall::Group { operation: GroupOperation::Construct, .. }), "{upcall:?}");
    assert_eq!(bench.constructed(0, 10), Some((Status::SUCCESS, None)));
    // Asked for by name, it stays on this node.
    let local = vec![Info::new(keys::GROUP_LOCAL_ONLY, Value::Bool(true))];
    bench.construct(0, 11, vec![proc(0)], local);
    assert_eq!((bench.constructed(0, 11), bench.upcalls.len()), (Some((Status::SUCCESS, None)), 0));
}

#[test]
fn the_members_of_a_group_hear_of_who_leaves_it_and_of_who_is_lost() {
    let mut bench = Bench::new(0, 1, 4);
    let tells = vec![Info::new(keys::GROUP_NOTIFY_TERMINATION, Value::Bool(true))];
    for rank in 0..4 {
        let codes = vec![Status::GROUP_LEFT, Status::GROUP_MEMBER_FAILED];
        bench.request(rank, 9, Request::RegisterEvents { codes, infos: Vec::new() });
        if rank < 3 {
            bench.construct(rank, 10, (0..3).map(proc).collect(), tells.clone());
        }
    }
    bench.request(0, 11, Request::GroupLeave { group: group(), infos: Vec::new() });
    assert_eq!(bench.status(0, 11), Some(Status::SUCCESS));
    bench.lose(1);
    let left = (Status::GROUP_LEFT, proc(0));
    assert_eq!(bench.heard(1), std::slice::from_ref(&left));
    assert_eq!(bench.heard(2), [left, (Status::GROUP_MEMBER_FAILED, proc(1))]);
    assert_eq!((bench.heard(0), bench.heard(3)), (Vec::new(), Vec::new()));
    // The last one dissolves it alone.
    bench.destruct(2, 12);
    assert_eq!(bench.status(2, 12), Some(Status::SUCCESS));
    bench.request(0, 13, Request::GroupLeave { group: group(), infos: Vec::new() });
    assert_eq!(bench.status(0, 13), Some(Status::ERR_NOT_FOUND));
}

#[test]
fn a_group_that_loses_a_member_before_it_is_formed_is_formed_only_where_that_is_wanted() {
    let mut bench = Bench::new(0, 1, 4);
    let with = |keys: &[&'static str]| keys.iter().map(|key| Info::new(*key, Value::Bool(true))).collect::<Vec<_>>();
    for rank in 0..3 {
        let codes = vec![Status::GROUP_MEMBER_FAILED];
        bench.request(rank, 9, Request::RegisterEvents { codes, infos: Vec::new() });
        bench.construct(rank, 10, everybody(), Vec::new());
        let group = CString::new("of the host");
        let infos = with(&[keys::GROUP_ASSIGN_CONTEXT_ID]);
        bench.request(rank, 11, Request::GroupConstruct { group: group.ok(), procs: everybody(), infos });
        let group = CString::new("tolerant");
        let infos = with(&[keys::GROUP_FT_COLLECTIVE]);
        bench.request(rank, 12, Request::GroupConstruct { group: group.ok(), procs: everybody(), infos });
    }
    bench.lose(3);
    let context = vec![Info::new(keys::GROUP_CONTEXT_ID, Value::Size(77))];
    bench.answer_last(Answer::Infos(Status::SUCCESS, context));
    let failed = (Status::GROUP_MEMBER_FAILED, proc(3));
    for rank in 0..3 {
        assert_eq!(bench.constructed(rank, 10), Some((Status::GROUP_CONSTRUCT_ABORT, None)));
        assert_eq!(bench.constructed(rank, 11), Some((Status::GROUP_CONSTRUCT_ABORT, None)));
        assert_eq!(bench.constructed(rank, 12), Some((Status::SUCCESS, None)));
        assert_eq!(bench.heard(rank), std::slice::from_ref(&failed));
    }
    let tolerant = bench.engine.members_of(&proc(0), vec![Proc::new(Nspace::new("tolerant").unwrap(), Rank::WILDCARD)]);
    assert_eq!((bench.engine.groups.len(), tolerant), (1, Ok((0..3).map(proc).collect())));
    bench.construct(0, 13, vec![proc(1)], Vec::new());
    assert_eq!(bench.constructed(0, 13), Some((Status::ERR_NOT_A_MEMBER, None)));
}

#[test]
fn a_member_that_is_lost_parts_nobody_from_the_others() {
    let mut bench = Bench::new(0, 1, 4);
    for rank in 0..4 {
        bench.construct(rank, 10, everybody(), Vec::new());
    }
    let team = vec![Proc::new(Nspace::new("team").unwrap(), Rank::WILDCARD)];
    bench.fence(0, 11, team.clone(), Vec::new());
    bench.destruct(0, 12);
    bench.lose(3);
    for rank in 1..3 {
        bench.fence(rank, 11, team.clone(), Vec::new());
        bench.destruct(rank, 12);
    }
    for rank in 0..3 {
        assert_eq!(bench.status(rank, 11), Some(Status::ERR_PARTIAL_SUCCESS), "{rank}");
        assert_eq!(bench.status(rank, 12), Some(Status::SUCCESS), "{rank}");
    }
}

#[test]
fn a_group_has_no_jobs_name_and_a_process_is_in_so_many() {
    let mut bench = Bench::new(0, 1, 1);
    let name = |name: &str| Some(CString::new(name).unwrap());
    let construct = |name| Request::GroupConstruct { group: name, procs: everybody(), infos: Vec::new() };
    for name in [name("job"), name(""), None] {
        bench.request(0, 10, construct(name));
        assert_eq!(bench.constructed(0, 10), Some((Status::ERR_BAD_PARAM, None)));
    }
    for number in 0..GROUPS_MAX {
        bench.request(0, 10, construct(name(&format!("group{number}"))));
        assert_eq!(bench.constructed(0, 10), Some((Status::SUCCESS, None)));
    }
    bench.request(0, 10, construct(name("one more")));
    assert_eq!(bench.constructed(0, 10), Some((Status::ERR_OUT_OF_RESOURCE, None)));
    bench.engine.deregister_nspace(&nspace());
    assert!(bench.engine.groups.is_empty());
}

#[test]
fn an_invitation_that_is_complete_is_a_group() {
    let mut bench = Bench::new(0, 1, 3);
    let members = Value::procs([proc(0), proc(1)]);
    let told = |name: &str| {
        let infos =
            vec![Info::new(keys::GROUP_ID, Value::string(name)), Info::new(keys::EVENT_CUSTOM_RANGE, members.clone())];
        Request::Notify { status: Status::GROUP_CONSTRUCT_COMPLETE, range: Range::CUSTOM, infos }
    };
    // A job's name stays its own.
    bench.request(0, 10, told("job"));
    bench.request(0, 10, told("team"));
    assert_eq!(bench.engine.groups.len(), 1);
    // A stranger says the same of others.
    let of_stranger = vec![
        Info::new(keys::GROUP_ID, Value::string("team")),
        Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs([proc(1), proc(2)])),
    ];
    let (status, range) = (Status::GROUP_CONSTRUCT_COMPLETE, Range::CUSTOM);
    bench.request(2, 10, Request::Notify { status, range, infos: of_stranger });
    for rank in 0..2 {
        bench.destruct(rank, 11);
    }
    assert_eq!(bench.status(0, 11), Some(Status::SUCCESS));
    // One that others belong to; so many, as if it were a member.
    for number in 0..GROUPS_MAX {
        bench.request(2, 10, told(&format!("group{number}")));
    }
    assert_eq!(bench.engine.groups.len(), GROUPS_MAX);
    bench.request(2, 10, told("one more"));
    assert_eq!(bench.engine.groups.len(), GROUPS_MAX);
}

impl Bench {
    /// The reply to a query of one key by rank 0, or the status where the host is to answer.
    fn asked(&mut self, key: &str, qualifiers: Vec<Info>, answer: Answer) -> (Status, Vec<Info>) {
        let query = Query { keys: vec![CString::new(key).unwrap()], qualifiers };
        self.request(0, 60, Request::Query { queries: vec![query] });
        if !self.upcalls.is_empty() {
            self.answer_last(answer);
        }
        let bytes = self.reply(0, 60).expect("a reply");
        let reply = InfosReply::decode(PLAIN, Version::OURS, &bytes).unwrap();
        (reply.status, reply.infos.unwrap_or_default())
    }
}

#[test]
fn what_the_host_does_not_answer_is_looked_up_in_what_it_registered() {
    let mut bench = Bench::new(0, 2, 2);
    let none = || Answer::Op(Status::ERR_NOT_SUPPORTED);
    let one = |(status, infos): (Status, Vec<Info>)| {
        assert_eq!(status, Status::SUCCESS);
        infos.into_iter().next().map(|info| info.value)
    };
    assert_eq!(one(bench.asked(keys::QUERY_NAMESPACES, Vec::new(), none())), Some(Value::string("job")));
    assert_eq!(one(bench.asked(keys::JOB_SIZE, Vec::new(), none())), Some(Value::Uint32(4)));
    let unknown = Answer::Op(Status::ERR_NOT_FOUND);
    assert_eq!(one(bench.asked(keys::JOB_SIZE, Vec::new(), unknown)), Some(Value::Uint32(4)));
    for (key, ranks) in [(keys::QUERY_PROC_TABLE, 4), (keys::QUERY_LOCAL_PROC_TABLE, 2)] {
        let job = vec![Info::new(keys::NSPACE, Value::string("job"))];
        let Some(Value::DataArray(table)) = one(bench.asked(key, job, none())) else { panic!("{key}") };
        let hosts: Vec<_> = table
            .items
            .iter()
            .map(|item| match item {
                Value::ProcInfo(info) => (info.proc.rank.0, info.hostname.clone().unwrap().into_string().unwrap()),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected: Vec<_> = (0..ranks).map(|rank| (rank, NODES[rank as usize / 2].to_owned())).collect();
        assert_eq!(hosts, expected, "{key}");
    }
    let of_rank = vec![Info::new(keys::RANK, Value::Rank(Rank(3)))];
    assert_eq!(one(bench.asked(keys::HOSTNAME, of_rank, none())), Some(Value::string("nodeB")));
    let Some(Value::DataArray(all)) = one(bench.asked(keys::QUERY_NAMESPACE_INFO, Vec::new(), none())) else {
        panic!()
    };
    assert_eq!(all.items.len(), 1);
    // What nobody knows; what the host says, whatever has been registered.
    assert_eq!(bench.asked("pmix.nobody", Vec::new(), none()), (Status::ERR_NOT_SUPPORTED, Vec::new()));
    let said = vec![Info::new(keys::QUERY_NAMESPACES, Value::string("a,b"))];
    let answer = Answer::Infos(Status::SUCCESS, Info::copies(&said).unwrap());
    assert_eq!(bench.asked(keys::QUERY_NAMESPACES, Vec::new(), answer), (Status::SUCCESS, said));
    // Some of what is asked.
    let keys = [keys::JOB_SIZE, "pmix.nobody"].map(|key| CString::new(key).unwrap()).to_vec();
    bench.request(0, 61, Request::Query { queries: vec![Query { keys, qualifiers: Vec::new() }] });
    bench.answer_last(none());
    let reply = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(0, 61).unwrap()).unwrap();
    assert_eq!((reply.status, reply.infos.map(|infos| infos.len())), (Status::QUERY_PARTIAL_SUCCESS, Some(1)));
}

#[test]
fn process_sets_are_known_without_the_host() {
    let mut bench = Bench::new(0, 1, 2);
    bench.engine.set_process_set(c"two".into(), Some(vec![proc(1)]));
    bench.engine.set_process_set(c"one".into(), Some(everybody()));
    let names = bench.asked(keys::QUERY_PSET_NAMES, Vec::new(), Answer::Op(Status::ERROR));
    assert_eq!(names.1[0].value, Value::string("one,two"));
    assert_eq!(bench.asked(keys::QUERY_NUM_PSETS, Vec::new(), Answer::Op(Status::ERROR)).1[0].value, Value::Size(2));
    let set = vec![Info::new(keys::PSET_NAME, Value::string("two"))];
    let told = bench.asked(keys::QUERY_PSET_MEMBERSHIP, set, Answer::Op(Status::ERROR));
    assert_eq!(told.1[0].value, Value::procs([proc(1)]));
    assert!(bench.upcalls.is_empty());
    // With something that is the host's.
    let keys = [keys::QUERY_NUM_PSETS, keys::QUERY_QUEUE_LIST].map(|key| CString::new(key).unwrap()).to_vec();
    bench.request(0, 61, Request::Query { queries: vec![Query { keys, qualifiers: Vec::new() }] });
    let asked = bench.answer_last(Answer::Op(Status::ERR_NOT_FOUND));
    assert!(
        matches!(asked, Upcall::Query { queries, .. } if queries[0].keys == [CString::new(keys::QUERY_QUEUE_LIST).unwrap()])
    );
    let reply = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(0, 61).unwrap()).unwrap();
    assert_eq!((reply.status, reply.infos.map(|infos| infos.len())), (Status::QUERY_PARTIAL_SUCCESS, Some(1)));
    // The last one is gone: all of it is the host's again.
    bench.engine.set_process_set(c"one".into(), None);
    bench.engine.set_process_set(c"two".into(), None);
    let gone = bench.asked(keys::QUERY_NUM_PSETS, Vec::new(), Answer::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!((gone.0, &gone.1[0].value), (Status::SUCCESS, &Value::Size(0)));
}

impl Bench {
    /// What a peer has been sent of processes' output: the handler, the source's rank and the text.
    fn output(&mut self, id: PeerId) -> Vec<(u64, u32, String)> {
        let (output, others) =
            self.sent.drain(..).partition::<Vec<_>, _>(|(peer, tag, _)| *peer == id && *tag == TAG_IOF);
        self.sent = others;
        let decoded = output.into_iter().map(|(_, _, payload)| IoDelivery::decode(PLAIN, &payload).unwrap());
        decoded.map(|o| (o.handler, o.source.rank.0, String::from_utf8(o.data).unwrap())).collect()
    }

    fn says(&mut self, rank: u32, channel: u16, text: &str) {
        let status = self.engine.deliver_output(proc(rank), channel, text.into(), Vec::new());
        assert_eq!(status, Status::SUCCESS);
        self.drain();
    }

    fn pull(&mut self, rank: u32, tag: u32, procs: Vec<Proc>, handler: u64) {
        self.request(rank, tag, Request::IoPull { procs, infos: Vec::new(), channels: 6, handler: Some(handler) });
    }
}

#[test]
fn output_is_sent_to_who_asked_for_it_and_kept_for_who_may() {
    let mut bench = Bench::new(0, 1, 3);
    bench.says(1, 2, "early");
    bench.says(1, 8, "diagnostics");
    bench.says(0, 2, "own");
    bench.pull(0, 110, everybody(), 5);
    bench.says(1, 4, "before the answer");
    assert!(bench.output(peer(0)).is_empty(), "the host has not answered");
    let asked = bench.answer_last(Answer::Op(Status::OPERATION_SUCCEEDED));
    assert!(matches!(asked, Upcall::IofPull { channels: 6, .. }));
    let reply = IoPullReply::decode(PLAIN, Version::OURS, &bench.reply(0, 110).unwrap()).unwrap();
    let number = reply.handler.unwrap();
    let expected = [(5, 1, "early".to_owned()), (5, 1, "before the answer".to_owned())];
    assert_eq!(bench.output(peer(0)), expected, "not its own, nor of other channels");

    bench.pull(2, 111, vec![proc(1)], 9);
    bench.answer_last(Answer::Op(Status::SUCCESS));
    assert!(bench.output(peer(2)).is_empty(), "what somebody has had is not kept");
    bench.says(1, 2, "both");
    assert_eq!(bench.output(peer(0)), [(5, 1, "both".to_owned())]);
    assert_eq!(bench.output(peer(2)), [(9, 1, "both".to_owned())]);

    bench.request(2, 112, Request::IoDeregister { infos: Vec::new(), handler: number });
    assert_eq!(bench.status(2, 112), Some(Status::ERR_NOT_FOUND), "it is another one's");
    bench.request(0, 113, Request::IoDeregister { infos: Vec::new(), handler: number });
    let Upcall::IofPull { procs, infos, .. } = bench.answer_last(Answer::Op(Status::SUCCESS)) else { panic!() };
    assert_eq!((procs, infos[0].key.is(keys::IOF_STOP)), (everybody(), true));
    assert_eq!(bench.status(0, 113), Some(Status::SUCCESS));
    bench.says(1, 2, "one");
    assert!(bench.output(peer(0)).is_empty());
    bench.engine.disconnected(peer(2), bench.now);
    bench.says(1, 2, "for nobody");
    bench.pull(0, 114, vec![proc(1)], 6);
    bench.answer_last(Answer::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.status(0, 114), Some(Status::ERR_NOT_SUPPORTED));
    bench.pull(0, 115, vec![proc(1)], 7);
    bench.answer_last(Answer::Op(Status::SUCCESS));
    assert_eq!(bench.output(peer(0)), [(7, 1, "for nobody".to_owned())]);
}

#[test]
fn what_is_kept_of_output_has_its_bounds_and_goes_with_the_job() {
    let mut bench = Bench::new(0, 1, 2);
    let long = "x".repeat(1 << 20);
    for _ in 0..40 {
        bench.says(1, 2, &long);
    }
    bench.says(1, 2, "last");
    bench.pull(0, 110, everybody(), 5);
    bench.answer_last(Answer::Op(Status::SUCCESS));
    let had = bench.output(peer(0));
    assert_eq!((had.len(), had.last().unwrap().2.as_str()), (16, "last"));
    assert_eq!(bench.engine.deliver_output(proc(1), 1, Vec::new(), Vec::new()), Status::ERR_BAD_PARAM);

    let other = Proc::new(Nspace::new("other").unwrap(), Rank(0));
    assert_eq!(bench.engine.deliver_output(other.clone(), 2, b"gone".to_vec(), Vec::new()), Status::SUCCESS);
    bench.engine.deregister_nspace(&other.nspace);
    bench.pull(0, 111, vec![other], 6);
    bench.answer_last(Answer::Op(Status::SUCCESS));
    assert!(bench.output(peer(0)).is_empty());
}

#[test]
fn a_tool_is_sent_output_without_asking() {
    let mut bench = Bench::new(0, 1, 1);
    let name = Proc::new(Nspace::new("tool").unwrap(), Rank(5));
    bench.knock(peer(50), tool(1000), Answer::Name(Status::SUCCESS, Some(name))).unwrap();
    let server = Proc::new(Nspace::new("server").unwrap(), Rank(0));
    assert_eq!(bench.engine.deliver_output(server, 4, b"its server's".to_vec(), Vec::new()), Status::SUCCESS);
    bench.drain();
    assert_eq!(bench.output(peer(50)), [(0, 0, "its server's".to_owned())]);

    let spawned = Nspace::new("spawned").unwrap();
    let first = Proc::new(spawned.clone(), Rank(0));
    let spawn = |infos| Request::Spawn { infos, apps: Vec::new() };
    let said = |bench: &mut Bench, text: &str| {
        let status = bench.engine.deliver_output(first.clone(), 2, text.into(), Vec::new());
        assert_eq!(status, Status::SUCCESS);
        bench.drain();
    };
    // A rank has its own ways, unless it asks for this one.
    bench.request(0, 120, spawn(Vec::new()));
    bench.answer_last(Answer::Spawn(Status::SUCCESS, Some(spawned.clone())));
    said(&mut bench, "before");
    assert!(bench.output(peer(0)).is_empty());
    bench.request(50, 120, spawn(vec![Info::new(keys::FWD_STDERR, Value::Bool(false))]));
    bench.answer_last(Answer::Spawn(Status::SUCCESS, Some(spawned.clone())));
    bench.request(0, 121, spawn(vec![Info::new(keys::FWD_STDOUT, Value::Bool(true))]));
    bench.answer_last(Answer::Spawn(Status::SUCCESS, Some(spawned.clone())));
    said(&mut bench, "after");
    assert_eq!(bench.output(peer(50)), [(0, 0, "before".to_owned()), (0, 0, "after".to_owned())]);
    assert_eq!(bench.output(peer(0)), [(0, 0, "after".to_owned())]);
    assert_eq!(bench.engine.deliver_output(first.clone(), 4, b"error".to_vec(), Vec::new()), Status::SUCCESS);
    bench.drain();
    assert!(bench.output(peer(50)).is_empty());
}

#[test]
fn who_has_pushed_input_hears_when_no_more_is_wanted() {
    let mut bench = Bench::new(0, 1, 3);
    for rank in [0, 1] {
        let data = Some(b"text".to_vec());
        bench.request(rank, 130, Request::IoPush { targets: everybody(), infos: Vec::new(), data });
        let upcall = bench.answer_last(Answer::Op(Status::ERR_IOF_XOFF));
        assert!(
            matches!(upcall, Upcall::PushStdin { source, data: Some(data), .. } if source == proc(rank) && data == b"text")
        );
        assert_eq!(bench.status(rank, 130), Some(Status::ERR_IOF_XOFF));
    }
    let data = Some(b"own".to_vec());
    bench.enter_as(PeerId::OWN, 130, &Request::IoPush { targets: everybody(), infos: Vec::new(), data });
    bench.answer_last(Answer::Op(Status::SUCCESS));
    let control = |source, channel| FlowControl { source, channel, is_off: false, infos: Vec::new() };
    let anybody = Proc::new(Nspace::new("").unwrap(), Rank::WILDCARD);
    let refused = bench.engine.control_input(&control(anybody.clone(), 2), |_| panic!("of output"));
    assert_eq!(refused, Status::ERR_NOT_SUPPORTED);
    for (source, told, is_own) in [(anybody, vec![0, 1], true), (proc(1), vec![1], false)] {
        let mut own = false;
        assert_eq!(bench.engine.control_input(&control(source, 1), |_| own = true), Status::SUCCESS);
        assert_eq!(own, is_own, "at once");
        bench.drain();
        for rank in 0..3 {
            let control = bench.reply(rank, TAG_FLOW_CONTROL);
            let control = control.map(|payload| FlowControl::decode(PLAIN, &payload).unwrap());
            assert_eq!(control.is_some_and(|control| !control.is_off), told.contains(&rank));
        }
    }
}

#[test]
fn attributes_are_known_of_the_library_and_of_the_host() {
    let mut bench = Bench::new(0, 1, 1);
    let none = || Answer::Op(Status::ERR_NOT_SUPPORTED);
    let described = |name: &str, key: &'static str, ty| Regattr {
        name: CString::new(name).ok(),
        key: key.into(),
        ty,
        description: vec![c"words".into()],
    };
    let spawn = vec![described("PMIX_SPAWN_WHERE", "host.where", DataType::STRING)];
    assert_eq!(bench.engine.register_attributes(c"PMIx_Spawn".into(), spawn.clone()), Status::SUCCESS);
    let again = bench.engine.register_attributes(c"PMIx_Spawn".into(), Vec::new());
    assert_eq!(again, Status::ERR_REPEAT_ATTR_REGISTRATION);
    assert_eq!(bench.engine.register_attributes(c"PMIx_Log".into(), Vec::new()), Status::SUCCESS);

    let mut ask = |qualifiers: &[(&'static str, Value)]| -> Vec<Info> {
        let qualifiers = qualifiers.iter().map(|(key, value)| Info::new(*key, value.clone())).collect();
        let (status, infos) = bench.asked(keys::QUERY_ATTRIBUTE_SUPPORT, qualifiers, none());
        assert_eq!((status, infos.len()), (Status::SUCCESS, 1));
        infos[0].value.iter_infos().cloned().collect()
    };
    let text = |info: &Info| String::from_utf8_lossy(info.value.as_text().unwrap()).into_owned();
    let of_host = ask(&[(keys::HOST_FUNCTIONS, Value::Undef)]);
    assert_eq!(of_host, [Info::new(keys::HOST_FUNCTIONS, Value::string("PMIx_Log,PMIx_Spawn"))]);
    let regattrs = |attributes: &[Regattr]| {
        let items = attributes.iter().map(|attribute| Value::Regattr(Box::new(attribute.clone()))).collect();
        Value::DataArray(Box::new(DataArray { ty: DataType::REGATTR, items }))
    };
    let of_spawn = ask(&[(keys::HOST_ATTRIBUTES, Value::string("PMIx_Spawn,PMIx_Get"))]);
    assert_eq!(of_spawn, [Info::new("PMIx_Spawn", regattrs(&spawn))]);
    assert_eq!(ask(&[(keys::HOST_ATTRIBUTES, Value::string("all"))]).len(), 2);
    let get = ask(&[(keys::CLIENT_ATTRIBUTES, Value::string("PMIx_Get"))]);
    let Value::DataArray(attributes) = &get[0].value else { panic!("{get:?}") };
    let names = attributes.items.iter().map(|item| match item {
        Value::Regattr(attribute) => (attribute.name.clone().unwrap(), attribute.key.to_string(), attribute.ty),
        other => panic!("{other:?}"),
    });
    let names: Vec<_> = names.collect();
    assert!(names.contains(&(c"PMIX_TIMEOUT".into(), keys::TIMEOUT.into(), DataType::INT)), "{names:?}");
    let functions = ask(&[(keys::SERVER_FUNCTIONS, Value::Undef), (keys::TOOL_FUNCTIONS, Value::Undef)]);
    assert!(
        text(&functions[0]).contains("PMIx_server_register_nspace") && text(&functions[1]).contains("PMIx_tool_init")
    );
    let everything = ask(&[]);
    assert!(everything.iter().any(|info| info.key.is(keys::CLIENT_FUNCTIONS)) && everything.len() > 40);
    assert!(everything.iter().any(|info| info.key.is("PMIx_Spawn") && info.value == regattrs(&spawn)));

    let (status, infos) = bench.asked(keys::QUERY_SUPPORTED_KEYS, Vec::new(), none());
    assert!(status.is_success() && text(&infos[0]).split(',').any(|key| key == keys::QUERY_PROC_TABLE), "{infos:?}");
    let (status, infos) = bench.asked(keys::QUERY_SUPPORTED_QUALIFIERS, Vec::new(), none());
    assert!(status.is_success() && text(&infos[0]).split(',').any(|key| key == keys::SESSION_ID), "{infos:?}");
    // A host that says itself what it supports has the word.
    let said = vec![Info::new(keys::QUERY_SUPPORTED_KEYS, Value::string("own"))];
    let (_, infos) = bench.asked(keys::QUERY_SUPPORTED_KEYS, Vec::new(), Answer::Infos(Status::SUCCESS, said.clone()));
    assert_eq!(infos, said);
}

#[test]
fn what_is_collected_of_jobs_is_read_again() {
    let bench = Bench::new(0, 2, 2);
    assert_eq!(bench.engine.collect_job_info(&[]), Err(Status::ERR_BAD_PARAM));
    let stranger = Proc::new(Nspace::new("stranger").unwrap(), Rank(0));
    assert_eq!(bench.engine.collect_job_info(std::slice::from_ref(&stranger)), Ok(Vec::new()));
    let bytes = bench.engine.collect_job_info(&[proc(0), stranger, proc(1)]).unwrap();
    let mut unpacker = Unpacker::new(EXCHANGE, &bytes);
    let object = unpacker.byte_object().unwrap();
    assert!(unpacker.is_empty(), "each job once");
    let job = jobinfo::decode(EXCHANGE, object).unwrap();
    let known = bench.engine.job(&nspace()).unwrap();
    assert_eq!((job.nspace.clone(), job.size()), (nspace(), known.size()));
    for rank in (0..4).map(Rank) {
        let hostname =
            |job: &JobData| job.procs.get(rank, keys::HOSTNAME.as_bytes()).map(|name| name.to_value().unwrap());
        assert!(hostname(&job).is_some() && hostname(&job) == hostname(&known), "{rank}");
    }
}

#[test]
fn a_users_standing_follows_the_processes_that_are_to_come() {
    let expects = |expected| Standing::Member { expected };
    let mut bench = Bench::without_clients(0, 1, 3);
    assert_eq!(bench.engine.standing(Some(2000)), Standing::Nobody);
    assert_eq!([Some(0), Some(1000)].map(|user| bench.engine.standing(user)), [expects(0), expects(0)]);
    for rank in 0..3 {
        bench.engine.register_client(&proc(rank), 2000, 2000, 0);
        assert_eq!(bench.engine.standing(Some(2000)), expects(rank as usize + 1));
    }
    bench.engine.hello(peer(0), Transport::Tcp { owner: Some(2000) }, Bench::hello(0));
    assert_eq!(bench.engine.standing(Some(2000)), expects(2));
    bench.engine.register_client(&proc(1), 3000, 3000, 0);
    assert_eq!([Some(2000), Some(3000)].map(|user| bench.engine.standing(user)), [expects(1), expects(1)]);
    // Where the kernel can't be asked they are all one.
    assert_eq!(bench.engine.standing(None), expects(2));
    bench.engine.deregister_client(&proc(2));
    assert_eq!(bench.engine.standing(Some(2000)), expects(0));
    bench.engine.deregister_nspace(&nspace());
    assert_eq!(bench.engine.standing(Some(2000)), Standing::Nobody);
    bench.engine.config.foreign_tools = true;
    bench.engine.deregister_nspace(&nspace());
    bench.engine.register_client(&proc(0), 3000, 3000, 0);
    assert_eq!([Some(2000), Some(3000)].map(|user| bench.engine.standing(user)), [Standing::Stranger, expects(1)]);
    bench.engine.config.trust_claims = false;
    assert_eq!(bench.engine.standing(None), Standing::Stranger);
}

/// Cuts a file of the namespace's directory, as whoever runs as the server's user can.
fn cut(directory: &Path, name: &str) {
    for file in std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()) {
        if file.file_name().is_some_and(|found| found.to_string_lossy().starts_with(name)) {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
            std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(0).unwrap();
        }
    }
}

#[test]
fn files_that_are_cut_do_not_end_the_server() {
    let long = |byte: u8| Value::ByteObject(vec![byte; 50_000].into());
    let commit = |bench: &mut Bench, rank, key: &'static str, value| {
        let kval = Kval { key: Key::from(key), value };
        bench.request(rank, 50, Request::Commit { parts: vec![(3, vec![kval])] });
        assert_eq!(bench.status(rank, 50), Some(Status::SUCCESS));
    };
    for name in ["segment-", "page-0"] {
        let directory = tempfile::tempdir().unwrap();
        let mut bench = Bench::in_directory(0, 1, 2, Some(directory.path()));
        for rank in 0..2 {
            bench.engine.register_client(&proc(rank), 1000, 1000, 0);
            bench.connect(rank);
        }
        commit(&mut bench, 0, "first", long(1));
        let fence = |bench: &mut Bench| {
            (0..2).for_each(|rank| bench.fence(rank, 60, everybody(), collect()));
            assert_eq!((bench.status(0, 60), bench.status(1, 60)), (Some(Status::SUCCESS), Some(Status::SUCCESS)));
        };
        fence(&mut bench);
        let env = bench.engine.setup_fork(&proc(0));
        let (_, segments) = env.iter().find(|(name, _)| name == "PMIX_DSTORE_SEGMENTS").expect("shared memory");
        cut(Path::new(segments), name);
        // Both are merged into one segment; what was published is put again.
        commit(&mut bench, 0, "second", long(2));
        commit(&mut bench, 1, "other", long(3));
        fence(&mut bench);
        commit(&mut bench, 0, "first", long(4));
        for (of, key, byte) in [(0, "first", 4), (0, "second", 2), (1, "other", 3)] {
            bench.get(1, 70, of, key, Vec::new());
            let reply = bench.reply(1, 70).expect("a reply");
            assert!(reply.windows(50_000).any(|part| part.iter().all(|found| *found == byte)), "{name}: {key}");
        }
        let is_logged = bench.log.iter().any(|line| line.contains("page-0"));
        assert_eq!(is_logged, name == "page-0", "{:?}", bench.log);
    }
}
