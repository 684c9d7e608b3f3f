//! A call that is run either blocking or with a callback.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_dstore::model::{Result, Status};

use crate::Link;

/// Takes the result of an [`Operation`]. Called once, on the thread where callbacks run.
pub type Done<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// So much longer than the server itself waits a caller for its answer, which may say more than a timeout.
const GRACE: Duration = Duration::from_millis(500);

/// What is done with the reply.
type Finish<T> = Box<dyn FnOnce(Result<Vec<u8>>) -> Result<T> + Send>;

/// One call of the PMIx interface, described but not yet sent: [`Operation::wait`] is the blocking form,
/// [`Operation::start`] the `_nb` form.
#[must_use = "an operation does nothing until it is run"]
pub struct Operation<T> {
    link: Arc<dyn Link>,
    plan: Plan<T>,
}

enum Plan<T> {
    /// The result is known.
    Ready(Result<T>),
    /// The server is asked.
    Ask { payload: Vec<u8>, timeout: Option<Duration>, finish: Finish<T> },
}

impl<T: Send + 'static> Operation<T> {
    /// An operation whose result is known without the server.
    pub(crate) fn ready(link: &Arc<dyn Link>, result: Result<T>) -> Operation<T> {
        Operation { link: Arc::clone(link), plan: Plan::Ready(result) }
    }

    /// An operation that sends `payload`, and makes its result of the reply. `finish` is called in any case.
    pub(crate) fn ask(
        link: &Arc<dyn Link>,
        payload: Vec<u8>,
        timeout: Option<Duration>,
        finish: impl FnOnce(Result<Vec<u8>>) -> Result<T> + Send + 'static,
    ) -> Operation<T> {
        Operation { link: Arc::clone(link), plan: Plan::Ask { payload, timeout, finish: Box::new(finish) } }
    }

    /// Changes its result.
    pub(crate) fn then(self, change: impl FnOnce(Result<T>) -> Result<T> + Send + 'static) -> Operation<T> {
        let plan = match self.plan {
            Plan::Ready(result) => Plan::Ready(change(result)),
            Plan::Ask { payload, timeout, finish } => {
                Plan::Ask { payload, timeout, finish: Box::new(move |reply| change(finish(reply))) }
            }
        };
        Operation { plan, ..self }
    }

    /// Runs it and waits for its result.
    ///
    /// # Errors
    /// What the server answers; `ERR_TIMEOUT` where a `PMIX_TIMEOUT` passed; `ERR_LOST_CONNECTION`, `ERR_UNREACH`.
    pub fn wait(self) -> Result<T> {
        match self.plan {
            Plan::Ready(result) => result,
            Plan::Ask { payload, timeout, finish } => finish(self.link.request_wait(payload.into(), deadline(timeout))),
        }
    }

    /// Starts it; `done` is called with its result on the thread where callbacks run, never inside this call.
    ///
    /// # Errors
    /// Where it cannot be started; then `done` is not called.
    pub fn start(self, done: Done<T>) -> Result<()> {
        if let Plan::Ready(Err(status)) = self.plan {
            return Err(status);
        }
        self.begin(done);
        Ok(())
    }

    /// Starts it; `done` is called in any case, as [`Operation::start`] has it.
    pub(crate) fn begin(self, done: Done<T>) {
        match self.plan {
            Plan::Ready(result) => self.link.defer(Box::new(move || done(result))),
            Plan::Ask { payload, finish, .. } => self.link.request(payload, Box::new(|reply| done(finish(reply)))),
        }
    }
}

/// When a caller stops waiting for a server that was told to answer within `timeout`.
pub(crate) fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(timeout?.saturating_add(GRACE))
}

/// The result that a status in a reply stands for.
pub(crate) fn outcome(status: Status) -> Result<()> {
    if status == Status::OPERATION_SUCCEEDED { Ok(()) } else { status.ok() }
}
