//! The server's thread: sockets, upcalls and callbacks.

mod connection;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{Backlog, getsockopt, listen, sockopt};
use pmix_client::framing::{Chunk, Frame};
use pmix_client::socket_owner::{Owner, Refusal, SocketTable};
use pmix_client::wire::{Header, Hello, TAG_HEARTBEAT, TAG_IOF, TAG_NOTIFY};
use pmix_dstore::model::{Nspace, Status};

use self::connection::{Connection, Incoming, Read, Socket, Stage};
use crate::completion;
use crate::engine::{Output, PeerId, Transport};
use crate::server::Inner;
use crate::upcall::Upcall;

/// Messages of one peer that are handed on before the replies to them leave and others have their turn.
const BURST: usize = 64;
/// How long a new connection may take for its first message.
const HELLO_WAIT: Duration = Duration::from_secs(30);
/// A peer that takes nothing for so long is dropped.
const STUCK_MAX: Duration = Duration::from_secs(300);
/// How long to leave new connections alone when there are no descriptors left, or too many have said nothing yet.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// How long a new connection may say nothing while others wait for its place.
const CROWDED_WAIT: Duration = Duration::from_secs(1);
/// How long to wait before callbacks are looked at again whose calls have not returned.
const HELD_PAUSE: Duration = Duration::from_micros(20);
/// How long replies may take to leave when the server ends.
const LAST_WORDS: Duration = Duration::from_millis(200);

// Whom an epoll event is about.
const TOKEN_WAKE: u64 = 0;
const TOKEN_TCP: u64 = 1;
const TOKEN_FIRST: u64 = 2;

enum Source {
    Listener(UnixListener),
    Peer(Box<Connection>),
}

/// What the thread owns.
pub(crate) struct Loop {
    inner: Arc<Inner>,
    epoll: Epoll,
    tcp: TcpListener,
    /// Of the network namespace in which the server listens.
    table: SocketTable,
    sources: BTreeMap<u64, Source>,
    listeners: HashMap<Nspace, u64>,
    token_next: u64,
    accept_again: Option<Instant>,
    /// How many connections may be in their handshake at once, so that descriptors remain for all else.
    hellos_max: usize,
    /// Whether the shortage of descriptors was logged that lasts.
    shortage_logged: bool,
    /// Connections with whole messages that have not been handed on yet.
    waiting: BTreeSet<u64>,
    /// Connections in their handshake, by the end of their time.
    hellos: BTreeSet<(Instant, u64)>,
    /// Connections whose peers take nothing of what is queued, by when that began.
    stuck: BTreeSet<(Instant, u64)>,
    /// What all of them are read with.
    chunk: Chunk,
    events_dropped: u64,
}

impl Loop {
    /// Sets up the thread's epoll with the wake-up descriptor and the TCP listener.
    pub fn new(inner: Arc<Inner>, tcp: TcpListener) -> io::Result<Loop> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(inner.wake.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, TOKEN_WAKE))?;
        tcp.set_nonblocking(true)?;
        // All ranks of a node come at once; those for whom there is no room in the queue would try again a second later.
        listen(&tcp, Backlog::MAXCONN)?;
        epoll.add(&tcp, EpollEvent::new(EpollFlags::EPOLLIN, TOKEN_TCP))?;
        Ok(Loop {
            inner,
            epoll,
            tcp,
            table: SocketTable::open(),
            sources: BTreeMap::new(),
            listeners: HashMap::new(),
            token_next: TOKEN_FIRST,
            accept_again: None,
            hellos_max: hellos_max(),
            shortage_logged: false,
            waiting: BTreeSet::new(),
            hellos: BTreeSet::new(),
            stuck: BTreeSet::new(),
            chunk: Chunk::new().map_err(|_| io::ErrorKind::OutOfMemory)?,
            events_dropped: 0,
        })
    }

    /// Runs until the server is finalized.
    pub fn run(mut self) {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            self.perform();
            if self.inner.stop.load(Ordering::Acquire) {
                self.hear_out();
                self.last_words();
                return;
            }
            let now = Instant::now();
            // Rounded up, so that the deadline has passed when we look.
            let timeout = match self.deadline() {
                _ if !self.waiting.is_empty() => EpollTimeout::ZERO,
                _ if self.inner.run_held() => {
                    // Nobody wakes us when the calls are over that callbacks are held for.
                    thread::sleep(HELD_PAUSE);
                    EpollTimeout::ZERO
                }
                None => EpollTimeout::NONE,
                Some(deadline) => {
                    let wait = deadline.saturating_duration_since(now) + Duration::from_millis(1);
                    EpollTimeout::try_from(wait).unwrap_or(EpollTimeout::MAX)
                }
            };
            let count = match self.epoll.wait(&mut events, timeout) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(error) => {
                    self.inner.log(&format!("epoll: {error}; the server stops"));
                    return;
                }
            };
            self.take_turn(&events[..count]);
        }
    }

    /// Does what has come.
    fn take_turn(&mut self, events: &[EpollEvent]) {
        for event in events {
            self.handle(event.data(), event.events());
            self.perform();
        }
        for token in std::mem::take(&mut self.waiting) {
            self.dispatch(token);
            self.perform();
        }
        self.housekeeping(Instant::now());
    }

    /// Hears what had come when the host ended the server, above all who is lost.
    fn hear_out(&mut self) {
        let mut events = [EpollEvent::empty(); 64];
        let end = Instant::now() + LAST_WORDS;
        while let Ok(count @ 1..) = self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            self.take_turn(&events[..count]);
            self.perform();
            // Who goes on talking is not heard for ever.
            if Instant::now() >= end {
                return;
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let engine = self.inner.engine.lock().deadline();
        let hello = self.hellos.first().map(|(deadline, _)| *deadline);
        let stuck = self.stuck.first().map(|(since, _)| *since + STUCK_MAX);
        [engine, hello, stuck, self.accept_again].into_iter().flatten().min()
    }

    fn handle(&mut self, token: u64, flags: EpollFlags) {
        match token {
            TOKEN_WAKE => {
                // Whatever woke us is in the engine's outputs.
                let _ = self.inner.wake.read();
            }
            TOKEN_TCP => self.accept_tcp(),
            token if matches!(self.sources.get(&token), Some(Source::Listener(..))) => self.accept_unix(token),
            token => {
                if flags.contains(EpollFlags::EPOLLOUT) {
                    self.flush(token);
                }
                if flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
                    self.receive(token);
                }
            }
        }
    }

    fn accept_tcp(&mut self) {
        while self.has_place() {
            match self.tcp.accept() {
                Ok((stream, address)) => {
                    // Without it small replies may wait for the peer's acknowledgements.
                    let _ = stream.set_nodelay(true);
                    match self.table.peer_of(&stream) {
                        Owner::User(uid) => self.add(Socket::Tcp(stream), Transport::Tcp { owner: Some(uid) }),
                        Owner::NoTable => self.add(Socket::Tcp(stream), Transport::Tcp { owner: None }),
                        Owner::Refused(why) if is_news(&stream, why) => {
                            self.inner.log(&format!("refused a connection from {address}: {why}"));
                        }
                        Owner::Refused(_) => {}
                    }
                }
                Err(error) => return self.accept_failed(&error),
            }
        }
    }

    fn accept_unix(&mut self, token: u64) {
        while self.has_place() {
            let Some(Source::Listener(listener)) = self.sources.get(&token) else { return };
            match listener.accept() {
                Ok((stream, _)) => match getsockopt(&stream, sockopt::PeerCredentials) {
                    Ok(credentials) => {
                        let (uid, gid) = (credentials.uid(), credentials.gid());
                        self.add(Socket::Unix(stream), Transport::Unix { uid, gid });
                    }
                    Err(error) => self.inner.log(&format!("a connection without credentials: {error}")),
                },
                Err(error) => return self.accept_failed(&error),
            }
        }
    }

    /// Whether another connection may begin its handshake. Where too many are at it, new ones wait before the door.
    fn has_place(&mut self) -> bool {
        let free = self.hellos.len() < self.hellos_max;
        if !free {
            self.pause_accepting();
        }
        free
    }

    fn accept_failed(&mut self, error: &io::Error) {
        if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)) {
            if !std::mem::replace(&mut self.shortage_logged, true) {
                self.inner.log(&format!("cannot take new connections for now: {error}"));
            }
            self.pause_accepting();
        } else {
            // All that waited are in.
            self.shortage_logged = false;
        }
    }

    /// Leaves the listeners alone for a moment, as they would wake us at once again.
    fn pause_accepting(&mut self) {
        self.watch_listeners(EpollFlags::empty());
        self.accept_again = Some(Instant::now() + ACCEPT_PAUSE);
    }

    /// Drops who has kept others waiting; one line for all of them.
    fn make_place(&mut self, now: Instant) {
        let idle = |deadline: Instant| deadline.saturating_duration_since(now) + CROWDED_WAIT <= HELLO_WAIT;
        let dropped: Vec<u64> =
            self.hellos.iter().take_while(|(deadline, _)| idle(*deadline)).map(|(_, token)| *token).collect();
        if !dropped.is_empty() {
            let count = dropped.len();
            self.inner.log(&format!("dropped {count} connections that said nothing while others waited"));
        }
        dropped.into_iter().for_each(|token| self.drop_peer(token));
    }

    fn watch_listeners(&self, flags: EpollFlags) {
        let _ = self.epoll.modify(&self.tcp, &mut EpollEvent::new(flags, TOKEN_TCP));
        for (token, source) in &self.sources {
            if let Source::Listener(listener) = source {
                let _ = self.epoll.modify(listener, &mut EpollEvent::new(flags, *token));
            }
        }
    }

    fn add(&mut self, socket: Socket, transport: Transport) {
        let token = self.token_next;
        if self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, token)).is_err() {
            return;
        }
        self.token_next += 1;
        let deadline = Instant::now() + HELLO_WAIT;
        let connection = Connection::new(socket, transport, deadline);
        self.hellos.insert((deadline, token));
        self.sources.insert(token, Source::Peer(Box::new(connection)));
    }

    fn peer(&mut self, token: u64) -> Option<&mut Connection> {
        match self.sources.get_mut(&token)? {
            Source::Peer(connection) => Some(connection),
            Source::Listener(..) => None,
        }
    }

    fn receive(&mut self, token: u64) {
        if self.waiting.contains(&token) {
            // What has come before is first: no more is taken in than is handed on.
            return;
        }
        let Some(Source::Peer(connection)) = self.sources.get_mut(&token) else { return };
        let read = connection.read(&mut self.chunk);
        self.dispatch(token);
        if let Read::End(why) = read {
            // What it said last counts, but its replies must not pile up on the way.
            while self.waiting.remove(&token) {
                self.perform();
                self.dispatch(token);
            }
            let in_hello = self.peer(token).is_some_and(|connection| connection.has_half_a_hello());
            if let Some(why) = why.or_else(|| in_hello.then(|| "ended within its handshake".to_owned())) {
                self.inner.log(&format!("connection {token}: {why}"));
            }
            self.drop_peer(token);
        }
    }

    /// Hands whole messages that have come to the engine, `BURST` at most; the others wait for the next turn, those
    /// of a peer that does not take its replies until it does.
    fn dispatch(&mut self, token: u64) {
        for _ in 0..BURST {
            let Some(connection) = self.peer(token).filter(|connection| !connection.is_full()) else { return };
            match connection.next() {
                Ok(None) => return,
                Ok(Some(Incoming::Hello(payload))) => match Hello::decode(&payload) {
                    Ok(hello) => {
                        let transport = connection.transport;
                        if let Stage::Hello(deadline) = std::mem::replace(&mut connection.stage, Stage::Asked) {
                            self.hellos.remove(&(deadline, token));
                        }
                        self.inner.engine.lock().hello(PeerId(token as u32), transport, hello);
                    }
                    Err(status) => {
                        self.inner.log(&format!("refused a connection: malformed handshake ({status})"));
                        return self.drop_peer(token);
                    }
                },
                Ok(Some(Incoming::Message(Frame { tag: TAG_HEARTBEAT, .. }))) => {}
                Ok(Some(Incoming::Message(Frame { tag, len, payload }))) => {
                    let mut engine = self.inner.engine.lock();
                    match payload {
                        Ok(payload) => engine.message(PeerId(token as u32), tag, payload, Instant::now()),
                        Err(_) => engine.refuse(PeerId(token as u32), tag, len as usize, true),
                    }
                }
                Err(why) => {
                    self.inner.log(&format!("dropped connection {token}: {why}"));
                    return self.drop_peer(token);
                }
            }
        }
        self.waiting.insert(token);
    }

    fn drop_peer(&mut self, token: u64) {
        if let Some(Source::Peer(connection)) = self.sources.remove(&token) {
            if let Stage::Hello(deadline) = connection.stage {
                self.hellos.remove(&(deadline, token));
            }
            if let Some(since) = connection.stuck_since {
                self.stuck.remove(&(since, token));
            }
            let _ = self.epoll.delete(&connection.socket);
            self.inner.engine.lock().disconnected(PeerId(token as u32), Instant::now());
        }
    }

    fn flush(&mut self, token: u64) {
        let now = Instant::now();
        let Some(Source::Peer(connection)) = self.sources.get_mut(&token) else { return };
        let (was_full, was_stuck) = (connection.is_full(), connection.stuck_since);
        let flushed = connection.flush(now);
        if was_stuck != connection.stuck_since {
            if let Some(since) = was_stuck {
                self.stuck.remove(&(since, token));
            }
            if let Some(since) = connection.stuck_since {
                self.stuck.insert((since, token));
            }
        }
        if flushed.is_err() {
            return self.drop_peer(token);
        }
        if was_full && !connection.is_full() {
            self.waiting.insert(token);
        }
        if let Some(flags) = connection.watch() {
            let _ = self.epoll.modify(&connection.socket, &mut EpollEvent::new(flags, token));
        }
    }

    /// Does what the engine wants done, until nothing is left.
    fn perform(&mut self) {
        loop {
            let outputs = self.inner.engine.lock().take_outputs();
            // First, since a thread's next call comes after it.
            self.inner.run_held();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                self.perform_one(output);
            }
        }
    }

    fn perform_one(&mut self, output: Output) {
        match output {
            Output::Send { peer: PeerId::OWN, tag, payload } => self.inner.own_message(tag, payload),
            Output::Send { peer, tag, payload } => self.send(peer, tag, payload),
            Output::Admit { peer, status, reply } => self.admit(peer, status, reply),
            Output::Close(peer) => self.drop_peer(u64::from(peer.0)),
            Output::Listen(nspace, listener) => {
                let token = self.token_next;
                self.token_next += 1;
                match self.epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, token)) {
                    Ok(()) => {
                        self.listeners.insert(nspace.clone(), token);
                        self.sources.insert(token, Source::Listener(listener));
                    }
                    Err(error) => self.inner.log(&format!("namespace {nspace}: its socket cannot be watched: {error}")),
                }
            }
            Output::Unlisten(nspace) => {
                if let Some(Source::Listener(listener)) =
                    self.listeners.remove(&nspace).and_then(|token| self.sources.remove(&token))
                {
                    let _ = self.epoll.delete(&listener);
                }
            }
            Output::Upcall { id, upcall } => self.upcall(id, upcall),
            Output::Call(call) => call(),
            Output::CleanUp((uid, gid), cleanup) => cleanup.run(uid, gid),
            Output::Log(line) => self.inner.log(&line),
        }
    }

    fn upcall(&mut self, id: u64, upcall: Upcall) {
        if self.inner.is_stopped() {
            // The host has ended the server, perhaps inside the callback before this.
            completion::close(id);
            return;
        }
        let at_once = upcall.answered_at_once();
        let status = upcall.call(&*self.inner.host, id);
        // Success means "later" unless the return value is the whole answer.
        if (status != Status::SUCCESS || at_once) && completion::close(id) {
            self.inner.engine.lock().answer(id, status.into());
        }
    }

    fn admit(&mut self, peer: PeerId, status: Status, reply: Vec<u8>) {
        let token = u64::from(peer.0);
        let Some(connection) = self.peer(token) else { return };
        connection.stage = Stage::Running;
        connection.output.push_bare(reply);
        self.flush(token);
        if status.is_success() {
            // A peer may send its first request before it has read our answer.
            self.dispatch(token);
        } else {
            self.drop_peer(token);
        }
    }

    fn send(&mut self, peer: PeerId, tag: u32, payload: Vec<u8>) {
        let token = u64::from(peer.0);
        let Some(connection) = self.peer(token) else { return };
        // Who does not read loses what comes unasked in any number. Flow control is kept: without its last word a peer's input
        // would stand still for good.
        if matches!(tag, TAG_NOTIFY | TAG_IOF) && connection.is_full() {
            self.events_dropped += 1;
            if self.events_dropped.is_power_of_two() {
                let dropped = self.events_dropped;
                self.inner.log(&format!(
                    "connection {token} does not read: {dropped} events and pieces of output dropped so far"
                ));
            }
            return;
        }
        let header = Header { index: 0, tag, len: payload.len() as u32 };
        connection.output.push(header, payload);
        self.flush(token);
    }

    fn housekeeping(&mut self, now: Instant) {
        if self.accept_again.is_some_and(|again| again <= now) {
            self.accept_again = None;
            self.make_place(now);
            self.watch_listeners(EpollFlags::EPOLLIN);
        }
        let hellos = self.hellos.iter().take_while(|(deadline, _)| *deadline <= now);
        let stuck = self.stuck.iter().take_while(|(since, _)| *since + STUCK_MAX <= now);
        let expired: Vec<u64> = hellos.chain(stuck).map(|(_, token)| *token).collect();
        for token in expired {
            self.inner.log(&format!("dropped connection {token}: it says or takes nothing"));
            self.drop_peer(token);
        }
        self.inner.engine.lock().tick(now);
    }

    /// Gives replies that are under way a moment to leave.
    fn last_words(&mut self) {
        let end = Instant::now() + LAST_WORDS;
        let tokens: Vec<u64> = self.sources.keys().copied().collect();
        for token in tokens {
            while let Some(connection) = self.peer(token) {
                match connection.flush(Instant::now()) {
                    Ok(true) if Instant::now() < end => thread::sleep(Duration::from_millis(1)),
                    _ => break,
                }
            }
        }
    }
}

/// Whether the log is to hear of a connection that is refused: not of one that has come and gone without a word, as of somebody
/// who looks whether the server lives.
fn is_news(stream: &TcpStream, why: Refusal) -> bool {
    // It must not wait for words.
    let has_said = || stream.set_nonblocking(true).is_ok() && matches!(stream.peek(&mut [0]), Ok(1));
    matches!(why, Refusal::Failed(_) | Refusal::Malformed) || has_said()
}

/// A quarter of the descriptors that this process may have.
fn hellos_max() -> usize {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    usize::try_from(limit / 4).unwrap_or(usize::MAX).max(4)
}
