//! Requested and unfinished publications, and the continuations that wait for them.
//!
//! The engine requests a publication by [`Output::Publish`]. A thread takes the plan, writes the files without the
//! engine's lock, and returns the result. Until then a Get over the socket is answered from the heap; replies that
//! depend on the publication wait here. Changes during a publication are in the next one.

use std::collections::BTreeMap;

use pmix_dstore::model::Nspace;

use super::ledger::{Batch, DirectoryNumber, ModexBatch, Written};
use super::{Engine, Output};

/// A requested or unfinished publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub directory: DirectoryNumber,
    step: u64,
}

/// A thread's task for a namespace's directory.
pub(crate) struct Plan {
    pub directory: DirectoryNumber,
    pub work: Work,
}

/// The work of a [`Plan`].
pub(crate) enum Work {
    /// Write the changes.
    Write(Box<Batch>),
    /// Mark the namespace as retired for readers, and remove its directory.
    Retire,
}

impl Plan {
    /// Bytes that will be written at least, as far as that is known before.
    pub fn weight(&self) -> u64 {
        match &self.work {
            Work::Write(batch) => {
                let job = if batch.writes_job { batch.job.procs.bytes() as u64 } else { 0 };
                job + batch.modex.as_ref().map_or(0, ModexBatch::total_weight)
            }
            Work::Retire => 0,
        }
    }
}

/// The result of a [`Plan`].
pub(crate) struct Published {
    pub directory: DirectoryNumber,
    /// `None` if there is no directory any more.
    pub written: Option<Written>,
    /// Lines for the log.
    pub log: Vec<String>,
}

/// The state of one directory.
#[derive(Default)]
struct Directory {
    /// Its namespace; `None` once that is deregistered: the directory must be removed.
    nspace: Option<Nspace>,
    wanted: bool,
    under_way: bool,
    /// The number of plans taken.
    taken: u64,
    /// The number of plans done.
    done: u64,
}

/// A continuation that runs after publications.
type Continuation = Box<dyn FnOnce(&mut Engine) + Send>;

struct Waiter {
    tickets: Vec<Ticket>,
    then: Continuation,
}

/// All publications of a server.
#[derive(Default)]
pub(super) struct Publications {
    numbers: u64,
    directories: BTreeMap<DirectoryNumber, Directory>,
    /// In order of arrival.
    waiting: Vec<Waiter>,
    /// The publications requested by the host's present operation.
    recorded: Option<Vec<Ticket>>,
}

impl Publications {
    /// Whether a thread is carrying out a plan for a directory.
    pub fn is_writing(&self, number: DirectoryNumber) -> bool {
        self.directories.get(&number).is_some_and(|directory| directory.under_way)
    }

    pub fn is_done(&self, ticket: &Ticket) -> bool {
        self.directories.get(&ticket.directory).is_none_or(|directory| directory.done >= ticket.step)
    }

    /// The last publication of a directory that is not done.
    fn last_of(&self, number: DirectoryNumber) -> Option<Ticket> {
        let directory = self.directories.get(&number)?;
        let step = directory.taken + u64::from(directory.wanted);
        (directory.wanted || directory.under_way).then_some(Ticket { directory: number, step })
    }

    /// The number of a new directory for a namespace.
    pub fn new_directory(&mut self, nspace: &Nspace) -> DirectoryNumber {
        self.numbers += 1;
        let number = DirectoryNumber(self.numbers);
        self.directories.insert(number, Directory { nspace: Some(nspace.clone()), ..Directory::default() });
        number
    }

    /// Takes the continuations whose publications are done.
    fn released(&mut self) -> Vec<Continuation> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let released = waiting.extract_if(.., |waiter| {
            waiter.tickets.retain(|ticket| !self.is_done(ticket));
            waiter.tickets.is_empty()
        });
        let released = released.map(|waiter| waiter.then).collect();
        self.waiting = waiting;
        released
    }
}

impl Engine {
    /// Performs an operation; also returns the publications that it has requested.
    pub fn recording<R>(&mut self, operation: impl FnOnce(&mut Engine) -> R) -> (R, Vec<Ticket>) {
        let outer = self.publications.recorded.replace(Vec::new());
        let result = operation(self);
        let recorded = std::mem::replace(&mut self.publications.recorded, outer).unwrap_or_default();
        if let Some(outer) = &mut self.publications.recorded {
            outer.extend(&recorded);
        }
        (result, recorded)
    }

    /// Whether a publication is done.
    pub fn is_published(&self, ticket: &Ticket) -> bool {
        self.publications.is_done(ticket)
    }

    /// The publication that creates the directory of a namespace, for a client's environment; `None` if it is done.
    pub fn opening(&self, nspace: &Nspace) -> Option<Ticket> {
        let ledger = &self.nspaces.get(nspace)?.ledger;
        self.publications.last_of(ledger.number().filter(|_| ledger.is_opening())?)
    }

    /// Takes the next plan of a directory; `None` if there is none, or if another thread works on the directory.
    pub fn take_plan(&mut self, number: DirectoryNumber) -> Option<Plan> {
        let directory = self.publications.directories.get_mut(&number)?;
        if !directory.wanted || directory.under_way {
            return None;
        }
        (directory.wanted, directory.under_way) = (false, true);
        directory.taken += 1;
        let nspace = directory.nspace.clone();
        let journal = nspace.as_ref().and_then(|nspace| self.first_records(nspace));
        if journal.is_some() {
            // They are among these.
            self.journal.retain(|(other, _)| *other != number);
        }
        let state = nspace.and_then(|nspace| self.nspaces.get_mut(&nspace));
        let Some(state) = state else { return Some(Plan { directory: number, work: Work::Retire }) };
        let job = &state.job;
        let work = match state.ledger.plan(job, &state.visible) {
            Ok(batch) => Work::Write(Box::new(Batch { journal, ..batch })),
            Err(status) => {
                let line = without_shared_memory(&job.nspace, &status.to_string());
                self.log(line);
                Work::Retire
            }
        };
        Some(Plan { directory: number, work })
    }

    /// The same, only if the directory's namespace is gone.
    pub fn take_removal(&mut self, number: DirectoryNumber) -> Option<Plan> {
        self.publications.directories.get(&number).filter(|directory| directory.nspace.is_none())?;
        self.take_plan(number)
    }

    /// Takes the result of a plan, and runs the continuations that waited for it.
    pub fn published(&mut self, published: Published) {
        let number = published.directory;
        published.log.into_iter().for_each(|line| self.log(line));
        let Some(directory) = self.publications.directories.get_mut(&number) else { return };
        (directory.under_way, directory.done) = (false, directory.taken);
        let is_wanted = directory.wanted;
        let nspace = directory.nspace.clone();
        let state = nspace.as_ref().and_then(|nspace| self.nspaces.get_mut(nspace));
        match (published.written, state) {
            (Some(written), Some(state)) => {
                let has_socket = matches!(written.opened, Some((.., true)));
                let has_no_journal = written.has_no_journal;
                state.ledger.take_written(written, &mut state.visible);
                if has_no_journal {
                    self.journal_failed(number);
                }
                if let Some(nspace) = &nspace {
                    self.shorten_journal(nspace);
                }
                if let Some(nspace) = nspace.filter(|_| has_socket) {
                    self.outputs.push_back(Output::Listen(nspace, number));
                }
            }
            (Some(_), None) => {}
            (None, state) => {
                self.publications.directories.remove(&number);
                self.journal.retain(|(other, _)| *other != number);
                if let Some(state) = state {
                    state.ledger.turn_off();
                }
            }
        }
        if is_wanted && self.publications.directories.contains_key(&number) {
            self.outputs.push_back(Output::Publish(number));
        }
        self.give_back(self.outputs.len());
        self.release_waiting();
    }

    /// Requests a publication of a directory.
    pub(super) fn want_publication(&mut self, number: DirectoryNumber) {
        let Some(directory) = self.publications.directories.get_mut(&number) else { return };
        if !std::mem::replace(&mut directory.wanted, true) && !directory.under_way {
            self.outputs.push_back(Output::Publish(number));
        }
        self.record(number);
    }

    /// Makes the present operation wait for the directory's last publication.
    pub(super) fn record(&mut self, number: DirectoryNumber) {
        let last = self.publications.last_of(number);
        if let Some(recorded) = &mut self.publications.recorded {
            recorded.extend(last);
        }
    }

    /// A namespace is deregistered: requests the removal of its directory.
    pub(super) fn retire_directory(&mut self, number: DirectoryNumber) {
        if let Some(directory) = self.publications.directories.get_mut(&number) {
            directory.nspace = None;
            self.want_publication(number);
        }
    }

    /// Runs the continuations that wait for publications of a namespace that is being deregistered: these have no readers any more.
    pub(super) fn give_up_waiting(&mut self, number: DirectoryNumber) {
        for waiter in &mut self.publications.waiting {
            waiter.tickets.retain(|ticket| ticket.directory != number);
        }
        self.release_waiting();
    }

    /// Runs `then` once all requested publications of some namespaces are done.
    pub(super) fn after_publication<'a>(
        &mut self,
        nspaces: impl IntoIterator<Item = &'a Nspace>,
        then: impl FnOnce(&mut Engine) + Send + 'static,
    ) {
        let numbers = nspaces.into_iter().filter_map(|nspace| self.nspaces.get(nspace)?.ledger.number());
        let tickets: Vec<Ticket> = numbers.filter_map(|number| self.publications.last_of(number)).collect();
        if let Some(recorded) = &mut self.publications.recorded {
            recorded.extend(&tickets);
        }
        self.after(tickets, Box::new(then));
    }

    /// Calls back once publications are done.
    pub fn call_after(&mut self, tickets: Vec<Ticket>, call: Box<dyn FnOnce() + Send>) {
        self.after(tickets, Box::new(move |engine| engine.outputs.push_back(Output::Call(call))));
    }

    fn after(&mut self, mut tickets: Vec<Ticket>, then: Continuation) {
        tickets.retain(|ticket| !self.publications.is_done(ticket));
        match tickets.is_empty() {
            true => then(self),
            false => self.publications.waiting.push(Waiter { tickets, then }),
        }
    }

    fn release_waiting(&mut self) {
        self.publications.released().into_iter().for_each(|then| then(self));
    }

    /// Whether a thread is carrying out a plan.
    pub fn is_under_way(&self) -> bool {
        self.publications.directories.values().any(|directory| directory.under_way)
    }

    /// Whether a publication is requested or unfinished.
    #[cfg(any(test, feature = "simulate"))]
    pub fn is_publishing(&self) -> bool {
        self.publications.directories.values().any(|directory| directory.wanted || directory.under_way)
            || !self.publications.waiting.is_empty()
    }
}

/// The line that says why a namespace has no shared memory.
pub(crate) fn without_shared_memory(nspace: &Nspace, error: &str) -> String {
    format!("namespace {nspace}: no shared memory, values go over the socket: {error}")
}
