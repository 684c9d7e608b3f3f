//! Tools: processes that connect by themselves, with a name of their own or without one.

use std::time::Instant;

use pmix_dstore::model::{Bytes, Info, Proc, Result, Status, Value, keys};
use pmix_wire::{ClientReply, Hello, PeerKind, ToolReply, Version};

use super::apart::sign;
use super::limits::{CONNECTIONS_MAX, TOOLS_MAX, TOOLS_MIN};
use super::nspaces::NamedBy;
use super::peer::{Peer, PeerId, Transport};
use super::peers::TOOLS_ONLY;
use super::{Continuation, Engine, Output, Standing};
use crate::access::User;
use crate::completion::UpcallResult;
use crate::config::TOOL_PROOF_VARIABLE as DEMAND;
use crate::journal::Reason;
use crate::upcall::Upcall;

/// Whether singletons of this release wait for the answer that clients get: from 5.0.9 and from 6.1 on. Others wait for that of tools,
/// which is longer.
fn sends_client_reply_to_singleton(version: Version) -> bool {
    let is_6_0 = (Version::new(6, 0, 0)..Version::new(6, 1, 0)).contains(&version);
    version >= Version::new(5, 0, 9) && !is_6_0
}

/// The user of a tool.
#[derive(Clone, Copy)]
struct ToolUser {
    uid: u32,
    /// Its group, if munge says.
    gid: Option<u32>,
    /// It may act for any user.
    is_root: bool,
    /// It has shown what no relay has: the server's secret, or a credential made for this server.
    is_proven: bool,
}

/// A tool that waits for the host's answer.
pub(super) struct Knocking {
    kind: PeerKind,
    hello: Hello,
    user: User,
    is_remote: bool,
    /// When the host was asked.
    since: Instant,
}

impl Engine {
    /// A connection is gone. If it was that of a tool that the host has not admitted, the tool may have waited for that in vain.
    pub(super) fn stop_knocking(&mut self, id: PeerId, now: Instant) {
        let Some(Knocking { user, since, .. }) = self.knocking.remove(&id) else { return };
        let answer = super::answer_of_host("tool_connected", since, now);
        let line = format!("a tool of user {} has gone, and was not admitted; missing: {answer}", user.uid);
        self.outputs.push_back(Output::Log(Reason::here().by(Some(user.uid)), line));
    }

    /// A tool's first message.
    pub(super) fn tool_hello(&mut self, id: PeerId, transport: Transport, kind: PeerKind, hello: Hello) {
        let user = match self.check_tool(transport, kind, &hello) {
            Ok(user) => user,
            Err(why) => return self.refuse_hello(id, transport.user(), &hello, &why),
        };
        let user = User { uid: user.uid, gid: user.gid.or_else(|| self.group_of(user.uid)) };
        let infos = match host_infos(&hello, user) {
            Ok(infos) => infos,
            Err(status) => return self.refuse_hello(id, transport.user(), &hello, &status.to_string()),
        };
        let since = self.now();
        self.knocking.insert(id, Knocking { kind, hello, user, is_remote: transport.is_remote(), since });
        self.upcall(Continuation::AdmitTool(id), Upcall::ToolConnected { infos });
    }

    /// Whether there is room for one more tool of a user. Tools must leave descriptors for ranks, which connect later. Tools of root
    /// and of the server's user have no limit: these users could stop the server anyway.
    pub(super) fn has_room_for_tool(&self, uid: u32) -> bool {
        let is_bounded = |of: &u32| *of != 0 && *of != self.config.uid;
        let connected = self.peers.values().filter(|peer| peer.is_tool).map(|peer| peer.user.uid);
        let users = || connected.clone().chain(self.knocking_users()).filter(is_bounded);
        let of_user_max = (self.descriptors() / 8).clamp(TOOLS_MIN, TOOLS_MAX);
        let of_all_max = (self.descriptors() / 4).max(TOOLS_MIN);
        let of_user = users().filter(|of| *of == uid).count();
        !is_bounded(&uid) || of_user < of_user_max && users().count() < of_all_max
    }

    /// The user of a tool, or why it is refused.
    fn check_tool(&self, transport: Transport, kind: PeerKind, hello: &Hello) -> Result<ToolUser, String> {
        if matches!(kind, PeerKind::LegacyTool | PeerKind::LegacyLauncher) {
            return Err("tools of releases before 3.0 are not supported".into());
        }
        let comes_by_itself = !matches!(kind, PeerKind::ToolClient | PeerKind::LauncherClient | PeerKind::Singleton);
        if comes_by_itself && !self.config.rendezvous.wants_tools() {
            // Such hosts may not bear the question: Open MPI 4.1's mpirun answers no and then never ends.
            return Err("the host takes no tools: it has not asked for PMIX_SERVER_TOOL_SUPPORT".into());
        }
        if transport.is_remote() && !comes_by_itself {
            return Err(TOOLS_ONLY.into());
        }
        let tool = self.user_of_tool(transport, hello)?;
        let ToolUser { uid: user, is_root, .. } = tool;
        let state = hello.proc.as_ref().and_then(|proc| Some((proc, self.nspaces.get(&proc.nspace)?)));
        if let Some((proc, state)) = state {
            let client = state.clients.get(&proc.rank);
            if client.is_some_and(|client| client.connections.len() >= CONNECTIONS_MAX) {
                return Err(format!("it has {CONNECTIONS_MAX} connections already"));
            }
            if !state.is_of_tools {
                let was_launched =
                    matches!(kind, PeerKind::ToolClient | PeerKind::LauncherClient | PeerKind::Singleton);
                let client = client.filter(|_| was_launched).ok_or("its namespace is that of a job")?;
                let is_its_user = user == client.uid;
                if !is_its_user && !is_root {
                    return Err(format!("it is user {user}'s, the client was registered for user {}", client.uid));
                }
                return if is_its_user { Ok(tool) } else { self.check_proof(tool) };
            }
            if state.clients.values().any(|client| client.uid != user) && !is_root {
                return Err("another user's tools have its namespace".into());
            }
        }
        self.check_proof(tool)?;
        if !is_root && self.count_standing(user) == Standing::Nobody {
            return Err(format!("it is user {user}'s, who has no process here"));
        }
        if !self.has_room_for_tool(user) {
            return Err(format!("it is user {user}'s, and too many tools are connected"));
        }
        Ok(tool)
    }

    /// The users of tools that wait for the host's answer.
    pub(super) fn knocking_users(&self) -> impl Iterator<Item = u32> + Clone {
        self.knocking.values().map(|knocking| knocking.user.uid)
    }

    /// Refuses a tool of root's or of the server's user without the proof that the administrator demands.
    fn check_proof(&self, tool: ToolUser) -> Result<ToolUser, String> {
        let ToolUser { uid, is_root, is_proven, .. } = tool;
        let is_of_server = is_root || uid == self.config.uid;
        if is_of_server && self.config.rendezvous.demands_proof && !is_proven {
            return Err(format!("it is user {uid}'s and shows no proof, which {DEMAND}=1 demands"));
        }
        Ok(tool)
    }

    /// The user of a tool, by proof: the tool presents a secret that only the server's user and root may read, or the
    /// kernel or munge identifies its user. A claim without proof counts only if the administrator has allowed it.
    fn user_of_tool(&self, transport: Transport, hello: &Hello) -> Result<ToolUser, String> {
        let owner = match transport {
            Transport::Tcp { owner } => owner,
            Transport::Munge { uid, gid, is_bound, .. } => return user_by_munge((uid, gid), is_bound, hello),
            Transport::Remote => {
                return Err(format!("from other hosts munge alone counts, and not security module {}", hello.psec));
            }
            Transport::Unix { .. } => return Err("tools come over TCP".into()),
        };
        if hello.psec == crate::SECURITY_NAME {
            return self.user_by_proof(owner, hello);
        }
        if hello.psec == crate::MUNGE {
            // The kernel's word counts. The credential is as little looked at as a claim.
            let uid = owner.ok_or_else(|| self.why_unknown(crate::MUNGE))?;
            return Ok(ToolUser { uid, gid: None, is_root: uid == 0, is_proven: false });
        }
        if hello.psec != "native" {
            return Err(format!("security module {} is not offered here", hello.psec));
        }
        let claimed = Hello::read_native_credential(&hello.credential).ok_or("malformed credential")?;
        if hello.uid_gid != Some(claimed) {
            return Err("the user in its handshake is not that of its credential".into());
        }
        let uid = match owner {
            Some(owner) => owner,
            None if self.config.trust_claims => claimed.0,
            None => return Err(self.why_unknown(&hello.psec)),
        };
        // A tool of root counts as root, whatever it claims. That includes connections that a relay of root passes on: `SECURITY.md`.
        Ok(ToolUser { uid, gid: None, is_root: uid == 0, is_proven: false })
    }

    /// The only place where a tool's proof is checked: the server's secret for tools, from a file that only the server's user and
    /// root may read. So the tool belongs to one of these two, and the kernel's information must not contradict that.
    fn user_by_proof(&self, owner: Option<u32>, hello: &Hello) -> Result<ToolUser, String> {
        let is_shown = self.config.tool_secret.as_ref().is_some_and(|secret| secret.is(&hello.credential));
        let user = hello.uid_gid.filter(|_| is_shown).ok_or("wrong secret")?;
        let may_read = |uid: u32| uid == 0 || uid == self.config.uid;
        match owner.into_iter().chain([user.0]).find(|uid| !may_read(*uid)) {
            Some(other) => Err(format!("it shows the server's secret as user {other}, who may not read it")),
            // The secret does not distinguish the server's user from root.
            None => Ok(ToolUser { uid: owner.unwrap_or(self.config.uid), gid: None, is_root: true, is_proven: true }),
        }
    }

    /// Takes the host's answer about a tool: its name, or a refusal.
    pub(super) fn admit_tool(&mut self, id: PeerId, answer: UpcallResult) {
        let Some(Knocking { kind, hello, user, is_remote, .. }) = self.knocking.remove(&id) else { return };
        let by = match (&hello.proc, &answer) {
            (None, _) => NamedBy::Host,
            (Some(_), UpcallResult::Name(..)) => NamedBy::Itself,
            (Some(_), _) => NamedBy::ItselfUnasked,
        };
        let given = match answer {
            // The host has no upcall that assigns names.
            UpcallResult::Op(Status::ERR_NOT_SUPPORTED) => hello.proc.clone().ok_or(Status::ERR_NOT_SUPPORTED),
            UpcallResult::Name(Status::SUCCESS | Status::OPERATION_SUCCEEDED, name) => {
                hello.proc.clone().or(name).ok_or(Status::ERR_BAD_PARAM)
            }
            other => Err(other.status()),
        };
        let is_name = |proc: &Proc| proc.rank.is_process() && !proc.nspace.is_empty();
        let given = given.and_then(|proc| if is_name(&proc) { Ok(proc) } else { Err(Status::ERR_BAD_PARAM) });
        let admitted = given.and_then(|proc| self.add_tool(id, &proc, user, by).map(|()| proc));
        let proc = match admitted {
            Ok(proc) => proc,
            // Dropped without a status: tools of release 4.2 take any status for success, and wait for the rest of the answer.
            Err(status) => {
                return self.refuse_hello(id, Some(user.uid), &hello, &format!("the host answered {status}"));
            }
        };
        let peer = Peer { is_tool: true, is_remote, admitted: true, ..Peer::new(proc.clone(), user, &hello) };
        let status = Status::SUCCESS;
        let reply = if kind == PeerKind::Singleton && sends_client_reply_to_singleton(peer.version) {
            ClientReply { status, index: id.index() }.encode()
        } else {
            let assigned = kind.wants_id().then_some(proc);
            ToolReply { assigned, server: self.config.me.clone(), security: status }.encode()
        };
        self.peers.insert(id, peer);
        self.outputs.push_back(Output::Admit { peer: id, status, reply });
        if kind != PeerKind::Singleton {
            self.pull_for_tool(id);
        }
    }
}

/// The user of a tool by its munge credential. What the tool claims must not contradict it.
fn user_by_munge((uid, gid): (u32, u32), is_bound: bool, hello: &Hello) -> Result<ToolUser, String> {
    if hello.uid_gid != Some((uid, gid)) {
        return Err(format!("its munge credential is of user {uid} and group {gid}, and it claims to be another"));
    }
    Ok(ToolUser { uid, gid: Some(gid), is_root: uid == 0, is_proven: is_bound })
}

/// The infos about a tool for the host. The server sets the verified ones itself; the tool's own are dropped.
fn host_infos(hello: &Hello, user: User) -> Result<Vec<Info>> {
    const OURS: [&str; 6] =
        [keys::VERSION_INFO, keys::NSPACE, keys::RANK, keys::TOOL_NSPACE, keys::TOOL_RANK, keys::CREDENTIAL];
    let mut infos = Info::copies(&hello.infos)?;
    infos.retain(|info| !OURS.iter().any(|key| info.key.is(key)));
    infos.push(Info::new(keys::CREDENTIAL, Value::ByteObject(Bytes::copy_of(&hello.credential)?)));
    infos.push(Info::new(keys::VERSION_INFO, Value::string(hello.version.as_str())));
    sign(&mut infos, user);
    if let Some(proc) = &hello.proc {
        infos.push(Info::new(keys::NSPACE, Value::string(proc.nspace.as_bytes())));
        infos.push(Info::new(keys::RANK, Value::Rank(proc.rank)));
        infos.push(Info::new(keys::TOOL_NSPACE, Value::string(proc.nspace.as_bytes())));
        infos.push(Info::new(keys::TOOL_RANK, Value::Uint32(proc.rank.0)));
    }
    Ok(infos)
}
