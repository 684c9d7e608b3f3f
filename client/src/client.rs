//! One process's view of its job.

use std::ffi::CStr;
use std::sync::Arc;

use pmix_dstore::model::{Info, Key, Proc, Result, Scope, Status, Value, ValueRef};

use crate::{Done, Environment, Event, EventHandler, GetRequest, HandlerId, Link, Operation};

/// One process's view of its job.
///
/// Any method may be called from any thread, also inside callbacks.
pub struct Client {
    me: Proc,
}

impl Client {
    /// Connects a process that a server launched, as its environment says.
    ///
    /// `infos` are those of `PMIx_Init`.
    ///
    /// # Errors
    /// `ERR_UNREACH` where no server answers or none is named; `ERR_DATA_VALUE_NOT_FOUND` without a rank;
    /// `ERR_INVALID_CRED`, `ERR_HANDSHAKE_FAILED` or what else the server refuses the connection with.
    pub fn connect(_env: &Environment, _infos: &[Info]) -> Result<Client> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// The client of a process that is its own server (or reaches it some other way).
    pub fn with_link(me: Proc, _hostname: Vec<u8>, _link: Arc<dyn Link>) -> Client {
        Client { me }
    }

    /// This process.
    pub fn me(&self) -> &Proc {
        &self.me
    }

    /// Gets a value and hands it to `take`, borrowed from where it lies.
    ///
    /// `take` must not call the client again.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND`, `ERR_TIMEOUT`, `ERR_BAD_PARAM` for a name that is too long, what the server answers.
    pub fn get<R>(&self, _request: &GetRequest<'_>, _take: impl FnOnce(ValueRef<'_>) -> R) -> Result<R> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Gets a value without blocking.
    ///
    /// # Errors
    /// Where the request cannot be started; then `done` is not called.
    pub fn get_nb(&self, _request: &GetRequest<'_>, _done: Done<Value>) -> Result<()> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Puts a value for other processes to get after the next [`Client::commit`]. Reserved keys are dropped.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an empty key.
    pub fn put(&self, _scope: Scope, _key: Key, _value: Value) -> Result<()> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Stores a value of some process for this process alone.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an empty key.
    pub fn store_internal(&self, _proc: &Proc, _key: Key, _value: Value) -> Result<()> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Sends what was put to the server.
    ///
    /// # Errors
    /// What the server answers; `ERR_LOST_CONNECTION`.
    pub fn commit(&self) -> Result<()> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// A barrier of `procs`; none given means the whole of the caller's namespace.
    pub fn fence(&self, _procs: &[Proc], _infos: Vec<Info>) -> Operation<()> {
        Operation::refused()
    }

    /// Asks the host to abort `procs` (none: the caller's whole job) and waits for its answer.
    ///
    /// # Errors
    /// What the host answers.
    pub fn abort(&self, _status: Status, _message: Option<&CStr>, _procs: &[Proc]) -> Result<()> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Registers a handler for `codes`, for all events where there are none.
    ///
    /// `infos` are the directives of `PMIx_Register_event_handler`.
    pub fn register_event_handler(
        &self,
        _codes: Vec<Status>,
        _infos: Vec<Info>,
        _handler: EventHandler,
    ) -> Operation<HandlerId> {
        Operation::refused()
    }

    /// Takes a handler away.
    pub fn deregister_event_handler(&self, _id: HandlerId) -> Operation<()> {
        Operation::refused()
    }

    /// Tells others, and the own handlers, of an event. `range` is a `pmix_data_range_t`.
    pub fn notify_event(&self, _status: Status, _source: Proc, _range: u8, _infos: Vec<Info>) -> Operation<()> {
        Operation::refused()
    }

    /// Runs the handlers for an event that came from the server.
    pub fn deliver(&self, _event: Event) {}

    /// Tells the server that this process is done, and ends the connection.
    ///
    /// # Errors
    /// What the server answers. The connection is ended in any case.
    pub fn finalize(&self, _infos: &[Info]) -> Result<()> {
        Err(Status::ERR_NOT_SUPPORTED)
    }
}
