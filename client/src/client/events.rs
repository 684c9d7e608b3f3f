//! Registering handlers and telling of events.

use std::sync::{Arc, Weak};

use pmix_dstore::model::attributes::check_required;
use pmix_dstore::model::{Info, Proc, Rank, Result, Status, Value, keys};

use super::{Client, ClientKind, Inner};
use crate::events::chain::Runner;
use crate::events::directives::{ChainPosition, Directives};
use crate::events::registry::{DEFAULT_CODE, Handler, Registered};
use crate::events::{Chain, Event, EventHandler, HandlerId, range};
use crate::operation::{Operation, outcome};
use pmix_wire::Request;
use pmix_wire::reply::StatusReply;

/// With this info a server marks events that have been through it.
const SEEN_BY_SERVER: &str = "pmix.srvr.internal.notify";

impl Client {
    /// Registers a handler for `codes`, for all events where there are none.
    ///
    /// `infos` are the directives of `PMIx_Register_event_handler`. From now on there is a thread on which callbacks run.
    /// The handler may be called before the operation is done.
    pub fn register_event_handler(
        &self,
        codes: Vec<Status>,
        infos: Vec<Info>,
        handler: EventHandler,
    ) -> Operation<HandlerId> {
        // Of events that only the environment sees the host is told, with the directives.
        let of_host = Status::EVENT_SYS_OTHER.0..=Status::EVENT_SYS_BASE.0;
        let is_of_host = codes.iter().any(|code| of_host.contains(&code.0));
        let checked = if is_of_host { Ok(()) } else { check_required(&infos) };
        let directives = checked.and_then(|()| Directives::read(infos));
        match directives.and_then(|directives| self.with_ranks_of_node(directives)) {
            Ok(directives) => self.register(codes, directives, handler),
            Err(status) => Operation::ready(&self.inner.link, Err(status)),
        }
    }

    /// Names the processes of this node from which events are wanted.
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

    /// Lets the library itself hear of events in front of all handlers, until the handler is taken away. That may happen
    /// before this returns: `hear` is told the handler's number.
    ///
    /// # Errors
    /// Where the server does not tell of them.
    pub(crate) fn observe(
        &self,
        codes: Vec<Status>,
        hear: impl Fn(HandlerId, &Event) + Send + Sync + 'static,
    ) -> Result<HandlerId> {
        let directives = Directives { place: ChainPosition::Observer, ..Directives::default() };
        let handler: EventHandler = Arc::new(move |id, event, _done| hear(id, &event));
        self.register(codes, directives, handler).wait()
    }

    fn register(&self, codes: Vec<Status>, directives: Directives, handler: EventHandler) -> Operation<HandlerId> {
        let inner = &self.inner;
        let Registered { handler, mut new_codes } = match inner.registry.add(codes, directives, handler) {
            Ok(registered) => registered,
            Err(status) => return Operation::ready(&inner.link, Err(status)),
        };
        // From now on somebody must listen to the server.
        inner.link.defer(Box::new(|| {}));
        let has_server = inner.kind != ClientKind::Singleton || inner.link.has_server();
        if new_codes.is_empty() || !has_server {
            inner.replay(&handler);
            return Operation::ready(&inner.link, Ok(handler.id));
        }
        // A handler for all events is registered by naming none.
        new_codes.retain(|code| *code != DEFAULT_CODE);
        let infos = handler.directives.for_server.clone();
        let payload = match inner.encode(&Request::RegisterEvents { codes: new_codes, infos }) {
            Ok(payload) => payload,
            Err(status) => {
                inner.registry.remove(handler.id);
                return Operation::ready(&inner.link, Err(status));
            }
        };
        let registering = Arc::clone(inner);
        Operation::ask(&inner.link, payload, None, move |reply| {
            let result = reply.and_then(|reply| outcome(registering.decode::<StatusReply>(&reply)?.status));
            match result {
                Ok(()) => registering.replay(&handler),
                Err(_) => drop(registering.registry.remove(handler.id)),
            }
            result.map(|()| handler.id)
        })
    }

    /// Takes a handler away. It is not called any more once this has returned, but a call may be under way. This does not
    /// fail: callers wait for the operation's end whatever has become of the server.
    pub fn deregister_event_handler(&self, id: HandlerId) -> Operation<()> {
        self.inner.retire(id);
        Operation::ready(&self.inner.link, Ok(()))
    }

    /// Tells others, and the own handlers, of an event. `range` is a `pmix_data_range_t`.
    ///
    /// The server does not send the event back; the own handlers run when it has taken it.
    pub fn notify_event(&self, status: Status, source: Proc, range: u8, infos: Vec<Info>) -> Operation<()> {
        let inner = &self.inner;
        let event = Event::new(status, source, infos);
        if range == range::PROC_LOCAL || status == Status::ERR_LOST_CONNECTION {
            inner.notify_here(event);
            return Operation::ready(&inner.link, Ok(()));
        }
        if inner.kind == ClientKind::Singleton {
            return Operation::ready(&inner.link, Err(Status::ERR_UNREACH));
        }
        let request = Info::copies(&event.infos).map(|infos| Request::Notify { status, range, infos });
        let payload = match request.and_then(|request| inner.encode(&request)) {
            Ok(payload) => payload,
            Err(status) => return Operation::ready(&inner.link, Err(status)),
        };
        let telling = Arc::clone(inner);
        Operation::ask(&inner.link, payload, None, move |reply| {
            telling.deliver(event);
            outcome(telling.decode::<StatusReply>(&reply?)?.status)
        })
    }

    /// Tells handlers in this process, present and future, that a programming model is in use, if the infos of
    /// `PMIx_Init` name one.
    pub fn declare_model(&self, infos: &[Info]) {
        const MODEL: [&str; 4] =
            [keys::PROGRAMMING_MODEL, keys::MODEL_LIBRARY_NAME, keys::MODEL_LIBRARY_VERSION, keys::THREADING_MODEL];
        let told = infos.iter().filter(|info| MODEL.iter().any(|key| info.key.is(key)));
        let mut told: Vec<_> = told.cloned().collect();
        if !told.is_empty() {
            told.push(Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)));
            self.inner.notify_here(Event::new(Status::MODEL_DECLARED, self.me().clone(), told));
        }
    }
}

impl Inner {
    /// Runs the handlers for an event that came from the server or was made here.
    pub(crate) fn deliver(self: &Arc<Inner>, mut event: Event) {
        if event.infos.iter().any(|info| info.key.is(SEEN_BY_SERVER)) {
            event.infos = event.infos.iter().filter(|info| !info.key.is(SEEN_BY_SERVER)).cloned().collect();
        }
        self.notify_here(event);
    }

    /// Runs the handlers for an event. It is kept where the program does not hear it yet: the server, which does not know
    /// from whom and about whom each handler wants to hear, takes it for told.
    pub(crate) fn notify_here(self: &Arc<Inner>, event: Event) {
        let handlers = self.registry.matching(&event, &self.me);
        let is_heard = handlers.iter().any(|handler| !handler.is_observer());
        if !is_heard && !Info::is_set(&event.infos, keys::EVENT_DO_NOT_CACHE) {
            self.registry.keep(event.clone());
        }
        Chain::new(event, handlers, self.runner()).proceed();
    }

    /// Lets a new handler hear what was kept for it. The library itself wants no old news.
    fn replay(self: &Arc<Inner>, handler: &Arc<Handler>) {
        if handler.is_observer() {
            return;
        }
        for event in self.registry.kept_for(handler, &self.me) {
            Chain::new(event, [Arc::clone(handler)].into(), self.runner()).proceed();
        }
    }

    /// Takes a handler away, and tells the server of codes that nobody hears any more.
    fn retire(&self, id: HandlerId) {
        let codes = self.registry.remove(id);
        if codes.is_empty() || self.kind == ClientKind::Singleton {
            return;
        }
        if let Ok(payload) = self.encode(&Request::DeregisterEvents { codes }) {
            // Where the connection is lost there is nobody to tell.
            let _ = self.link.send(payload);
        }
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
