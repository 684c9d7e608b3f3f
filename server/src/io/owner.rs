//! Whose the other end of a TCP connection is.
//!
//! A stock peer only claims its user. On loopback the other end is in the kernel's own table, with the user that made
//! the socket: one question by exact addresses, over `sock_diag(7)`, whatever the size of the table.

use std::net::{SocketAddr, TcpStream};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::os::fd::AsRawFd;

/// What the kernel knows of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A process holds it; the user that made it.
    User(u32),
    /// It is closed: nobody could read an answer.
    Closed,
    /// It is not in this network namespace's table, or the kernel has no such service.
    Unknown,
}

const HEADER_LEN: usize = 16;
/// `struct inet_diag_req_v2` of `linux/inet_diag.h`.
const REQUEST_LEN: usize = HEADER_LEN + 56;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
/// In `struct inet_diag_msg`: the user, then the inode, which is 0 when no process holds the socket any more.
const UID_AT: usize = HEADER_LEN + 64;
const INODE_AT: usize = HEADER_LEN + 68;

/// Asks whose the other end of `stream` is.
pub(super) fn of_peer(stream: &TcpStream) -> Owner {
    let (Ok(theirs), Ok(ours)) = (stream.peer_addr(), stream.local_addr()) else { return Owner::Closed };
    let (SocketAddr::V4(_), SocketAddr::V4(_)) = (theirs, ours) else { return Owner::Unknown };
    ask(theirs, ours).unwrap_or(Owner::Unknown)
}

fn ask(theirs: SocketAddr, ours: SocketAddr) -> nix::Result<Owner> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let table = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?;
    // The kernel answers while the question is being sent.
    send(table.as_raw_fd(), &question(theirs, ours), MsgFlags::empty())?;
    let mut answer = [0; 512];
    let len = recv(table.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    Ok(read_answer(&answer[..len]))
}

fn question(theirs: SocketAddr, ours: SocketAddr) -> [u8; REQUEST_LEN] {
    let mut bytes = [0; REQUEST_LEN];
    bytes[..4].copy_from_slice(&(REQUEST_LEN as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    let (head, id) = bytes[HEADER_LEN..].split_at_mut(8);
    (head[0], head[1]) = (libc::AF_INET as u8, libc::IPPROTO_TCP as u8);
    // Any state.
    head[4..].fill(0xff);
    // As the other end sees itself: its own address is the source.
    for (address, port_at, address_at) in [(theirs, 0, 4), (ours, 2, 20)] {
        id[port_at..port_at + 2].copy_from_slice(&address.port().to_be_bytes());
        if let SocketAddr::V4(address) = address {
            id[address_at..address_at + 4].copy_from_slice(&address.ip().octets());
        }
    }
    // Any cookie.
    id[40..].fill(0xff);
    bytes
}

fn read_answer(answer: &[u8]) -> Owner {
    let kind = answer.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
    let word = |at: usize| answer.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    match (kind, word(UID_AT), word(INODE_AT)) {
        (Some(SOCK_DIAG_BY_FAMILY), Some(_), Some(0)) => Owner::Closed,
        (Some(SOCK_DIAG_BY_FAMILY), Some(uid), Some(_)) => Owner::User(uid),
        _ => Owner::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use nix::unistd::{Uid, geteuid, setfsuid};

    use super::*;

    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn the_kernel_names_the_user_while_a_process_holds_the_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (client, server) = pair(&listener);
        if of_peer(&server) == Owner::Unknown {
            eprintln!("skipped: this kernel has no sock_diag");
            return;
        }
        assert_eq!(of_peer(&server), Owner::User(geteuid().as_raw()));
        drop(client);
        assert_ne!(of_peer(&server), Owner::User(geteuid().as_raw()));
        if geteuid().is_root() {
            let (_client, server) = thread::scope(|scope| {
                let as_other = scope.spawn(|| {
                    setfsuid(Uid::from_raw(65_534));
                    pair(&listener)
                });
                as_other.join().unwrap()
            });
            assert_eq!(of_peer(&server), Owner::User(65_534));
        }
    }

    #[test]
    fn answers_that_are_none_leave_it_unknown() {
        for answer in [&[][..], &[0; 40], &[0xff; 20], &[0; 200]] {
            assert_eq!(read_answer(answer), Owner::Unknown);
        }
    }
}
