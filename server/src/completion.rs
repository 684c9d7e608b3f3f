//! How a host answers an upcall.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use pmix_client::Task;
use pmix_dstore::model::{Bytes, Info, Nspace, Pdata, Proc, Status};

/// A credential and infos about it.
pub type Credential = (Vec<u8>, Vec<Info>);

/// A host's answer, in the shapes that the upcalls have.
#[derive(Clone, Debug, PartialEq)]
pub enum UpcallResult {
    /// A bare status.
    Op(Status),
    /// Status and packed data: fence and direct modex. Memory that the host has lent is released on the server's thread, before
    /// the requester gets the answer.
    Data(Status, Bytes),
    /// Status and published values.
    Lookup(Status, Vec<Pdata>),
    /// Status and the namespace of the spawned job.
    Spawn(Status, Option<Nspace>),
    /// Status and the name of a tool.
    Name(Status, Option<Proc>),
    /// Status and results.
    Infos(Status, Vec<Info>),
    /// Status and a credential.
    Credential(Status, Credential),
}

impl UpcallResult {
    /// The status, which every shape has.
    pub fn status(&self) -> Status {
        match self {
            UpcallResult::Op(status)
            | UpcallResult::Data(status, _)
            | UpcallResult::Lookup(status, _)
            | UpcallResult::Spawn(status, _)
            | UpcallResult::Name(status, _)
            | UpcallResult::Infos(status, _)
            | UpcallResult::Credential(status, _) => *status,
        }
    }
}

impl From<Status> for UpcallResult {
    fn from(status: Status) -> UpcallResult {
        UpcallResult::Op(status)
    }
}

impl From<(Status, Bytes)> for UpcallResult {
    fn from((status, data): (Status, Bytes)) -> UpcallResult {
        UpcallResult::Data(status, data)
    }
}

impl From<(Status, Vec<Pdata>)> for UpcallResult {
    fn from((status, data): (Status, Vec<Pdata>)) -> UpcallResult {
        UpcallResult::Lookup(status, data)
    }
}

impl From<(Status, Option<Nspace>)> for UpcallResult {
    fn from((status, nspace): (Status, Option<Nspace>)) -> UpcallResult {
        UpcallResult::Spawn(status, nspace)
    }
}

impl From<(Status, Option<Proc>)> for UpcallResult {
    fn from((status, name): (Status, Option<Proc>)) -> UpcallResult {
        UpcallResult::Name(status, name)
    }
}

impl From<(Status, Vec<Info>)> for UpcallResult {
    fn from((status, infos): (Status, Vec<Info>)) -> UpcallResult {
        UpcallResult::Infos(status, infos)
    }
}

impl From<(Status, Credential)> for UpcallResult {
    fn from((status, credential): (Status, Credential)) -> UpcallResult {
        UpcallResult::Credential(status, credential)
    }
}

/// The receiver of answers: a server.
pub(crate) trait AnswerSink: Send + Sync {
    /// Takes an answer. Returns the callback of a spawn of the host itself, for this thread to run.
    fn answer(&self, id: u64, answer: UpcallResult) -> Option<Task>;

    /// Runs `task` on the server's thread, outside every upcall.
    fn defer(&self, task: Task);
}

/// The upcalls without an answer, by their number, with the server that made them.
static PENDING: LazyLock<Mutex<HashMap<u64, Weak<dyn AnswerSink>>>> = LazyLock::new(Mutex::default);

/// The next upcall's number. Zero is never used, so that a C host never sees a NULL `cbdata`.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The right to answer one upcall with a `T`. It counts once; a second answer is ignored.
///
/// ```
/// use std::thread;
///
/// use pmix_dstore::model::{Info, Pdata, Key, Proc, Status};
/// use pmix_server::{Completion, Host};
///
/// struct Launcher;
///
/// impl Host for Launcher {
///     // Answered later, by another thread.
///     fn lookup(&self, _: &Proc, _: &[Key], _: &[Info], done: Completion<(Status, Vec<Pdata>)>) -> Status {
///         thread::spawn(move || done.complete((Status::ERR_NOT_FOUND, Vec::new())));
///         Status::SUCCESS
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Completion<T> {
    id: u64,
    answer: PhantomData<fn(T)>,
}

impl<T: Into<UpcallResult>> Completion<T> {
    /// The number of the upcall, which C hosts get as `cbdata`.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The completion of the upcall `id`. An id that is not pending is harmless: its answer is ignored.
    pub fn by_id(id: u64) -> Completion<T> {
        Completion { id, answer: PhantomData }
    }

    /// Answers the upcall. If it is about a spawn of the host itself, the callback of that runs before this returns: see
    /// [`Completion::complete_and_leave`].
    pub fn complete(self, answer: T) {
        self.complete_then(answer, None);
    }

    /// As [`Completion::complete`]. The callback of a spawn of the host itself is left to the caller, who runs it on this thread, without
    /// a lock that it takes. PRRTE 3.0 waits for it in its event loop, where it also answers, and no other thread wakes that loop.
    #[must_use]
    pub fn complete_and_leave(self, answer: T) -> Option<Task> {
        let sink = PENDING.lock().remove(&self.id).and_then(|sink| sink.upgrade());
        sink.and_then(|sink| sink.answer(self.id, answer.into()))
    }

    /// Answers the upcall; `release` is called when the host's memory is not needed any more.
    ///
    /// It is called on the server's thread, because a host may answer while it holds a lock that its release function takes,
    /// too; and before the requester gets the answer, because a host may accept no new collective until then. Slurm's collectives
    /// do both. If no server waits for the answer, it is called at once.
    pub fn complete_then(self, answer: T, release: Option<Box<dyn FnOnce() + Send>>) {
        let sink = PENDING.lock().remove(&self.id).and_then(|sink| sink.upgrade());
        match sink {
            Some(sink) => {
                release.into_iter().for_each(|release| sink.defer(release));
                sink.answer(self.id, answer.into()).into_iter().for_each(|callback| callback());
            }
            None => release.into_iter().for_each(|release| release()),
        }
    }
}

/// Numbers an upcall of `sink` and waits for its answer.
pub(crate) fn open(sink: Weak<dyn AnswerSink>) -> u64 {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    PENDING.lock().insert(id, sink);
    id
}

/// Stops waiting for the answer of an upcall that was answered by its return value; returns whether it was pending.
pub(crate) fn close(id: u64) -> bool {
    PENDING.lock().remove(&id).is_some()
}

/// Takes the answer to an upcall with this number.
type Take = Box<dyn Fn(u64, UpcallResult) + Send + Sync>;

/// Upcalls of a server in another process, whose host is in this one. With it go the upcalls that are not answered: later answers are ignored.
///
/// ```
/// use std::sync::mpsc;
///
/// use pmix_dstore::model::Status;
/// use pmix_server::{Completion, Relay, UpcallResult};
///
/// let (sender, answers) = mpsc::channel();
/// let relay = Relay::new(move |id, answer| sender.send((id, answer)).expect("it is received"));
/// // The other process has upcall 7; the host answers.
/// let id = relay.open(7);
/// Completion::<Status>::by_id(id).complete(Status::ERR_NOT_FOUND);
/// assert_eq!(answers.recv(), Ok((7, UpcallResult::Op(Status::ERR_NOT_FOUND))));
/// ```
pub struct Relay {
    sink: Arc<Relayed>,
}

struct Relayed {
    take: Take,
    /// The numbers that the upcalls have in the other process, by those that they have here.
    numbers: Mutex<HashMap<u64, u64>>,
}

impl AnswerSink for Relayed {
    fn answer(&self, id: u64, answer: UpcallResult) -> Option<Task> {
        let number = self.numbers.lock().remove(&id);
        number.into_iter().for_each(|number| (self.take)(number, answer.clone()));
        None
    }

    fn defer(&self, task: Task) {
        // There is no server's thread here.
        task();
    }
}

impl Relay {
    /// `take` gets each answer with the number that the upcall has in the other process, on the thread that answers.
    pub fn new(take: impl Fn(u64, UpcallResult) + Send + Sync + 'static) -> Relay {
        Relay { sink: Arc::new(Relayed { take: Box::new(take), numbers: Mutex::default() }) }
    }

    /// An upcall that has this number in the other process. Returns its number here, for [`Completion::by_id`].
    pub fn open(&self, number: u64) -> u64 {
        let sink: Arc<dyn AnswerSink> = self.sink.clone();
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        // First: the host may answer at once.
        self.sink.numbers.lock().insert(id, number);
        PENDING.lock().insert(id, Arc::downgrade(&sink));
        id
    }

    /// Stops waiting for the answer of an upcall that its return value has answered; returns whether it was still to be answered.
    pub fn close(&self, id: u64) -> bool {
        self.sink.numbers.lock().remove(&id);
        close(id)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let ids: Vec<u64> = self.sink.numbers.lock().drain().map(|(id, _)| id).collect();
        let mut pending = PENDING.lock();
        ids.iter().for_each(|id| drop(pending.remove(id)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A server whose tasks run when the test runs them.
    #[derive(Default)]
    struct Later(Mutex<Vec<Box<dyn FnOnce() + Send>>>);

    impl AnswerSink for Later {
        fn answer(&self, _id: u64, _answer: UpcallResult) -> Option<Task> {
            assert_eq!(self.0.lock().len(), 1, "the host's memory is released before others go on");
            None
        }

        fn defer(&self, task: Task) {
            self.0.lock().push(task);
        }
    }

    #[test]
    fn the_hosts_release_function_is_called_once_and_not_inside_its_answer() {
        let server = Arc::new(Later::default());
        let sink: Arc<dyn AnswerSink> = server.clone();
        let released = || {
            let flag = Arc::new(AtomicBool::new(false));
            let set = flag.clone();
            (flag, Some(Box::new(move || set.store(true, Ordering::Relaxed)) as Box<dyn FnOnce() + Send>))
        };

        let id = open(Arc::downgrade(&sink));
        let (first, release) = released();
        Completion::<(Status, Vec<Info>)>::by_id(id).complete_then((Status::SUCCESS, Vec::new()), release);
        assert!(!first.load(Ordering::Relaxed), "called while the host answers");
        server.0.lock().drain(..).for_each(|job| job());
        assert!(first.load(Ordering::Relaxed));

        // A second answer is ignored, and the host still gets its memory back.
        let (second, release) = released();
        Completion::<(Status, Vec<Info>)>::by_id(id).complete_then((Status::SUCCESS, Vec::new()), release);
        assert!(second.load(Ordering::Relaxed) && server.0.lock().is_empty());
    }

    #[test]
    fn answers_reach_the_other_process_once_and_not_after_its_end() {
        let (sender, answers) = crossbeam::channel::unbounded();
        let relay = Relay::new(move |number, answer| sender.send((number, answer.status())).unwrap());
        let [first, second, third] = [11, 12, 13].map(|number| relay.open(number));
        Completion::<Status>::by_id(second).complete(Status::ERR_NOT_FOUND);
        Completion::<Status>::by_id(second).complete(Status::SUCCESS);
        assert!(relay.close(third) && !relay.close(third), "it is answered by its return value");
        Completion::<Status>::by_id(third).complete(Status::SUCCESS);
        drop(relay);
        Completion::<Status>::by_id(first).complete(Status::SUCCESS);
        assert_eq!(answers.iter().collect::<Vec<_>>(), [(12, Status::ERR_NOT_FOUND)]);
    }
}
