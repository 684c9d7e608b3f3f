//! Connected processes, which have a namespace of their own (RFC0003).

use std::time::Duration;

use pmix_client::events::range;
use pmix_dstore::model::attributes;
use pmix_dstore::model::{Info, Proc, Rank, Status};

use crate::client::{Client, timeout};
use crate::error::{CONNECT, DISCONNECT, Error, Result};

/// A connect that was not entered yet ([`Client::connect_all`]). All processes that it names enter it.
#[must_use = "a connect does nothing until it is waited for"]
pub struct Connect<'c> {
    client: &'c Client,
    procs: Vec<Proc>,
    infos: Vec<Info>,
}

impl Client {
    /// Connects processes, which then have a namespace together. It is entered by [`Connect::wait`].
    pub fn connect_all(&self, procs: impl IntoIterator<Item = Proc>) -> Connect<'_> {
        Connect { client: self, procs: procs.into_iter().collect(), infos: Vec::new() }
    }
}

impl Connect<'_> {
    /// The identifier of this connect, which all processes give: connects of the same processes at the same time are told apart by it.
    pub fn id(mut self, id: &str) -> Self {
        self.infos.push(attributes::CONNECT_ID.info(id));
        self
    }

    /// Processes that end before they connect are no failure. All say the same.
    pub fn optional(mut self) -> Self {
        self.infos.push(attributes::CONNECT_OPTIONAL.info(true));
        self
    }

    /// Processes may end without a disconnect: the others are not told, and go on. All say the same.
    pub fn early_end(mut self) -> Self {
        self.infos.push(attributes::CONNECT_EARLY_TERM_ALLOWED.info(true));
        self
    }

    /// The others on this node hear that this process connects (`PROC_HAS_CONNECTED`).
    pub fn notify_each(mut self) -> Self {
        self.infos.push(attributes::CONNECT_NOTIFY_EACH.info(true));
        self
    }

    /// If this process is the first to connect, the others are asked to connect, too (`CONNECT_REQUESTED`).
    pub fn request(mut self) -> Self {
        self.infos.push(attributes::CONNECT_NOTIFY_REQ.info(true));
        self
    }

    /// Gives up after this time, in whole seconds.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.infos.push(timeout(limit));
        self
    }

    /// Connects, and waits for the others.
    ///
    /// # Errors
    /// `ERR_LOST_CONNECTION` if processes have ended; `ERR_BAD_PARAM` if this process is not among them, or they disagree about the terms;
    /// `ERR_NOT_FOUND` if the size of a job is unknown; `ERR_TIMEOUT`; the host's status.
    pub fn wait(self) -> Result<Connection> {
        let client = self.client;
        let failed = |status| Error::new(CONNECT, status).with_process(client.me());
        let me = client.inner().connect_namespace(self.procs, self.infos).wait().map_err(failed)?;
        // Only an exchange gives none.
        let me = me.ok_or_else(|| failed(Status::ERR_NOT_FOUND))?;
        Ok(Connection { client: client.clone(), me })
    }

    /// Exchanges the data of the processes' jobs, and connects nobody. All do the same.
    ///
    /// # Errors
    /// As [`Connect::wait`].
    pub fn exchange(mut self) -> Result<()> {
        self.infos.push(attributes::CONNECT_XCHG_ONLY.info(true));
        let exchanged = self.client.inner().connect_namespace(self.procs, self.infos).wait();
        exchanged.map(drop).map_err(|status| Error::new(CONNECT, status).with_process(self.client.me()))
    }
}

/// Connected processes. Their ranks are counted through all of their jobs, and [`Client::get`] and [`Fence::of`](crate::Fence::of) take their
/// names. A process that ends without [`Connection::disconnect`] is told of as lost.
///
/// ```no_run
/// use pmix::{Client, attributes};
///
/// let client = Client::connect()?;
/// let connection = client.connect_all([client.job()]).id("mine").wait()?;
/// client.fence().of([connection.all()]).wait()?;
/// let first = client.get(&connection.peer(0), attributes::HOSTNAME)?;
/// println!("rank {} of {}; rank 0 is on {first}", connection.rank(), connection.size()?);
/// connection.disconnect()?;
/// client.finalize()?;
/// # Ok::<(), pmix::Error>(())
/// ```
#[derive(Clone)]
pub struct Connection {
    client: Client,
    me: Proc,
}

impl Connection {
    /// This process, under its name as a member.
    pub fn me(&self) -> &Proc {
        &self.me
    }

    /// This process's rank among the members.
    pub fn rank(&self) -> u32 {
        self.me.rank.0
    }

    /// A member.
    pub fn peer(&self, rank: u32) -> Proc {
        Proc::new(self.me.nspace.clone(), Rank(rank))
    }

    /// All members.
    pub fn all(&self) -> Proc {
        Proc::new(self.me.nspace.clone(), Rank::WILDCARD)
    }

    /// The number of members.
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` after a disconnect.
    pub fn size(&self) -> Result<u32> {
        self.client.get(&self.all(), attributes::JOB_SIZE)
    }

    /// Sends an event to all members.
    ///
    /// # Errors
    /// The server's status.
    pub fn notify(&self, code: Status, infos: Vec<Info>) -> Result<()> {
        let sent = self.client.inner().notify_event(code, self.me.clone(), range::NAMESPACE, infos).wait();
        sent.map_err(|status| Error::new("notification", status).with_process(&self.all()))
    }

    /// Ends the connection, as all members do.
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` if it has ended; `ERR_LOST_CONNECTION` if members have ended; the host's status.
    pub fn disconnect(self) -> Result<()> {
        let ended = self.client.inner().disconnect_namespace(&self.me.nspace, Vec::new()).wait();
        ended.map_err(|status| Error::new(DISCONNECT, status).with_process(&self.all()))
    }
}
