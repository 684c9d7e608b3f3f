//! Values that jobs share. Several jobs can belong to one session, and session values registered with one of them hold for all. A
//! host may also register sessions to which the job does not belong. Values that it registers as resources hold for all jobs.

use std::collections::BTreeSet;

use super::{JobData, Values};
use crate::model::{Key, Value, keys};

/// Values of a job after it has taken over shared ones, and the keys of the shared ones.
pub struct Taken {
    all: Values,
    taken: BTreeSet<Key>,
}

/// `own` with the values of `all` that it lacks, in place of those `taken` before; `None` if nothing changes.
fn beside(own: &Values, taken: &BTreeSet<Key>, all: &Values) -> Option<Taken> {
    let given = || own.iter().filter(|(key, _)| !taken.contains(*key));
    let new = || all.iter().filter(|(key, _)| !own.contains_key(*key) || taken.contains(*key));
    let both = given().chain(new()).map(|(key, value)| (key.clone(), value.clone())).collect();
    (both != *own).then(|| Taken { all: both, taken: new().map(|(key, _)| key.clone()).collect() })
}

impl JobData {
    /// The number of the session that the job is of.
    pub fn session_id(&self) -> Option<u32> {
        let id = keys::SESSION_ID.as_bytes();
        self.session.get(id).or_else(|| self.job.get(id)).and_then(Value::as_u32)
    }

    /// Values of a session, the job's own or another, that were registered with this job.
    pub fn said_of_session(&self, id: u32) -> impl Iterator<Item = (&Key, &Value)> {
        let own = Some(&self.session).filter(|_| self.session_id() == Some(id));
        let given = own.into_iter().flatten().filter(|(key, _)| !self.derived.session.contains(*key));
        given.chain(self.other_sessions.get(&id).into_iter().flatten())
    }

    /// The sessions with values that were registered with this job.
    pub fn sessions(&self) -> impl Iterator<Item = u32> {
        self.session_id().into_iter().chain(self.other_sessions.keys().copied())
    }

    /// The session's values with those of all its jobs taken over; `None` if nothing changes.
    pub fn beside_session(&self, all: &Values) -> Option<Taken> {
        beside(&self.session, &self.derived.session, all)
    }

    /// Stores the result of [`JobData::beside_session`].
    pub fn set_session(&mut self, Taken { all, taken }: Taken) {
        (self.session, self.derived.session) = (all, taken);
    }

    /// The job's values with the resources of all jobs taken over; `None` if nothing changes.
    pub fn beside_resources(&self, all: &Values) -> Option<Taken> {
        beside(&self.job, &self.derived.resources, all)
    }

    /// Stores the result of [`JobData::beside_resources`].
    pub fn set_resources(&mut self, Taken { all, taken }: Taken) {
        (self.job, self.derived.resources) = (all, taken);
    }

    /// Removes the values that were taken over.
    pub(super) fn forget_taken(&mut self) {
        for (values, taken) in
            [(&mut self.session, &mut self.derived.session), (&mut self.job, &mut self.derived.resources)]
        {
            std::mem::take(taken).iter().for_each(|key| drop(values.remove(key)));
        }
    }
}
