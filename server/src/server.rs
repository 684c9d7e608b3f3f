//! The host's interface of a server.

use std::collections::VecDeque;
use std::ffi::{CString, OsString};
use std::fmt::Display;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Instant;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, SigmaskHow};
use parking_lot::{Condvar, Mutex};
use pmix_client::output::Format;
use pmix_client::{Call, Client, Event, Returned, Task};
use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::fallible_alloc;
use pmix_dstore::job::{self, Given, ProcTable, Refused};
use pmix_dstore::model::attributes::check_required;
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Regattr, Result, Status, Value, keys};
use pmix_wire::{FlowControl, IoDelivery, Notification, TAG_IOF, TAG_NOTIFY};

use crate::Host;
use crate::application;
use crate::completion::{AnswerSink, UpcallResult};
use crate::config::{self, Config};
use crate::engine::{Engine, JobPlan, Output, PeerId, Plan, Published, Range, Sender, Ticket};
use crate::engine_lock::EngineLock;
use crate::fork;
use crate::io::Loop;
use crate::journal::{Journal, Reason};
use crate::link::{OwnLink, OwnRequests};
use crate::publisher::Publishers;
use crate::rendezvous::Rendezvous;
use crate::report::{DmodexDone, OpDone, SetupDone, Stats};
use crate::topology;

/// State shared by the API, the server's thread and the process's own client.
pub(crate) struct Inner {
    pub engine: EngineLock,
    pub publishers: Publishers,
    /// Notified after each publication.
    published: Condvar,
    pub host: Arc<dyn Host>,
    pub wake: EventFd,
    pub own: Mutex<OwnRequests>,
    pub stop: AtomicBool,
    /// Callbacks of calls that have not returned, for the server's thread.
    held: Mutex<Vec<(Returned, Task)>>,
    pub journal: Mutex<Journal>,
    client: OnceLock<Weak<Client>>,
    thread: OnceLock<ThreadId>,
}

impl Inner {
    /// Feeds the engine and wakes the server's thread, which performs the outputs.
    pub fn feed<R>(&self, feed: impl FnOnce(&mut Engine) -> R) -> R {
        let result = feed(&mut self.engine.lock());
        self.wake();
        result
    }

    /// Performs a plan of the engine; a large one on the publisher's own thread, so that this thread can serve other clients.
    pub fn publish(self: &Arc<Inner>, plan: Plan) {
        let inner = Arc::clone(self);
        let own_thread = move |plan| {
            inner.publish_here(plan);
            inner.wake();
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

    /// Performs publications on this thread. If another thread performs one, waits for it, if `waits`.
    pub fn await_published(&self, tickets: &[Ticket], waits: bool) {
        for ticket in tickets {
            let mut engine = self.engine.lock();
            while !engine.is_published(ticket) {
                if let Some(plan) = engine.take_plan(ticket.directory) {
                    drop(engine);
                    self.publish_here(plan);
                    engine = self.engine.lock();
                } else if waits {
                    // Wake the server's thread to send the operation's outputs so far.
                    self.wake();
                    engine.wait(&self.published);
                } else {
                    break;
                }
            }
        }
        self.wake();
    }

    /// Waits for threads of the host that carry out plans: a server that has ended has no files and owes no callbacks.
    fn await_threads_of_host(&self) {
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

    /// Runs `task`, a callback, once the call that requested it has returned. The server's thread calls this and does not wait, because
    /// the call may need it.
    pub fn after(&self, returned: Returned, task: Task) {
        if returned.is_over_soon() {
            task();
        } else {
            self.held.lock().push((returned, task));
        }
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
    fn run_last_held(&self) {
        for (returned, job) in std::mem::take(&mut *self.held.lock()) {
            returned.wait();
            job();
        }
    }

    /// Wraps a callback so that it does not run before the current call has returned.
    fn after_call(self: &Arc<Inner>, callback: impl FnOnce() + Send + 'static) -> Task {
        let Some(returned) = Returned::of_this_call() else { return Box::new(callback) };
        let inner = Arc::downgrade(self);
        Box::new(move || match inner.upgrade() {
            Some(inner) => inner.after(returned, Box::new(callback)),
            None => callback(),
        })
    }

    /// Wakes the server's thread.
    pub fn wake(&self) {
        // The counter cannot be full in practice, and then the thread is awake already.
        let _ = self.wake.write(1);
    }

    /// Whether this is the server's thread: inside an upcall or a callback.
    pub fn is_own_thread(&self) -> bool {
        self.thread.get() == Some(&thread::current().id())
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

/// One line for the administrator.
fn log(line: &str) {
    pmix_dstore::file_ban::check();
    let line = format!("pmix-dstore server {}: {}\n", std::process::id(), one_line(line));
    // In one piece, since the daemons of a job may share a terminal. A daemon may have closed its stderr; there is
    // nowhere else to complain.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Logs the step at which a server could not start, and returns the status for its host.
fn did_not_start(step: &str, error: impl Display) -> Status {
    log(&format!("cannot start: {step}: {error}"));
    Status::ERR_OUT_OF_RESOURCE
}

/// Escapes control characters, which names of peers may contain, and limits the length of a line.
fn one_line(text: &str) -> String {
    /// Longer than any path.
    const LEN_MAX: usize = 6000;
    let escaped = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().take(LEN_MAX).map(escaped).collect()
}

impl AnswerSink for Inner {
    fn answer(&self, id: u64, answer: UpcallResult) {
        let left = self.feed(|engine| {
            engine.answer(id, answer);
            if engine.is_ended() { engine.take_outputs() } else { VecDeque::new() }
        });
        for output in left {
            // The server's thread has ended, and the host needs its memory back.
            if let Output::Call(call) = output {
                call();
            }
        }
    }

    fn defer(&self, task: Task) {
        if let Err(task) = self.later(task) {
            // The server's thread has ended.
            task();
        }
    }
}

/// The result of [`Server::setup_application`]; for launchers that are tools without a server.
///
/// # Errors
/// `NOT_SUPPORTED` if the infos require something of a fabric.
pub fn setup_of_application(infos: &[Info]) -> Result<Vec<Info>> {
    if application::needs_fabric(infos) || check_required(infos).is_err() {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    Ok(application::variables(infos, std::env::vars_os()))
}

/// A PMIx server.
///
/// ```
/// use std::sync::Arc;
///
/// use pmix_dstore::model::{Nspace, Proc, Rank, Status, attributes};
/// use pmix_server::{Host, Server};
///
/// struct Launcher;
/// impl Host for Launcher {}
///
/// let server = Server::init(Arc::new(Launcher), &[attributes::HOSTNAME.info("n1")])?;
/// let job = Nspace::new("job").expect("a name");
/// let infos = vec![attributes::NODE_MAP.info("n1"), attributes::PROC_MAP.info("0,1")];
/// // Without a callback, calls are complete when they return, and return this status.
/// assert_eq!(server.register_nspace(job.clone(), 2, infos, None), Status::OPERATION_SUCCEEDED);
/// for rank in 0..2 {
///     let rank = Proc::new(job.clone(), Rank(rank));
///     let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
///     assert_eq!(server.register_client(rank.clone(), uid, gid, 0, None), Status::OPERATION_SUCCEEDED);
///     // Set these in the rank's environment: the rank finds the server by them.
///     let variables = server.setup_fork(&rank)?;
///     assert!(variables.iter().any(|(name, value)| name == "PMIX_RANK" && *value == *rank.rank.0.to_string()));
/// }
/// server.finalize();
/// # Ok::<(), Status>(())
/// ```
pub struct Server {
    inner: Arc<Inner>,
    client: Arc<Client>,
    me: Proc,
    hostname: String,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Values about the node for all jobs.
    told: Vec<Info>,
    /// Output is written to this process's own, too.
    shows_output: bool,
    /// How tools find the server.
    rendezvous: Mutex<Rendezvous>,
    /// Detects a forked child, which has neither the server's thread nor a right to its files.
    pid: u32,
}

impl Server {
    /// Starts a server: its listener, its thread, and its own client.
    ///
    /// `infos` are the attributes of `PMIx_server_init`. The machine's topology as XML among them (`PMIX_HWLOC_XML_V2`, `PMIX_HWLOC_XML_V1`,
    /// `PMIX_LOCAL_TOPO`) becomes a value of all jobs, unless their registration has it; with `PMIX_SERVER_SHARE_TOPOLOGY` the server reads it.
    ///
    /// # Errors
    /// `BAD_PARAM` for attributes of a wrong type, `NOT_SUPPORTED` for one that is refused and marked as required,
    /// `OUT_OF_RESOURCE` if there are no descriptors or threads or the port is in use, `NOMEM`;
    /// `INIT` if the URI cannot be reported as the host requests. A logged line names the step that failed, with the system's error.
    pub fn init(host: Arc<dyn Host>, infos: &[Info]) -> Result<Arc<Server>> {
        Server::start(host, infos, 0)
    }

    /// As [`Server::init`], for a server that had `connections` connections before.
    fn start(host: Arc<dyn Host>, infos: &[Info], connections: u64) -> Result<Arc<Server>> {
        fallible_alloc::reserve_emergency()?;
        let config = Config::read(infos)?;
        let (refused, is_needed) = config::refused(infos);
        refused.iter().for_each(|line| log(line));
        if is_needed {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let format = Format::read(infos)?;
        // Before the thread starts: an error must not leave it running.
        let told = topology::told(infos, log)?;
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, config.port))
            .map_err(|error| did_not_start(&format!("listen on 127.0.0.1, port {}", config.port), error))?;
        let port = tcp.local_addr().map_err(|error| did_not_start("read the listener's port", error))?.port();
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_flags(flags).map_err(|error| did_not_start("open an eventfd", error))?;
        let (me, hostname) = (config.me.clone(), config.hostname.clone());
        let (settings, uri) = (config.clone(), crate::env::uri(&config, port));
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| Inner {
            publishers: Publishers::new(&config),
            published: Condvar::new(),
            engine: EngineLock::new(Engine::new(config, port, inner.clone())),
            host,
            wake,
            own: Mutex::default(),
            stop: AtomicBool::new(false),
            held: Mutex::default(),
            journal: Mutex::default(),
            client: OnceLock::new(),
            thread: OnceLock::new(),
        });
        let link = Arc::new(OwnLink(Arc::downgrade(&inner)));
        let client = Arc::new(Client::with_link(me.clone(), hostname.clone().into_bytes(), uri, link));
        // Set once, here.
        let _ = inner.client.set(Arc::downgrade(&client));
        let serving =
            Loop::new(inner.clone(), tcp, connections).map_err(|error| did_not_start("watch the listeners", error))?;
        let own = inner.clone();
        // The host's signals are for the host's threads: ours is born with all of them blocked.
        let blocked = |error| did_not_start("block signals", error);
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(blocked)?;
        let thread = thread::Builder::new().name("pmix-server".into()).spawn(move || {
            let _ = own.thread.set(thread::current().id());
            drop(own);
            serving.run();
        });
        mask.thread_set_mask().map_err(blocked)?;
        let thread = Mutex::new(Some(thread.map_err(|error| did_not_start("start a thread", error))?));
        let shows_output = Info::is_set(infos, keys::IOF_LOCAL_OUTPUT);
        if shows_output {
            client.show_output(format);
        }
        let rendezvous = Mutex::default();
        let pid = std::process::id();
        let server = Server { inner, client, me, hostname, thread, told, shows_output, rendezvous, pid };
        // Only now, so that readers of the files find a server that answers.
        let rendezvous = Rendezvous::open(&settings, port, |line| server.inner.log(&line));
        *server.rendezvous.lock() = rendezvous.map_err(|(path, error)| {
            server
                .inner
                .log(&format!("{}: {error}; the address of this server cannot be reported there", path.display()));
            Status::ERR_INIT
        })?;
        Ok(Arc::new(server))
    }

    /// The server process as a client of itself: every client call works there.
    pub fn client(&self) -> Arc<Client> {
        self.client.clone()
    }

    /// Whether this process started it; a forked child has but a copy.
    pub fn is_of_this_process(&self) -> bool {
        std::process::id() == self.pid
    }

    /// The server's own name.
    pub fn me(&self) -> &Proc {
        &self.me
    }

    /// Feeds the engine and performs the publications that it requests. With `done` the result is passed to it, on the server's
    /// thread, after the host's call has returned.
    fn operate(&self, done: Option<OpDone>, operation: impl FnOnce(&mut Engine) -> Status) -> Status {
        if self.inner.is_stopped() {
            return Status::ERR_INIT;
        }
        let _call = Call::begin();
        let has_callback = done.is_some();
        let (status, tickets) = {
            let mut engine = self.inner.engine.lock();
            let (status, tickets) = engine.recording(operation);
            if let Some(done) = done {
                engine.call_after(tickets.clone(), self.inner.after_call(move || done(status)));
            }
            (status, tickets)
        };
        // Writes the files on this thread, without the engine's lock.
        self.inner.await_published(&tickets, !has_callback);
        match status {
            _ if has_callback => Status::SUCCESS,
            status if status.is_success() => Status::OPERATION_SUCCEEDED,
            status => status,
        }
    }

    /// Registers a job with its data; again with more data, or `PMIX_REGISTER_NODATA`.
    ///
    /// With `done`: answers `SUCCESS` and calls it later. Without: `OPERATION_SUCCEEDED`.
    pub fn register_nspace(&self, nspace: Nspace, nlocal: i32, infos: Vec<Info>, done: Option<OpDone>) -> Status {
        self.register_nspace_with(nspace, nlocal, infos, ProcTable::default(), done)
    }

    /// As [`Server::register_nspace`], with the data of the processes as a table that was read already: `procs` precedes `infos`,
    /// see [`Given`].
    pub fn register_nspace_with(
        &self,
        nspace: Nspace,
        nlocal: i32,
        mut infos: Vec<Info>,
        procs: ProcTable,
        done: Option<OpDone>,
    ) -> Status {
        if nspace.is_empty() {
            // Everywhere else the empty name means the caller's own namespace.
            return Status::ERR_BAD_PARAM;
        }
        let known = self.inner.engine.lock().job(&nspace);
        // The host's values for this job take precedence.
        let told = self.told.iter().filter(|told| !infos.iter().any(|info| info.key == told.key));
        match told.map(Info::copy).collect::<Result<Vec<_>>>() {
            Ok(told) => infos.extend(told),
            Err(status) => return status,
        }
        // Without the lock, which the clients' requests need: reading a large job takes long.
        match JobPlan::read(&nspace, nlocal, Given { infos: &infos, procs }, known, &self.hostname) {
            Ok(plan) => {
                let others = self.read_others(&nspace, &infos);
                self.operate(done, |engine| {
                    let status = engine.register_nspace(plan);
                    others.into_iter().for_each(|other| engine.describe_nspace(other, &nspace));
                    status
                })
            }
            Err(refused) => {
                self.inner.log(&format!("job {nspace} is not registered: {refused}"));
                refused.status
            }
        }
    }

    /// Reads the descriptions of other jobs of the session in the registration of `nspace`. A job that is registered itself is skipped;
    /// an invalid description is logged.
    fn read_others(&self, nspace: &Nspace, infos: &[Info]) -> Vec<JobPlan> {
        let mut plans = Vec::new();
        for other in job::other_jobs(nspace, infos) {
            let Some(known) = self.inner.engine.lock().may_describe(&other.nspace) else { continue };
            let plan = other.infos().map_err(Refused::from).and_then(|infos| {
                let given = Given { infos: &infos, procs: ProcTable::default() };
                JobPlan::read(&other.nspace, 0, given, known, &self.hostname)
            });
            match plan {
                Ok(plan) => plans.push(plan),
                Err(refused) => self
                    .inner
                    .log(&format!("the description of job {} by job {nspace} is ignored: {refused}", other.nspace)),
            }
        }
        plans
    }

    /// Removes a job and everything that belongs to it.
    pub fn deregister_nspace(&self, nspace: &Nspace, done: Option<OpDone>) -> Status {
        let _call = Call::begin();
        let status = self.operate(done, |engine| engine.deregister_nspace(nspace));
        self.inner.feed(Engine::free_discarded);
        status
    }

    /// Registers values that all jobs have.
    pub fn register_resources(&self, infos: Vec<Info>, done: Option<OpDone>) -> Status {
        self.operate(done, |engine| engine.register_resources(infos))
    }

    /// Removes the values with these keys from all jobs.
    pub fn deregister_resources(&self, infos: &[Info], done: Option<OpDone>) -> Status {
        self.operate(done, |engine| engine.deregister_resources(infos))
    }

    /// Registers the attributes that the host supports in a function, for queries.
    ///
    /// # Errors
    /// `ERR_INIT` if the server has ended; `ERR_REPEAT_ATTR_REGISTRATION` for a function that was registered already.
    pub fn register_attributes(&self, function: CString, attributes: Vec<Regattr>) -> Result<()> {
        match self.operate(None, |engine| engine.register_attributes(function, attributes)) {
            Status::OPERATION_SUCCEEDED => Ok(()),
            failed => Err(failed),
        }
    }

    /// The data of the processes' jobs, packed for another server.
    ///
    /// # Errors
    /// `ERR_INIT` if the server has ended; `ERR_BAD_PARAM` for no processes; `ERR_NOMEM`.
    pub fn collect_job_info(&self, procs: &[Proc]) -> Result<Vec<u8>> {
        if self.inner.is_stopped() {
            return Err(Status::ERR_INIT);
        }
        self.inner.engine.lock().collect_job_info(procs)
    }

    /// Registers a process that will be started on this node. `object` comes back in upcalls.
    pub fn register_client(&self, proc: Proc, uid: u32, gid: u32, object: usize, done: Option<OpDone>) -> Status {
        self.operate(done, |engine| engine.register_client(&proc, uid, gid, object))
    }

    /// Forgets a process.
    pub fn deregister_client(&self, proc: &Proc, done: Option<OpDone>) -> Status {
        self.operate(done, |engine| engine.deregister_client(proc))
    }

    /// The environment variables that a client must be started with. The client may be registered only later; if this is called
    /// in a forked child then, see [`Server::will_fork`], that client uses TCP and no shared memory.
    ///
    /// # Errors
    /// `ERR_INIT` if the server has ended.
    pub fn setup_fork(&self, proc: &Proc) -> Result<Vec<(String, OsString)>> {
        if self.inner.is_stopped() {
            return Err(Status::ERR_INIT);
        }
        Ok(fork::setup_fork(&self.inner, proc))
    }

    /// Call before this process forks, if the child requests the environment of a client. [`Server::has_forked`] must follow in
    /// the same thread of the parent.
    pub fn will_fork(&self) {
        fork::hold(&self.inner.engine);
    }

    /// Call in the parent after the fork.
    pub fn has_forked() {
        fork::let_go();
    }

    /// Collects data for the start of a job described by `infos` on every node: variables of this process's environment. The host
    /// sets them itself.
    pub fn setup_application(&self, infos: &[Info], done: SetupDone) -> Status {
        if self.inner.is_stopped() {
            return Status::ERR_INIT;
        }
        match setup_of_application(infos) {
            Ok(variables) => {
                let _call = Call::begin();
                let done = self.inner.after_call(move || done(variables));
                self.inner.feed(|engine| engine.defer(done));
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    /// Prepares this node for a job, with the result of [`Server::setup_application`] on the node that started it. The host sets
    /// the variables itself; without support for fabrics there is nothing else to prepare.
    pub fn setup_local_support(&self, done: Option<OpDone>) -> Status {
        self.operate(done, |_| Status::SUCCESS)
    }

    /// Takes an inventory of nodes. It is ignored, because this library allocates no networks.
    pub fn take_inventory(&self, done: Option<OpDone>) -> Status {
        self.operate(done, |_| Status::SUCCESS)
    }

    /// Notifies processes of this node, also later ones, of a process set that the host has defined.
    pub fn define_process_set(&self, name: CString, members: Vec<Proc>) -> Status {
        self.inner.engine.lock().set_process_set(name.clone(), Some(members.clone()));
        let members = Info::new(keys::PSET_MEMBERS, Value::procs(members));
        self.tell_of_set(Status::PROCESS_SET_DEFINE, name, Some(members))
    }

    /// Notifies processes of this node that the host has deleted a process set.
    pub fn delete_process_set(&self, name: CString) -> Status {
        self.inner.engine.lock().set_process_set(name.clone(), None);
        self.tell_of_set(Status::PROCESS_SET_DELETE, name, None)
    }

    fn tell_of_set(&self, code: Status, name: CString, members: Option<Info>) -> Status {
        let mut infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(keys::PSET_NAME, Value::String(Some(name))),
        ];
        infos.extend(members);
        self.notify_event(code, self.me.clone(), Range::LOCAL, infos, None)
    }

    /// Delivers output of a process to the clients that pull it; without a receiver it is kept for a while. Empty data mark the end.
    pub fn deliver_output(
        &self,
        source: Proc,
        channel: u16,
        data: Vec<u8>,
        infos: Vec<Info>,
        done: Option<OpDone>,
    ) -> Status {
        let own = self.shows_output.then(|| fallible_alloc::copy(&data)).transpose();
        let Ok(own) = own else { return Status::ERR_NOMEM };
        if let Some(data) = own {
            let output = IoDelivery { source: source.clone(), channel, handler: 0, infos: Vec::new(), data };
            let client = self.client.clone();
            self.inner.feed(|engine| engine.defer(Box::new(move || client.take_output(output))));
        }
        self.operate(done, |engine| engine.deliver_output(source, channel, data, infos))
    }

    /// Flow control: pauses or resumes the clients that push input, or one of them.
    pub fn control_input(
        &self,
        source: Option<Proc>,
        channel: u16,
        is_off: bool,
        infos: Vec<Info>,
        done: Option<OpDone>,
    ) -> Status {
        let Ok(anybody) = Nspace::new("") else { return Status::ERR_BAD_PARAM };
        let source = source.unwrap_or_else(|| Proc::new(anybody, Rank::WILDCARD));
        let control = FlowControl { source, channel, is_off, infos };
        self.operate(done, |engine| engine.control_input(&control, |control| self.client.control_input(control)))
    }

    /// Requests the committed values of a local process for another server; waits for its commit.
    pub fn dmodex_request(&self, proc: Proc, done: DmodexDone) -> Status {
        if self.inner.is_stopped() {
            return Status::ERR_INIT;
        }
        let _call = Call::begin();
        let done = match Returned::of_this_call() {
            None => done,
            Some(returned) => {
                let inner = Arc::downgrade(&self.inner);
                Box::new(move |status, data| match inner.upgrade() {
                    Some(inner) => inner.after(returned, Box::new(move || done(status, data))),
                    None => done(status, data),
                })
            }
        };
        self.inner.feed(|engine| engine.dmodex_request(proc, done))
    }

    /// Notifies the clients of this node, and the process's own handlers, of an event that `source` caused or reported.
    ///
    /// The host gets no upcall, because the event comes from it. `range` is a `pmix_data_range_t`.
    pub fn notify_event(
        &self,
        code: Status,
        source: Proc,
        range: u8,
        infos: Vec<Info>,
        done: Option<OpDone>,
    ) -> Status {
        let client = self.client.clone();
        let copies = match Info::copies(&infos) {
            Ok(copies) => copies,
            Err(status) => return status,
        };
        self.operate(done, |engine| {
            engine.deliver_event(Sender::Peer(PeerId::OWN), code, &source, range, copies, Instant::now());
            let event = Event::new(code, source, infos);
            engine.defer(Box::new(move || client.deliver(event)));
            Status::SUCCESS
        })
    }

    /// Figures for reports.
    pub fn stats(&self) -> Stats {
        self.inner.engine.lock().stats()
    }

    /// Ends the server: clients see a lost connection, files are removed, the thread ends. Messages that have arrived are handled before:
    /// the host's handlers may still be called for the last lost process, which would go unreported otherwise. After the return no
    /// function of the host is called any more.
    ///
    /// In a forked child it ends only the child's copy of the state: thread and files belong to the parent.
    pub fn finalize(&self) -> Status {
        if self.inner.stop.swap(true, Ordering::AcqRel) {
            return Status::ERR_INIT;
        }
        if !self.is_of_this_process() {
            // Forgotten, because a drop would remove the parent's files. `try_lock`, because a thread that held the lock does not exist here.
            if let Some(mut rendezvous) = self.rendezvous.try_lock() {
                std::mem::forget(std::mem::take(&mut *rendezvous));
            }
            return Status::SUCCESS;
        }
        *self.rendezvous.lock() = Rendezvous::default();
        self.inner.wake();
        let thread = self.thread.lock().take();
        if !self.inner.is_own_thread()
            && let Some(thread) = thread
        {
            // A panic of the thread has been reported by its own message.
            let _ = thread.join();
        }
        self.inner.publishers.finish();
        // The own client's link is this server: the call cannot fail.
        let _ = self.client.finalize(&[]);
        let mut rest = self.inner.engine.lock().shut_down();
        OwnRequests::close(&self.inner.own);
        self.inner.run_last_held();
        loop {
            for output in rest {
                match output {
                    Output::CleanUp((uid, gid), cleanup) => cleanup.run(uid, gid),
                    Output::Call(call) => call(),
                    Output::Log(reason, line) => self.inner.log_for(reason, &line),
                    Output::Publish(directory) => {
                        let plan = self.inner.engine.lock().take_plan(directory);
                        plan.into_iter().for_each(|plan| self.inner.publish(plan));
                    }
                    _ => {}
                }
            }
            self.inner.run_last_held();
            self.inner.await_threads_of_host();
            // Outputs that these calls have produced.
            rest = self.inner.engine.lock().take_last_outputs();
            if rest.is_empty() {
                self.inner.log_withheld(None);
                return Status::SUCCESS;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.finalize();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;
    use std::net::{SocketAddr, TcpStream};
    use std::time::Duration;

    use crossbeam::channel::unbounded;
    use nix::unistd::{getegid, geteuid};
    use pmix_dstore::codec::BufferType;
    use pmix_dstore::model::{Bytes, Key, Pdata, Value, keys};
    use pmix_wire::{Header, Hello, PeerKind, Request, Version};

    use super::*;
    use crate::Completion;

    impl Server {
        pub(crate) fn inner(&self) -> &Arc<Inner> {
            &self.inner
        }
    }

    /// A host that never answers.
    pub(crate) struct Silent;

    impl Host for Silent {
        fn lookup(&self, _: &Proc, _: &[Key], _: &[Info], _: Completion<(Status, Vec<Pdata>)>) -> Status {
            Status::SUCCESS
        }
    }

    #[test]
    fn names_of_peers_stay_within_their_log_line() {
        assert_eq!(one_line("a\nserver 1: b\u{1b}[2J"), "a\\nserver 1: b\\u{1b}[2J");
        assert_eq!(one_line(&"\n".repeat(100_000)).len(), 12_000);
    }

    #[test]
    fn finalize_ends_calls_of_the_servers_own_process_that_wait() {
        let server = Server::init(Arc::new(Silent), &[]).unwrap();
        let client = server.client();
        let (sender, receiver) = unbounded();
        let waiting = thread::spawn(move || {
            sender.send(()).unwrap();
            client.lookup(vec![c"never".into()], Vec::new()).wait().map(drop)
        });
        receiver.recv().unwrap();
        while server.inner.own.lock().is_empty() {
            thread::yield_now();
        }
        server.finalize();
        assert_eq!(waiting.join().unwrap(), Err(Status::ERR_LOST_CONNECTION));
        let later = server.client().lookup(vec![c"never".into()], Vec::new()).wait();
        assert_eq!(later.map(drop), Err(Status::ERR_UNREACH));
    }

    #[test]
    fn host_buffers_are_released_at_once_after_finalize() {
        let server = Server::init(Arc::new(Silent), &[]).unwrap();
        server.finalize();
        let (told, given_back) = unbounded();
        struct Lent(crossbeam::channel::Sender<()>);
        impl AsRef<[u8]> for Lent {
            fn as_ref(&self) -> &[u8] {
                &[]
            }
        }
        impl Drop for Lent {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        server.inner.answer(1, UpcallResult::Data(Status::SUCCESS, Bytes::external(Lent(told))));
        assert_eq!(given_back.try_recv(), Ok(()));
    }

    #[test]
    fn a_server_knows_itself_and_where_it_listens() {
        let server = Server::init(Arc::new(Silent), &[]).unwrap();
        let (client, me) = (server.client(), server.me().clone());
        let nobody = Proc { nspace: me.nspace.clone(), rank: Rank::UNDEF };
        assert_eq!(client.get_value(&nobody, keys::PROCID, &[]), Ok(Value::Proc(me.clone())));
        let port = address(&server, &me).port();
        let uri = Value::string(format!("{}.{};tcp4://127.0.0.1:{port}", me.nspace, me.rank));
        assert_eq!(client.get_value(&me, keys::SERVER_URI, &[]), Ok(uri.clone()));
        assert_eq!(client.get_value(&me, keys::MYSERVER_URI, &[]), Ok(uri));
        server.finalize();
    }

    /// The address of a server for stock clients.
    fn address(server: &Server, proc: &Proc) -> SocketAddr {
        let env = server.setup_fork(proc).unwrap();
        let uri = &env.iter().find(|(name, _)| name == "PMIX_SERVER_URI41").unwrap().1;
        uri.to_str().unwrap().split_once("tcp4://").unwrap().1.parse().unwrap()
    }

    /// The connection of an admitted stock client.
    pub(crate) fn connected(server: &Server, proc: &Proc) -> TcpStream {
        let mut stream = TcpStream::connect(address(server, proc)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let hello = Hello {
            psec: "native".into(),
            credential: Hello::native_credential(0, 0),
            flag: PeerKind::Client as u8,
            uid_gid: None,
            proc: Some(proc.clone()),
            version: "4.2.2".into(),
            module: Module::V41,
            buffer: BufferType::NonDescribed,
            gds: "hash".into(),
            infos: Vec::new(),
        };
        stream.write_all(&hello.encode().unwrap()).unwrap();
        let mut reply = [0; 8];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..4], [0; 4], "let in");
        stream
    }

    #[test]
    fn connection_ids_do_not_wrap() {
        let server = Server::start(Arc::new(Silent), &[], u64::from(u32::MAX) - 3).unwrap();
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        server.register_nspace(proc.nspace.clone(), 1, Vec::new(), None);
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        server.register_client(proc.clone(), uid, gid, 0, None);
        let mut streams: Vec<TcpStream> = (0..5).map(|_| connected(&server, &proc)).collect();
        let request = Request::JobInfo.encode(Dialect::plain(Module::V41), Version::OURS).unwrap();
        let header = Header { index: 0, tag: 101, len: request.len() as u32 }.encode();
        let mut ask = |stream: &mut TcpStream| {
            stream.write_all(&[&header[..], &request].concat()).unwrap();
            let mut head = [0; Header::LEN];
            stream.read_exact(&mut head).unwrap();
            std::io::copy(&mut stream.take(u64::from(Header::decode(&head).len)), &mut std::io::sink()).unwrap();
            assert_eq!(Header::decode(&head).tag, 101);
        };
        streams.iter_mut().for_each(&mut ask);
        // The end of one is not that of another, nor of the server's own process.
        drop(streams.remove(2));
        streams.iter_mut().for_each(&mut ask);
        let me = server.me().clone();
        let nobody = Proc { nspace: me.nspace.clone(), rank: Rank::UNDEF };
        assert_eq!(server.client().get_value(&nobody, keys::PROCID, &[]), Ok(Value::Proc(me)));
    }

    #[test]
    fn all_ranks_of_a_node_may_come_at_once() {
        let server = Server::init(Arc::new(Silent), &[]).unwrap();
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let address = address(&server, &proc);
        let (go_on, held) = unbounded::<()>();
        // The server's thread is busy meanwhile.
        server.register_client(proc, 0, 0, 0, Some(Box::new(move |_| held.recv().unwrap_or(()))));
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(10));
        let connected: Result<Vec<TcpStream>, _> = (0..400).map(connect).collect();
        drop(go_on);
        assert_eq!(connected.unwrap().len(), 400);
    }

    #[test]
    fn callbacks_come_when_the_call_that_they_are_of_has_returned() {
        let server = Server::init(Arc::new(Silent), &[]).unwrap();
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let (told, heard) = unbounded::<()>();
        let tell = || told.clone();
        let op = || {
            Some(Box::new({
                let told = tell();
                move |_| told.send(()).unwrap()
            }) as OpDone)
        };
        let calls: [&dyn Fn() -> Status; 7] = [
            &|| server.register_nspace(proc.nspace.clone(), 1, Vec::new(), op()),
            &|| server.register_client(proc.clone(), 0, 0, 0, op()),
            &|| server.setup_local_support(op()),
            &|| {
                server.setup_application(
                    &[],
                    Box::new({
                        let told = tell();
                        move |_| told.send(()).unwrap()
                    }),
                )
            },
            &|| {
                let (told, wild) = (tell(), Proc::new(proc.nspace.clone(), Rank::WILDCARD));
                server.dmodex_request(wild, Box::new(move |_, _| told.send(()).unwrap()))
            },
            &|| server.deregister_client(&proc, op()),
            &|| server.deregister_nspace(&proc.nspace, op()),
        ];
        for (number, call) in calls.into_iter().enumerate() {
            // The server's call is a part of this one.
            let outer = Call::begin();
            assert_eq!(call(), Status::SUCCESS);
            assert!(heard.recv_timeout(Duration::from_millis(20)).is_err(), "call {number} has not returned");
            drop(outer);
            heard.recv().unwrap();
        }
        // Callbacks that are held when the server ends are still called.
        let outer = Call::begin();
        assert_eq!(server.setup_local_support(op()), Status::SUCCESS);
        let ending = thread::spawn({
            let server = server.clone();
            move || server.finalize()
        });
        assert!(heard.recv_timeout(Duration::from_millis(20)).is_err());
        drop(outer);
        heard.recv().unwrap();
        assert_eq!(ending.join().unwrap(), Status::SUCCESS);
    }

    #[test]
    fn a_process_set_is_told_of_by_name() {
        let server = Server::init(Arc::new(Silent), &[]).unwrap();
        let (told, events) = unbounded();
        let handler = Arc::new(move |_, event: Event, _| {
            let _ = told.send((event.status, event.infos.to_vec()));
        });
        let codes = vec![Status::PROCESS_SET_DEFINE, Status::PROCESS_SET_DELETE];
        server.client().register_event_handler(codes, Vec::new(), handler).wait().unwrap();
        let member = Proc::new(Nspace::new("job").unwrap(), Rank(3));
        assert_eq!(server.define_process_set(c"set".into(), vec![member.clone()]), Status::OPERATION_SUCCEEDED);
        assert_eq!(server.delete_process_set(c"set".into()), Status::OPERATION_SUCCEEDED);
        let value = |infos: &[Info], key: &str| Info::find(infos, key).cloned();
        for (code, members) in
            [(Status::PROCESS_SET_DEFINE, Some(Value::procs([member]))), (Status::PROCESS_SET_DELETE, None)]
        {
            let (status, infos) = events.recv().unwrap();
            assert_eq!(status, code);
            assert_eq!(value(&infos, keys::PSET_NAME), Some(Value::string("set")));
            assert_eq!(value(&infos, keys::PSET_MEMBERS), members);
        }
    }

    #[test]
    fn setup_data_of_a_job_is_given_once() {
        let server = Server::init(Arc::new(Silent), &[]).unwrap();
        let (told, answers) = unbounded();
        assert_eq!(server.setup_application(&[], Box::new(move |infos| drop(told.send(infos)))), Status::SUCCESS);
        assert!(answers.recv().unwrap().iter().all(|info| info.key.is(keys::SET_ENVAR)));
        assert_eq!(server.setup_local_support(None), Status::OPERATION_SUCCEEDED);
        server.finalize();
        assert_eq!(server.setup_application(&[], Box::new(|_| panic!("it has ended"))), Status::ERR_INIT);
        assert_eq!(server.setup_local_support(None), Status::ERR_INIT);
    }

    #[test]
    fn no_handler_is_called_after_finalize() {
        let server = Server::init(Arc::new(Silent), &[]).unwrap();
        let (called, calls) = unbounded();
        let handler = Arc::new(move |_, _: Event, _| {
            // Long enough for a finalize that does not wait for it.
            thread::sleep(Duration::from_millis(100));
            let _ = called.send(());
        });
        server.client().register_event_handler(Vec::new(), Vec::new(), handler).wait().unwrap();
        let (go_on, held) = unbounded::<()>();
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        // The server's thread is busy, and has an event to deliver after that.
        server.register_client(proc, 0, 0, 0, Some(Box::new(move |_| held.recv().unwrap_or(()))));
        server.notify_event(Status(-3456), server.me().clone(), 2, Vec::new(), None);
        thread::scope(|scope| {
            let ending = scope.spawn(|| server.finalize());
            while !server.inner.is_stopped() {
                thread::yield_now();
            }
            drop(go_on);
            assert_eq!(ending.join().unwrap(), Status::SUCCESS);
        });
        let left = calls.try_iter().count();
        assert!(calls.recv_timeout(Duration::from_millis(200)).is_err(), "called after finalize, {left} times before");
    }

    #[test]
    fn a_process_that_was_lost_before_finalize_is_told_of() {
        let server = Server::init(Arc::new(Silent), &[]).unwrap();
        let (told, events) = unbounded();
        let handler = Arc::new(move |_, event: Event, _| drop(told.send((event.status, event.source))));
        server.client().register_event_handler(Vec::new(), Vec::new(), handler).wait().unwrap();
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        assert!(server.register_nspace(proc.nspace.clone(), 1, Vec::new(), None) == Status::OPERATION_SUCCEEDED);
        server.register_client(proc.clone(), 0, 0, 0, None);
        let stream = connected(&server, &proc);
        let (go_on, held) = unbounded::<()>();
        // The server's thread is busy meanwhile.
        server.register_client(
            Proc::new(proc.nspace.clone(), Rank(1)),
            0,
            0,
            0,
            Some(Box::new(move |_| held.recv().unwrap_or(()))),
        );
        drop(stream);
        thread::scope(|scope| {
            let ending = scope.spawn(|| server.finalize());
            while !server.inner.is_stopped() {
                thread::yield_now();
            }
            drop(go_on);
            assert_eq!(ending.join().unwrap(), Status::SUCCESS);
        });
        assert_eq!(events.try_iter().collect::<Vec<_>>(), [(Status::ERR_LOST_CONNECTION, proc)]);
    }

    fn resident_bytes() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    #[test]
    fn a_client_that_asks_and_does_not_read_is_not_answered_into_memory() {
        const REQUESTS: usize = 4000;
        let server = Server::init(Arc::new(Silent), &[]).unwrap();
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let infos =
            vec![Info::new("large", Value::string(vec![b'x'; 100_000])), Info::new(keys::JOB_SIZE, Value::Uint32(1))];
        assert!(server.register_nspace(proc.nspace.clone(), 1, infos, None) == Status::OPERATION_SUCCEEDED);
        server.register_client(proc.clone(), 0, 0, 0, None);
        let mut stream = connected(&server, &proc);
        let request = Request::JobInfo.encode(Dialect::plain(Module::V41), Version::OURS).unwrap();
        let header = Header { index: 0, tag: 101, len: request.len() as u32 }.encode();
        let before = resident_bytes();
        stream.write_all(&[&header[..], &request].concat().repeat(REQUESTS)).unwrap();
        for number in 0..REQUESTS {
            let mut head = [0; Header::LEN];
            stream.read_exact(&mut head).unwrap();
            std::io::copy(&mut (&stream).take(u64::from(Header::decode(&head).len)), &mut std::io::sink()).unwrap();
            if number == 0 {
                assert!(resident_bytes() < before + (150 << 20), "the replies to come have not been made yet");
            }
        }
    }
}
