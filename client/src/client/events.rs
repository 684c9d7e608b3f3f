//! Registering event handlers and sending events.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pmix_dstore::model::attributes::check_required;
use pmix_dstore::model::{Info, Proc, Rank, Result, Status, Value, keys};

use super::{Client, ClientKind, Inner};
use crate::Link;
use crate::events::chain::Runner;
use crate::events::directives::{ChainPosition, Directives};
use crate::events::registry::{DEFAULT_CODE, Handler, Registered};
use crate::events::{Chain, Event, EventHandler, HandlerId, is_in_handler, range};
use crate::get_options::timeout_of;
use crate::late::Limited;
use crate::operation::{Operation, Requests, outcome};
use pmix_wire::reply::StatusReply;
use pmix_wire::{Reply, Request};

/// A server adds this info to events that it has forwarded.
const SEEN_BY_SERVER: &str = "pmix.srvr.internal.notify";

impl Client {
    /// Registers a handler for `codes`, or for all events if `codes` is empty.
    ///
    /// `infos` are the directives of `PMIx_Register_event_handler`. This call starts the callback thread. The handler
    /// may be called before the operation is done.
    pub fn register_event_handler(
        &self,
        codes: Vec<Status>,
        infos: Vec<Info>,
        handler: EventHandler,
    ) -> Operation<HandlerId> {
        // System events come from the host, which gets the directives and checks the required ones itself.
        let timeout = timeout_of(&infos);
        let of_host = Status::EVENT_SYS_OTHER.0..=Status::EVENT_SYS_BASE.0;
        let is_of_host = codes.iter().any(|code| of_host.contains(&code.0));
        let checked = if is_of_host { Ok(()) } else { check_required(&infos) };
        let directives = checked.and_then(|()| {
            let (infos, is_of_connection) = self.inner.with_real_names(infos)?;
            let mut directives = Directives::read(infos)?;
            // Its members are of several namespaces.
            if is_of_connection && directives.range == range::NAMESPACE {
                directives.range = range::CUSTOM;
            }
            Ok(directives)
        });
        match directives.and_then(|directives| self.with_ranks_of_node(directives)) {
            Ok(directives) => self.register(codes, directives, timeout, handler),
            Err(status) => Operation::ready(&self.inner.link, Err(status)),
        }
    }

    /// Replaces the ranks `LOCAL_NODE` and `LOCAL_PEERS` among the sources by the processes that they denote.
    fn with_ranks_of_node(&self, mut directives: Directives) -> Result<Directives> {
        let mut sources = Vec::new();
        for source in std::mem::take(&mut directives.sources) {
            match source.rank {
                Rank::LOCAL_NODE => sources.extend(self.resolve_peers(None, None)?),
                Rank::LOCAL_PEERS => sources.extend(self.resolve_peers(None, Some(&source.nspace))?),
                _ => sources.push(source),
            }
        }
        Ok(Directives { sources, ..directives })
    }

    /// Registers an observer: the library's own handler, called before all others until it is deregistered. Events may
    /// arrive before this returns; `on_event` gets the handler's id so that it can deregister itself even then.
    ///
    /// # Errors
    /// If the server refuses the registration.
    pub(crate) fn observe(
        &self,
        codes: Vec<Status>,
        timeout: Option<Duration>,
        on_event: impl Fn(HandlerId, &Event) + Send + Sync + 'static,
    ) -> Result<HandlerId> {
        let directives = Directives { place: ChainPosition::Observer, ..Directives::default() };
        let handler: EventHandler = Arc::new(move |id, event, _done| on_event(id, &event));
        self.register(codes, directives, timeout, handler).wait()
    }

    fn register(
        &self,
        codes: Vec<Status>,
        directives: Directives,
        timeout: Option<Duration>,
        handler: EventHandler,
    ) -> Operation<HandlerId> {
        let inner = &self.inner;
        let Registered { handler, mut new_codes } = match inner.registry.add(codes, directives, handler) {
            Ok(registered) => registered,
            Err(status) => return Operation::ready(&inner.link, Err(status)),
        };
        // The callback thread must run from now on to receive the server's messages.
        inner.link.defer(Box::new(|| {}));
        if new_codes.is_empty() || !inner.has_server() {
            inner.replay(&handler);
            return Operation::ready(&inner.link, Ok(handler.id));
        }
        // A request without codes registers for all events.
        new_codes.retain(|code| *code != DEFAULT_CODE);
        let request = Request::RegisterEvents { codes: new_codes, infos: handler.directives.for_server.clone() };
        let encoded = inner.encode(&request).and_then(|payload| Ok((payload, inner.encode_for_further(&request)?)));
        let (payload, further) = match encoded {
            Ok(encoded) => encoded,
            Err(status) => {
                inner.registry.remove(handler.id);
                return Operation::ready(&inner.link, Err(status));
            }
        };
        let registering = Arc::clone(inner);
        let limited = timeout.map(|_| Limited::by(&request));
        Operation::ask(&inner.link, payload, timeout, move |reply| {
            if let Some(limited) = limited {
                limited.ended(&*registering.link, &registering.me, &reply);
            }
            let result = reply.and_then(|reply| outcome(registering.decode::<StatusReply>(&reply)?.status));
            match result {
                Ok(()) => registering.replay(&handler),
                Err(_) => drop(registering.registry.remove(handler.id)),
            }
            result.map(|()| handler.id)
        })
        .then_ask(further)
    }

    /// Removes a handler. No new call of it starts after this has returned, but a call may still be running. This never
    /// fails, so that callers need not handle a lost server.
    pub fn deregister_event_handler(&self, id: HandlerId) -> Operation<()> {
        self.inner.retire(id);
        Operation::ready(&self.inner.link, Ok(()))
    }

    /// Sends an event to other processes and to this process's own handlers. `range` is a `pmix_data_range_t`.
    ///
    /// The server does not send the event back; the own handlers run when the server has answered.
    pub fn notify_event(&self, status: Status, source: Proc, range: u8, infos: Vec<Info>) -> Operation<()> {
        let timeout = timeout_of(&infos);
        self.notify_event_within(timeout, status, source, range, infos)
    }

    /// As [`Client::notify_event`], with a time limit that the other processes do not see.
    pub(crate) fn notify_event_within(
        &self,
        timeout: Option<Duration>,
        status: Status,
        source: Proc,
        range: u8,
        infos: Vec<Info>,
    ) -> Operation<()> {
        let inner = &self.inner;
        let (source, range, infos) = match inner.event_with_real_names(source, range, infos) {
            Ok(event) => event,
            Err(status) => return Operation::ready(&inner.link, Err(status)),
        };
        let event = Event::new(status, source, infos);
        if range == range::PROC_LOCAL || status == Status::ERR_LOST_CONNECTION {
            inner.notify_here(event);
            return Operation::ready(&inner.link, Ok(()));
        }
        if inner.kind() == ClientKind::Singleton {
            return Operation::ready(&inner.link, Err(Status::ERR_UNREACH));
        }
        let request = Info::copies(&event.infos).map(|infos| Request::Notify { status, range, infos });
        let encoded = request.and_then(|request| Ok((inner.encode(&request)?, timeout.map(|_| Limited::by(&request)))));
        let (payload, limited) = match encoded {
            Ok(encoded) => encoded,
            Err(status) => return Operation::ready(&inner.link, Err(status)),
        };
        let sender = Arc::clone(inner);
        Operation::ask(&inner.link, payload, timeout, move |reply| {
            if let Some(limited) = limited {
                limited.ended(&*sender.link, &sender.me, &reply);
            }
            sender.deliver(event);
            outcome(sender.decode::<StatusReply>(&reply?)?.status)
        })
    }

    /// Sends `PMIX_MODEL_DECLARED` to handlers in this process, present and future, if the infos of `PMIx_Init` name a
    /// programming model.
    pub fn declare_model(&self, infos: &[Info]) {
        const MODEL: [&str; 4] =
            [keys::PROGRAMMING_MODEL, keys::MODEL_LIBRARY_NAME, keys::MODEL_LIBRARY_VERSION, keys::THREADING_MODEL];
        let model = infos.iter().filter(|info| MODEL.iter().any(|key| info.key.is(key)));
        let mut model: Vec<_> = model.cloned().collect();
        if !model.is_empty() {
            model.push(Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)));
            self.inner.notify_here(Event::new(Status::MODEL_DECLARED, self.me().clone(), model));
        }
    }
}

/// How long a server may take to register what this process's handlers want to hear.
const REGISTER_TIME: Duration = Duration::from_secs(30);

impl Inner {
    /// Runs the handlers for an event that the server or this process sent.
    pub(crate) fn deliver(self: &Arc<Inner>, mut event: Event) {
        if event.infos.iter().any(|info| info.key.is(SEEN_BY_SERVER)) {
            event.infos = event.infos.iter().filter(|info| !info.key.is(SEEN_BY_SERVER)).cloned().collect();
        }
        self.notify_here(event);
    }

    /// Runs the handlers for an event. Keeps the event for later handlers if no handler of the application matches it.
    /// The server will not send it again: it knows the codes of each client's handlers, but not their filters by source
    /// and affected process, and regards the event as delivered.
    pub(crate) fn notify_here(self: &Arc<Inner>, event: Event) {
        let handlers = self.registry.matching(&event, &self.me);
        let is_taken = handlers.iter().any(|handler| !handler.is_observer());
        if !is_taken && !Info::is_set(&event.infos, keys::EVENT_DO_NOT_CACHE) {
            self.registry.keep(event.clone());
        }
        Chain::new(event, handlers, self.runner()).proceed();
    }

    /// Runs a new handler for the kept events that it matches. Observers get no old events.
    fn replay(self: &Arc<Inner>, handler: &Arc<Handler>) {
        if handler.is_observer() {
            return;
        }
        for event in self.registry.kept_for(handler, &self.me) {
            Chain::new(event, [Arc::clone(handler)].into(), self.runner()).proceed();
        }
    }

    /// Tells a server that this process has joined what its handlers want to hear.
    pub(crate) fn register_events_again(self: &Arc<Inner>) -> Result<()> {
        self.register_events_at(&*self.link)
    }

    /// The requests that tell a server what this process's handlers want to hear.
    pub(crate) fn registrations(&self) -> Vec<Request> {
        let (all, codes): (Vec<_>, Vec<_>) = self.registry.codes().into_iter().partition(|code| *code == DEFAULT_CODE);
        // A handler for all events is registered by naming none.
        let of_all = (!all.is_empty()).then(Vec::new);
        let of_codes = Some(codes).filter(|codes| !codes.is_empty());
        of_codes.into_iter().chain(of_all).map(|codes| Request::RegisterEvents { codes, infos: Vec::new() }).collect()
    }

    /// Tells the server of a link what this process's handlers want to hear. A handler cannot wait for the server's
    /// answer: this thread may be the one that receives it.
    pub(crate) fn register_events_at(&self, link: &dyn Link) -> Result<()> {
        let requests = self.registrations();
        if requests.is_empty() {
            return Ok(());
        }
        // From now on somebody must listen to the server.
        link.defer(Box::new(|| {}));
        for request in requests {
            let payload = request.encode(link.dialect(), link.server_version())?;
            if is_in_handler() {
                link.request(payload, Box::new(|_| {}));
                continue;
            }
            let reply = link.request_wait(payload.into(), Some(Instant::now() + REGISTER_TIME))?;
            outcome(StatusReply::decode(link.dialect(), link.server_version(), &reply)?.status)?;
        }
        Ok(())
    }

    /// Removes a handler, and deregisters at the server the codes that no remaining handler needs.
    fn retire(&self, id: HandlerId) {
        let codes = self.registry.remove(id);
        if codes.is_empty() || !self.has_server() {
            return;
        }
        let request = Request::DeregisterEvents { codes };
        // Ignore a lost connection: the server has dropped the registration with it.
        let _ = self.encode(&request).and_then(|payload| self.link.send(payload));
        for (link, payload) in self.encode_for_further(&request).unwrap_or_default() {
            let _ = link.send(payload);
        }
    }

    /// Whether there is a server that wants to know of handlers.
    fn has_server(&self) -> bool {
        self.kind() != ClientKind::Singleton || self.link.has_server()
    }

    /// A request for each server of a tool that it does not use now. Handlers hear of these servers' events, too.
    fn encode_for_further(&self, request: &Request) -> Result<Requests> {
        let encoded = self.link.further().into_iter().map(|link| {
            let payload = request.encode(link.dialect(), link.server_version())?;
            Ok((link, payload))
        });
        encoded.collect()
    }

    fn runner(self: &Arc<Inner>) -> Runner {
        let inner = Arc::downgrade(self);
        let retire = move |id| {
            if let Some(inner) = Weak::upgrade(&inner) {
                inner.retire(id);
            }
        };
        Runner { link: Arc::downgrade(&self.link), retire: Arc::new(retire) }
    }
}
