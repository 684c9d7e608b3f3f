//! A host: the program that starts ranks and embeds their server.

use std::sync::Arc;

use pmix_dstore::model::{Info, Status, attributes};
use pmix_server::{Host as Upcalls, Server};

use crate::error::{Error, Result, done};
use crate::job::{Job, JobBuilder};
use crate::upcalls::Answers;

/// A host with its server. Its jobs and ranks are registered here, and its [`Upcalls`](crate::Upcalls) answer what they ask.
///
/// ```
/// use std::process::Command;
///
/// use pmix::Host;
///
/// let host = Host::builder().hostname("n1").start()?;
/// // Four ranks on two nodes; this host starts those of n1.
/// let job = host.job("example").node("n1", [0, 1]).node("n2", [2, 3]).register()?;
/// for rank in job.ranks_here() {
///     let mut command = Command::new("/bin/true");
///     job.prepare(rank, &mut command)?;
///     command.status().expect("the program ends");
/// }
/// job.deregister()?;
/// host.finalize()?;
/// # Ok::<(), pmix::Error>(())
/// ```
///
/// Dropping it ends the server, too.
pub struct Host {
    server: Arc<Server>,
}

/// The settings of a host: [`Host::builder`] makes it.
#[must_use = "a host is started by `start`"]
#[derive(Default)]
pub struct HostBuilder {
    infos: Vec<Info>,
    upcalls: Option<Arc<dyn Upcalls>>,
}

impl Host {
    /// A host with default settings, that supports no upcall but lets all of its ranks connect.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// The server of `pmix-server`, which has all calls of a host.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The name of this node.
    pub fn hostname(&self) -> String {
        self.server.client().hostname()
    }

    /// Begins the description of a job with this name, which no other job of the host has.
    pub fn job(&self, name: &str) -> JobBuilder {
        JobBuilder::new(Arc::clone(&self.server), name)
    }

    /// Sends an event to the processes of a job on this node, those that have a stream or handler for its code.
    ///
    /// # Errors
    /// The server's status.
    pub fn notify(&self, code: Status, job: &Job, mut infos: Vec<Info>) -> Result<()> {
        // The range alone would be the server's own namespace.
        infos.push(Info::new(attributes::EVENT_CUSTOM_RANGE.key(), pmix_dstore::model::Value::procs([job.whole()])));
        let source = self.server.me().clone();
        let status = self.server.notify_event(code, source, CUSTOM, infos, None);
        done(status).map_err(|status| Error::new("notification", status).with_process(&job.whole()))
    }

    /// Ends the server: ranks that are still there lose their connection, and its files are removed.
    ///
    /// # Errors
    /// `ERR_INIT` if it has ended already.
    pub fn finalize(self) -> Result<()> {
        done(self.server.finalize()).map_err(|status| Error::new("finalize of the host", status))
    }
}

/// The range of an event whose processes are named.
const CUSTOM: u8 = pmix_client::events::range::CUSTOM;

impl HostBuilder {
    /// The name of this node; without it that of the machine up to its first dot.
    pub fn hostname(self, name: &str) -> HostBuilder {
        self.info(attributes::HOSTNAME.info(name))
    }

    /// Adds an info for the start of the server (those of `PMIx_server_init`).
    pub fn info(mut self, info: Info) -> HostBuilder {
        self.infos.push(info);
        self
    }

    /// What answers the upcalls: closures ([`Answers`]), or a type of the host's own.
    pub fn upcalls(mut self, upcalls: impl Upcalls + 'static) -> HostBuilder {
        self.upcalls = Some(Arc::new(upcalls));
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    /// As [`Server::init`].
    pub fn start(self) -> Result<Host> {
        let upcalls = self.upcalls.unwrap_or_else(|| Arc::new(Answers::new()));
        let server = Server::init(upcalls, &self.infos).map_err(|status| Error::new("start of the host", status))?;
        Ok(Host { server })
    }
}
