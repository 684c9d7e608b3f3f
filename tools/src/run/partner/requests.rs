//! What the host asks of the partner. Called on the server's thread and on the launcher's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_client::connect_id;
use pmix_dstore::model::{Bytes, Info, Key, Nspace, Proc, Status, Value, keys};
use pmix_server::Completion;

use super::message::Message;
use super::rounds::{Entry, Operation, Round, Side, lost};
use super::{DATA_MAX, Done, Partner, Pending, State, for_partner};

impl Partner {
    /// All processes of this cluster have entered an operation with processes of the other one. Returns the status for the server.
    pub fn enter(&self, operation: Operation, procs: &[Proc], infos: &[Info], mut data: Vec<u8>, done: Done) -> Status {
        let Ok(id) = connect_id(infos) else { return Status::ERR_BAD_PARAM };
        let procs = procs.iter().map(|proc| self.names.proc_on_link(proc)).collect();
        let round = Round { operation, procs, id };
        let mut status = match Info::find(infos, keys::LOCAL_COLLECTIVE_STATUS) {
            Some(Value::Status(status)) => *status,
            _ => Status::SUCCESS,
        };
        if data.len() > DATA_MAX {
            (status, data) = (Status::ERR_OUT_OF_RESOURCE, Vec::new());
        }
        let lets_end = Info::is_set(infos, keys::CONNECT_EARLY_TERM_ALLOWED);
        let is_excused =
            if operation == Operation::Connect { Info::is_set(infos, keys::CONNECT_OPTIONAL) } else { lets_end };
        let seconds = Info::find(infos, keys::TIMEOUT).and_then(Value::as_u64).filter(|seconds| *seconds > 0);
        let until = seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
        let mut shared = self.shared.lock();
        match shared.state {
            State::Awaited => return Status::ERR_UNREACH,
            State::Lost => {
                drop(shared);
                let alone = Entry { side: Side::Own, id: 0, status, is_excused, data }.alone(operation);
                done.complete(alone.status, alone.data);
                return Status::SUCCESS;
            }
            State::Here => {}
        }
        let alone = if is_excused { status } else { lost(operation) };
        let pending = Pending::Collective { done, round: round.clone(), lets_end, alone, until };
        let mut answered = Vec::new();
        let mut entered = Status::SUCCESS;
        if shared.rounds.is_some() {
            shared.last += 1;
            let id = shared.last;
            shared.pending.insert(id, pending);
            let entry = Entry { side: Side::Own, id, status, is_excused, data };
            let outcomes = shared.rounds.as_mut().map(|rounds| rounds.enter(round, entry)).unwrap_or_default();
            answered = shared.take_all_answered(outcomes);
        } else {
            let asked = shared.ask(pending, |id| Message::Enter { id, round, status, is_excused, data });
            entered = asked.err().unwrap_or(Status::SUCCESS);
        }
        drop(shared);
        answered.into_iter().for_each(|answered| self.complete(answered));
        // The thread must learn of the time limit, too.
        self.wake();
        entered
    }

    /// A process wants the values of one of the other cluster. Returns the status for the server.
    pub fn fetch(&self, proc: &Proc, done: Completion<(Status, Bytes)>) -> Status {
        let proc = self.names.proc_on_link(proc);
        let asked = self.shared.lock().ask(Pending::Modex(done), |id| Message::Modex { id, proc });
        self.wake();
        asked.err().unwrap_or(Status::SUCCESS)
    }

    /// A process has published values of these keys for the other cluster, too. Returns the status for the server.
    pub fn publish(&self, proc: &Proc, infos: &[Info], keys: Vec<Key>, done: Completion<Status>) -> Status {
        let Ok(infos) = for_partner(&self.names, infos) else { return Status::ERR_NOMEM };
        let on_link = self.names.proc_on_link(proc);
        let pending = Pending::Publish { done, proc: proc.clone(), keys };
        let asked = self.shared.lock().ask(pending, |id| Message::Publish { id, proc: on_link, infos });
        self.wake();
        match asked {
            Ok(()) => Status::SUCCESS,
            // The partner hears of it when it comes.
            Err(Status::ERR_UNREACH | Status::ERR_LOST_CONNECTION) => Status::OPERATION_SUCCEEDED,
            Err(status) => status,
        }
    }

    /// A process takes back values; all if it names none.
    pub fn unpublish(&self, proc: &Proc, keys: &[Key]) {
        let keys = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        self.send(&Message::Unpublish { proc: self.names.proc_on_link(proc), keys });
    }

    /// An event for processes of the other cluster.
    pub fn notify(&self, code: Status, source: &Proc, infos: &[Info]) -> Status {
        let Ok(mut infos) = Info::copies(infos) else { return Status::ERR_NOMEM };
        self.names.infos_on_link(&mut infos);
        let source = self.names.proc_on_link(source);
        let sent = self.shared.lock().try_send(&Message::Event { code, source, infos });
        self.wake();
        sent.err().unwrap_or(Status::OPERATION_SUCCEEDED)
    }

    /// A job of this cluster is about to be registered.
    pub fn job_begins(&self, nspace: &Nspace, size: u32, infos: &[Info]) {
        let Ok(infos) = Info::copies(infos) else { return };
        let on_link = self.names.on_link(nspace);
        let message = Message::Job { nspace: on_link.clone(), size, infos: self.names.job_on_link(infos) };
        let mut shared = self.shared.lock();
        shared.rounds.iter_mut().for_each(|rounds| rounds.job_begins(on_link.clone(), size));
        shared.send(&message);
        shared.known.insert(on_link.clone());
        shared.jobs.insert(on_link, message);
        drop(shared);
        self.wake();
    }

    /// The server does not know a job of this cluster any more.
    pub fn job_is_forgotten(&self, nspace: &Nspace) {
        self.shared.lock().known.remove(&self.names.on_link(nspace));
    }

    /// All processes of a job of this cluster have ended.
    pub fn job_ends(&self, nspace: &Nspace) {
        let nspace = self.names.on_link(nspace);
        self.shared.lock().jobs.remove(&nspace);
        self.decide(|rounds| rounds.job_ends(&nspace));
        self.shared.lock().forget_connections();
        self.send(&Message::JobEnded { nspace });
    }

    /// A process of this cluster has ended.
    pub fn process_ends(&self, proc: &Proc) {
        let proc = self.names.proc_on_link(proc);
        self.decide(|rounds| rounds.process_ends(proc.clone()));
        self.send(&Message::ProcessEnded { proc });
    }

    pub(super) fn send(&self, message: &Message) {
        self.shared.lock().send(message);
        self.wake();
    }

    /// The result of a request of the partner.
    pub(super) fn result(&self, id: u64, status: Status, data: Vec<u8>) {
        self.shared.lock().send_result(id, status, data);
        self.wake();
    }

    /// The values of a process of this cluster, for the partner.
    pub(super) fn give(self: &Arc<Self>, id: u64, proc: &Proc) {
        /// The most that the partner may have asked for without an answer.
        const FETCHED_MAX: usize = 65_536;
        let refuse = |status| self.result(id, status, Vec::new());
        let Some(server) = self.server() else { return refuse(Status::ERR_UNREACH) };
        {
            let mut shared = self.shared.lock();
            // For a job that the server does not know any more it would wait.
            let is_known = shared.known.contains(&proc.nspace);
            if !is_known || shared.fetched >= FETCHED_MAX {
                drop(shared);
                return refuse(if is_known { Status::ERR_OUT_OF_RESOURCE } else { Status::ERR_NOT_FOUND });
            }
            shared.fetched += 1;
        }
        let partner = Arc::downgrade(self);
        let give = move |status, data| {
            if let Some(partner) = partner.upgrade() {
                partner.shared.lock().fetched -= 1;
                partner.result(id, status, data);
            }
        };
        let asked = server.dmodex_request(self.names.proc_here(proc), Box::new(give));
        if !asked.is_success() {
            self.shared.lock().fetched -= 1;
            refuse(asked);
        }
    }
}
