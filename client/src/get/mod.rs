//! `PMIx_Get`: one path, whose fast front answers what lies in shared memory.
//!
//! Most Gets are of the own job, say no more than how they want the value, and end on the calling thread without a lock. What the front
//! cannot answer goes on from there: the hash of the key, the directives that have been read, and a miss in the segments are kept.
//!
//! * `directives`: what the infos of a Get say;
//! * `self_attribute`: what a process knows of itself without being told;
//! * `remote_get`: the request to the server, and its reply;
//! * `get_all`: a Get without a key.

pub(crate) mod directives;
mod get_all;
mod remote_get;
mod self_attribute;

use std::cell::Cell;
use std::sync::Arc;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::compression;
use pmix_dstore::model::attributes::{Attribute, Typed};
use pmix_dstore::model::{DataType, Info, KEY_LEN_MAX, KeyRef, NSPACE_LEN_MAX, Proc, Rank, Result, Status, Value};
use pmix_dstore::segment::FastValue;

use crate::Call;
use crate::call::Inside;
use crate::client::{Client, ClientKind, Inner};
use crate::link::after_call;
use crate::operation::Done;
use crate::process::PinToken;

pub use directives::{Directive, GetFlags, GetOptions, timeout_of};
use remote_get::RemoteGet;
use self_attribute::may_be_self_attribute;

/// A `PMIx_Get`: whose value, which one, and how.
///
/// ```
/// use pmix_client::{Client, Environment, GetRequest};
/// use pmix_dstore::model::{Scope, Status, Value, attributes};
///
/// let client = Client::connect(&Environment::from_lookup(|_| None)?, &[])?;
/// let me = client.me().clone();
/// client.put(Scope::Global, "app.host".into(), Value::string("n17"))?;
/// let optional = [attributes::OPTIONAL.info(true)];
/// // The value is borrowed from where it lies; the closure takes of it what it wants.
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
    /// The value of a key of a process, or, at its wildcard rank, of a job.
    pub fn new(proc: &'a Proc, key: &'a str, directives: &'a [Info]) -> GetRequest<'a> {
        let nspace = NspaceRef::Name(proc.nspace.as_bytes());
        GetRequest { nspace, rank: proc.rank, key: Some(key.as_bytes()), directives }
    }
}

/// The namespace that a Get names.
#[derive(Clone, Copy)]
pub enum NspaceRef<'a> {
    /// The caller's own.
    Own,
    /// That of this name; the empty one is the caller's own.
    Name(&'a [u8]),
    /// The same in a buffer as C code has it: the name ends with a NUL.
    Buffer(&'a [u8; NSPACE_LEN_MAX + 1]),
}

impl<'a> NspaceRef<'a> {
    /// The name; `None` for the caller's own.
    ///
    /// # Errors
    /// `BAD_PARAM` for a buffer without a NUL.
    pub fn name(self) -> Result<Option<&'a [u8]>> {
        let name = match self {
            NspaceRef::Own => None,
            NspaceRef::Name(name) => Some(name),
            NspaceRef::Buffer(buffer) => {
                let len = buffer.iter().position(|byte| *byte == 0).ok_or(Status::ERR_BAD_PARAM)?;
                Some(&buffer[..len])
            }
        };
        Ok(name.filter(|name| !name.is_empty()))
    }
}

/// What the caller of a Get does with its value.
pub trait Receiver: Copy {
    /// Says in which form the caller wants the value. Comes before all else, but for a copy that [`Receiver::take_plain`] makes; it may
    /// come again.
    ///
    /// # Errors
    /// The Get ends with them.
    fn prepare(self, form: GetFlags) -> Result<()>;

    /// Takes a number, a string or bytes; `None` where it is none of these, or not to be taken like this. Where the caller does not want
    /// a copy the value lies in a segment, and stays there for as long as `client`.
    fn take_plain(self, client: &Client, value: FastValue<'_>, form: GetFlags) -> Option<Status>;

    /// Takes any value. Must not call the client again.
    ///
    /// # Errors
    /// The Get ends with them.
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

    /// What the closure gave in a Get that ended with `status`.
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

/// How far the front of a Get has come.
enum Front {
    /// To the end.
    Done(Status),
    /// Own values and segments do not have the value.
    Absent,
    /// To nothing.
    Unknown,
}

/// Takes the value that a look-up finds.
pub(crate) type Deliver<'a> = &'a mut dyn FnMut(ValueRef<'_>) -> Result<()>;

/// A Get beyond its fast front, with what the front has worked out.
pub(crate) struct Lookup<'a> {
    /// The name of the namespace.
    pub nspace: &'a [u8],
    /// Whether that is the caller's own.
    pub is_own: bool,
    /// The rank.
    pub rank: Rank,
    /// The key; `None` for all values of the rank.
    pub key: Option<KeyRef<'a>>,
    /// What the directives say.
    pub options: &'a GetOptions<'a>,
    /// The directives.
    pub infos: &'a dyn Fn() -> Vec<Info>,
    /// Own values and segments have been looked through, and do not hold it.
    pub is_absent_here: bool,
}

impl Client {
    /// Gets a value and hands it to `take`, borrowed from where it lies.
    ///
    /// `take` must not call the client again.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND`, `ERR_TIMEOUT`, `ERR_BAD_PARAM` for a name that is too long, what the server answers.
    #[inline]
    pub fn get<R>(&self, request: &GetRequest<'_>, take: impl FnOnce(ValueRef<'_>) -> R) -> Result<R> {
        let receiver = Closure::new(take);
        let status = self.get_into(None, request, &receiver);
        receiver.given(status)
    }

    /// The same on a thread that has a token: own values are read without a lock.
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

    /// The same without the fast front: what tests compare it with.
    ///
    /// # Errors
    /// As [`Client::get`].
    #[doc(hidden)]
    pub fn get_by_slow_path<R>(&self, request: &GetRequest<'_>, take: impl FnOnce(ValueRef<'_>) -> R) -> Result<R> {
        let receiver = Closure::new(take);
        let status = self.get_slowly(request, &receiver);
        receiver.given(status)
    }

    /// Gets a value for a receiver. With a token own values are read without a lock.
    ///
    /// The parts of the request are put together again where it is left to the slow path: until then they are in registers. Nothing in
    /// the front panics, so that the compiler keeps nothing for that case.
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
        let (flags, front) = if !rest.is_empty() {
            (flags, self.select(rank, &key, flags, rest, receiver))
        } else if !flags.is_copy() {
            (flags, self.place(rank, &key, flags, receiver))
        } else {
            let mut found = self.inner.local.fast_value(rank, &key);
            if found.needs_slow_path()
                && let Some(pin) = pin
                // SAFETY: a receiver does not call the client, hence puts and stores nothing.
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
        match front {
            Front::Done(status) => status,
            Front::Absent => self.resume(&again(), &key, (flags, rest), true, receiver),
            Front::Unknown => self.resume(&again(), &key, (flags, rest), false, receiver),
        }
    }

    /// The front of a Get whose directives are flags, and that does not want a copy.
    #[inline(never)]
    fn place(&self, rank: Rank, key: &KeyRef<'_>, flags: GetFlags, receiver: impl Receiver) -> Front {
        if let Err(status) = receiver.prepare(flags) {
            return Front::Done(status);
        }
        let found = self.inner.local.fast_value(rank, key);
        if found.is_absent() {
            let is_settled = self.is_settled(rank, key, flags);
            return if is_settled { Front::Done(Status::ERR_NOT_FOUND) } else { Front::Absent };
        }
        receiver.take_plain(self, found, flags).map_or(Front::Unknown, Front::Done)
    }

    /// The front of a Get that has other directives behind its flags, which may name a node or an application.
    #[inline(never)]
    fn select<D: Directive>(
        &self,
        rank: Rank,
        key: &KeyRef<'_>,
        flags: GetFlags,
        rest: &[D],
        receiver: impl Receiver,
    ) -> Front {
        let Ok((flags, of)) = directives::instance(flags, rest) else { return Front::Unknown };
        let found = self.inner.local.fast_value_of(of, rank, key);
        if !flags.is_copy()
            && let Err(status) = receiver.prepare(flags)
        {
            return Front::Done(status);
        }
        receiver.take_plain(self, found, flags).map_or(Front::Unknown, Front::Done)
    }

    /// Whether what own values and segments do not have does not exist for this Get: it is optional, and nothing is known from
    /// elsewhere.
    #[inline(always)]
    fn is_settled(&self, rank: Rank, key: &KeyRef<'_>, flags: GetFlags) -> bool {
        flags.optional()
            && self.inner.kind == ClientKind::Launched
            && !may_be_self_attribute(rank, key.text())
            && self.inner.local.reply_cache.is_empty()
    }

    /// Goes on after the front, which has read the flags that `rest` is behind.
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

    /// A Get that the front has left at once: it is of another job, or has no key.
    #[cold]
    #[inline(never)]
    fn get_slowly<D: Directive>(&self, request: &GetRequest<'_, D>, receiver: impl Receiver) -> Status {
        match GetOptions::of(request.directives) {
            Ok(options) => self.finish(request, request.key.map(KeyRef::new), &options, false, receiver),
            Err(status) => status,
        }
    }

    /// The slow path: everywhere else, the server last.
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
    /// The thread puts and stores nothing while it has the value.
    #[inline(always)]
    unsafe fn get_own<'a>(&'a self, pin: &'a PinToken, rank: Rank, key: &KeyRef<'_>) -> Option<&'a Value> {
        let Inner { local, me, .. } = &*self.inner;
        // SAFETY: the caller's promise.
        unsafe { local.overlay.get_pinned(pin, me.nspace.as_bytes(), rank, key) }
    }

    /// Gets a value, copied.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_value(&self, proc: &Proc, key: &str, infos: &[Info]) -> Result<Value> {
        self.get(&GetRequest::new(proc, key, infos), |value| value.to_value())?
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
    pub fn get_nb<D: Directive>(&self, request: &GetRequest<'_, D>, done: Done<Value>) -> Result<()> {
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
        // A value that the process loads itself does not wait for the server, whose answer comes on another thread.
        let found = self.inner.get_here(&lookup, take).or_else(|| self.inner.load_and_get(&lookup, take));
        if let Some(found) = found {
            found?;
            return self.done_later(value, done);
        }
        let remote = RemoteGet::new(&self.inner, &lookup)?;
        if !remote.asks {
            self.inner.answer_alone(&remote, take)?;
            return self.done_later(value, done);
        }
        remote.start(&self.inner, done)
    }

    /// Hands over a value that is here after the call.
    fn done_later(&self, value: Option<Value>, done: Done<Value>) -> Result<()> {
        let value = value.ok_or(Status::ERR_NOT_FOUND)?;
        self.inner.link.defer(Box::new(move || done(Ok(value))));
        Ok(())
    }
}

impl Inner {
    /// A request beyond the fast front.
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

    /// Finds a value here, or asks for it.
    fn get(self: &Arc<Inner>, lookup: &Lookup<'_>, take: Deliver<'_>) -> Result<()> {
        if let Some(result) = self.get_here(lookup, take) {
            return result;
        }
        // A miss that ends here is common, too: MPI libraries ask for many keys that a host may not have.
        let ends_here = lookup.key.is_some_and(|key| key.text().len() <= KEY_LEN_MAX) && !self.may_ask(lookup);
        let found = if ends_here { Err(Status::ERR_NOT_FOUND) } else { self.get_remote(lookup, take) };
        match found {
            Err(Status::ERR_NOT_FOUND) => self.load_and_get(lookup, take).unwrap_or(found),
            found => found,
        }
    }

    /// The answer without the server, if there is one.
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

    /// The answer to a Get that is not for the one value that is here: it says which of several under a key it is for, or wants a
    /// fresh one.
    #[cold]
    fn get_uncached(&self, lookup: &Lookup<'_>, key: &KeyRef<'_>, take: Deliver<'_>) -> Option<Result<()>> {
        let GetOptions { flags, ref selector, .. } = *lookup.options;
        if flags.refresh() {
            // Nobody has a newer value of what this process put or stored of itself, and a server need not have it at all.
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

    /// Whether the server may be asked for what is not here.
    fn may_ask(&self, lookup: &Lookup<'_>) -> bool {
        let flags = lookup.options.flags;
        match self.kind {
            ClientKind::Singleton => false,
            // The link leads into this very process: that is what an optional Get means here.
            ClientKind::InProcessServer => true,
            // What was published is here, unless shared memory failed us.
            ClientKind::Launched if flags.optional() => {
                self.local.view.as_ref().is_some_and(|view| !view.is_complete())
            }
            ClientKind::Launched => {
                // What the host registered of the own job is here. The host may still learn more, so that the server
                // is asked what it has by now, unless the caller does not want that either.
                let is_here = |key: KeyRef<'_>| key.is_reserved() && self.local.is_whole(key.text());
                let is_settled = flags.immediate() && !flags.bypass_cache() && lookup.is_own;
                !(is_settled && lookup.key.is_some_and(is_here))
            }
        }
    }
}

/// Copies of directives, for the server; none where one cannot be copied.
fn infos_of(directives: &[impl Directive]) -> Vec<Info> {
    directives.iter().map(Directive::to_info).collect::<Result<_>>().unwrap_or_default()
}

/// Hands a value over as users see it: a compressed string as the string that it stands for.
pub(crate) fn deliver(value: ValueRef<'_>, take: Deliver<'_>) -> Result<()> {
    match value {
        ValueRef::Bytes { ty: DataType::COMPRESSED_STRING, bytes } => {
            take((&Value::String(Some(compression::expand_string(bytes)?))).into())
        }
        value => take(value),
    }
}

#[cfg(test)]
mod front_tests;
