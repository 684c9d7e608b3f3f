//! Stopping in `PMIx_Init` for a debugger.

use std::sync::Arc;
use std::time::Instant;

use pmix_dstore::channel::{Missed, channel};
use pmix_dstore::model::{Info, Proc, Rank, Result, Status, Value, keys};

use crate::client::{Client, ClientKind};
use crate::events::range;
use crate::link::receive;
use crate::{Event, EventDone, HandlerId};

/// Name of the breakpoint, sent to the host with `PMIX_READY_FOR_DEBUG`.
const BREAKPOINT: &str = "pmix-init";

impl Client {
    /// Waits for the debugger's release if the job's data requests that (`PMIX_DEBUG_STOP_IN_INIT`), at most until
    /// `deadline`.
    ///
    /// # Errors
    /// `ERR_TIMEOUT`; `ERR_LOST_CONNECTION` after the loss of the server, through which the release would come.
    pub(crate) fn stop_in_init(&self, deadline: Option<Instant>) -> Result<()> {
        if self.inner.kind() != ClientKind::Launched {
            return Ok(());
        }
        let me = self.me();
        let job = Proc::new(me.nspace.clone(), Rank::WILDCARD);
        let optional = [Info::new(keys::OPTIONAL, Value::Bool(true))];
        match self.get_value(&job, keys::DEBUG_STOP_IN_INIT, &optional) {
            Ok(value) if stops(&value, me.rank) => self.wait_for_release(deadline, true),
            Ok(_) | Err(Status::ERR_NOT_FOUND) => Ok(()),
            Err(status) => Err(status),
        }
    }

    /// Waits until the debugger's event arrives through the current server. With `notify_ready` the host is notified that
    /// this process waits.
    ///
    /// # Errors
    /// As [`Client::stop_in_init`].
    #[cold]
    pub(crate) fn wait_for_release(&self, deadline: Option<Instant>, notify_ready: bool) -> Result<()> {
        let (sender, receiver) = channel();
        let me = self.me().clone();
        let on_event = move |_: HandlerId, event: Event, done: EventDone| {
            // `ERR_LOST_CONNECTION` also reports other processes; only the loss of this process's own server ends the
            // wait.
            let outcome = match event.status {
                Status::ERR_LOST_CONNECTION if event.source == me => Some(Err(Status::ERR_LOST_CONNECTION)),
                Status::ERR_LOST_CONNECTION => None,
                _ => Some(Ok(())),
            };
            if let Some(outcome) = outcome {
                // The receiver is gone when the wait has ended already.
                let _ = sender.send(outcome);
            }
            done.finish(Status::EVENT_ACTION_COMPLETE, Vec::new());
        };
        let codes = vec![Status::DEBUGGER_RELEASE, Status::ERR_LOST_CONNECTION];
        let handler = self.register_event_handler(codes, Vec::new(), Arc::new(on_event)).wait()?;
        if notify_ready {
            self.notify_host(self.me().clone());
        }
        let release = receive(&*self.inner.link, &receiver, deadline).map_err(|missed| match missed {
            Missed::Nothing => Status::ERR_TIMEOUT,
            Missed::Closed => Status::ERR_LOST_CONNECTION,
        });
        self.deregister_event_handler(handler).wait()?;
        release?
    }

    /// Notifies the host that a debugger can inspect this process. Failure is ignored: with a host without events the
    /// debugger finds the process by other means.
    fn notify_host(&self, me: Proc) {
        let infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(keys::BREAKPOINT, Value::string(BREAKPOINT)),
        ];
        // `begin` and not `start`: a callback of `start` would wait until PMIx_Init has returned. The result is not
        // used.
        self.notify_event(Status::READY_FOR_DEBUG, me, range::RM, infos).begin(Box::new(drop));
    }
}

/// Whether rank `me` must stop: the value selects all ranks, one rank, or the ranks of an array. A value of any other
/// type selects all ranks, as in released libraries.
fn stops(value: &Value, me: Rank) -> bool {
    let is_me = |rank: Rank| rank == Rank::WILDCARD || rank == me;
    match value {
        Value::Bool(all) => *all,
        Value::Rank(rank) => is_me(*rank),
        Value::DataArray(array) => array.items.iter().any(|item| match item {
            Value::Rank(rank) => is_me(*rank),
            Value::Proc(proc) => is_me(proc.rank),
            _ => false,
        }),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debuggers_directives_select_the_ranks_that_stop() {
        for (value, stopped) in [
            (Value::Bool(true), [true, true]),
            (Value::Bool(false), [false, false]),
            (Value::Rank(Rank::WILDCARD), [true, true]),
            (Value::Rank(Rank(1)), [false, true]),
            (Value::Int(1), [true, true]),
        ] {
            assert_eq!([0, 1].map(|rank| stops(&value, Rank(rank))), stopped, "{value:?}");
        }
    }
}
