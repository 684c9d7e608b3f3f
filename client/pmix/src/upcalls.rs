//! Answers to the usual upcalls as closures.

use std::ffi::CStr;

use pmix_dstore::model::{Info, Proc, Status};
use pmix_server::{Completion, Host as Upcalls};

/// A closure of the host. `A` is what comes with the process that asks.
type Closure<A, R = ()> = Option<Box<dyn Fn(&Proc, A) -> R + Send + Sync>>;

/// Upcalls that are answered by closures, for hosts that need few. What has no closure is not supported, but that every rank may connect
/// and finalize. A host that needs another upcall, or answers later, implements [`Upcalls`](crate::Upcalls) itself.
///
/// Closures run on the server's thread, one at a time: they must not wait for ranks.
///
/// ```
/// use pmix::{Answers, Host, Status};
///
/// let answers = Answers::new()
///     .on_connected(|rank| if rank.rank.0 == 13 { Err(Status::ERR_NO_PERMISSIONS) } else { Ok(()) })
///     .on_log(|rank, text| println!("{rank}: {text}"));
/// let host = Host::builder().upcalls(answers).start()?;
/// host.finalize()?;
/// # Ok::<(), pmix::Error>(())
/// ```
#[derive(Default)]
pub struct Answers {
    connected: Closure<(), Result<(), Status>>,
    finalized: Closure<()>,
    log: Closure<String>,
    abort: Closure<Abort>,
}

/// A rank's wish to end processes.
#[derive(Clone, Debug, PartialEq)]
pub struct Abort {
    /// The exit status that the rank asks for.
    pub exit_status: i32,
    /// Its message.
    pub message: String,
    /// The processes; none is the rank's whole job.
    pub processes: Vec<Proc>,
}

impl Answers {
    /// No closures.
    pub fn new() -> Answers {
        Answers::default()
    }

    /// A rank has connected; an error refuses it.
    pub fn on_connected(mut self, answer: impl Fn(&Proc) -> Result<(), Status> + Send + Sync + 'static) -> Answers {
        self.connected = Some(Box::new(move |proc, ()| answer(proc)));
        self
    }

    /// A rank has called finalize.
    pub fn on_finalized(mut self, answer: impl Fn(&Proc) + Send + Sync + 'static) -> Answers {
        self.finalized = Some(Box::new(move |proc, ()| answer(proc)));
        self
    }

    /// A rank logs a text. Called for each text.
    pub fn on_log(mut self, answer: impl Fn(&Proc, &str) + Send + Sync + 'static) -> Answers {
        self.log = Some(Box::new(move |proc, text| answer(proc, &text)));
        self
    }

    /// A rank asks to end processes. The host ends them after the closure has returned: it must not wait for them.
    pub fn on_abort(mut self, answer: impl Fn(&Proc, Abort) + Send + Sync + 'static) -> Answers {
        self.abort = Some(Box::new(answer));
        self
    }
}

impl Upcalls for Answers {
    fn client_connected(&self, proc: &Proc, _object: usize, _infos: &[Info]) -> Status {
        match self.connected.as_ref().map(|answer| answer(proc, ())) {
            Some(Err(status)) => status,
            _ => Status::OPERATION_SUCCEEDED,
        }
    }

    fn client_finalized(&self, proc: &Proc, _object: usize, _done: Completion<Status>) -> Status {
        self.finalized.iter().for_each(|answer| answer(proc, ()));
        Status::OPERATION_SUCCEEDED
    }

    fn log(&self, proc: &Proc, data: &[Info], _directives: &[Info], _done: Completion<Status>) -> Status {
        let Some(answer) = &self.log else { return Status::ERR_NOT_SUPPORTED };
        for text in data.iter().filter_map(|info| info.value.as_text()) {
            answer(proc, String::from_utf8_lossy(text).into_owned());
        }
        Status::OPERATION_SUCCEEDED
    }

    fn abort(
        &self,
        proc: &Proc,
        _object: usize,
        status: i32,
        message: Option<&CStr>,
        procs: &[Proc],
        _done: Completion<Status>,
    ) -> Status {
        let Some(answer) = &self.abort else { return Status::ERR_NOT_SUPPORTED };
        let message = message.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
        answer(proc, Abort { exit_status: status, message, processes: procs.to_vec() });
        Status::OPERATION_SUCCEEDED
    }
}
