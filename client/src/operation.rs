//! A call that is run either blocking or with a callback.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_dstore::channel::{Receiver, channel};
use pmix_dstore::model::{Result, Status};

use crate::events::is_in_handler;
use crate::link::{after_call, receive};
use crate::{Call, Link};

/// Takes the result of an [`Operation`]. Called once, on the callback thread; a server's own spawn calls it where its host answers.
pub type Done<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// How much longer than the server's own timeout a caller waits: the server's reply may carry more information than a
/// local timeout.
const GRACE: Duration = Duration::from_millis(500);

/// How long an operation that blocks waits for the answers of other servers.
const FURTHER_TIME: Duration = Duration::from_secs(30);

/// A request for each of several servers.
pub(crate) type Requests = Vec<(Arc<dyn Link>, Vec<u8>)>;

/// Converts the reply into the result.
type Finish<T> = Box<dyn FnOnce(Result<Vec<u8>>) -> Result<T> + Send>;

/// One call of the PMIx interface, described but not yet sent: [`Operation::wait`] is the blocking form,
/// [`Operation::start`] the `_nb` form.
///
/// ```no_run
/// use pmix_client::{Client, Environment};
/// use pmix_dstore::model::{Status, attributes};
///
/// let client = Client::connect(&Environment::from_process()?, &[])?;
/// // Nothing is sent before one of these:
/// client.fence(&[], vec![attributes::COLLECT_DATA.info(true)]).wait()?;
/// let done = Box::new(|result: Result<(), Status>| println!("the fence is over: {result:?}"));
/// client.fence(&[], vec![]).start(done)?;
/// # Ok::<(), Status>(())
/// ```
#[must_use = "an operation does nothing until it is run"]
pub struct Operation<T> {
    link: Arc<dyn Link>,
    plan: Plan<T>,
    further: Requests,
}

enum Plan<T> {
    /// The result is known.
    Ready(Result<T>),
    /// The server must be asked.
    Ask { payload: Vec<u8>, timeout: Option<Duration>, finish: Finish<T> },
}

impl<T: Send + 'static> Operation<T> {
    /// An operation whose result is known without the server.
    pub(crate) fn ready(link: &Arc<dyn Link>, result: Result<T>) -> Operation<T> {
        Operation { link: Arc::clone(link), plan: Plan::Ready(result), further: Vec::new() }
    }

    /// An operation that sends `payload`. `finish` makes the result from the reply, and is called on errors, too.
    pub(crate) fn ask(
        link: &Arc<dyn Link>,
        payload: Vec<u8>,
        timeout: Option<Duration>,
        finish: impl FnOnce(Result<Vec<u8>>) -> Result<T> + Send + 'static,
    ) -> Operation<T> {
        let plan = Plan::Ask { payload, timeout, finish: Box::new(finish) };
        Operation { link: Arc::clone(link), plan, further: Vec::new() }
    }

    /// Appends a conversion of the result.
    pub(crate) fn then(self, change: impl FnOnce(Result<T>) -> Result<T> + Send + 'static) -> Operation<T> {
        let plan = match self.plan {
            Plan::Ready(result) => Plan::Ready(change(result)),
            Plan::Ask { payload, timeout, finish } => {
                Plan::Ask { payload, timeout, finish: Box::new(move |reply| change(finish(reply))) }
            }
        };
        Operation { plan, ..self }
    }

    /// Gives up waiting for the server after this time, unless the operation has a shorter limit. The server is
    /// not told.
    pub fn within(mut self, limit: Duration) -> Operation<T> {
        if let Plan::Ask { timeout, .. } = &mut self.plan {
            *timeout = Some(timeout.map_or(limit, |timeout| timeout.min(limit)));
        }
        self
    }

    /// Requests to other servers of a tool, sent after success. [`Operation::wait`] waits some time for their answers; what they answer does
    /// not change the result.
    pub(crate) fn then_ask(self, further: Requests) -> Operation<T> {
        Operation { further, ..self }
    }

    /// Runs it and waits for its result.
    ///
    /// # Errors
    /// Errors of the server; `ERR_TIMEOUT` after a `PMIX_TIMEOUT`; `ERR_LOST_CONNECTION`, `ERR_UNREACH`.
    pub fn wait(self) -> Result<T> {
        let result = match self.plan {
            Plan::Ready(result) => result,
            Plan::Ask { payload, timeout, finish } => finish(self.link.request_wait(payload.into(), deadline(timeout))),
        };
        if result.is_ok() && !self.further.is_empty() {
            let answers = ask_all(self.further);
            let until = Instant::now() + FURTHER_TIME;
            // A callback cannot wait: its thread may be the one that receives the answer.
            let waits = !is_in_handler() && !self.link.is_callback_thread();
            while waits && receive(&*self.link, &answers, Some(until)).is_ok() {}
        }
        result
    }

    /// Starts it; `done` gets its result on the callback thread ([`Done`]), after this call has returned.
    ///
    /// # Errors
    /// If it cannot be started; then `done` is not called.
    pub fn start(self, done: Done<T>) -> Result<()> {
        if let Plan::Ready(Err(status)) = self.plan {
            return Err(status);
        }
        let _call = Call::begin();
        self.link.ready()?;
        let done = after_call(&self.link, done);
        self.begin(done);
        Ok(())
    }

    /// Starts it; `done` is called in any case, on the callback thread, possibly before this call returns.
    pub(crate) fn begin(self, done: Done<T>) {
        match self.plan {
            Plan::Ready(result) => self.link.defer(Box::new(move || done(result))),
            Plan::Ask { payload, timeout, finish } => {
                let further = self.further;
                let end = |reply| match finish(reply) {
                    Ok(result) => {
                        // Not waited for: one that is silent must not keep the callback of the server in use from coming.
                        drop(ask_all(further));
                        done(Ok(result));
                    }
                    failed => done(failed),
                };
                self.link.request_until(payload, deadline(timeout), Box::new(end));
            }
        }
    }
}

/// Sends its request to each server. Each answer, whatever it is, comes out of the channel, which is closed after the last.
fn ask_all(requests: Requests) -> Receiver<()> {
    let (answered, answers) = channel();
    for (link, payload) in requests {
        let answered = answered.clone();
        // The receiver is gone where nobody waits.
        link.request(
            payload,
            Box::new(move |_| {
                let _ = answered.send(());
            }),
        );
    }
    answers
}

/// When a caller stops waiting for a server that has to answer within `timeout`.
pub(crate) fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(timeout?.saturating_add(GRACE))
}

/// Converts the status of a reply into a result.
pub(crate) fn outcome(status: Status) -> Result<()> {
    if status == Status::OPERATION_SUCCEEDED { Ok(()) } else { status.ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Offline;

    #[test]
    fn a_callback_comes_when_the_call_has_returned() {
        let link: Arc<dyn Link> = Arc::new(Offline::new().unwrap());
        let (told, heard) = channel();
        let asked = Operation::ask(&link, Vec::new(), None, |reply| reply.map(drop));
        for operation in [Operation::ready(&link, Ok(())), asked] {
            // The operation is started inside this call.
            let outer = Call::begin();
            let told = told.clone();
            operation.start(Box::new(move |_| told.send(()).unwrap())).unwrap();
            let soon = Instant::now() + Duration::from_millis(20);
            assert!(heard.receive(Some(soon)).is_err());
            drop(outer);
            heard.receive(None).unwrap();
        }
        link.close();
    }
}
