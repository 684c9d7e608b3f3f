//! Finds the owner of the other end of a TCP connection, or of the listener at an address, in the kernel's socket
//! table. A peer's own claim is not used.
//!
//! The table lists the sockets of one network namespace, each with its state, the user that created it and an inode. A
//! socket has an owner only if it is in the right state and a process still holds it (its inode is not 0). Every other
//! answer of the kernel is a [`Refusal`]. That includes errors and "no such socket": the kernel removes the entry of a
//! peer that closes its end early.
//!
//! There are two sources: `sock_diag(7)`, a query by exact addresses, and `/proc/thread-self/net/tcp`, a list. A source
//! is used only after a self-test, in which it must name the owner of a connection of this process: a kernel without
//! `tcp_diag` answers "no such socket" to every query. If neither source works, the answer is [`Owner::NoTable`].

mod netlink;
mod proc_net;

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::stat::fstat;

use self::netlink::Netlink;
use self::proc_net::ProcNet;
use crate::user_namespace::UserIds;

/// The kernel's answer about a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A process holds it, it is in the requested state, and this user created it.
    User(u32),
    /// The kernel reports no owner.
    Refused(Refusal),
    /// This process cannot query the kernel: neither `sock_diag(7)` nor `/proc` works.
    NoTable,
}

/// An administrator's setting for machines on which the kernel cannot be queried. With `1` a peer's claim is accepted,
/// as released libraries do.
pub const TRUST_CLAIMS: &str = "PMIX_DSTORE_TRUST_CLAIMS";

/// Whether to accept claims if there is [no table](Owner::NoTable).
pub fn trusts_claims() -> bool {
    std::env::var_os(TRUST_CLAIMS).is_some_and(|value| value == "1")
}

/// Why there is no owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The table has no such socket: it is closed, or in another network namespace.
    NoSocket,
    /// It is in another state; the kernel's number of that state.
    State(u8),
    /// No process holds it any more, or none has accepted it yet.
    NotHeld,
    /// Its user has no id in this process's user namespace: the reported id is the one that unmapped users share.
    NoNumber,
    /// This end of the connection is closed, so that the entry may belong to another connection.
    OwnEndClosed,
    /// The kernel's answer is malformed.
    Malformed,
    /// The query failed.
    Failed(Errno),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoSocket => f.write_str("the kernel's socket table does not have it"),
            Refusal::State(state) => write!(f, "its socket is in state {}", state_name(*state)),
            Refusal::NotHeld => f.write_str("no process holds its socket"),
            Refusal::NoNumber => f.write_str("its user has no id of its own in this user namespace"),
            Refusal::OwnEndClosed => f.write_str("the connection is closed already"),
            Refusal::Malformed => f.write_str("the kernel's answer about its socket is malformed"),
            Refusal::Failed(errno) => {
                write!(f, "asking the kernel about its socket failed: {}", io::Error::from(*errno))
            }
        }
    }
}

/// The name of a state of `net/tcp_states.h`.
fn state_name(state: u8) -> String {
    const NAMES: &str = "ESTABLISHED SYN_SENT SYN_RECV FIN_WAIT1 FIN_WAIT2 TIME_WAIT CLOSE CLOSE_WAIT LAST_ACK LISTEN CLOSING \
                         NEW_SYN_RECV BOUND_INACTIVE";
    let name = usize::from(state).checked_sub(1).and_then(|index| NAMES.split(' ').nth(index));
    name.map_or_else(|| state.to_string(), str::to_owned)
}

const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// An entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    state: u8,
    uid: u32,
    inode: u32,
}

impl Entry {
    /// Its owner, if it is in this state, a process holds it, and its user id identifies a single user.
    fn owner_in(self, state: u8, numbers: UserIds) -> Owner {
        match self {
            Entry { state: other, .. } if other != state => Owner::Refused(Refusal::State(other)),
            Entry { inode: 0, .. } => Owner::Refused(Refusal::NotHeld),
            Entry { uid, .. } if !numbers.is_unique(uid) => Owner::Refused(Refusal::NoNumber),
            Entry { uid, .. } => Owner::User(uid),
        }
    }
}

/// The socket of a query.
#[derive(Clone, Copy, Debug)]
enum Lookup {
    /// The end of a connection that has these two addresses, its own one first.
    Connection(SocketAddr, SocketAddr),
    /// The listener that a new connection to this address would reach.
    Listener(SocketAddr),
}

/// The kinds of sources, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Netlink,
    ProcNet,
}

const KINDS: [Kind; 2] = [Kind::Netlink, Kind::ProcNet];

enum Source {
    Netlink(Netlink),
    ProcNet(ProcNet),
}

impl Source {
    fn open(kind: Kind) -> nix::Result<Source> {
        match kind {
            Kind::Netlink => Netlink::open().map(Source::Netlink),
            Kind::ProcNet => ProcNet::open().map(Source::ProcNet),
        }
    }

    /// The answers, in the order of the queries.
    fn ask(&mut self, questions: &[Lookup]) -> Vec<Result<Entry, Refusal>> {
        match self {
            Source::Netlink(netlink) => questions.iter().map(|question| netlink.ask(*question)).collect(),
            Source::ProcNet(proc_net) => proc_net.ask(questions),
        }
    }
}

/// The socket table of the network namespace of the thread that opened it.
pub struct SocketTable {
    kinds: &'static [Kind],
    /// The user ids of that thread's user namespace.
    numbers: UserIds,
    /// The source that passed the self-test; `Some(None)` if none did; `None` while the self-test could not run.
    source: Option<Option<Source>>,
}

impl SocketTable {
    /// Opens the table and runs the self-test. If it cannot run for lack of descriptors, memory or a loopback
    /// interface, each query tries it again.
    pub fn open() -> SocketTable {
        SocketTable::of(&KINDS)
    }

    fn of(kinds: &'static [Kind]) -> SocketTable {
        let mut table = SocketTable { kinds, numbers: UserIds::of_this_thread(), source: None };
        // An error is reported by the first query.
        let _ = table.prepare();
        table
    }

    /// Whether the kernel can be queried, as far as known.
    pub fn is_there(&self) -> bool {
        !matches!(self.source, Some(None))
    }

    /// The owner of the other end of a connection. The other end must be ESTABLISHED, and this end must still be
    /// connected after the query: that ensures that the entry belongs to no other connection.
    pub fn peer_of(&mut self, stream: &TcpStream) -> Owner {
        self.peers_of([stream])[0]
    }

    /// As [`SocketTable::peer_of`] for several connections, in their order. If the source is a list, one reading
    /// answers all of them.
    pub fn peers_of<'a>(&mut self, streams: impl IntoIterator<Item = &'a TcpStream>) -> Vec<Owner> {
        let streams: Vec<&TcpStream> = streams.into_iter().collect();
        let ends = |stream: &TcpStream| Some(Lookup::Connection(stream.peer_addr().ok()?, stream.local_addr().ok()?));
        let questions: Vec<Option<Lookup>> = streams.iter().map(|stream| ends(stream)).collect();
        let asked: Vec<Lookup> = questions.iter().flatten().copied().collect();
        let mut answers = self.owners(&asked, ESTABLISHED).into_iter();
        let owners = questions.iter().map(|question| question.and_then(|_| answers.next()));
        let owners: Vec<Owner> = owners.map(|owner| owner.unwrap_or(Owner::Refused(Refusal::OwnEndClosed))).collect();
        let is_closed = |stream: &TcpStream| stream.peer_addr().is_err();
        let checked = owners.into_iter().zip(streams).map(|(owner, stream)| match owner {
            Owner::User(_) if is_closed(stream) => Owner::Refused(Refusal::OwnEndClosed),
            owner => owner,
        });
        checked.collect()
    }

    /// The number of connections to query at once.
    pub fn batch(&self) -> usize {
        match self.source {
            // Large, because one reading answers all of them: see [`ProcNet`].
            Some(Some(Source::ProcNet(_))) => 256,
            _ => 8,
        }
    }

    /// The time before which the caller should not query again. After a slow reading, connections that arrive meanwhile
    /// should share the next one.
    pub fn rests_until(&self) -> Option<Instant> {
        match &self.source {
            Some(Some(Source::ProcNet(proc_net))) => proc_net.rests_until(),
            _ => None,
        }
    }

    /// The owner of the listener that a connection to `address` would reach, whether bound to this address or to all
    /// addresses.
    pub fn listener_at(&mut self, address: SocketAddr) -> Owner {
        self.owners(&[Lookup::Listener(address)], LISTEN)[0]
    }

    /// Whether a process holds the listener at an address. `None` if the kernel names no listener, or this process may
    /// not look at the other's descriptors, as those of another user.
    pub fn is_listener_of(&mut self, address: SocketAddr, pid: i32) -> Option<bool> {
        let source = self.prepare().ok()??;
        let entry = source.ask(&[Lookup::Listener(address).canonical()]).pop()?.ok()?;
        let inode = (entry.state == LISTEN && entry.inode != 0).then_some(entry.inode)?;
        let socket = OsString::from(format!("socket:[{inode}]"));
        let mut descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        Some(descriptors.any(|entry| entry.is_ok_and(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == socket))))
    }

    /// The owners of sockets that are in a state, in the order of the queries.
    fn owners(&mut self, questions: &[Lookup], state: u8) -> Vec<Owner> {
        let numbers = self.numbers;
        let all = |owner| vec![owner; questions.len()];
        let source = match self.prepare() {
            Ok(Some(source)) => source,
            Ok(None) => return all(Owner::NoTable),
            Err(errno) => return all(Owner::Refused(Refusal::Failed(errno))),
        };
        let questions: Vec<Lookup> = questions.iter().map(|question| question.canonical()).collect();
        let owners = source.ask(&questions).into_iter().map(|answer| match answer {
            Ok(entry) => entry.owner_in(state, numbers),
            Err(refusal) => Owner::Refused(refusal),
        });
        owners.collect()
    }

    /// The source that works; runs the self-test if it has not run yet.
    ///
    /// # Errors
    /// Why the self-test cannot run now.
    fn prepare(&mut self) -> nix::Result<Option<&mut Source>> {
        if self.source.is_none() {
            self.source = Some(self.choose()?);
        }
        Ok(self.source.as_mut().and_then(Option::as_mut))
    }

    fn choose(&self) -> nix::Result<Option<Source>> {
        for kind in self.kinds {
            match Source::open(*kind) {
                Ok(mut source) => {
                    if names_owner(&mut source, self.numbers)? {
                        return Ok(Some(source));
                    }
                }
                Err(errno) if is_shortage(errno) => return Err(errno),
                // This process may not use this source.
                Err(_) => {}
            }
        }
        Ok(None)
    }
}

impl Lookup {
    /// The addresses, if the query is about a connection.
    fn connection(self) -> Option<(SocketAddr, SocketAddr)> {
        match self {
            Lookup::Connection(theirs, ours) => Some((theirs, ours)),
            Lookup::Listener(_) => None,
        }
    }

    /// Converts IPv4-mapped IPv6 addresses to IPv4 addresses.
    fn canonical(self) -> Lookup {
        let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        match self {
            Lookup::Connection(theirs, ours) => Lookup::Connection(canonical(theirs), canonical(ours)),
            Lookup::Listener(address) => Lookup::Listener(canonical(address)),
        }
    }
}

/// Whether an error is a lack of resources, and not a fault of the source.
fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS | Errno::EINTR)
}

/// The self-test: whether a source names the owner of a connection of this process, and of its listener. It fails if
/// this process's user is unmapped in its user namespace.
///
/// # Errors
/// If the connection cannot be made now.
fn names_owner(source: &mut Source, numbers: UserIds) -> nix::Result<bool> {
    const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    const WAIT: Duration = Duration::from_secs(1);
    let errno = |error: io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    let listener = TcpListener::bind(LOOPBACK).map_err(errno)?;
    let address = listener.local_addr().map_err(errno)?;
    let stream = TcpStream::connect_timeout(&address, WAIT).map_err(errno)?;
    // Closing with a reset leaves no entry in TIME_WAIT.
    let _ = setsockopt(&stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 });
    let owner = Owner::User(fstat(&stream)?.st_uid);
    let ours = stream.local_addr().map_err(errno)?;
    let mut ask = |question, state| source.ask(&[question])[0].map(|entry| entry.owner_in(state, numbers));
    Ok(ask(Lookup::Connection(ours, address), ESTABLISHED) == Ok(owner)
        && ask(Lookup::Listener(address), LISTEN) == Ok(owner))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::Shutdown;
    use std::os::fd::{AsFd, AsRawFd};
    use std::process::Stdio;
    use std::thread;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, connect, getsockname, listen, socket,
    };
    use nix::unistd::{Uid, geteuid, setfsuid};

    use super::*;
    use crate::left_out::left_out;
    use crate::user_namespace::tests::{again_inside, inside};

    const OTHER: u32 = 60_002;

    fn tables() -> [SocketTable; 2] {
        let tables = [SocketTable::of(&[Kind::Netlink]), SocketTable::of(&[Kind::ProcNet])];
        assert!(tables.iter().all(SocketTable::is_there), "this kernel has both");
        tables
    }

    fn own() -> Owner {
        Owner::User(geteuid().as_raw())
    }

    /// Runs `action` so that another user owns its sockets, if that is allowed.
    fn as_other<T: Send>(action: impl FnOnce() -> T + Send) -> Option<T> {
        if !geteuid().is_root() {
            left_out("root", "only root can have another user's sockets");
            return None;
        }
        let run = move || {
            setfsuid(Uid::from_raw(OTHER));
            action()
        };
        Some(thread::scope(|scope| scope.spawn(run).join().unwrap()))
    }

    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_listener_belongs_to_the_process_that_holds_it() {
        for mut table in tables() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let own = std::process::id() as i32;
            assert_eq!(table.is_listener_of(address, own), Some(true));
            assert_eq!(table.is_listener_of(address, 999_999_999), None, "there is no such process");
            let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            let is_others = table.is_listener_of(address, other.id() as i32);
            other.kill().unwrap();
            other.wait().unwrap();
            assert_eq!(is_others, Some(false));
            drop(listener);
            assert_eq!(table.is_listener_of(address, own), None);
        }
    }

    #[test]
    fn the_owner_of_a_peer_is_known_while_a_process_holds_it() {
        for mut table in tables() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let (client, server) = pair(&listener);
            assert_eq!(table.peer_of(&server), own());
            assert_eq!(table.peer_of(&client), own());
            if let Some((_client, server)) = as_other(|| pair(&listener)) {
                assert_eq!(table.peer_of(&server), Owner::User(OTHER));
            }
            // After a shutdown the state is no longer ESTABLISHED, although the process still holds its socket.
            client.shutdown(Shutdown::Write).unwrap();
            assert!(matches!(table.peer_of(&server), Owner::Refused(Refusal::State(_))));
            drop(client);
            assert!(matches!(table.peer_of(&server), Owner::Refused(_)));
        }
    }

    #[test]
    fn one_reading_of_the_lists_answers_for_many_connections() {
        let [by_netlink, mut by_lists] = tables();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pairs: Vec<_> = (0..60).map(|_| pair(&listener)).collect();
        let readings = |table: &SocketTable| match &table.source {
            Some(Some(Source::ProcNet(lists))) => lists.readings,
            _ => panic!("the lists"),
        };
        let before = readings(&by_lists);
        let owners = by_lists.peers_of(pairs.iter().map(|(_, server)| server));
        assert_eq!((owners, readings(&by_lists) - before), (vec![own(); 60], 1));
        assert!(by_lists.batch() > by_netlink.batch() && by_netlink.rests_until().is_none());
        // Each query has its own result: one peer is gone, one has shut down, one has another owner.
        let other = as_other(|| pair(&listener));
        for mut table in [by_netlink, by_lists] {
            let pairs: Vec<_> = (0..3).map(|_| pair(&listener)).collect();
            setsockopt(&pairs[0].0, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
            let (mut clients, servers): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            drop(clients.remove(0));
            clients[0].shutdown(Shutdown::Write).unwrap();
            let others = other.iter().map(|(_, server)| server);
            let owners = table.peers_of(servers.iter().chain(others));
            assert!(matches!(owners[..2], [Owner::Refused(_), Owner::Refused(Refusal::State(_))]), "{owners:?}");
            assert_eq!(owners[2..], [own(), Owner::User(OTHER)][..owners.len() - 2]);
        }
    }

    #[test]
    fn a_peer_forgotten_by_the_kernel_has_no_owner() {
        for mut table in tables() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            // Closing with a reset removes the entry.
            setsockopt(&client, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
            let (server, _) = listener.accept().unwrap();
            drop(client);
            assert!(matches!(table.peer_of(&server), Owner::Refused(_)));
        }
    }

    #[test]
    fn a_listener_on_the_port_of_a_forgotten_peer_is_not_the_peer() {
        for mut table in tables() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let other = TcpListener::bind("127.0.0.1:0").unwrap();
            let (theirs, ours) = (other.local_addr().unwrap(), listener.local_addr().unwrap());
            let owner = table.owners(&[Lookup::Connection(theirs, ours)], ESTABLISHED)[0];
            assert!(matches!(owner, Owner::Refused(Refusal::NoSocket | Refusal::State(LISTEN))), "{owner:?}");
        }
    }

    #[test]
    fn a_connection_in_syn_sent_has_no_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!("an IPv4 address") };
        // The backlog has room for one connection.
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        let _queued = TcpStream::connect(address).unwrap();
        poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let waiting = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
        assert_eq!(connect(waiting.as_raw_fd(), &SockaddrIn::from(address)), Err(Errno::EINPROGRESS));
        let own: SockaddrIn = getsockname(waiting.as_raw_fd()).unwrap();
        let theirs = SocketAddr::from((own.ip(), own.port()));
        for mut table in tables() {
            let owner = table.owners(&[Lookup::Connection(theirs, address.into())], ESTABLISHED)[0];
            assert_eq!(owner, Owner::Refused(Refusal::State(2)));
        }
    }

    #[test]
    fn the_owner_of_a_listener_is_known_however_it_is_bound() {
        for mut table in tables() {
            for bound in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0", "[::ffff:127.0.0.1]:0"] {
                let listen = || TcpListener::bind(bound).unwrap();
                let at = |listener: &TcpListener| {
                    SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port()))
                };
                let listener = listen();
                assert_eq!(table.listener_at(at(&listener)), own(), "{bound}");
                let (client, server) = {
                    let client = TcpStream::connect(at(&listener)).unwrap();
                    (client, listener.accept().unwrap().0)
                };
                assert_eq!(table.peer_of(&server), own(), "{bound}");
                assert_eq!(table.peer_of(&client), own(), "{bound}");
                if let Some(listener) = as_other(listen) {
                    assert_eq!(table.listener_at(at(&listener)), Owner::User(OTHER), "{bound}");
                }
            }
            let six = TcpListener::bind("[::1]:0").unwrap();
            assert_eq!(table.listener_at(six.local_addr().unwrap()), own());
            let four = SocketAddr::from((Ipv4Addr::LOCALHOST, six.local_addr().unwrap().port()));
            assert!(matches!(table.listener_at(four), Owner::Refused(_)));
        }
    }

    #[test]
    fn a_peer_with_an_ipv6_socket_is_known() {
        for mut table in tables() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mapped = SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), listener.local_addr().unwrap().port());
            let _client = TcpStream::connect(mapped).unwrap();
            assert_eq!(table.peer_of(&listener.accept().unwrap().0), own());
            let six = TcpListener::bind("[::1]:0").unwrap();
            let (_client, server) = pair(&six);
            assert_eq!(table.peer_of(&server), own());
        }
    }

    /// The prefix of the line in which a test in a user namespace prints its port.
    const PORT: &str = "listens at ";

    /// Runs inside a user namespace: the owner of the peer of a connection from outside.
    fn owner_of_who_comes() -> Owner {
        let mut table = SocketTable::open();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        println!("\n{PORT}{}", listener.local_addr().unwrap().port());
        table.peer_of(&listener.accept().unwrap().0)
    }

    #[test]
    fn an_unmapped_uid_is_no_owner() {
        match inside().as_deref() {
            Some("") => return assert_eq!(owner_of_who_comes(), Owner::NoTable, "it has none itself"),
            Some(_) => return assert_eq!(owner_of_who_comes(), Owner::Refused(Refusal::NoNumber)),
            None => {}
        }
        for options in [&[][..], &["--map-root-user"]] {
            let name = "socket_owner::tests::an_unmapped_uid_is_no_owner";
            let Some(mut command) = again_inside(name, options) else { return };
            let mut again = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut said = BufReader::new(again.stdout.take().unwrap()).lines().map(Result::unwrap);
            let port = said.find_map(|line| line.strip_prefix(PORT)?.parse::<u16>().ok()).unwrap();
            let _connected = as_other(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap())
                .unwrap_or_else(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap());
            said.for_each(|line| println!("{line}"));
            // Without root the test has no other user.
            assert!(again.wait().unwrap().success() || !options.is_empty() && !geteuid().is_root(), "{options:?}");
        }
    }

    #[test]
    fn without_a_source_there_is_no_table() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (_client, server) = pair(&listener);
        let mut table = SocketTable::of(&[]);
        assert!(!table.is_there());
        assert_eq!(table.peer_of(&server), Owner::NoTable);
    }
}
