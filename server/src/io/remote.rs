//! Connections from other hosts, and peers that munge identifies.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::socket::{setsockopt, sockopt};
use pmix_dstore::model::Proc;
use pmix_munge::{Decoded, Fault};
use pmix_wire::Hello;

use super::connection::Socket;
use super::door::{Origin, Verdict};
use super::verifier::{Checked, Question};
use super::{Loop, Source};
use crate::engine::{PeerId, Transport};
use crate::env;

/// Connections from other hosts accepted before other sources have their turn.
const ACCEPTS: usize = 8;
/// After this time in seconds without a byte the kernel asks whether the other host still has the connection, ...
const ALIVE_AFTER: u32 = 60;
/// ... every so many seconds ...
const ALIVE_INTERVAL: u32 = 15;
/// ... and ends it if so many questions are not answered.
const ALIVE_TRIES: u32 = 4;

impl Loop {
    /// Watches a listener for tools on other hosts.
    pub(super) fn watch_remote(&mut self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let token = self.token_next;
        self.epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        self.token_next += 1;
        self.sources.insert(token, Source::Remote(listener));
        Ok(())
    }

    pub(super) fn accept_remote(&mut self, token: u64) {
        for _ in 0..ACCEPTS {
            let accepted = self.accept(|own| match own.sources.get(&token) {
                Some(Source::Remote(listener)) => listener.accept(),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            });
            let Some((stream, address)) = accepted else { return };
            // The end of a host is told by nobody.
            let kept = [
                setsockopt(&stream, sockopt::KeepAlive, &true),
                setsockopt(&stream, sockopt::TcpKeepIdle, &ALIVE_AFTER),
                setsockopt(&stream, sockopt::TcpKeepInterval, &ALIVE_INTERVAL),
                setsockopt(&stream, sockopt::TcpKeepCount, &ALIVE_TRIES),
            ];
            if kept.iter().all(Result::is_ok) {
                self.receive_guest(Origin::Host(address.ip()), Socket::Tcp(stream), Transport::Remote);
            }
            self.recover_reserve();
        }
    }

    /// Whether munge has to tell whose a peer is.
    pub(super) fn is_for_munge(&self, transport: Transport, hello: &Hello) -> bool {
        let is_asked = match transport {
            Transport::Remote => true,
            Transport::Tcp { owner: None } => self.identifies_by_munge,
            _ => false,
        };
        is_asked && hello.psec == crate::MUNGE
    }

    /// Has the credential of a peer's first message decoded.
    pub(super) fn ask_munge(&mut self, token: u64, hello: Hello) {
        let is_remote = self.peer(token).is_some_and(|connection| connection.transport.is_remote());
        let question = Question { token, is_remote, hello: Box::new(hello) };
        if let Err(Question { hello, .. }) = self.verifier.ask(question) {
            let why = "too many munge credentials wait to be decoded, or no thread is left";
            self.shared.engine.lock().refuse_credential(PeerId(token), &hello, why);
        }
    }

    /// Passes peers on of which munge has told the users.
    pub(super) fn take_munge_answers(&mut self) {
        for Checked { token, hello, decoded } in self.verifier.take_answers() {
            // The connection may have ended meanwhile.
            let Some(connection) = self.peer(token) else { continue };
            let is_remote = connection.transport.is_remote();
            let address = match &connection.socket {
                Socket::Tcp(stream) => stream.local_addr().ok(),
                Socket::Unix(_) => None,
            };
            match identity(&self.me, decoded, address, is_remote) {
                Ok(transport) => self.identified(token, transport, *hello),
                Err(why) => self.shared.engine.lock().refuse_credential(PeerId(token), &hello, &why),
            }
            self.perform();
        }
    }

    /// Passes a peer on to the engine.
    fn identified(&mut self, token: u64, transport: Transport, hello: Hello) {
        let user = transport.user();
        let standing = self.shared.engine.lock().standing(user);
        if let Verdict::Close(why) = self.door.identify(token, user, standing) {
            self.log_closed(user, why);
            return self.drop_peer(token);
        }
        if let Some(connection) = self.peer(token) {
            connection.transport = transport;
        }
        self.shared.engine.lock().hello(PeerId(token), transport, hello);
    }

    /// Sets whether listeners for other hosts are watched.
    pub(super) fn watch_remotes(&self, flags: EpollFlags) {
        for (token, source) in &self.sources {
            if let Source::Remote(listener) = source {
                let _ = self.epoll.modify(listener.as_fd(), &mut EpollEvent::new(flags, *token));
            }
        }
    }
}

/// What munge says of a peer that has connected to `address` of the server `me`.
///
/// # Errors
/// Why that does not count.
fn identity(
    me: &Proc,
    decoded: Result<Decoded, Fault>,
    address: Option<SocketAddr>,
    is_remote: bool,
) -> Result<Transport, String> {
    let Decoded { uid, gid, payload } = decoded.map_err(|fault| fault.to_string())?;
    let uri = address.map(|address| env::uri_at(me, address)).ok_or("the connection is closed already")?;
    // Released tools add nothing, so that any server that gets their credential may show it here.
    let names_server = !payload.is_empty();
    if names_server && payload != Hello::munge_payload(&uri) {
        return Err(format!("its munge credential was made for another server or address than {uri}"));
    }
    // Every host has the addresses of loopback, so that a server of another host may have the same URI.
    Ok(Transport::Munge { uid, gid, is_remote, is_bound: names_server && is_remote })
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Nspace, Rank};

    use super::*;

    #[test]
    fn a_credential_is_bound_only_to_an_address_that_names_the_host() {
        let me = Proc::new(Nspace::new("server").unwrap(), Rank(0));
        let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let (other_host, loopback) = (address("10.254.0.1:4000"), address("127.0.0.1:4000"));
        let bound_to = |address| Hello::munge_payload(&env::uri_at(&me, address));
        let check = |payload: Vec<u8>, address, is_remote| match identity(
            &me,
            Ok(Decoded { uid: 7, gid: 8, payload }),
            Some(address),
            is_remote,
        ) {
            Ok(Transport::Munge { uid: 7, gid: 8, is_bound, .. }) => Some(is_bound),
            _ => None,
        };
        assert_eq!(check(bound_to(other_host), other_host, true), Some(true));
        assert_eq!(check(Vec::new(), other_host, true), Some(false));
        assert_eq!(check(bound_to(loopback), other_host, true), None);
        // Each host may have a server with this URI.
        assert_eq!(check(bound_to(loopback), loopback, false), Some(false));
        assert_eq!(check(Vec::new(), loopback, false), Some(false));
        assert_eq!(check(bound_to(other_host), loopback, false), None);
    }
}
