//! How requests reach the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pmix_dstore::channel::{Missed, Receiver};
use pmix_dstore::codec::Dialect;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Result, Status};

use crate::Returned;
use pmix_wire::Version;

/// Takes the reply to a request: its payload or an error. Called once.
pub type ReplyFn = Box<dyn FnOnce(Result<Vec<u8>>) + Send>;

/// Work for the callback thread.
pub type Task = Box<dyn FnOnce() + Send>;

/// Whether the program progresses the library itself; read when a connection is made.
static PROGRESSES_ITSELF: AtomicBool = AtomicBool::new(false);

/// Says whether the program progresses the connections that are made from now on.
pub(crate) fn progress_externally(is_external: bool) {
    PROGRESSES_ITSELF.store(is_external, Ordering::Relaxed);
}

/// Whether the program progresses the library itself.
pub(crate) fn progresses_itself() -> bool {
    PROGRESSES_ITSELF.load(Ordering::Relaxed)
}

/// The way to the server: a socket, or the engine of the same process.
///
/// Payloads have the form of the wire protocol: a request is a command with its fields, a reply consists of fields.
/// Every request ends with its reply, with `ERR_LOST_CONNECTION`, or with `ERR_TIMEOUT` where it has a deadline.
pub trait Link: Send + Sync {
    /// Ensures that callbacks can run. An operation with a callback calls this first. If this fails, a callback could
    /// run only on the calling thread, inside its call.
    ///
    /// # Errors
    /// `ERR_UNREACH` after [`Link::close`] or in a forked child; `ERR_OUT_OF_RESOURCE` where the thread cannot be started.
    fn ready(&self) -> Result<()>;

    /// Sends a request; `reply` is called on the callback thread, or, for a server's own spawn, where its host answers; inside this call
    /// only if the link is not [ready](Link::ready).
    fn request(&self, payload: Vec<u8>, reply: ReplyFn);

    /// As [`Link::request`]; `reply` gets `ERR_TIMEOUT` if the answer has not come by `deadline`. A server in the same process keeps the time
    /// itself.
    fn request_until(&self, payload: Vec<u8>, deadline: Option<Instant>, reply: ReplyFn) {
        let _ = deadline;
        self.request(payload, reply);
    }

    /// Whether this thread runs the callbacks of this link, and would wait for itself if it waited for one.
    fn is_callback_thread(&self) -> bool {
        false
    }

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

    /// The way for a first commit that is not answered; `None` where the server answers each commit.
    fn first_commit(&self) -> Option<&dyn FirstCommit> {
        None
    }

    /// Sends a heartbeat to the server.
    ///
    /// # Errors
    /// As [`Link::request_wait`]; `NOT_SUPPORTED` if the server is in this process.
    fn beat(&self) -> Result<()> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Runs `task` on the callback thread, after the tasks that are already queued and never inside this call. Once the link is closed, a
    /// thread of its own runs it, in no order with others: a call that another thread's finalize has overtaken still owes its callback.
    fn defer(&self, task: Task);

    /// Receives what has arrived, and runs the callbacks that are due, if the program progresses the library itself
    /// (`PMIX_EXTERNAL_PROGRESS`).
    fn progress(&self) {}

    /// Runs the callback `task` once the call that requested it is over. Called on the callback thread, or where a host answers its own
    /// spawn.
    fn after(&self, returned: Returned, task: Task) {
        // Waiting here cannot deadlock: if the call waits for a reply, it drives the connection itself.
        returned.wait();
        task();
    }

    /// The encoding of payloads in both directions.
    fn dialect(&self) -> Dialect;

    /// The release of the server's library.
    fn server_version(&self) -> Version;

    /// Whether the server uses this library, whatever release number it reports.
    fn is_ours(&self) -> bool {
        false
    }

    /// Whether a Get with `PMIX_IMMEDIATE` waits at the server for a neighbour's first commit: the server uses this library, as it has
    /// proved or as the environment says.
    fn awaits_commits(&self) -> bool {
        self.is_ours()
    }

    /// Whether there is a server at the other end.
    fn has_server(&self) -> bool {
        true
    }

    /// The links to the other servers of a tool: it is connected to them and uses another one.
    fn further(&self) -> Vec<Arc<dyn Link>> {
        Vec::new()
    }

    /// The jobs of a server in this process.
    fn jobs(&self) -> Vec<Arc<JobData>> {
        Vec::new()
    }

    /// Ends the link: requests under way are answered `ERR_LOST_CONNECTION`, later ones `ERR_UNREACH`. Callbacks that are due run on the
    /// calling thread.
    fn close(&self);

    /// As [`Link::close`]; returns the callbacks that are due and have no thread any more.
    fn close_and_leave(&self) -> Vec<Task> {
        self.close();
        Vec::new()
    }
}

/// A process's first commit to a server of this library, which answers it only to refuse it. The process does not wait: until the
/// server has the first commit, each Get of the process's values waits for it.
pub trait FirstCommit {
    /// Sends it.
    ///
    /// # Errors
    /// As [`Link::request_wait`].
    fn send(&self, payload: GatherBuf) -> Result<()>;

    /// The server's refusal, a reply's payload, if it has come; once. The refusal comes before the reply to each later request.
    fn take_refusal(&self) -> Option<Result<Vec<u8>>>;
}

/// How long a thread that waits for a callback sleeps between two looks, where it runs callbacks itself.
const LOOK_EACH: Duration = Duration::from_millis(1);

/// Receives what a callback sends, until a deadline. Where the program progresses the library itself, this thread runs the callbacks
/// meanwhile: nobody else may do so before this call returns.
pub(crate) fn receive<T>(
    link: &dyn Link,
    receiver: &Receiver<T>,
    deadline: Option<Instant>,
) -> std::result::Result<T, Missed> {
    while progresses_itself() {
        link.progress();
        match receiver.try_receive() {
            Err(Missed::Nothing) if deadline.is_none_or(|deadline| Instant::now() < deadline) => {
                thread::sleep(LOOK_EACH)
            }
            received => return received,
        }
    }
    receiver.receive(deadline)
}

/// Wraps a callback so that it runs only after the current call is over.
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
