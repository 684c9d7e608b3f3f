//! What the embedded server asks its host: this launcher.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nix::sys::eventfd::EventFd;
use pmix_dstore::model::{Info, Key, Proc, Status, Value, keys};
use pmix_server::{Completion, Host};

use super::store::{LookupDone, Store};

/// What a rank's abort asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Abort {
    /// Who called.
    pub rank: u32,
    /// The status given.
    pub status: i32,
    /// The message given.
    pub message: Option<String>,
}

#[derive(Default)]
struct State {
    /// The first abort; the job ends with it.
    abort: Option<Abort>,
    /// Connections less finalizations, by rank.
    connected: HashMap<u32, i64>,
    store: Store,
}

/// The upcalls, and what they leave for the launcher's loop.
pub struct LaunchHost {
    state: Mutex<State>,
    /// Wakes the launcher's loop.
    wake: EventFd,
}

impl LaunchHost {
    /// A host that writes to `wake` when the launcher has to look.
    pub fn new(wake: EventFd) -> LaunchHost {
        LaunchHost { state: Mutex::default(), wake }
    }

    /// What becomes readable when the launcher has to look.
    pub fn wake(&self) -> &EventFd {
        &self.wake
    }

    /// Takes the abort that a rank asked for.
    pub fn take_abort(&self) -> Option<Abort> {
        self.state().abort.take()
    }

    /// Whether a process of this rank has connected and not finalized.
    pub fn is_connected(&self, rank: u32) -> bool {
        self.state().connected.get(&rank).is_some_and(|count| *count > 0)
    }

    /// Answers lookups whose time is over; returns when the next one's will be.
    pub fn expire(&self, now: Instant) -> Option<Instant> {
        self.state().store.expire(now)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rouse(&self) {
        // A full counter means that the loop has been woken already.
        let _ = self.wake.write(1);
    }
}

impl Host for LaunchHost {
    fn client_connected(&self, proc: &Proc, _object: usize, _infos: &[Info]) -> Status {
        *self.state().connected.entry(proc.rank.0).or_default() += 1;
        Status::OPERATION_SUCCEEDED
    }

    fn client_finalized(&self, proc: &Proc, _object: usize, _done: Completion<Status>) -> Status {
        *self.state().connected.entry(proc.rank.0).or_default() -= 1;
        Status::OPERATION_SUCCEEDED
    }

    fn abort(
        &self,
        proc: &Proc,
        _object: usize,
        status: i32,
        message: Option<&CStr>,
        _procs: &[Proc],
        _done: Completion<Status>,
    ) -> Status {
        let message = message.map(|text| text.to_string_lossy().into_owned());
        self.state().abort.get_or_insert(Abort { rank: proc.rank.0, status, message });
        self.rouse();
        Status::OPERATION_SUCCEEDED
    }

    fn publish(&self, proc: &Proc, infos: &[Info], _done: Completion<Status>) -> Status {
        match self.state().store.publish(proc, infos) {
            Status::SUCCESS => Status::OPERATION_SUCCEEDED,
            failed => failed,
        }
    }

    fn lookup(&self, _proc: &Proc, keys: &[Key], infos: &[Info], done: LookupDone) -> Status {
        self.state().store.lookup(keys, infos, Instant::now(), done);
        // The loop now has a time to wake up at.
        self.rouse();
        Status::SUCCESS
    }

    fn unpublish(&self, proc: &Proc, keys: &[Key], _infos: &[Info], _done: Completion<Status>) -> Status {
        match self.state().store.unpublish(proc, keys) {
            Status::SUCCESS => Status::OPERATION_SUCCEEDED,
            failed => failed,
        }
    }

    fn notify_event(&self, _: Status, _: &Proc, _: u8, _: &[Info], _done: Completion<Status>) -> Status {
        // The server tells its own clients; there is no other server whose clients would have to know.
        Status::OPERATION_SUCCEEDED
    }

    fn log(&self, proc: &Proc, data: &[Info], _directives: &[Info]) -> Status {
        for info in data {
            let text = match &info.value {
                Value::String(Some(text)) => text.to_bytes(),
                Value::ByteObject(bytes) => bytes,
                _ => continue,
            };
            let text = String::from_utf8_lossy(text);
            let text = text.trim_end_matches(['\n', '\0']);
            let own_words = [keys::LOG_STDERR, keys::LOG_STDOUT, keys::LOG_MSG].iter().any(|key| info.key.is(key));
            // A closed stderr leaves nowhere to log to.
            let _ = if own_words {
                writeln!(io::stderr(), "{text}")
            } else {
                writeln!(io::stderr(), "pmixrun: rank {} logs {}: {text}", proc.rank, info.key)
            };
        }
        Status::OPERATION_SUCCEEDED
    }
}
