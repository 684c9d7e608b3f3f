//! Events: registrations, and delivery.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_client::get::timeout_of;
use pmix_dstore::model::{Info, Nspace, Proc, Status, Value, keys};
use pmix_wire::{Notification, TAG_NOTIFY, Version};

use super::apart::{REFUSED, Reach, sign};
use super::limits::CODES_MAX;
use super::peer::{Actor, Peer, PeerId};
use super::services::Shape;
use super::{Continuation, EXCHANGE, Engine};
use crate::upcall::Upcall;

/// `pmix_data_range_t`: the receivers of an event.
pub(crate) struct Range;

impl Range {
    /// Only the resource manager.
    pub const RM: u8 = 1;
    /// Processes of this node.
    pub const LOCAL: u8 = 2;
    /// Processes of the source's namespace.
    pub const NAMESPACE: u8 = 3;
    /// The processes in `PMIX_EVENT_CUSTOM_RANGE`.
    pub const CUSTOM: u8 = 6;
    /// Only the source itself.
    pub const PROC_LOCAL: u8 = 7;
}

/// The origin of an event.
#[derive(Clone, Copy)]
pub(crate) enum Sender {
    /// The server.
    Server,
    /// The server, about a process that does not get the event itself.
    About(PeerId),
    /// A process.
    Peer(PeerId),
}

/// Events kept for processes that register later, with the connections that have got them.
#[derive(Default)]
pub(super) struct EventCache {
    events: VecDeque<Cached>,
    bytes: usize,
}

struct Cached {
    notification: Arc<Notification>,
    range: u8,
    /// Its size in bytes, about.
    len: usize,
    /// When it came.
    since: Instant,
    /// The sender, if it is a process of this node.
    sender: Option<Actor>,
    /// Connections that have got it, or sent it.
    served: HashSet<PeerId>,
}

/// The info that released servers add to each event for a client.
const SERVER_INTERNAL_NOTIFY: &str = "pmix.srvr.internal.notify";

/// How long an event is kept, as in released servers: older events are of no use to a new process.
const KEPT: Duration = Duration::from_secs(120);

/// How many events are kept, and how many bytes of them; the oldest goes.
const CACHE_MAX: usize = 512;
const CACHE_BYTES_MAX: usize = 4 << 20;

impl EventCache {
    pub fn forget_nspace(&mut self, nspace: &Nspace) {
        self.retain(|event| event.notification.source.nspace != *nspace);
    }

    /// A connection is gone.
    pub fn forget_peer(&mut self, peer: PeerId) {
        for event in &mut self.events {
            event.served.remove(&peer);
        }
    }

    /// Forgets the events with this code whose infos say that they are out of date.
    pub fn forget(&mut self, code: Status, are_old: impl Fn(&[Info]) -> bool) {
        self.retain(|event| event.notification.status != code || !are_old(&event.notification.infos));
    }

    fn retain(&mut self, keep: impl Fn(&Cached) -> bool) {
        self.events.retain(keep);
        self.bytes = self.events.iter().map(|event| event.len).sum();
    }

    /// Keeps an event, unless it is larger than the whole cache.
    fn keep(&mut self, event: Cached) {
        if event.len > CACHE_BYTES_MAX {
            return;
        }
        self.bytes += event.len;
        self.events.push_back(event);
        while self.events.len() > CACHE_MAX || self.bytes > CACHE_BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.len;
        }
    }
}

impl Engine {
    /// Forgets the events with this code that are kept for processes that register later.
    pub fn forget_events(&mut self, code: Status) {
        self.events.retain(|event| event.notification.status != code);
    }

    /// A client registers for events; an empty list means all. For events that only the environment sees, the first registration is
    /// passed to the host.
    pub(super) fn register_events(&mut self, id: PeerId, tag: u32, codes: Vec<Status>, infos: Vec<Info>, now: Instant) {
        let mut of_host = self.unwanted(codes.iter().copied());
        of_host.dedup();
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let user = peer.user;
        if id != PeerId::OWN && peer.codes.len() + codes.len() > CODES_MAX {
            return self.refuse_more(id, tag, "event codes");
        }
        if codes.is_empty() {
            peer.default_events = true;
        }
        peer.codes.extend(codes);
        if of_host.is_empty() {
            self.events_registered(id, tag, now);
        } else {
            let then = Continuation::EventsRegistered(id, tag, of_host.clone());
            let mut infos = infos;
            sign(&mut infos, user);
            let time = timeout_of(&infos);
            self.upcall_within(then, id, Upcall::RegisterEvents { codes: of_host, infos }, (time, now));
        }
    }

    /// Takes the host's answer to the registration of `codes`. `ERR_NOT_SUPPORTED` is no failure: the host may report the events
    /// anyway, and so may clients.
    pub(super) fn host_registered_events(&mut self, id: PeerId, tag: u32, codes: &[Status], status: Status) {
        match status {
            Status::SUCCESS | Status::OPERATION_SUCCEEDED | Status::ERR_NOT_SUPPORTED => {
                self.events_registered(id, tag, self.now());
            }
            failed => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.codes.retain(|code| !codes.contains(code));
                }
                self.reply_status(id, tag, failed);
            }
        }
    }

    fn events_registered(&mut self, id: PeerId, tag: u32, now: Instant) {
        let cached = self.cached_for(id, now);
        self.reply_status(id, tag, Status::SUCCESS);
        for notification in cached {
            self.send_event(id, &notification);
        }
    }

    /// The codes that only the environment sees and that no client is registered for.
    fn unwanted(&self, codes: impl Iterator<Item = Status>) -> Vec<Status> {
        let system = Status::EVENT_SYS_OTHER.0..=Status::EVENT_SYS_BASE.0;
        codes.filter(|code| system.contains(&code.0) && !self.peers.values().any(|p| p.codes.contains(code))).collect()
    }

    /// A client has dropped its registration of some codes. Deregisters those without another registration at the host.
    pub(super) fn release_events(&mut self, codes: impl Iterator<Item = Status>) {
        let codes = self.unwanted(codes);
        if !codes.is_empty() {
            self.upcall(Continuation::Nothing, Upcall::DeregisterEvents { codes });
        }
    }

    /// Events from before the registration that the client has not had.
    fn cached_for(&mut self, id: PeerId, now: Instant) -> Vec<Arc<Notification>> {
        self.events.retain(|event| now.saturating_duration_since(event.since) < KEPT);
        let Some(peer) = self.peers.get(&id) else { return Vec::new() };
        let mut events = std::mem::take(&mut self.events.events);
        let mut found = Vec::new();
        for event in &mut events {
            let is_meant = wants(peer, &event.notification, event.range);
            if is_meant && self.may_send(event.sender.as_ref(), id, peer) && event.served.insert(id) {
                found.push(event.notification.clone());
            }
        }
        self.events.events = events;
        found
    }

    /// A client deregisters from these events; the smallest code means all.
    pub(super) fn deregister_events(&mut self, id: PeerId, codes: &[Status]) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let mut released = Vec::new();
        for code in codes {
            if code.0 == i32::MIN {
                peer.default_events = false;
            } else if peer.codes.remove(code) {
                released.push(*code);
            }
        }
        self.release_events(released.into_iter());
    }

    /// A client reports an event.
    pub(super) fn notify(&mut self, id: PeerId, tag: u32, code: Status, range: u8, mut infos: Vec<Info>, now: Instant) {
        let Some(source) = self.peers.get(&id).map(|peer| peer.proc.clone()) else { return };
        // Other servers do not know the ranks of this node, so names of that kind are resolved here.
        for info in infos.iter_mut().filter(|info| info.key.is(keys::EVENT_CUSTOM_RANGE)) {
            let named: Vec<Proc> = info.value.iter_procs().cloned().collect();
            match self.members_of(&source, named.clone()) {
                Ok(members) if members != named => info.value = Value::procs(members),
                Ok(_) => {}
                Err(status) => return self.reply_status(id, tag, status),
            }
        }
        let named = Info::find(&infos, keys::EVENT_CUSTOM_RANGE);
        if self.is_out_of_reach(id, named.iter().flat_map(|named| named.iter_procs())) {
            return self.reply_status(id, tag, REFUSED);
        }
        let copies = match Info::copies(&infos) {
            Ok(copies) => copies,
            Err(status) => return self.reply_status(id, tag, status),
        };
        self.deliver_event(Sender::Peer(id), code, &source, range, copies, now);
        // An event that the host itself reports is for its clients; it is not passed back to the host.
        if id == PeerId::OWN || range == Range::LOCAL || range == Range::PROC_LOCAL {
            self.reply_status(id, tag, Status::SUCCESS);
        } else {
            let time = timeout_of(&infos);
            let upcall = Upcall::NotifyEvent { code, source, range, infos };
            self.upcall_within(Continuation::Reply(id, tag, Shape::Notify), id, upcall, (time, now));
        }
    }

    /// Sends an event to the connected processes that are registered for it and that its sender reaches, and keeps it for later ones.
    pub(crate) fn deliver_event(
        &mut self,
        from: Sender,
        code: Status,
        source: &Proc,
        range: u8,
        mut infos: Vec<Info>,
        now: Instant,
    ) {
        if range == Range::PROC_LOCAL {
            return;
        }
        let (sender, except) = self.sender(from);
        if code == Status::GROUP_CONSTRUCT_COMPLETE {
            self.note_invited(source, &infos);
        }
        let keep = !Info::is_set(&infos, keys::EVENT_DO_NOT_CACHE);
        infos.push(Info::new(SERVER_INTERNAL_NOTIFY, Value::Bool(true)));
        let notification = Notification { status: code, source: source.clone(), infos, range: Some(range) };
        let mut receivers: Vec<PeerId> = self
            .peers
            .iter()
            .filter(|(id, peer)| Some(**id) != except && wants(peer, &notification, range))
            .filter(|(id, peer)| self.may_send(sender.as_ref(), **id, peer))
            .map(|(id, _)| *id)
            .collect();
        receivers.sort();
        for id in &receivers {
            self.send_event(*id, &notification);
        }
        if keep {
            let served = receivers.into_iter().chain(except).collect();
            // An event that cannot be packed is not kept, because it cannot be sent.
            if let Ok(packed) = notification.encode(EXCHANGE, Version::OURS) {
                self.events.keep(Cached {
                    notification: notification.into(),
                    range,
                    len: packed.len(),
                    since: now,
                    sender,
                    served,
                });
            }
        }
    }

    /// Sends an event to one peer, if it is registered for it; it is not kept.
    pub(super) fn tell_only(&mut self, id: PeerId, code: Status, mut infos: Vec<Info>) {
        let Some(peer) = self.peers.get(&id) else { return };
        infos.insert(0, Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)));
        infos.insert(1, Info::new(keys::EVENT_CUSTOM_RANGE, Value::Proc(peer.proc.clone())));
        infos.push(Info::new(SERVER_INTERNAL_NOTIFY, Value::Bool(true)));
        let (source, range) = (self.config.me.clone(), Range::CUSTOM);
        let notification = Notification { status: code, source, infos, range: Some(range) };
        if wants(peer, &notification, range) {
            self.send_event(id, &notification);
        }
    }

    /// The process that sent an event, unless it is the server or the host; and the connection that does not get the
    /// event.
    fn sender(&self, from: Sender) -> (Option<Actor>, Option<PeerId>) {
        match from {
            Sender::Server => (None, None),
            Sender::About(id) | Sender::Peer(id @ PeerId::OWN) => (None, Some(id)),
            Sender::Peer(id) => (self.peers.get(&id).map(Peer::actor), Some(id)),
        }
    }

    /// Whether a peer may get an event. The host gets all.
    fn may_send(&self, sender: Option<&Actor>, id: PeerId, peer: &Peer) -> bool {
        // Compared by user, too, because no registration names the user of a tool's namespace.
        let is_of_one_user = |sender: &Actor| sender.user.uid == peer.user.uid;
        let reaches = |sender: &Actor| {
            is_of_one_user(sender) || self.reach(&sender.proc, sender.user, &peer.proc.nspace) == Reach::All
        };
        id == PeerId::OWN || sender.is_none_or(reaches)
    }

    /// Calls the handlers of the server's own process. The host decides whether clients get the event.
    pub(super) fn tell_host_process(&mut self, code: Status, source: &Proc, infos: Vec<Info>) {
        let range = Range::PROC_LOCAL;
        let notification = Notification { status: code, source: source.clone(), infos, range: Some(range) };
        if self.peers.get(&PeerId::OWN).is_some_and(|own| wants(own, &notification, range)) {
            self.send_event(PeerId::OWN, &notification);
        }
    }

    fn send_event(&mut self, id: PeerId, notification: &Notification) {
        self.send(id, TAG_NOTIFY, |dialect, version| notification.encode(dialect, version));
    }
}

/// Whether a peer is registered for an event and in its `range`.
fn wants(peer: &Peer, event: &Notification, range: u8) -> bool {
    let non_default = Info::is_set(&event.infos, keys::EVENT_NON_DEFAULT);
    let asked = peer.codes.contains(&event.status) || (peer.default_events && !non_default);
    if !peer.admitted || !asked {
        return false;
    }
    match range {
        Range::RM => peer.proc.nspace.is_empty(),
        Range::NAMESPACE => peer.proc.nspace == event.source.nspace,
        Range::CUSTOM => {
            let named = Info::find(&event.infos, keys::EVENT_CUSTOM_RANGE);
            named.is_some_and(|named| named.iter_procs().any(|proc| proc.covers(&peer.proc)))
        }
        _ => true,
    }
}
