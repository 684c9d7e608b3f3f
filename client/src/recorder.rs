//! The flight recorder of this process: where its steps are noted.
//!
//! Nothing is recorded unless the user asks for it (`PMIX_DSTORE_RECORD=1`, or `PMIX_DSTORE_DUMP_SIGNAL`): making the file costs each
//! rank's start some 20 us of system calls. The recorder stays until the process ends, over any number of finalizes.

mod dump;

use std::ffi::CStr;
use std::sync::OnceLock;

use pmix_dstore::log::{self, Level, Target, Writer};
use pmix_dstore::model::{Proc, Rank, Result, Status};
use pmix_dstore::recorder::{Note, Open, Ring, Step};
use pmix_dstore::segment::Directory;
use pmix_wire::Request;

/// The recorder, once the process has one.
static RING: OnceLock<Ring> = OnceLock::new();

/// The recorder of this process. A forked child has none: the file is its parent's.
fn ring() -> Option<&'static Ring> {
    RING.get().filter(|ring| ring.pid() == std::process::id())
}

/// What a user has asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecorderSettings {
    /// `PMIX_DSTORE_RECORD=1`.
    pub file: bool,
    /// `PMIX_DSTORE_DUMP_SIGNAL`.
    pub dump_signal: Option<String>,
}

/// Begins to record, if the user asks for it. `directory` is the namespace's.
pub(crate) fn start(settings: &RecorderSettings, directory: Option<&Directory>, me: &Proc) {
    if settings.file || settings.dump_signal.is_some() {
        begin_recording(settings, directory, me);
    }
}

#[cold]
fn begin_recording(settings: &RecorderSettings, directory: Option<&Directory>, me: &Proc) {
    if RING.get().is_none() {
        let made = directory.map(|directory| Ring::create(directory.as_fd(), me));
        let ring = match made {
            Some(Ok(ring)) => Ok(ring),
            no_file => {
                let why = no_file.and_then(std::result::Result::err);
                let why =
                    why.map_or_else(|| "the server has no directory for this process".into(), |why| why.to_string());
                let line = format_args!("the steps of this process are recorded in its memory alone: {why}");
                log::write(Level::Info, Target::Client, Writer::Client(me), line);
                Ring::in_memory(me)
            }
        };
        // Without memory there is no recorder.
        let Ok(ring) = ring else { return };
        let _ = RING.set(ring);
    }
    if let Some(text) = &settings.dump_signal
        && let Err(why) = dump::install(text)
    {
        log::write(
            Level::Warn,
            Target::Client,
            Writer::Client(me),
            format_args!("{}={text} is ignored: {why}", dump::VARIABLE),
        );
    }
}

/// The process has finalized.
pub(crate) fn stop() {
    if RING.get().is_some() {
        dump::remove();
    }
}

/// A step that has begun.
#[must_use = "the step ends when this is told"]
pub(crate) struct Begun(Option<Box<(Open, Note)>>);

impl Begun {
    /// Notes that a step begins. `note` is made only if there is a recorder; a step that is not noted has none.
    pub fn new(note: impl FnOnce() -> Option<Note>) -> Begun {
        Begun(ring().and_then(|ring| note().map(|note| Box::new((ring.begin(note), note)))))
    }

    /// Notes that it has ended.
    pub fn end<T>(mut self, result: &Result<T>) {
        self.note_end(result.as_ref().err().copied().unwrap_or(Status::SUCCESS));
    }

    fn note_end(&mut self, status: Status) {
        let Some(step) = self.0.take() else { return };
        if let Some(ring) = ring() {
            let (begun, note) = *step;
            ring.end(begun, note, status);
        }
    }
}

impl Drop for Begun {
    /// An operation that could not be started, or was never run, waits for nothing.
    fn drop(&mut self) {
        self.note_end(Status::ERROR);
    }
}

/// Whether steps are recorded.
pub(crate) fn is_on() -> bool {
    ring().is_some()
}

/// Notes a step without duration.
pub(crate) fn happened(step: Step, number: u32, text: &[u8], status: Status) {
    if let Some(ring) = ring() {
        ring.happen(Note::new(step, number, text), status);
    }
}

/// What is noted of a request; `None` for one that is no call of the user's, or that does not wait for others.
pub(crate) fn note_of(request: &Request) -> Option<Note> {
    let plain = |step| Note::new(step, 0, &[]);
    let named = |step, text: Option<&[u8]>| Note::new(step, 0, text.unwrap_or_default());
    Some(match request {
        Request::Fence { procs, .. } => of_procs(Step::Fence, procs),
        Request::Connect { procs, .. } => of_procs(Step::Connect, procs),
        Request::Disconnect { procs, .. } => of_procs(Step::Disconnect, procs),
        Request::Abort { .. } => plain(Step::Abort),
        Request::Finalize => plain(Step::Finalize),
        Request::Publish { .. } => plain(Step::Publish),
        Request::Lookup { keys, .. } => named(Step::Lookup, keys.first().map(|key| key.as_bytes())),
        Request::Unpublish { .. } => plain(Step::Unpublish),
        Request::Spawn { apps, .. } => {
            let program = apps.first().and_then(|app| app.cmd.as_deref());
            named(Step::Spawn, program.map(CStr::to_bytes))
        }
        Request::Query { queries } => {
            let key = queries.first().and_then(|query| query.keys.first());
            named(Step::Query, key.map(|key| key.to_bytes()))
        }
        Request::Log { .. } => plain(Step::Log),
        Request::JobControl { .. } => plain(Step::JobControl),
        Request::Monitor { .. } => plain(Step::Monitor),
        Request::GroupConstruct { group, .. } => named(Step::GroupConstruct, group.as_deref().map(CStr::to_bytes)),
        Request::GroupDestruct { group, .. } => named(Step::GroupDestruct, group.as_deref().map(CStr::to_bytes)),
        Request::GroupLeave { group, .. } => named(Step::GroupLeave, group.as_deref().map(CStr::to_bytes)),
        _ => return None,
    })
}

/// A commit of these values by scope.
pub(crate) fn note_of_commit<T>(parts: &[(u8, Vec<T>)]) -> Note {
    let values = parts.iter().map(|(_, values)| values.len()).sum::<usize>();
    Note::new(Step::Commit, u32::try_from(values).unwrap_or(u32::MAX), &[])
}

/// A collective: of a job, or of so many processes.
fn of_procs(step: Step, procs: &[Proc]) -> Note {
    match procs {
        [Proc { nspace, rank: Rank::WILDCARD }] => Note::new(step, 0, &[b"job ", nspace.as_bytes()].concat()),
        procs => Note::new(step, u32::try_from(procs.len()).unwrap_or(u32::MAX), &[]),
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::Nspace;

    use super::*;

    #[test]
    fn a_step_whose_end_is_not_told_is_over_when_it_is_dropped() {
        let me = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let _ = RING.set(Ring::in_memory(&me).unwrap());
        let steps = || {
            let mut steps = Vec::new();
            ring().unwrap().tell(|step| steps.push(step.to_string()));
            steps.retain(|step| step.contains("of a.test"));
            steps
        };
        let begun = Begun::new(|| Some(Note::new(Step::Lookup, 0, b"a.test")));
        assert!(steps()[0].starts_with("in PMIx_Lookup of a.test since "), "{:?}", steps());
        drop(begun);
        assert!(steps()[0].ends_with(": PMIX_ERROR") && steps().len() == 1, "{:?}", steps());
    }
}
