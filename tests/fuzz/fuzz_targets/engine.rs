//! A server's engine: several peers, the host, the publisher and the clock do what the input says. Nobody is answered twice or after
//! having gone, replies are replies to what was asked, and when all have gone nothing of them is left.
//!
//! Input: steps, each an action, whom it concerns, and how many bytes belong to it.
#![no_main]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use pmix_dstore::codec::{BufferType, Dialect, Module, Unpacker};
use pmix_dstore::model::{Info, Kval, Nspace, Pdata, Proc, Rank, Status, Value, keys};
use pmix_fuzz::bounded;
use pmix_fuzz::message::{Form, Message};
use pmix_server::simulate::{Event, OWN, STORE, Simulation};
use pmix_server::{DmodexDone, UpcallResult};
use pmix_wire::reply::StatusReply;
use pmix_wire::{Command, Hello, PeerKind, Reply, Request, TAG_FIRST, Version};

/// User and group of all processes.
const USER: (u32, u32) = (1000, 1000);
/// From this action on the publisher does something.
const PUBLICATIONS: u8 = 240;

/// Heap bytes for each byte of input: what is compressed may expand by 1040, and is kept for this node and for others.
const HEAP_PER_BYTE: usize = 8 * 1040;
/// Every namespace has tables, and a directory page.
const HEAP_SERVER: usize = 8 << 20;
/// As many steps as a run has at most.
const STEPS_MAX: usize = 200;

fuzz_target!(|input: &[u8]| {
    bounded(input.len() + HEAP_SERVER / HEAP_PER_BYTE, HEAP_PER_BYTE, || run(input));
});

fn run(mut input: &[u8]) {
    let mut bench = Bench::new();
    for _ in 0..STEPS_MAX {
        let [action, whom, len, rest @ ..] = input else { break };
        // Long messages are told by a length of 255: what is left.
        let len = if *len == 255 { rest.len() } else { rest.len().min(usize::from(*len)) };
        let (bytes, rest) = rest.split_at(len);
        input = rest;
        bench.step(*action, *whom, bytes);
        bench.drain();
    }
    bench.end();
}

/// What a peer is that the engine has let in.
#[derive(Clone, Copy)]
struct Connected {
    dialect: Dialect,
    version: Version,
    admitted: bool,
}

struct Bench {
    engine: Simulation,
    now: Instant,
    /// By number, which the engine is told; those that are gone are not here.
    peers: BTreeMap<u64, Connected>,
    peer_next: u64,
    /// Requests without a reply: who asked with which tag, and for what.
    asked: HashMap<(u64, u32), Command>,
    tag_next: u32,
    /// What the publisher has not begun with.
    wanted: BTreeSet<u64>,
    /// Upcalls without an answer; whether it is told that an answer is data.
    upcalls: BTreeMap<u64, bool>,
    /// Other servers' requests for data without an answer.
    served: Arc<AtomicUsize>,
}

const NODES: &str = "nodeA,nodeB";
const RANKS: &str = "0,1,2;3,4,5";
/// The dialects that peers have: one of each family.
const DIALECTS: [(Module, BufferType, &str); 4] = [
    (Module::V41, BufferType::NonDescribed, "4.2.2"),
    (Module::V61, BufferType::NonDescribed, "6.1.0"),
    (Module::V3, BufferType::Described, "3.2.3"),
    (Module::V20, BufferType::NonDescribed, "2.0.3"),
];

fn nspace(number: u8) -> Nspace {
    Nspace::new(["job", "other", "elsewhere"][usize::from(number) % 3]).expect("a short namespace")
}

/// One of the processes that there may be: three of a job on this node, three elsewhere, those of another job.
fn proc(whom: u8) -> Proc {
    Proc::new(nspace(whom / 8), Rank(u32::from(whom % 8)))
}

impl Bench {
    fn new() -> Bench {
        let me = Proc::new(Nspace::new("server").expect("a short namespace"), Rank(0));
        let mut bench = Bench {
            engine: Simulation::new(me, "nodeA", USER),
            now: Instant::now(),
            peers: BTreeMap::new(),
            peer_next: 100,
            asked: HashMap::new(),
            wanted: BTreeSet::new(),
            tag_next: TAG_FIRST,
            upcalls: BTreeMap::new(),
            served: Arc::default(),
        };
        bench
            .peers
            .insert(OWN, Connected { dialect: Dialect::plain(Module::V41), version: Version::OURS, admitted: true });
        bench.register(0, &[]);
        for rank in 0..3 {
            bench.engine.register_client(&proc(rank), USER);
            bench.connect(rank, rank);
        }
        bench.drain();
        bench
    }

    /// Registers a namespace, in one of the ways in which hosts do.
    fn register(&mut self, whom: u8, how: &[u8]) {
        let nspace = nspace(whom);
        let mut infos =
            vec![Info::new(keys::NODE_MAP, Value::string(NODES)), Info::new(keys::PROC_MAP, Value::string(RANKS))];
        match how {
            [0, ..] => infos = vec![Info::new(keys::REGISTER_NODATA, Value::Bool(true))],
            [1, size, ..] => infos = vec![Info::new(keys::JOB_SIZE, Value::Uint32((*size).into()))],
            _ => {}
        }
        self.engine.register_nspace(&nspace, i32::from(how.len() as u8 % 5), &infos);
    }

    /// Connects another program under a rank.
    fn connect(&mut self, whom: u8, form: u8) {
        let (module, buffer, version) = DIALECTS[usize::from(form) % DIALECTS.len()];
        self.hello(Hello {
            psec: "native".into(),
            credential: Hello::native_credential(1000, 1000),
            flag: PeerKind::Client as u8,
            uid_gid: None,
            proc: Some(proc(whom)),
            version: version.into(),
            module,
            buffer,
            gds: if form.is_multiple_of(2) { STORE.into() } else { "hash".into() },
            infos: Vec::new(),
        });
        // Most hosts let everybody in.
        self.drain();
        let last = self.upcalls.last_key_value().map(|(id, _)| *id);
        if let Some(id) = last.filter(|_| form < 128) {
            self.answer(id, UpcallResult::Op(Status::SUCCESS));
        }
    }

    fn hello(&mut self, hello: Hello) {
        let id = self.peer_next;
        self.peer_next += 1;
        let version = Version::parse(&hello.version).unwrap_or(Version::OURS);
        self.peers.insert(id, Connected { dialect: hello.dialect(version), version, admitted: false });
        self.engine.hello(id, hello);
    }

    /// A peer that is there, chosen by a byte.
    fn peer(&self, whom: u8) -> u64 {
        *self.peers.keys().nth(usize::from(whom) % self.peers.len()).expect("the server itself is always there")
    }

    fn step(&mut self, action: u8, whom: u8, bytes: &[u8]) {
        if action >= PUBLICATIONS {
            return self.publish(whom, bytes);
        }
        match action % 16 {
            0..=5 => self.message(self.peer(whom), bytes),
            6..=8 => {
                let id = self.upcalls.keys().nth(usize::from(whom) % self.upcalls.len().max(1)).copied();
                if let Some(id) = id {
                    self.answer(id, answer(bytes));
                }
            }
            9 => {
                self.now += Duration::from_millis([1, 10, 1000, 5000, 200_000][usize::from(whom) % 5]);
                self.engine.tick(self.now);
            }
            10 => {
                let id = self.peer(whom);
                if id != OWN {
                    self.gone(id);
                    self.engine.disconnected(id, self.now);
                }
            }
            11 => match Hello::decode(bytes) {
                Ok(hello) => self.hello(hello),
                Err(_) => self.connect(whom, bytes.first().copied().unwrap_or(0)),
            },
            12 => self.engine.register_client(&proc(whom), USER),
            13 => match bytes {
                [] => self.engine.deregister_client(&proc(whom)),
                _ => self.engine.deregister_nspace(&nspace(whom)),
            },
            14 => match bytes {
                [] => drop(self.engine.setup_fork(&proc(whom))),
                how => self.register(whom, how),
            },
            _ => self.serve(whom, bytes),
        }
    }

    /// A message of a peer. What cannot be decoded costs it the connection.
    fn message(&mut self, id: u64, bytes: &[u8]) {
        let Some(Connected { dialect, version, admitted }) = self.peers.get(&id).copied() else { return };
        // The connection reads nothing more before the handshake is answered.
        if !admitted {
            return;
        }
        let tag = self.tag_next;
        self.tag_next += 1;
        match Request::decode(dialect, version, bytes) {
            Ok(request) if request.has_reply() => drop(self.asked.insert((id, tag), request.command())),
            Ok(_) => {}
            // What the server's own process asks was encoded in this process.
            Err(_) if id == OWN => return,
            Err(_) => {}
        }
        self.engine.message(id, tag, bytes.to_vec(), self.now);
    }

    fn answer(&mut self, id: u64, answer: UpcallResult) {
        if self.upcalls.remove(&id).is_some() {
            self.engine.answer(id, answer);
        }
    }

    /// Another server asks, or the host tells of an event.
    fn serve(&mut self, whom: u8, bytes: &[u8]) {
        let proc = proc(whom);
        match bytes {
            [] => {
                if !self.engine.is_registered(&proc.nspace) {
                    return;
                }
                self.served.fetch_add(1, Ordering::Relaxed);
                let served = self.served.clone();
                let done: DmodexDone = Box::new(move |_, _| _ = served.fetch_sub(1, Ordering::Relaxed));
                self.engine.dmodex_request(proc, done);
            }
            [range, code, rest @ ..] => {
                let infos = Unpacker::new(Dialect::STORED, rest).infos().unwrap_or_default();
                self.engine.notify(Status(-i32::from(*code)), &proc, *range, infos, self.now);
            }
            _ => {}
        }
    }

    /// The publisher begins with something, or is done with it.
    fn publish(&mut self, whom: u8, bytes: &[u8]) {
        let under_way: Vec<u64> = self.engine.publications().collect();
        let all: Vec<u64> = under_way.iter().chain(&self.wanted).copied().collect();
        let Some(directory) = all.get(usize::from(whom) % all.len().max(1)).copied() else { return };
        if under_way.contains(&directory) {
            self.engine.end_publication(directory, bytes.first() == Some(&0));
        } else {
            self.wanted.remove(&directory);
            self.engine.begin_publication(directory);
        }
    }

    /// All that is to be published is.
    fn publish_all(&mut self) {
        while self.engine.is_publishing() {
            self.publish(0, &[]);
            self.drain();
        }
    }

    fn gone(&mut self, id: u64) {
        self.peers.remove(&id);
        self.asked.retain(|(peer, _), _| *peer != id);
    }

    /// Does what the engine wants done, and judges it.
    fn drain(&mut self) {
        loop {
            let events = self.engine.take_events();
            if events.is_empty() {
                return;
            }
            for event in events {
                match event {
                    Event::Admitted { peer, status } => {
                        let known = self.peers.get_mut(&peer).expect("only who is there is let in");
                        assert!(!known.admitted, "let in twice");
                        known.admitted = status.is_success();
                        if !status.is_success() {
                            self.gone(peer);
                        }
                    }
                    Event::Sent { peer, tag, payload } => self.sent(peer, tag, &payload),
                    Event::Closed(peer) => self.gone(peer),
                    Event::Asked { id, answered_at_once, .. } => {
                        assert!(self.upcalls.insert(id, answered_at_once).is_none(), "a number used twice");
                    }
                    Event::Publish(directory) => drop(self.wanted.insert(directory)),
                    Event::Logged(line) => assert!(line.len() < 200_000, "{} bytes in a line", line.len()),
                    // Nobody reads files and usage here, as a server does not whose file system hangs.
                    _ => {}
                }
            }
        }
    }

    fn sent(&mut self, id: u64, tag: u32, payload: &[u8]) {
        let Some(Connected { dialect, version, admitted }) = self.peers.get(&id).copied() else {
            panic!("a message to {id}, who has gone")
        };
        assert!(admitted, "a message to who was not let in");
        let form = match tag {
            pmix_wire::TAG_NOTIFY => Form::Notification,
            pmix_wire::TAG_IOF => Form::IoDelivery,
            tag => Form::Reply(self.asked.remove(&(id, tag)).expect("a reply to a request, and the only one")),
        };
        let bytes = payload.to_vec();
        let message = Message { exchange: String::new(), form, dialect, client: version, server: Version::OURS, bytes };
        let read = message.recode(payload);
        let is_status = StatusReply::decode(dialect, Version::OURS, payload).is_ok();
        assert!(read.is_ok() || is_status, "{form:?} cannot be read: {read:?}");
    }

    /// Everybody goes, and nothing is left.
    fn end(mut self) {
        self.publish_all();
        let ids: Vec<u64> = self.upcalls.keys().copied().collect();
        for id in ids {
            self.answer(id, UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
            self.drain();
        }
        self.now += Duration::from_secs(1_000_000_000);
        self.engine.tick(self.now);
        self.drain();
        let peers: Vec<u64> = self.peers.keys().copied().filter(|id| *id != OWN).collect();
        for id in peers {
            self.gone(id);
            self.engine.disconnected(id, self.now);
            self.drain();
        }
        for number in 0..3 {
            self.engine.deregister_nspace(&nspace(number));
            self.drain();
        }
        let ids: Vec<u64> = self.upcalls.keys().copied().collect();
        for id in ids {
            self.answer(id, UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
            self.drain();
        }
        self.publish_all();
        assert_eq!(self.served.load(Ordering::Relaxed), 0, "another server waits for data");
        let own: BTreeSet<_> = self.asked.keys().map(|(peer, _)| *peer).collect();
        assert!(own.iter().all(|peer| *peer == OWN));
        assert_eq!(self.engine.deadline(), None, "something is still waited for");
        self.engine.shut_down();
    }
}

/// What a host answers: a status, or whatever the bytes are.
fn answer(bytes: &[u8]) -> UpcallResult {
    let [form, status, rest @ ..] = bytes else { return UpcallResult::Op(Status::SUCCESS) };
    let status = if *status < 128 { Status::SUCCESS } else { Status(-i32::from(*status - 128)) };
    let kvals = || Unpacker::new(Dialect::STORED, rest).kvals().unwrap_or_default();
    match form % 6 {
        0 => UpcallResult::Op(status),
        1 | 2 => UpcallResult::Data(status, rest.to_vec().into()),
        3 => UpcallResult::Infos(
            status,
            kvals().into_iter().map(|Kval { key, value }| Info { key, flags: 0, value }).collect(),
        ),
        4 => UpcallResult::Spawn(status, Some(nspace(rest.len() as u8))),
        _ => {
            let pdata = |Kval { key, value }| Pdata { proc: proc(3), key, value };
            UpcallResult::Lookup(status, kvals().into_iter().map(pdata).collect())
        }
    }
}
