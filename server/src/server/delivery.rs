//! What a host has for the processes of this node: events, process sets, output, flow control.

use std::ffi::CString;
use std::time::Instant;

use pmix_client::Event;
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Status, Value, keys};
use pmix_wire::{FlowControl, IoDelivery};

use super::Server;
use crate::engine::{PeerId, Range, Sender};
use crate::report::OpDone;

impl Server {
    /// Notifies the clients of this node, and the process's own handlers, of an event that `source` caused or reported.
    ///
    /// The host gets no upcall, because the event comes from it. `range` is a `pmix_data_range_t`.
    pub fn notify_event(
        &self,
        code: Status,
        source: Proc,
        range: u8,
        infos: Vec<Info>,
        done: Option<OpDone>,
    ) -> Status {
        let client = self.client.clone();
        let copies = match Info::copies(&infos) {
            Ok(copies) => copies,
            Err(status) => return status,
        };
        self.operate(done, |engine| {
            engine.deliver_event(Sender::Peer(PeerId::OWN), code, &source, range, copies, Instant::now());
            let event = Event::new(code, source, infos);
            engine.defer(Box::new(move || client.deliver(event)));
            Status::SUCCESS
        })
    }

    /// Forgets the events with this code that are kept for processes that register later, for example because what they tell is over.
    pub fn forget_events(&self, code: Status) -> Status {
        self.operate(None, |engine| {
            engine.forget_events(code);
            Status::SUCCESS
        })
    }

    /// Notifies processes of this node, also later ones, of a process set that the host has defined.
    pub fn define_process_set(&self, name: CString, members: Vec<Proc>) -> Status {
        self.shared.engine.lock().set_process_set(name.clone(), Some(members.clone()));
        let members = Info::new(keys::PSET_MEMBERS, Value::procs(members));
        self.tell_of_set(Status::PROCESS_SET_DEFINE, name, Some(members))
    }

    /// Notifies processes of this node that the host has deleted a process set.
    pub fn delete_process_set(&self, name: CString) -> Status {
        self.shared.engine.lock().set_process_set(name.clone(), None);
        self.tell_of_set(Status::PROCESS_SET_DELETE, name, None)
    }

    fn tell_of_set(&self, code: Status, name: CString, members: Option<Info>) -> Status {
        let mut infos = vec![
            Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)),
            Info::new(keys::PSET_NAME, Value::String(Some(name))),
        ];
        infos.extend(members);
        self.notify_event(code, self.me.clone(), Range::LOCAL, infos, None)
    }

    /// Delivers output of a process to the clients that pull it; without a receiver it is kept for a while. Empty data mark the end.
    pub fn deliver_output(
        &self,
        source: Proc,
        channel: u16,
        data: Vec<u8>,
        infos: Vec<Info>,
        done: Option<OpDone>,
    ) -> Status {
        let own = self.shows_output.then(|| fallible_alloc::copy(&data)).transpose();
        let Ok(own) = own else { return Status::ERR_NOMEM };
        if let Some(data) = own {
            let output = IoDelivery { source: source.clone(), channel, handler: 0, infos: Vec::new(), data };
            let client = self.client.clone();
            self.shared.feed(|engine| engine.defer(Box::new(move || client.take_output(output))));
        }
        self.operate(done, |engine| engine.deliver_output(source, channel, data, infos, Instant::now()))
    }

    /// Notes the number of a process that the host stores for itself (`PMIx_Store_internal`): tools show it beside output.
    pub fn note_pid(&self, proc: &Proc, pid: i32) {
        // A forked child has a copy of the lock, which may be held for ever.
        if self.is_of_this_process() && !self.shared.is_stopped() {
            self.shared.engine.lock().note_pid(proc, pid);
        }
    }

    /// Flow control: pauses or resumes the clients that push input, or one of them.
    pub fn control_input(
        &self,
        source: Option<Proc>,
        channel: u16,
        is_off: bool,
        infos: Vec<Info>,
        done: Option<OpDone>,
    ) -> Status {
        let Ok(anybody) = Nspace::new("") else { return Status::ERR_BAD_PARAM };
        let source = source.unwrap_or_else(|| Proc::new(anybody, Rank::WILDCARD));
        let control = FlowControl { source, channel, is_off, infos };
        self.operate(done, |engine| engine.control_input(&control, |control| self.client.control_input(control)))
    }
}
