//! How a host answers an upcall.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Weak};

use parking_lot::Mutex;
use pmix_dstore::model::{Info, Nspace, Pdata, Status};

/// What a host answers, in the shapes that the upcalls know.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A bare status.
    Op(Status),
    /// Status and packed data: fence and direct modex.
    Data(Status, Vec<u8>),
    /// Status and published values.
    Lookup(Status, Vec<Pdata>),
    /// Status and the namespace of what was spawned.
    Spawn(Status, Option<Nspace>),
    /// Status and results.
    Infos(Status, Vec<Info>),
}

impl Answer {
    /// The status, whatever the shape.
    pub fn status(&self) -> Status {
        match self {
            Answer::Op(status)
            | Answer::Data(status, _)
            | Answer::Lookup(status, _)
            | Answer::Spawn(status, _)
            | Answer::Infos(status, _) => *status,
        }
    }
}

impl From<Status> for Answer {
    fn from(status: Status) -> Answer {
        Answer::Op(status)
    }
}

impl From<(Status, Vec<u8>)> for Answer {
    fn from((status, data): (Status, Vec<u8>)) -> Answer {
        Answer::Data(status, data)
    }
}

impl From<(Status, Vec<Pdata>)> for Answer {
    fn from((status, data): (Status, Vec<Pdata>)) -> Answer {
        Answer::Lookup(status, data)
    }
}

impl From<(Status, Option<Nspace>)> for Answer {
    fn from((status, nspace): (Status, Option<Nspace>)) -> Answer {
        Answer::Spawn(status, nspace)
    }
}

impl From<(Status, Vec<Info>)> for Answer {
    fn from((status, infos): (Status, Vec<Info>)) -> Answer {
        Answer::Infos(status, infos)
    }
}

/// Who waits for answers: a server.
pub(crate) trait AnswerSink: Send + Sync {
    fn answer(&self, id: u64, answer: Answer);
}

/// The upcalls without an answer, by their number, with the server that made them.
static PENDING: LazyLock<Mutex<HashMap<u64, Weak<dyn AnswerSink>>>> = LazyLock::new(Mutex::default);

/// The next upcall's number. Zero is never used, so that a C host never sees a NULL `cbdata`.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The right to answer one upcall with a `T`. It counts once; a second answer is ignored.
#[derive(Debug)]
pub struct Completion<T> {
    id: u64,
    answer: PhantomData<fn(T)>,
}

impl<T: Into<Answer>> Completion<T> {
    /// The number of the upcall, which C hosts get as `cbdata`.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The completion of the upcall `id`. An id that is not pending is harmless: its answer is ignored.
    pub fn by_id(id: u64) -> Completion<T> {
        Completion { id, answer: PhantomData }
    }

    /// Answers the upcall.
    pub fn complete(self, answer: T) {
        let sink = PENDING.lock().remove(&self.id);
        if let Some(sink) = sink.and_then(|sink| sink.upgrade()) {
            sink.answer(self.id, answer.into());
        }
    }
}

/// Numbers an upcall of `sink` and waits for its answer.
pub(crate) fn open(sink: Weak<dyn AnswerSink>) -> u64 {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    PENDING.lock().insert(id, sink);
    id
}

/// Stops waiting for the answer of an upcall that was answered by its return value; tells whether it was awaited.
pub(crate) fn close(id: u64) -> bool {
    PENDING.lock().remove(&id).is_some()
}
