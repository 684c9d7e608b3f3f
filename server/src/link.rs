//! The server process as a client of itself.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

use crossbeam::channel::{RecvTimeoutError, Sender, unbounded};
use parking_lot::Mutex;
use pmix_client::{Link, ReplyFn, Returned, Task};
use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Result, Status};
use pmix_wire::Version;

use crate::engine::{Engine, PeerId};
use crate::server::Inner;

/// The receiver of a reply.
enum Taker {
    /// A callback.
    Function(ReplyFn),
    /// A waiting thread.
    Thread(Sender<Reply>),
}

type Reply = Result<Vec<u8>, Status>;

impl Taker {
    fn take(self, reply: Reply) {
        match self {
            Taker::Function(function) => function(reply),
            // A thread that gave up waiting is no failure.
            Taker::Thread(sender) => drop(sender.send(reply)),
        }
    }
}

/// The requests of the server process that are not answered yet.
#[derive(Default)]
pub(crate) struct OwnRequests {
    tag: u32,
    waiting: HashMap<u32, Taker>,
    /// The server has ended: nothing will be answered any more.
    closed: bool,
}

impl OwnRequests {
    /// Numbers a request. Returns the taker if there will be no reply.
    fn open(&mut self, taker: Taker) -> Result<u32, Taker> {
        if self.closed {
            return Err(taker);
        }
        // Zero to 100 are reserved tags.
        self.tag = self.tag.checked_add(1).unwrap_or_default().max(101);
        self.waiting.insert(self.tag, taker);
        Ok(self.tag)
    }

    /// Whether no request waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The server has ended: fails the waiting requests.
    pub fn close(requests: &Mutex<OwnRequests>) {
        let waiting = {
            let mut requests = requests.lock();
            requests.closed = true;
            std::mem::take(&mut requests.waiting)
        };
        for taker in waiting.into_values() {
            taker.take(Err(Status::ERR_LOST_CONNECTION));
        }
    }

    /// Passes a reply to its receiver.
    pub fn answer(requests: &Mutex<OwnRequests>, tag: u32, reply: Reply) {
        let taker = requests.lock().waiting.remove(&tag);
        if let Some(taker) = taker {
            taker.take(reply);
        }
    }
}

/// The way from the server process's client calls into its own engine.
pub(crate) struct OwnLink(pub Weak<Inner>);

impl OwnLink {
    fn inner(&self) -> Result<Arc<Inner>> {
        self.0.upgrade().filter(|inner| !inner.is_stopped()).ok_or(Status::ERR_UNREACH)
    }
}

impl Link for OwnLink {
    fn ready(&self) -> Result<()> {
        self.inner().map(drop)
    }

    fn request(&self, payload: Vec<u8>, reply: ReplyFn) {
        // The server may have ended since it was asked whether it is ready.
        let refuse = |taker: Taker| self.defer(Box::new(move || taker.take(Err(Status::ERR_UNREACH))));
        let Ok(inner) = self.inner() else { return refuse(Taker::Function(reply)) };
        let tag = inner.own.lock().open(Taker::Function(reply));
        match tag {
            Ok(tag) => inner.feed(|engine| engine.message(PeerId::OWN, tag, payload, Instant::now())),
            Err(taker) => refuse(taker),
        }
    }

    fn request_wait(&self, payload: GatherBuf, deadline: Option<Instant>) -> Result<Vec<u8>> {
        let inner = self.inner()?;
        let payload = payload.into_bytes()?;
        let (sender, receiver) = unbounded();
        let tag = inner.own.lock().open(Taker::Thread(sender)).map_err(|_| Status::ERR_UNREACH)?;
        // Most requests are answered at once, without a switch to the server's thread and back.
        let (mut at_once, tickets) = {
            let mut engine = inner.engine.lock();
            let message = |engine: &mut Engine| engine.message(PeerId::OWN, tag, payload, Instant::now());
            let ((), tickets) = engine.recording(message);
            (engine.take_own_reply(tag), tickets)
        };
        inner.await_published(&tickets, true);
        if at_once.is_none() && !tickets.is_empty() {
            at_once = inner.engine.lock().take_own_reply(tag);
        }
        if let Some(reply) = at_once {
            inner.own.lock().waiting.remove(&tag);
            return Ok(reply);
        }
        if inner.is_own_thread() {
            // Inside an upcall the answer could never arrive, because this thread would have to process it.
            inner.own.lock().waiting.remove(&tag);
            return Err(Status::ERR_WOULD_BLOCK);
        }
        let result = match deadline {
            None => receiver.recv().map_err(|_| Status::ERR_LOST_CONNECTION),
            Some(deadline) => {
                receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|error| match error {
                    RecvTimeoutError::Timeout => Status::ERR_TIMEOUT,
                    RecvTimeoutError::Disconnected => Status::ERR_LOST_CONNECTION,
                })
            }
        };
        inner.own.lock().waiting.remove(&tag);
        result?
    }

    fn send(&self, payload: Vec<u8>) -> Result<()> {
        self.inner()?.feed(|engine| engine.message(PeerId::OWN, 0, payload, Instant::now()));
        Ok(())
    }

    fn defer(&self, task: Task) {
        let left = match self.0.upgrade() {
            Some(inner) => inner.later(task).err(),
            None => Some(task),
        };
        // The server has ended and has no thread any more. The callback must still run, so start a thread for it.
        left.into_iter().for_each(|task| drop(thread::Builder::new().name("pmix-callback".into()).spawn(task)));
    }

    fn after(&self, returned: Returned, task: Task) {
        match self.0.upgrade() {
            Some(inner) => inner.after(returned, task),
            None => task(),
        }
    }

    fn dialect(&self) -> Dialect {
        // The engine's own peer of this process: see `Peer::own`.
        Dialect::plain(Module::V41)
    }

    fn server_version(&self) -> Version {
        Version::OURS
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn jobs(&self) -> Vec<Arc<JobData>> {
        self.inner().map_or(Vec::new(), |inner| inner.engine.lock().jobs())
    }

    fn close(&self) {}
}
