//! A Get that only the server can answer.

use std::sync::Arc;

use pmix_dstore::model::{Info, Key, Kval, NameError, Nspace, Proc, Rank, Result, Status, Value, keys};
use pmix_dstore::qualified;
use pmix_dstore::realm_resolution;
use pmix_wire::reply::GetReply;
use pmix_wire::{Request, jobinfo};

use super::{Deliver, GetOptions, Lookup, deliver};
use crate::client::{ClientKind, Inner};
use crate::operation::{Done, deadline};
use crate::overlay::Origin;

/// A Get that only the server can answer. It outlives the caller's arguments.
pub(super) struct RemoteGet {
    nspace: Nspace,
    rank: Rank,
    /// `None` for all values of the rank.
    key: Option<Key>,
    infos: Vec<Info>,
    refresh: bool,
    /// Whether the server may be asked.
    pub asks: bool,
    /// Fences before it.
    fences: u64,
}

impl RemoteGet {
    /// The request for what is not here.
    ///
    /// # Errors
    /// `BAD_PARAM` for a name that is too long.
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
            // Nothing will come that could be waited for.
            infos.push(Info::new(keys::IMMEDIATE, Value::Bool(true)));
        }
        let fences = *inner.local.reply_cache.fences();
        Ok(RemoteGet { nspace, rank, key, infos, refresh: options.flags.refresh(), asks, fences })
    }

    /// Sends the request; `done` is called with the value.
    ///
    /// # Errors
    /// Where the request cannot be encoded; `done` is not called then.
    pub fn start(self, inner: &Arc<Inner>, done: Done<Value>) -> Result<()> {
        let payload = self.payload(inner)?;
        let tell = move |inner: &Inner, remote: &RemoteGet, reply| {
            let mut value = Err(Status::ERR_NOT_FOUND);
            let answered = inner.answer(remote, reply, &mut |found| {
                value = Ok(found.to_value()?);
                Ok(())
            });
            done(answered.and(value));
        };
        let asking = Arc::clone(inner);
        let reply = move |reply| match asking.second(&self, &reply) {
            None => tell(&asking, &self, reply),
            Some(Err(status)) => tell(&asking, &self, Err(status)),
            Some(Ok(payload)) => {
                let again = Arc::clone(&asking);
                asking.link.request(payload, Box::new(move |reply| tell(&again, &self, reply)));
            }
        };
        inner.link.request(payload, Box::new(reply));
        Ok(())
    }

    fn payload(&self, inner: &Inner) -> Result<Vec<u8>> {
        self.payload_with(inner, self.infos.clone())
    }

    /// The same with other directives.
    fn payload_with(&self, inner: &Inner, infos: Vec<Info>) -> Result<Vec<u8>> {
        let RemoteGet { nspace, rank, key, .. } = self;
        inner.encode(&Request::Get { nspace: nspace.clone(), rank: *rank, infos, key: key.clone() })
    }
}

impl Inner {
    /// Asks the server, where it may be asked.
    #[cold]
    pub(super) fn get_remote(self: &Arc<Inner>, lookup: &Lookup<'_>, take: Deliver<'_>) -> Result<()> {
        // It may take its time, in which others may finalize.
        let inner = Arc::clone(self);
        let remote = RemoteGet::new(&inner, lookup)?;
        if !remote.asks {
            return inner.answer_alone(&remote, take);
        }
        inner.report_corruption();
        let deadline = deadline(lookup.options.timeout);
        let mut reply = inner.link.request_wait(remote.payload(&inner)?.into(), deadline);
        if let Some(payload) = inner.second(&remote, &reply) {
            reply = inner.link.request_wait(payload?.into(), deadline);
        }
        inner.answer(&remote, reply, take)
    }

    /// The request that follows a reply, where one does. Asked for a fresh value of a process of its own node a released server
    /// says only that it need not ask anybody: what it has is fresh, and it gives that to who does not ask for a fresh one.
    fn second(&self, remote: &RemoteGet, reply: &Result<Vec<u8>>) -> Option<Result<Vec<u8>>> {
        let reply = reply.as_ref().ok().filter(|_| remote.refresh)?;
        let GetReply { status, objects } = self.decode(reply).ok()?;
        if status != Status::SUCCESS || !objects.is_empty() {
            return None;
        }
        let infos = remote.infos.iter().filter(|info| info.key.as_bytes() != keys::GET_REFRESH_CACHE.as_bytes());
        Some(remote.payload_with(self, infos.cloned().collect()))
    }

    /// The answer without the server: there is none, but for a Get of all values of a rank.
    pub(super) fn answer_alone(&self, remote: &RemoteGet, take: Deliver<'_>) -> Result<()> {
        match remote.key {
            Some(_) => Err(Status::ERR_NOT_FOUND),
            None => self.answer_all(remote, Vec::new(), take),
        }
    }

    /// All values of a rank, of which the server has told `objects`.
    fn answer_all(&self, remote: &RemoteGet, objects: Vec<(Proc, Vec<Kval>)>, take: Deliver<'_>) -> Result<()> {
        let all = self.all_values(Proc::new(remote.nspace.clone(), remote.rank), objects)?;
        if all.iter_infos().next().is_none() { Err(Status::ERR_NOT_FOUND) } else { deliver((&all).into(), take) }
    }

    /// Makes the answer of the server's reply, and keeps what will be asked for again.
    #[cold]
    fn answer(&self, remote: &RemoteGet, reply: Result<Vec<u8>>, take: Deliver<'_>) -> Result<()> {
        let GetReply { status, objects } = self.decode_and_drop(reply?)?;
        let Some(key) = &remote.key else {
            // What the server does not know this process may have stored itself.
            return match status {
                Status::ERR_NOT_FOUND => self.answer_alone(remote, take),
                _ => status.ok().and_then(|()| self.answer_all(remote, objects, take)),
            };
        };
        status.ok()?;
        // The caller's directives may be gone.
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
        // An answer that is narrowed to a realm, a node or an application does not hold for other Gets.
        if self.keeps() && options.selector.is_empty() {
            for job in jobs {
                // With the values of a rank of another job come all of the job, so that it can be read here from now on.
                let is_whole = remote.rank.is_process() && !self.local.is_own(job.nspace.as_bytes());
                // What there is no room for will be asked for again.
                let _ = self.local.reply_cache.add_job(job, is_whole);
            }
        }
        found.unwrap_or(Err(Status::ERR_NOT_FOUND))
    }

    /// Keeps what the server said of a rank. What there is no room for will be asked for again.
    fn keep_rank(&self, remote: &RemoteGet, proc: &Proc, kvals: Vec<Kval>) {
        let fences = self.local.reply_cache.fences();
        // Another thread may have left a fence since this one asked: what is newer then is not kept from its Gets.
        if !self.keeps() || *fences != remote.fences {
            return;
        }
        // The segments are asked before what is kept, and still hold the older values.
        let refreshes = remote.refresh && self.local.is_own(proc.nspace.as_bytes()) && self.local.view.is_some();
        for Kval { key, value } in qualified::gather(kvals).unwrap_or_default() {
            let value = Arc::new(value);
            if refreshes {
                let overlay = &self.local.overlay;
                let _ = overlay.set(&proc.nspace, proc.rank, key.clone(), Arc::clone(&value), Origin::Refreshed);
            }
            let _ = self.local.reply_cache.add(&proc.nspace, proc.rank, key, value);
        }
    }

    /// Whether replies are worth keeping: not where the link leads into this very process.
    pub(crate) fn keeps(&self) -> bool {
        self.kind != ClientKind::InProcessServer
    }
}
