//! The socket table from the lists of `proc(5)`, for systems that block `sock_diag(7)`. The time of a reading grows
//! with the number of all sockets in the namespace. So one reading answers many queries, and there is a pause after a
//! long one.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::{Entry, LISTEN, Lookup, Refusal};

/// How often the lists are read before a socket counts as missing. A reading can miss a socket if one before it in the
/// list is closed during the reading.
const READS: u32 = 3;

/// Readings that take less time are followed by no pause.
const SHORT: Duration = Duration::from_millis(2);
/// The pause after a reading is this many times as long as the reading, so that the thread has time for other work.
const REST: u32 = 3;

/// The list of IPv4 sockets, and, if the kernel has IPv6, the list of IPv6 sockets, which also contains sockets with
/// IPv4-mapped addresses.
pub(super) struct ProcNet {
    lists: Vec<File>,
    /// When the last reading ended, and how long it took.
    last: Option<(Instant, Duration)>,
    /// The number of readings.
    #[cfg(test)]
    pub readings: usize,
}

impl ProcNet {
    /// Opens the lists of the network namespace of this thread. They stay those of that namespace.
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
        Ok(ProcNet {
            lists,
            last: None,
            #[cfg(test)]
            readings: 0,
        })
    }

    /// Answers all queries with one reading, or with up to [`READS`] if sockets are missing. Each connection existed
    /// before the reading.
    pub fn ask(&mut self, questions: &[Lookup]) -> Vec<Result<Entry, Refusal>> {
        let begin = Instant::now();
        let mut answers = vec![Err(Refusal::NoSocket); questions.len()];
        for _ in 0..READS {
            let is_missing = |answer: &Result<Entry, Refusal>| *answer == Err(Refusal::NoSocket);
            if !answers.iter().any(is_missing) {
                break;
            }
            let found = self.read(questions);
            for (question, answer) in questions.iter().zip(&mut answers).filter(|(_, answer)| is_missing(answer)) {
                *answer = match &found {
                    Ok(found) => choose(found, *question).ok_or(Refusal::NoSocket),
                    Err(refusal) => Err(*refusal),
                };
            }
        }
        self.last = Some((Instant::now(), begin.elapsed()));
        answers
    }

    /// When the lists may be read again. Connections that arrive until then share the next reading.
    pub fn rests_until(&self) -> Option<Instant> {
        let (end, took) = self.last?;
        Some(end + rest(took)?)
    }

    /// Reads the lines that match the queries.
    fn read(&mut self, questions: &[Lookup]) -> Result<Vec<Line>, Refusal> {
        #[cfg(test)]
        {
            self.readings += 1;
        }
        let connections: HashSet<(SocketAddr, SocketAddr)> =
            questions.iter().filter_map(|question| question.connection()).collect();
        let is_wanted = |line: &Line| match line.entry.state {
            LISTEN => connections.len() < questions.len(),
            _ => connections.contains(&(line.local, line.remote)),
        };
        let mut found = Vec::new();
        for list in &mut self.lists {
            let read = lines(list, |line| found.extend(Line::parse(line).filter(is_wanted)));
            read.map_err(|error| match error.raw_os_error() {
                Some(errno) => Refusal::Failed(Errno::from_raw(errno)),
                None => Refusal::Malformed,
            })?;
        }
        Ok(found)
    }
}

/// The length of the pause after a reading.
fn rest(took: Duration) -> Option<Duration> {
    (took >= SHORT).then(|| took * REST)
}

/// Passes on all lines of a list except the heading. It reads line by line, because a list may be larger than memory.
fn lines(list: &mut File, mut take: impl FnMut(&str)) -> std::io::Result<()> {
    list.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::with_capacity(1 << 16, list);
    let mut line = String::new();
    for number in 0_u64.. {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            break;
        }
        if number > 0 {
            take(&line);
        }
    }
    Ok(())
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
        // The list has larger inode numbers than sock_diag; only the comparison with 0 matters.
        let inode: u64 = fields.nth(1)?.parse().ok()?;
        Some(Line { local, remote, entry: Entry { state, uid, inode: inode.min(u32::MAX.into()) as u32 } })
    }
}

/// Parses an address (words in host byte order, in hexadecimal digits) and a port.
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

fn choose(lines: &[Line], question: Lookup) -> Option<Entry> {
    let mut lines = lines.iter();
    match question {
        Lookup::Connection(theirs, ours) => {
            let found = lines.find(|line| (line.local, line.remote) == (theirs, ours));
            found.map(|line| line.entry)
        }
        Lookup::Listener(address) => {
            // The kernel's order: a listener bound to the address itself, then to all IPv4 addresses, then to all
            // addresses.
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
    fn long_readings_are_followed_by_a_rest() {
        assert_eq!((rest(Duration::ZERO), rest(SHORT / 2)), (None, None));
        assert_eq!(rest(Duration::from_millis(40)), Some(Duration::from_millis(120)));
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
            |lines: &[Line]| choose(lines, Lookup::Listener("127.0.0.1:5".parse().unwrap())).map(|entry| entry.uid);
        assert_eq!(asked(&lines), Some(3));
        assert_eq!(asked(&lines[..2]), Some(2));
        assert_eq!(asked(&lines[..1]), Some(1));
        assert_eq!(asked(&lines[3..]), None);
    }
}
