//! The server process as a client of itself.

use std::sync::{Arc, Weak};
use std::time::Instant;

use pmix_client::{Link, ReplyFn, Returned, Task};
use pmix_dstore::channel::{Missed, channel};
use pmix_dstore::codec::{Dialect, Module};
use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Result, Status};
use pmix_wire::Version;

use crate::engine::{Engine, PeerId};
use crate::fork;
use crate::own_requests::Taker;
use crate::shared_state::SharedState;

/// The way from the server process's client calls into its own engine.
pub(crate) struct OwnLink(pub Weak<SharedState>);

impl OwnLink {
    fn shared(&self) -> Result<Arc<SharedState>> {
        self.0.upgrade().filter(|shared| !shared.is_stopped() && is_here(shared)).ok_or(Status::ERR_UNREACH)
    }
}

/// Whether the server runs in this process, and not only a copy of it in a forked child, and this thread is not within a fork.
fn is_here(shared: &SharedState) -> bool {
    shared.is_here() && !fork::holds(&shared.engine)
}

impl Link for OwnLink {
    fn ready(&self) -> Result<()> {
        self.shared().map(drop)
    }

    fn request(&self, payload: Vec<u8>, reply: ReplyFn) {
        // The server may have ended since it was asked whether it is ready.
        let refuse = |taker: Taker| self.defer(Box::new(move || taker.take(Err(Status::ERR_UNREACH))));
        let Ok(shared) = self.shared() else { return refuse(Taker::Function(reply)) };
        let tag = shared.own.lock().open(Taker::Function(reply));
        match tag {
            Ok(tag) => shared.feed(|engine| engine.message(PeerId::OWN, tag, payload, Instant::now())),
            Err(taker) => refuse(taker),
        }
    }

    fn is_callback_thread(&self) -> bool {
        self.0.upgrade().is_some_and(|shared| shared.is_own_thread())
    }

    fn request_wait(&self, payload: GatherBuf, deadline: Option<Instant>) -> Result<Vec<u8>> {
        let shared = self.shared()?;
        let payload = payload.into_bytes()?;
        let (sender, receiver) = channel();
        let tag = shared.own.lock().open(Taker::Thread(sender)).map_err(|_| Status::ERR_UNREACH)?;
        // Most requests are answered at once, without a switch to the server's thread and back.
        let (mut at_once, tickets) = {
            let mut engine = shared.engine.lock();
            let message = |engine: &mut Engine| engine.message(PeerId::OWN, tag, payload, Instant::now());
            let ((), tickets) = engine.recording(message);
            (engine.take_own_reply(tag), tickets)
        };
        shared.await_published(&tickets, true);
        if at_once.is_none() && !tickets.is_empty() {
            at_once = shared.engine.lock().take_own_reply(tag);
        }
        if let Some(reply) = at_once {
            shared.own.lock().forget(tag);
            return Ok(reply);
        }
        if shared.is_own_thread() {
            // Inside an upcall the answer could never arrive, because this thread would have to process it.
            shared.own.lock().forget(tag);
            shared.engine.lock().take_back(tag);
            return Err(Status::ERR_WOULD_BLOCK);
        }
        let result = receiver.receive(deadline).map_err(|missed| match missed {
            Missed::Nothing => Status::ERR_TIMEOUT,
            Missed::Closed => Status::ERR_LOST_CONNECTION,
        });
        shared.own.lock().forget(tag);
        result?
    }

    fn send(&self, payload: Vec<u8>) -> Result<()> {
        self.shared()?.feed(|engine| engine.message(PeerId::OWN, 0, payload, Instant::now()));
        Ok(())
    }

    fn defer(&self, task: Task) {
        let left = match self.0.upgrade() {
            // As of a rank's connection, no callback comes.
            Some(shared) if !is_here(&shared) => return,
            Some(shared) => shared.later(task).err(),
            None => Some(task),
        };
        // The server has ended and has no thread any more. The callback must still run, so start a thread for it.
        left.into_iter().for_each(|task| drop(fallible_alloc::spawn("pmix-callback", task)));
    }

    fn after(&self, returned: Returned, task: Task) {
        match self.0.upgrade() {
            Some(shared) if is_here(&shared) => shared.after(returned, task),
            Some(_) => (),
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
        self.shared().map_or(Vec::new(), |shared| shared.engine.lock().jobs())
    }

    fn close(&self) {}
}
