//! Event handlers and what they are called with.

use std::sync::Arc;

use pmix_dstore::model::{Info, Proc, Status};

/// The number of a registered handler.
pub type HandlerId = usize;

/// An event on its way along the chain of handlers.
#[derive(Clone, Debug)]
pub struct Event {
    /// The code of the event.
    pub status: Status,
    /// Who caused or reported it.
    pub source: Proc,
    /// What came with it, and what was given at the registration of the handler (`PMIX_EVENT_HDLR_NAME`,
    /// `PMIX_EVENT_RETURN_OBJECT`).
    pub infos: Arc<[Info]>,
    /// What the handlers before this one returned.
    pub results: Arc<[Info]>,
}

/// How a handler says that it is done; the chain goes on with the next handler.
///
/// May be called inside the handler or later from any thread. Dropping it is as if the handler had returned success.
pub struct EventDone {
    _private: (),
}

impl EventDone {
    /// Done: `PMIX_EVENT_ACTION_COMPLETE` ends the chain, any other status passes the event on.
    pub fn finish(self, _status: Status, _results: Vec<Info>) {}
}

/// A handler: called on the thread where callbacks run, outside every lock.
pub type EventHandler = Arc<dyn Fn(HandlerId, Event, EventDone) + Send + Sync>;
