//! Calls that only forward a request to the server: publish and lookup, spawn and connect, queries, logs and job
//! control.

use std::ffi::CString;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::unistd::geteuid;
use pmix_dstore::model::{App, Info, Key, Nspace, Pdata, Proc, Query, Result, Status, Value, keys, renamed};

use super::{Client, Inner};
use crate::discovery::{FoundServer, servers};
use crate::get_options::timeout_of;
use crate::operation::outcome;
use crate::output::Format;
use crate::{Environment, Operation};
use pmix_wire::reply::{ConnectReply, CredentialReply, InfosReply, LookupReply, SpawnReply, StatusReply};
use pmix_wire::{Request, jobinfo};

/// A reply with infos and a status, which may be a partial success.
#[derive(Clone, Debug, PartialEq)]
pub struct InfoReply {
    /// The status: success or a partial one.
    pub status: Status,
    /// The infos.
    pub infos: Vec<Info>,
}

impl InfoReply {
    /// Answers queries that need no initialised library: the versions of the standard's binary interface. The standard
    /// has numbered none for this library, so each is "0.0". `None` if a query asks for anything else, or there is
    /// none.
    pub fn of_library(mut queries: Vec<Query>) -> Option<InfoReply> {
        let infos = of_library(&mut queries, versions);
        (!infos.is_empty() && queries.is_empty()).then_some(InfoReply { status: Status::SUCCESS, infos })
    }

    /// Adds the infos that the library knows itself to the server's answer. If the server failed, these alone are a
    /// partial success.
    fn beside(answered: Result<InfoReply>, known: Vec<Info>) -> Result<InfoReply> {
        match answered {
            Ok(mut answer) => {
                answer.infos.extend(known);
                Ok(answer)
            }
            Err(status) if known.is_empty() => Err(status),
            Err(_) => Ok(InfoReply { status: Status::QUERY_PARTIAL_SUCCESS, infos: known }),
        }
    }
}

/// Removes from queries the keys that the library answers itself, and returns their infos.
fn of_library(queries: &mut Vec<Query>, known: fn(&str) -> Option<Info>) -> Vec<Info> {
    let mut infos = Vec::new();
    for query in queries.iter_mut() {
        query.keys.retain(|asked| match asked.to_str().ok().and_then(known) {
            Some(info) => {
                infos.push(info);
                false
            }
            None => true,
        });
    }
    if !infos.is_empty() {
        queries.retain(|query| !query.keys.is_empty());
    }
    infos
}

/// The versions of the standard's binary interface.
fn versions(key: &str) -> Option<Info> {
    const KEYS: [&str; 2] = [keys::QUERY_STABLE_ABI_VERSION, keys::QUERY_PROVISIONAL_ABI_VERSION];
    KEYS.into_iter().find(|known| *known == key).map(|key| Info::new(key, Value::string("0.0")))
}

/// What the library of a connected process knows.
fn known_by_library(key: &str) -> Option<Info> {
    match key {
        // Answered here, as by the stock library: whom a process may reach depends on its user and its environment.
        keys::QUERY_AVAIL_SERVERS => {
            let found = servers(&Environment::from_process().ok()?);
            Some(Info::new(keys::QUERY_AVAIL_SERVERS, Value::infos(found.iter().filter_map(FoundServer::as_info))))
        }
        _ => versions(key),
    }
}

impl Client {
    /// Publishes the infos that are not directives.
    pub fn publish(&self, infos: Vec<Info>) -> Operation<()> {
        let timeout = timeout_of(&infos);
        self.inner.ask(Request::Publish { uid: geteuid().as_raw(), infos }, timeout, done)
    }

    /// Looks published keys up. Returns the found values with their publishers.
    pub fn lookup(&self, keys: Vec<CString>, infos: Vec<Info>) -> Operation<Vec<Pdata>> {
        let timeout = timeout_of(&infos);
        let keys = match names(keys) {
            Ok(keys) => keys,
            Err(status) => return Operation::ready(&self.inner.link, Err(status)),
        };
        let request = Request::Lookup { uid: geteuid().as_raw(), keys, infos };
        self.inner.ask(request, timeout, |_, reply: LookupReply| match reply.status {
            Status::ERR_PARTIAL_SUCCESS if !reply.data.is_empty() => Ok(reply.data),
            status => outcome(status).map(|()| reply.data),
        })
    }

    /// Unpublishes keys; an empty list means all keys of this process.
    pub fn unpublish(&self, keys: Vec<CString>, infos: Vec<Info>) -> Operation<()> {
        let timeout = timeout_of(&infos);
        let keys = match names(keys) {
            Ok(keys) => keys,
            Err(status) => return Operation::ready(&self.inner.link, Err(status)),
        };
        self.inner.ask(Request::Unpublish { uid: geteuid().as_raw(), keys, infos }, timeout, done)
    }

    /// Starts a new job.
    pub fn spawn(&self, infos: Vec<Info>, apps: Vec<App>) -> Operation<Nspace> {
        let timeout = timeout_of(&infos);
        let spawning = self.inner.spawn_begins();
        let format = match spawning.as_ref().map(|_| Format::read(&infos)).transpose() {
            Ok(format) => format.unwrap_or_default(),
            Err(status) => return Operation::ready(&self.inner.link, Err(status)),
        };
        self.inner.ask(Request::Spawn { infos, apps }, timeout, move |inner, reply: SpawnReply| {
            let started = outcome(reply.status).and_then(|()| reply.nspace.ok_or(Status::ERR_NOT_FOUND));
            if let Ok(nspace) = &started
                && !reply.kvals.is_empty()
            {
                // The job runs, whether its data are kept here or not: what is missing is asked for when it is wanted.
                let _ = inner.learn(nspace.clone(), reply.kvals);
            }
            if let Some(mut spawning) = spawning {
                started.iter().for_each(|nspace| spawning.name(nspace, &format));
                // Writes output that was held back; it may be marked with the job's data. This may be a thread of the host, which must
                // not wait for a full pipe.
                inner.link.defer(Box::new(move || drop(spawning)));
            }
            started
        })
    }

    /// Connects processes of several jobs, which then know each other's job-level data.
    pub fn connect_procs(&self, procs: Vec<Proc>, infos: Vec<Info>) -> Operation<()> {
        self.connect_then(procs, infos, |_| Ok(()))
    }

    /// As [`Client::connect_procs`]; `finish` makes the result when the processes are connected.
    pub(crate) fn connect_then<T: Send + 'static>(
        &self,
        procs: Vec<Proc>,
        infos: Vec<Info>,
        finish: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Operation<T> {
        let timeout = timeout_of(&infos);
        // The namespace of another connect stands for its members; what that one was told is not meant for this one.
        let procs = match self.inner.for_server(procs, Vec::new()) {
            Ok((procs, _)) => procs,
            Err(status) => return Operation::ready(&self.inner.link, Err(status)),
        };
        let request = Request::Connect { procs, infos, extra: Vec::new() };
        self.inner.ask(request, timeout, |inner, reply: ConnectReply| {
            outcome(reply.status)?;
            reply.jobs.into_iter().try_for_each(|(nspace, kvals)| inner.learn(nspace, kvals))?;
            inner.refused_commit(&mut *inner.puts.lock()?)?;
            finish(inner)
        })
    }

    /// Ends a connection made with [`Client::connect_procs`], or one whose namespace or members are named.
    pub fn disconnect_procs(&self, procs: Vec<Proc>, infos: Vec<Info>) -> Operation<()> {
        let timeout = timeout_of(&infos);
        let inner = &self.inner;
        let (procs, infos) = match inner.for_server(procs, infos) {
            Ok(named) => named,
            Err(status) => return Operation::ready(&inner.link, Err(status)),
        };
        if !inner.connections.has_any() {
            return inner.ask(Request::Disconnect { procs, infos }, timeout, done);
        }
        let (named, told) = (procs.clone(), infos.clone());
        inner.ask(Request::Disconnect { procs, infos }, timeout, move |inner, reply: StatusReply| {
            let ended = outcome(reply.status);
            // The server ends the connection without a member that is lost. One that it does not know has ended.
            if matches!(ended, Ok(()) | Err(Status::ERR_LOST_CONNECTION | Status::ERR_INVALID_OPERATION)) {
                inner.forget_connection(named, &told);
            }
            ended
        })
    }

    /// Queries the host. The library answers queries about itself.
    pub fn query(&self, mut queries: Vec<Query>) -> Operation<InfoReply> {
        let known = of_library(&mut queries, known_by_library);
        if queries.is_empty() && !known.is_empty() {
            return Operation::ready(&self.inner.link, Ok(InfoReply { status: Status::SUCCESS, infos: known }));
        }
        let declared = self.declared_for(&queries);
        if let Some(alone) = declared.as_ref().filter(|_| known.is_empty()).and_then(|declared| declared.alone(self)) {
            return Operation::ready(&self.inner.link, Ok(alone));
        }
        renamed::say_both(&mut queries);
        let timeout = queries.iter().find_map(|query| timeout_of(&query.qualifiers));
        let asked = self.inner.ask(Request::Query { queries }, timeout, answer);
        let asked = match declared {
            Some(declared) => asked.then(|answered| declared.beside(answered)),
            None => asked,
        };
        if known.is_empty() { asked } else { asked.then(|answered| InfoReply::beside(answered, known)) }
    }

    /// Logs `data`. Adds the time if `PMIX_LOG_GENERATE_TIMESTAMP` asks for it.
    pub fn log(&self, data: Vec<Info>, directives: Vec<Info>) -> Operation<()> {
        let wants_time = Info::is_set(&directives, keys::LOG_GENERATE_TIMESTAMP);
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64);
        let timestamp = Some(if wants_time { now() } else { 0 });
        let timeout = timeout_of(&directives);
        self.inner.ask(Request::Log { timestamp, data, directives }, timeout, done)
    }

    /// Asks the host to act on jobs or processes; no targets means the own job.
    pub fn job_control(&self, targets: Vec<Proc>, directives: Vec<Info>) -> Operation<InfoReply> {
        let timeout = timeout_of(&directives);
        self.inner.ask(Request::JobControl { targets, directives }, timeout, answer)
    }

    /// Asks the host for resources. `directive` is a `pmix_alloc_directive_t`.
    pub fn allocate(&self, directive: u8, infos: Vec<Info>) -> Operation<InfoReply> {
        let timeout = timeout_of(&infos);
        self.inner.ask(Request::Allocate { directive, infos }, timeout, answer)
    }

    /// Asks the host for information about fabrics.
    pub fn fabric_register(&self, infos: Vec<Info>) -> Operation<InfoReply> {
        let timeout = timeout_of(&infos);
        self.inner.ask(Request::FabricRegister { infos }, timeout, answer)
    }

    /// Asks the host for new information about the fabric with this index.
    pub fn fabric_update(&self, index: u64) -> Operation<InfoReply> {
        self.inner.ask(Request::FabricUpdate { index }, None, answer)
    }

    /// Asks the host to act on a session.
    pub fn session_control(&self, session: u32, infos: Vec<Info>) -> Operation<InfoReply> {
        let timeout = timeout_of(&infos);
        self.inner.ask(Request::SessionControl { session, infos }, timeout, answer)
    }

    /// Asks the host to define or change a block of resources. `directive` is a `pmix_resource_block_directive_t`. Each
    /// unit is a mask of device types and a count.
    pub fn resource_block(
        &self,
        directive: u8,
        block: Option<CString>,
        units: Vec<(u64, u64)>,
        infos: Vec<Info>,
    ) -> Operation<()> {
        let timeout = timeout_of(&infos);
        self.inner.ask(Request::ResourceBlock { directive, block, units, infos }, timeout, done)
    }

    /// Sends a heartbeat to the server that monitors this process.
    ///
    /// # Errors
    /// As [`Link::beat`](crate::Link::beat).
    pub fn beat(&self) -> Result<()> {
        self.inner.link.beat()
    }

    /// Asks the host to monitor a process; the server does it if the host cannot. `status` is the code of the event
    /// that reports a failure.
    pub fn monitor(&self, monitor: Info, status: Status, directives: Vec<Info>) -> Operation<InfoReply> {
        if monitor.key.is(keys::SEND_HEARTBEAT) {
            let beaten = self.beat().map(|()| InfoReply { status: Status::SUCCESS, infos: Vec::new() });
            return Operation::ready(&self.inner.link, beaten);
        }
        let timeout = timeout_of(&directives);
        self.inner.ask(Request::Monitor { monitor, status, directives }, timeout, answer)
    }

    /// Asks the host for a credential. Returns its bytes and the infos about it.
    pub fn get_credential(&self, infos: Vec<Info>) -> Operation<(Vec<u8>, Vec<Info>)> {
        let timeout = timeout_of(&infos);
        self.inner.ask(Request::GetCredential { infos }, timeout, |_, reply: CredentialReply| {
            outcome(reply.status)?;
            reply.credential.ok_or(Status::ERR_NOT_FOUND)
        })
    }

    /// Asks the host whether a credential is valid.
    pub fn validate_credential(&self, credential: Vec<u8>, infos: Vec<Info>) -> Operation<InfoReply> {
        let timeout = timeout_of(&infos);
        self.inner.ask(Request::ValidateCredential { credential, infos }, timeout, answer)
    }
}

fn names(keys: Vec<CString>) -> Result<Vec<Key>> {
    keys.into_iter().map(|key| Key::new(key.into_bytes()).map_err(|_| Status::ERR_BAD_PARAM)).collect()
}

pub(crate) fn done(_: &Inner, reply: StatusReply) -> Result<()> {
    outcome(reply.status)
}

fn answer(_: &Inner, reply: InfosReply) -> Result<InfoReply> {
    let status = match reply.status {
        Status::OPERATION_SUCCEEDED => Status::SUCCESS,
        status => status,
    };
    match status {
        Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS | Status::QUERY_PARTIAL_SUCCESS => {
            Ok(InfoReply { status, infos: reply.infos.unwrap_or_default() })
        }
        failed => Err(failed),
    }
}

impl Inner {
    /// Caches the server's job-level data of another job.
    fn learn(&self, nspace: Nspace, kvals: Vec<pmix_dstore::model::Kval>) -> Result<()> {
        if self.keeps() {
            self.local.reply_cache.add_job(jobinfo::from_kvals(nspace, self.link.dialect(), kvals)?, true)?;
        }
        Ok(())
    }
}
