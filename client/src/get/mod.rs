//! `PMIx_Get`: a fast path for values in shared memory, and the slow path that continues it.
//!
//! Most Gets ask for the own job, have no directives except those about the form of the value, and end on the calling
//! thread without a lock. If the fast path cannot answer, the slow path continues from there: it reuses the key's hash,
//! the parsed directives and a miss in the segments.
//!
//! * `crate::get_options`: the parser of a Get's infos;
//! * `crate::lookup`: a Get beyond its front, with what the front has worked out;
//! * `self_attribute`: values that a process knows about itself;
//! * `remote_get`: the request to the server, and its reply;
//! * `first_commit`: Gets that come before a neighbour's first commit, under a stock server;
//! * `get_all`: a Get without a key.

mod first_commit;
mod get_all;
mod remote_get;
mod self_attribute;

use std::cell::Cell;
use std::sync::Arc;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::model::attributes::{Attribute, Typed};
use pmix_dstore::model::{Info, KEY_LEN_MAX, KeyRef, Proc, Rank, Result, Status, Value, keys};
use pmix_dstore::segment::FastValue;

use crate::Call;
use crate::call::Inside;
use crate::client::connections::member;
use crate::client::{Client, ClientKind, Inner};
use crate::get_options;
use crate::link::after_call;
use crate::lookup::{Deliver, Lookup, deliver};
use crate::operation::{Done, deadline};
use crate::pin::{PinToken, Reader, Reading};
use crate::source;

pub use crate::get_options::{Directive, GetFlags, GetOptions, timeout_of};
pub use crate::lookup::NspaceRef;
use remote_get::RemoteGet;
use self_attribute::may_be_self_attribute;

/// The arguments of a `PMIx_Get`.
///
/// ```
/// use pmix_client::{Client, Environment, GetRequest};
/// use pmix_dstore::model::{Scope, Status, Value, attributes};
///
/// let client = Client::connect(&Environment::from_lookup(|_| None)?, &[])?;
/// let me = client.me().clone();
/// client.put(Scope::Global, "app.host".into(), Value::string("n17"))?;
/// let optional = [attributes::OPTIONAL.info(true)];
/// // The closure borrows the value and returns what it needs of it.
/// let len = client.get(&GetRequest::new(&me, "app.host", &optional), |value| value.to_value().map(|value| value.as_text().map(<[u8]>::len)))??;
/// assert_eq!(len, Some(3));
/// client.finalize(&[])?;
/// # Ok::<(), Status>(())
/// ```
pub struct GetRequest<'a, D = Info> {
    /// The namespace.
    pub nspace: NspaceRef<'a>,
    /// The rank; `UNDEF` asks for a key that is unique in the namespace.
    pub rank: Rank,
    /// The key, cut at its NUL; `None` asks for all values of the rank as an array of infos.
    pub key: Option<&'a [u8]>,
    /// Where to look and how.
    pub directives: &'a [D],
}

impl<'a> GetRequest<'a> {
    /// A request for a value of a process, or, at the wildcard rank, of a job.
    pub fn new(proc: &'a Proc, key: &'a str, directives: &'a [Info]) -> GetRequest<'a> {
        let nspace = NspaceRef::Name(proc.nspace.as_bytes());
        GetRequest { nspace, rank: proc.rank, key: Some(key.as_bytes()), directives }
    }
}

/// Consumes the value of a Get, in the form that the caller wants.
pub trait Receiver: Copy {
    /// Announces the form in which the caller wants the value. Called before the other methods, except before a
    /// [`Receiver::take_plain`] that makes a copy. May be called more than once.
    ///
    /// # Errors
    /// An error ends the Get with its status.
    fn prepare(self, form: GetFlags) -> Result<()>;

    /// Takes a number, a string or bytes; `None` if the value is of another kind, or this receiver does not take it in
    /// this way. If the caller wants pointers, the value lies in a segment, which stays mapped while `client` lives.
    fn take_plain(self, client: &Client, value: FastValue<'_>, form: GetFlags) -> Option<Status>;

    /// Takes any value. Must not call the client again.
    ///
    /// # Errors
    /// An error ends the Get with its status.
    fn take(self, client: &Client, value: ValueRef<'_>, form: GetFlags) -> Result<()>;
}

/// A receiver that runs a closure once.
struct Closure<F, R> {
    take: Cell<Option<F>>,
    given: Cell<Option<R>>,
}

impl<F: FnOnce(ValueRef<'_>) -> R, R> Closure<F, R> {
    fn new(take: F) -> Closure<F, R> {
        Closure { take: Cell::new(Some(take)), given: Cell::new(None) }
    }

    #[inline(always)]
    fn run(&self, value: ValueRef<'_>) {
        self.given.set(self.take.take().map(|take| take(value)));
    }

    /// The closure's result, for a Get that ended with `status`.
    #[inline(always)]
    fn given(self, status: Status) -> Result<R> {
        status.ok()?;
        self.given.into_inner().ok_or(Status::ERR_NOT_FOUND)
    }
}

impl<F: FnOnce(ValueRef<'_>) -> R, R> Receiver for &Closure<F, R> {
    #[inline(always)]
    fn prepare(self, _form: GetFlags) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn take_plain(self, _client: &Client, value: FastValue<'_>, _form: GetFlags) -> Option<Status> {
        self.run(value.value()?);
        Some(Status::SUCCESS)
    }

    fn take(self, _client: &Client, value: ValueRef<'_>, _form: GetFlags) -> Result<()> {
        self.run(value);
        Ok(())
    }
}

/// The result of the fast path of a Get.
enum Front {
    /// The Get is complete.
    Done(Status),
    /// The value is neither in the overlay nor in the segments.
    Absent,
    /// The slow path must look everywhere.
    Unknown,
}

impl Client {
    /// Gets a value and passes it to `take`, borrowed from its place in memory.
    ///
    /// `take` must not call the client again.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND`; `ERR_TIMEOUT`; `ERR_BAD_PARAM` for a name that is too long; errors of the server.
    #[inline]
    pub fn get<R>(&self, request: &GetRequest<'_>, take: impl FnOnce(ValueRef<'_>) -> R) -> Result<R> {
        let receiver = Closure::new(take);
        let status = self.get_into(None, request, &receiver);
        receiver.given(status)
    }

    /// As [`Client::get`], on a thread with a pin: own values are read without a lock.
    ///
    /// # Errors
    /// As [`Client::get`].
    #[inline]
    pub fn get_pinned<R>(
        &self,
        pin: &PinToken,
        request: &GetRequest<'_>,
        take: impl FnOnce(ValueRef<'_>) -> R,
    ) -> Result<R> {
        let receiver = Closure::new(take);
        let status = self.get_into(Some(pin), request, &receiver);
        receiver.given(status)
    }

    /// As [`Client::get`] without the fast path; for tests that compare the two.
    ///
    /// # Errors
    /// As [`Client::get`].
    #[doc(hidden)]
    pub fn get_by_slow_path<R>(&self, request: &GetRequest<'_>, take: impl FnOnce(ValueRef<'_>) -> R) -> Result<R> {
        let receiver = Closure::new(take);
        let status = self.get_slowly(request, &receiver);
        receiver.given(status)
    }

    /// Gets a value for a receiver. With a pin, own values are read without a lock.
    ///
    /// The fast path keeps the parts of the request in registers; `again` rebuilds the request for the slow path.
    /// Nothing on the fast path panics, so that the compiler generates no unwinding code.
    #[inline(always)]
    pub fn get_into<D: Directive>(
        &self,
        pin: Option<&PinToken>,
        request: &GetRequest<'_, D>,
        receiver: impl Receiver,
    ) -> Status {
        let GetRequest { nspace, rank, key, directives } = *request;
        let again = || GetRequest { nspace, rank, key, directives };
        if !self.inner.local.is_own_name(nspace) {
            return self.get_slowly(&again(), receiver);
        }
        let Some(text) = key else { return self.get_slowly(&again(), receiver) };
        let key = KeyRef::new(text);
        let (flags, rest) = GetFlags::leading(directives);
        let reader = Reader::new(pin);
        let reading = reader.reading();
        let (flags, front) = if !rest.is_empty() {
            (flags, self.select(reading, rank, &key, flags, rest, receiver))
        } else if flags.pointer_values() {
            (flags, self.place(reading, rank, &key, flags, receiver))
        } else if flags.static_values() {
            (flags, self.fill(reading, pin, rank, &key, flags, receiver))
        } else {
            let mut found = self.inner.local.fast_value(reading, rank, &key);
            if found.needs_slow_path()
                && let Some(pin) = pin
                // SAFETY: a receiver does not call the client, so this thread does not change the overlay meanwhile.
                && let Some(value) = unsafe { self.get_own(pin, rank, &key) }
            {
                found = FastValue::of(value);
            }
            if found.is_absent() {
                if self.is_settled(rank, &key, flags) {
                    return receiver.prepare(flags).err().unwrap_or(Status::ERR_NOT_FOUND);
                }
                (flags, Front::Absent)
            } else {
                if let Some(status) = receiver.take_plain(self, found, flags) {
                    return status;
                }
                (flags, Front::Unknown)
            }
        };
        // The slow path may wait for the server, and without a pin reads under a count of its own. A pin is kept: replaced segments then stay
        // mapped until the Get ends.
        drop(reader);
        match front {
            Front::Done(status) => status,
            Front::Absent => self.resume(&again(), &key, (flags, rest), true, receiver),
            Front::Unknown => self.resume(&again(), &key, (flags, rest), false, receiver),
        }
    }

    /// The fast path of a Get whose directives are all flags, and whose caller wants pointers to the library's values.
    #[inline(never)]
    fn place(
        &self,
        reading: Reading<'_>,
        rank: Rank,
        key: &KeyRef<'_>,
        flags: GetFlags,
        receiver: impl Receiver,
    ) -> Front {
        let flags = flags.with_pointers();
        if let Err(status) = receiver.prepare(flags) {
            return Front::Done(status);
        }
        // Values that ranks put themselves may be replaced: nothing may point to them.
        let found = self.inner.local.lent_fast_value(reading, rank, key);
        if found.is_absent() {
            return self.absent(rank, key, flags);
        }
        receiver.take_plain(self, found, flags).map_or(Front::Unknown, Front::Done)
    }

    /// The same for a caller that wants a copy in storage of its own.
    #[inline(never)]
    fn fill(
        &self,
        reading: Reading<'_>,
        pin: Option<&PinToken>,
        rank: Rank,
        key: &KeyRef<'_>,
        flags: GetFlags,
        receiver: impl Receiver,
    ) -> Front {
        let flags = flags.with_storage();
        if let Err(status) = receiver.prepare(flags) {
            return Front::Done(status);
        }
        let mut found = self.inner.local.fast_value(reading, rank, key);
        if found.is_absent() {
            return self.absent(rank, key, flags);
        }
        if found.needs_slow_path()
            && let Some(pin) = pin
            // SAFETY: a receiver does not call the client, so this thread does not change the overlay meanwhile.
            && let Some(value) = unsafe { self.get_own(pin, rank, key) }
        {
            found = FastValue::of(value);
        }
        receiver.take_plain(self, found, flags).map_or(Front::Unknown, Front::Done)
    }

    /// The end of a fast path that has found nothing.
    #[inline(always)]
    fn absent(&self, rank: Rank, key: &KeyRef<'_>, flags: GetFlags) -> Front {
        if self.is_settled(rank, key, flags) { Front::Done(Status::ERR_NOT_FOUND) } else { Front::Absent }
    }

    /// The fast path of a Get with other directives after its flags, which may name a node or an application.
    #[inline(never)]
    fn select<D: Directive>(
        &self,
        reading: Reading<'_>,
        rank: Rank,
        key: &KeyRef<'_>,
        flags: GetFlags,
        rest: &[D],
        receiver: impl Receiver,
    ) -> Front {
        let Ok((flags, of)) = get_options::instance(flags, rest) else { return Front::Unknown };
        let found = self.inner.local.fast_value_of(reading, of, rank, key);
        if !flags.is_copy() {
            if let Err(status) = receiver.prepare(flags) {
                return Front::Done(status);
            }
            if flags.pointer_values() && !self.inner.local.lends(reading, found) {
                return Front::Unknown;
            }
        }
        receiver.take_plain(self, found, flags).map_or(Front::Unknown, Front::Done)
    }

    /// Whether a miss in own values and segments is final: the Get is optional, and no other source can have the value.
    #[inline(always)]
    fn is_settled(&self, rank: Rank, key: &KeyRef<'_>, flags: GetFlags) -> bool {
        flags.optional()
            && self.inner.initial_kind == ClientKind::Launched
            && !may_be_self_attribute(rank, key.text())
            && self.inner.local.reply_cache.is_empty()
    }

    /// As [`Client::get_into`] without the fast path. [`source::take`](crate::source::take) tells afterwards where the value has been.
    #[cold]
    pub fn get_with_source<D: Directive>(&self, request: &GetRequest<'_, D>, receiver: impl Receiver) -> Status {
        source::take();
        self.get_slowly(request, receiver)
    }

    /// Continues on the slow path. The fast path has read the flags; `rest` are the directives after them.
    #[cold]
    #[inline(never)]
    fn resume<'a, D: Directive>(
        &self,
        request: &GetRequest<'a, D>,
        key: &KeyRef<'_>,
        (flags, rest): (GetFlags, &'a [D]),
        is_absent_here: bool,
        receiver: impl Receiver,
    ) -> Status {
        match GetOptions::with_flags(flags).resume(rest) {
            Ok(options) => self.finish(request, Some(*key), &options, is_absent_here, receiver),
            Err(status) => status,
        }
    }

    /// A Get for which there is no fast path: of another job, or without a key.
    #[cold]
    #[inline(never)]
    fn get_slowly<D: Directive>(&self, request: &GetRequest<'_, D>, receiver: impl Receiver) -> Status {
        if self.inner.connections.has_any() {
            match self.inner.of_connection(request) {
                Ok(None) => {}
                Ok(Some(Connected::Member(proc))) => {
                    let nspace = NspaceRef::Name(proc.nspace.as_bytes());
                    return self.get_slowly(&GetRequest { nspace, rank: proc.rank, ..*request }, receiver);
                }
                Ok(Some(Connected::Size(size))) => {
                    let taken = GetOptions::of(request.directives).and_then(|options| {
                        receiver.prepare(options.flags)?;
                        receiver.take(self, (&size).into(), options.flags)
                    });
                    return taken.err().unwrap_or(Status::SUCCESS);
                }
                Err(status) => return status,
            }
        }
        match GetOptions::of(request.directives) {
            Ok(options) => self.finish(request, request.key.map(KeyRef::new), &options, false, receiver),
            Err(status) => status,
        }
    }

    /// The slow path: looks in all other places, and asks the server last.
    #[inline(never)]
    fn finish<D: Directive>(
        &self,
        request: &GetRequest<'_, D>,
        key: Option<KeyRef<'_>>,
        options: &GetOptions<'_>,
        is_absent_here: bool,
        receiver: impl Receiver,
    ) -> Status {
        let _inside = Inside::enter();
        let infos = || infos_of(request.directives);
        let found = self.inner.lookup(request, key, options, &infos).and_then(|lookup| {
            receiver.prepare(options.flags)?;
            let take = &mut |value: ValueRef<'_>| receiver.take(self, value, options.flags);
            self.inner.get(&Lookup { is_absent_here, ..lookup }, take)
        });
        found.err().unwrap_or(Status::SUCCESS)
    }

    /// A value that this process put or stored itself.
    ///
    /// # Safety
    /// The thread does not change the overlay while it uses the value.
    #[inline(always)]
    unsafe fn get_own<'a>(&'a self, pin: &'a PinToken, rank: Rank, key: &KeyRef<'_>) -> Option<&'a Value> {
        let Inner { local, me, .. } = &*self.inner;
        // SAFETY: by the caller's promise.
        unsafe { local.overlay.get_pinned(pin, me.nspace.as_bytes(), rank, key) }
    }

    /// Gets a copy of a value.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_value(&self, proc: &Proc, key: &str, infos: &[Info]) -> Result<Value> {
        self.get(&GetRequest::new(proc, key, infos), |value| value.to_value())?
    }

    /// Gets the value of an attribute; those of a job are at its [`Rank::WILDCARD`](pmix_dstore::model::Rank::WILDCARD).
    ///
    /// # Errors
    /// As [`Client::get`]; `ERR_TYPE_MISMATCH` for a value that does not have the attribute's type.
    pub fn get_attribute<T: Typed>(&self, proc: &Proc, attribute: Attribute<T>) -> Result<T> {
        let value = self.get_value(proc, attribute.key(), &[])?;
        attribute.read(&value).ok_or(Status::ERR_TYPE_MISMATCH)
    }

    /// Gets a value without blocking.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if a miss is final without the server; errors that prevent the request from being sent. In both
    /// cases `done` is not called.
    pub fn get_nb<D: Directive>(&self, request: &GetRequest<'_, D>, done: Done<Value>) -> Result<()> {
        let of_connection = if self.inner.connections.has_any() { self.inner.of_connection(request)? } else { None };
        match of_connection {
            None => {}
            Some(Connected::Member(proc)) => {
                let nspace = NspaceRef::Name(proc.nspace.as_bytes());
                return self.get_nb(&GetRequest { nspace, rank: proc.rank, ..*request }, done);
            }
            Some(Connected::Size(size)) => {
                let _call = Call::begin();
                self.inner.link.ready()?;
                return self.done_later(Some(size), after_call(&self.inner.link, done));
            }
        }
        let _call = Call::begin();
        self.inner.link.ready()?;
        let options = GetOptions::of(request.directives)?;
        let infos = || infos_of(request.directives);
        let lookup = self.inner.lookup(request, request.key.map(KeyRef::new), &options, &infos)?;
        let done = after_call(&self.inner.link, done);
        let mut value = None;
        let take = &mut |found: ValueRef<'_>| {
            value = Some(found.to_value()?);
            Ok(())
        };
        // Loads a value of this process before asking the server: the server's reply would be handled on another
        // thread.
        let found = self.inner.get_here(&lookup, take).or_else(|| self.inner.load_and_get(&lookup, take));
        if let Some(found) = found {
            found?;
            return self.done_later(value, done);
        }
        let remote = RemoteGet::new(&self.inner, &lookup)?;
        if !remote.asks {
            self.inner.answer_without_server(&remote, take)?;
            return self.done_later(value, done);
        }
        remote.start(&self.inner, done)
    }

    /// Passes a local value to the callback, after the call has returned.
    fn done_later(&self, value: Option<Value>, done: Done<Value>) -> Result<()> {
        let value = value.ok_or(Status::ERR_NOT_FOUND)?;
        self.inner.link.defer(Box::new(move || done(Ok(value))));
        Ok(())
    }
}

/// What a Get finds in the namespace of a connect.
enum Connected {
    /// A value of this process.
    Member(Proc),
    /// The number of members.
    Size(Value),
}

impl Inner {
    /// What a Get of a connect's namespace asks for; `None` if it asks for another one. Of the connect itself there is only its size.
    ///
    /// # Errors
    /// `NOT_FOUND` for a rank or a key that it does not have; `BAD_PARAM` for a buffer without a NUL.
    #[cold]
    fn of_connection<D: Directive>(&self, request: &GetRequest<'_, D>) -> Result<Option<Connected>> {
        let name = request.nspace.name()?.unwrap_or(self.me.nspace.as_bytes());
        let Some(members) = self.connections.members(name) else { return Ok(None) };
        if request.rank.is_process() {
            return member(&members, request.rank)
                .map_err(|_| Status::ERR_NOT_FOUND)
                .map(|proc| Some(Connected::Member(proc)));
        }
        match request.key.map(KeyRef::new) {
            Some(key) if key.is(keys::JOB_SIZE) => Ok(Some(Connected::Size(Value::Uint32(members.len() as u32)))),
            _ => Err(Status::ERR_NOT_FOUND),
        }
    }

    /// The look-up for a request on the slow path.
    fn lookup<'a, D: Directive>(
        &'a self,
        request: &GetRequest<'a, D>,
        key: Option<KeyRef<'a>>,
        options: &'a GetOptions<'a>,
        infos: &'a dyn Fn() -> Vec<Info>,
    ) -> Result<Lookup<'a>> {
        let nspace = request.nspace.name()?.unwrap_or(self.me.nspace.as_bytes());
        let is_own = self.local.is_own(nspace);
        Ok(Lookup { nspace, is_own, rank: request.rank, key, options, infos, is_absent_here: false })
    }

    /// Finds a value locally, or asks the server.
    fn get(self: &Arc<Inner>, lookup: &Lookup<'_>, take: Deliver<'_>) -> Result<()> {
        if let Some(result) = self.get_here(lookup, take) {
            return result;
        }
        if self.maps_for(lookup)
            && self.map_other_job(lookup.nspace, deadline(lookup.options.timeout))?
            && let Some(result) = self.get_here(lookup, take)
        {
            return result;
        }
        // A miss without the server is common and stays cheap: MPI libraries ask for many keys that a host may not
        // provide.
        let ends_here = lookup.key.is_some_and(|key| key.text().len() <= KEY_LEN_MAX) && !self.may_ask(lookup);
        let found = if ends_here { Err(Status::ERR_NOT_FOUND) } else { self.get_remote(lookup, take) };
        match found {
            Err(Status::ERR_NOT_FOUND) => self.load_and_get(lookup, take).unwrap_or(found),
            found => found,
        }
    }

    /// Whether the segments of a job that is not the own one may have the value, and the server may be asked for them.
    fn maps_for(&self, lookup: &Lookup<'_>) -> bool {
        let flags = lookup.options.flags;
        !lookup.is_own && lookup.key.is_some() && !flags.bypass_cache() && self.may_ask(lookup)
    }

    /// The local result, if there is one.
    fn get_here(&self, lookup: &Lookup<'_>, take: Deliver<'_>) -> Option<Result<()>> {
        let flags = lookup.options.flags;
        if flags.refused() {
            return Some(Err(Status::ERR_NOT_SUPPORTED));
        }
        let key = lookup.key?;
        let found = if flags.bypass_cache() {
            self.get_uncached(lookup, &key, take)
        } else {
            self.local.find(lookup, key, take)
        };
        found.or_else(|| self.self_attribute(lookup, &key, take))
    }

    /// A Get for which the cached value is not enough: it selects one of several values by qualifiers, or requests a
    /// fresh value.
    #[cold]
    fn get_uncached(&self, lookup: &Lookup<'_>, key: &KeyRef<'_>, take: Deliver<'_>) -> Option<Result<()>> {
        let GetOptions { flags, ref selector, .. } = *lookup.options;
        if flags.refresh() {
            // This process's own copy of its values is always the newest, and the server may not have it.
            let is_of_me = lookup.rank == self.me.rank && lookup.is_own;
            let own = || self.local.overlay.own(lookup.nspace, lookup.rank, key);
            let value = (is_of_me && !flags.qualified() && selector.is_empty()).then(own).flatten()?;
            return Some(deliver((&*value).into(), take));
        }
        match self.local.find_qualified(lookup.nspace, lookup.rank, key.text(), &(lookup.infos)()) {
            Ok(value) => Some(deliver((&value?).into(), take)),
            Err(status) => Some(Err(status)),
        }
    }

    /// Whether the server may be asked after a local miss.
    fn may_ask(&self, lookup: &Lookup<'_>) -> bool {
        let flags = lookup.options.flags;
        match self.kind() {
            ClientKind::Singleton => false,
            // The server is in this process, so that asking it fits an optional Get.
            ClientKind::InProcessServer => true,
            // All published values are mapped, unless mapping a segment has failed.
            ClientKind::Launched if flags.optional() => {
                self.local.segments.as_ref().is_some_and(|segments| !segments.read().is_complete())
            }
            ClientKind::Launched => {
                // All values that the host registered for the own job are here. The host may register more later, so
                // the server is asked for its current state, unless the Get is immediate.
                let is_here = |key: KeyRef<'_>| key.is_reserved() && self.local.is_whole(key.text());
                let is_settled = flags.immediate() && !flags.bypass_cache() && lookup.is_own;
                !(is_settled && lookup.key.is_some_and(is_here))
            }
        }
    }
}

/// Copies of the directives, for the server; empty if one of them cannot be copied.
fn infos_of(directives: &[impl Directive]) -> Vec<Info> {
    directives.iter().map(Directive::to_info).collect::<Result<_>>().unwrap_or_default()
}

#[cfg(test)]
mod front_tests;
