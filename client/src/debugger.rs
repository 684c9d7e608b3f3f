//! A process that a debugger wants to find in `PMIx_Init`.

use std::sync::Arc;
use std::time::Instant;

use crossbeam::channel::{RecvTimeoutError, unbounded};
use pmix_dstore::model::{Info, Proc, Rank, Result, Status, Value, keys};

use crate::client::{Client, ClientKind};
use crate::events::range;
use crate::{Event, EventDone, HandlerId};

/// Where a process stops, as it tells the environment.
const BREAKPOINT: &str = "pmix-init";

impl Client {
    /// Waits for the debugger's release where the job's data asks for that (`PMIX_DEBUG_STOP_IN_INIT`), until `late`.
    ///
    /// # Errors
    /// `ERR_TIMEOUT`; `ERR_LOST_CONNECTION` where the server has gone, which nobody can release this process by.
    pub(crate) fn stop_in_init(&self, late: Option<Instant>) -> Result<()> {
        if self.inner.kind != ClientKind::Launched {
            return Ok(());
        }
        let me = self.me();
        let job = Proc::new(me.nspace.clone(), Rank::WILDCARD);
        let optional = [Info::new(keys::OPTIONAL, Value::Bool(true))];
        match self.get_value(&job, keys::DEBUG_STOP_IN_INIT, &optional) {
            Ok(value) if stops(&value, me.rank) => self.wait_for_release(late, true),
            Ok(_) | Err(Status::ERR_NOT_FOUND) => Ok(()),
            Err(status) => Err(status),
        }
    }

    /// Waits until the debugger sends its event, by the server in use. `says_ready`: the environment is told that this process waits.
    ///
    /// # Errors
    /// As [`Client::stop_in_init`].
    #[cold]
    pub(crate) fn wait_for_release(&self, late: Option<Instant>, says_ready: bool) -> Result<()> {
        let (tell, heard) = unbounded();
        let me = self.me().clone();
        let hear = move |_: HandlerId, event: Event, done: EventDone| {
            // Of the servers and processes whose connection may be lost, one ends this.
            let news = match event.status {
                Status::ERR_LOST_CONNECTION if event.source == me => Some(Err(Status::ERR_LOST_CONNECTION)),
                Status::ERR_LOST_CONNECTION => None,
                _ => Some(Ok(())),
            };
            if let Some(news) = news {
                // Who has heard enough listens no more.
                let _ = tell.send(news);
            }
            done.finish(Status::EVENT_ACTION_COMPLETE, Vec::new());
        };
        let codes = vec![Status::DEBUGGER_RELEASE, Status::ERR_LOST_CONNECTION];
        let handler = self.register_event_handler(codes, Vec::new(), Arc::new(hear)).wait()?;
        if says_ready {
            self.say_ready(self.me().clone());
        }
        let release = match late {
            None => heard.recv().map_err(|_| Status::ERR_LOST_CONNECTION),
            Some(late) => {
                heard.recv_timeout(late.saturating_duration_since(Instant::now())).map_err(|error| match error {
                    RecvTimeoutError::Timeout => Status::ERR_TIMEOUT,
                    RecvTimeoutError::Disconnected => Status::ERR_LOST_CONNECTION,
                })
            }
        };
        self.deregister_event_handler(handler).wait()?;
        release?
    }

    /// Tells the environment that this process may be looked at. A host without events cannot be told; its debugger then
    /// looks for itself.
    fn say_ready(&self, me: Proc) {
        let infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(keys::BREAKPOINT, Value::string(BREAKPOINT)),
        ];
        // Its end is awaited by nobody: PMIx_Init has not returned yet, and callbacks of callers wait for that.
        self.notify_event(Status::READY_FOR_DEBUG, me, range::RM, infos).begin(Box::new(drop));
    }
}

/// Whether a process is to stop: all are, or the one that is named, or those of an array. A value of another kind is
/// somebody's who wants to debug, and means all, as it does to released libraries.
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
