//! How requests reach the server.

use std::sync::Arc;
use std::time::Instant;

use pmix_dstore::codec::Dialect;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Result, Status};

use crate::Returned;
use pmix_wire::Version;

/// Takes the reply to a request: the payload, or why there is none. Called once.
pub type ReplyFn = Box<dyn FnOnce(Result<Vec<u8>>) + Send>;

/// Work for the thread on which callbacks run.
pub type Task = Box<dyn FnOnce() + Send>;

/// The way to the server: a socket, or the engine of the same process.
///
/// Payloads are those of the wire protocol: a command with its fields one way, the fields of the reply the other.
/// Every request ends: with its reply, with `ERR_LOST_CONNECTION`, or with `ERR_TIMEOUT` where it has a deadline.
pub trait Link: Send + Sync {
    /// Makes sure that callbacks can come. Whoever is to be told by a callback asks this first: where it fails there is nobody to call back but
    /// the caller's own thread, inside its call.
    ///
    /// # Errors
    /// `ERR_UNREACH` after [`Link::close`] or in a forked child; `ERR_OUT_OF_RESOURCE` where the thread cannot be started.
    fn ready(&self) -> Result<()>;

    /// Sends a request; `reply` is called on the thread where callbacks run, not inside this call where the link is [ready](Link::ready).
    fn request(&self, payload: Vec<u8>, reply: ReplyFn);

    /// Sends a request and waits for its reply on the calling thread, which may be inside a callback.
    ///
    /// # Errors
    /// `ERR_LOST_CONNECTION`, `ERR_TIMEOUT` after the deadline, `ERR_UNREACH` after [`Link::close`] or in a forked child.
    fn request_wait(&self, payload: GatherBuf, deadline: Option<Instant>) -> Result<Vec<u8>>;

    /// Sends a message that has no reply.
    ///
    /// # Errors
    /// As [`Link::request_wait`].
    fn send(&self, payload: Vec<u8>) -> Result<()>;

    /// Tells the server that this process lives.
    ///
    /// # Errors
    /// As [`Link::request_wait`]; `NOT_SUPPORTED` where the other end is this very process.
    fn beat(&self) -> Result<()> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Runs `task` on the thread where callbacks run, after those already due and never inside this call.
    fn defer(&self, task: Task);

    /// Runs `task`, which is a callback, where the call that asked for it is over; on the thread where callbacks run, which calls
    /// this.
    fn after(&self, returned: Returned, task: Task) {
        // The call needs nothing of this thread: where it waits for a reply, it drives the connection itself.
        returned.wait();
        task();
    }

    /// The form of payloads, both ways.
    fn dialect(&self) -> Dialect;

    /// The release of the server's library.
    fn server_version(&self) -> Version;

    /// Whether the server is one of this library, whatever release it says it is.
    fn is_ours(&self) -> bool {
        false
    }

    /// Whether there is a server at the other end.
    fn has_server(&self) -> bool {
        true
    }

    /// The jobs that the other end has in the memory of this very process.
    fn jobs(&self) -> Vec<Arc<JobData>> {
        Vec::new()
    }

    /// Ends the link: requests under way are answered `ERR_LOST_CONNECTION`, later ones `ERR_UNREACH`.
    fn close(&self);
}

/// A callback that does not come before the call in which this is made is over.
pub(crate) fn after_call<T: Send + 'static>(
    link: &Arc<dyn Link>,
    callback: impl FnOnce(T) + Send + 'static,
) -> Box<dyn FnOnce(T) + Send> {
    let Some(returned) = Returned::of_this_call() else { return Box::new(callback) };
    let link = Arc::clone(link);
    Box::new(move |result| {
        if returned.is_over() {
            callback(result);
        } else {
            link.after(returned, Box::new(move || callback(result)));
        }
    })
}
