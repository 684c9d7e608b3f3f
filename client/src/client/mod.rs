//! One process's view of its job.

mod events;
pub(crate) mod groups;
mod input;
pub(crate) mod ops;
mod output;

use std::any::Any;
use std::ffi::CStr;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pmix_dstore::codec::Packer;
use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::JobData;
use pmix_dstore::model::attributes::check_required;
use pmix_dstore::model::{Info, Key, NSPACE_LEN_MAX, Proc, Rank, Result, Scope, Status, Value, keys};
use pmix_dstore::segment::{AttachError, Directory, NamespaceView};

use self::groups::Groups;
use self::input::Inputs;
use self::output::Outputs;
use crate::channel::{ANY_STORE, Channel, Incoming, OUR_STORE, Offline, Sink};
use crate::commit::Puts;
use crate::events::Registry;
use crate::get::timeout_of;
use crate::link::after_call;
use crate::local::Local;
use crate::operation::{Operation, deadline, outcome};
use crate::overlay::Origin;
use crate::{Call, Environment, Event, Link, Task, singleton};
use pmix_wire::reply::{FenceReply, StatusReply};
use pmix_wire::{Deletion, FlowControl, IoDelivery, Notification, Reply, Request, jobinfo};

/// A server may be busy with thousands of processes; one that says nothing for so long says nothing any more.
const CONNECT_TIME: Duration = Duration::from_secs(300);
/// So long is waited for the answer to a farewell.
const FAREWELL_TIME: Duration = Duration::from_secs(10);

/// One process's view of its job.
///
/// Any method may be called from any thread, also inside callbacks. The example is a process that nobody launched, which has no server
/// and still reads what it stored; the crate's example is a rank.
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

/// How this process came to its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientKind {
    /// Launched by a server, and connected to it.
    Launched,
    /// The link was handed in: the process is its own server.
    InProcessServer,
    /// Nobody's.
    Singleton,
}

pub(crate) struct Inner {
    pub(crate) me: Proc,
    pub(crate) kind: ClientKind,
    pub(crate) link: Arc<dyn Link>,
    /// Where the server listens, as it tells peers.
    pub(crate) server_uri: OnceLock<String>,
    pub(crate) local: Local,
    pub(crate) puts: Mutex<Puts>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) groups: Groups,
    pub(crate) outputs: Outputs,
    pub(crate) inputs: Inputs,
    is_final: AtomicBool,
    /// What lives as long as this and belongs to somebody else.
    attached: OnceLock<Box<dyn Any + Send + Sync>>,
    /// It was told that a segment is not used.
    is_told: AtomicBool,
}

impl Client {
    /// Connects a process that a server launched, as its environment says.
    ///
    /// A process that nobody launched gets a client, too: [`Client::is_singleton`]. `infos` are those of `PMIx_Init`;
    /// a `PMIX_TIMEOUT` among them bounds the time.
    ///
    /// # Errors
    /// `ERR_UNREACH` where the server does not answer; `ERR_TIMEOUT`; `ERR_INVALID_CRED`, `ERR_HANDSHAKE_FAILED` or
    /// what else the server refuses with; `ERR_NOMEM`.
    pub fn connect(env: &Environment, infos: &[Info]) -> Result<Client> {
        check_required(infos)?;
        fallible_alloc::reserve_emergency()?;
        let me = env.proc();
        if env.nspace.is_none() || env.server.is_none() && env.directory.is_none() {
            let local = Local::new(me.clone(), env.hostname.clone(), None, Some(singleton::job(&me, &env.hostname)));
            return Ok(Client::new(me, ClientKind::Singleton, Arc::new(Offline::new()?), false, local));
        }
        let late = Instant::now() + timeout_of(infos).unwrap_or(CONNECT_TIME);
        let client: Arc<OnceLock<Weak<Inner>>> = Arc::default();
        let sink = sink(Arc::clone(&client));
        // Attached before the handshake, which must name our store only if this worked.
        let directory = directory(env, &me);
        let view = directory.clone().filter(|_| env.shared_memory).and_then(|directory| attach(directory, &me));
        let store = if view.is_some() { OUR_STORE } else { ANY_STORE };
        let ours = directory.and_then(|ours| Channel::connect_ours(env, &ours, &me, store, late, &sink));
        let is_our_server = ours.is_some();
        let (channel, view) = match ours {
            Some(channel) => (channel, view),
            None => {
                (Channel::connect_any(env, &me, late, &sink).inspect_err(|status| refused(env, &me, *status))?, None)
            }
        };
        let job = match view.as_ref().and_then(NamespaceView::job) {
            Some(_) => None,
            None => Some(job_info(&channel, &me, late).inspect_err(|_| channel.close())?),
        };
        let local = Local::new(me.clone(), env.hostname.clone(), view, job);
        let connected = Client::new(me, ClientKind::Launched, Arc::new(channel), is_our_server, local);
        // Nobody else sets it.
        let _ = client.set(Arc::downgrade(&connected.inner));
        if let Some(server) = &env.server {
            let _ = connected.inner.server_uri.set(server.to_string());
        }
        connected.inner.report_corruption();
        Ok(connected)
    }

    /// The client of a process that is its own server, which others find at `uri`.
    ///
    /// It keeps nothing of what the link says, which is assumed to know what is new.
    pub fn with_link(me: Proc, hostname: Vec<u8>, uri: String, link: Arc<dyn Link>) -> Client {
        let local = Local::new(me.clone(), hostname, None, None);
        let client = Client::new(me, ClientKind::InProcessServer, link, true, local);
        // Nobody else sets it.
        let _ = client.inner.server_uri.set(uri);
        client
    }

    /// The client of a tool. What its servers say unasked comes to it by `slot`.
    pub(crate) fn with_servers(
        me: Proc,
        kind: ClientKind,
        hostname: Vec<u8>,
        servers: Arc<dyn Link>,
        job: JobData,
        slot: &OnceLock<Weak<Inner>>,
    ) -> Client {
        let local = Local::new(me.clone(), hostname, None, Some(job));
        let client = Client::new(me, kind, servers, false, local);
        // Nobody else sets it.
        let _ = slot.set(Arc::downgrade(&client.inner));
        client
    }

    /// A launched client with this link and these data.
    #[cfg(test)]
    pub(crate) fn for_tests(me: Proc, link: Arc<dyn Link>, local: Local) -> Client {
        Client::new(me, ClientKind::Launched, link, true, local)
    }

    /// `is_our_server`: commits need not repeat what it has.
    fn new(me: Proc, kind: ClientKind, link: Arc<dyn Link>, is_our_server: bool, local: Local) -> Client {
        let inner = Inner {
            me,
            kind,
            link,
            server_uri: OnceLock::new(),
            local,
            puts: Mutex::new(Puts::new(is_our_server)),
            registry: Arc::default(),
            groups: Groups::default(),
            outputs: Outputs::default(),
            inputs: Inputs::default(),
            is_final: AtomicBool::new(false),
            attached: OnceLock::new(),
            is_told: AtomicBool::new(false),
        };
        Client { inner: Arc::new(inner) }
    }

    /// This process.
    pub fn me(&self) -> &Proc {
        &self.inner.me
    }

    /// Whether the process has no server. It reads and stores values of its own, and a fence of it is over at once.
    pub fn is_singleton(&self) -> bool {
        self.inner.kind == ClientKind::Singleton
    }

    /// Something of the caller's that lives as long as the client; made when it is first asked for. `None` where something
    /// of another type was attached.
    #[inline]
    pub fn attached<T: Any + Send + Sync + Default>(&self) -> Option<&T> {
        self.inner.attached.get_or_init(|| Box::<T>::default()).downcast_ref()
    }

    /// Whether a name in a buffer, with a NUL behind it, is that of the own namespace.
    #[inline]
    pub fn is_own(&self, name: &[u8; NSPACE_LEN_MAX + 1]) -> bool {
        self.inner.local.name.is(name)
    }

    /// The mapped segments of the own namespace, where there are any.
    pub fn view(&self) -> Option<&NamespaceView> {
        self.inner.local.view.as_ref()
    }

    /// Puts a value for other processes to get after the next [`Client::commit`].
    ///
    /// Reserved keys are dropped, as releases before 6.1 do: MPI libraries put some. Qualified values are kept.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an empty key, or a qualified value that is none; `ERR_NOMEM`; what packing says of a value that
    /// no commit could send; `ERR_OUT_OF_RESOURCE` for one with which the next commit would be too long: it would make the
    /// commits of all other values fail with it.
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
            inner.puts.lock().put(key.clone(), scope, Arc::clone(&value), len)?;
        }
        inner.local.overlay.set(&inner.me.nspace, inner.me.rank, key, value, Origin::Own)
    }

    /// Deletes a key that this process has put: for the readers of the scope from the next [`Client::commit`] on, for itself at once,
    /// unless others may still read it. There need not be a value.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an empty key; `ERR_NOT_SUPPORTED` where the server is of a release before 7.0, which would pass over it;
    /// `ERR_OUT_OF_RESOURCE` as for [`Client::put`]; `ERR_NOMEM`.
    pub fn delete(&self, scope: Scope, key: Key) -> Result<()> {
        if key.as_bytes().is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let Inner { me, link, local, kind, .. } = &*self.inner;
        let has_server = *kind != ClientKind::Singleton;
        if has_server && !link.is_ours() && !link.server_version().deletes_keys() {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        // None was put under such a key.
        if key.is_reserved() {
            return Ok(());
        }
        let mut puts = self.inner.puts.lock();
        let is_still_put = match scope {
            Scope::Internal => puts.scope_of(&key).is_some(),
            scope => puts.delete(&key, scope)?.is_some(),
        };
        if !is_still_put {
            local.overlay.delete(me, &key, has_server && scope != Scope::Internal)?;
            local.reply_cache.forget(me.nspace.as_bytes(), me.rank, key.as_bytes());
        }
        Ok(())
    }

    /// Stores a value of some process for this process alone.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an empty key.
    pub fn store_internal(&self, proc: &Proc, key: Key, value: Value) -> Result<()> {
        if key.as_bytes().is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        self.inner.local.overlay.set(&proc.nspace, proc.rank, key, value, Origin::Own)
    }

    /// Sends what was put to the server.
    ///
    /// # Errors
    /// What the server answers; `ERR_LOST_CONNECTION`.
    pub fn commit(&self) -> Result<()> {
        let inner = &self.inner;
        if inner.kind == ClientKind::Singleton {
            return Ok(());
        }
        // Held over the request: a commit of another thread must not overtake this one with older values.
        let mut puts = inner.puts.lock();
        let parts = puts.parts()?;
        // The first one says that this process has put what it wants to put, be it nothing: others may wait for that.
        if parts.is_empty() && puts.only_new && puts.has_committed {
            return Ok(());
        }
        let payload = Request::encode_commit(inner.link.dialect(), &parts)?;
        drop(parts);
        inner.status_to(payload, None)?;
        puts.committed();
        inner.local.overlay.forget_deleted();
        Ok(())
    }

    /// A barrier of `procs`; none given means the whole of the caller's namespace.
    pub fn fence(&self, procs: &[Proc], infos: Vec<Info>) -> Operation<()> {
        if self.inner.kind == ClientKind::Singleton {
            return Operation::ready(&self.inner.link, Ok(()));
        }
        let procs = match procs {
            [] => vec![Proc::new(self.inner.me.nspace.clone(), Rank::WILDCARD)],
            procs => self.inner.members_of(procs.to_vec()),
        };
        let timeout = timeout_of(&infos);
        self.inner.ask(Request::Fence { procs, infos }, timeout, |inner, reply: FenceReply| {
            outcome(reply.status)?;
            inner.after_fence();
            Ok(())
        })
    }

    /// Asks the host to abort `procs` (none: the caller's whole job) and waits for its answer.
    ///
    /// # Errors
    /// What the host answers.
    pub fn abort(&self, status: Status, message: Option<&CStr>, procs: &[Proc]) -> Result<()> {
        let message = message.map(CStr::to_owned);
        self.inner.status_of(&Request::Abort { status, message, procs: procs.to_vec() }, None)
    }

    /// Runs the handlers for an event that came from the server.
    pub fn deliver(&self, event: Event) {
        self.inner.deliver(event);
    }

    /// Runs `task` on the thread where callbacks run, after those already due and never before this call has returned.
    pub fn later(&self, task: Task) {
        let _call = Call::begin();
        let task = after_call(&self.inner.link, |()| task());
        self.inner.link.defer(Box::new(|| task(())));
    }

    /// The name of this process's node.
    pub fn hostname(&self) -> String {
        String::from_utf8_lossy(self.inner.local.hostname()).into_owned()
    }

    /// Tells the server that this process is done, and ends the connection.
    ///
    /// With `PMIX_EMBED_BARRIER` a fence of the namespace comes first.
    ///
    /// # Errors
    /// What the server or the fence answers. The connection is ended in any case.
    pub fn finalize(&self, infos: &[Info]) -> Result<()> {
        check_required(infos)?;
        let inner = &self.inner;
        let mut result = Ok(());
        if Info::is_set(infos, keys::EMBED_BARRIER) {
            result = self.fence(&[], Vec::new()).wait();
        }
        inner.is_final.store(true, Ordering::Release);
        // The code of the handlers may be gone from memory soon.
        inner.registry.close();
        inner.inputs.stop();
        inner.outputs.flush();
        if inner.kind == ClientKind::Launched {
            let farewell = inner.status_by(&Request::Finalize, Some(Instant::now() + FAREWELL_TIME));
            // Servers before 4.0 hang up instead of answering; and nobody can do anything about one that is gone.
            result = match farewell {
                Err(Status::ERR_LOST_CONNECTION | Status::ERR_TIMEOUT | Status::ERR_UNREACH) => result,
                answered => result.and(answered),
            };
        }
        inner.link.close();
        result
    }
}

impl Inner {
    /// An operation that sends a request and makes its result of the decoded reply.
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
        Operation::ask(&self.link, payload, timeout, move |reply| {
            let reply = inner.decode_and_drop(reply?)?;
            finish(&inner, reply)
        })
    }

    pub(crate) fn encode(&self, request: &Request) -> Result<Vec<u8>> {
        request.encode(self.link.dialect(), self.link.server_version())
    }

    pub(crate) fn decode<Y: Reply>(&self, payload: &[u8]) -> Result<Y> {
        Y::decode(self.link.dialect(), self.link.server_version(), payload)
    }

    /// As [`Inner::decode`]; the payload is gone before what was read of it is copied elsewhere.
    pub(crate) fn decode_and_drop<Y: Reply>(&self, payload: Vec<u8>) -> Result<Y> {
        self.decode(&payload)
    }

    /// Sends a request and waits for the status that answers it.
    pub(crate) fn status_of(&self, request: &Request, timeout: Option<Duration>) -> Result<()> {
        self.status_by(request, deadline(timeout))
    }

    fn status_by(&self, request: &Request, deadline: Option<Instant>) -> Result<()> {
        self.status_to(self.encode(request)?, deadline)
    }

    fn status_to(&self, payload: impl Into<GatherBuf>, deadline: Option<Instant>) -> Result<()> {
        let reply = self.link.request_wait(payload.into(), deadline)?;
        outcome(self.decode::<StatusReply>(&reply)?.status)
    }

    /// What others published is new: read it at the next Get, and make that Get find everything mapped.
    fn after_fence(&self) {
        self.local.reply_cache.forget_ranks();
        self.local.overlay.forget_refreshed();
        if let Some(view) = &self.local.view {
            view.refresh();
        }
        self.report_corruption();
    }

    /// Says on stderr, once, that a segment is not used, where that is the work of damage.
    pub(crate) fn report_corruption(&self) {
        let view = self.local.view.as_ref().filter(|view| !view.is_complete());
        if let Some(error) = view.and_then(NamespaceView::last_error).filter(|error| !error.is_usual())
            && !self.is_told.swap(true, Ordering::Relaxed)
        {
            without_segments(&self.me, &error);
        }
    }

    fn take_incoming(self: &Arc<Inner>, incoming: Incoming) {
        if self.is_final.load(Ordering::Acquire) {
            return;
        }
        match incoming {
            Incoming::Notification(payload) => {
                // What cannot be read is not for us.
                if let Ok(event) = Notification::decode(self.link.dialect(), &payload) {
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
                    self.local.reply_cache.forget(proc.nspace.as_bytes(), proc.rank, key.as_bytes());
                }
            }
            Incoming::Lost => self.deliver(Event::new(Status::ERR_LOST_CONNECTION, self.me.clone(), Vec::new())),
        }
    }
}

/// Hands what comes unasked to the client, once it is there. It cannot come before: callbacks are not run yet.
pub(crate) fn sink(client: Arc<OnceLock<Weak<Inner>>>) -> Sink {
    Arc::new(move |incoming| {
        if let Some(inner) = client.get().and_then(Weak::upgrade) {
            inner.take_incoming(incoming);
        }
    })
}

/// Says on stderr why there is no connection: the process goes on without its server, or ends, and nobody else knows why.
fn refused(env: &Environment, me: &Proc, status: Status) {
    let place =
        env.server.as_ref().map_or_else(|| "the server".into(), |uri| format!("{} at {}", uri.proc, uri.address));
    let version = &env.server_version;
    // A process may have closed its stderr.
    let _ = writeln!(
        std::io::stderr(),
        "pmix-dstore client {me}: no connection to {place} (release {version}): {status}; is its job still running?"
    );
}

/// Opens the directory that our server named, if it did and the directory is the one that it made.
fn directory(env: &Environment, me: &Proc) -> Option<Arc<Directory>> {
    let opened = Directory::open(env.directory.as_ref()?, env.directory_id?);
    opened.inspect_err(|error| without_segments(me, error)).ok().map(Arc::new)
}

/// Attaches the segments in the server's directory, if they may be used.
fn attach(directory: Arc<Directory>, me: &Proc) -> Option<NamespaceView> {
    let view = NamespaceView::attach(directory).inspect_err(|error| without_segments(me, error)).ok()?;
    Some(view).filter(|view| *view.nspace() == me.nspace)
}

/// Says on stderr that segments are not used and why, where that is not how it should be.
fn without_segments(me: &Proc, error: &AttachError) {
    if !error.is_usual() {
        // A process may have closed its stderr.
        let _ = writeln!(std::io::stderr(), "pmix-dstore client {me}: {error}; values come over the socket");
    }
}

/// Asks for all that the server knows of the own job.
pub(crate) fn job_info(channel: &dyn Link, me: &Proc, deadline: Instant) -> Result<JobData> {
    let request = Request::JobInfo.encode(channel.dialect(), channel.server_version())?;
    let payload = channel.request_wait(request.into(), Some(deadline))?;
    let job = jobinfo::decode(channel.dialect(), &payload)?;
    if job.nspace == me.nspace { Ok(job) } else { Err(Status::ERR_INVALID_NAMESPACE) }
}

#[cfg(test)]
pub(crate) mod tests;
