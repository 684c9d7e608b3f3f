//! A client: what a rank calls.

use std::ffi::CString;
use std::time::Duration;

use pmix_client::Environment;
use pmix_dstore::model::attributes::{self, Attribute, Typed};
use pmix_dstore::model::{Info, Key as KeyName, Proc, Rank, Scope, Status, Value};

use crate::error::{Cause, Error, GET, Result};
use crate::events::{Events, Range};

/// A process as a client of its PMIx server. It may be cloned, and used by any thread, also inside handlers.
///
/// ```no_run
/// use pmix::{Client, Key, Scope, attributes};
///
/// const PORT: Key<u16> = Key::own("app.port");
///
/// let client = Client::connect()?;
/// client.put(Scope::Global, PORT, 4711_u16)?;
/// client.commit()?;
/// client.fence().collect_data().wait()?;
/// let size = client.get(&client.job(), attributes::JOB_SIZE)?;
/// let neighbour = client.peer((client.rank() + 1) % size);
/// println!("{neighbour} listens at port {}", client.get(&neighbour, PORT)?);
/// client.finalize()?;
/// # Ok::<(), pmix::Error>(())
/// ```
///
/// The compiler checks that a value has the type of its key:
///
/// ```compile_fail,E0277
/// # use pmix::{Client, Key, Scope};
/// const PORT: Key<u16> = Key::own("app.port");
///
/// let client = Client::connect()?;
/// client.put(Scope::Global, PORT, "4711")?;
/// # Ok::<(), pmix::Error>(())
/// ```
#[derive(Clone)]
pub struct Client {
    inner: pmix_client::Client,
}

/// A published value.
#[derive(Clone, Debug, PartialEq)]
pub struct Published<T> {
    /// The process that published it.
    pub process: Proc,
    /// The value.
    pub value: T,
}

impl Client {
    /// Connects to the server that the environment names. A process that nobody launched becomes a singleton: a job of one rank.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an environment that is none, `ERR_UNREACH` for a server that does not answer, or the status with which it refuses.
    pub fn connect() -> Result<Client> {
        let env = Environment::from_process().map_err(|status| Error::new("reading the environment", status))?;
        Client::connect_by(&env, &[])
    }

    /// As [`Client::connect`], by this environment, and with infos for the start (those of `PMIx_Init`).
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_by(env: &Environment, infos: &[Info]) -> Result<Client> {
        let connected = pmix_client::Client::connect(env, infos);
        let inner = connected.map_err(|status| Error::new("connection", status).with_process(&env.proc()))?;
        Ok(Client { inner })
    }

    /// A client without a server, whatever the environment names. It reads what it puts.
    ///
    /// # Errors
    /// `ERR_NOMEM`, `ERR_OUT_OF_RESOURCE`.
    pub fn singleton() -> Result<Client> {
        let env = Environment::from_lookup(|_| None).map_err(|status| Error::new("reading the environment", status))?;
        Client::connect_by(&env, &[])
    }

    /// The client of `pmix-client`, which has all calls of the standard.
    pub fn inner(&self) -> &pmix_client::Client {
        &self.inner
    }

    /// This process.
    pub fn me(&self) -> &Proc {
        self.inner.me()
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.me().rank.0
    }

    /// A process of this job.
    pub fn peer(&self, rank: u32) -> Proc {
        Proc::new(self.me().nspace.clone(), Rank(rank))
    }

    /// This job: values that belong to no single process are got of it.
    pub fn job(&self) -> Proc {
        Proc::new(self.me().nspace.clone(), Rank::WILDCARD)
    }

    /// Whether the process has no server.
    pub fn is_singleton(&self) -> bool {
        self.inner.is_singleton()
    }

    /// Puts a value for the processes in the scope. They can get it after the next [`Client::commit`] and a fence that collects data.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a key of the standard, whose value the host or the library provides; as [`pmix_client::Client::put`].
    pub fn put<T: Typed>(&self, scope: Scope, key: Attribute<T>, value: impl Into<T>) -> Result<()> {
        let failed = |cause: Cause| Error::new("put", cause).with_key(key.key()).with_process(self.me());
        let Info { key: name, value, .. } = key.info(value);
        // The library ignores it, as MPI libraries want it to.
        if name.is_reserved() {
            let words = "keys that begin with `pmix` belong to the standard; put a key of your own (Key::own)";
            return Err(failed(Cause::Arguments(words.to_owned())));
        }
        self.inner.put(scope, name, value).map_err(|status| failed(status.into()))
    }

    /// Sends what was put to the server.
    ///
    /// # Errors
    /// The server's status; `ERR_LOST_CONNECTION`.
    pub fn commit(&self) -> Result<()> {
        self.inner.commit().map_err(|status| Error::new("commit", status).with_process(self.me()))
    }

    /// A barrier of the job's processes. It is entered by [`Fence::wait`].
    pub fn fence(&self) -> Fence<'_> {
        Fence { client: self, procs: Vec::new(), infos: Vec::new() }
    }

    /// Gets a value of a process, or of the job ([`Client::job`]). If the process has not committed yet, this waits for it.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND`; `ERR_TYPE_MISMATCH` if the value has another type than the key; errors of the server.
    pub fn get<T: Typed>(&self, process: &Proc, key: Attribute<T>) -> Result<T> {
        self.get_with(process, key, &[])
    }

    /// As [`Client::get`], but waits for nobody: `None` if this process and its server do not have the value.
    ///
    /// # Errors
    /// As [`Client::get`], but for a value that is not found.
    pub fn get_optional<T: Typed>(&self, process: &Proc, key: Attribute<T>) -> Result<Option<T>> {
        match self.get_with(process, key, &[attributes::OPTIONAL.info(true)]) {
            Err(error) if error.status() == Status::ERR_NOT_FOUND => Ok(None),
            found => found.map(Some),
        }
    }

    /// As [`Client::get`], but waits no longer than this, in whole seconds.
    ///
    /// # Errors
    /// As [`Client::get`]; `ERR_TIMEOUT`.
    pub fn get_within<T: Typed>(&self, process: &Proc, key: Attribute<T>, limit: Duration) -> Result<T> {
        self.get_with(process, key, &[timeout(limit)])
    }

    /// As [`Client::get`], with infos (those of `PMIx_Get`).
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_with<T: Typed>(&self, process: &Proc, key: Attribute<T>, infos: &[Info]) -> Result<T> {
        let failed = |cause: Cause| Error::new(GET, cause).with_key(key.key()).with_process(process);
        let value = self.inner.get_value(process, key.key(), infos).map_err(|status| failed(status.into()))?;
        read(key, &value).map_err(failed)
    }

    /// A stream of the events with these codes; no codes are all events.
    ///
    /// # Errors
    /// If the server refuses the registration.
    pub fn events(&self, codes: &[Status]) -> Result<Events> {
        Events::open(&self.inner, codes)
    }

    /// Sends an event to the processes in the range; those get it that have a stream or handler for its code.
    ///
    /// # Errors
    /// `ERR_UNREACH` without a server, unless the event is for this process alone; the server's status.
    pub fn notify(&self, code: Status, range: Range, infos: Vec<Info>) -> Result<()> {
        let sent = self.inner.notify_event(code, self.me().clone(), range as u8, infos).wait();
        sent.map_err(|status| Error::new("notification", status).with_process(self.me()))
    }

    /// Publishes a value for processes of other jobs, which look it up by its key alone.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` under a host that keeps no published values; its status.
    pub fn publish<T: Typed>(&self, key: Attribute<T>, value: impl Into<T>) -> Result<()> {
        let published = self.inner.publish(vec![key.info(value)]).wait();
        published.map_err(|status| Error::new("publish", status).with_key(key.key()).with_process(self.me()))
    }

    /// Looks up a published value.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND`; `ERR_NOT_SUPPORTED`; `ERR_TYPE_MISMATCH`.
    pub fn look_up<T: Typed>(&self, key: Attribute<T>) -> Result<Published<T>> {
        let failed = |cause: Cause| Error::new("look-up", cause).with_key(key.key());
        let found = self.inner.lookup(vec![name(key)], Vec::new()).wait().map_err(|status| failed(status.into()))?;
        let found = found.into_iter().find(|found| found.key.is(key.key()));
        let found = found.ok_or_else(|| failed(Status::ERR_NOT_FOUND.into()))?;
        let value = read(key, &found.value).map_err(|cause| failed(cause).with_process(&found.proc))?;
        Ok(Published { process: found.proc, value })
    }

    /// Takes a published value of this process back.
    ///
    /// # Errors
    /// The host's status.
    pub fn unpublish<T>(&self, key: Attribute<T>) -> Result<()> {
        let taken = self.inner.unpublish(vec![name(key)], Vec::new()).wait();
        taken.map_err(|status| Error::new("unpublish", status).with_key(key.key()).with_process(self.me()))
    }

    /// Has the host print a text, where it offers that.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED`; the host's status.
    pub fn log(&self, text: &str) -> Result<()> {
        let logged = self.inner.log(vec![attributes::LOG_STDOUT.info(text)], Vec::new()).wait();
        logged.map_err(|status| Error::new("log", status).with_process(self.me()))
    }

    /// Asks the host to end the whole job with this exit status.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED`; the host's status.
    pub fn abort(&self, exit_status: i32, message: &str) -> Result<()> {
        let failed = |cause: Cause| Error::new("abort", cause).with_process(self.me());
        let text = CString::new(message).map_err(|_| failed(Cause::Arguments("the message holds a NUL".to_owned())))?;
        self.inner.abort(Status(exit_status), Some(&text), &[]).map_err(|status| failed(status.into()))
    }

    /// Tells the server that this process is done, and closes the connection. A process that ends without it counts as lost.
    ///
    /// # Errors
    /// The server's status, or that of a refused commit. The connection is closed in any case.
    pub fn finalize(self) -> Result<()> {
        self.inner.finalize(&[]).map_err(|status| Error::new("finalize", status).with_process(self.me()))
    }
}

/// A fence that was not entered yet.
#[must_use = "a fence does nothing until it is waited for"]
pub struct Fence<'c> {
    client: &'c Client,
    procs: Vec<Proc>,
    infos: Vec<Info>,
}

impl Fence<'_> {
    /// Brings all committed values to all nodes.
    pub fn collect_data(mut self) -> Self {
        self.infos.push(attributes::COLLECT_DATA.info(true));
        self
    }

    /// A fence of these processes instead of the whole job.
    pub fn of(mut self, procs: impl IntoIterator<Item = Proc>) -> Self {
        self.procs.extend(procs);
        self
    }

    /// Gives up after this time, in whole seconds.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.infos.push(timeout(limit));
        self
    }

    /// Enters the fence, and waits for the others.
    ///
    /// # Errors
    /// `ERR_TIMEOUT`; `ERR_PARTIAL_SUCCESS` if processes have died; `ERR_LOST_CONNECTION`; the status of a refused commit.
    pub fn wait(self) -> Result<()> {
        let entered = self.client.inner.fence(&self.procs, self.infos).wait();
        entered.map_err(|status| Error::new("fence", status).with_process(&self.client.job()))
    }
}

fn read<T: Typed>(key: Attribute<T>, value: &Value) -> Result<T, Cause> {
    key.read(value).ok_or(Cause::Type { wanted: key.data_type(), found: value.data_type() })
}

/// The directive of a time limit; the standard counts whole seconds.
pub(crate) fn timeout(limit: Duration) -> Info {
    let seconds = limit.as_secs() + u64::from(limit.subsec_nanos() > 0);
    attributes::TIMEOUT.info(i32::try_from(seconds.max(1)).unwrap_or(i32::MAX))
}

/// The name of a key for calls that take it as C does.
fn name<T>(key: Attribute<T>) -> CString {
    // No key of a constant holds a NUL: `KeyName` refuses it.
    CString::new(KeyName::from(key.key()).as_bytes()).unwrap_or_default()
}
