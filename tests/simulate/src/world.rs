//! The world: servers, hosts, ranks, and what is under way between them, in virtual time.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

use pmix_dstore::model::{Info, Nspace, Proc, Rank as Number, Status, Value, keys};
use pmix_server::UpcallResult;
use pmix_server::simulate::{CONNECTIONS_OF_LIFE, Event, OWN, Simulation};

use crate::host::{Host, Served};
use crate::invariant::{Invariant, Violation};
use crate::output::{Piece, Pull};
use crate::random::drawn;
use crate::rank::{Call, Operation, Rank, Role};
use crate::restart::{self, Life};
use crate::script::Action;
use crate::services;
use crate::tools::INTRUDERS;

/// The servers, each on a node of its own.
pub const SERVERS: usize = 3;
/// The one that writes what is logged.
pub const GATEWAY: usize = 0;
/// The user of the servers.
pub const SERVER_USER: u32 = 500;
/// The users of the two jobs that there are from the start.
const USERS: [u32; 2] = [1000, 2000];
/// How many processes each of them has.
const SIZES: [u32; 2] = [6, 3];
/// Rank 0 has this connection.
const FIRST_CONNECTION: u64 = 100;
/// A rank that comes back has another one, so many later.
const RANKS_MAX: usize = 10_000;

/// Something that will happen.
pub enum What {
    /// An action of the script.
    Act(Action),
    /// A rank's handshake arrives.
    Hello(usize),
    /// A rank's message arrives at its server.
    Up { rank: usize, tag: u32, bytes: Vec<u8> },
    /// The end of a rank's connection arrives.
    Ended(usize),
    /// A server's message arrives at a rank.
    Down { rank: usize, tag: u32, bytes: Vec<u8>, cycle: u64 },
    /// The answer to its handshake.
    Admitted { rank: usize, status: Status },
    /// A host's answer arrives.
    Answer { server: usize, id: u64, answer: UpcallResult },
    /// A publisher begins with a directory.
    Begin { server: usize, directory: u64 },
    /// It is done with it, or has no room.
    End { server: usize, directory: u64, has_failed: bool },
    /// The host learns that a rank has ended.
    Learns(usize),
    /// A rank makes its next calls.
    GoOn(usize),
    /// A request for a rank's data arrives at its server.
    Modex { server: usize, proc: Proc, for_whom: (usize, u64) },
    /// An event arrives from another server.
    Event { server: usize, code: Status, source: Proc, range: u8, infos: Vec<Info> },
    /// A host has a piece of output.
    Output { server: usize, piece: usize },
    /// A host pauses or resumes input.
    Flow { server: usize, is_off: bool },
    /// A file was looked at.
    Looked { server: usize, monitor: u64 },
    /// Usage was read.
    Measured { server: usize, monitor: u64 },
    /// Memory was read.
    MemoryRead { server: usize, number: u64 },
    /// A process gives a sign of life.
    Beat(usize),
    /// Monitors that go on for ever end.
    EndMonitors,
    /// A server that is to be killed in its next step has had none. `kills` is how often it was killed before.
    Doomed { server: usize, kills: u64 },
    /// A server is started again.
    Starts(usize),
    /// Its host registers a job again.
    Registers { server: usize, job: usize },
    /// And a process of it.
    RegistersRank(usize),
    /// A rank sees that its server was killed.
    Notices(usize),
}

/// A job.
pub struct Job {
    /// Its name.
    pub nspace: Nspace,
    /// Its user.
    pub user: u32,
    /// The numbers of its ranks.
    pub ranks: Vec<usize>,
    /// The servers at which it is registered.
    pub servers: Vec<usize>,
    /// It is a tool's own name, or a server's.
    pub is_of_tool: bool,
    /// What it was registered with.
    pub infos: Vec<Info>,
}

/// An event that a rank has reported.
pub struct Report {
    /// Who reports it.
    pub from: usize,
    /// Its code.
    pub code: u8,
    /// Its range, as on the wire.
    pub range: u8,
    /// The rank that it is for, if the range names one.
    pub target: usize,
    /// Who is registered when it is reported.
    pub registered: Vec<usize>,
    /// The server has answered that it is done.
    pub is_done: bool,
}

/// All of it.
pub struct World {
    pub(crate) seed: u64,
    base: Instant,
    pub(crate) now: u64,
    queue: BTreeMap<(u64, u64), What>,
    queued: u64,
    pub(crate) servers: Vec<Simulation>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) ranks: Vec<Rank>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) reports: Vec<Report>,
    pub(crate) host: Host,
    /// Pairs of users whose jobs have had a common operation.
    pub(crate) consents: HashSet<(u32, u32)>,
    /// Fences that may not be entered again, since one was lost: the next one would be mistaken for it.
    pub(crate) spent: HashSet<Vec<usize>>,
    /// Members that have had a fence.
    pub(crate) fenced: HashSet<Vec<usize>>,
    /// What processes have written, and who wants it.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) pulls: Vec<Pull>,
    /// When the last piece arrives at the host of each server.
    pub(crate) written: [u64; SERVERS],
    /// Requests that have a number.
    pub(crate) numbers: u32,
    /// Connections of intruders, and those that were refused.
    pub(crate) intruders: u64,
    pub(crate) refused: BTreeSet<u64>,
    /// Servers, and jobs that another one's registration has described there.
    pub(crate) described: BTreeSet<(usize, usize)>,
    /// A host registers a job at this server at the moment.
    pub(crate) evicts: Option<usize>,
    /// The server's own processes.
    pub(crate) own: Vec<usize>,
    /// Servers are killed and started again.
    pub(crate) restarts: bool,
    pub(crate) lives: Vec<Life>,
    pub(crate) steps: u64,
    pub(crate) violation: Option<Violation>,
}

impl World {
    /// Three servers and two jobs of two users, whose ranks start.
    pub fn new(seed: u64) -> World {
        let restarts = restart::is_of(seed);
        let server = |number: usize| {
            let me = Proc::new(nspace(&format!("server{number}")), Number(0));
            if restarts {
                return restart::engine(number, me, Vec::new()).expect("nothing is left that could be refused");
            }
            Simulation::of_gateway(me, &node(number), (SERVER_USER, SERVER_USER), number == GATEWAY)
        };
        let mut world = World {
            seed,
            base: Instant::now(),
            now: 0,
            queue: BTreeMap::new(),
            queued: 0,
            servers: (0..SERVERS).map(server).collect(),
            jobs: Vec::new(),
            ranks: Vec::new(),
            operations: Vec::new(),
            reports: Vec::new(),
            host: Host::default(),
            consents: HashSet::new(),
            spent: HashSet::new(),
            fenced: HashSet::new(),
            pieces: Vec::new(),
            pulls: Vec::new(),
            written: [0; SERVERS],
            numbers: 0,
            intruders: 0,
            refused: BTreeSet::new(),
            described: BTreeSet::new(),
            evicts: None,
            own: Vec::new(),
            restarts,
            lives: restart::lives(),
            steps: 0,
            violation: None,
        };
        for server in 0..SERVERS {
            world.tell_time(server);
        }
        for (number, (user, size)) in USERS.into_iter().zip(SIZES).enumerate() {
            // The fences of a Slurm step have rules of their own.
            let is_of_slurm = number == 0 && world.happens("slurm", 0, 0, 2);
            let name = if is_of_slurm { "slurm.pmix.7.0".to_owned() } else { format!("job{number}") };
            // What the hosts of several servers owe each other after a restart is theirs.
            let only = restarts.then_some(number);
            world.start_job(&name, user, size, only, None);
        }
        for server in 0..SERVERS {
            let (number, rank) = (world.jobs.len(), world.ranks.len());
            let name = nspace(&format!("server{server}"));
            world.own.push(rank);
            world.ranks.push(Rank::of_server(Proc::new(name.clone(), Number(0)), number, server, SERVER_USER));
            world.jobs.push(Job {
                nspace: name,
                user: SERVER_USER,
                ranks: vec![rank],
                servers: Vec::new(),
                is_of_tool: true,
                infos: Vec::new(),
            });
        }
        world
    }

    /// Registers a job at all servers, or at one alone, and starts its ranks.
    pub fn start_job(
        &mut self,
        name: &str,
        user: u32,
        size: u32,
        only: Option<usize>,
        parent: Option<&Proc>,
    ) -> Nspace {
        let nspace = nspace(name);
        let number = self.jobs.len();
        let place = |rank: u32| only.unwrap_or((rank as usize + number) % SERVERS);
        let servers: Vec<usize> = (0..SERVERS).filter(|server| only.is_none_or(|only| only == *server)).collect();
        let on = |server: usize| (0..size).filter(move |rank| place(*rank) == server);
        let names: Vec<String> = (0..SERVERS).map(node).collect();
        let ranks: Vec<String> =
            (0..SERVERS).map(|server| on(server).map(|rank| rank.to_string()).collect::<Vec<_>>().join(",")).collect();
        let infos = [
            Info::new(keys::NODE_MAP, Value::string(names.join(","))),
            Info::new(keys::PROC_MAP, Value::string(ranks.join(";"))),
        ];
        let parent = parent.map(|parent| Info::new(keys::PARENT_ID, Value::Proc(parent.clone())));
        let infos: Vec<Info> = infos.into_iter().chain(parent).collect();
        for server in servers.clone() {
            let local: Vec<u32> = on(server).collect();
            self.servers[server].register_nspace(&nspace, local.len() as i32, &infos);
            for rank in local {
                // Some hosts ask for the environment before they register the process.
                if rank % 4 == 2 {
                    self.servers[server].prepare_client(&Proc::new(nspace.clone(), Number(rank)));
                }
                self.servers[server].register_client(&Proc::new(nspace.clone(), Number(rank)), (user, user));
            }
        }
        let first = self.ranks.len();
        for rank in 0..size {
            let proc = Proc::new(nspace.clone(), Number(rank));
            self.servers[place(rank)].setup_fork(&proc);
            let mut one = Rank::new(proc, number, place(rank), user);
            one.shares |= self.restarts && !self.happens("foreign", rank.into(), 0, 8);
            self.ranks.push(one);
            let late = self.delay("start", self.ranks.len() as u64, 0);
            self.after(late, What::Hello(self.ranks.len() - 1));
        }
        let ranks = (first..self.ranks.len()).collect();
        self.jobs.push(Job { nspace: nspace.clone(), user, ranks, servers, is_of_tool: false, infos });
        (0..SERVERS).for_each(|server| self.drain(server));
        nspace
    }

    /// A delay in milliseconds; a few are long. The same for the same message of a seed.
    pub fn delay(&self, kind: &str, whom: u64, which: u64) -> u64 {
        let number = drawn(&[self.seed, crate::random::of_text(kind), whom, which]);
        let is_long = number.is_multiple_of(97);
        (number >> 8) % if is_long { 4000 } else { 20 }
    }

    /// Whether something that happens once in `n` times happens.
    pub fn happens(&self, kind: &str, whom: u64, which: u64, n: u64) -> bool {
        drawn(&[self.seed, crate::random::of_text(kind), whom, which, 7]).is_multiple_of(n)
    }

    /// Something happens in so many milliseconds.
    pub fn after(&mut self, late: u64, what: What) {
        self.at(self.now + late, what);
    }

    /// Something happens at a time.
    pub fn at(&mut self, time: u64, what: What) {
        self.queued += 1;
        self.queue.insert((time, self.queued), what);
    }

    /// Whether something is to happen.
    pub(crate) fn is_queued(&self, is_meant: impl Fn(&What) -> bool) -> bool {
        self.queue.values().any(is_meant)
    }

    /// What was to happen at a time does not.
    pub(crate) fn drop_queued(&mut self, is_meant: impl Fn(u64, &What) -> bool) {
        self.queue.retain(|(time, _), what| !is_meant(*time, what));
    }

    /// An invariant does not hold; the first one counts.
    pub fn violated(&mut self, invariant: Invariant, what: String) {
        let step = self.steps;
        self.violation.get_or_insert(Violation { invariant, what, step });
    }

    /// The time of the clock that the engines are told.
    pub fn time(&self) -> Instant {
        self.base + Duration::from_millis(self.now)
    }

    pub(crate) fn tell_time(&mut self, server: usize) {
        let now = self.time();
        self.servers[server].set_time(now);
    }

    /// The rank of a connection.
    pub fn rank_of(connection: u64) -> usize {
        (connection % CONNECTIONS_OF_LIFE - FIRST_CONNECTION) as usize % RANKS_MAX
    }

    /// The connection of a rank.
    pub fn connection(&self, rank: usize) -> u64 {
        let one = &self.ranks[rank];
        match one.role {
            Role::Server => OWN,
            _ => one.life + rank as u64 + FIRST_CONNECTION + one.cycle * RANKS_MAX as u64,
        }
    }

    /// The rank of this name.
    pub fn find(&self, proc: &Proc) -> Option<usize> {
        self.ranks.iter().position(|rank| rank.proc == *proc)
    }

    /// Runs until nothing is under way, or something is violated.
    pub fn run(&mut self) {
        let mut idle_ticks = 0;
        while self.violation.is_none() {
            let next = self.queue.first_key_value().map(|((time, _), _)| *time);
            let due = (0..SERVERS).filter_map(|server| self.deadline(server).map(|due| (due, server))).min();
            match (next, due) {
                (None, None) => return,
                (next, Some((due, server))) if next.is_none_or(|next| due <= next) => {
                    idle_ticks = if due <= self.now { idle_ticks + 1 } else { 0 };
                    if idle_ticks > 1000 {
                        let what =
                            format!("server {server} wants to be called at a time that is over, again and again");
                        return self.violated(Invariant::NobodyWaits, what);
                    }
                    self.now = self.now.max(due);
                    self.tell_time(server);
                    let now = self.time();
                    self.servers[server].tick(now);
                    self.take_from(server);
                }
                _ => {
                    if let Some(((time, _), what)) = self.queue.pop_first() {
                        idle_ticks = 0;
                        self.now = time;
                        (0..SERVERS).for_each(|server| self.tell_time(server));
                        self.happen(what);
                    }
                }
            }
            self.steps += 1;
        }
    }

    /// When a server wants to be called, in milliseconds, rounded up.
    fn deadline(&mut self, server: usize) -> Option<u64> {
        let (deadline, is_busy) = self.servers[server].plan_wake_up();
        if is_busy {
            self.violated(Invariant::NobodyWaits, format!("server {server} sleeps over what it has to do"));
        }
        let deadline = deadline?;
        Some(deadline.saturating_duration_since(self.base).as_micros().div_ceil(1000) as u64)
    }

    fn happen(&mut self, what: What) {
        let now = self.time();
        match what {
            What::Act(action) => self.act(action),
            What::Hello(rank) if !self.ranks[rank].lives || self.tries_again(rank) => {}
            What::Hello(rank) => {
                let server = self.ranks[rank].server;
                let (word, hello) = match self.ranks[rank].role {
                    Role::Tool(form) => self.tool_hello(rank, form),
                    _ => self.rank_hello(rank),
                };
                (self.ranks[rank].has_connected, self.ranks[rank].can_return) = (true, true);
                self.ranks[rank].life = self.servers[server].first_connection();
                let connection = self.connection(rank);
                self.servers[server].hello_by(connection, word, hello);
                self.take_from(server);
            }
            What::Up { rank, .. } if self.ranks[rank].is_cut => {}
            // There is no memory for a message. Only what asks the host, which is not sent again.
            What::Up { rank, tag, bytes }
                if matches!(self.ranks[rank].calls.get(&tag), Some(Call::Serve { kind: services::REFUSED, .. })) =>
            {
                let (server, connection) = (self.ranks[rank].server, self.connection(rank));
                self.servers[server].refuse(connection, tag, bytes.len(), false);
                self.take_from(server);
            }
            What::Up { rank, tag, bytes } => {
                let server = self.ranks[rank].server;
                let connection = self.connection(rank);
                self.servers[server].message(connection, tag, bytes, now);
                if connection == OWN {
                    self.sent_by_own(rank, tag);
                }
                self.take_from(server);
            }
            What::Ended(rank) => {
                let server = self.ranks[rank].server;
                self.ranks[rank].is_cut = true;
                if self.ranks[rank].has_connected {
                    let connection = self.connection(rank);
                    self.servers[server].disconnected(connection, now);
                }
                if self.ranks[rank].returns {
                    self.take_from(server);
                    return self.come_back(rank);
                }
                let late = 5 + self.delay("learns", rank as u64, 0);
                self.after(late, What::Learns(rank));
                self.take_from(server);
            }
            // What comes for a connection that is over is not read.
            What::Down { rank, cycle, .. } if self.ranks[rank].cycle != cycle => {}
            What::Down { rank, tag, bytes, .. } => self.received(rank, tag, &bytes),
            What::Admitted { rank, status } => {
                if !status.is_success() {
                    return self.violated(Invariant::NamedCause, format!("{} was refused", self.ranks[rank].proc));
                }
                (self.ranks[rank].has_connected, self.ranks[rank].is_admitted) = (true, true);
                self.goes_on(rank);
                self.go_on(rank);
            }
            What::Answer { server, id, answer } => {
                self.servers[server].answer(id, answer);
                self.take_from(server);
            }
            What::Begin { server, directory } => {
                if self.servers[server].begin_publication(directory) {
                    let (late, which) = (self.delay("publication", directory, self.steps), self.steps);
                    let has_failed = self.happens("no room", server as u64, which, 32);
                    self.after(late, What::End { server, directory, has_failed });
                }
                self.take_from(server);
            }
            What::End { server, directory, has_failed } => {
                self.servers[server].end_publication(directory, has_failed);
                self.take_from(server);
            }
            What::Learns(rank) if self.is_without_host(rank) => self.after(50, What::Learns(rank)),
            What::Learns(rank) => self.host_learns(rank),
            What::Doomed { server, kills } => self.doomed(server, kills),
            What::Starts(server) => self.starts(server),
            What::Registers { server, job } => self.registers(server, job),
            What::RegistersRank(rank) => self.registers_rank(rank),
            What::Notices(rank) => self.notices(rank),
            What::Output { server, piece } => self.deliver(server, piece),
            What::Flow { server, is_off } => self.flow(server, is_off),
            What::Looked { server, monitor } => self.looked(server, monitor),
            What::Measured { server, monitor } => {
                self.measure(server, monitor);
                self.take_from(server);
            }
            What::MemoryRead { server, number } => {
                self.servers[server].memory_read(number, Value::infos([]));
                self.take_from(server);
            }
            What::Beat(rank) => {
                self.beat(rank);
                self.take_from(self.ranks[rank].server);
            }
            What::EndMonitors => self.end_monitors(),
            What::GoOn(rank) => self.go_on(rank),
            What::Modex { server, proc, for_whom } if self.is_without_job(server, &proc) => {
                self.after(50, What::Modex { server, proc, for_whom });
            }
            What::Modex { server, proc, for_whom } => {
                let served = self.host.served.clone();
                let done = Box::new(move |status, data| {
                    served.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(Served {
                        for_whom,
                        status,
                        data,
                    });
                });
                self.servers[server].dmodex_request(proc, done);
                self.take_from(server);
            }
            What::Event { server, code, source, range, infos } => {
                self.servers[server].notify(code, &source, range, infos, now);
                self.take_from(server);
            }
        }
    }

    /// A server's own process has asked something, on the thread that would have to wait for the answer: it takes some of that back.
    fn sent_by_own(&mut self, rank: usize, tag: u32) {
        let server = self.ranks[rank].server;
        // Output that waited comes before the answer to who wants it no more.
        let is_of_output = matches!(self.ranks[rank].calls.get(&tag), Some(Call::Pull(_) | Call::StopPull(_)));
        if is_of_output {
            return;
        }
        if let Some(bytes) = self.servers[server].take_own_reply(tag) {
            return self.received(rank, tag, &bytes);
        }
        let can_be_taken_back = matches!(
            self.ranks[rank].calls.get(&tag),
            Some(
                Call::Serve { .. } | Call::Query { .. } | Call::Spawn { .. } | Call::Lookup { .. } | Call::Watch { .. }
            )
        );
        if can_be_taken_back && self.happens("back", rank as u64, tag.into(), 4) {
            self.servers[server].take_back(tag);
            // What the answer would have been is nobody's.
            let _ = self.servers[server].take_own_reply(tag);
            self.ranks[rank].calls.remove(&tag);
            if self.ranks[rank].blocked == Some(tag) {
                self.ranks[rank].blocked = None;
                self.after(1, What::GoOn(rank));
            }
        }
    }

    /// A rank that has finalized comes back, before its server gives it up.
    pub(crate) fn come_back(&mut self, rank: usize) {
        let one = &mut self.ranks[rank];
        one.cycle += 1;
        // As before its first connection: of its end until the next one nobody but the host can tell the server.
        (one.has_connected, one.is_admitted) = (false, false);
        (one.returns, one.is_cut, one.lives) = (false, false, true);
        one.registered.clear();
        one.got.clear();
        // What was asked and not answered is over for the program.
        one.calls.clear();
        one.sent.clear();
        (one.former, one.gives_up, one.can_return) = (None, None, true);
        self.reports.iter_mut().for_each(|report| report.registered.retain(|other| *other != rank));
        let late = 1 + self.delay("returns", rank as u64, 0) % 1000;
        self.after(late, What::Hello(rank));
    }

    /// Takes what a server wants done, and what it has given to others.
    pub fn take_from(&mut self, server: usize) {
        self.drain(server);
        self.pass_served();
    }

    /// Takes what a server wants done.
    pub fn drain(&mut self, server: usize) {
        if self.lives[server].is_doomed {
            return self.kill_server(server);
        }
        loop {
            let events = self.servers[server].take_events();
            if events.is_empty() {
                return;
            }
            for event in events {
                self.output(server, event);
            }
        }
    }

    fn output(&mut self, server: usize, event: Event) {
        match event {
            Event::Admitted { peer, status } => {
                if peer >= INTRUDERS {
                    return self.violated(Invariant::Refused, format!("server {server} lets an intruder in"));
                }
                let rank = World::rank_of(peer);
                let time = self.arrival(rank, 1);
                self.at(time, What::Admitted { rank, status });
            }
            Event::Sent { peer, tag, payload } => {
                let rank = if peer == OWN { self.own[server] } else { World::rank_of(peer) };
                let time = self.arrival(rank, 1);
                let cycle = self.ranks[rank].cycle;
                self.at(time, What::Down { rank, tag, bytes: payload, cycle });
            }
            Event::Closed(peer) => self.closed(server, peer),
            Event::Asked { id, answered_at_once, question } => self.asked(server, id, answered_at_once, question),
            Event::Publish(directory) => {
                let late = self.delay("publisher", directory, self.steps);
                self.after(late, What::Begin { server, directory });
            }
            Event::Look(monitor) => self.look(server, monitor),
            Event::Measure(monitor) => {
                let late = self.delay("usage", server as u64, self.steps);
                self.after(late, What::Measured { server, monitor });
            }
            Event::ReadMemory(number) => {
                let late = self.delay("memory", server as u64, number);
                self.after(late, What::MemoryRead { server, number });
            }
            Event::Logged(_) | Event::Shown(_) | Event::CleanedUp(_) => {}
        }
    }

    /// When the next message of a connection arrives: messages of one direction keep their order.
    pub fn arrival(&mut self, rank: usize, direction: usize) -> u64 {
        let messages = self.ranks[rank].messages;
        let late = self.delay("message", rank as u64 * 2 + direction as u64, messages);
        let rank = &mut self.ranks[rank];
        rank.messages += 1;
        rank.arrivals[direction] = rank.arrivals[direction].max(self.now + late);
        rank.arrivals[direction]
    }
}

/// The name of a node.
pub(crate) fn node(server: usize) -> String {
    format!("node{server}")
}

/// A short name.
fn nspace(name: &str) -> Nspace {
    Nspace::new(name).expect("a short name")
}
