//! What jobs have in common. Several may be of one session, and what is registered of it with one of them holds for all; a
//! host may also speak of sessions to which the job does not belong. And what it registers as a resource is all jobs'.

use std::collections::BTreeSet;

use super::{JobData, Values};
use crate::model::{Key, Value, keys};

/// Values that a job takes over, beside those that were registered with itself.
pub struct Taken {
    all: Values,
    taken: BTreeSet<Key>,
}

/// `own` with what `all` has beside it, in place of what was `taken` before; `None` where nothing changes.
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

    /// What was registered with this job of a session, its own or another.
    pub fn said_of_session(&self, id: u32) -> impl Iterator<Item = (&Key, &Value)> {
        let own = Some(&self.session).filter(|_| self.session_id() == Some(id));
        let given = own.into_iter().flatten().filter(|(key, _)| !self.derived.session.contains(*key));
        given.chain(self.other_sessions.get(&id).into_iter().flatten())
    }

    /// The sessions of which something was registered with this job.
    pub fn sessions(&self) -> impl Iterator<Item = u32> {
        self.session_id().into_iter().chain(self.other_sessions.keys().copied())
    }

    /// What there is to take over of what all jobs were told of this one's session.
    pub fn beside_session(&self, all: &Values) -> Option<Taken> {
        beside(&self.session, &self.derived.session, all)
    }

    /// Takes over what [`JobData::beside_session`] found.
    pub fn set_session(&mut self, Taken { all, taken }: Taken) {
        (self.session, self.derived.session) = (all, taken);
    }

    /// What there is to take over of the values that all jobs have.
    pub fn beside_resources(&self, all: &Values) -> Option<Taken> {
        beside(&self.job, &self.derived.resources, all)
    }

    /// Takes over what [`JobData::beside_resources`] found.
    pub fn set_resources(&mut self, Taken { all, taken }: Taken) {
        (self.job, self.derived.resources) = (all, taken);
    }

    /// Takes out what was taken over.
    pub(super) fn forget_taken(&mut self) {
        for (values, taken) in
            [(&mut self.session, &mut self.derived.session), (&mut self.job, &mut self.derived.resources)]
        {
            std::mem::take(taken).iter().for_each(|key| drop(values.remove(key)));
        }
    }
}
