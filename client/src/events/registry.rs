//! The handlers of this process, and events kept for later handlers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pmix_dstore::model::{Info, Proc, Result, Status};

use super::directives::{Addressees, ChainPosition, Directives, is_meant};
use super::{Event, EventHandler, HandlerId, range};

/// The most events kept for later handlers. When it is reached, the oldest is dropped.
const KEPT_MAX: usize = 512;
/// The code under which handlers for all events are counted, here and in the server.
pub const DEFAULT_CODE: Status = Status(i32::MIN);

/// A registered handler.
pub struct Handler {
    /// Its number.
    pub id: HandlerId,
    /// The codes for which it is called; empty for all events.
    pub codes: Vec<Status>,
    /// The directives of its registration.
    pub directives: Directives,
    /// The function to call.
    pub call: EventHandler,
    is_live: AtomicBool,
}

impl Handler {
    /// Whether to call the handler now. `true` only once for a one-shot handler.
    pub fn take_turn(&self) -> bool {
        match self.directives.is_oneshot {
            true => self.is_live.swap(false, Ordering::AcqRel),
            false => self.is_live.load(Ordering::Acquire),
        }
    }

    /// Whether it is the library's own handler.
    pub fn is_observer(&self) -> bool {
        self.directives.place == ChainPosition::Observer
    }

    fn wants(&self, event: &Event, addressees: &Addressees, me: &Proc) -> bool {
        let for_code = match self.codes.is_empty() {
            true => !addressees.skips_default,
            false => self.codes.contains(&event.status),
        };
        for_code
            && self.directives.wants_source(&event.source, me)
            && self.directives.wants_affected(&addressees.affected)
    }

    fn is_named(&self, name: &[u8]) -> bool {
        self.directives.name.as_ref().and_then(|value| value.as_text()) == Some(name)
    }
}

/// Handlers in the order in which an event passes them.
#[derive(Default)]
struct Handlers {
    observers: Vec<Arc<Handler>>,
    first: Option<Arc<Handler>>,
    /// Handlers for one code, for several, for all.
    categories: [Vec<Arc<Handler>>; 3],
    last: Option<Arc<Handler>>,
    /// The newest id. Ids start at 1: Slurm 22.05 deregisters handler 0 before it finalizes the server. If that were a
    /// real handler, Slurm would get no lost-connection events from then on.
    id_last: HandlerId,
    /// For each code registered at the server, the number of handlers that need it.
    users: HashMap<Status, usize>,
    kept: VecDeque<Event>,
}

/// The handlers of this process.
#[derive(Default)]
pub struct Registry {
    handlers: Mutex<Handlers>,
}

/// The result of a registration.
pub struct Registered {
    /// The handler.
    pub handler: Arc<Handler>,
    /// The codes to register at the server; [`DEFAULT_CODE`] stands for all codes.
    pub new_codes: Vec<Status>,
}

impl Registry {
    /// Adds a handler.
    ///
    /// # Errors
    /// `ERR_EVENT_REGISTRATION` if its position is taken, or is relative to a handler that does not exist.
    pub fn add(&self, mut codes: Vec<Status>, directives: Directives, call: EventHandler) -> Result<Registered> {
        let mut handlers = self.handlers.lock();
        codes.dedup();
        let id = handlers.id_last + 1;
        let handler = Arc::new(Handler { id, codes, directives, call, is_live: AtomicBool::new(true) });
        handlers.insert(Arc::clone(&handler))?;
        handlers.id_last = id;
        let mut new_codes = Vec::new();
        for code in handler.codes_counted() {
            let users = handlers.users.entry(code).or_default();
            if *users == 0 {
                new_codes.push(code);
            }
            *users += 1;
        }
        Ok(Registered { handler, new_codes })
    }

    /// Removes a handler. Returns the codes to deregister at the server. Ignores unknown ids.
    pub fn remove(&self, id: HandlerId) -> Vec<Status> {
        let mut handlers = self.handlers.lock();
        let Some(handler) = handlers.take(id) else { return Vec::new() };
        handler.is_live.store(false, Ordering::Release);
        let mut unused = Vec::new();
        for code in handler.codes_counted() {
            if let Some(users) = handlers.users.get_mut(&code) {
                *users -= 1;
                if *users == 0 {
                    handlers.users.remove(&code);
                    unused.push(code);
                }
            }
        }
        unused
    }

    /// The codes that some handler needs from the server; [`DEFAULT_CODE`] for all codes.
    pub fn codes(&self) -> Vec<Status> {
        self.handlers.lock().users.keys().copied().collect()
    }

    /// Removes all handlers. None is called any more, neither for new events nor for those whose chain is running.
    pub fn close(&self) {
        let handlers = std::mem::take(&mut *self.handlers.lock());
        handlers.all().for_each(|handler| handler.is_live.store(false, Ordering::Release));
    }

    /// The handlers to call for an event, in order.
    pub fn matching(&self, event: &Event, me: &Proc) -> VecDeque<Arc<Handler>> {
        let addressees = Addressees::read(&event.infos);
        if !addressees.targets.is_empty() && !addressees.targets.iter().any(|target| is_meant(target, me)) {
            return VecDeque::new();
        }
        let handlers = self.handlers.lock();
        handlers.all().filter(|handler| handler.wants(event, &addressees, me)).cloned().collect()
    }

    /// Keeps an event for later handlers.
    pub fn keep(&self, event: Event) {
        let mut handlers = self.handlers.lock();
        if handlers.kept.len() == KEPT_MAX {
            handlers.kept.pop_front();
        }
        handlers.kept.push_back(event);
    }

    /// Removes and returns the kept events that a new handler matches.
    pub fn kept_for(&self, handler: &Handler, me: &Proc) -> Vec<Event> {
        let mut handlers = self.handlers.lock();
        let wanted = |event: &Event| handler.wants(event, &Addressees::read(&event.infos), me);
        let (wanted, kept) = std::mem::take(&mut handlers.kept).into_iter().partition::<Vec<_>, _>(wanted);
        handlers.kept = kept.into();
        wanted
    }
}

impl Handler {
    /// The codes that must be registered at the server for this handler.
    fn codes_counted(&self) -> Vec<Status> {
        match self.codes.as_slice() {
            _ if self.directives.range == range::PROC_LOCAL => Vec::new(),
            [] => vec![DEFAULT_CODE],
            codes => codes.to_vec(),
        }
    }

    /// The infos of an event as this handler gets them.
    pub fn infos(&self, infos: &Arc<[Info]>) -> Arc<[Info]> {
        use pmix_dstore::model::keys;
        let own =
            [(keys::EVENT_HDLR_NAME, &self.directives.name), (keys::EVENT_RETURN_OBJECT, &self.directives.object)];
        let own: Vec<_> = own.into_iter().filter_map(|(key, value)| Some(Info::new(key, value.clone()?))).collect();
        if own.is_empty() { Arc::clone(infos) } else { infos.iter().cloned().chain(own).collect() }
    }
}

impl Handlers {
    fn all(&self) -> impl Iterator<Item = &Arc<Handler>> {
        self.observers.iter().chain(&self.first).chain(self.categories.iter().flatten()).chain(&self.last)
    }

    fn insert(&mut self, handler: Arc<Handler>) -> Result<()> {
        const TAKEN: Status = Status::ERR_EVENT_REGISTRATION;
        match handler.directives.place {
            ChainPosition::FirstOverall if self.first.is_some() => return Err(TAKEN),
            ChainPosition::LastOverall if self.last.is_some() => return Err(TAKEN),
            ChainPosition::Observer => {
                self.observers.push(handler);
                return Ok(());
            }
            ChainPosition::FirstOverall => {
                self.first = Some(handler);
                return Ok(());
            }
            ChainPosition::LastOverall => {
                self.last = Some(handler);
                return Ok(());
            }
            _ => {}
        }
        let named = |slot: &Option<Arc<Handler>>, name: &[u8]| slot.as_ref().is_some_and(|other| other.is_named(name));
        let category = match handler.codes.len() {
            1 => &self.categories[0],
            0 => &self.categories[2],
            _ => &self.categories[1],
        };
        let starts = category.first().is_some_and(|other| other.directives.place == ChainPosition::First);
        let ends = category.last().is_some_and(|other| other.directives.place == ChainPosition::Last);
        let end = category.len();
        let at = match &handler.directives.place {
            ChainPosition::First if starts => return Err(TAKEN),
            ChainPosition::Last if ends => return Err(TAKEN),
            ChainPosition::First => 0,
            ChainPosition::Last => end,
            ChainPosition::Append => end - usize::from(ends),
            // `Before` and `After` may also name a handler that is always first or last; they then take precedence over
            // its position.
            ChainPosition::Before(name) => match category.iter().position(|other| other.is_named(name)) {
                Some(at) => at,
                None if named(&self.last, name) => end,
                None => return Err(TAKEN),
            },
            ChainPosition::After(name) => match category.iter().position(|other| other.is_named(name)) {
                Some(at) => at + 1,
                None if named(&self.first, name) => 0,
                None => return Err(TAKEN),
            },
            _ => usize::from(starts),
        };
        let index = match handler.codes.len() {
            1 => 0,
            0 => 2,
            _ => 1,
        };
        self.categories[index].insert(at, handler);
        Ok(())
    }

    fn take(&mut self, id: HandlerId) -> Option<Arc<Handler>> {
        if let Some(at) = self.observers.iter().position(|handler| handler.id == id) {
            return Some(self.observers.remove(at));
        }
        if let Some(handler) = self.first.take_if(|handler| handler.id == id) {
            return Some(handler);
        }
        if let Some(handler) = self.last.take_if(|handler| handler.id == id) {
            return Some(handler);
        }
        self.categories.iter_mut().find_map(|category| {
            let at = category.iter().position(|handler| handler.id == id)?;
            Some(category.remove(at))
        })
    }
}
