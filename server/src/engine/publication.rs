//! Which publications are wanted and under way, and who waits for them.
//!
//! The engine asks for a publication by [`Output::Publish`]. A thread that has time for it takes the plan, writes the files
//! without the engine's lock, and brings the result. Until then a Get over the socket is answered from the heap; replies that
//! promise that something is published wait here. What is noted while a publication is under way goes with the next one.

use std::collections::BTreeMap;

use pmix_dstore::model::Nspace;

use super::ledger::{Batch, DirectoryNumber, ModexBatch, Written};
use super::{Engine, Output};

/// A publication that is wanted or under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub directory: DirectoryNumber,
    step: u64,
}

/// What a thread is to do with a namespace's directory.
pub(crate) struct Plan {
    pub directory: DirectoryNumber,
    pub work: Work,
}

/// The work of a [`Plan`].
pub(crate) enum Work {
    /// Write what is new.
    Write(Box<Batch>),
    /// Tell readers that the namespace is gone, and remove its directory.
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
    /// `None` where there is no directory any more.
    pub written: Option<Written>,
    /// Lines for the administrator.
    pub log: Vec<String>,
}

/// The state of one directory.
#[derive(Default)]
struct Directory {
    /// Whose it is; `None` once the namespace is forgotten: the directory is to be removed.
    nspace: Option<Nspace>,
    wanted: bool,
    under_way: bool,
    /// Plans that were taken.
    taken: u64,
    /// Those of them that are done.
    done: u64,
}

/// What goes on when publications are done.
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
    /// In the order in which they began to wait.
    waiting: Vec<Waiter>,
    /// What the operation of a host that is going on has asked for.
    recorded: Option<Vec<Ticket>>,
}

impl Publications {
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

    /// Those who need not wait any longer.
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
    /// Carries out an operation; answers what it has asked to be published, too.
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

    /// The publication that makes the directory which a client's environment tells of, while it is not done.
    pub fn opening(&self, nspace: &Nspace) -> Option<Ticket> {
        let ledger = &self.nspaces.get(nspace)?.ledger;
        self.publications.last_of(ledger.number().filter(|_| ledger.is_opening())?)
    }

    /// Takes what is to be done with a directory; `None` where nothing is, or where another thread is at it.
    pub fn take_plan(&mut self, number: DirectoryNumber) -> Option<Plan> {
        let directory = self.publications.directories.get_mut(&number)?;
        if !directory.wanted || directory.under_way {
            return None;
        }
        (directory.wanted, directory.under_way) = (false, true);
        directory.taken += 1;
        let state = directory.nspace.as_ref().and_then(|nspace| self.nspaces.get_mut(nspace));
        let Some(state) = state else { return Some(Plan { directory: number, work: Work::Retire }) };
        let job = &state.job;
        let work = match state.ledger.plan(job, &state.visible) {
            Ok(batch) => Work::Write(Box::new(batch)),
            Err(status) => {
                let line = without_shared_memory(&job.nspace, &status.to_string());
                self.log(line);
                Work::Retire
            }
        };
        Some(Plan { directory: number, work })
    }

    /// The same where the directory's namespace is gone.
    pub fn take_removal(&mut self, number: DirectoryNumber) -> Option<Plan> {
        self.publications.directories.get(&number).filter(|directory| directory.nspace.is_none())?;
        self.take_plan(number)
    }

    /// A plan is carried out: whoever waits for it goes on.
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
                state.ledger.take_written(written, &mut state.visible);
                if let Some(nspace) = nspace.filter(|_| has_socket) {
                    self.outputs.push_back(Output::Listen(nspace, number));
                }
            }
            (Some(_), None) => {}
            (None, state) => {
                self.publications.directories.remove(&number);
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

    /// Wants what the ledger of a namespace holds published.
    pub(super) fn want_publication(&mut self, number: DirectoryNumber) {
        let Some(directory) = self.publications.directories.get_mut(&number) else { return };
        if !std::mem::replace(&mut directory.wanted, true) && !directory.under_way {
            self.outputs.push_back(Output::Publish(number));
        }
        self.record(number);
    }

    /// The operation that is going on waits for what is under way.
    pub(super) fn record(&mut self, number: DirectoryNumber) {
        let last = self.publications.last_of(number);
        if let Some(recorded) = &mut self.publications.recorded {
            recorded.extend(last);
        }
    }

    /// A namespace is forgotten: its directory is removed, and nobody waits any more for what was to be published there.
    pub(super) fn retire_directory(&mut self, number: DirectoryNumber) {
        if let Some(directory) = self.publications.directories.get_mut(&number) {
            directory.nspace = None;
            self.want_publication(number);
        }
    }

    /// Goes on with those who wait for publications of a namespace that is about to be forgotten: nobody will read what they bring.
    pub(super) fn give_up_waiting(&mut self, number: DirectoryNumber) {
        for waiter in &mut self.publications.waiting {
            waiter.tickets.retain(|ticket| ticket.directory != number);
        }
        self.release_waiting();
    }

    /// Goes on once all that is wanted or under way for some namespaces is published.
    pub(super) fn after_publication<'a>(
        &mut self,
        nspaces: impl IntoIterator<Item = &'a Nspace>,
        then: impl FnOnce(&mut Engine) + Send + 'static,
    ) {
        let numbers = nspaces.into_iter().filter_map(|nspace| self.nspaces.get(nspace)?.ledger.number());
        let tickets = numbers.filter_map(|number| self.publications.last_of(number)).collect();
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

    /// Whether something is wanted or under way.
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
