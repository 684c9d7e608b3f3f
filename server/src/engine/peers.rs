//! Connected peers: handshake, finalize, loss.

use std::time::Instant;

use pmix_dstore::model::{Info, Nspace, Proc, Status, keys};
use pmix_wire::{ClientReply, Hello, PeerKind};

use super::apart::sign;
use super::limits::CONNECTIONS_MAX;
use super::peer::{Peer, PeerId, Transport};
use super::standing;
use super::successor;
use super::{Continuation, Engine, LOSS_DELAY, Output};
use crate::access::User;
use crate::journal::Reason;
use crate::upcall::Upcall;

impl Engine {
    /// Handles a peer's first message. A refused peer is dropped without an answer, as released servers do.
    pub fn hello(&mut self, peer: PeerId, transport: Transport, mut hello: Hello) {
        if let Some(kind) = PeerKind::from_flag(hello.flag).filter(|kind| *kind != PeerKind::Client) {
            return self.tool_hello(peer, transport, kind, hello);
        }
        let former = successor::take_former(&mut hello.infos);
        if self.config.restart.is_some() && !self.may_come_again(peer, former, &hello) {
            return;
        }
        match self.check_hello(transport, &hello) {
            Ok(proc) => {
                let shared = hello.gds == crate::STORE_NAME;
                let nspace = self.nspaces.get_mut(&proc.nspace);
                let Some(client) = nspace.and_then(|state| state.clients.get_mut(&proc.rank)) else { return };
                client.connections.insert(peer);
                client.is_awaited = false;
                if !std::mem::replace(&mut client.has_connected, true) {
                    standing::note_arrival(&mut self.standings, client.uid);
                }
                let object = client.object;
                let user = match transport {
                    Transport::Unix { uid, gid, .. } => User { uid, gid: Some(gid) },
                    // The user is the registered one, with the group that the host has registered.
                    _ => User { uid: client.uid, gid: Some(client.gid) },
                };
                if let Some(state) = self.nspaces.get_mut(&proc.nspace) {
                    state.expect(proc.rank);
                }
                self.peers
                    .insert(peer, Peer { shared, pid: transport.pid(&hello), ..Peer::new(proc.clone(), user, &hello) });
                if let Some(former) = former {
                    self.take_former_fences(&proc, former, peer);
                }
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

    /// Refuses a peer whose munge credential is not accepted.
    pub fn refuse_credential(&mut self, peer: PeerId, hello: &Hello, why: &str) {
        self.refuse_hello(peer, None, hello, why);
    }

    /// The process of the peer, or why it is refused.
    fn check_hello(&self, transport: Transport, hello: &Hello) -> Result<Proc, String> {
        if transport.is_remote() {
            return Err(TOOLS_ONLY.into());
        }
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
                    None if !self.config.trust_claims => return Err(self.why_unknown(&hello.psec)),
                    None if claimed == (client.uid, client.gid) => {}
                    None => {
                        return Err(format!(
                            "it claims user {} group {}, the client was registered for user {} group {}",
                            claimed.0, claimed.1, client.uid, client.gid
                        ));
                    }
                }
            }
            // The kernel's word counts. The credential is as little looked at as a claim.
            (Transport::Tcp { owner: Some(owner) }, crate::MUNGE) => registered(owner)?,
            (Transport::Tcp { owner: None }, crate::MUNGE) => return Err(self.why_unknown(crate::MUNGE)),
            (Transport::Munge { uid, .. }, crate::MUNGE) => registered(uid)?,
            (_, psec) => return Err(format!("security module {psec} is not offered here")),
        }
        Ok(proc)
    }

    /// Why a peer over loopback has no user.
    pub(super) fn why_unknown(&self, psec: &str) -> String {
        match self.config.munge_for_loopback {
            true => format!("the kernel does not tell whose it is, so it needs a munge credential and shows {psec}"),
            false => NO_TABLE.into(),
        }
    }

    /// Counts a request of `len` bytes; refuses it if its connection has too many open.
    pub(super) fn open_request(&mut self, id: PeerId, tag: u32, len: usize) -> bool {
        let Some(peer) = self.peers.get_mut(&id).filter(|_| id != PeerId::OWN) else { return true };
        if peer.unanswered.add(tag, len) {
            return true;
        }
        peer.unanswered.refused(tag);
        self.refuse_more(id, tag, "requests that are not answered yet");
        false
    }

    /// Refuses a request beyond a limit of its connection; logs the first one.
    pub(super) fn refuse_more(&mut self, id: PeerId, tag: u32, what: &str) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if !std::mem::replace(&mut peer.unanswered.is_logged, true) {
            let proc = peer.proc.clone();
            self.log(format!("{proc} has too many {what}; more are refused"));
        }
        self.reply_status(id, tag, Status::ERR_OUT_OF_RESOURCE);
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
            self.journal_fate(&proc);
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
        let client = self.nspaces.get(&proc.nspace).and_then(|state| state.clients.get(&proc.rank));
        let object = client.map(|client| client.object);
        let object = match peer.is_tool {
            // Hosts have registered few tools; the others are known by name only.
            true => self.config.reports_finalized_tools().then_some(object.unwrap_or_default()),
            false => object,
        };
        match object {
            Some(object) => {
                self.upcall(Continuation::Finalized(id, tag), Upcall::ClientFinalized { proc, object });
            }
            None => self.finalized(id, tag, Status::SUCCESS),
        }
    }

    pub(super) fn finalized(&mut self, id: PeerId, tag: u32, status: Status) {
        let status = if status == Status::OPERATION_SUCCEEDED { Status::SUCCESS } else { status };
        self.send_held_to(id);
        self.reply_status(id, tag, status);
    }

    /// A connection is gone.
    pub fn disconnected(&mut self, id: PeerId, now: Instant) {
        self.stop_knocking(id, now);
        self.lose(id, now, true);
    }

    /// As [`Engine::disconnected`]; logs it if `is_news`.
    pub(super) fn lose(&mut self, id: PeerId, now: Instant, is_news: bool) {
        let Some((peer, left)) = self.forget_connection(id) else { return };
        let was_last = left == Left::None;
        if was_last {
            self.notify_connected_of_end(&peer.proc, peer.finalized, now);
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
                self.report_loss(&peer.proc);
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

    /// Gives up processes that were connected to the server before this one and have not come again for as long as they wait themselves:
    /// they have died meanwhile, or given up.
    pub(super) fn give_up_awaited(&mut self, now: Instant) {
        while let Some((_, proc)) = self.awaited.pop_front_if(|(due, _)| *due <= now) {
            let state = self.nspaces.get_mut(&proc.nspace);
            let Some(client) = state.and_then(|state| state.clients.get_mut(&proc.rank)) else { continue };
            if !std::mem::take(&mut client.is_awaited) {
                continue;
            }
            self.log(format!(
                "{proc} was connected to the server that was killed, and has not come again to this one; it counts as lost"
            ));
            self.rank_is_gone(&proc);
            self.losses.push(Loss { due: now, is_news: false, proc });
        }
    }

    /// Reports lost processes to the host once their delay is over, and logs all losses of their jobs.
    pub(super) fn report_losses(&mut self, now: Instant) {
        let due: Vec<Proc> = self.losses.iter().filter(|loss| loss.due <= now).map(|loss| loss.proc.clone()).collect();
        for nspace in Engine::nspaces_of(&due) {
            self.log_losses(&nspace);
        }
        self.losses.retain(|loss| loss.due > now);
        due.iter().for_each(|proc| self.report_loss(proc));
    }

    /// Logs one line for all unreported losses of a job. A job that is killed loses all its processes at once.
    pub(super) fn log_losses(&mut self, nspace: &Nspace) {
        let of_job = self.losses.iter_mut().filter(|loss| loss.proc.nspace == *nspace);
        let news = of_job.filter_map(|loss| std::mem::take(&mut loss.is_news).then(|| loss.proc.clone()));
        let news: Vec<Proc> = news.collect();
        let is_expected = self.nspaces.get(nspace).is_some_and(|state| state.is_ending);
        if !news.is_empty() && !is_expected {
            self.log(lost_line(&news));
        }
    }

    fn report_loss(&mut self, proc: &Proc) {
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
        self.forget_fences_of(id, &peer.proc);
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

/// The reason to refuse a rank or a launched tool from another host.
pub(super) const TOOLS_ONLY: &str = "only tools that come by themselves are let in from other hosts";

/// The reason to refuse a peer over TCP if the kernel cannot identify its user.
const NO_TABLE: &str = "neither sock_diag nor /proc/thread-self/net/tcp tells this server whose a TCP connection is; give it \
     one of them (and its user a number, where it is in a user namespace), or start it where munge works, or set PMIX_DSTORE_TRUST_CLAIMS=1 in its \
     environment to believe what peers claim";

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
