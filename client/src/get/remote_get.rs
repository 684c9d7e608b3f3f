//! A Get that only the server can answer.

use std::sync::Arc;
use std::time::Instant;

use pmix_dstore::model::{Info, Key, Kval, NameError, Nspace, Proc, Rank, Result, Status, Value, keys};
use pmix_dstore::qualified;
use pmix_dstore::realm_resolution;
use pmix_dstore::recorder::{Note, Step};
use pmix_wire::reply::GetReply;
use pmix_wire::{Request, jobinfo};

use super::{Deliver, GetOptions, Lookup, deliver};
use crate::client::{ClientKind, Inner};
use crate::get_options::timeout_of;
use crate::late::Limited;
use crate::operation::{Done, deadline};
use crate::overlay::Origin;
use crate::recorder::Begun;
use crate::source::{self, Source};

/// A Get that only the server can answer. It owns its data, because it outlives the caller's arguments.
pub(super) struct RemoteGet {
    pub nspace: Nspace,
    pub rank: Rank,
    /// `None` for all values of the rank.
    pub key: Option<Key>,
    pub infos: Vec<Info>,
    refresh: bool,
    /// Whether the server may be asked.
    pub asks: bool,
    /// The reply cache's count of fences when the request was made.
    fences: u64,
}

impl RemoteGet {
    /// The request after a local miss.
    ///
    /// # Errors
    /// `BAD_PARAM` for a name that is too long; `UNREACH` in a forked child, maybe.
    #[cold]
    pub fn new(inner: &Inner, lookup: &Lookup<'_>) -> Result<RemoteGet> {
        let Lookup { is_own, rank, options, .. } = *lookup;
        let name = |_: NameError| Status::ERR_BAD_PARAM;
        let nspace = Nspace::new(lookup.nspace).map_err(name)?;
        let key = lookup.key.map(|key| Key::new(key.text())).transpose().map_err(name)?;
        let asks = inner.may_ask(lookup);
        let mut infos = (lookup.infos)();
        let own_reserved = key.as_ref().is_some_and(Key::is_reserved) && is_own;
        let all_of_me = key.is_none() && rank == inner.me.rank && is_own;
        if (own_reserved && !options.flags.bypass_cache() || all_of_me) && !options.flags.immediate() {
            // The value cannot arrive later, so the server must not wait for it.
            infos.push(Info::new(keys::IMMEDIATE, Value::Bool(true)));
        }
        let fences = *inner.local.reply_cache.fences()?;
        Ok(RemoteGet { nspace, rank, key, infos, refresh: options.flags.refresh(), asks, fences })
    }

    /// Sends the request; `done` gets the value.
    ///
    /// # Errors
    /// If the request cannot be encoded; then `done` is not called.
    pub fn start(self, inner: &Arc<Inner>, done: Done<Value>) -> Result<()> {
        let payload = self.payload(inner)?;
        let step = self.begin();
        let until = deadline(timeout_of(&self.infos));
        let limited = until.map(|_| Limited::by_get());
        let finish = move |inner: &Inner, remote: &RemoteGet, reply: Result<Vec<u8>>| {
            if let Some(limited) = limited {
                limited.ended(&*inner.link, &inner.me, &reply);
            }
            let mut value = Err(Status::ERR_NOT_FOUND);
            let answered = inner.answer(remote, reply, &mut |found| {
                value = Ok(found.to_value()?);
                Ok(())
            });
            step.end(&answered);
            done(answered.and(value));
        };
        let asking = Arc::clone(inner);
        let reply = move |reply| match asking.second_request(&self, &reply) {
            None => finish(&asking, &self, reply),
            Some(Err(status)) => finish(&asking, &self, Err(status)),
            Some(Ok(payload)) => {
                let again = Arc::clone(&asking);
                asking.link.request_until(payload, until, Box::new(move |reply| finish(&again, &self, reply)));
            }
        };
        inner.link.request_until(payload, until, Box::new(reply));
        Ok(())
    }

    /// Notes that it begins to wait for the server.
    fn begin(&self) -> Begun {
        Begun::new(|| {
            let key = self.key.as_ref().map_or(&b"all values"[..], |key| key.as_bytes());
            Some(Note::new(Step::Get, self.rank.0, key))
        })
    }

    fn payload(&self, inner: &Inner) -> Result<Vec<u8>> {
        self.payload_with(inner, self.key.clone(), self.infos.clone())
    }

    /// As [`RemoteGet::payload`], with another key or other directives.
    pub fn payload_with(&self, inner: &Inner, key: Option<Key>, infos: Vec<Info>) -> Result<Vec<u8>> {
        inner.encode(&Request::Get { nspace: self.nspace.clone(), rank: self.rank, infos, key })
    }
}

impl Inner {
    /// Asks the server, if the Get allows it.
    #[cold]
    pub(super) fn get_remote(self: &Arc<Inner>, lookup: &Lookup<'_>, take: Deliver<'_>) -> Result<()> {
        // Keeps the client alive: another thread may finalize during the wait.
        let inner = Arc::clone(self);
        let remote = RemoteGet::new(&inner, lookup)?;
        if !remote.asks {
            return inner.answer_without_server(&remote, take);
        }
        inner.report_corruption();
        source::note(Source::Server);
        let step = remote.begin();
        let limited = lookup.options.timeout.map(|_| Limited::by_get());
        let answered = inner.wait_for_server(&remote, deadline(lookup.options.timeout), limited, take);
        step.end(&answered);
        answered
    }

    fn wait_for_server(
        &self,
        remote: &RemoteGet,
        deadline: Option<Instant>,
        limited: Option<Limited>,
        take: Deliver<'_>,
    ) -> Result<()> {
        let mut reply = self.link.request_wait(remote.payload(self)?.into(), deadline);
        if let Some(payload) = self.second_request(remote, &reply) {
            reply = self.link.request_wait(payload?.into(), deadline);
        }
        if let Some(limited) = limited {
            limited.ended(&*self.link, &self.me, &reply);
        }
        if self.may_precede_commit(remote, &reply) {
            return self.get_after_commit(remote, deadline, take);
        }
        self.answer(remote, reply, take)
    }

    /// The second request that some replies need. A released server answers a refresh of a process of its own node with
    /// success and no value, because its copy is fresh already. A second request without the refresh directive gets
    /// that copy.
    fn second_request(&self, remote: &RemoteGet, reply: &Result<Vec<u8>>) -> Option<Result<Vec<u8>>> {
        let reply = reply.as_ref().ok().filter(|_| remote.refresh)?;
        let GetReply { status, objects } = self.decode(reply).ok()?;
        if status != Status::SUCCESS || !objects.is_empty() {
            return None;
        }
        let infos = remote.infos.iter().filter(|info| info.key.as_bytes() != keys::GET_REFRESH_CACHE.as_bytes());
        Some(remote.payload_with(self, remote.key.clone(), infos.cloned().collect()))
    }

    /// The result if the server may not be asked: not found, except for a Get of all values of a rank.
    pub(super) fn answer_without_server(&self, remote: &RemoteGet, take: Deliver<'_>) -> Result<()> {
        match remote.key {
            Some(_) => Err(Status::ERR_NOT_FOUND),
            None => self.answer_all(remote, Vec::new(), take),
        }
    }

    /// All values of a rank; `objects` is the server's reply.
    fn answer_all(&self, remote: &RemoteGet, objects: Vec<(Proc, Vec<Kval>)>, take: Deliver<'_>) -> Result<()> {
        let all = self.all_values(Proc::new(remote.nspace.clone(), remote.rank), objects)?;
        if all.iter_infos().next().is_none() { Err(Status::ERR_NOT_FOUND) } else { deliver((&all).into(), take) }
    }

    /// Takes the result from the server's reply, and caches values for later Gets.
    #[cold]
    pub(super) fn answer(&self, remote: &RemoteGet, reply: Result<Vec<u8>>, take: Deliver<'_>) -> Result<()> {
        let GetReply { status, objects } = self.decode_and_drop(reply?)?;
        let Some(key) = &remote.key else {
            // The server knows no values, but this process may have stored some itself.
            return match status {
                Status::ERR_NOT_FOUND => self.answer_without_server(remote, take),
                _ => status.ok().and_then(|()| self.answer_all(remote, objects, take)),
            };
        };
        status.ok()?;
        // Parsed again from the copy: the caller's directives may not live any more.
        let options = GetOptions::from_infos(&remote.infos);
        let is_qualified = options.flags.qualified();
        let mut jobs = Vec::new();
        let mut found = None;
        for (proc, kvals) in objects {
            let is_asked = proc.nspace == remote.nspace;
            let value = match is_qualified {
                false => kvals.iter().find(|kval| kval.key == *key).map(|kval| &kval.value),
                true => {
                    let mut all = kvals.iter().filter(|kval| qualified::is_key(&kval.key));
                    all.find_map(|kval| qualified::find(&kval.value, key.as_bytes(), &remote.infos))
                }
            };
            let value = value.filter(|_| is_asked && found.is_none());
            if proc.rank.is_process() {
                let value = value.filter(|_| proc.rank == remote.rank || remote.rank == Rank::UNDEF);
                found = found.or_else(|| Some(deliver(value?.into(), take)));
                self.keep_rank(remote, &proc, kvals);
            } else {
                found = found.or_else(|| Some(deliver(value?.into(), take)));
                jobs.push(jobinfo::from_kvals(proc.nspace, self.link.dialect(), kvals)?);
            }
        }
        if found.is_none()
            && let Some(job) = jobs.iter().rfind(|job| job.nspace == remote.nspace)
        {
            let caller = self.local.caller(self.local.is_own(remote.nspace.as_bytes()));
            found = if is_qualified {
                let value = realm_resolution::find_qualified(job, remote.rank, key.as_bytes(), &remote.infos)?;
                value.map(|value| deliver((&value).into(), take))
            } else {
                let value = realm_resolution::find(job, remote.rank, &key.into(), &options.selector, &caller);
                value.map(|value| deliver(value, take))
            };
        }
        // A reply for one realm, node or application is not valid for other Gets, so it is not cached.
        if self.keeps() && options.selector.is_empty() {
            for job in jobs {
                // With values of a rank of another job the server sends all of the job's data, so that later Gets of
                // that job are local.
                let is_whole = remote.rank.is_process() && !self.local.is_own(job.nspace.as_bytes());
                // On `NOMEM` the data is not cached; a later Get asks again.
                let _ = self.local.reply_cache.add_job(job, is_whole);
            }
        }
        found.unwrap_or(Err(Status::ERR_NOT_FOUND))
    }

    /// Caches the server's values of a rank. On `NOMEM` they are not cached; a later Get asks again.
    fn keep_rank(&self, remote: &RemoteGet, proc: &Proc, kvals: Vec<Kval>) {
        self.note_first_values(proc);
        let Ok(fences) = self.local.reply_cache.fences() else { return };
        // Another thread may have completed a fence since this request was sent. Then the reply may be older than
        // values from the fence, and must not hide them.
        if !self.keeps() || *fences != remote.fences {
            return;
        }
        // Gets look into the segments before the reply cache, and the segments still hold the old values. So refreshed
        // values go into the overlay.
        let refreshes = remote.refresh && self.local.is_own(proc.nspace.as_bytes()) && self.local.segments.is_some();
        for Kval { key, value } in qualified::gather(kvals).unwrap_or_default() {
            let value = Arc::new(value);
            if refreshes {
                let overlay = &self.local.overlay;
                let _ = overlay.set(&proc.nspace, proc.rank, key.clone(), Arc::clone(&value), Origin::Refreshed);
            }
            let _ = self.local.reply_cache.add(&proc.nspace, proc.rank, key, value);
        }
    }

    /// Whether replies are cached. Not if the server is in this process, where asking is cheap.
    pub(crate) fn keeps(&self) -> bool {
        self.initial_kind != ClientKind::InProcessServer
    }
}
