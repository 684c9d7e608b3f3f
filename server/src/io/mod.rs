//! The server's thread: sockets, upcalls and callbacks.

mod connection;
mod door;
mod files;
mod remote;
mod verifier;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{Backlog, getsockopt, listen, sockopt};
use pmix_client::socket_owner::{Owner, Refusal, SocketTable};
use pmix_dstore::model::{Nspace, Proc, Status};
use pmix_wire::framing::{Chunk, Frame};
use pmix_wire::{Header, Hello, TAG_DELETED, TAG_HEARTBEAT, TAG_IOF, TAG_NOTIFY};

use self::connection::{Connection, Incoming, Read, Socket, Stage};
use self::door::{Door, Origin, Verdict};
use self::files::Files;
use self::verifier::Verifier;
use crate::completion;
use crate::engine::{Output, PeerId, Standing, Transport};
use crate::shared_state::SharedState;
use crate::upcall::Upcall;

/// Messages of one peer that are handled before their replies are sent and other peers have their turn.
const BURST: usize = 64;
/// How long a new connection may take for its first message.
const HELLO_WAIT: Duration = Duration::from_secs(30);
/// A peer that reads none of its queued bytes for this time is disconnected.
const STUCK_MAX: Duration = Duration::from_secs(300);
/// Pause of accepting when no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Interval for retrying callbacks that are held until their calls have returned.
const HELD_PAUSE: Duration = Duration::from_micros(20);
/// Connections accepted at one Unix socket before other sources have their turn.
const UNIX_ACCEPTS: usize = 64;
/// Lower limit of connections accepted over TCP in one batch, however few descriptors there are.
const TCP_ACCEPTS_MIN: usize = 8;
/// How long the end of the server waits for a check of a monitored file, and for munge.
const FILES_WAIT: Duration = Duration::from_millis(200);
/// How long the end of the server waits for inbound messages, and for replies to be sent.
const SHUTDOWN_WAIT: Duration = Duration::from_millis(200);

// Tokens: the source of an epoll event.
const TOKEN_WAKE: u64 = 0;
const TOKEN_TCP: u64 = 1;
const TOKEN_STARTER: u64 = 2;
const TOKEN_FIRST: u64 = 3;
/// The origin of connections over loopback.
const LOOPBACK: Origin = Origin::Listener(TOKEN_TCP);

/// What a server listens at from its start.
pub(crate) struct Listeners {
    /// On loopback.
    pub tcp: TcpListener,
    /// The sockets of the network namespace in which it listens.
    pub table: SocketTable,
    /// For tools on other hosts.
    pub remote: Vec<TcpListener>,
}

enum Source {
    Listener(UnixListener),
    /// For tools on other hosts.
    Remote(TcpListener),
    Peer(Box<Connection>),
}

/// The state of the server's thread.
pub(crate) struct Loop {
    shared: Arc<SharedState>,
    epoll: Epoll,
    tcp: TcpListener,
    /// The sockets of the network namespace in which the server listens.
    table: SocketTable,
    sources: BTreeMap<u64, Source>,
    listeners: HashMap<Nspace, u64>,
    token_next: u64,
    accept_again: Option<Instant>,
    /// The last attempt to accept failed for another reason than a lack of descriptors or memory.
    cannot_accept: bool,
    /// When to accept over TCP again: the socket table is rate-limited.
    tcp_again: Option<Instant>,
    /// Connections over TCP whose users are looked up at one time.
    tcp_accepts: usize,
    /// Admission, and the silent connections.
    door: Door,
    /// Connections with complete messages that have not been handled yet.
    waiting: BTreeSet<u64>,
    /// Connections whose peers read none of their queued bytes, and since when.
    stuck: BTreeSet<(Instant, u64)>,
    /// Read buffer, shared by all connections.
    chunk: Chunk,
    /// Checks monitored files.
    files: Files,
    /// Has munge credentials decoded.
    verifier: Verifier,
    /// Whether munge tells whose a connection over loopback is.
    identifies_by_munge: bool,
    /// The server's own name.
    me: Proc,
    events_dropped: u64,
    /// The pipe from the process that started this one.
    starter: Option<OwnedFd>,
}

impl Loop {
    /// Sets up the thread's epoll with the wake-up descriptor and the listeners; `connections` is the number of earlier ones.
    pub fn new(shared: Arc<SharedState>, listeners: Listeners, connections: u64) -> io::Result<Loop> {
        let Listeners { tcp, table, remote } = listeners;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(shared.wake.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, TOKEN_WAKE))?;
        tcp.set_nonblocking(true)?;
        // All ranks of a node connect at once; a rank that finds the queue full would try again a second later.
        listen(&tcp, Backlog::MAXCONN)?;
        epoll.add(&tcp, EpollEvent::new(EpollFlags::EPOLLIN, TOKEN_TCP))?;
        let (descriptors, me, identifies_by_munge) = shared.engine.lock().settings_of_connections();
        let weak = Arc::downgrade(&shared);
        let files = Files::new(move |monitor, seen| {
            if let Some(shared) = weak.upgrade() {
                shared.feed(|engine| engine.looked(monitor, seen, Instant::now()));
            }
        });
        let weak = Arc::downgrade(&shared);
        let verifier = Verifier::new(move || weak.upgrade().iter().for_each(|shared| shared.wake()));
        let door = Door::new(tcp.try_clone()?, descriptors);
        let mut own = Loop {
            shared,
            epoll,
            tcp,
            table,
            sources: BTreeMap::new(),
            listeners: HashMap::new(),
            token_next: TOKEN_FIRST + connections,
            accept_again: None,
            cannot_accept: false,
            tcp_again: None,
            tcp_accepts: (descriptors / 8).max(TCP_ACCEPTS_MIN),
            door,
            waiting: BTreeSet::new(),
            stuck: BTreeSet::new(),
            chunk: Chunk::new().map_err(|_| io::ErrorKind::OutOfMemory)?,
            files,
            verifier,
            identifies_by_munge,
            me,
            events_dropped: 0,
            starter: None,
        };
        remote.into_iter().try_for_each(|listener| own.watch_remote(listener))?;
        Ok(own)
    }

    /// Watches the pipe from the process that started this one.
    fn watch_starter(&mut self, pipe: OwnedFd) {
        if self.epoll.add(&pipe, EpollEvent::new(EpollFlags::EPOLLIN, TOKEN_STARTER)).is_ok() {
            self.starter = Some(pipe);
        }
    }

    /// Runs until the server is finalized.
    pub fn run(mut self) {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            self.perform();
            if self.shared.stop.load(Ordering::Acquire) {
                // Replies that wait for a publication must still be sent.
                self.shared.publishers.finish();
                self.perform();
                self.drain_inbound();
                self.flush_on_shutdown();
                self.files.close(FILES_WAIT);
                self.verifier.close(FILES_WAIT);
                return;
            }
            let now = Instant::now();
            // Rounded up, so that the deadline has passed when we look.
            let timeout = match self.deadline() {
                _ if !self.waiting.is_empty() => EpollTimeout::ZERO,
                _ if self.shared.run_held() => {
                    // The return of these calls wakes no one, so the loop polls.
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
                    self.shared.log(&format!("epoll: {}; the server stops", io::Error::from(error)));
                    return;
                }
            };
            self.take_turn(&events[..count]);
        }
    }

    /// Handles the events of one turn.
    fn take_turn(&mut self, events: &[EpollEvent]) {
        // Connected peers first, then the Unix sockets, then TCP, which any user can connect to, then other hosts.
        let order = |event: &&EpollEvent| match (event.data(), self.sources.get(&event.data())) {
            (_, Some(Source::Remote(..))) => 3,
            (TOKEN_TCP, _) => 2,
            (_, source) => u8::from(matches!(source, Some(Source::Listener(..)))),
        };
        let mut events: Vec<&EpollEvent> = events.iter().collect();
        events.sort_by_key(order);
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

    /// Handles the messages that had arrived when the host ended the server, above all lost connections.
    fn drain_inbound(&mut self) {
        let mut events = [EpollEvent::empty(); 64];
        let end = Instant::now() + SHUTDOWN_WAIT;
        while let Ok(count @ 1..) = self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            self.take_turn(&events[..count]);
            self.perform();
            // A peer that keeps sending does not delay the end.
            if Instant::now() >= end {
                return;
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let engine = self.shared.engine.lock().plan_wake_up();
        let hello = self.door.deadline();
        let withheld = self.shared.journal.lock().deadline();
        let stuck = self.stuck.first().map(|(since, _)| *since + STUCK_MAX);
        [engine, hello, withheld, stuck, self.accept_again, self.tcp_again].into_iter().flatten().min()
    }

    fn handle(&mut self, token: u64, flags: EpollFlags) {
        match token {
            TOKEN_WAKE => {
                // The work itself is in the engine's outputs.
                let _ = self.shared.wake.read();
                let pipe = self.shared.starter.lock().take();
                pipe.into_iter().for_each(|pipe| self.watch_starter(pipe));
                self.take_munge_answers();
            }
            TOKEN_TCP => self.accept_tcp(),
            TOKEN_STARTER => {
                if let Some(pipe) = self.starter.take() {
                    let _ = self.epoll.delete(&pipe);
                    self.shared.starter_ended();
                }
            }
            token if matches!(self.sources.get(&token), Some(Source::Listener(..))) => self.accept_unix(token),
            token if matches!(self.sources.get(&token), Some(Source::Remote(..))) => self.accept_remote(token),
            token => {
                if flags.contains(EpollFlags::EPOLLOUT) {
                    self.flush(token);
                }
                let ends = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
                if self.peer(token).is_some_and(|connection| connection.stage == Stage::Asked) {
                    self.hold(token, flags.intersects(ends));
                } else if flags.intersects(EpollFlags::EPOLLIN | ends) {
                    self.receive(token);
                }
            }
        }
    }

    fn accept_tcp(&mut self) {
        if self.tcp_again.is_some() {
            return;
        }
        let come = self.accept_batch();
        let owners = self.table.peers_of(come.iter().map(|(stream, _)| stream));
        for ((stream, address), owner) in come.into_iter().zip(owners) {
            match owner {
                Owner::User(uid) => {
                    self.receive_guest(LOOPBACK, Socket::Tcp(stream), Transport::Tcp { owner: Some(uid) })
                }
                Owner::NoTable => self.receive_guest(LOOPBACK, Socket::Tcp(stream), Transport::Tcp { owner: None }),
                Owner::Refused(why) if is_news(&stream, why) => {
                    self.shared.log(&format!("refused a connection from {address}: {why}"));
                }
                Owner::Refused(_) => {}
            }
        }
        self.recover_reserve();
        if let Some(end) = self.table.rests_until() {
            self.watch_tcp(EpollFlags::empty());
            self.tcp_again = Some(end);
        }
    }

    /// Accepts the connections over TCP whose users are looked up together. All of them exist before the look-up.
    fn accept_batch(&mut self) -> Vec<(TcpStream, SocketAddr)> {
        let mut come = Vec::new();
        // Leaves descriptors for other sources; and the reserve, once spent, must be restored before the next connection.
        let most = self.table.batch().min(self.tcp_accepts);
        while come.len() < most && !self.door.has_spent_reserve() {
            let Some(accepted) = self.accept(|own| own.tcp.accept()) else { break };
            come.push(accepted);
        }
        come
    }

    fn accept_unix(&mut self, token: u64) {
        for _ in 0..UNIX_ACCEPTS {
            let accepted = self.accept(|own| match own.sources.get(&token) {
                Some(Source::Listener(listener)) => listener.accept(),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            });
            let Some((stream, _)) = accepted else { return };
            match getsockopt(&stream, sockopt::PeerCredentials) {
                Ok(credentials) => {
                    let (uid, gid, pid) = (credentials.uid(), credentials.gid(), credentials.pid());
                    let transport = Transport::Unix { uid, gid, pid };
                    self.receive_guest(Origin::Listener(token), Socket::Unix(stream), transport);
                }
                Err(error) => {
                    let error = io::Error::from(error);
                    self.shared.log(&format!("a connection without credentials: {error}"));
                }
            }
            self.recover_reserve();
        }
    }

    /// Accepts the next connection at a listener; gives up the descriptor in reserve if no other is free.
    fn accept<T>(&mut self, next: impl Fn(&Loop) -> io::Result<T>) -> Option<T> {
        let is_shortage = |error: &io::Error| {
            matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS))
        };
        // The connection is gone, or there is none.
        let is_passing = |error: &io::Error| {
            use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
            matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock)
        };
        match next(self) {
            Ok(accepted) => {
                self.cannot_accept = false;
                return Some(accepted);
            }
            Err(error) if is_passing(&error) => return None,
            Err(error) if !is_shortage(&error) => {
                // Said once: the cause may stay.
                if !std::mem::replace(&mut self.cannot_accept, true) {
                    self.shared.log(&format!("cannot take new connections for now: {error}"));
                }
                self.pause_accepting();
                return None;
            }
            Err(_) => {}
        }
        if self.door.spend_reserve() {
            match next(self) {
                Ok(accepted) => return Some(accepted),
                Err(error) if !is_shortage(&error) => {
                    self.recover_reserve();
                    return None;
                }
                Err(_) => {}
            }
        }
        self.recover_reserve();
        self.pause_accepting();
        None
    }

    /// Restores the descriptor in reserve. If none is free, drops the most dispensable silent connection; if there is none, pauses
    /// accepting.
    fn recover_reserve(&mut self) {
        if self.door.restore_reserve(&self.tcp).is_ok() {
            return;
        }
        self.make_room();
        if let Err(error) = self.door.restore_reserve(&self.tcp) {
            self.shared.log(&format!("cannot take new connections for now: {error}"));
            self.pause_accepting();
        }
    }

    /// Drops the most dispensable silent connection; none if all belong to expected processes.
    fn make_room(&mut self) {
        let expected = |user| match self.shared.engine.lock().standing(user) {
            Standing::Member { expected } => expected,
            Standing::Stranger | Standing::Nobody => 0,
        };
        if let Some(token) = self.door.dispensable(expected) {
            self.shared.log("descriptors are short: dropped a connection that said nothing while others waited");
            self.drop_peer(token);
        }
    }

    /// Admits a connection to its handshake, or closes it at once.
    fn receive_guest(&mut self, origin: Origin, socket: Socket, transport: Transport) {
        let user = transport.user();
        let (standing, verdict) = match origin {
            Origin::Host(host) => (Standing::Member { expected: 0 }, self.door.judge_host(host)),
            Origin::Listener(_) => {
                let standing = self.shared.engine.lock().standing(user);
                (standing, self.door.judge(origin, user, standing))
            }
        };
        match verdict {
            Verdict::Enter => {}
            Verdict::Replace(token) => {
                self.shared.log("dropped a connection that said nothing while others waited");
                self.drop_peer(token);
            }
            Verdict::Close(why) => return self.log_closed(user, why),
        }
        if let Socket::Tcp(stream) = &socket {
            // Without it small replies may wait for the peer's acknowledgements.
            let _ = stream.set_nodelay(true);
        }
        let token = self.token_next;
        if self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, token)).is_err() {
            return;
        }
        self.token_next += 1;
        self.door.enter(token, origin, user, standing, Instant::now() + HELLO_WAIT);
        self.sources.insert(token, Source::Peer(Box::new(Connection::new(socket, transport))));
        if self.door.is_crowded() {
            self.make_room();
        }
    }

    fn log_closed(&self, user: Option<u32>, why: &str) {
        let user = user.map_or_else(|| "an unknown user".to_owned(), |uid| format!("user {uid}"));
        self.shared.log(&format!("refused a connection of {user}, {why}"));
    }

    /// Stops watching the listeners for a moment; otherwise epoll would report them at once again.
    fn pause_accepting(&mut self) {
        self.watch_listeners(EpollFlags::empty());
        self.accept_again = Some(Instant::now() + ACCEPT_PAUSE);
    }

    fn watch_tcp(&self, flags: EpollFlags) {
        let _ = self.epoll.modify(&self.tcp, &mut EpollEvent::new(flags, TOKEN_TCP));
    }

    fn watch_listeners(&self, flags: EpollFlags) {
        if self.tcp_again.is_none() {
            self.watch_tcp(flags);
        }
        for (token, source) in &self.sources {
            if let Source::Listener(listener) = source {
                let _ = self.epoll.modify(listener, &mut EpollEvent::new(flags, *token));
            }
        }
        self.watch_remotes(flags);
    }

    fn peer(&mut self, token: u64) -> Option<&mut Connection> {
        match self.sources.get_mut(&token)? {
            Source::Peer(connection) => Some(connection),
            Source::Listener(..) | Source::Remote(..) => None,
        }
    }

    /// Reads nothing of a peer that waits for the answer to its first message; drops it if it has ended.
    fn hold(&mut self, token: u64, has_ended: bool) {
        if has_ended {
            return self.drop_peer(token);
        }
        // Only now: most peers send nothing before the answer.
        let Some(Source::Peer(connection)) = self.sources.get_mut(&token) else { return };
        if let Some(flags) = connection.watch() {
            let _ = self.epoll.modify(&connection.socket, &mut EpollEvent::new(flags, token));
        }
    }

    fn receive(&mut self, token: u64) {
        if self.waiting.contains(&token) {
            // Earlier messages first: nothing more is read before they are handled.
            return;
        }
        let Some(Source::Peer(connection)) = self.sources.get_mut(&token) else { return };
        let read = connection.read(&mut self.chunk);
        self.dispatch(token);
        if let Read::End(why) = read {
            // The peer's last messages count; sending in between keeps its replies from piling up.
            while self.waiting.remove(&token) {
                self.perform();
                self.dispatch(token);
            }
            let in_hello = self.peer(token).is_some_and(|connection| connection.has_half_a_hello());
            if let Some(why) = why.or_else(|| in_hello.then(|| "ended within its handshake".to_owned())) {
                self.shared.log(&format!("connection {token}: {why}"));
            }
            self.drop_peer(token);
        }
    }

    /// Passes complete messages to the engine, `BURST` at most; others wait for the next turn, those of a peer with a full
    /// send queue until it reads again.
    fn dispatch(&mut self, token: u64) {
        for _ in 0..BURST {
            let Some(connection) = self.peer(token).filter(|connection| !connection.is_full()) else { return };
            match connection.next() {
                Ok(None) => return,
                Ok(Some(Incoming::Hello(payload))) => match Hello::decode(&payload) {
                    Ok(hello) => {
                        let transport = connection.transport;
                        connection.stage = Stage::Asked;
                        if self.is_for_munge(transport, &hello) {
                            self.ask_munge(token, hello);
                            return;
                        }
                        self.door.heard(token);
                        self.shared.engine.lock().hello(PeerId(token), transport, hello);
                    }
                    Err(status) => {
                        self.shared.log(&format!("refused a connection: malformed handshake ({status})"));
                        return self.drop_peer(token);
                    }
                },
                Ok(Some(Incoming::Message(Frame { tag: TAG_HEARTBEAT, .. }))) => {
                    self.shared.engine.lock().beat(PeerId(token));
                }
                Ok(Some(Incoming::Message(Frame { tag, len, payload }))) => {
                    let mut engine = self.shared.engine.lock();
                    match payload {
                        Ok(payload) => engine.message(PeerId(token), tag, payload, Instant::now()),
                        Err(_) => engine.refuse(PeerId(token), tag, len as usize, true),
                    }
                }
                Err(why) => {
                    self.shared.log(&format!("dropped connection {token}: {why}"));
                    return self.drop_peer(token);
                }
            }
        }
        self.waiting.insert(token);
    }

    fn drop_peer(&mut self, token: u64) {
        if let Some(Source::Peer(connection)) = self.sources.remove(&token) {
            self.door.left(token);
            if connection.stage == Stage::Asked {
                self.verifier.forget(token);
            }
            if let Some(since) = connection.stuck_since {
                self.stuck.remove(&(since, token));
            }
            let _ = self.epoll.delete(&connection.socket);
            self.shared.engine.lock().disconnected(PeerId(token), Instant::now());
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

    /// Performs the engine's outputs until there are none.
    fn perform(&mut self) {
        loop {
            let outputs = self.shared.engine.lock().take_outputs();
            self.shared.write_journals();
            // Run these first: they must run before the outputs of the thread's next call.
            self.shared.run_held();
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
            Output::Send { peer: PeerId::OWN, tag, payload } => self.shared.own_message(tag, payload),
            Output::Send { peer, tag, payload } => self.send(peer, tag, payload),
            Output::Admit { peer, status, reply } => self.admit(peer, status, reply),
            Output::Close(peer) => self.drop_peer(peer.0),
            Output::Publish(directory) => {
                let plan = self.shared.engine.lock().take_plan(directory);
                plan.into_iter().for_each(|plan| self.shared.publish(plan));
            }
            Output::Listen(nspace, directory) => {
                let Some(listener) = self.shared.publishers.take_listener(directory) else { return };
                let token = self.token_next;
                self.token_next += 1;
                match self.epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, token)) {
                    Ok(()) => {
                        self.listeners.insert(nspace.clone(), token);
                        self.sources.insert(token, Source::Listener(listener));
                    }
                    Err(error) => {
                        let error = io::Error::from(error);
                        self.shared.log(&format!("namespace {nspace}: its socket cannot be watched: {error}"))
                    }
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
            Output::Show(output) => self.shared.show(output),
            Output::Call(call) => call(),
            Output::Look { monitor, path, user } => {
                if !self.files.look(user, (monitor, path)) {
                    self.shared.engine.lock().looked(monitor, None, Instant::now());
                }
            }
            Output::Measure { monitor, usage, targets, hostname } => {
                let told = usage.read(&targets, &hostname);
                self.shared.engine.lock().measured(monitor, told);
            }
            Output::ReadMemory(asked) => {
                let values = asked.read();
                self.shared.engine.lock().memory_read(*asked, values);
            }
            Output::CleanUp((uid, gid), cleanup) => cleanup.run(uid, gid),
            Output::Log(reason, line) => self.shared.log_for(reason, &line),
        }
    }

    fn upcall(&mut self, id: u64, upcall: Upcall) {
        if self.shared.is_stopped() {
            // The host has ended the server, perhaps inside the callback before this.
            completion::close(id);
            return;
        }
        let at_once = upcall.answered_at_once();
        let status = upcall.call(&*self.shared.host, id);
        // `SUCCESS` means that the answer follows, unless the return value is the whole answer.
        if (status != Status::SUCCESS || at_once) && completion::close(id) {
            self.shared.engine.lock().answer(id, status.into());
        }
    }

    fn admit(&mut self, peer: PeerId, status: Status, reply: Vec<u8>) {
        let token = peer.0;
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
        let token = peer.0;
        let Some(connection) = self.peer(token) else { return };
        // A peer that does not read loses events and output, of which there may be any number. Flow control is kept: without its last
        // message the peer's input would stop for good.
        if matches!(tag, TAG_NOTIFY | TAG_IOF | TAG_DELETED) && connection.is_full() {
            self.events_dropped += 1;
            if self.events_dropped.is_power_of_two() {
                let dropped = self.events_dropped;
                self.shared.log(&format!(
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
        if self.tcp_again.is_some_and(|again| again <= now) {
            self.tcp_again = None;
            if self.accept_again.is_none() {
                self.watch_tcp(EpollFlags::EPOLLIN);
            }
        }
        if self.accept_again.is_some_and(|again| again <= now) {
            self.accept_again = None;
            self.watch_listeners(EpollFlags::EPOLLIN);
        }
        let stuck = self.stuck.iter().take_while(|(since, _)| *since + STUCK_MAX <= now).map(|(_, token)| *token);
        let expired: Vec<u64> = self.door.expired(now).into_iter().chain(stuck).collect();
        for token in expired {
            self.shared.log(&format!("dropped connection {token}: it says or takes nothing"));
            self.drop_peer(token);
        }
        self.shared.engine.lock().tick(now);
        self.shared.log_withheld(Some(now));
    }

    /// Waits a moment for queued replies to be sent.
    fn flush_on_shutdown(&mut self) {
        let end = Instant::now() + SHUTDOWN_WAIT;
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

/// Whether to log a refused connection. A connection that was opened and closed without a byte, as a liveness probe does, is not
/// logged.
fn is_news(stream: &TcpStream, why: Refusal) -> bool {
    // Non-blocking: `peek` must not wait for bytes.
    let has_said = || stream.set_nonblocking(true).is_ok() && matches!(stream.peek(&mut [0]), Ok(1));
    matches!(why, Refusal::Failed(_) | Refusal::Malformed) || has_said()
}
