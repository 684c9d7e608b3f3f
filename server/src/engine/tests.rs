//! The engine fed by hand: scripted peers, several servers, hosts that answer late or never.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nix::unistd::{getegid, geteuid};
use parking_lot::Mutex;
use pmix_client::Task;
use pmix_dstore::codec::{BufferType, Dialect, Module, Unpacker};
use pmix_dstore::gather::Slices;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{
    Bytes, DataArray, DataType, Info, InfoFlags, Key, KeyRef, Kval, Nspace, Proc, Query, Rank, Regattr, Status, Value,
    keys,
};
use pmix_dstore::segment::{Directory, NamespaceView};
use pmix_wire::reply::{
    ConnectReply, FenceReply, GetReply, GroupReply, InfosReply, IoPullReply, RefreshReply, SpawnReply, StatusReply,
};
use pmix_wire::{
    ClientReply, FlowControl, Hello, IoDelivery, Notification, PeerKind, Reply, Request, TAG_FIRST_COMMIT,
    TAG_FLOW_CONTROL, TAG_IOF, TAG_NOTIFY, ToolReply, Version, blob, jobinfo,
};

use super::events::{Range, Sender};
use super::limits::{GROUPS_MAX, MONITORS_MAX};
use super::server_mark::{ANNOUNCEMENT, MARK};
use super::{
    DirectoryNumber, EXCHANGE, Engine, JobPlan, LOSS_DELAY, Output, PeerId, Published, RETURN_DELAY, Standing,
    Transport,
};
use crate::GroupOperation;
use crate::access::Access;
use crate::cleanup::FileState;
use crate::completion::{AnswerSink, UpcallResult};
use crate::config::{Config, LATE_KEY_WAIT, RendezvousOptions, SlurmFence};
use crate::left_out::left_out;
use crate::publisher::Publishers;
use crate::secret::Secret;
use crate::upcall::Upcall;

mod answers;
mod apart;
mod connections;
mod connects;
mod constructs;
mod deaths;
mod deletion;
mod events;
mod fences;
mod forms;
mod gets;
mod groups;
mod inspection;
mod late;
mod monitors;
mod namespaces_of_connects;
mod nspaces;
mod outputs;
mod participants;
mod publication;
mod queries;
mod segments;
mod server_mark;
mod slurm;
mod successors;
mod tools;

/// Over TCP, without a user from the kernel.
const TCP: Transport = Transport::Tcp { owner: None };

struct NoSink;
impl AnswerSink for NoSink {
    fn answer(&self, _id: u64, _answer: UpcallResult) -> Option<Task> {
        None
    }

    fn defer(&self, _job: Task) {}
}

/// A server with its scripted peers.
struct Bench {
    engine: Engine,
    publishers: Publishers,
    now: Instant,
    sent: Vec<(PeerId, u32, Vec<u8>)>,
    upcalls: Vec<(u64, Upcall)>,
    closed: Vec<PeerId>,
    log: Vec<String>,
    /// Output that the server's process writes itself.
    shown: Vec<IoDelivery>,
    /// Files that are watched are on a file system that does not answer.
    no_look_returns: bool,
    /// How often it was asked.
    looks: usize,
}

const PLAIN: Dialect = Dialect::plain(Module::V41);
const NODES: [&str; 4] = ["nodeA", "nodeB", "nodeC", "nodeD"];

thread_local! {
    /// The name of the test's job.
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
            assert_eq!(bench.register_client(&proc(rank), 1000, 1000, 7), Status::SUCCESS);
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
            wants_remote: false,
            munge_for_loopback: false,
            me: Proc::new(Nspace::new("server").unwrap(), Rank(node as u32)),
            hostname: NODES[node].to_owned(),
            server_tmpdir: directory.unwrap_or(Path::new("/nonexistent")).to_owned(),
            system_tmpdir: "/tmp".into(),
            rendezvous: RendezvousOptions { tools: true, ..RendezvousOptions::default() },
            uid: 1000,
            gid: 1000,
            singleton: None,
            is_gateway: false,
            foreign_tools: false,
            descriptors: 1024,
            access: Access::default(),
            port: 0,
            socket_mode: 0o600,
            shared_memory: directory.is_some(),
            trust_claims: true,
            tool_secret: None,
            slurm_fence: SlurmFence::Agreed,
            late_key_wait: LATE_KEY_WAIT,
            stock_release: None,
            restart: None,
            life: 0,
            lasting_name: String::new(),
        };
        let sink: Weak<dyn AnswerSink> = Weak::<NoSink>::new();
        let mut bench = Bench {
            publishers: Publishers::new(&config),
            engine: Engine::new(config, 1, sink),
            now: Instant::now(),
            sent: Vec::new(),
            upcalls: Vec::new(),
            closed: Vec::new(),
            log: Vec::new(),
            shown: Vec::new(),
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

    /// A server whose `ranks` local ranks are connected, and read its segments in `directory`.
    fn connected_in(directory: &Path, ranks: u32) -> Bench {
        let mut bench = Bench::in_directory(0, 1, ranks, Some(directory));
        for rank in 0..ranks {
            bench.register_client(&proc(rank), 1000, 1000, 0);
            bench.connect(rank);
        }
        bench
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
        self.answer_last(UpcallResult::Op(Status::SUCCESS));
    }

    /// Collects the engine's outputs.
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
                    Output::Show(output) => self.shown.push(output),
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
                    Output::ReadMemory(asked) => {
                        let values = asked.read();
                        self.engine.memory_read(*asked, values);
                    }
                    Output::Publish(directory) => drop(self.publish(directory)),
                    Output::Admit { .. } | Output::Listen(..) | Output::Unlisten(_) => {}
                }
            }
        }
    }

    /// Performs the next plan of a directory.
    fn publish(&mut self, directory: DirectoryNumber) -> bool {
        let Some(plan) = self.engine.take_plan(directory) else { return false };
        let published = self.publishers.carry_out(plan);
        self.engine.published(published);
        true
    }

    /// Performs a call of a host, with the publications that it requests.
    fn operate<R>(&mut self, operation: impl FnOnce(&mut Engine) -> R) -> R {
        let (result, tickets) = self.engine.recording(operation);
        for ticket in tickets {
            while !self.engine.is_published(&ticket) {
                assert!(self.publish(ticket.directory), "nobody else is at it");
            }
        }
        result
    }

    fn register_client(&mut self, proc: &Proc, uid: u32, gid: u32, object: usize) -> Status {
        self.operate(|engine| engine.register_client(proc, uid, gid, object))
    }

    fn deregister_nspace(&mut self, nspace: &Nspace) -> Status {
        self.operate(|engine| engine.deregister_nspace(nspace))
    }

    fn prepare_client(&mut self, proc: &Proc) {
        self.operate(|engine| engine.prepare_client(proc));
    }

    fn answer_last(&mut self, answer: UpcallResult) -> Upcall {
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

    /// Takes the reply to a request from the sent messages.
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

/// Two servers exchange the fence that both have passed to their hosts.
fn exchange(a: &mut Bench, b: &mut Bench) {
    let all = contributions(a, b);
    a.answer_last(UpcallResult::Data(Status::SUCCESS, all.clone().into()));
    b.answer_last(UpcallResult::Data(Status::SUCCESS, all.into()));
}

/// The contributions of both servers to a fence.
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

/// Rank 1's contribution to the last fence, with its marks.
fn marked_contribution(b: &Bench) -> Vec<Kval> {
    let Upcall::Fence { data, .. } = &b.upcalls.last().expect("a fence at the host").1 else { panic!("no fence") };
    let ranks = blob::decode_fence(EXCHANGE, &data.clone().into_bytes().unwrap()).unwrap().remove(0).ranks;
    ranks.into_iter().flat_map(|(_, kvals)| kvals).collect()
}

/// Rank 1's contribution to the last fence, without what its server announces.
fn contribution(b: &Bench) -> Vec<Kval> {
    let mut kvals = marked_contribution(b);
    kvals.retain(|kval| !kval.key.is(MARK) || kval.value != ANNOUNCEMENT);
    kvals
}

/// The keys of that.
fn contributed(b: &Bench) -> Vec<String> {
    contribution(b).iter().map(|kval| kval.key.to_string()).collect()
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

/// Connects another program under a rank.
fn connect_as(bench: &mut Bench, id: PeerId, rank: u32) {
    bench.engine.hello(id, TCP, Bench::hello(rank));
    bench.drain();
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
}

/// The variables of an environment that lead to shared memory.
fn shared_env(env: &[(String, OsString)]) -> Vec<&OsStr> {
    let ours = env.iter().filter(|(name, _)| name.starts_with("PMIX_DSTORE") && name != "PMIX_DSTORE_SERVER");
    ours.map(|(_, value)| value.as_os_str()).collect()
}

/// A namespace of one process on this node, connected as a separate peer.
fn lone_job(bench: &mut Bench, name: &'static str, id: PeerId) -> Proc {
    let proc = Proc::new(Nspace::new(name).unwrap(), Rank(0));
    let infos = [Info::new(keys::NODE_MAP, Value::string(NODES[0])), Info::new(keys::PROC_MAP, Value::string("0"))];
    bench.engine.register_nspace(JobPlan::read(&proc.nspace, 1, &infos, None, NODES[0]).unwrap());
    bench.register_client(&proc, 1000, 1000, 0);
    bench.engine.hello(id, TCP, Hello { proc: Some(proc.clone()), ..Bench::hello(0) });
    bench.drain();
    bench.answer_last(UpcallResult::Op(Status::SUCCESS));
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

/// A tool without a name, of this user according to the kernel.
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

/// The same with its own name.
fn named_tool(uid: u32, kind: PeerKind, proc: Proc) -> (Hello, Transport) {
    let (hello, transport) = tool(uid);
    (Hello { flag: kind as u8, proc: Some(proc), ..hello }, transport)
}

impl Bench {
    /// The server's answer to a handshake: status and bytes; `None` if it closes the connection.
    fn knock(
        &mut self,
        id: PeerId,
        (hello, transport): (Hello, Transport),
        answer: UpcallResult,
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

fn group() -> Option<CString> {
    Some(c"team".to_owned())
}

impl Bench {
    /// The reply to rank 0's query of one key. The host, if it gets the query, gives `answer`.
    fn asked(&mut self, key: &str, qualifiers: Vec<Info>, answer: UpcallResult) -> (Status, Vec<Info>) {
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

/// Truncates a file of the namespace's directory, as any process of the server's user can.
fn cut(directory: &Path, name: &str) {
    for file in std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()) {
        if file.file_name().is_some_and(|found| found.to_string_lossy().starts_with(name)) {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
            std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(0).unwrap();
        }
    }
}
