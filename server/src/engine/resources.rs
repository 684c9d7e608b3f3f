//! Registrations of the host that do not belong to one job: values of all jobs and of sessions, and supported attributes. And the export of job
//! data for other servers.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::ffi::CString;
use std::sync::Arc;

use pmix_dstore::codec::Packer;
use pmix_dstore::model::{Info, Nspace, Proc, Regattr, Result, Status, keys};
use pmix_wire::jobinfo;

use super::nspaces::recipient;
use super::peer::Peer;
use super::{EXCHANGE, Engine};

/// Keys of groups, which are no values of jobs.
const OF_GROUPS: [&str; 5] =
    [keys::GROUP_INFO, keys::GROUP_INFO_ARRAY, keys::GROUP_ENDPT_DATA, keys::GROUP_CONTEXT_ID, keys::GROUP_JOB_INFO];

/// What released libraries write for a session that has no number.
const NO_SESSION: u32 = u32::MAX;

impl Engine {
    /// Adds these values to all jobs, present and later ones.
    pub fn register_resources(&mut self, infos: Vec<Info>) -> Status {
        if let Err(status) = self.register_group(&infos) {
            return status;
        }
        let values = infos.into_iter().filter(|info| !OF_GROUPS.iter().any(|key| info.key.is(key)));
        self.resources.extend(values.map(|info| (info.key, info.value)));
        self.share_resources();
        Status::SUCCESS
    }

    /// Takes them away again.
    pub fn deregister_resources(&mut self, infos: &[Info]) -> Status {
        self.resources.retain(|key, _| !infos.iter().any(|info| info.key == *key));
        self.share_resources();
        Status::SUCCESS
    }

    /// Adds these values to all jobs of a session, present and later ones. The first registration of a session counts.
    pub fn register_session(&mut self, session: u32, infos: Vec<Info>) -> Status {
        if session == NO_SESSION {
            return Status::ERR_BAD_PARAM;
        }
        if let Entry::Vacant(entry) = self.sessions.entry(session) {
            entry.insert(infos.into_iter().map(|info| (info.key, info.value)).collect());
            self.share_session(session, None);
        }
        Status::SUCCESS
    }

    /// Takes them away again.
    pub fn deregister_session(&mut self, session: u32) -> Status {
        if session == NO_SESSION {
            return Status::ERR_BAD_PARAM;
        }
        if self.sessions.remove(&session).is_some() {
            self.share_session(session, None);
        }
        Status::SUCCESS
    }

    fn share_resources(&mut self) {
        let jobs = self.nspaces.iter().filter(|(_, state)| state.is_job());
        let nspaces: Vec<Nspace> = jobs.map(|(nspace, _)| nspace.clone()).collect();
        for nspace in nspaces {
            if self.take_resources(&nspace) {
                self.publish_job(&nspace);
            }
        }
    }

    /// Adds the values of all jobs to a job; returns whether that changed it.
    pub(super) fn take_resources(&mut self, nspace: &Nspace) -> bool {
        let Some(state) = self.nspaces.get_mut(nspace) else { return false };
        let taken = state.job.beside_resources(&self.resources);
        taken.map(|taken| Arc::make_mut(&mut state.job).set_resources(taken)).is_some()
    }

    /// The jobs of these processes, as far as they are known, each as a packed byte object of its name and its values.
    ///
    /// # Errors
    /// `BAD_PARAM` for no processes; `PACK_FAILURE`, `NOMEM`.
    pub fn collect_job_info(&self, procs: &[Proc]) -> Result<Vec<u8>> {
        if procs.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let own = Peer::own(&self.config);
        let to = recipient(&own, &self.config.hostname);
        let mut packer = Packer::new(EXCHANGE);
        let mut seen = BTreeSet::new();
        for nspace in procs.iter().map(|proc| &proc.nspace).filter(|nspace| seen.insert(*nspace)) {
            let Some(state) = self.nspaces.get(nspace).filter(|state| state.is_job()) else { continue };
            packer.byte_object_of(|object| {
                object.string(Some(nspace.as_bytes()))?;
                jobinfo::pack(object, &state.job, &to, jobinfo::all_ranks(&state.job))
            })?;
        }
        Ok(packer.into_bytes())
    }

    /// The host names the attributes that it supports in a function.
    pub fn register_attributes(&mut self, function: CString, attributes: Vec<Regattr>) -> Status {
        if self.host_attributes.contains_key(&function) {
            return Status::ERR_REPEAT_ATTR_REGISTRATION;
        }
        self.host_attributes.insert(function, attributes);
        Status::SUCCESS
    }
}
