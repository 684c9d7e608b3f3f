//! Events: handlers, the chain in which they run, and the events kept for later handlers.

pub(crate) mod chain;
pub(crate) mod directives;
pub(crate) mod registry;

use std::sync::Arc;

use pmix_dstore::model::{Info, Proc, Status};

pub(crate) use chain::Chain;
pub use chain::EventDone;
pub(crate) use chain::is_in_handler;
pub(crate) use registry::Registry;

/// The number of a registered handler.
pub type HandlerId = usize;

/// An event as a handler gets it.
#[derive(Clone, Debug)]
pub struct Event {
    /// The code of the event.
    pub status: Status,
    /// The process that caused or reported it.
    pub source: Proc,
    /// The infos of the event. A handler also gets its own name (`PMIX_EVENT_HDLR_NAME`) and object
    /// (`PMIX_EVENT_RETURN_OBJECT`) here, if it was registered with them.
    pub infos: Arc<[Info]>,
    /// The results of the handlers before this one: for each its name with its status, then its infos.
    pub results: Arc<[Info]>,
}

impl Event {
    /// An event that no handler has seen.
    pub fn new(status: Status, source: Proc, infos: Vec<Info>) -> Event {
        Event { status, source, infos: infos.into(), results: Arc::new([]) }
    }
}

/// A handler. It is called on the callback thread, without any lock held.
///
/// It calls [`EventDone::finish`] when it is done, inside the call or later.
pub type EventHandler = Arc<dyn Fn(HandlerId, Event, EventDone) + Send + Sync>;

/// The processes that get an event (`pmix_data_range_t`).
pub mod range {
    /// Unspecified.
    pub const UNDEF: u8 = 0;
    /// Only the host.
    pub const RM: u8 = 1;
    /// Processes of the same node.
    pub const LOCAL: u8 = 2;
    /// Processes of the same namespace.
    pub const NAMESPACE: u8 = 3;
    /// All processes of the session.
    pub const SESSION: u8 = 4;
    /// All processes.
    pub const GLOBAL: u8 = 5;
    /// The processes named in `PMIX_EVENT_CUSTOM_RANGE`.
    pub const CUSTOM: u8 = 6;
    /// Only this process.
    pub const PROC_LOCAL: u8 = 7;
}
