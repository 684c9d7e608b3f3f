//! The socket table through `sock_diag(7)`: a query by exact addresses, independent of the size of the table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect, recv, send, socket,
};

use super::{Entry, Lookup, Refusal};

const HEADER_LEN: usize = 16;
/// `struct inet_diag_req_v2` of `linux/inet_diag.h`.
const REQUEST_LEN: usize = HEADER_LEN + 56;
/// `struct inet_diag_msg`.
const ANSWER_LEN: usize = HEADER_LEN + 72;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
// Offsets in the netlink header.
const TYPE_AT: usize = 4;
const SEQUENCE_AT: usize = 8;
// Offsets in `struct inet_diag_msg`.
const STATE_AT: usize = HEADER_LEN + 1;
const SOURCE_PORT_AT: usize = HEADER_LEN + 4;
const UID_AT: usize = HEADER_LEN + 64;
const INODE_AT: usize = HEADER_LEN + 68;

pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// A netlink socket in the network namespace of this thread, connected to the kernel, so that it receives no
    /// messages from other processes.
    pub fn open() -> nix::Result<Netlink> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?;
        connect(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    pub fn ask(&mut self, question: Lookup) -> Result<Entry, Refusal> {
        self.sequence = self.sequence.wrapping_add(1);
        // The kernel queues its answer during the send, so the non-blocking receive finds it.
        send(self.socket.as_raw_fd(), &encode(question, self.sequence), MsgFlags::empty()).map_err(Refusal::Failed)?;
        let mut answer = [0; 1024];
        loop {
            match recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty()) {
                // The answer to an earlier query that was not received.
                Ok(len) if number(&answer[..len], SEQUENCE_AT).is_some_and(|number| number != self.sequence) => {}
                Ok(len) => return decode(&answer[..len], question),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(Refusal::Failed(errno)),
            }
        }
    }
}

fn encode(question: Lookup, sequence: u32) -> [u8; REQUEST_LEN] {
    let (source, destination) = match question {
        Lookup::Connection(theirs, ours) => (theirs, ours),
        // The remote address 0 makes the kernel search for a listener, as for a new connection.
        Lookup::Listener(address) if address.is_ipv4() => (address, (Ipv4Addr::UNSPECIFIED, 0).into()),
        Lookup::Listener(address) => (address, (Ipv6Addr::UNSPECIFIED, 0).into()),
    };
    let mut bytes = [0; REQUEST_LEN];
    bytes[..4].copy_from_slice(&(REQUEST_LEN as u32).to_ne_bytes());
    bytes[TYPE_AT..TYPE_AT + 2].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    bytes[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&sequence.to_ne_bytes());
    let (head, id) = bytes[HEADER_LEN..].split_at_mut(8);
    let family = if source.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    (head[0], head[1]) = (family as u8, libc::IPPROTO_TCP as u8);
    // Any state: the answer contains the state.
    head[4..].fill(0xff);
    for (address, port_at, address_at) in [(source, 0, 4), (destination, 2, 20)] {
        id[port_at..port_at + 2].copy_from_slice(&address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(ip) => id[address_at..address_at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => id[address_at..address_at + 16].copy_from_slice(&ip.octets()),
        }
    }
    // Any cookie.
    id[40..].fill(0xff);
    bytes
}

fn decode(answer: &[u8], question: Lookup) -> Result<Entry, Refusal> {
    let kind = answer.get(TYPE_AT..TYPE_AT + 2).map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
    match kind {
        Some(NLMSG_ERROR) => {
            match number(answer, HEADER_LEN).map(|errno| Errno::from_raw((errno as i32).wrapping_neg())) {
                Some(Errno::ENOENT) => Err(Refusal::NoSocket),
                Some(Errno::UnknownErrno) | None => Err(Refusal::Malformed),
                Some(errno) => Err(Refusal::Failed(errno)),
            }
        }
        Some(SOCK_DIAG_BY_FAMILY) if answer.len() >= ANSWER_LEN && has_port_of(answer, question) => {
            let (Some(uid), Some(inode)) = (number(answer, UID_AT), number(answer, INODE_AT)) else {
                return Err(Refusal::Malformed);
            };
            Ok(Entry { state: answer[STATE_AT], uid, inode })
        }
        _ => Err(Refusal::Malformed),
    }
}

/// Whether the socket of an answer has the port of the query.
fn has_port_of(answer: &[u8], question: Lookup) -> bool {
    let (Lookup::Connection(asked, _) | Lookup::Listener(asked)) = question;
    answer[SOURCE_PORT_AT..SOURCE_PORT_AT + 2] == asked.port().to_be_bytes()
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_netlink_replies_name_no_owner() {
        let asked = Lookup::Listener("127.0.0.1:17".parse().unwrap());
        for answer in [&[][..], &[0; 40], &[0xff; 20], &[0; 200]] {
            assert_eq!(decode(answer, asked), Err(Refusal::Malformed));
        }
        let mut error = [0; 36];
        error[TYPE_AT] = NLMSG_ERROR as u8;
        assert_eq!(decode(&error, asked), Err(Refusal::Malformed), "an acknowledgement");
        error[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&(-libc::ENOENT).to_ne_bytes());
        assert_eq!(decode(&error, asked), Err(Refusal::NoSocket));
        error[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        assert_eq!(decode(&error, asked), Err(Refusal::Failed(Errno::EPERM)));
        // A socket with a port other than the query's.
        let mut other = [0; ANSWER_LEN];
        other[TYPE_AT] = SOCK_DIAG_BY_FAMILY as u8;
        assert_eq!(decode(&other, asked), Err(Refusal::Malformed));
        other[SOURCE_PORT_AT + 1] = 17;
        assert_eq!(decode(&other, asked), Ok(Entry { state: 0, uid: 0, inode: 0 }));
    }
}
