//! What a host needs to start processes: environments, and data for the nodes of a job.

use std::ffi::OsString;

use pmix_client::Call;
use pmix_dstore::model::attributes::check_required;
use pmix_dstore::model::{Info, Proc, Result, Status};

use super::Server;
use crate::application;
use crate::fork;
use crate::report::{OpDone, SetupDone};

/// The result of [`Server::setup_application`]; for launchers that are tools without a server.
///
/// # Errors
/// `NOT_SUPPORTED` if the infos require something of a fabric.
pub fn setup_of_application(infos: &[Info]) -> Result<Vec<Info>> {
    if application::needs_fabric(infos) || check_required(infos).is_err() {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    Ok(application::variables(infos, std::env::vars_os()))
}

impl Server {
    /// The environment variables that a client must be started with. The client may be registered only later; if this is called
    /// in a forked child then, see [`Server::will_fork`], that client uses TCP and no shared memory.
    ///
    /// # Errors
    /// `ERR_INIT` if the server has ended.
    pub fn setup_fork(&self, proc: &Proc) -> Result<Vec<(String, OsString)>> {
        if self.shared.is_stopped() {
            return Err(Status::ERR_INIT);
        }
        Ok(fork::setup_fork(&self.shared, proc))
    }

    /// Call before this process forks, if the child requests the environment of a client. [`Server::has_forked`] must follow in
    /// the same thread of the parent.
    pub fn will_fork(server: Option<&Server>) {
        fork::begin(server.map(|server| &server.shared.engine));
    }

    /// Call in the parent after the fork.
    pub fn has_forked() {
        fork::end();
    }

    /// Call in the child after the fork.
    pub fn is_forked() {
        fork::end_in_child();
    }

    /// Collects data for the start of a job described by `infos` on every node: variables of this process's environment. The host
    /// sets them itself.
    pub fn setup_application(&self, infos: &[Info], done: SetupDone) -> Status {
        if self.shared.is_stopped() {
            return Status::ERR_INIT;
        }
        match setup_of_application(infos) {
            Ok(variables) => {
                let _call = Call::begin();
                let done = self.shared.after_call(move || done(variables));
                self.shared.later(done).map_or(Status::ERR_INIT, |()| Status::SUCCESS)
            }
            Err(status) => status,
        }
    }

    /// Prepares this node for a job, with the result of [`Server::setup_application`] on the node that started it. The host sets
    /// the variables itself; without support for fabrics there is nothing else to prepare.
    pub fn setup_local_support(&self, done: Option<OpDone>) -> Status {
        self.operate(done, |_| Status::SUCCESS)
    }

    /// Takes an inventory of nodes. It is ignored, because this library allocates no networks.
    pub fn take_inventory(&self, done: Option<OpDone>) -> Status {
        self.operate(done, |_| Status::SUCCESS)
    }
}
