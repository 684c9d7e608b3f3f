//! The socket table by the lists of `proc(5)`: where `sock_diag(7)` is filtered. Its time grows with the number of sockets.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::errno::Errno;

use super::{Entry, LISTEN, Question, Refusal};

/// How often the lists are read before a socket counts as missing: one that is listed behind another that goes while the list
/// is being read may be left out.
const READS: u32 = 3;

/// The list of IPv4 sockets, and where there is one that of IPv6 sockets, in which sockets with mapped addresses are.
pub(super) struct ProcNet {
    lists: Vec<File>,
}

impl ProcNet {
    /// The lists of the network namespace of this thread, which they stay.
    pub fn open() -> nix::Result<ProcNet> {
        let open = |name| {
            let errno = |error: std::io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
            File::open(format!("/proc/thread-self/net/{name}")).map_err(errno)
        };
        let mut lists = vec![open("tcp")?];
        match open("tcp6") {
            Ok(list) => lists.push(list),
            // A kernel without IPv6.
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        Ok(ProcNet { lists })
    }

    pub fn ask(&mut self, question: Question) -> Result<Entry, Refusal> {
        for _ in 0..READS {
            let mut found = Vec::new();
            for list in &mut self.lists {
                let mut text = String::new();
                let read = list.seek(SeekFrom::Start(0)).and_then(|_| list.read_to_string(&mut text));
                read.map_err(|error| match error.raw_os_error() {
                    Some(errno) => Refusal::Failed(Errno::from_raw(errno)),
                    None => Refusal::Malformed,
                })?;
                found.extend(text.lines().skip(1).filter_map(Line::parse));
            }
            if let Some(entry) = choose(&found, question) {
                return Ok(entry);
            }
        }
        Err(Refusal::NoSocket)
    }
}

/// One line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    local: SocketAddr,
    remote: SocketAddr,
    entry: Entry,
}

impl Line {
    /// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...`
    fn parse(line: &str) -> Option<Line> {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
        let state = u8::from_str_radix(fields.next()?, 16).ok()?;
        let uid = fields.nth(3)?.parse().ok()?;
        // The list has more digits than sock_diag; what counts is that it is not 0.
        let inode: u64 = fields.nth(1)?.parse().ok()?;
        Some(Line { local, remote, entry: Entry { state, uid, inode: inode.min(u32::MAX.into()) as u32 } })
    }
}

/// An address as words of the machine in hexadecimal digits, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(address.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let octets: [u8; 16] = words.concat().try_into().ok()?;
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn choose(lines: &[Line], question: Question) -> Option<Entry> {
    let mut lines = lines.iter();
    match question {
        Question::Connection(theirs, ours) => {
            let found = lines.find(|line| (line.local, line.remote) == (theirs, ours));
            found.map(|line| line.entry)
        }
        Question::Listener(address) => {
            // As the kernel chooses: who is bound to the address itself, then to all of its kind, then to all.
            let rank = |line: &Line| match (line.local.ip(), address.ip()) {
                (bound, asked) if bound == asked => Some(0),
                (IpAddr::V4(bound), IpAddr::V4(_)) if bound.is_unspecified() => Some(1),
                (IpAddr::V6(bound), _) if bound.is_unspecified() => Some(2),
                _ => None,
            };
            let listens = |line: &&Line| line.entry.state == LISTEN && line.local.port() == address.port();
            let ranked = lines.filter(listens).filter_map(|line| Some((rank(line)?, line.entry)));
            ranked.min_by_key(|(rank, _)| *rank).map(|(_, entry)| entry)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_lists_are_read() {
        let line =
            "   3: 0100007F:D578 0100007F:A00D 01 00000000:00000000 00:00000000 00000000  1000        0 18982 2 0 20";
        let four = Line::parse(line).unwrap();
        assert_eq!(four.local, SocketAddr::new(u32::from_ne_bytes([127, 0, 0, 1]).to_ne_bytes().into(), 0xd578));
        assert_eq!((four.local.to_string(), four.remote.port()), ("127.0.0.1:54648".into(), 0xa00d));
        assert_eq!(four.entry, Entry { state: 1, uid: 1000, inode: 18_982 });
        let line = "0: 0000000000000000FFFF00000100007F:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 7 0 9";
        let six = Line::parse(line).unwrap();
        assert_eq!((six.local.to_string(), six.entry.uid), ("127.0.0.1:80".into(), 7));
        assert_eq!(Line::parse("sl local_address rem_address st"), None);
    }

    #[test]
    fn the_listener_that_is_bound_more_closely_is_reached() {
        let line = |local: &str, uid| Line {
            local: local.parse().unwrap(),
            remote: "0.0.0.0:0".parse().unwrap(),
            entry: Entry { state: LISTEN, uid, inode: 1 },
        };
        let lines = [line("[::]:5", 1), line("0.0.0.0:5", 2), line("127.0.0.1:5", 3), line("127.0.0.1:6", 4)];
        let asked =
            |lines: &[Line]| choose(lines, Question::Listener("127.0.0.1:5".parse().unwrap())).map(|entry| entry.uid);
        assert_eq!(asked(&lines), Some(3));
        assert_eq!(asked(&lines[..2]), Some(2));
        assert_eq!(asked(&lines[..1]), Some(1));
        assert_eq!(asked(&lines[3..]), None);
    }
}
