//! Calls that the server answers alone: publish and lookup, spawn and connect, queries, logs and job control.

use std::ffi::CString;

use pmix_dstore::model::{App, Info, Nspace, Pdata, Proc, Query, Status};

use crate::{Client, Operation};

/// A reply that carries infos beside its status, which may be one of partial success.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status: success or a partial one.
    pub status: Status,
    /// The infos.
    pub infos: Vec<Info>,
}

impl Client {
    /// Publishes the infos that are not directives.
    pub fn publish(&self, _infos: Vec<Info>) -> Operation<()> {
        Operation::refused()
    }

    /// Looks published keys up: what was found, with publishers.
    pub fn lookup(&self, _keys: Vec<CString>, _infos: Vec<Info>) -> Operation<Vec<Pdata>> {
        Operation::refused()
    }

    /// Takes published keys back; none given means all of this process.
    pub fn unpublish(&self, _keys: Vec<CString>, _infos: Vec<Info>) -> Operation<()> {
        Operation::refused()
    }

    /// Starts a new job.
    pub fn spawn(&self, _infos: Vec<Info>, _apps: Vec<App>) -> Operation<Nspace> {
        Operation::refused()
    }

    /// Connects processes of several jobs, which then know each other's job-level data.
    pub fn connect_procs(&self, _procs: Vec<Proc>, _infos: Vec<Info>) -> Operation<()> {
        Operation::refused()
    }

    /// Ends what [`Client::connect_procs`] began.
    pub fn disconnect_procs(&self, _procs: Vec<Proc>, _infos: Vec<Info>) -> Operation<()> {
        Operation::refused()
    }

    /// Asks the host.
    pub fn query(&self, _queries: Vec<Query>) -> Operation<Answer> {
        Operation::refused()
    }

    /// Logs.
    pub fn log(&self, _data: Vec<Info>, _directives: Vec<Info>) -> Operation<()> {
        Operation::refused()
    }

    /// Asks the host to act on jobs or processes.
    pub fn job_control(&self, _targets: Vec<Proc>, _directives: Vec<Info>) -> Operation<Answer> {
        Operation::refused()
    }
}
