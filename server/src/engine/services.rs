//! Requests that the server passes to its host, and the parts that it performs itself.

use std::time::{Duration, Instant};

use pmix_client::get::timeout_of;
use pmix_dstore::model::{Info, Proc, Rank, Status, Value, keys};
use pmix_wire::reply::{CredentialReply, InfosReply, LookupReply, SpawnReply, StatusReply};
use pmix_wire::{Reply, Request};

use super::apart::{REFUSED, sign};
use super::limits::CLEANUP_PATHS_MAX;
use super::nspaces::NspaceState;
use super::peer::{Peer, PeerId};
use super::query::Form;
use super::{Continuation, Engine};
use crate::FabricOperation;
use crate::access::User;
use crate::cleanup::Cleanup;
use crate::completion::UpcallResult;
use crate::upcall::Upcall;

/// The shape of a command's reply.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// A bare status.
    Status,
    /// A bare status; a host without support for events is no failure.
    Notify,
    /// A bare status. A pause, in which input was accepted, is success once the host resumes input; `resumed` is how often it had done so
    /// when the input came.
    Input { resumed: u64 },
    /// Status and infos.
    Infos,
    /// Status and published values.
    Lookup,
    /// Status and a namespace.
    Spawn,
    /// Status, a credential and infos.
    Credential,
}

impl Engine {
    /// Everything that is neither data nor a collective nor an event.
    pub(super) fn service(&mut self, id: PeerId, tag: u32, request: Request, now: Instant) {
        let Some((proc, asker)) = self.peers.get(&id).map(|peer| (peer.proc.clone(), self.asker(peer))) else { return };
        if self.is_out_of_reach(id, targets_of(&request)) {
            return self.reply_status(id, tag, REFUSED);
        }
        let time = time_for(&request);
        let (shape, upcall) = match request {
            Request::Abort { status, message, procs } => {
                let object = self.object_of(&proc);
                let job = Proc::new(proc.nspace.clone(), Rank::WILDCARD);
                let is_of_all = procs.is_empty() || procs.contains(&job);
                if let Some(state) = self.nspaces.get_mut(&proc.nspace).filter(|_| is_of_all) {
                    state.is_ending = true;
                }
                (Shape::Status, Upcall::Abort { proc, object, status, message, procs })
            }
            Request::Publish { mut infos, .. } => {
                asker.sign(&mut infos);
                (Shape::Status, Upcall::Publish { proc, infos })
            }
            Request::Lookup { keys, mut infos, .. } => {
                asker.sign(&mut infos);
                (Shape::Lookup, Upcall::Lookup { proc, keys, infos })
            }
            Request::Unpublish { keys, mut infos, .. } => {
                asker.sign(&mut infos);
                (Shape::Status, Upcall::Unpublish { proc, keys, infos })
            }
            Request::Spawn { mut infos, apps } => {
                asker.sign(&mut infos);
                let kind = if asker.is_tool { keys::REQUESTOR_IS_TOOL } else { keys::REQUESTOR_IS_CLIENT };
                say(&mut infos, kind, Value::Bool(true));
                say(&mut infos, keys::SPAWNED, Value::Bool(true));
                say(&mut infos, keys::PARENT_ID, Value::Proc(proc.clone()));
                let channels = self.channels_of_spawn(id, &infos);
                let then = Continuation::Spawned(id, tag, channels);
                return self.upcall_within(then, id, Upcall::Spawn { proc, infos, apps }, (time, now));
            }
            Request::Query { queries } => return self.query(id, tag, Form::Infos, queries, (time, now)),
            Request::ResolvePeers { node, nspace } => {
                return self.resolve(id, tag, Form::Peers, (nspace, Some(node)), now);
            }
            Request::ResolveNodes { nspace } => return self.resolve(id, tag, Form::Nodes, (nspace, None), now),
            Request::Log { timestamp, mut data, mut directives } => {
                if id == PeerId::OWN && self.config.is_gateway {
                    if let Err(status) = self.write_log(&proc, &mut data, &directives, now) {
                        return self.reply_status(id, tag, status);
                    }
                    if data.is_empty() {
                        return self.reply_status(id, tag, Status::SUCCESS);
                    }
                }
                if let Some(time) = timestamp.filter(|time| *time > 0) {
                    directives.push(Info::new(keys::LOG_TIMESTAMP, Value::Time(time)));
                }
                directives.push(Info::new(keys::LOG_SOURCE, Value::Proc(proc.clone())));
                asker.sign(&mut directives);
                (Shape::Status, Upcall::Log { proc, data, directives })
            }
            Request::Allocate { directive, mut infos } => {
                asker.sign(&mut infos);
                (Shape::Infos, Upcall::Allocate { proc, directive, infos })
            }
            Request::JobControl { targets, directives } => {
                return self.job_control(id, tag, proc, (targets, directives), (time, now));
            }
            Request::Monitor { monitor, status, directives } => {
                return self.monitor(id, tag, (monitor, status, directives), (time, now));
            }
            Request::GetCredential { mut infos } => {
                asker.sign_some(&mut infos);
                (Shape::Credential, Upcall::GetCredential { proc, infos })
            }
            Request::ValidateCredential { credential, mut infos } => {
                asker.sign_some(&mut infos);
                (Shape::Infos, Upcall::ValidateCredential { proc, credential, infos })
            }
            Request::FabricRegister { infos } => {
                (Shape::Infos, Upcall::Fabric { proc, operation: FabricOperation::Request, directives: infos })
            }
            Request::FabricUpdate { index } => {
                let directives = vec![Info::new(keys::FABRIC_INDEX, Value::Size(index))];
                (Shape::Infos, Upcall::Fabric { proc, operation: FabricOperation::Update, directives })
            }
            Request::SessionControl { session, mut infos } => {
                asker.sign(&mut infos);
                (Shape::Infos, Upcall::SessionControl { proc, session, directives: infos })
            }
            Request::ResourceBlock { directive, block, units, mut infos } => {
                asker.sign(&mut infos);
                (Shape::Status, Upcall::ResourceBlock { proc, directive, block, units, infos })
            }
            _ => return self.reply_status(id, tag, Status::ERR_NOT_SUPPORTED),
        };
        self.upcall_within(Continuation::Reply(id, tag, shape), id, upcall, (time, now));
    }

    pub(super) fn asker(&self, peer: &Peer) -> Asker {
        let state = self.nspaces.get(&peer.proc.nspace);
        Asker { user: peer.user, is_tool: state.is_some_and(|state| state.is_of_tools) }
    }

    fn object_of(&self, proc: &Proc) -> usize {
        let client = self.nspaces.get(&proc.nspace).and_then(|state| state.clients.get(&proc.rank));
        client.map_or(0, |client| client.object)
    }

    /// Clean-up directives are the server's own business; everything else is the host's.
    fn job_control(
        &mut self,
        id: PeerId,
        tag: u32,
        proc: Proc,
        (targets, directives): (Vec<Proc>, Vec<Info>),
        (time, now): (Option<Duration>, Instant),
    ) {
        let asked = match Cleanup::read(&directives) {
            Ok(asked) => asked,
            Err(status) => return self.reply_status(id, tag, status),
        };
        if let Some(state) = self.nspaces.get_mut(&proc.nspace)
            && !note_cleanup(state, &proc, &targets, &asked)
        {
            return self.refuse_more(id, tag, "paths to be removed at its end");
        }
        if !asked.is_empty() && !asked.says_more {
            self.reply(id, tag, &InfosReply { status: Status::SUCCESS, infos: Some(Vec::new()) });
        } else {
            let mut directives = directives;
            if let Some(peer) = self.peers.get(&id) {
                self.asker(peer).sign_some(&mut directives);
            }
            let upcall = Upcall::JobControl { proc, targets, directives };
            self.upcall_within(Continuation::Reply(id, tag, Shape::Infos), id, upcall, (time, now));
        }
    }

    /// Replies to a request with the host's answer.
    pub(super) fn reply_answer(&mut self, id: PeerId, tag: u32, shape: Shape, answer: UpcallResult) {
        if let (Status::ERR_IOF_XOFF, Shape::Input { resumed }) = (answer.status(), shape) {
            return self.accept_paused_input(id, tag, resumed);
        }
        let status = match (answer.status(), shape) {
            (Status::OPERATION_SUCCEEDED, _) | (Status::ERR_NOT_SUPPORTED, Shape::Notify) => Status::SUCCESS,
            (status, _) => status,
        };
        self.send(id, tag, |dialect, version| match (shape, answer) {
            (Shape::Lookup, UpcallResult::Lookup(_, data)) => LookupReply { status, data }.encode(dialect, version),
            (Shape::Spawn, UpcallResult::Spawn(_, nspace)) => {
                SpawnReply { status, nspace, kvals: Vec::new() }.encode(dialect, version)
            }
            (Shape::Infos, UpcallResult::Infos(_, infos)) => {
                InfosReply { status, infos: Some(infos) }.encode(dialect, version)
            }
            (Shape::Credential, UpcallResult::Credential(_, credential)) => {
                let credential = Some(credential).filter(|_| status.is_success());
                CredentialReply { status, credential }.encode(dialect, version)
            }
            _ => StatusReply { status }.encode(dialect, version),
        });
    }
}

/// Notes files to remove at the end of each named process or, if none or all are named, of the job. Returns whether there was room
/// for all of them.
fn note_cleanup(state: &mut NspaceState, proc: &Proc, targets: &[Proc], asked: &Cleanup) -> bool {
    let Some(user) = state.clients.get(&proc.rank).map(|client| (client.uid, client.gid)) else { return true };
    let mut targets = targets.iter().filter(|target| target.nspace == proc.nspace).peekable();
    let mut has_room = true;
    let mut add = |cleanup: &mut Cleanup| {
        if cleanup.len() + asked.len() <= CLEANUP_PATHS_MAX {
            cleanup.add(asked);
        } else {
            has_room = false;
        }
    };
    if targets.peek().is_none() {
        add(state.cleanup.entry(user).or_default());
    }
    for target in targets {
        if target.rank == Rank::WILDCARD {
            add(state.cleanup.entry(user).or_default());
        } else if let Some(client) = state.clients.get_mut(&target.rank) {
            add(&mut client.cleanup);
        }
    }
    has_room
}

/// How long the requester waits for the host.
fn time_for(request: &Request) -> Option<Duration> {
    let infos = match request {
        Request::Publish { infos, .. }
        | Request::Lookup { infos, .. }
        | Request::Unpublish { infos, .. }
        | Request::Spawn { infos, .. }
        | Request::Allocate { infos, .. }
        | Request::GetCredential { infos }
        | Request::ValidateCredential { infos, .. }
        | Request::FabricRegister { infos }
        | Request::SessionControl { infos, .. }
        | Request::ResourceBlock { infos, .. } => infos,
        Request::Log { directives, .. }
        | Request::JobControl { directives, .. }
        | Request::Monitor { directives, .. } => directives,
        Request::Query { queries } => return queries.iter().find_map(|query| timeout_of(&query.qualifiers)),
        _ => return None,
    };
    timeout_of(infos)
}

/// The processes of other jobs that a request names to act on them.
fn targets_of(request: &Request) -> Vec<&Proc> {
    match request {
        Request::Abort { procs, .. } => procs.iter().collect(),
        Request::JobControl { targets, .. } => targets.iter().collect(),
        Request::Monitor { monitor, directives, .. } => {
            monitor.value.iter_procs().chain(directives.iter().flat_map(|info| info.value.iter_procs())).collect()
        }
        // Debugger daemons are started on the nodes of the processes that they debug.
        Request::Spawn { infos, apps } => {
            let all = infos.iter().chain(apps.iter().flat_map(|app| &app.infos));
            all.filter(|info| info.key.is(keys::DEBUG_TARGET)).flat_map(|info| info.value.iter_procs()).collect()
        }
        _ => Vec::new(),
    }
}

/// The verified identity of a requester, from its handshake.
pub(super) struct Asker {
    user: User,
    is_tool: bool,
}

impl Asker {
    pub(super) fn sign(&self, infos: &mut Vec<Info>) {
        sign(infos, self.user);
    }

    /// The same if the request has infos. Hosts with Debian's Python module never answer a job control or a
    /// request about credentials with infos, so none are added to a request without.
    fn sign_some(&self, infos: &mut Vec<Info>) {
        if !infos.is_empty() {
            self.sign(infos);
        }
    }
}

/// Sets an info that only the server can know; a client's own is replaced.
fn say(infos: &mut Vec<Info>, key: &'static str, value: Value) {
    infos.retain(|info| !info.key.is(key));
    infos.push(Info::new(key, value));
}
