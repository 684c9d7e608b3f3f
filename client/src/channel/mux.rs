//! The multiplexer: many callers share one socket; tags match replies to requests.
//!
//! No thread owns the socket permanently. A thread that waits while there is no driver takes the *driver token* (the
//! `reader` of [`State`]). The driver polls and receives on its own thread and distributes replies to the other
//! waiters. When it leaves, it wakes them, and one of them takes the token. The callback thread, started by the first
//! call that needs it, is one more waiter: it waits for callbacks to run, and runs them without the token and without
//! any lock. Therefore a blocking call inside a callback drives the socket itself, and a blocking call outside never
//! waits for a callback to return.
//!
//! Where the program progresses the library itself (`PMIX_EXTERNAL_PROGRESS`), there is no callback thread: [`Mux::progress`] runs callbacks.
//!
//! Where the server may be restarted, a connection that ends is *down* and not lost: a thread of its own makes it again, and what waits for
//! replies goes on waiting ([`again`](super::again)).

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::pthread::pthread_self;
use nix::sys::signal::SigSet;
use nix::sys::socket::{Shutdown, shutdown};
use parking_lot::{Condvar, Mutex, MutexGuard};
use pmix_dstore::fallible_alloc::{self, Thread};
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Result, Status};
use pmix_dstore::thread_number::ThreadNumber;

use super::again::{self, Redial};
use super::connect::poll_timeout;
use crate::link::progresses_itself;
use crate::{ReplyFn, Task};
use pmix_wire::framing::{Chunk, Frames, Outbox};
use pmix_wire::{
    Header, REQUEST_LEN_MAX, TAG_DELETED, TAG_FIRST, TAG_FIRST_COMMIT, TAG_FLOW_CONTROL, TAG_HEARTBEAT, TAG_IOF,
    TAG_NOTIFY,
};

/// The most notifications that may wait for the callback thread. Further ones are dropped.
const NOTIFICATIONS_MAX: usize = 4096;
/// The most bytes of forwarded output that may wait for the callback thread. Further output is dropped.
const OUTPUT_MAX: usize = 16 << 20;

/// An unsolicited message: one that is not the reply to a request.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// The payload of an event notification.
    Notification(Vec<u8>),
    /// The payload of forwarded output.
    Output(Vec<u8>),
    /// The payload that pauses or resumes input.
    FlowControl(Vec<u8>),
    /// The payload that names a deleted key.
    Deletion(Vec<u8>),
    /// The connection was down and is about to go on, to a server that was restarted: what it sent meanwhile has not come.
    Again,
    /// The connection is lost.
    Lost,
}

/// Receives unsolicited messages, on the callback thread. Only deletions, and that the connection goes on, come on the thread that has
/// read them: they run no application code.
pub type Sink = Arc<dyn Fn(Incoming) + Send + Sync>;

/// The descriptors of a connection. They are closed when the last reference is dropped.
struct Wire {
    socket: OwnedFd,
    /// Wakes the driver from its poll: a message waits to be written, or the connection ends.
    kick: EventFd,
}

/// The driver's read buffers.
struct Reader {
    frames: Frames,
    chunk: Chunk,
}

/// A request whose reply has not arrived.
struct Waiting {
    taker: Taker,
    /// What a server that was restarted is sent again; `None` where it is not, and where no server is restarted.
    payload: Option<GatherBuf>,
}

/// Who takes a reply.
enum Taker {
    /// A thread waits for it.
    Caller,
    /// A callback takes it, or that there is no reply by this time.
    Callback(ReplyFn, Option<Instant>),
}

/// What the callback thread does next.
enum Next {
    Run(Due),
    /// Look again at the time until which it may sleep.
    Look,
    End,
}

/// One item of work for the callback thread.
enum Due {
    Task(Task),
    Reply(ReplyFn, Result<Vec<u8>>),
    Incoming(Incoming),
}

#[derive(Default)]
struct State {
    /// `None` after close.
    wire: Option<Arc<Wire>>,
    /// The driver token; `None` while a thread drives.
    reader: Option<Reader>,
    /// This peer's index from the handshake.
    index: i32,
    tag_last: u32,
    waiting: HashMap<u32, Waiting>,
    /// When callbacks get `ERR_TIMEOUT`, with the tags of their requests.
    limits: BTreeSet<(Instant, u32)>,
    /// Replies for waiting threads.
    arrived: HashMap<u32, Result<Vec<u8>>>,
    /// The server's refusal of the first commit.
    commit_refusal: Option<Result<Vec<u8>>>,
    /// The first commit, until the reply to a request after this tag shows that the server has it; only where the server may be restarted.
    first_commit: Option<(u32, GatherBuf)>,
    /// Payloads that name deleted keys.
    deletions: Vec<Vec<u8>>,
    /// Messages not yet written.
    outgoing: Outbox,
    due: VecDeque<Due>,
    notifications_due: usize,
    output_due: usize,
    /// The message about dropped output has been printed.
    has_reported_drop: bool,
    thread_wanted: bool,
    /// The connection has ended, and a thread makes it again.
    is_down: bool,
    lost: bool,
    /// The connection is being closed on request: its end is not reported.
    ending: bool,
}

/// A connection that any number of threads share.
pub struct Mux {
    state: Mutex<State>,
    changed: Condvar,
    sink: Sink,
    /// For the thread that makes the connection again.
    this: Weak<Mux>,
    /// How the connection is made again; `None` where the server is not restarted.
    redial: Option<Box<dyn Redial>>,
    /// The thread that makes it again, or has done so.
    again: Mutex<Option<Thread>>,
    /// The process that made the connection. A forked child has another id, and must not touch socket or locks.
    pid: u32,
    thread: Mutex<Option<Thread>>,
    /// The callback thread, once it runs.
    callback_thread: OnceLock<ThreadNumber>,
    /// Callbacks run in [`Mux::progress`] alone.
    is_external: bool,
    /// The thread that is in it.
    progressing: Mutex<Option<ThreadNumber>>,
}

impl Mux {
    /// A connection over `socket`, whose handshake is done; `index` is this peer's index from the handshake.
    ///
    /// # Errors
    /// `ERR_SYS_LIMITS_FILES` without a descriptor to spare.
    pub fn new(socket: OwnedFd, index: i32, sink: Sink) -> Result<Arc<Mux>> {
        Mux::restartable(socket, index, sink, None)
    }

    /// As [`Mux::new`], to a server that may be restarted: `redial` makes the connection again.
    pub fn restartable(socket: OwnedFd, index: i32, sink: Sink, redial: Option<Box<dyn Redial>>) -> Result<Arc<Mux>> {
        let (wire, reader) = connection(socket)?;
        let state =
            State { wire: Some(wire), reader: Some(reader), index, tag_last: TAG_FIRST - 1, ..State::default() };
        Ok(Arc::new_cyclic(|this| Mux {
            state: Mutex::new(state),
            changed: Condvar::new(),
            sink,
            this: if redial.is_some() { this.clone() } else { Weak::new() },
            redial,
            again: Mutex::default(),
            pid: std::process::id(),
            thread: Mutex::new(None),
            callback_thread: OnceLock::new(),
            is_external: progresses_itself(),
            progressing: Mutex::new(None),
        }))
    }

    /// Sends a request and waits for its reply.
    pub fn request_wait(&self, payload: impl Into<GatherBuf>, deadline: Option<Instant>) -> Result<Vec<u8>> {
        self.same_process()?;
        let tag = self.post(payload.into(), Some(Taker::Caller))?;
        let reply = self.wait(deadline, |state| state.arrived.remove(&tag));
        reply.unwrap_or_else(|| {
            let mut state = self.state.lock();
            state.waiting.remove(&tag);
            // The reply may have arrived between the deadline and the lock.
            state.arrived.remove(&tag).unwrap_or(Err(Status::ERR_TIMEOUT))
        })
    }

    /// Makes sure that callbacks can run.
    ///
    /// # Errors
    /// `ERR_UNREACH` after [`Mux::close`] and in a forked child; `ERR_OUT_OF_RESOURCE` if the callback thread cannot be
    /// started.
    pub fn ready(self: &Arc<Mux>) -> Result<()> {
        self.same_process()?;
        self.start_thread()?;
        if self.state.lock().wire.is_some() { Ok(()) } else { Err(Status::ERR_UNREACH) }
    }

    /// Sends a request whose reply goes to a callback. If the connection is not [ready](Mux::ready), this call runs the
    /// callback itself.
    pub fn request(self: &Arc<Mux>, payload: impl Into<GatherBuf>, reply: ReplyFn) {
        self.request_until(payload, None, reply);
    }

    /// As [`Mux::request`]; the callback gets `ERR_TIMEOUT` if the reply has not arrived by `deadline`.
    pub fn request_until(self: &Arc<Mux>, payload: impl Into<GatherBuf>, deadline: Option<Instant>, reply: ReplyFn) {
        let payload = payload.into();
        if self.same_process().is_err() {
            // A forked child has no callback thread and cannot start one.
            return reply(Err(Status::ERR_UNREACH));
        }
        if self.start_thread().is_err() {
            return reply(Err(Status::ERR_OUT_OF_RESOURCE));
        }
        let mut state = self.state.lock();
        if state.wire.is_none() {
            // After close no thread runs callbacks.
            drop(state);
            return reply(Err(Status::ERR_UNREACH));
        }
        if let Err(status) = self.writable(&state, &payload) {
            state.due.push_back(Due::Reply(reply, Err(status)));
            return self.rouse(&state);
        }
        let tag = self.begin(&mut state, payload, Some(Taker::Callback(reply, deadline)));
        if let Some(deadline) = deadline {
            state.limits.insert((deadline, tag));
            // The callback thread may sleep for longer.
            self.rouse(&state);
        }
    }

    /// Sends a message without a reply.
    pub fn send(&self, payload: impl Into<GatherBuf>) -> Result<()> {
        self.same_process()?;
        self.post(payload.into(), None)?;
        self.wait_until_written()
    }

    /// Sends the first commit, which the server answers only if it refuses it.
    pub fn send_first_commit(&self, payload: GatherBuf) -> Result<()> {
        self.same_process()?;
        {
            let mut state = self.state.lock();
            self.writable(&state, &payload)?;
            if self.redial.is_some() {
                state.first_commit = Some((state.tag_last, payload.clone()));
            }
            if !state.is_down {
                self.enqueue(&mut state, TAG_FIRST_COMMIT, payload);
            }
        }
        self.wait_until_written()
    }

    /// The server's refusal of the first commit, if it has come; once. None in a forked child.
    pub fn take_commit_refusal(&self) -> Option<Result<Vec<u8>>> {
        self.same_process().ok()?;
        self.state.lock().commit_refusal.take()
    }

    fn wait_until_written(&self) -> Result<()> {
        self.wait(None, |state| match (state.lost, state.is_down || state.outgoing.is_empty()) {
            (true, _) => Some(Err(Status::ERR_LOST_CONNECTION)),
            (_, true) => Some(Ok(())),
            _ => None,
        })
        .unwrap_or(Ok(()))
    }

    /// Queues a heartbeat and writes as much as possible without blocking.
    pub fn beat(&self) -> Result<()> {
        self.same_process()?;
        let mut state = self.state.lock();
        self.writable(&state, &GatherBuf::default())?;
        if !state.is_down {
            self.enqueue(&mut state, TAG_HEARTBEAT, GatherBuf::default());
        }
        Ok(())
    }

    /// Runs `task` on the callback thread. Where that thread has ended, another one runs it: it may be the callback of a call that has
    /// succeeded. In a forked child it is dropped.
    pub fn defer(self: &Arc<Mux>, task: Task) {
        if self.same_process().is_err() {
            return;
        }
        let has_thread = self.start_thread().is_ok();
        let mut state = self.state.lock();
        if !has_thread || state.wire.is_none() {
            drop(state);
            // Not on this thread: it may be inside the call that the callback must not precede, or hold a lock that a handler takes.
            let run = move || {
                let _ = SigSet::all().thread_set_mask();
                task();
            };
            return drop(fallible_alloc::spawn("pmix-callback", run));
        }
        state.due.push_back(Due::Task(task));
        self.rouse(&state);
    }

    /// Receives what has arrived, without waiting, and runs the callbacks that are due by then. Without external progress it does
    /// nothing; so it does while another thread is in it, since callbacks run one after the other.
    pub fn progress(&self) {
        if !self.is_external || self.same_process().is_err() {
            return;
        }
        let me = ThreadNumber::current();
        let is_nested = match &mut *self.progressing.lock() {
            Some(thread) if *thread != me => return,
            Some(_) => true,
            free => {
                *free = Some(me);
                false
            }
        };
        let mut state = self.state.lock();
        if let Some((wire, reader)) = state.take_token() {
            state = self.drive(state, &wire, reader, Some(Instant::now()));
            // A thread that wanted the token meanwhile sleeps.
            self.changed.notify_all();
        }
        state.expire(Instant::now());
        let count = state.due.len();
        drop(state);
        for _ in 0..count {
            // A callback may have run some of them, or closed the connection.
            let Some(due) = self.state.lock().next_due() else { break };
            self.run(due);
        }
        if !is_nested {
            *self.progressing.lock() = None;
        }
    }

    /// Whether this is the callback thread. Where the program progresses the library itself there is none: a call that waits runs callbacks.
    pub fn is_callback_thread(&self) -> bool {
        self.callback_thread.get() == Some(&ThreadNumber::current())
    }

    /// Starts the callback thread, unless it runs already.
    pub fn start_thread(self: &Arc<Mux>) -> Result<()> {
        if self.is_external {
            return Ok(());
        }
        {
            let mut state = self.state.lock();
            if state.thread_wanted || state.wire.is_none() {
                return Ok(());
            }
            state.thread_wanted = true;
        }
        let mux = Arc::clone(self);
        let thread = fallible_alloc::spawn("pmix", move || {
            // The application's signals must be delivered to its own threads.
            let _ = SigSet::all().thread_set_mask();
            mux.run_callbacks();
        });
        match thread {
            Ok(thread) => *self.thread.lock() = Some(thread),
            Err(_) => {
                self.state.lock().thread_wanted = false;
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
        }
        Ok(())
    }

    /// Closes the connection and ends the callback thread. Pending requests complete with `ERR_LOST_CONNECTION`. What the thread has left
    /// behind runs here: callbacks, and output, which a tool is there to show.
    pub fn close(&self) {
        self.end().into_iter().for_each(|due| self.run(due));
    }

    /// As [`Mux::close`]; the callbacks are left to the caller, and output is dropped.
    pub fn end_and_leave(&self) -> Vec<Task> {
        let callback = |due| match due {
            Due::Task(task) => Some(task),
            Due::Reply(reply, result) => Some(Box::new(move || reply(result)) as Task),
            Due::Incoming(_) => None,
        };
        self.end().into_iter().filter_map(callback).collect()
    }

    /// Closes the connection and returns what the callback thread has left behind, without messages that only handlers take.
    fn end(&self) -> VecDeque<Due> {
        if self.same_process().is_err() {
            return VecDeque::new();
        }
        {
            let mut state = self.state.lock();
            state.ending = true;
            state.thread_wanted = false;
            state.lose();
            if let Some(wire) = state.wire.take() {
                // This also wakes the driver, unless it is denied.
                if shutdown(wire.socket.as_raw_fd(), Shutdown::Both).is_err() {
                    let _ = wire.kick.write(1);
                }
            }
            self.changed.notify_all();
        }
        let threads = [self.again.lock().take(), self.thread.lock().take()];
        for thread in threads.into_iter().flatten().filter(|thread| thread.id() != pthread_self()) {
            thread.join();
        }
        let mut due = std::mem::take(&mut self.state.lock().due);
        due.retain(|due| !matches!(due, Due::Incoming(incoming) if !matches!(incoming, Incoming::Output(_))));
        due
    }

    fn run(&self, due: Due) {
        // A panic in a callback has printed its message already. The callbacks after it must still run.
        let _ = catch_unwind(AssertUnwindSafe(|| match due {
            Due::Task(task) => task(),
            Due::Reply(reply, result) => reply(result),
            Due::Incoming(incoming) => (self.sink)(incoming),
        }));
    }

    /// Whether this process has made the connection; `ERR_UNREACH` in a forked child.
    fn same_process(&self) -> Result<()> {
        if std::process::id() == self.pid { Ok(()) } else { Err(Status::ERR_UNREACH) }
    }

    fn writable(&self, state: &State, payload: &GatherBuf) -> Result<()> {
        if state.wire.is_none() {
            return Err(Status::ERR_UNREACH);
        }
        if state.lost {
            return Err(Status::ERR_LOST_CONNECTION);
        }
        // The server would close the connection over a longer message, and all other requests would fail with it.
        if payload.len() <= REQUEST_LEN_MAX { Ok(()) } else { Err(Status::ERR_OUT_OF_RESOURCE) }
    }

    /// Queues a message and writes as much as possible without blocking.
    fn post(&self, payload: GatherBuf, taker: Option<Taker>) -> Result<u32> {
        let mut state = self.state.lock();
        self.writable(&state, &payload)?;
        Ok(self.begin(&mut state, payload, taker))
    }

    /// As [`Mux::post`]. While the connection is down the message waits for the next one; without a reply it is dropped, because it is
    /// about something that the restarted server does not know.
    fn begin(&self, state: &mut State, payload: GatherBuf, taker: Option<Taker>) -> u32 {
        let tag = state.next_tag();
        if state.is_down {
            if let Some(taker) = taker {
                state.waiting.insert(tag, Waiting { taker, payload: Some(payload) });
            }
            return tag;
        }
        if let Some(taker) = taker {
            let again = self.redial.as_ref().filter(|redial| redial.may_repeat(&payload)).map(|_| payload.clone());
            state.waiting.insert(tag, Waiting { taker, payload: again });
        }
        self.enqueue(state, tag, payload);
        tag
    }

    fn enqueue(&self, state: &mut State, tag: u32, payload: GatherBuf) {
        state.queue(tag, payload);
        state.flush();
        if state.lost || !state.outgoing.is_empty() {
            self.rouse(state);
        }
    }

    /// Wakes all waiters so that they re-check their condition: sleeping threads, and the driver in its poll.
    fn rouse(&self, state: &State) {
        self.changed.notify_all();
        if state.reader.is_none()
            && let Some(wire) = &state.wire
        {
            let _ = wire.kick.write(1);
        }
    }

    /// Waits until `ready` returns a value, and drives the socket while no other thread does. `None` after the
    /// deadline.
    fn wait<T>(&self, deadline: Option<Instant>, mut ready: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(result) = ready(&mut state) {
                // One of the sleeping threads may have to take over the driver token.
                self.changed.notify_all();
                return Some(result);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.changed.notify_all();
                return None;
            }
            let Some((wire, reader)) = state.take_token() else {
                match deadline {
                    Some(deadline) => drop(self.changed.wait_until(&mut state, deadline)),
                    None => self.changed.wait(&mut state),
                }
                continue;
            };
            state = self.drive(state, &wire, reader, deadline);
        }
    }

    /// Receives once, with the driver token, which it gives back.
    fn drive<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        wire: &Wire,
        mut reader: Reader,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        let has_output = !state.outgoing.is_empty();
        drop(state);
        let alive = poll_and_read(wire, &mut reader, has_output, deadline);
        let mut state = self.state.lock();
        let mut news = false;
        while let Ok(Some(frame)) = reader.frames.next(u32::MAX) {
            news = true;
            state.accept(frame.tag, frame.payload);
        }
        if !state.deletions.is_empty() {
            let deletions = std::mem::take(&mut state.deletions);
            // Apply deletions before any thread is woken by a reply that arrived after them.
            MutexGuard::unlocked(&mut state, || {
                deletions.into_iter().for_each(|deletion| (self.sink)(Incoming::Deletion(deletion)));
            });
        }
        state.flush();
        if !alive {
            self.connection_ended(&mut state);
        }
        state.reader = Some(reader);
        if news || state.lost || state.is_down || has_output && state.outgoing.is_empty() {
            self.changed.notify_all();
        }
        state
    }

    /// The connection has ended: it is lost, or down until a thread has made it again.
    fn connection_ended(&self, state: &mut State) {
        let Some(this) = self.this.upgrade().filter(|_| self.redial.is_some() && !state.lost && !state.ending) else {
            return state.lose();
        };
        state.is_down = true;
        state.outgoing.clear();
        // Nobody knows whether the server has done what these ask for.
        let unsafe_ones: Vec<_> = state.waiting.extract_if(|_, waiting| waiting.payload.is_none()).collect();
        for (tag, waiting) in unsafe_ones {
            state.complete_request(tag, waiting.taker, Err(Status::ERR_COMM_FAILURE));
        }
        let former = state.index;
        let thread = fallible_alloc::spawn("pmix-again", move || {
            let _ = SigSet::all().thread_set_mask();
            this.make_again(former);
        });
        match thread {
            // The thread of an earlier restart has ended, or is about to.
            Ok(thread) => drop(self.again.lock().replace(thread).map(Thread::join)),
            Err(_) => {
                state.is_down = false;
                state.lose();
            }
        }
    }

    /// Makes the connection again, or reports it as lost.
    fn make_again(&self, former: i32) {
        let Some(redial) = &self.redial else { return };
        let is_over = |pause| {
            let mut state = self.state.lock();
            if !state.ending {
                let _ = self.changed.wait_for(&mut state, pause);
            }
            state.ending
        };
        let made = again::dial(&**redial, former, is_over);
        let made = made.and_then(|(socket, index)| Some((connection(socket).ok()?, index)));
        let greetings = if made.is_some() { redial.greetings() } else { Vec::new() };
        if made.is_some() {
            (self.sink)(Incoming::Again);
        }
        let mut state = self.state.lock();
        if state.ending {
            return;
        }
        state.is_down = false;
        match made {
            Some(((wire, reader), index)) => {
                (state.wire, state.reader, state.index) = (Some(wire), Some(reader), index);
                state.repeat(&**redial, greetings);
            }
            None => state.lose(),
        }
        self.changed.notify_all();
    }

    /// The callback thread.
    fn run_callbacks(&self) {
        // Nobody else sets it.
        let _ = self.callback_thread.set(ThreadNumber::current());
        loop {
            let limit = self.state.lock().first_limit();
            let next = self.wait(limit, |state| match state.thread_wanted {
                false => Some(Next::End),
                true => match state.next_due() {
                    Some(due) => Some(Next::Run(due)),
                    None => (state.first_limit() != limit).then_some(Next::Look),
                },
            });
            match next {
                Some(Next::End) => return,
                Some(Next::Run(due)) => self.run(due),
                Some(Next::Look) => {}
                None => self.state.lock().expire(Instant::now()),
            }
        }
    }
}

impl State {
    /// The driver token with its connection, if the connection stands and no thread drives it.
    fn take_token(&mut self) -> Option<(Arc<Wire>, Reader)> {
        let wire = self.wire.clone().filter(|_| !self.lost && !self.is_down)?;
        Some((wire, self.reader.take()?))
    }

    /// The next item of work for callbacks.
    fn next_due(&mut self) -> Option<Due> {
        let due = self.due.pop_front()?;
        match &due {
            Due::Incoming(Incoming::Notification(_)) => self.notifications_due -= 1,
            Due::Incoming(Incoming::Output(payload)) => self.output_due -= payload.len(),
            _ => {}
        }
        Some(due)
    }

    /// When the next callback gets `ERR_TIMEOUT`.
    fn first_limit(&self) -> Option<Instant> {
        self.limits.first().map(|(limit, _)| *limit)
    }

    /// Ends the requests of callbacks whose time is over.
    fn expire(&mut self, now: Instant) {
        while let Some((_, tag)) = self.limits.first().copied().filter(|(limit, _)| *limit <= now) {
            match self.waiting.remove(&tag) {
                Some(waiting) => self.complete_request(tag, waiting.taker, Err(Status::ERR_TIMEOUT)),
                None => drop(self.limits.pop_first()),
            }
        }
    }

    fn next_tag(&mut self) -> u32 {
        loop {
            self.tag_last = self.tag_last.checked_add(1).unwrap_or(TAG_FIRST);
            if !self.waiting.contains_key(&self.tag_last) {
                return self.tag_last;
            }
        }
    }

    /// Dispatches one message. Drops replies for which no request is pending.
    fn accept(&mut self, tag: u32, payload: Result<Vec<u8>>) {
        if tag == TAG_NOTIFY {
            if let Ok(payload) = payload
                && self.notifications_due < NOTIFICATIONS_MAX
                && !self.ending
            {
                self.notifications_due += 1;
                self.due.push_back(Due::Incoming(Incoming::Notification(payload)));
            }
            return;
        }
        if tag == TAG_DELETED {
            self.deletions.extend(payload.ok().filter(|_| !self.ending));
            return;
        }
        if tag == TAG_IOF || tag == TAG_FLOW_CONTROL {
            if let Ok(payload) = payload
                && !payload.is_empty()
                && !self.ending
            {
                self.take_stream(tag, payload);
            }
            return;
        }
        if tag == TAG_FIRST_COMMIT {
            self.commit_refusal = Some(payload);
            return;
        }
        if self.first_commit.as_ref().is_some_and(|(before, _)| tag > *before) {
            self.first_commit = None;
        }
        let Some(Waiting { taker, .. }) = self.waiting.remove(&tag) else { return };
        // A reply is never empty otherwise: stock servers send an empty one when they shut down.
        let lost = payload.as_ref().is_ok_and(Vec::is_empty);
        let result = if lost { Err(Status::ERR_LOST_CONNECTION) } else { payload };
        self.complete_request(tag, taker, result);
        if lost {
            self.lose();
        }
    }

    /// Queues forwarded output, or flow control of input.
    fn take_stream(&mut self, tag: u32, payload: Vec<u8>) {
        if tag == TAG_FLOW_CONTROL {
            return self.due.push_back(Due::Incoming(Incoming::FlowControl(payload)));
        }
        if self.output_due + payload.len() <= OUTPUT_MAX {
            self.output_due += payload.len();
            self.due.push_back(Due::Incoming(Incoming::Output(payload)));
        } else if !std::mem::replace(&mut self.has_reported_drop, true) {
            let line = "forwarded output arrives faster than this process takes it; some of it is dropped";
            log::write(Level::Warn, Target::Output, Writer::Library, format_args!("{line}"));
        }
    }

    fn complete_request(&mut self, tag: u32, taker: Taker, result: Result<Vec<u8>>) {
        match taker {
            Taker::Caller => drop(self.arrived.insert(tag, result)),
            Taker::Callback(reply, deadline) => {
                if let Some(deadline) = deadline {
                    self.limits.remove(&(deadline, tag));
                }
                self.due.push_back(Due::Reply(reply, result));
            }
        }
    }

    /// Sends a server that was restarted what it needs: the first commit if it may not have it, the greetings, and all requests that wait,
    /// in their order.
    fn repeat(&mut self, redial: &dyn Redial, greetings: Vec<Vec<u8>>) {
        if let Some((_, payload)) = self.first_commit.clone() {
            self.queue(TAG_FIRST_COMMIT, payload);
        }
        let mut requests: Vec<(u32, GatherBuf)> = Vec::new();
        for (tag, waiting) in &mut self.waiting {
            // One that waited to be sent may not be sent a second time.
            let is_safe = waiting.payload.as_ref().is_some_and(|payload| redial.may_repeat(payload));
            let payload = if is_safe { waiting.payload.clone() } else { waiting.payload.take() };
            requests.extend(payload.map(|payload| (*tag, payload)));
        }
        requests.sort_unstable_by_key(|(tag, _)| *tag);
        for payload in greetings {
            // The server's answer changes nothing.
            let tag = self.next_tag();
            self.queue(tag, payload.into());
        }
        requests.into_iter().for_each(|(tag, payload)| self.queue(tag, payload));
        self.flush();
    }

    fn queue(&mut self, tag: u32, payload: GatherBuf) {
        self.outgoing.push(Header { index: self.index, tag, len: payload.len() as u32 }, payload);
    }

    /// Marks the connection as lost and completes all pending requests, once.
    fn lose(&mut self) {
        if self.lost {
            return;
        }
        self.lost = true;
        self.outgoing.clear();
        let waiting = std::mem::take(&mut self.waiting);
        for (tag, waiting) in waiting {
            self.complete_request(tag, waiting.taker, Err(Status::ERR_LOST_CONNECTION));
        }
        if !self.ending {
            self.due.push_back(Due::Incoming(Incoming::Lost));
        }
    }

    /// Writes queued messages as far as possible without blocking.
    fn flush(&mut self) {
        let Some(wire) = self.wire.clone() else { return };
        while !self.outgoing.is_empty() && !self.lost {
            match self.outgoing.write(wire.socket.as_fd()) {
                Ok(_) => {}
                Err(Errno::EAGAIN | Errno::ENOBUFS) => return,
                // Replies that the peer sent before it closed may still be unread. The reader detects the end.
                Err(Errno::EPIPE | Errno::ECONNRESET) => self.outgoing.clear(),
                Err(_) => {
                    // What was not sent is never answered. The reader must see an end, and complete what waits.
                    self.outgoing.clear();
                    if shutdown(wire.socket.as_raw_fd(), Shutdown::Both).is_err() {
                        self.lose();
                    }
                }
            }
        }
    }
}

/// The descriptors and buffers of a connection over `socket`.
///
/// # Errors
/// `ERR_SYS_LIMITS_FILES` without a descriptor to spare; `ERR_NOMEM`.
fn connection(socket: OwnedFd) -> Result<(Arc<Wire>, Reader)> {
    let kick = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
        .map_err(|_| Status::ERR_SYS_LIMITS_FILES)?;
    Ok((Arc::new(Wire { socket, kick }), Reader { frames: Frames::new(), chunk: Chunk::new()? }))
}

/// Polls the socket once and reads the available bytes, without the lock. `false` if the peer has closed the
/// connection.
fn poll_and_read(wire: &Wire, reader: &mut Reader, has_output: bool, deadline: Option<Instant>) -> bool {
    let mut interest = PollFlags::POLLIN;
    if has_output {
        interest |= PollFlags::POLLOUT;
    }
    let mut fds = [PollFd::new(wire.socket.as_fd(), interest), PollFd::new(wire.kick.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, poll_timeout(deadline)) {
        Ok(0) | Err(Errno::EINTR) => return true,
        Ok(_) => {}
        Err(_) => return false,
    }
    if fds[1].any().unwrap_or(true) {
        let _ = wire.kick.read();
    }
    let readable = PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    if fds[0].revents().is_none_or(|events| events.intersects(readable)) {
        return match reader.frames.fill(wire.socket.as_fd(), &mut reader.chunk) {
            Ok((len, _)) => len > 0,
            Err(error) => error == Errno::EAGAIN,
        };
    }
    true
}

#[cfg(test)]
#[path = "mux_tests.rs"]
mod tests;
