//! Jobs, their processes, and what all jobs have: what a host registers.

use std::ffi::CString;

use pmix_client::Call;
use pmix_dstore::job::{self, Given, ProcTable, Refused};
use pmix_dstore::model::{Info, Nspace, Proc, Regattr, Result, Status};

use super::Server;
use crate::engine::{Engine, JobPlan};
use crate::report::OpDone;

impl Server {
    /// Registers a job with its data; again with more data, or `PMIX_REGISTER_NODATA`.
    ///
    /// With `done`: answers `SUCCESS` and calls it later. Without: `OPERATION_SUCCEEDED`.
    pub fn register_nspace(&self, nspace: Nspace, nlocal: i32, infos: Vec<Info>, done: Option<OpDone>) -> Status {
        self.register_nspace_with(nspace, nlocal, infos, ProcTable::default(), done)
    }

    /// As [`Server::register_nspace`], with the data of the processes as a table that was read already: `procs` precedes `infos`,
    /// see [`Given`].
    pub fn register_nspace_with(
        &self,
        nspace: Nspace,
        nlocal: i32,
        mut infos: Vec<Info>,
        procs: ProcTable,
        done: Option<OpDone>,
    ) -> Status {
        if nspace.is_empty() {
            // Everywhere else the empty name means the caller's own namespace.
            return Status::ERR_BAD_PARAM;
        }
        let known = self.shared.engine.lock().job(&nspace);
        // The host's values for this job take precedence.
        let shared = self.topology.iter().filter(|shared| !infos.iter().any(|info| info.key == shared.key));
        match shared.map(Info::copy).collect::<Result<Vec<_>>>() {
            Ok(shared) => infos.extend(shared),
            Err(status) => return status,
        }
        // Without the lock, which the clients' requests need: reading a large job takes long.
        match JobPlan::read(&nspace, nlocal, Given { infos: &infos, procs }, known, &self.hostname) {
            Ok(plan) => {
                let others = self.read_others(&nspace, &infos);
                // The maps of a large job are many megabytes, and the plan has its own copy.
                drop(infos);
                plan.trim();
                self.operate(done, |engine| {
                    let status = engine.register_nspace(plan);
                    others.into_iter().for_each(|other| engine.describe_nspace(other, &nspace));
                    status
                })
            }
            Err(refused) => {
                self.shared.log(&format!("job {nspace} is not registered: {refused}"));
                refused.status
            }
        }
    }

    /// Reads the descriptions of other jobs of the session in the registration of `nspace`. A job that is registered itself is skipped;
    /// an invalid description is logged.
    fn read_others(&self, nspace: &Nspace, infos: &[Info]) -> Vec<JobPlan> {
        let mut plans = Vec::new();
        for other in job::other_jobs(nspace, infos) {
            let Some(known) = self.shared.engine.lock().may_describe(&other.nspace) else { continue };
            let plan = other.infos().map_err(Refused::from).and_then(|infos| {
                let given = Given { infos: &infos, procs: ProcTable::default() };
                JobPlan::read(&other.nspace, 0, given, known, &self.hostname)
            });
            match plan {
                Ok(plan) => plans.push(plan),
                Err(refused) => self
                    .shared
                    .log(&format!("the description of job {} by job {nspace} is ignored: {refused}", other.nspace)),
            }
        }
        plans
    }

    /// Removes a job and everything that belongs to it.
    pub fn deregister_nspace(&self, nspace: &Nspace, done: Option<OpDone>) -> Status {
        let _call = Call::begin();
        let status = self.operate(done, |engine| engine.deregister_nspace(nspace));
        self.shared.feed(Engine::free_discarded);
        status
    }

    /// Registers values that all jobs have.
    pub fn register_resources(&self, infos: Vec<Info>, done: Option<OpDone>) -> Status {
        self.operate(done, |engine| engine.register_resources(infos))
    }

    /// Removes the values with these keys from all jobs.
    pub fn deregister_resources(&self, infos: &[Info], done: Option<OpDone>) -> Status {
        self.operate(done, |engine| engine.deregister_resources(infos))
    }

    /// Registers values of a session, for the jobs that are in it or will be. Of a session that is registered already nothing
    /// changes.
    pub fn register_session(&self, session: u32, infos: Vec<Info>, done: Option<OpDone>) -> Status {
        self.operate(done, |engine| engine.register_session(session, infos))
    }

    /// Removes what [`Server::register_session`] registered; the session's jobs stay.
    pub fn deregister_session(&self, session: u32, done: Option<OpDone>) -> Status {
        self.operate(done, |engine| engine.deregister_session(session))
    }

    /// Registers the attributes that the host supports in a function, for queries.
    ///
    /// # Errors
    /// `ERR_INIT` if the server has ended; `ERR_REPEAT_ATTR_REGISTRATION` for a function that was registered already.
    pub fn register_attributes(&self, function: CString, attributes: Vec<Regattr>) -> Result<()> {
        match self.operate(None, |engine| engine.register_attributes(function, attributes)) {
            Status::OPERATION_SUCCEEDED => Ok(()),
            failed => Err(failed),
        }
    }

    /// The data of the processes' jobs, packed for another server.
    ///
    /// # Errors
    /// `ERR_INIT` if the server has ended; `ERR_BAD_PARAM` for no processes; `ERR_NOMEM`.
    pub fn collect_job_info(&self, procs: &[Proc]) -> Result<Vec<u8>> {
        if self.shared.is_stopped() {
            return Err(Status::ERR_INIT);
        }
        self.shared.engine.lock().collect_job_info(procs)
    }

    /// The host is about to end all processes of a namespace: those that go without `PMIx_Finalize` from now on are not logged as lost.
    pub fn announce_end(&self, nspace: &Nspace) {
        self.shared.engine.lock().announce_end(nspace);
    }

    /// Registers a process that will be started on this node. `object` comes back in upcalls.
    pub fn register_client(&self, proc: Proc, uid: u32, gid: u32, object: usize, done: Option<OpDone>) -> Status {
        self.operate(done, |engine| engine.register_client(&proc, uid, gid, object))
    }

    /// Forgets a process.
    pub fn deregister_client(&self, proc: &Proc, done: Option<OpDone>) -> Status {
        self.operate(done, |engine| engine.deregister_client(proc))
    }
}
