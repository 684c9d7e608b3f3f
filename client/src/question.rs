//! A Get that only the server can answer.

use std::sync::Arc;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::model::attributes::{Attribute, Typed};
use pmix_dstore::model::{
    Info, KEY_LEN_MAX, Key, KeyRef, Kval, NameError, Nspace, Proc, Rank, Result, Status, Value, keys,
};
use pmix_dstore::qualified;
use pmix_dstore::realm_resolution;
use pmix_dstore::segment::{Short, Target};

use crate::Call;
use crate::client::{Client, Inner, Standing};
use crate::everything::Everything;
use crate::get::{GetOptions, GetRequest};
use crate::instance::Shielded;
use crate::link::after_call;
use crate::local::{Wanted, hand};
use crate::operation::{Done, deadline};
use crate::overlay::Origin;
use pmix_wire::reply::GetReply;
use pmix_wire::{Request, jobinfo};

impl Client {
    /// Gets a value and hands it to `take`, borrowed from where it lies.
    ///
    /// `take` must not call the client again.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND`, `ERR_TIMEOUT`, `ERR_BAD_PARAM` for a name that is too long, what the server answers.
    // What `take` holds need then not be copied.
    #[inline(always)]
    pub fn get<R>(&self, request: &GetRequest<'_>, take: impl FnOnce(ValueRef<'_>) -> R) -> Result<R> {
        let mut take = Some(take);
        if let Some(result) = self.inner.find(request, &mut take) {
            return result;
        }
        if let Some(result) = self.inner.own_fact(request, &mut take) {
            return result;
        }
        // A miss that ends here is common, too: MPI libraries ask for many keys that a host may not have.
        if request.key.is_some_and(|key| key.len() <= KEY_LEN_MAX) && !self.inner.may_ask(request) {
            return Err(Status::ERR_NOT_FOUND);
        }
        // From here on it may take its time, in which others may finalize.
        Arc::clone(&self.inner).ask_value(request, &mut take)
    }

    /// The short way of a Get that says nothing but rank and key, for a value in the segments of the own namespace. What is
    /// not to be found like that [`Client::get`] says.
    #[inline(always)]
    pub fn get_here(&self, rank: Rank, key: &KeyRef<'_>) -> Short<'_> {
        self.inner.local.short(rank, key)
    }

    /// The same for one that names an instance beside its rank.
    #[inline(always)]
    pub fn get_here_of(&self, of: Target<'_>, rank: Rank, key: &KeyRef<'_>) -> Short<'_> {
        self.inner.local.short_of(of, rank, key)
    }

    /// The same for a value that this process put or stored itself.
    ///
    /// # Safety
    /// The thread puts and stores nothing while it has the value.
    #[inline(always)]
    pub unsafe fn get_own<'a>(&'a self, shielded: &'a Shielded, rank: Rank, key: &KeyRef<'_>) -> Option<&'a Value> {
        let Inner { local, me, .. } = &*self.inner;
        // SAFETY: the caller's promise.
        unsafe { local.overlay.get_shielded(shielded, me.nspace.as_bytes(), rank, key) }
    }

    /// Whether what [`Client::get_here`] knows to be absent of a rank does not exist for an optional Get: nothing is known from
    /// elsewhere.
    #[inline]
    pub fn is_settled(&self, rank: Rank, key: &KeyRef<'_>) -> bool {
        let is_elsewhere = may_be_own_fact(rank, key.text()) || !self.inner.local.known.is_empty();
        self.inner.standing == Standing::Launched && !is_elsewhere
    }

    /// Gets a value, copied.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_value(&self, proc: &Proc, key: &str, infos: &[Info]) -> Result<Value> {
        let request = GetRequest {
            nspace: Some(proc.nspace.as_bytes()),
            rank: proc.rank,
            key: Some(key.as_bytes()),
            options: GetOptions::from_infos(infos),
            infos: &|| infos.to_vec(),
        };
        self.get(&request, |value| value.to_value())?
    }

    /// Gets the value of an attribute; those of a job are at its [`Rank::WILDCARD`](pmix_dstore::model::Rank::WILDCARD).
    ///
    /// # Errors
    /// As [`Client::get`]; `ERR_TYPE_MISMATCH` for a value that is none of the attribute's type.
    pub fn get_attribute<T: Typed>(&self, proc: &Proc, attribute: Attribute<T>) -> Result<T> {
        let value = self.get_value(proc, attribute.key(), &[])?;
        attribute.read(&value).ok_or(Status::ERR_TYPE_MISMATCH)
    }

    /// Gets a value without blocking.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` where it is known without the server that there is none; where the request cannot be started.
    /// Then `done` is not called.
    pub fn get_nb(&self, request: &GetRequest<'_>, done: Done<Value>) -> Result<()> {
        let _call = Call::begin();
        self.inner.link.ready()?;
        let done = after_call(&self.inner.link, done);
        let to_value = |value: ValueRef<'_>| value.to_value();
        let found = self.inner.find(request, &mut Some(to_value));
        if let Some(result) = found.or_else(|| self.inner.own_fact(request, &mut Some(to_value))) {
            let value = result??;
            self.inner.link.defer(Box::new(move || done(Ok(value))));
            return Ok(());
        }
        let question = self.inner.question(request)?;
        if !question.asks {
            let value = self.inner.answer_alone(&question, &mut Some(to_value))??;
            self.inner.link.defer(Box::new(move || done(Ok(value))));
            return Ok(());
        }
        let payload = question.payload(&self.inner)?;
        let inner = Arc::clone(&self.inner);
        let tell = move |inner: &Inner, question: &Question, reply| {
            done(inner.answer(question, reply, &mut Some(to_value)).and_then(|value| value));
        };
        let reply = move |reply| match inner.second(&question, &reply) {
            None => tell(&inner, &question, reply),
            Some(Err(status)) => tell(&inner, &question, Err(status)),
            Some(Ok(payload)) => {
                let again = Arc::clone(&inner);
                inner.link.request(payload, Box::new(move |reply| tell(&again, &question, reply)));
            }
        };
        self.inner.link.request(payload, Box::new(reply));
        Ok(())
    }
}

/// Whether a miss on the short way is not the last word: [`Inner::own_fact_of`] may have one, what a rank put is found on the long
/// way, or the topology is loaded when it is asked for.
#[inline]
fn may_be_own_fact(rank: Rank, key: &[u8]) -> bool {
    // The keys about the server have 13 or 15 bytes, and few others begin or end like them.
    const LENGTHS: u64 = 1 << 13 | 1 << 15 | 1 << keys::GROUP_LOCAL_CID.len() | 1 << keys::TOPOLOGY2.len();
    let is_such = || {
        let is_of_server = key.starts_with(b"pmix.srv") || key.ends_with(b".uri");
        is_of_server || key == keys::GROUP_LOCAL_CID.as_bytes() || key == keys::TOPOLOGY2.as_bytes()
    };
    LENGTHS >> (key.len() % 64) & 1 != 0 && is_such() || matches!(rank, Rank::UNDEF | Rank::INVALID)
}

/// A Get that only the server can answer.
struct Question {
    nspace: Nspace,
    rank: Rank,
    /// `None` for all values of the rank.
    key: Option<Key>,
    infos: Vec<Info>,
    refresh: bool,
    /// Whether the server may be asked.
    asks: bool,
    /// Fences before it.
    fences: u64,
}

impl Question {
    fn payload(&self, inner: &Inner) -> Result<Vec<u8>> {
        self.payload_with(inner, self.infos.clone())
    }

    /// The same with other directives.
    fn payload_with(&self, inner: &Inner, infos: Vec<Info>) -> Result<Vec<u8>> {
        let Question { nspace, rank, key, .. } = self;
        inner.encode(&Request::Get { nspace: nspace.clone(), rank: *rank, infos, key: key.clone() })
    }

    /// Whether the answer holds beside this question: one that is narrowed to a realm, a node or an application does not.
    fn is_general(&self, options: &GetOptions<'_>) -> bool {
        options.selector.is_empty()
    }
}

impl Inner {
    /// The local answer to a Get, if there is one.
    #[inline(always)]
    fn find<R, F: FnOnce(ValueRef<'_>) -> R>(
        &self,
        request: &GetRequest<'_>,
        take: &mut Option<F>,
    ) -> Option<Result<R>> {
        if request.options.apart {
            if request.options.refused {
                return Some(Err(Status::ERR_NOT_SUPPORTED));
            }
            return self.find_apart(request, take);
        }
        let key = KeyRef::new(request.key?);
        let nspace = request.nspace.filter(|nspace| !nspace.is_empty()).unwrap_or(self.me.nspace.as_bytes());
        let wanted = Wanted { nspace, rank: request.rank, key, selector: &request.options.selector };
        self.local.find(wanted, take)
    }

    /// What a process knows of itself before anybody tells it.
    #[inline(always)]
    fn own_fact<R, F: FnOnce(ValueRef<'_>) -> R>(
        &self,
        request: &GetRequest<'_>,
        take: &mut Option<F>,
    ) -> Option<Result<R>> {
        if may_be_own_fact(request.rank, request.key?) { self.own_fact_of(request, take) } else { None }
    }

    /// Its name, asked for without naming a process; and who its server is and where it listens, asked for of itself or without
    /// naming a process.
    #[cold]
    fn own_fact_of<R, F: FnOnce(ValueRef<'_>) -> R>(
        &self,
        request: &GetRequest<'_>,
        take: &mut Option<F>,
    ) -> Option<Result<R>> {
        let key = request.key?;
        let is_asked = |name: &str, rank: Rank| request.rank == rank && key == name.as_bytes();
        let is_of_me = |name: &str| is_asked(name, self.me.rank) || is_asked(name, Rank::UNDEF);
        let is_server = self.standing == Standing::Linked;
        let value = if is_asked(keys::PROCID, Rank::UNDEF) {
            Value::Proc(self.me.clone())
        } else if is_asked(keys::RANK, Rank::INVALID) || is_asked(keys::RANK, Rank::UNDEF) {
            Value::Rank(self.me.rank)
        } else if is_of_me(keys::SERVER_URI) || is_server && is_of_me(keys::MYSERVER_URI) {
            Value::string(self.server_uri.get()?.as_bytes())
        } else if is_of_me(keys::SERVER_NSPACE) {
            Value::string(self.server_name()?.0)
        } else if is_of_me(keys::SERVER_RANK) {
            Value::Rank(self.server_name()?.1)
        } else {
            return None;
        };
        let mut nspace = request.nspace.iter().filter(|nspace| !nspace.is_empty());
        if nspace.any(|nspace| *nspace != self.me.nspace.as_bytes()) {
            return None;
        }
        hand((&value).into(), take)
    }

    /// The server's namespace and rank, which its address begins with.
    fn server_name(&self) -> Option<(&str, Rank)> {
        let (nspace, rank) = self.server_uri.get()?.split_once(';')?.0.rsplit_once('.')?;
        Some((nspace, Rank(rank.parse().ok()?)))
    }

    /// The local answer to a Get that is not for the one value that is here: it says which of several under a key it is for, or
    /// wants a fresh one.
    #[cold]
    fn find_apart<R, F: FnOnce(ValueRef<'_>) -> R>(
        &self,
        request: &GetRequest<'_>,
        take: &mut Option<F>,
    ) -> Option<Result<R>> {
        let GetOptions { refresh, qualified, ref selector, .. } = request.options;
        let key = request.key?;
        let nspace = request.nspace.filter(|nspace| !nspace.is_empty()).unwrap_or(self.me.nspace.as_bytes());
        if refresh {
            // Nobody has a newer value of what this process put or stored of itself, and a server need not have it at all.
            let is_of_me = request.rank == self.me.rank && self.local.is_own(nspace);
            let own = || self.local.overlay.own(nspace, request.rank, &KeyRef::new(key));
            let value = (is_of_me && !qualified && selector.is_empty()).then(own).flatten()?;
            return hand((&*value).into(), take);
        }
        match self.local.find_qualified(nspace, request.rank, key, &(request.infos)()) {
            Ok(value) => hand((&value?).into(), take),
            Err(status) => Some(Err(status)),
        }
    }

    /// Whether the server may be asked for what is not here.
    #[inline(always)]
    fn may_ask(&self, request: &GetRequest<'_>) -> bool {
        let options = &request.options;
        match self.standing {
            Standing::Singleton => false,
            // The link leads into this very process: that is what an optional Get means here.
            Standing::Linked => true,
            // What was published is here, unless shared memory failed us.
            Standing::Launched if options.optional => self.local.view.as_ref().is_some_and(|view| !view.is_complete()),
            Standing::Launched => {
                // What the host registered of the own job is here. The host may still learn more, so that the server
                // is asked what it has by now, unless the caller does not want that either.
                let nspace = request.nspace.filter(|nspace| !nspace.is_empty()).unwrap_or(self.me.nspace.as_bytes());
                // Not by a `KeyRef`: its hash is for nothing here, and one more place that has it is one less into which it is inlined.
                let is_of_ranks = |key: &[u8]| key == keys::GROUP_LOCAL_CID.as_bytes();
                let is_here = |key: &[u8]| key.starts_with(b"pmix") && !is_of_ranks(key) && self.local.is_whole(key);
                let settled = options.immediate && !options.apart && self.local.is_own(nspace);
                !(settled && request.key.is_some_and(is_here))
            }
        }
    }

    /// The question to ask, where the server may be asked.
    #[cold]
    fn question(&self, request: &GetRequest<'_>) -> Result<Question> {
        let options = &request.options;
        let name = |_: NameError| Status::ERR_BAD_PARAM;
        let nspace = match request.nspace.filter(|nspace| !nspace.is_empty()) {
            Some(nspace) => Nspace::new(nspace).map_err(name)?,
            None => self.me.nspace.clone(),
        };
        let key = request.key.map(Key::new).transpose().map_err(name)?;
        let asks = self.may_ask(request);
        let mut infos = (request.infos)();
        let own_reserved = key.as_ref().is_some_and(Key::is_reserved) && self.local.is_own(nspace.as_bytes());
        let all_of_me = key.is_none() && request.rank == self.me.rank && self.local.is_own(nspace.as_bytes());
        if (own_reserved && !options.apart || all_of_me) && !options.immediate {
            // Nothing will come that could be waited for.
            infos.push(Info::new(keys::IMMEDIATE, Value::Bool(true)));
        }
        let fences = *self.local.known.fences();
        Ok(Question { nspace, rank: request.rank, key, infos, refresh: options.refresh, asks, fences })
    }

    /// Asks the server, where it may be asked.
    #[cold]
    fn ask_value<R, F: FnOnce(ValueRef<'_>) -> R>(&self, request: &GetRequest<'_>, take: &mut Option<F>) -> Result<R> {
        let question = self.question(request)?;
        if !question.asks {
            return self.answer_alone(&question, take);
        }
        self.tell_of_damage();
        let deadline = deadline(request.options.timeout);
        let mut reply = self.link.request_wait(question.payload(self)?.into(), deadline);
        if let Some(payload) = self.second(&question, &reply) {
            reply = self.link.request_wait(payload?.into(), deadline);
        }
        self.answer(&question, reply, take)
    }

    /// The request that follows a reply, where one does. Asked for a fresh value of a process of its own node a released server
    /// says only that it need not ask anybody: what it has is fresh, and it gives that to who does not ask for a fresh one.
    fn second(&self, question: &Question, reply: &Result<Vec<u8>>) -> Option<Result<Vec<u8>>> {
        let reply = reply.as_ref().ok().filter(|_| question.refresh)?;
        let GetReply { status, objects } = self.decode(reply).ok()?;
        if status != Status::SUCCESS || !objects.is_empty() {
            return None;
        }
        let infos = question.infos.iter().filter(|info| info.key.as_bytes() != keys::GET_REFRESH_CACHE.as_bytes());
        Some(question.payload_with(self, infos.cloned().collect()))
    }

    /// The answer without the server: there is none, but for a question for all values of a rank.
    fn answer_alone<R, F: FnOnce(ValueRef<'_>) -> R>(&self, question: &Question, take: &mut Option<F>) -> Result<R> {
        match question.key {
            Some(_) => Err(Status::ERR_NOT_FOUND),
            None => self.answer_all(question, Vec::new(), take),
        }
    }

    /// All values of a rank, of which the server has told `objects`.
    fn answer_all<R, F: FnOnce(ValueRef<'_>) -> R>(
        &self,
        question: &Question,
        objects: Vec<(Proc, Vec<Kval>)>,
        take: &mut Option<F>,
    ) -> Result<R> {
        let none = Err(Status::ERR_NOT_FOUND);
        let all = self.all(question, objects)?;
        if all.iter_infos().next().is_none() { none } else { hand((&all).into(), take).unwrap_or(none) }
    }

    /// Makes the answer of the server's reply, and keeps what will be asked for again.
    #[cold]
    fn answer<R, F: FnOnce(ValueRef<'_>) -> R>(
        &self,
        question: &Question,
        reply: Result<Vec<u8>>,
        take: &mut Option<F>,
    ) -> Result<R> {
        let GetReply { status, objects } = self.decode_and_drop(reply?)?;
        let Some(key) = &question.key else {
            // What the server does not know this process may have stored itself.
            return match status {
                Status::ERR_NOT_FOUND => self.answer_alone(question, take),
                _ => status.ok().and_then(|()| self.answer_all(question, objects, take)),
            };
        };
        status.ok()?;
        let options = GetOptions::from_infos(&question.infos);
        let mut jobs = Vec::new();
        let mut found = None;
        for (proc, kvals) in objects {
            let is_asked = proc.nspace == question.nspace;
            let value = match options.qualified {
                false => kvals.iter().find(|kval| kval.key == *key).map(|kval| &kval.value),
                true => {
                    let mut all = kvals.iter().filter(|kval| qualified::is_key(&kval.key));
                    all.find_map(|kval| qualified::find(&kval.value, key.as_bytes(), &question.infos))
                }
            };
            let value = value.filter(|_| is_asked && found.is_none());
            if proc.rank.is_process() {
                let value = value.filter(|_| proc.rank == question.rank || question.rank == Rank::UNDEF);
                found = found.or_else(|| hand(value?.into(), take));
                self.keep_rank(question, &proc, kvals);
            } else {
                found = found.or_else(|| hand(value?.into(), take));
                jobs.push(jobinfo::from_kvals(proc.nspace, self.link.dialect(), kvals)?);
            }
        }
        if found.is_none()
            && let Some(job) = jobs.iter().rfind(|job| job.nspace == question.nspace)
        {
            let caller = self.local.caller(self.local.is_own(question.nspace.as_bytes()));
            found = if options.qualified {
                let value = realm_resolution::find_qualified(job, question.rank, key.as_bytes(), &question.infos)?;
                value.and_then(|value| hand((&value).into(), take))
            } else {
                let value = realm_resolution::find(job, question.rank, &key.into(), &options.selector, &caller);
                value.and_then(|value| hand(value, take))
            };
        }
        if self.keeps() && question.is_general(&options) {
            for job in jobs {
                // With the values of a rank of another job come all of the job, so that it can be read here from now on.
                let is_whole = question.rank.is_process() && !self.local.is_own(job.nspace.as_bytes());
                // What there is no room for will be asked for again.
                let _ = self.local.known.add_job(job, is_whole);
            }
        }
        found.unwrap_or(Err(Status::ERR_NOT_FOUND))
    }

    /// Keeps what the server said of a rank. What there is no room for will be asked for again.
    fn keep_rank(&self, question: &Question, proc: &Proc, kvals: Vec<Kval>) {
        let fences = self.local.known.fences();
        // Another thread may have left a fence since this one asked: what is newer then is not kept from its Gets.
        if !self.keeps() || *fences != question.fences {
            return;
        }
        // The segments are asked before what is kept, and still hold the older values.
        let refreshes = question.refresh && self.local.is_own(proc.nspace.as_bytes()) && self.local.view.is_some();
        for Kval { key, value } in qualified::gather(kvals).unwrap_or_default() {
            let value = Arc::new(value);
            if refreshes {
                let overlay = &self.local.overlay;
                let _ = overlay.set(&proc.nspace, proc.rank, key.clone(), Arc::clone(&value), Origin::Refreshed);
            }
            let _ = self.local.known.add(&proc.nspace, proc.rank, key, value);
        }
    }

    /// Whether replies are worth keeping: not where the link leads into this very process.
    pub(crate) fn keeps(&self) -> bool {
        self.standing != Standing::Linked
    }

    /// All values of a rank as an array of infos: own ones first, then those that the server told, then what lies here.
    fn all(&self, question: &Question, objects: Vec<(Proc, Vec<Kval>)>) -> Result<Value> {
        let mut all = Everything::default();
        let of = Proc::new(question.nspace.clone(), question.rank);
        for (key, value) in self.local.overlay.rank(of.nspace.as_bytes(), of.rank) {
            all.add(key, value.copy()?)?;
        }
        let told: Vec<Kval> =
            objects.into_iter().filter(|(proc, _)| *proc == of).flat_map(|(_, kvals)| kvals).collect();
        // Of a job the server tells everything.
        let is_whole = !of.rank.is_process() && !told.is_empty();
        told.into_iter().try_for_each(|Kval { key, value }| all.add(key, value))?;
        for (key, value) in self.local.known.rank(of.nspace.as_bytes(), of.rank)? {
            all.add(key, value)?;
        }
        if !is_whole {
            self.local.add_everything(&of, &mut all)?;
        }
        if of == self.me {
            all.leave_out(&self.local.overlay.deleted());
        }
        all.into_value()
    }
}
