//! The chain of an event: handlers run one after the other, each when the previous one is done.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use pmix_dstore::model::{Info, Key, Status, Value};

use super::registry::Handler;
use super::{Event, HandlerId};
use crate::Link;

thread_local! {
    /// Set while a handler runs on this thread.
    static IS_IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread runs a handler. The next event waits until that handler is done.
pub fn is_in_handler() -> bool {
    IS_IN_HANDLER.get()
}

/// Marks the thread as running a handler until dropped, also by a panic.
struct Within {
    /// Whether the thread already ran a handler before.
    before: bool,
}

impl Within {
    fn handler() -> Within {
        Within { before: IS_IN_HANDLER.replace(true) }
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        IS_IN_HANDLER.set(self.before);
    }
}

/// The context in which a chain runs.
pub struct Runner {
    /// Its callback thread runs the handlers.
    pub link: Weak<dyn Link>,
    /// Removes a one-shot handler.
    pub retire: Arc<dyn Fn(HandlerId) + Send + Sync>,
}

/// An event and the handlers that have not seen it yet.
pub struct Chain {
    event: Event,
    results: Vec<Info>,
    handlers: VecDeque<Arc<Handler>>,
    runner: Runner,
}

impl Chain {
    /// A chain of these handlers for an event.
    pub fn new(event: Event, handlers: VecDeque<Arc<Handler>>, runner: Runner) -> Chain {
        Chain { event, results: Vec::new(), handlers, runner }
    }

    /// Continues with the next handler, on the callback thread.
    pub fn proceed(self) {
        if self.handlers.is_empty() {
            return;
        }
        if let Some(link) = self.runner.link.upgrade() {
            link.defer(Box::new(move || self.step()));
        }
    }

    /// Calls the next handler that is still registered.
    fn step(mut self) {
        while let Some(handler) = self.handlers.pop_front() {
            if !handler.take_turn() {
                continue;
            }
            if handler.directives.is_oneshot {
                (self.runner.retire)(handler.id);
            }
            let event = Event {
                status: self.event.status,
                source: self.event.source.clone(),
                infos: handler.infos(&self.event.infos),
                results: self.results.as_slice().into(),
            };
            let done = EventDone { chain: Some((self, Arc::clone(&handler))) };
            let _within = Within::handler();
            (handler.call)(handler.id, event, done);
            return;
        }
    }
}

/// A handler's means to report that it is done. The chain then continues with the next handler.
///
/// May be used inside the handler, or later from any thread. Dropping it counts as success.
pub struct EventDone {
    chain: Option<(Chain, Arc<Handler>)>,
}

impl EventDone {
    /// Reports that the handler is done. `PMIX_EVENT_ACTION_COMPLETE` ends the chain; it continues after any other
    /// status. Later handlers see the status and `results`.
    pub fn finish(mut self, status: Status, results: Vec<Info>) {
        self.pass_on(status, results);
    }

    fn pass_on(&mut self, status: Status, results: Vec<Info>) {
        let Some((mut chain, handler)) = self.chain.take() else { return };
        if handler.is_observer() {
            return chain.proceed();
        }
        if status == Status::EVENT_ACTION_COMPLETE {
            return;
        }
        let name = handler.directives.name.as_ref().and_then(|name| Key::new(name.as_text()?).ok());
        let name = name.unwrap_or_else(|| "UNKNOWN".into());
        chain.results.push(Info::new(name, Value::Status(status)));
        chain.results.extend(results);
        chain.proceed();
    }
}

impl Drop for EventDone {
    fn drop(&mut self) {
        self.pass_on(Status::SUCCESS, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_handler_that_panics_has_ended() {
        let _panicked = catch_unwind(|| {
            let _within = Within::handler();
            assert!(!is_in_handler(), "a panic");
        });
        assert!(!is_in_handler());
        let within = Within::handler();
        drop(Within::handler());
        assert!(is_in_handler(), "one within another");
        drop(within);
        assert!(!is_in_handler());
    }
}
