//! Sessions: several jobs may be of one, and what is registered of it with one of them holds for all. A host may also
//! speak of sessions to which the job does not belong.

use super::{JobData, Values};
use crate::model::{Key, Value, keys};

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

    /// Takes over what others were told of the job's session, beside what was registered with the job itself. `None` where
    /// it has that already.
    pub fn with_session(&self, all: &Values) -> Option<(Values, Vec<Key>)> {
        let is_given = |key: &Key| self.session.contains_key(key) && !self.derived.session.contains(key);
        let taken: Vec<Key> = all.keys().filter(|key| !is_given(key)).cloned().collect();
        let given = self.session.iter().filter(|(key, _)| is_given(key));
        let new = taken.iter().filter_map(|key| all.get_key_value(key));
        let session: Values = given.chain(new).map(|(key, value)| (key.clone(), value.clone())).collect();
        (session != self.session).then_some((session, taken))
    }

    /// Sets what [`JobData::with_session`] made.
    pub fn set_session(&mut self, (session, taken): (Values, Vec<Key>)) {
        self.session = session;
        self.derived.session = taken.into_iter().collect();
    }
}
