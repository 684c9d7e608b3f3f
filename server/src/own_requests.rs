//! Requests of the server process to itself that wait for their replies.

use std::collections::HashMap;

use parking_lot::Mutex;
use pmix_client::ReplyFn;
use pmix_dstore::channel::Sender;
use pmix_dstore::model::{Result, Status};

/// The receiver of a reply.
pub(crate) enum Taker {
    /// A callback.
    Function(ReplyFn),
    /// A waiting thread.
    Thread(Sender<Reply>),
}

pub(crate) type Reply = Result<Vec<u8>, Status>;

impl Taker {
    pub fn take(self, reply: Reply) {
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
    pub fn open(&mut self, taker: Taker) -> Result<u32, Taker> {
        if self.closed {
            return Err(taker);
        }
        // Zero to 100 are reserved tags.
        self.tag = self.tag.checked_add(1).unwrap_or_default().max(101);
        self.waiting.insert(self.tag, taker);
        Ok(self.tag)
    }

    /// Stops waiting for the reply to a request.
    pub fn forget(&mut self, tag: u32) {
        self.waiting.remove(&tag);
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

    /// The receiver of a request's reply.
    pub fn take(&mut self, tag: u32) -> Option<Taker> {
        self.waiting.remove(&tag)
    }

    /// Passes a reply to its receiver.
    pub fn answer(requests: &Mutex<OwnRequests>, tag: u32, reply: Reply) {
        let taker = requests.lock().take(tag);
        if let Some(taker) = taker {
            taker.take(reply);
        }
    }
}
