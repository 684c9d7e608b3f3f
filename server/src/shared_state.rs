//! What the host's calls, the server's thread and the process's own client share: the engine, and who waits for what.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use nix::sys::eventfd::EventFd;
use parking_lot::{Condvar, Mutex};
use pmix_client::{Client, Event, Returned, Task};
use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::thread_number::ThreadNumber;
use pmix_wire::{IoDelivery, Notification, TAG_IOF, TAG_NOTIFY};

use crate::Host;
use crate::completion::{AnswerSink, UpcallResult};
use crate::config::Config;
use crate::engine::{Engine, Output, Plan, Published, Ticket};
use crate::engine_lock::{EngineGuard, EngineLock};
use crate::journal::{Journal, Reason};
use crate::keepalive;
use crate::log::log;
use crate::own_requests::OwnRequests;
use crate::publisher::{Publishers, no_journal};
use crate::restart::Estates;

/// The state of one server, without what its handle alone needs.
pub(crate) struct SharedState {
    pub engine: EngineLock,
    pub publishers: Publishers,
    /// Journals are kept.
    is_restartable: bool,
    /// Notified after each publication.
    published: Condvar,
    pub host: Arc<dyn Host>,
    pub wake: EventFd,
    pub own: Mutex<OwnRequests>,
    pub stop: AtomicBool,
    /// Callbacks of calls that have not returned, for the server's thread.
    held: Mutex<Vec<(Returned, Task)>>,
    pub journal: Mutex<Journal>,
    /// The process whose server this is. A forked child has a copy.
    process: u32,
    client: OnceLock<Weak<Client>>,
    thread: OnceLock<ThreadNumber>,
    /// The pipe from the process that started this one, until the server's thread watches it.
    pub starter: Mutex<Option<OwnedFd>>,
}

impl SharedState {
    /// The state of a server that has no client and no thread yet.
    pub fn new(config: Config, port: u16, host: Arc<dyn Host>, wake: EventFd) -> Arc<SharedState> {
        Arc::new_cyclic(|this: &Weak<SharedState>| SharedState {
            publishers: Publishers::new(&config),
            is_restartable: config.restart.is_some(),
            published: Condvar::new(),
            engine: EngineLock::new(Engine::new(config, port, this.clone())),
            host,
            wake,
            own: Mutex::default(),
            stop: AtomicBool::new(false),
            held: Mutex::default(),
            process: std::process::id(),
            journal: Mutex::default(),
            client: OnceLock::new(),
            thread: OnceLock::new(),
            starter: Mutex::default(),
        })
    }

    /// Sets the client that this process is of itself; once.
    pub fn set_client(&self, client: &Arc<Client>) {
        let _ = self.client.set(Arc::downgrade(client));
    }

    /// The calling thread is the server's; once.
    pub fn begin_thread(&self) {
        let _ = self.thread.set(ThreadNumber::current());
    }

    /// Feeds the engine; the server's thread performs the outputs.
    pub fn feed<R>(&self, feed: impl FnOnce(&mut Engine) -> R) -> R {
        let mut engine = self.engine.lock();
        let result = feed(&mut engine);
        self.hand_over(engine);
        result
    }

    /// Releases the engine and wakes the server's thread, if that has to do anything for it before it wakes by itself.
    fn hand_over(&self, engine: EngineGuard<'_>) {
        let is_awaited = engine.needs_thread();
        drop(engine);
        if is_awaited {
            self.wake();
        }
    }

    /// Writes to the journals what the engine has noted. Comes before the messages that the notes precede.
    pub fn write_journals(&self) {
        if !self.is_restartable {
            return;
        }
        let failed = self.publishers.write_journals(|exists| self.engine.lock().take_journal(exists));
        for (number, path, why) in failed {
            self.engine.lock().journal_failed(number);
            self.log(&no_journal(&path, &why));
        }
    }

    /// Takes what servers that were killed have left.
    pub fn inherit(&self, estates: Estates) {
        estates.lines.iter().for_each(|line| self.log(line));
        self.publishers.inherit(estates.directories);
        self.engine.lock().expect_again(estates.estates);
    }

    /// Performs a plan of the engine; a large one on the publisher's own thread, so that this thread can serve other clients.
    pub fn publish(self: &Arc<SharedState>, plan: Plan) {
        let shared = Arc::clone(self);
        let own_thread = move |plan| {
            shared.publish_here(plan);
            shared.wake();
        };
        if let Err(plan) = self.publishers.hand_over(plan, own_thread) {
            self.publish_here(plan);
        }
    }

    fn publish_here(&self, plan: Plan) {
        let mut next = Some(plan);
        while let Some(plan) = next {
            let directory = plan.directory;
            // The message of a panic has been written; threads that wait for this plan must not wait for ever.
            let written = panic::catch_unwind(AssertUnwindSafe(|| self.publishers.carry_out(plan)));
            let published = written.unwrap_or(Published { directory, written: None, log: Vec::new() });
            let mut engine = self.engine.lock();
            engine.published(published);
            // The server may have ended meanwhile: then this thread must remove the directory.
            next = engine.take_removal(directory);
        }
        self.published.notify_all();
    }

    /// Performs publications on this thread. If another thread performs one, waits for it, if `waits`. The server's thread performs the
    /// outputs of the operation that requested them.
    pub fn await_published(&self, tickets: &[Ticket], waits: bool) {
        let mut engine = self.engine.lock();
        for ticket in tickets {
            while !engine.is_published(ticket) {
                if let Some(plan) = engine.take_plan(ticket.directory) {
                    drop(engine);
                    self.publish_here(plan);
                    engine = self.engine.lock();
                } else if waits {
                    // The outputs so far do not wait for the publication. The lock is held, so that its end is not missed.
                    if engine.needs_thread() {
                        self.wake();
                    }
                    engine.wait(&self.published);
                } else {
                    break;
                }
            }
        }
        self.hand_over(engine);
    }

    /// Waits for threads of the host that carry out plans: a server that has ended has no files and owes no callbacks.
    pub fn await_threads_of_host(&self) {
        let mut engine = self.engine.lock();
        while engine.is_under_way() {
            engine.wait(&self.published);
        }
    }

    /// Runs `task` on the server's thread, or during finalize; returns it if the server has ended.
    pub fn later(&self, task: Task) -> Result<(), Task> {
        let mut engine = self.engine.lock();
        if engine.is_ended() {
            return Err(task);
        }
        engine.defer(task);
        drop(engine);
        self.wake();
        Ok(())
    }

    /// Runs `task`, a callback, once the call that requested it has returned. Does not wait: the server's thread calls this, which the call
    /// may need, or a thread of the host that answers a spawn.
    pub fn after(&self, returned: Returned, task: Task) {
        if returned.is_over_soon() {
            return task();
        }
        if self.engine.lock().is_ended() {
            // Nobody looks at held callbacks any more, and no operation is pending: the call returns soon.
            returned.wait();
            return task();
        }
        self.held.lock().push((returned, task));
        self.wake();
    }

    /// Runs the callbacks whose calls have returned; returns whether others are left.
    pub fn run_held(&self) -> bool {
        if self.held.lock().is_empty() {
            return false;
        }
        let over: Vec<_> = self.held.lock().extract_if(.., |(returned, _)| returned.is_over()).collect();
        over.into_iter().for_each(|(_, job)| job());
        !self.held.lock().is_empty()
    }

    /// Runs the remaining callbacks when the server ends, after their calls have returned. No operation is pending any
    /// more, so these calls return soon.
    pub fn run_last_held(&self) {
        for (returned, job) in std::mem::take(&mut *self.held.lock()) {
            returned.wait();
            job();
        }
    }

    /// Wraps a callback so that it does not run before the current call has returned.
    pub fn after_call(self: &Arc<SharedState>, callback: impl FnOnce() + Send + 'static) -> Task {
        let Some(returned) = Returned::of_this_call() else { return Box::new(callback) };
        let shared = Arc::downgrade(self);
        Box::new(move || match shared.upgrade() {
            Some(shared) => shared.after(returned, Box::new(callback)),
            None => callback(),
        })
    }

    /// Wakes the server's thread. That thread itself must do so, too: a held callback may run after it has taken the outputs.
    pub fn wake(&self) {
        // The counter cannot be full in practice, and then the thread is awake already.
        let _ = self.wake.write(1);
    }

    /// Whether this is the server's thread: inside an upcall or a callback.
    pub fn is_own_thread(&self) -> bool {
        self.thread.get() == Some(&ThreadNumber::current())
    }

    /// Whether this is the process whose server this is.
    pub fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// One line for the administrator: something has gone wrong.
    #[track_caller]
    pub fn log(&self, line: &str) {
        self.log_for(Reason::here(), line);
    }

    /// The same with a rate limit per reason; lines beyond it are only counted.
    pub fn log_for(&self, reason: Reason, line: &str) {
        if self.journal.lock().admits(reason, line, Instant::now()) {
            log(line);
        }
    }

    /// Logs the counts of suppressed lines; all of them at the end of the server.
    pub fn log_withheld(&self, now: Option<Instant>) {
        let lines = self.journal.lock().summary(now);
        lines.iter().for_each(|line| log(line));
    }

    /// Tells the own event handlers that the process that started this one has ended.
    pub fn starter_ended(&self) {
        if let Some(client) = self.client.get().and_then(Weak::upgrade) {
            client.deliver(keepalive::ended(client.me().clone()));
        }
    }

    /// Writes output to this process's own stdout and stderr, if the host asked for that.
    pub fn show(&self, output: IoDelivery) {
        if let Some(client) = self.client.get().and_then(Weak::upgrade) {
            client.take_output(output);
        }
    }

    /// A message for the process's own client: a reply or an event.
    pub fn own_message(&self, tag: u32, payload: Vec<u8>) {
        let dialect = Dialect::plain(Module::V41);
        let client = self.client.get().and_then(Weak::upgrade);
        match (tag, client) {
            (TAG_NOTIFY, Some(client)) => {
                if let Ok(notification) = Notification::decode(dialect, &payload) {
                    client.deliver(Event {
                        status: notification.status,
                        source: notification.source,
                        infos: notification.infos.into(),
                        results: Arc::from([]),
                    });
                }
            }
            (TAG_IOF, Some(client)) => {
                if let Ok(output) = IoDelivery::decode(dialect, &payload) {
                    client.take_output(output);
                }
            }
            (TAG_NOTIFY | TAG_IOF, None) => {}
            _ => OwnRequests::answer(&self.own, tag, Ok(payload)),
        }
    }
}

impl AnswerSink for SharedState {
    fn answer(&self, id: u64, answer: UpcallResult) -> Option<Task> {
        let (left, spawned) = self.feed(|engine| {
            let own_spawn = engine.own_spawn(id).filter(|_| !self.is_own_thread());
            engine.answer(id, answer);
            let spawned = own_spawn.and_then(|tag| Some((tag, engine.take_own_reply(tag)?)));
            (if engine.is_ended() { engine.take_outputs() } else { VecDeque::new() }, spawned)
        });
        for output in left {
            // The server's thread has ended, and the host needs its memory back.
            if let Output::Call(call) = output {
                call();
            }
        }
        let (tag, reply) = spawned?;
        let taker = self.own.lock().take(tag)?;
        Some(Box::new(move || taker.take(Ok(reply))))
    }

    fn defer(&self, task: Task) {
        if let Err(task) = self.later(task) {
            // The server's thread has ended.
            task();
        }
    }
}
