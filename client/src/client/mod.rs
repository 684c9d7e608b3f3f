//! One process's view of its job.

pub(crate) mod attributes;
pub(crate) mod connections;
mod events;
pub(crate) mod groups;
mod input;
pub(crate) mod ops;
mod output;
mod shared_memory;

use std::any::Any;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pmix_dstore::codec::Packer;
use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::JobData;
use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::attributes::check_required;
use pmix_dstore::model::{Info, Key, NSPACE_LEN_MAX, Proc, Rank, Result, Scope, Status, Value, keys};
use pmix_dstore::recorder::{Note, Step};
use pmix_dstore::segment::{Directory, NamespaceView};
use pmix_dstore::settings;

use self::attributes::Declared;
use self::connections::Connections;
use self::groups::Groups;
use self::input::Inputs;
use self::output::Outputs;
use crate::channel::{ANY_STORE, Channel, Greet, Incoming, Joinable, OUR_STORE, Sink};
use crate::commit::Puts;
use crate::events::Registry;
use crate::forked::{self, MutexGuard, SHORT_FORK_WAIT};
use crate::get_counts;
use crate::get_options::timeout_of;
use crate::late::Limited;
use crate::link::after_call;
use crate::local::{self, Local};
use crate::operation::{Operation, deadline, outcome};
use crate::output::Format;
use crate::overlay::Origin;
use crate::own_segments::{OwnSegments, ViewRef};
use crate::pin;
use crate::recorder::{self, Begun};
use crate::{Call, Environment, Event, FirstCommit, Link, Task, singleton, unserved_task};
use pmix_wire::reply::{FenceReply, StatusReply};
use pmix_wire::{Deletion, FlowControl, IoDelivery, Notification, Reply, Request, Version, jobinfo};

/// Whether a client of this process has sent a first commit that is not answered.
static HAS_COMMITTED: AtomicBool = AtomicBool::new(false);
/// The time limit of the handshake. It is long because a server may be busy with thousands of processes.
const CONNECT_TIME: Duration = Duration::from_secs(300);
/// The time limit for the answer to `Finalize`.
const FINALIZE_TIME: Duration = Duration::from_secs(10);

/// One process's view of its job.
///
/// Any method may be called from any thread, also inside callbacks. The example is a singleton: it has no server and
/// can still read the values that it stored. The crate's example is a rank.
///
/// ```
/// use pmix_client::{Client, Environment};
/// use pmix_dstore::model::{Scope, Status, Value};
///
/// let client = Client::connect(&Environment::from_lookup(|_| None)?, &[])?;
/// assert!(client.is_singleton());
/// let me = client.me().clone();
/// client.put(Scope::Global, "app.port".into(), Value::Uint16(4711))?;
/// assert_eq!(client.get_value(&me, "app.port", &[])?, Value::Uint16(4711));
/// assert_eq!(client.get_value(&me, "app.host", &[]), Err(Status::ERR_NOT_FOUND));
/// client.finalize(&[])?;
/// # Ok::<(), Status>(())
/// ```
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

/// How this process reaches a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientKind {
    /// Launched by a server, and connected to it.
    Launched,
    /// The process is its own server; the caller passed the link in.
    InProcessServer,
    /// No server.
    Singleton,
}

pub(crate) struct Inner {
    pub(crate) me: Proc,
    /// The kind at the start; [`Inner::kind`] is the current one.
    pub(crate) initial_kind: ClientKind,
    pub(crate) link: Arc<dyn Link>,
    /// The link of a singleton, which may join a server later.
    joinable: OnceLock<Arc<Joinable>>,
    /// The server's address, as peers use it.
    pub(crate) server_uri: OnceLock<String>,
    pub(crate) local: Local,
    pub(crate) puts: forked::Mutex<Puts>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) groups: Groups,
    pub(crate) connections: Connections,
    pub(crate) outputs: Outputs,
    pub(crate) inputs: Inputs,
    declared: Mutex<Declared>,
    is_final: AtomicBool,
    /// The caller's data that lives as long as this ([`Client::attached`]).
    attached: OnceLock<Box<dyn Any + Send + Sync>>,
    /// The message about a corrupt segment has been printed.
    has_reported_corruption: AtomicBool,
}

impl Client {
    /// Connects a launched process to the server that its environment names.
    ///
    /// A process without a server gets a client, too: see [`Client::is_singleton`]. `infos` are those of `PMIx_Init`; a
    /// `PMIX_TIMEOUT` among them limits the time of the handshake.
    ///
    /// # Errors
    /// `ERR_UNREACH` if the server does not answer; `ERR_TIMEOUT`; `ERR_INVALID_CRED`, `ERR_HANDSHAKE_FAILED` or
    /// another status with which the server refuses; `ERR_NOMEM`.
    pub fn connect(env: &Environment, infos: &[Info]) -> Result<Client> {
        check_required(infos)?;
        fallible_alloc::reserve_emergency()?;
        let me = env.proc();
        if env.nspace.is_none() || env.server.is_none() && env.directory.is_none() {
            if env.counts_gets {
                get_counts::start(None, &me);
            }
            let client = Client::alone(env)?;
            for complaint in settings::complaints() {
                log::write(Level::Warn, Target::Client, Writer::Library, format_args!("{complaint}"));
            }
            // With the address of a server the process is on its way to one.
            let advice =
                unserved_task::advice(std::env::vars_os()).filter(|_| Info::find(infos, keys::SERVER_URI).is_none());
            if let Some(advice) = advice {
                log::write(Level::Warn, Target::Client, Writer::Library, format_args!("{advice}"));
            }
            return Ok(client);
        }
        let directory = shared_memory::directory(env, &me);
        recorder::start(&env.recorder, directory.as_deref(), &me);
        if env.counts_gets {
            get_counts::start(directory.as_deref(), &me);
        }
        let step = Begun::new(|| Some(Note::new(Step::Init, 0, &[])));
        let connected = Client::connect_launched(env, infos, me, directory);
        step.end(&connected);
        connected
    }

    /// The client of a process without a server, under the name that its environment has: a singleton.
    ///
    /// # Errors
    /// `ERR_NOMEM`.
    pub fn alone(env: &Environment) -> Result<Client> {
        let me = env.proc();
        let local = Local::new(me.clone(), env.hostname.clone(), None, Some(singleton::job(&me, &env.hostname)));
        let link = Arc::new(Joinable::new()?);
        let client = Client::new(me, ClientKind::Singleton, link.clone(), false, local);
        // Nobody else sets it.
        let _ = client.inner.joinable.set(link);
        Ok(client)
    }

    /// As [`Client::connect`], for a process with a server. `directory` is the namespace's, if there is one.
    fn connect_launched(
        env: &Environment,
        infos: &[Info],
        me: Proc,
        directory: Option<Arc<Directory>>,
    ) -> Result<Client> {
        let begun = Instant::now();
        let deadline = begun + timeout_of(infos).unwrap_or(CONNECT_TIME);
        let client: Arc<OnceLock<Weak<Inner>>> = Arc::default();
        let sink = sink(Arc::clone(&client));
        // Attach before the handshake: it may name our store only if attaching worked.
        let view = directory.clone().and_then(|directory| shared_memory::attach(env, directory, &me));
        let store = if view.is_some() { OUR_STORE } else { ANY_STORE };
        let ours = directory.map(|ours| {
            let again = env.restart.map(|limit| (limit, greet(Arc::clone(&client))));
            Channel::connect_ours(env, &ours, (&me, store), deadline, &sink, again)
        });
        let is_our_server = matches!(ours, Some(Ok(_)));
        let (channel, view) = match ours {
            Some(Ok(channel)) => (channel, view),
            no_channel => {
                let channel = Channel::connect_any(env, &me, deadline, &sink);
                let channel = channel.inspect_err(|status| refused(env, &me, *status))?;
                let no_socket = no_channel.and_then(std::result::Result::err);
                shared_memory::report_tcp(env, &me, no_socket.as_deref(), view.is_some());
                (channel, None)
            }
        };
        report_connected(env, &me, is_our_server, begun);
        let job = match view.as_ref().and_then(NamespaceView::job) {
            Some(_) => None,
            None => Some(job_info(&channel, &me, deadline).inspect_err(|_| channel.close())?),
        };
        let connected = Client::launched(me, Arc::new(channel), is_our_server, env.hostname.clone(), (view, job));
        // This is the only writer.
        let _ = client.set(Arc::downgrade(&connected.inner));
        if let Some(server) = &env.server {
            let _ = connected.inner.server_uri.set(server.to_string());
        }
        // Others may have values of a client that this process was before.
        connected.inner.puts.wait_lock().has_sent = HAS_COMMITTED.load(Ordering::Relaxed);
        connected.inner.report_corruption();
        if is_our_server && env.restart.is_some() {
            // Somebody must see the connection end, also while the program computes: the next server counts who does not come again as lost.
            connected.inner.link.ready().inspect_err(|_| connected.inner.link.close())?;
        }
        Ok(connected)
    }

    /// A function of its own: the stack that this large structure takes on its way is no part of the one that is in use when segments are
    /// mapped, and each page of stack is memory of every rank.
    #[inline(never)]
    fn launched(
        me: Proc,
        link: Arc<dyn Link>,
        is_our_server: bool,
        hostname: Vec<u8>,
        (view, job): (Option<NamespaceView>, Option<JobData>),
    ) -> Client {
        let local = Local::new(me.clone(), hostname, view, job);
        Client::new(me, ClientKind::Launched, link, is_our_server, local)
    }

    /// The client of a process that is its own server. Peers reach that server at `uri`.
    ///
    /// This client caches no replies: the link is in the same process and always has the newest values.
    pub fn with_link(me: Proc, hostname: Vec<u8>, uri: String, link: Arc<dyn Link>) -> Client {
        let local = Local::new(me.clone(), hostname, None, None);
        let client = Client::new(me, ClientKind::InProcessServer, link, true, local);
        // This is the only writer.
        let _ = client.inner.server_uri.set(uri);
        client
    }

    /// The client of a tool. `slot` is the slot of its [`sink`], through which unsolicited messages reach the client.
    pub(crate) fn with_servers(
        me: Proc,
        kind: ClientKind,
        hostname: Vec<u8>,
        servers: Arc<dyn Link>,
        job: JobData,
        slot: &OnceLock<Weak<Inner>>,
        maps_other_jobs: bool,
    ) -> Client {
        let local = Local::new(me.clone(), hostname, None, Some(job)).with_other_jobs(maps_other_jobs);
        let client = Client::new(me, kind, servers, false, local);
        // This is the only writer.
        let _ = slot.set(Arc::downgrade(&client.inner));
        client
    }

    /// A launched client with this link and this local data.
    #[cfg(test)]
    pub(crate) fn for_tests(me: Proc, link: Arc<dyn Link>, local: Local) -> Client {
        Client::new(me, ClientKind::Launched, link, true, local)
    }

    /// `is_our_server`: a commit need not repeat values that our own server already has.
    fn new(me: Proc, kind: ClientKind, link: Arc<dyn Link>, is_our_server: bool, local: Local) -> Client {
        forked::note_process();
        let inner = Inner {
            me,
            initial_kind: kind,
            link,
            joinable: OnceLock::new(),
            server_uri: OnceLock::new(),
            local,
            puts: forked::Mutex::new(Puts::new(is_our_server)),
            registry: Arc::default(),
            groups: Groups::default(),
            connections: Connections::default(),
            outputs: Outputs::default(),
            inputs: Inputs::default(),
            declared: Mutex::default(),
            is_final: AtomicBool::new(false),
            attached: OnceLock::new(),
            has_reported_corruption: AtomicBool::new(false),
        };
        Client { inner: Arc::new(inner) }
    }

    /// This process.
    pub fn me(&self) -> &Proc {
        &self.inner.me
    }

    /// Whether the process has no server. It can still store and read its own values; its fences complete at once.
    pub fn is_singleton(&self) -> bool {
        self.inner.kind() == ClientKind::Singleton
    }

    /// Connects a singleton to the server that `PMIX_SERVER_URI` among the infos of `PMIx_Init` names. The next commit sends
    /// the values that were put before. Without a URI, or if the process has a server, nothing happens.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a URI that is none; as [`Client::connect`].
    pub fn join_server(&self, infos: &[Info]) -> Result<()> {
        let inner = &self.inner;
        let Some((uri, link)) = Info::find(infos, keys::SERVER_URI).zip(inner.joinable.get()) else { return Ok(()) };
        let deadline = Instant::now() + timeout_of(infos).unwrap_or(CONNECT_TIME);
        let report = uri.as_text().ok_or(Status::ERR_BAD_PARAM)?;
        let env = Environment::from_process()?.with_reported_server(report)?;
        let me = &inner.me;
        let sink = sink(Arc::new(OnceLock::from(Arc::downgrade(inner))));
        let connect =
            || Channel::connect_any(&env, me, deadline, &sink).inspect_err(|status| refused(&env, me, *status));
        link.join(connect, || {
            // As a tool, it shows the output of the jobs that it spawns.
            self.show_output(Format::default());
            if let Some(server) = &env.server {
                // Set only here.
                let _ = inner.server_uri.set(server.to_string());
            }
            inner.register_events_again()
        })
    }

    /// The caller's own data that lives as long as the client. The first call creates it. `None` if a value of another
    /// type is attached.
    #[inline]
    pub fn attached<T: Any + Send + Sync + Default>(&self) -> Option<&T> {
        self.inner.attached.get_or_init(|| Box::<T>::default()).downcast_ref()
    }

    /// Whether a NUL-terminated name in a buffer is the name of the own namespace.
    #[inline]
    pub fn is_own(&self, name: &[u8; NSPACE_LEN_MAX + 1]) -> bool {
        self.inner.local.name.is(name)
    }

    /// The mapped segments of the own namespace, if there are any. None of them is unmapped while the result lives.
    pub fn view(&self) -> Option<ViewRef<'_>> {
        self.inner.local.segments.as_ref().map(OwnSegments::read)
    }

    /// Whether these bytes lie in a mapped segment of the own namespace. They then stay valid as long as this client.
    pub fn lend(&self, bytes: &[u8]) -> bool {
        self.view().is_some_and(|view| view.lend(bytes))
    }

    /// Puts a value for other processes to get after the next [`Client::commit`].
    ///
    /// Drops reserved keys without an error, as releases before 6.1 do, because MPI libraries put some. Keeps qualified
    /// values.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an empty key or a malformed qualified value; `ERR_NOMEM`; the packing error of a value that
    /// cannot be encoded; `ERR_OUT_OF_RESOURCE` for a value that would make the next commit too long. The commit of all
    /// other values would fail with it.
    pub fn put(&self, scope: Scope, key: Key, value: Value) -> Result<()> {
        if key.as_bytes().is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        if key.is_reserved() && !key.is(keys::QUALIFIED_VALUE) {
            return Ok(());
        }
        let inner = &self.inner;
        let value = Arc::new(value);
        if scope != Scope::Internal {
            let len = match &*value {
                Value::ByteObject(bytes) => bytes.len(),
                value => {
                    let mut packer = Packer::new(inner.link.dialect());
                    packer.value(value)?;
                    packer.len()
                }
            };
            inner.puts.lock()?.put(key.clone(), scope, Arc::clone(&value), len)?;
        }
        inner.local.overlay.set(&inner.me.nspace, inner.me.rank, key, value, Origin::Own)
    }

    /// Deletes a key that this process has put. Readers in the scope see this from the next [`Client::commit`] on, this
    /// process at once, unless other scopes may still read the key. The key need not exist.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an empty key; `ERR_NOT_SUPPORTED` if the server's release is before 7.0, which would ignore
    /// the deletion; `ERR_OUT_OF_RESOURCE` as for [`Client::put`]; `ERR_NOMEM`.
    pub fn delete(&self, scope: Scope, key: Key) -> Result<()> {
        if key.as_bytes().is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let Inner { me, link, local, .. } = &*self.inner;
        let has_server = self.inner.kind() != ClientKind::Singleton;
        if has_server && !link.is_ours() && !link.server_version().deletes_keys() {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        // `put` drops reserved keys, so there is none to delete.
        if key.is_reserved() {
            return Ok(());
        }
        let mut puts = self.inner.puts.lock()?;
        let is_still_put = match scope {
            Scope::Internal => puts.scope_of(&key).is_some(),
            scope if has_server => puts.delete(&key, scope)?.is_some(),
            scope => puts.withdraw(&key, scope).is_some(),
        };
        if !is_still_put {
            local.overlay.delete(me, &key, has_server && scope != Scope::Internal)?;
            local.reply_cache.forget(me.nspace.as_bytes(), me.rank, key.as_bytes())?;
        }
        Ok(())
    }

    /// Stores a value for any process, visible only to this process.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an empty key.
    pub fn store_internal(&self, proc: &Proc, key: Key, value: Value) -> Result<()> {
        if key.as_bytes().is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        // The entries of own peers share one copy of the name, which is also found without a comparison. Open MPI stores a value of each peer.
        let own = &self.inner.me.nspace;
        let nspace = if proc.nspace == *own { own } else { &proc.nspace };
        self.inner.local.overlay.set(nspace, proc.rank, key, value, Origin::Own)
    }

    /// Sends the values that were put to the server.
    ///
    /// Our server does not answer the first commit unless it refuses it. The next fence then returns its status, and the next commit sends
    /// the values again.
    ///
    /// # Errors
    /// The server's status; `ERR_LOST_CONNECTION`.
    pub fn commit(&self) -> Result<()> {
        let inner = &self.inner;
        if inner.kind() == ClientKind::Singleton {
            return Ok(());
        }
        // Hold the lock during the request: a commit of another thread must not overtake this one.
        let mut puts = inner.puts.lock()?;
        // This commit sends the values of a refused one again.
        let _ = inner.refused_commit(&mut puts);
        let parts = puts.parts()?;
        // Send the first commit even if it is empty: other processes may wait for this process to commit.
        if parts.is_empty() && puts.only_new && puts.has_committed {
            return Ok(());
        }
        let payload = Request::encode_commit(inner.link.dialect(), &parts)?;
        let step = Begun::new(|| Some(recorder::note_of_commit(&parts)));
        drop(parts);
        let sent = match inner.link.first_commit().filter(|_| puts.only_new && !puts.has_sent) {
            Some(first) => {
                HAS_COMMITTED.store(true, Ordering::Relaxed);
                first.send(payload)
            }
            None => inner.status_to(payload),
        };
        step.end(&sent);
        sent?;
        puts.committed();
        inner.local.overlay.forget_deleted();
        // Processes that publish without fences replace segments, too.
        if let Some(segments) = &inner.local.segments {
            segments.reclaim();
        }
        Ok(())
    }

    /// A barrier of `procs`; an empty list means the caller's whole namespace.
    pub fn fence(&self, procs: &[Proc], infos: Vec<Info>) -> Operation<()> {
        pin::end_patience();
        if self.inner.kind() == ClientKind::Singleton {
            return Operation::ready(&self.inner.link, Ok(()));
        }
        let named = match procs {
            [] => Ok((vec![Proc::new(self.inner.me.nspace.clone(), Rank::WILDCARD)], infos)),
            procs => self.inner.for_server(procs.to_vec(), infos),
        };
        let (procs, infos) = match named {
            Ok(named) => named,
            Err(status) => return Operation::ready(&self.inner.link, Err(status)),
        };
        let timeout = timeout_of(&infos);
        self.inner.ask(Request::Fence { procs, infos }, timeout, |inner, reply: FenceReply| {
            outcome(reply.status)?;
            inner.after_fence();
            inner.refused_commit(&mut *inner.puts.lock()?)
        })
    }

    /// Asks the host to abort `procs` (none: the caller's whole job) and waits for its answer.
    ///
    /// # Errors
    /// The host's status.
    pub fn abort(&self, status: Status, message: Option<&CStr>, procs: &[Proc]) -> Result<()> {
        let message = message.map(CStr::to_owned);
        self.inner.status_of(&Request::Abort { status, message, procs: procs.to_vec() }, None)
    }

    /// Runs the handlers for an event that came from the server.
    pub fn deliver(&self, event: Event) {
        self.inner.deliver(event);
    }

    /// Runs `task` on the callback thread, after the callbacks that are already due and never before this call has
    /// returned.
    pub fn later(&self, task: Task) {
        let _call = Call::begin();
        let task = after_call(&self.inner.link, |()| task());
        self.inner.link.defer(Box::new(|| task(())));
    }

    /// Receives what has arrived, without waiting, and runs the callbacks that are due, if the process was initialised with
    /// `PMIX_EXTERNAL_PROGRESS`; otherwise the library's own thread does.
    pub fn progress(&self) {
        self.inner.link.progress();
    }

    /// The name of this process's node.
    pub fn hostname(&self) -> String {
        String::from_utf8_lossy(self.inner.local.hostname()).into_owned()
    }

    /// Sends `Finalize` to the server and closes the connection.
    ///
    /// With `PMIX_EMBED_BARRIER` a fence of the namespace comes first. `PMIX_TIMEOUT` limits the fence, and the wait for the server's answer,
    /// which is no failure if it does not come.
    ///
    /// # Errors
    /// The status of the server, of the fence, or of a refused first commit. The connection is closed in any case.
    pub fn finalize(&self, infos: &[Info]) -> Result<()> {
        pin::end_patience();
        check_required(infos)?;
        let inner = &self.inner;
        let mut result = Ok(());
        if Info::is_set(infos, keys::EMBED_BARRIER) {
            let time = infos.iter().filter(|info| info.key.is(keys::TIMEOUT));
            result = self.fence(&[], time.cloned().collect()).wait();
        }
        inner.is_final.store(true, Ordering::Release);
        if forked::is_child() {
            // Server, handlers, input and output are the parent's.
            return result;
        }
        // Call no handler from now on: the application may unload its code.
        inner.registry.close();
        inner.inputs.stop();
        if inner.kind() == ClientKind::Launched {
            let answer = inner.status_by(
                &Request::Finalize,
                Some(Instant::now() + timeout_of(infos).map_or(FINALIZE_TIME, |time| time.min(FINALIZE_TIME))),
            );
            // Servers before 4.0 close the connection instead of answering. A lost server is no error here either:
            // there is nothing left to do.
            result = match answer {
                Err(Status::ERR_LOST_CONNECTION | Status::ERR_TIMEOUT | Status::ERR_UNREACH) => result,
                answer => result.and(answer),
            };
            // No fence or connect has reported it since the commit.
            result = result.and(inner.puts.lock().map_or(Ok(()), |mut puts| inner.refused_commit(&mut puts)));
        }
        inner.link.close();
        // Output may come until the server has answered.
        inner.outputs.flush();
        result
    }
}

/// The locks during a fork.
pub(crate) struct Held<'a> {
    _local: local::Held<'a>,
    _connections: connections::Held<'a>,
    _puts: Option<MutexGuard<'a, Puts>>,
}

impl Inner {
    /// Holds for a fork the locks of what a child may use, in the order in which other threads take several of them: a commit holds the puts
    /// while it does the rest, and while it waits for the server.
    pub(crate) fn hold_for_fork(&self) -> Held<'_> {
        let (puts, connections) = (self.puts.hold_for_fork(SHORT_FORK_WAIT), self.connections.hold_for_fork());
        Held { _local: self.local.hold_for_fork(), _connections: connections, _puts: puts }
    }

    /// The current kind: a singleton becomes `Launched` when it joins a server.
    #[inline]
    pub(crate) fn kind(&self) -> ClientKind {
        match self.initial_kind {
            ClientKind::Singleton if self.joinable.get().is_some_and(|link| link.has_server()) => ClientKind::Launched,
            kind => kind,
        }
    }

    /// An operation that sends a request and converts the decoded reply to its result.
    pub(crate) fn ask<Y: Reply + 'static, T: Send + 'static>(
        self: &Arc<Inner>,
        request: Request,
        timeout: Option<Duration>,
        finish: impl FnOnce(&Inner, Y) -> Result<T> + Send + 'static,
    ) -> Operation<T> {
        let payload = match self.encode(&request) {
            Ok(payload) => payload,
            Err(status) => return Operation::ready(&self.link, Err(status)),
        };
        let inner = Arc::clone(self);
        let step = Begun::new(|| recorder::note_of(&request));
        let limited = timeout.map(|_| Limited::by(&request));
        Operation::ask(&self.link, payload, timeout, move |reply| {
            if let Some(limited) = limited {
                limited.ended(&*inner.link, &inner.me, &reply);
            }
            let result = reply.and_then(|reply| finish(&inner, inner.decode_and_drop(reply)?));
            step.end(&result);
            result
        })
    }

    pub(crate) fn encode(&self, request: &Request) -> Result<Vec<u8>> {
        request.encode(self.link.dialect(), self.link.server_version())
    }

    pub(crate) fn decode<Y: Reply>(&self, payload: &[u8]) -> Result<Y> {
        Y::decode(self.link.dialect(), self.link.server_version(), payload)
    }

    /// As [`Inner::decode`], but frees the payload before the caller copies the decoded values.
    pub(crate) fn decode_and_drop<Y: Reply>(&self, payload: Vec<u8>) -> Result<Y> {
        self.decode(&payload)
    }

    /// Sends a request and waits for the status that answers it.
    pub(crate) fn status_of(&self, request: &Request, timeout: Option<Duration>) -> Result<()> {
        self.status_by(request, deadline(timeout))
    }

    fn status_by(&self, request: &Request, deadline: Option<Instant>) -> Result<()> {
        let payload = self.encode(request)?;
        let step = Begun::new(|| recorder::note_of(request));
        let limited = deadline.map(|_| Limited::by(request));
        let reply = self.link.request_wait(payload.into(), deadline);
        if let Some(limited) = limited {
            limited.ended(&*self.link, &self.me, &reply);
        }
        let result = reply.and_then(|reply| outcome(self.decode::<StatusReply>(&reply)?.status));
        step.end(&result);
        result
    }

    fn status_to(&self, payload: impl Into<GatherBuf>) -> Result<()> {
        let reply = self.link.request_wait(payload.into(), None)?;
        outcome(self.decode::<StatusReply>(&reply)?.status)
    }

    /// Whether the server has refused the first commit. Its values then count as new.
    ///
    /// # Errors
    /// The status with which it was refused; once.
    fn refused_commit(&self, puts: &mut Puts) -> Result<()> {
        let Some(reply) = self.link.first_commit().and_then(FirstCommit::take_refusal) else { return Ok(()) };
        puts.refused();
        outcome(self.decode::<StatusReply>(&reply?)?.status)
    }

    /// Other processes may have published new values. Drops cached ones so that the next Get reads again, and maps new
    /// segments now so that this Get finds them mapped.
    fn after_fence(&self) {
        self.local.reply_cache.forget_ranks();
        self.local.overlay.forget_refreshed();
        if let Some(segments) = &self.local.segments {
            segments.refresh();
        }
        self.report_corruption();
    }

    /// Logs, once, that a segment is not used because it is corrupt.
    pub(crate) fn report_corruption(&self) {
        let segments = self.local.segments.as_ref().filter(|segments| !segments.read().is_complete());
        if let Some(error) = segments.and_then(OwnSegments::last_error).filter(|error| !error.is_usual())
            && !self.has_reported_corruption.swap(true, Ordering::Relaxed)
        {
            shared_memory::report_unusable(&self.me, &error);
        }
    }

    /// Whether finalize has begun.
    pub(crate) fn is_final(&self) -> bool {
        self.is_final.load(Ordering::Acquire)
    }

    fn take_incoming(self: &Arc<Inner>, incoming: Incoming) {
        // What a server sends before it answers the finalize is still written.
        if self.is_final() && !matches!(incoming, Incoming::Output(_)) {
            return;
        }
        match incoming {
            Incoming::Notification(payload) => {
                // Ignore messages that do not decode.
                if let Ok(event) = Notification::decode(self.link.dialect(), &payload) {
                    let source = &event.source;
                    recorder::happened(Step::Event, source.rank.0, source.nspace.as_bytes(), event.status);
                    self.deliver(Event::new(event.status, event.source, event.infos));
                }
            }
            Incoming::Output(payload) => {
                if let Ok(output) = IoDelivery::decode(self.link.dialect(), &payload) {
                    self.take_output(output);
                }
            }
            Incoming::FlowControl(payload) => {
                if let Ok(control) = FlowControl::decode(self.link.dialect(), &payload) {
                    self.inputs.control(&control);
                }
            }
            Incoming::Deletion(payload) => {
                if let Ok(Deletion { proc, key, .. }) = Deletion::decode(self.link.dialect(), &payload) {
                    self.local.overlay.forget(&proc, &key);
                    // On the thread that receives, which a child has not.
                    let _ = self.local.reply_cache.forget(proc.nspace.as_bytes(), proc.rank, key.as_bytes());
                }
            }
            Incoming::Again => {
                // Deletions may have been missed.
                self.local.reply_cache.forget_ranks();
                self.local.overlay.forget_refreshed();
            }
            Incoming::Lost => {
                recorder::happened(Step::Lost, 0, &[], Status::SUCCESS);
                self.deliver(Event::new(Status::ERR_LOST_CONNECTION, self.me.clone(), Vec::new()));
            }
        }
    }
}

/// Passes unsolicited messages to the client once it exists. None can arrive earlier: the callback thread has not
/// started.
pub(crate) fn sink(client: Arc<OnceLock<Weak<Inner>>>) -> Sink {
    Arc::new(move |incoming| {
        if let Some(inner) = client.get().and_then(Weak::upgrade) {
            inner.take_incoming(incoming);
        }
    })
}

/// What a server that was restarted is told first: the events that this process's handlers want to hear.
fn greet(client: Arc<OnceLock<Weak<Inner>>>) -> Greet {
    Box::new(move |dialect| {
        let inner = client.get().and_then(Weak::upgrade);
        let requests = inner.map(|inner| inner.registrations()).unwrap_or_default();
        requests.iter().filter_map(|request| request.encode(dialect, Version::OURS).ok()).collect()
    })
}

/// Logs how this process has reached its server.
fn report_connected(env: &Environment, me: &Proc, is_unix_socket: bool, begun: Instant) {
    if log::is_on(Level::Debug, Target::Connection) {
        let server = env.server.as_ref().map_or_else(|| "the server".into(), |uri| uri.proc.to_string());
        let socket = if is_unix_socket { "its Unix socket" } else { "TCP" };
        let (version, us) = (&env.server_version, begun.elapsed().as_micros());
        let line = format_args!("connected to {server} (release {version}) over {socket} in {us} us");
        log::write(Level::Debug, Target::Connection, Writer::Client(me), line);
    }
}

/// Logs why there is no connection. The process continues without its server, or ends, and no other
/// component reports the reason.
fn refused(env: &Environment, me: &Proc, status: Status) {
    let place = env
        .server
        .as_ref()
        .map_or_else(|| "the server".into(), |uri| format!("server {} at {}", uri.proc, uri.address));
    let version = &env.server_version;
    log::write(
        Level::Error,
        Target::Connection,
        Writer::Client(me),
        format_args!(
            "no connection to {place} (release {version}): {status}; if that server has ended, start the program with a launcher, or \
             unset all PMIX_ variables"
        ),
    );
}

/// Requests all job-level data of the own job from the server.
pub(crate) fn job_info(channel: &dyn Link, me: &Proc, deadline: Instant) -> Result<JobData> {
    let request = Request::JobInfo.encode(channel.dialect(), channel.server_version())?;
    let payload = channel.request_wait(request.into(), Some(deadline))?;
    let job = jobinfo::decode(channel.dialect(), &payload)?;
    if job.nspace == me.nspace { Ok(job) } else { Err(Status::ERR_INVALID_NAMESPACE) }
}

#[cfg(test)]
pub(crate) mod tests;
