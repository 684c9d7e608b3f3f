//! Who is connected: handshake, finalize, loss.

use std::collections::HashSet;

use pmix_client::wire::{Hello, PeerKind, Version};
use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::model::{Info, Proc, Status, keys};

use super::{Engine, Output, Then};
use crate::config::ANNOUNCED_VERSION;
use crate::upcall::Upcall;

/// One connection; also the index that the peer is told in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PeerId(pub u32);

impl PeerId {
    /// The server process as its own client.
    pub const OWN: PeerId = PeerId(0);
}

/// How a peer reached us, and what the kernel says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Over the Unix socket of a namespace; the kernel vouches for the user.
    Unix {
        /// Effective user of the other end.
        uid: u32,
    },
    /// Over TCP on loopback.
    Tcp,
}

/// What is known of a connected peer. Encoder, buffer type and store are the peer's own, not its namespace's.
pub(crate) struct Peer {
    pub proc: Proc,
    pub dialect: Dialect,
    /// Its release, as it was understood.
    pub version: Version,
    /// Its release, as it said.
    pub version_text: String,
    /// Reads our segments.
    pub shared: bool,
    /// Event codes it asked for.
    pub codes: HashSet<Status>,
    /// Wants every event.
    pub default_events: bool,
    /// Has called finalize.
    pub finalized: bool,
    /// The handshake is answered.
    pub admitted: bool,
}

impl Peer {
    /// The server process as its own client.
    pub fn own(proc: Proc) -> Peer {
        Peer {
            proc,
            dialect: Dialect::plain(Module::V41),
            version: Version::OURS,
            version_text: ANNOUNCED_VERSION.to_owned(),
            shared: false,
            codes: HashSet::new(),
            default_events: false,
            finalized: false,
            admitted: true,
        }
    }
}

impl Engine {
    /// A peer's first message. Who is not let in is dropped without an answer, as released servers do.
    pub fn hello(&mut self, peer: PeerId, transport: Transport, hello: Hello) {
        match self.check_hello(transport, &hello) {
            Ok(proc) => {
                let shared = hello.gds == crate::STORE_NAME;
                let nspace = self.nspaces.get_mut(&proc.nspace);
                let Some(client) = nspace.and_then(|state| state.clients.get_mut(&proc.rank)) else { return };
                client.connections += 1;
                client.gone = false;
                let object = client.object;
                self.peers.insert(
                    peer,
                    Peer {
                        proc: proc.clone(),
                        dialect: hello.dialect(),
                        version: Version::parse(&hello.version).unwrap_or(Version::OURS),
                        version_text: hello.version,
                        shared,
                        codes: HashSet::new(),
                        default_events: false,
                        finalized: false,
                        admitted: false,
                    },
                );
                if shared {
                    self.stats.clients_shared += 1;
                } else {
                    self.stats.clients_socket += 1;
                }
                self.upcall(Then::Admit(peer), Upcall::ClientConnected { proc, object, infos: hello.infos });
            }
            Err(why) => {
                let who = hello.proc.map_or_else(|| "a process without a name".to_owned(), |proc| proc.to_string());
                self.log(format!("refused {who} (PMIx {}): {why}", hello.version));
                self.outputs.push_back(Output::Close(peer));
            }
        }
    }

    /// Who the peer is, or why it is refused.
    fn check_hello(&self, transport: Transport, hello: &Hello) -> Result<Proc, String> {
        if PeerKind::from_flag(hello.flag) != Some(PeerKind::Client) {
            return Err(format!("connections of kind {} (tools, singletons) are not supported", hello.flag));
        }
        let proc = hello.proc.clone().ok_or("no namespace and rank given")?;
        let state = self.nspaces.get(&proc.nspace).ok_or("unknown namespace")?;
        let client = state.clients.get(&proc.rank).ok_or("no such client registered")?;
        match (transport, hello.psec.as_str()) {
            (Transport::Unix { uid }, psec) if psec == crate::SECURITY_NAME => {
                if uid != client.uid && uid != 0 {
                    return Err(format!("it runs as user {uid}, the client was registered for user {}", client.uid));
                }
                if !client.secret.is(&hello.credential) {
                    return Err("wrong secret".into());
                }
            }
            (Transport::Tcp, "native") => {
                let (uid, gid) = Hello::read_native_credential(&hello.credential).ok_or("malformed credential")?;
                if (uid, gid) != (client.uid, client.gid) {
                    return Err(format!(
                        "it claims user {uid} group {gid}, the client was registered for user {} group {}",
                        client.uid, client.gid
                    ));
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
        let proc = peer.proc.clone();
        let status = if allowed { Status::SUCCESS } else { status };
        self.stats.connected = self.first_fork.map(|start| start.elapsed());
        self.outputs.push_back(Output::Admit { peer: id, status });
        if !allowed {
            self.log(format!("refused {proc}: the host answered {status}"));
            self.forget_connection(id);
        }
    }

    /// A client calls finalize.
    pub(super) fn finalize_peer(&mut self, id: PeerId, tag: u32) {
        let Some(peer) = self.peers.get(&id) else { return };
        let proc = peer.proc.clone();
        let object = self.nspaces.get(&proc.nspace).and_then(|state| state.clients.get(&proc.rank)).map(|c| c.object);
        match object {
            Some(object) => self.upcall(Then::Finalized(id, tag), Upcall::ClientFinalized { proc, object }),
            None => self.finalized(id, tag, Status::SUCCESS),
        }
    }

    pub(super) fn finalized(&mut self, id: PeerId, tag: u32, status: Status) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.finalized = true;
        let status = if status == Status::OPERATION_SUCCEEDED { Status::SUCCESS } else { status };
        self.reply_status(id, tag, status);
    }

    /// A connection is gone.
    pub fn disconnected(&mut self, id: PeerId) {
        let Some(peer) = self.forget_connection(id) else { return };
        self.gets.forget_peer(id);
        self.withdraw(id);
        if peer.finalized {
            self.run_cleanup_of(&peer.proc);
            return;
        }
        self.log(format!("lost the connection to {} before it called finalize", peer.proc));
        self.rank_is_gone(&peer.proc);
        self.run_cleanup_of(&peer.proc);
        let affected = Info::new(keys::EVENT_AFFECTED_PROC, pmix_dstore::model::Value::Proc(peer.proc.clone()));
        self.deliver_event(None, Status::ERR_LOST_CONNECTION, &peer.proc, super::events::Range::LOCAL, vec![affected]);
    }

    /// Removes a peer from the tables; it is no participant, waiter or receiver any more.
    fn forget_connection(&mut self, id: PeerId) -> Option<Peer> {
        let peer = self.peers.remove(&id)?;
        if let Some(state) = self.nspaces.get_mut(&peer.proc.nspace)
            && let Some(client) = state.clients.get_mut(&peer.proc.rank)
        {
            client.connections = client.connections.saturating_sub(1);
        }
        Some(peer)
    }
}
