//! What the ranks published: a table of this job, and the lookups that wait for a key.

use std::time::{Duration, Instant};

use pmix_dstore::model::{Info, Key, Pdata, Proc, Status, Value, keys};
use pmix_server::Completion;

/// How a lookup is answered.
pub type LookupDone = Completion<(Status, Vec<Pdata>)>;

struct Waiting {
    keys: Vec<Key>,
    until: Option<Instant>,
    done: LookupDone,
}

/// Published values and waiting lookups.
#[derive(Default)]
pub struct Store {
    values: Vec<Pdata>,
    waiting: Vec<Waiting>,
}

impl Store {
    /// Publishes the values among `infos`; what is reserved there are directives. Answers lookups that waited.
    pub fn publish(&mut self, proc: &Proc, infos: &[Info]) -> Status {
        let values: Vec<&Info> = infos.iter().filter(|info| !info.key.is_reserved()).collect();
        if values.iter().any(|info| self.find(&info.key).is_some()) {
            return Status::ERR_DUPLICATE_KEY;
        }
        self.values.extend(values.into_iter().map(|info| Pdata {
            proc: proc.clone(),
            key: info.key.clone(),
            value: info.value.clone(),
        }));
        for waiting in std::mem::take(&mut self.waiting) {
            match self.answer(&waiting.keys) {
                (Status::SUCCESS, found) => waiting.done.complete((Status::SUCCESS, found)),
                _ => self.waiting.push(waiting),
            }
        }
        Status::SUCCESS
    }

    /// Looks keys up; with `PMIX_WAIT` the answer waits for all of them, until `PMIX_TIMEOUT`.
    pub fn lookup(&mut self, keys: &[Key], infos: &[Info], now: Instant, done: LookupDone) {
        let directive = |key: &str| infos.iter().find(|info| info.key.is(key)).map(|info| &info.value);
        let (status, found) = self.answer(keys);
        if status == Status::SUCCESS || !directive(keys::WAIT).is_some_and(waits) {
            return done.complete((status, found));
        }
        let timeout = directive(keys::TIMEOUT).and_then(Value::as_u64).filter(|seconds| *seconds > 0);
        let until = timeout.and_then(|seconds| now.checked_add(Duration::from_secs(seconds)));
        self.waiting.push(Waiting { keys: keys.to_vec(), until, done });
    }

    /// Withdraws keys that `proc` published; all of its keys where none are named.
    pub fn unpublish(&mut self, proc: &Proc, keys: &[Key]) -> Status {
        let before = self.values.len();
        self.values.retain(|value| value.proc != *proc || !(keys.is_empty() || keys.contains(&value.key)));
        if before == self.values.len() && !keys.is_empty() { Status::ERR_NOT_FOUND } else { Status::SUCCESS }
    }

    /// Answers lookups whose time is over. Returns when the next one's will be.
    pub fn expire(&mut self, now: Instant) -> Option<Instant> {
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.until.is_some_and(|until| until <= now) {
                let (_, found) = self.answer(&waiting.keys);
                waiting.done.complete((Status::ERR_TIMEOUT, found));
            } else {
                self.waiting.push(waiting);
            }
        }
        self.waiting.iter().filter_map(|waiting| waiting.until).min()
    }

    fn find(&self, key: &Key) -> Option<&Pdata> {
        self.values.iter().find(|value| value.key == *key)
    }

    fn answer(&self, keys: &[Key]) -> (Status, Vec<Pdata>) {
        let found: Vec<Pdata> = keys.iter().filter_map(|key| self.find(key).cloned()).collect();
        let status = match found.len() {
            n if n == keys.len() => Status::SUCCESS,
            0 => Status::ERR_NOT_FOUND,
            _ => Status::ERR_PARTIAL_SUCCESS,
        };
        (status, found)
    }
}

/// `PMIX_WAIT` is a flag, or a number of keys to wait for; 0 of the latter means all.
fn waits(value: &Value) -> bool {
    !matches!(value, Value::Bool(false))
}
