//! The host's interface of a server.

mod delivery;
mod end;
mod jobs;
mod launch;
mod start;
#[cfg(test)]
pub(crate) mod tests;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use pmix_client::{Call, Client, Returned};
use pmix_dstore::fallible_alloc::Thread;
use pmix_dstore::model::{Info, Proc, Status};

pub use self::launch::setup_of_application;
use crate::engine::Engine;
use crate::rendezvous::Rendezvous;
use crate::report::{DmodexDone, OpDone, Stats, Waiting};
use crate::shared_state::SharedState;

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
    shared: Arc<SharedState>,
    client: Arc<Client>,
    me: Proc,
    hostname: String,
    thread: Mutex<Option<Thread>>,
    /// Values about the node for all jobs.
    topology: Vec<Info>,
    /// Output is written to this process's own, too.
    shows_output: bool,
    /// How tools find the server.
    rendezvous: Mutex<Rendezvous>,
    /// Detects a forked child, which has neither the server's thread nor a right to its files.
    pid: u32,
}

impl Server {
    /// The server process as a client of itself: every client call works there.
    pub fn client(&self) -> Arc<Client> {
        self.client.clone()
    }

    /// Watches the pipe from the process that started this one: the own event handlers are told when it ends.
    pub fn watch_starter(&self, pipe: OwnedFd) {
        *self.shared.starter.lock() = Some(pipe);
        self.shared.wake();
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
        if self.shared.is_stopped() {
            return Status::ERR_INIT;
        }
        let _call = Call::begin();
        let has_callback = done.is_some();
        let (status, tickets) = {
            let mut engine = self.shared.engine.lock();
            if engine.is_ended() {
                // Finalize was faster: nobody would remove what this operation makes.
                return Status::ERR_INIT;
            }
            let (status, tickets) = engine.recording(operation);
            if let Some(done) = done {
                engine.call_after(tickets.clone(), self.shared.after_call(move || done(status)));
            }
            (status, tickets)
        };
        // Writes the files on this thread, without the engine's lock.
        self.shared.await_published(&tickets, !has_callback);
        self.shared.write_journals();
        match status {
            _ if has_callback => Status::SUCCESS,
            status if status.is_success() => Status::OPERATION_SUCCEEDED,
            status => status,
        }
    }

    /// Requests the committed values of a local process for another server; waits for its commit.
    pub fn dmodex_request(&self, proc: Proc, done: DmodexDone) -> Status {
        if self.shared.is_stopped() {
            return Status::ERR_INIT;
        }
        let _call = Call::begin();
        let done = match Returned::of_this_call() {
            None => done,
            Some(returned) => {
                let shared = Arc::downgrade(&self.shared);
                Box::new(move |status, data| match shared.upgrade() {
                    Some(shared) => shared.after(returned, Box::new(move || done(status, data))),
                    None => done(status, data),
                })
            }
        };
        self.shared.feed(|engine| match engine.is_ended() {
            true => Status::ERR_INIT,
            false => engine.dmodex_request(proc, done),
        })
    }

    /// What processes wait for.
    pub fn waiting(&self) -> Waiting {
        self.shared.engine.lock().waiting(Instant::now())
    }

    /// Figures for reports.
    pub fn stats(&self) -> Stats {
        self.shared.engine.lock().stats()
    }
}
