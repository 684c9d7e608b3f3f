//! Events as a stream: received one after the other, on the thread of the program's choice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;
use pmix_client::events::range;
use pmix_client::{Event, HandlerId};
use pmix_dstore::model::{Proc, Status};

use crate::error::{Error, Result};

/// How many events a stream keeps for its reader.
pub const KEPT_EVENTS: usize = 4096;

/// The processes that an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Range {
    /// The host alone.
    Host = range::RM,
    /// The processes of this node.
    Local = range::LOCAL,
    /// The processes of this job.
    Namespace = range::NAMESPACE,
    /// The processes of this session.
    Session = range::SESSION,
    /// All processes.
    Global = range::GLOBAL,
    /// This process alone.
    Process = range::PROC_LOCAL,
}

/// The events with certain codes, in the order in which they came. [`Client::events`](crate::Client::events) makes it; dropping it ends it.
///
/// It is an iterator, which ends when the process finalizes or loses its server. A reader that is slower than the events misses those that
/// come while [`KEPT_EVENTS`] wait for it; [`Events::missed`] counts them.
///
/// ```
/// use std::time::Duration;
///
/// use pmix::{Client, Range, Status, attributes};
///
/// // Codes from EXTERNAL_ERR_BASE downward belong to the programs.
/// const GREETING: Status = Status(Status::EXTERNAL_ERR_BASE.0 - 1);
///
/// let client = Client::singleton()?;
/// let greetings = client.events(&[GREETING])?;
/// client.notify(GREETING, Range::Process, vec![attributes::EVENT_TEXT_MESSAGE.info("good morning")])?;
/// let greeting = greetings.recv_timeout(Duration::from_secs(10))?;
/// assert_eq!(greeting.source, *client.me());
/// assert_eq!(attributes::EVENT_TEXT_MESSAGE.find(&greeting.infos).as_deref(), Some("good morning"));
/// assert_eq!(greetings.recv_timeout(Duration::from_millis(1)).unwrap_err().status(), Status::ERR_TIMEOUT);
/// client.finalize()?;
/// assert_eq!(greetings.count(), 0);
/// # Ok::<(), pmix::Error>(())
/// ```
pub struct Events {
    client: pmix_client::Client,
    handler: HandlerId,
    receiver: Receiver<Event>,
    seen: Arc<Seen>,
}

/// What the handler knows beside the events.
#[derive(Default)]
struct Seen {
    missed: AtomicU64,
    has_lost_server: AtomicBool,
}

/// The name of the operation in errors.
const OPERATION: &str = "wait for an event";

impl Events {
    pub(crate) fn open(client: &pmix_client::Client, codes: &[Status]) -> Result<Events> {
        let (sender, receiver) = bounded(KEPT_EVENTS);
        let seen = Arc::<Seen>::default();
        let handler = handler(client.me().clone(), codes.to_vec(), sender, Arc::clone(&seen));
        let mut codes = codes.to_vec();
        // No codes are all codes. The loss of the server must end the stream, whatever it is for.
        if !codes.is_empty() && !codes.contains(&Status::ERR_LOST_CONNECTION) {
            codes.push(Status::ERR_LOST_CONNECTION);
        }
        let registered = client.register_event_handler(codes, Vec::new(), Arc::new(handler)).wait();
        let handler = registered.map_err(|status| Error::new("registration for events", status))?;
        Ok(Events { client: client.clone(), handler, receiver, seen })
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// `ERR_LOST_CONNECTION` after the loss of the server, `ERR_INIT` after the client's finalize: none will come any more.
    pub fn recv(&self) -> Result<Event> {
        self.receiver.recv().map_err(|_| self.ended())
    }

    /// As [`Events::recv`], but no longer than this.
    ///
    /// # Errors
    /// As [`Events::recv`]; `ERR_TIMEOUT` if none has come.
    pub fn recv_timeout(&self, limit: Duration) -> Result<Event> {
        self.receiver.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => Error::new(OPERATION, Status::ERR_TIMEOUT),
            RecvTimeoutError::Disconnected => self.ended(),
        })
    }

    /// The next event, if one has come.
    pub fn try_recv(&self) -> Option<Event> {
        self.receiver.try_recv().ok()
    }

    /// How many events did not fit beside those that waited for the reader.
    pub fn missed(&self) -> u64 {
        self.seen.missed.load(Ordering::Relaxed)
    }

    fn ended(&self) -> Error {
        let lost = self.seen.has_lost_server.load(Ordering::Acquire);
        Error::new(OPERATION, if lost { Status::ERR_LOST_CONNECTION } else { Status::ERR_INIT })
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.recv().ok()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // It never fails.
        let _ = self.client.deregister_event_handler(self.handler).wait();
    }
}

/// The handler that feeds a stream. It drops the sender, which ends the stream, when `me` has lost its server.
fn handler(
    me: Proc,
    codes: Vec<Status>,
    sender: Sender<Event>,
    seen: Arc<Seen>,
) -> impl Fn(HandlerId, Event, pmix_client::EventDone) + Send + Sync + 'static {
    let sender = Mutex::new(Some(sender));
    move |_, event, _done| {
        let mut sender = sender.lock();
        if event.status == Status::ERR_LOST_CONNECTION {
            // The same code tells of other processes.
            if event.source == me {
                seen.has_lost_server.store(true, Ordering::Release);
                *sender = None;
                return;
            }
            if !codes.is_empty() && !codes.contains(&event.status) {
                return;
            }
        }
        // Never waits: this thread also takes the server's messages.
        if sender.as_ref().is_some_and(|sender| sender.try_send(event).is_err()) {
            seen.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
