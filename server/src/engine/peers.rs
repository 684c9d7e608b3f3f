//! Connected peers: handshake, finalize, loss.

use std::collections::HashSet;
use std::time::Instant;

use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::model::{Info, Nspace, Proc, Status, Value, keys};
use pmix_wire::{ClientReply, Hello, PeerKind, Version};

use super::apart::sign;
use super::limits::{CONNECTIONS_MAX, Unanswered};
use super::{Continuation, Engine, LOSS_DELAY, Output};
use crate::access::User;
use crate::config::{ANNOUNCED_VERSION, Config};
use crate::journal::Reason;
use crate::upcall::Upcall;

/// One connection. Of two connections of a server no two have the same number, however many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PeerId(pub u64);

impl PeerId {
    /// The server process as its own client.
    pub const OWN: PeerId = PeerId(0);

    /// The index for the peer: a positive number that its library stores; this server does not use it.
    pub(super) fn index(self) -> u32 {
        (self.0 & 0x7fff_ffff) as u32
    }
}

/// How a peer has connected, and the kernel's information about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Over the Unix socket of a namespace; the kernel provides the user.
    Unix {
        /// Effective user of the other end.
        uid: u32,
        /// Its group.
        gid: u32,
        /// Its process id in this pid namespace; 0 if it has none.
        pid: i32,
    },
    /// Over TCP on loopback.
    Tcp {
        /// The user of the socket at the other end; `None` if this process cannot get it from the kernel.
        owner: Option<u32>,
    },
}

impl Transport {
    /// The user, by the kernel's word.
    pub fn user(self) -> Option<u32> {
        match self {
            Transport::Unix { uid, .. } => Some(uid),
            Transport::Tcp { owner } => owner,
        }
    }

    /// The process id: from the kernel, or else the peer's claim.
    fn pid(self, hello: &Hello) -> Option<i32> {
        let said = || match Info::find(&hello.infos, keys::PROC_PID) {
            Some(Value::Pid(pid)) => Some(*pid),
            _ => None,
        };
        match self {
            Transport::Unix { pid, .. } => Some(pid),
            Transport::Tcp { .. } => said(),
        }
        .filter(|pid| *pid > 0)
    }
}

/// A connected peer. Encoder, buffer type and store belong to the peer, not to its namespace.
pub(crate) struct Peer {
    pub proc: Proc,
    /// The user of its process.
    pub user: User,
    /// Its process id on this node, if known; it may be the peer's own claim.
    pub pid: Option<i32>,
    pub dialect: Dialect,
    /// Its release, parsed.
    pub version: Version,
    /// Its release, as in its handshake.
    pub version_text: String,
    /// Reads our segments.
    pub shared: bool,
    /// Event codes that it is registered for.
    pub codes: HashSet<Status>,
    /// Is registered for all events.
    pub default_events: bool,
    /// Has called finalize.
    pub finalized: bool,
    /// The handshake is answered.
    pub admitted: bool,
    /// The host has not launched it, and gets no report of its end.
    pub is_tool: bool,
    /// Whether it gets notifications of deleted keys: it then removes its cached values of them.
    pub gets_deletions: bool,
    /// It has had input for others.
    pub has_pushed: bool,
    /// Its unanswered requests.
    pub(super) unanswered: Unanswered,
}

impl Peer {
    /// The server process as its own client.
    pub fn own(config: &Config) -> Peer {
        Peer {
            proc: config.me.clone(),
            user: User { uid: config.uid, gid: Some(config.gid) },
            pid: None,
            dialect: Dialect::plain(Module::V41),
            version: Version::OURS,
            version_text: ANNOUNCED_VERSION.to_owned(),
            shared: false,
            codes: HashSet::new(),
            default_events: false,
            finalized: false,
            admitted: true,
            is_tool: false,
            // The server's own client caches no values.
            gets_deletions: false,
            has_pushed: false,
            unanswered: Unanswered::default(),
        }
    }

    /// A peer that has sent `hello` and has got no answer yet.
    pub fn new(proc: Proc, user: User, hello: &Hello) -> Peer {
        Peer {
            proc,
            user,
            pid: None,
            dialect: hello.dialect(hello.release()),
            version: hello.release(),
            version_text: hello.version.clone(),
            shared: false,
            codes: HashSet::new(),
            default_events: false,
            finalized: false,
            admitted: false,
            is_tool: false,
            gets_deletions: hello.psec == crate::SECURITY_NAME
                || hello.flag == PeerKind::Client as u8 && hello.release().deletes_keys(),
            has_pushed: false,
            unanswered: Unanswered::default(),
        }
    }
}

impl Engine {
    /// Handles a peer's first message. A refused peer is dropped without an answer, as released servers do.
    pub fn hello(&mut self, peer: PeerId, transport: Transport, hello: Hello) {
        if let Some(kind) = PeerKind::from_flag(hello.flag).filter(|kind| *kind != PeerKind::Client) {
            return self.tool_hello(peer, transport, kind, hello);
        }
        match self.check_hello(transport, &hello) {
            Ok(proc) => {
                let shared = hello.gds == crate::STORE_NAME;
                let nspace = self.nspaces.get_mut(&proc.nspace);
                let Some(client) = nspace.and_then(|state| state.clients.get_mut(&proc.rank)) else { return };
                client.connections.insert(peer);
                client.has_connected = true;
                self.standings.clear();
                let object = client.object;
                let user = match transport {
                    Transport::Unix { uid, gid, .. } => User { uid, gid: Some(gid) },
                    // The user is the registered one, with the group that the host has registered.
                    Transport::Tcp { .. } => User { uid: client.uid, gid: Some(client.gid) },
                };
                if let Some(state) = self.nspaces.get_mut(&proc.nspace) {
                    state.expect(proc.rank);
                }
                self.peers
                    .insert(peer, Peer { shared, pid: transport.pid(&hello), ..Peer::new(proc.clone(), user, &hello) });
                let mut infos = hello.infos;
                sign(&mut infos, user);
                self.upcall(Continuation::Admit(peer), Upcall::ClientConnected { proc, object, infos });
            }
            Err(why) => self.refuse_hello(peer, transport.user(), &hello, &why),
        }
    }

    /// Drops a refused peer, as released servers do.
    #[track_caller]
    pub(super) fn refuse_hello(&mut self, peer: PeerId, user: Option<u32>, hello: &Hello, why: &str) {
        self.outputs.push_back(Output::Close(peer));
        // The reason concerns all peers: one line suffices.
        if why == NO_TABLE && std::mem::replace(&mut self.no_table_told, true) {
            return;
        }
        let who = hello.proc.as_ref().map_or_else(|| "a process without a name".to_owned(), Proc::to_string);
        let line = format!("refused {who} (PMIx {}): {why}", hello.version);
        self.outputs.push_back(Output::Log(Reason::here().by(user), line));
    }

    /// The process of the peer, or why it is refused.
    fn check_hello(&self, transport: Transport, hello: &Hello) -> Result<Proc, String> {
        let proc = hello.proc.clone().ok_or("no namespace and rank given")?;
        let state = self.nspaces.get(&proc.nspace).ok_or("unknown namespace")?;
        let client = state.clients.get(&proc.rank).ok_or("no such client registered")?;
        if client.connections.len() >= CONNECTIONS_MAX {
            return Err(format!("it has {CONNECTIONS_MAX} connections already"));
        }
        let registered = |uid: u32| match uid == client.uid {
            true => Ok(()),
            false => Err(format!("it runs as user {uid}, the client was registered for user {}", client.uid)),
        };
        match (transport, hello.psec.as_str()) {
            (Transport::Unix { uid, .. }, psec) if psec == crate::SECURITY_NAME => {
                if !client.secret.is(&hello.credential) {
                    return Err("wrong secret".into());
                }
                registered(uid)?;
            }
            (Transport::Tcp { owner }, "native") => {
                let claimed = Hello::read_native_credential(&hello.credential).ok_or("malformed credential")?;
                match owner {
                    // The kernel's word, root's socket included, and not the peer's: in a user namespace the same user and
                    // group have other numbers.
                    Some(owner) => registered(owner)?,
                    None if !self.config.trust_claims => return Err(NO_TABLE.into()),
                    None if claimed == (client.uid, client.gid) => {}
                    None => {
                        return Err(format!(
                            "it claims user {} group {}, the client was registered for user {} group {}",
                            claimed.0, claimed.1, client.uid, client.gid
                        ));
                    }
                }
            }
            (_, psec) => return Err(format!("security module {psec} is not offered here")),
        }
        Ok(proc)
    }

    /// The host has looked at the new client.
    pub(super) fn admit(&mut self, id: PeerId, status: Status) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let allowed = status == Status::SUCCESS || status == Status::OPERATION_SUCCEEDED;
        peer.admitted = allowed;
        let (proc, shared) = (peer.proc.clone(), peer.shared);
        let status = if allowed { Status::SUCCESS } else { status };
        self.stats.connected = self.first_fork.map(|start| start.elapsed());
        let reply = ClientReply { status, index: id.index() }.encode();
        self.outputs.push_back(Output::Admit { peer: id, status, reply });
        if allowed {
            if shared {
                self.stats.clients_shared += 1;
            } else {
                self.stats.clients_socket += 1;
            }
            if let Some(state) = self.nspaces.get_mut(&proc.nspace) {
                state.gone.remove(&proc.rank);
            }
        } else {
            self.log(format!("refused {proc}: the host answered {status}"));
            self.forget_connection(id);
        }
    }

    /// A client calls finalize.
    pub(super) fn finalize_peer(&mut self, id: PeerId, tag: u32) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        // From now on: a client need not wait for the host's answer before it closes.
        peer.finalized = true;
        let proc = peer.proc.clone();
        let is_launched = !peer.is_tool;
        let client = self.nspaces.get(&proc.nspace).and_then(|state| state.clients.get(&proc.rank));
        match client.filter(|_| is_launched).map(|client| client.object) {
            Some(object) => {
                self.upcall(Continuation::Finalized(id, tag), Upcall::ClientFinalized { proc, object });
            }
            None => self.finalized(id, tag, Status::SUCCESS),
        }
    }

    pub(super) fn finalized(&mut self, id: PeerId, tag: u32, status: Status) {
        let status = if status == Status::OPERATION_SUCCEEDED { Status::SUCCESS } else { status };
        self.reply_status(id, tag, status);
    }

    /// A connection is gone.
    pub fn disconnected(&mut self, id: PeerId, now: Instant) {
        self.knocking.remove(&id);
        self.lose(id, now, true);
    }

    /// As [`Engine::disconnected`]; logs it if `is_news`.
    pub(super) fn lose(&mut self, id: PeerId, now: Instant, is_news: bool) {
        let Some((peer, left)) = self.forget_connection(id) else { return };
        let was_last = left == Left::None;
        if was_last {
            self.tell_connected_of_end(&peer.proc, peer.finalized, now);
        }
        if peer.finalized && was_last && !peer.is_tool {
            self.rank_has_finalized(&peer.proc, now);
        }
        // Another program may run under the same rank: then the process lives.
        if !peer.finalized && left != Left::Others {
            if was_last {
                self.rank_is_gone(&peer.proc);
                self.leave_groups(&peer.proc, now);
            }
            if peer.is_tool {
                // No host ends a job for it.
                if is_news {
                    self.log(lost_line(std::slice::from_ref(&peer.proc)));
                }
                self.tell_host_of_loss(&peer.proc);
                return self.forget_tool(&peer.proc);
            }
            self.losses.push(Loss { due: now + LOSS_DELAY, is_news, proc: peer.proc.clone() });
            // Without a connection left the host ends its part of the job and handles no further reports, so it must get these
            // losses now. Not if the last process has finalized: it is about to end, and the host would kill it.
            if !self.peers.values().any(|other| other.proc.nspace == peer.proc.nspace) {
                let of_job = self.losses.iter_mut().filter(|loss| loss.proc.nspace == peer.proc.nspace);
                of_job.for_each(|loss| loss.due = now);
            }
        }
        if was_last {
            self.clean_up_after(&peer.proc);
        }
        if peer.is_tool {
            self.forget_tool(&peer.proc);
        }
    }

    /// Reports lost processes to the host once their delay is over, and logs all losses of their jobs.
    pub(super) fn tell_host_of_losses(&mut self, now: Instant) {
        let due: Vec<Proc> = self.losses.iter().filter(|loss| loss.due <= now).map(|loss| loss.proc.clone()).collect();
        for nspace in Engine::nspaces_of(&due) {
            self.log_losses(&nspace);
        }
        self.losses.retain(|loss| loss.due > now);
        due.iter().for_each(|proc| self.tell_host_of_loss(proc));
    }

    /// Logs one line for all unreported losses of a job. A job that is killed loses all its processes at once.
    pub(super) fn log_losses(&mut self, nspace: &Nspace) {
        let of_job = self.losses.iter_mut().filter(|loss| loss.proc.nspace == *nspace);
        let news = of_job.filter_map(|loss| std::mem::take(&mut loss.is_news).then(|| loss.proc.clone()));
        let news: Vec<Proc> = news.collect();
        let is_expected = self.nspaces.get(nspace).is_some_and(|state| state.aborted);
        if !news.is_empty() && !is_expected {
            self.log(lost_line(&news));
        }
    }

    fn tell_host_of_loss(&mut self, proc: &Proc) {
        let affected = Info::new(keys::EVENT_AFFECTED_PROC, pmix_dstore::model::Value::Proc(proc.clone()));
        self.tell_host_process(Status::ERR_LOST_CONNECTION, proc, vec![affected]);
    }

    /// Removes a peer from all tables: it is no participant, waiter or receiver any more. Also returns the remaining
    /// state of its process, because the client may have been registered again since.
    pub(super) fn forget_connection(&mut self, id: PeerId) -> Option<(Peer, Left)> {
        let peer = self.peers.remove(&id)?;
        self.gets.forget_peer(id);
        self.events.forget_peer(id);
        self.outputs_of_procs.forget_peer(id);
        self.monitors.forget_peer(id);
        self.withdraw(id);
        self.release_events(peer.codes.iter().copied());
        let mut state = self.nspaces.get_mut(&peer.proc.nspace);
        let guest = state.as_mut().and_then(|state| state.forget_guest(id));
        let left = match state.and_then(|state| state.clients.get_mut(&peer.proc.rank)) {
            None => Left::Unregistered,
            Some(client) => match (client.connections.remove(&id), client.connections.is_empty()) {
                (_, false) => Left::Others,
                (true, true) => Left::None,
                (false, true) => Left::Unregistered,
            },
        };
        if let Some(uid) = guest {
            self.forget_guests_client(&peer.proc, uid);
        }
        Some((peer, left))
    }
}

/// The state of a process after one of its connections has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Other connections.
    Others,
    /// No connection.
    None,
    /// Its client has been deregistered, or registered again.
    Unregistered,
}

/// A process that is gone without having called finalize.
pub(super) struct Loss {
    /// When the host gets the report.
    pub due: Instant,
    /// It has not been logged yet.
    pub is_news: bool,
    pub proc: Proc,
}

/// The reason to refuse a peer over TCP if the kernel cannot identify its user.
pub(super) const NO_TABLE: &str = "neither sock_diag nor /proc/thread-self/net/tcp tells this server whose a TCP connection is; give it \
     one of them (and its user a number, where it is in a user namespace), or set PMIX_DSTORE_TRUST_CLAIMS=1 in its environment to believe what peers claim";

/// The line about processes of one job that were lost.
fn lost_line(procs: &[Proc]) -> String {
    /// More are counted only.
    const RANGES_MAX: usize = 8;
    if let [proc] = procs {
        return format!("lost the connection to {proc} before it called finalize");
    }
    let mut ranks: Vec<u32> = procs.iter().map(|proc| proc.rank.0).collect();
    ranks.sort_unstable();
    let ranges: Vec<String> = ranks
        .chunk_by(|a, b| a + 1 == *b)
        .map(|range| match range {
            [first, .., last] => format!("{first}-{last}"),
            one => one[0].to_string(),
        })
        .collect();
    let more = if ranges.len() > RANGES_MAX { ",..." } else { "" };
    let ranges = ranges[..ranges.len().min(RANGES_MAX)].join(",");
    let (count, nspace) = (procs.len(), &procs[0].nspace);
    format!(
        "lost the connections to {count} processes of job {nspace} before they called finalize: ranks {ranges}{more}"
    )
}
