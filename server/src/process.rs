//! The server of this process: reference-counted, and shared by all callers in the process.

use std::sync::Arc;

use parking_lot::RwLock;
use pmix_client::process;
use pmix_dstore::model::{Info, Proc, Result, Status, Value, keys};

use crate::{Host, Server};

/// The server while there is one.
struct Running {
    server: Arc<Server>,
    /// How often it was started.
    count: usize,
    /// Whether its own client is the one of the process.
    is_client: bool,
    /// A tool has become it.
    is_of_tool: bool,
}

static RUNNING: RwLock<Option<Running>> = RwLock::new(None);

/// The server of this process.
///
/// # Errors
/// `INIT` if there is none.
pub fn server() -> Result<Arc<Server>> {
    RUNNING.read().as_ref().map(|running| running.server.clone()).ok_or(Status::ERR_INIT)
}

/// Starts the server of this process, or counts one more start of it; in this case `host` is not called.
///
/// # Errors
/// As [`Server::init`], and those of `host`.
pub fn init(host: impl FnOnce() -> Result<(Arc<dyn Host>, Vec<Info>)>) -> Result<()> {
    let mut running = RUNNING.write();
    if let Some(running) = &mut *running {
        running.count += 1;
        return Ok(());
    }
    let (host, infos) = host()?;
    let server = Server::init(host, &infos)?;
    // A process that was a client of another server before stays its client.
    let is_client = process::install((*server.client()).clone()).is_ok();
    *running = Some(Running { server, count: 1, is_client, is_of_tool: false });
    Ok(())
}

/// Undoes one [`init`]. The last call ends the server, and this process's client if that is the server's own.
///
/// # Errors
/// `INIT` if there is no server; as [`Server::finalize`] and [`process::finalize`].
pub fn finalize() -> Result<()> {
    let ended = {
        let mut running = RUNNING.write();
        match &mut *running {
            None => return Err(Status::ERR_INIT),
            Some(running) if running.count > 1 => {
                running.count -= 1;
                return Ok(());
            }
            last => last.take(),
        }
    };
    // Outside the lock: the server's thread may still call back into this module.
    let Some(ended) = ended else { return Ok(()) };
    // First, because it still calls the process's own event handlers.
    let status = ended.server.finalize();
    // The client of a forked child has no server to report its end to.
    if ended.is_client && ended.server.is_of_this_process() {
        process::finalize(&[])?;
    }
    status.ok()
}

/// Makes the tool `me` a server. `infos` say by which files other tools find it.
///
/// # Errors
/// `EXISTS` if the process is a server already; as [`Server::init`].
pub fn begin_for_tool(host: Arc<dyn Host>, me: &Proc, infos: &[Info]) -> Result<()> {
    let mut running = RUNNING.write();
    if running.is_some() {
        return Err(Status::ERR_EXISTS);
    }
    let mut infos = Info::copies(infos)?;
    infos.push(Info::new(keys::SERVER_NSPACE, Value::string(me.nspace.as_bytes())));
    infos.push(Info::new(keys::SERVER_RANK, Value::Rank(me.rank)));
    let server = Server::init(host, &infos)?;
    *running = Some(Running { server, count: 1, is_client: false, is_of_tool: true });
    Ok(())
}

/// Ends the server that a tool has become.
pub fn end_of_tool() {
    let ended = RUNNING.write().take_if(|running| running.is_of_tool);
    // Outside the lock: the server's thread may still call back into this module.
    if let Some(ended) = ended {
        ended.server.finalize();
    }
}

/// To be called before a fork, in the parent: some hosts prepare a client's environment in the child.
pub fn will_fork() {
    // While another thread starts or ends the server, there is none that a child could use.
    let running = RUNNING.try_read();
    let server = running.as_deref().and_then(Option::as_ref).map(|running| &*running.server);
    Server::will_fork(server);
}

/// To be called after a fork, in the parent.
pub fn has_forked() {
    Server::has_forked();
}

/// To be called after a fork, in the child.
pub fn is_forked() {
    Server::is_forked();
}
