//! PMI-1 for ranks that do not speak PMIx: those of MPICH as Debian builds it, and of what follows it.
//!
//! Each rank inherits one end of a socket pair, whose number is in `PMI_FD`, and writes a request at a time as a line of text
//! (`message`). The values are kept here (`board`): a rank that asks by a pipe cannot read shared memory. All sockets are in one epoll
//! descriptor, so that the launcher polls one more descriptor whether or not a rank uses its own.

mod board;
mod message;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use pmix_client::inspection::Collective;
use pmix_dstore::model::{Nspace, Proc, Rank};

use self::board::{Board, Effect};
use self::message::{LINE_LEN_MAX, Reader, shown};

/// What the launcher must know of a rank.
#[derive(Debug)]
pub(super) struct News {
    /// The rank.
    pub rank: u32,
    /// What it has done.
    pub what: What,
}

/// What a rank has done.
#[derive(Debug)]
pub(super) enum What {
    /// It has begun.
    Connected,
    /// It has finalized.
    Finalized,
    /// It ends the job with this exit status.
    Abort { status: i32, message: Option<String> },
    /// It has broken the protocol, in these words, and is not served any more.
    Broken(String),
    /// It has ended, and others wait for it and for ever.
    NeverComes,
}

/// The connection of a rank.
struct Connection {
    socket: OwnedFd,
    reader: Reader,
    /// What has come and is no whole line yet.
    input: Vec<u8>,
    /// What the rank has not read yet. Its requests wait until it has.
    output: Vec<u8>,
    /// Whether the epoll descriptor tells of room for output instead of input.
    is_full: bool,
}

/// The PMI-1 server of a job.
pub(super) struct Pmi {
    epoll: Epoll,
    /// By rank; none once it is closed.
    connections: Vec<Option<Connection>>,
    board: Board,
}

/// Events taken at once.
const EVENTS: usize = 64;
/// How often, in one turn, events are taken while there are any: ranks that ask without end must leave the launcher time for the rest.
const ROUNDS: usize = 16;
/// Bytes read at once.
const CHUNK: usize = 1 << 14;

impl Pmi {
    /// For a job with this name and so many ranks.
    ///
    /// # Errors
    /// A message for the user.
    pub fn new(name: &str, size: u32) -> Result<Pmi, String> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|error| format!("epoll: {error}"))?;
        Ok(Pmi { epoll, connections: Vec::new(), board: Board::new(name, size) })
    }

    /// Makes the connection of the next rank; returns the end that the rank inherits.
    ///
    /// # Errors
    /// That of the kernel.
    pub fn add(&mut self) -> std::io::Result<OwnedFd> {
        let (socket, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
        let rank = self.connections.len() as u64;
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, rank))?;
        let (input, output) = (Vec::new(), Vec::new());
        self.connections.push(Some(Connection { socket, reader: Reader::default(), input, output, is_full: false }));
        Ok(theirs)
    }

    /// What a rank finds in its environment beside `PMI_FD`.
    pub fn variables(rank: u32, size: u32) -> [(String, String); 2] {
        [("PMI_RANK".into(), rank.to_string()), ("PMI_SIZE".into(), size.to_string())]
    }

    /// Readable while a rank has asked something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Answers what ranks have asked.
    pub fn turn(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        for _ in 0..ROUNDS {
            let mut events = [EpollEvent::empty(); EVENTS];
            match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
                Ok(0) | Err(_) => break,
                Ok(count) => events[..count].iter().for_each(|event| self.serve(event.data() as u32, &mut news)),
            }
        }
        news
    }

    /// Takes what a rank that has ended wrote last, an abort for example.
    pub fn read_rest(&mut self, rank: u32) -> Vec<News> {
        let mut news = Vec::new();
        (0..ROUNDS).for_each(|_| self.serve(rank, &mut news));
        self.close(rank);
        news
    }

    /// The process of a rank has ended.
    pub fn has_ended(&mut self, rank: u32) -> Option<News> {
        self.board.has_ended(rank);
        self.never_comes()
    }

    /// The barrier in which ranks wait, as the server tells of collectives.
    pub fn barrier(&self, nspace: &Nspace) -> Option<Collective> {
        let (entered, absent, since) = self.board.barrier()?;
        let procs = |ranks: Vec<u32>| ranks.into_iter().map(|rank| Proc::new(nspace.clone(), Rank(rank))).collect();
        Some(Collective {
            operation: "PMI barrier".into(),
            procs: vec![Proc::new(nspace.clone(), Rank::WILDCARD)],
            named: 1,
            age: since.elapsed(),
            entered: procs(entered),
            absent: procs(absent),
            at_host: false,
        })
    }

    fn never_comes(&self) -> Option<News> {
        self.board.never_comes().map(|rank| News { rank, what: What::NeverComes })
    }

    fn close(&mut self, rank: u32) {
        if let Some(connection) = self.connections.get_mut(rank as usize).and_then(Option::take) {
            // A process of the rank's may have the other end for ever, so this end is taken from the set, too.
            let _ = self.epoll.delete(&connection.socket);
        }
    }

    fn connection(&mut self, rank: u32) -> Option<&mut Connection> {
        self.connections.get_mut(rank as usize)?.as_mut()
    }

    /// Writes and reads what the socket takes and has.
    fn serve(&mut self, rank: u32, news: &mut Vec<News>) {
        let Some(connection) = self.connection(rank) else { return };
        connection.flush();
        let is_open = connection.receive();
        self.answer_lines(rank, news);
        match self.connection(rank) {
            Some(_) if !is_open => self.close(rank),
            Some(_) => self.watch(rank),
            None => {}
        }
    }

    /// Answers the lines that have come, until the rank does not read the answers.
    fn answer_lines(&mut self, rank: u32, news: &mut Vec<News>) {
        loop {
            let Some(connection) = self.connections.get_mut(rank as usize).and_then(Option::as_mut) else { return };
            if !connection.output.is_empty() {
                return;
            }
            let Some(end) = connection.input.iter().position(|byte| *byte == b'\n') else {
                if connection.input.len() > LINE_LEN_MAX {
                    self.refuse(rank, format!("a line of more than {LINE_LEN_MAX} bytes"), news);
                }
                return;
            };
            if end > LINE_LEN_MAX {
                return self.refuse(rank, format!("a line of more than {LINE_LEN_MAX} bytes"), news);
            }
            let line: Vec<u8> = connection.input.drain(..=end).collect();
            match connection.reader.read(&line[..end]) {
                Err(refusal) => return self.refuse(rank, refusal.to_string(), news),
                Ok(request) => {
                    let answer = self.board.handle(rank, &request);
                    self.take(rank, answer, news);
                }
            }
        }
    }

    fn take(&mut self, rank: u32, answer: Effect, news: &mut Vec<News>) {
        match answer {
            Effect::Reply(reply) => self.reply(rank, &reply),
            Effect::Connected(reply) => {
                news.push(News { rank, what: What::Connected });
                self.reply(rank, &reply);
            }
            Effect::Finalized(reply) => {
                news.push(News { rank, what: What::Finalized });
                self.reply(rank, &reply);
            }
            Effect::None => news.extend(self.never_comes()),
            Effect::BarrierOver => {
                (0..self.connections.len() as u32).for_each(|rank| self.reply(rank, &message::barrier()));
            }
            Effect::Abort { status, message } => {
                let message = message.map(|text| shown(&text));
                news.push(News { rank, what: What::Abort { status, message } });
            }
            Effect::Broken(why) => self.refuse(rank, why.to_owned(), news),
        }
    }

    fn refuse(&mut self, rank: u32, why: String, news: &mut Vec<News>) {
        self.close(rank);
        news.push(News { rank, what: What::Broken(why) });
    }

    fn reply(&mut self, rank: u32, reply: &[u8]) {
        let Some(connection) = self.connection(rank) else { return };
        connection.output.extend_from_slice(reply);
        connection.flush();
        self.watch(rank);
    }

    /// Has epoll tell of what the connection waits for.
    fn watch(&mut self, rank: u32) {
        let Some(connection) = self.connections.get_mut(rank as usize).and_then(Option::as_mut) else { return };
        let is_full = !connection.output.is_empty();
        if is_full != connection.is_full {
            connection.is_full = is_full;
            let flags = if is_full { EpollFlags::EPOLLOUT } else { EpollFlags::EPOLLIN };
            // Both descriptors are open and known to each other.
            let _ = self.epoll.modify(&connection.socket, &mut EpollEvent::new(flags, u64::from(rank)));
        }
    }
}

impl Connection {
    /// Writes what the socket takes. The answers to a rank that has gone are lost; what it asked before that still counts.
    fn flush(&mut self) {
        while !self.output.is_empty() {
            let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
            match send(self.socket.as_raw_fd(), &self.output, flags) {
                Ok(len) => drop(self.output.drain(..len)),
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {}
                Err(_) => self.output.clear(),
            }
        }
    }

    /// Reads what has come, unless enough waits to be answered. Returns whether the other end is open.
    fn receive(&mut self) -> bool {
        if !self.output.is_empty() || self.input.len() > LINE_LEN_MAX {
            return true;
        }
        let mut chunk = [0; CHUNK];
        let flags = MsgFlags::MSG_DONTWAIT;
        match recv(self.socket.as_raw_fd(), &mut chunk, flags) {
            Ok(0) => false,
            Ok(len) => {
                self.input.extend_from_slice(&chunk[..len]);
                true
            }
            Err(Errno::EAGAIN | Errno::EINTR) => true,
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    const RANKS: u32 = 3;

    fn job() -> (Pmi, Vec<UnixStream>) {
        let mut pmi = Pmi::new("job", RANKS).unwrap();
        let ranks = (0..RANKS).map(|_| UnixStream::from(pmi.add().unwrap()));
        let ranks: Vec<UnixStream> = ranks.collect();
        ranks.iter().for_each(|rank| rank.set_nonblocking(true).unwrap());
        (pmi, ranks)
    }

    fn heard(mut rank: &UnixStream) -> String {
        let mut bytes = vec![0; 1 << 16];
        let len = rank.read(&mut bytes).unwrap_or(0);
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    }

    #[test]
    fn lines_may_come_in_pieces_and_together() {
        let (mut pmi, ranks) = job();
        (&ranks[0]).write_all(b"cmd=get_app").unwrap();
        assert!(pmi.turn().is_empty());
        assert_eq!(heard(&ranks[0]), "");
        (&ranks[0]).write_all(b"num\ncmd=get_appnum\ncmd=barrier_in\n").unwrap();
        (&ranks[1]).write_all(b"cmd=barrier_in\n").unwrap();
        assert!(pmi.turn().is_empty());
        assert_eq!(heard(&ranks[0]), "cmd=appnum rc=0 appnum=0\n".repeat(2));
        assert_eq!(pmi.barrier(&Nspace::new("job").unwrap()).unwrap().absent.len(), 1);
        (&ranks[2]).write_all(b"cmd=barrier_in\n").unwrap();
        pmi.turn();
        ranks.iter().for_each(|rank| assert_eq!(heard(rank), "cmd=barrier_out rc=0\n"));
    }

    #[test]
    fn what_a_rank_wrote_before_its_end_counts() {
        let (mut pmi, mut ranks) = job();
        (&ranks[2]).write_all(b"cmd=init pmi_version=1\ncmd=finalize\n").unwrap();
        drop(ranks.pop());
        let news = pmi.read_rest(2);
        assert!(matches!(news[..], [News { rank: 2, what: What::Connected }, News { rank: 2, what: What::Finalized }]));
        assert!(pmi.has_ended(2).is_none());
        (&ranks[0]).write_all(b"cmd=barrier_in\n").unwrap();
        assert!(matches!(pmi.turn()[..], [News { rank: 2, what: What::NeverComes }]));
    }

    #[test]
    fn a_rank_that_does_not_read_is_not_read() {
        let (mut pmi, ranks) = job();
        let mut written = 0;
        // Each side's buffers are full in the end, and the launcher holds one answer and what was read at once.
        while let Ok(len) = (&ranks[0]).write(&b"cmd=get_maxes\n".repeat(512)) {
            written += len;
            pmi.turn();
            assert!(written < 64 << 20, "the launcher reads on");
        }
        let connection = pmi.connection(0).unwrap();
        assert!(connection.is_full && connection.input.len() <= LINE_LEN_MAX + CHUNK);
        assert!(connection.output.len() <= 1024);
        // It goes on where it was.
        let mut answers = 0;
        for _ in 0..100 {
            answers += heard(&ranks[0]).matches("cmd=maxes").count();
            pmi.turn();
        }
        assert!(answers > 512, "{answers}");
    }

    /// Lines made of pieces of commands and of any bytes are answered or end the connection; nothing else happens.
    #[test]
    fn whatever_ranks_write_is_answered_or_refused() {
        let pieces: [&[u8]; 16] = [
            b"cmd=",
            b"mcmd=spawn",
            b"init",
            b"put",
            b"get",
            b"barrier_in",
            b"abort",
            b"finalize",
            b" kvsname=job",
            b" key=k",
            b" value=",
            b"\n",
            b"endcmd",
            b" exitcode=-99999999999",
            b"\0\xff",
            b" pmi_version=1",
        ];
        let mut state = 7_u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut refused = 0;
        for _ in 0..300 {
            let (mut pmi, ranks) = job();
            for _ in 0..60 {
                let line: Vec<u8> = (0..random(7)).flat_map(|_| pieces[random(pieces.len())]).copied().collect();
                let _ = (&ranks[random(3)]).write_all(&[&line[..], b"\n"].concat());
                refused += pmi.turn().iter().filter(|news| matches!(news.what, What::Broken(_))).count();
                ranks.iter().for_each(|rank| drop(heard(rank)));
            }
        }
        assert!(refused > 300, "{refused}");
    }
}
