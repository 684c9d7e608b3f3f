//! The client of this process: counted, and found without a lock.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use pmix_dstore::model::{Info, Proc, Result, Status};

use crate::get::timeout_of;
use crate::hazard::{Guard, HazardCell, Slot};
use crate::thread_slot::ThreadSlotCache;
use crate::{Client, Environment, tool};

/// The client while there is one.
static CURRENT: HazardCell<Client> = HazardCell::new();
/// Where threads say that they use the client, of those that have a place.
static SLOTS: ThreadSlotCache<Slot<Client>> = ThreadSlotCache::new();
/// How often the process is initialised, for those who only ask.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Those of a tool.
static SERVERS: Mutex<Option<Arc<tool::Servers>>> = Mutex::new(None);
static STATE: Mutex<State> = Mutex::new(State { is_changing: false, count: 0 });
static CHANGED: Condvar = Condvar::new();

struct State {
    /// Somebody connects or says farewell, with the lock free: callbacks that run meanwhile may come here.
    is_changing: bool,
    count: usize,
}

thread_local! {
    /// Where this thread says that it uses the client, once it has done so.
    static SLOT: Cell<*const Slot<Client>> = const { Cell::new(ptr::null()) };
    /// The same, until the thread ends.
    static HAZARD_SLOT: CachedHazardSlot = CachedHazardSlot(CURRENT.new_slot());
}

/// A thread's hazard slot, which [`SLOTS`] and `SLOT` cache. The end of the thread takes it out of both caches.
struct CachedHazardSlot(Arc<Slot<Client>>);

impl Drop for CachedHazardSlot {
    fn drop(&mut self) {
        SLOTS.take(Arc::as_ptr(&self.0).cast_mut());
        SLOT.set(ptr::null());
        CURRENT.forget_slot(&self.0);
    }
}

/// A thread that says in its slot that it uses the client, for as long as this is borrowed: what it can reach then is not
/// dropped before it has done, see `is_unused`.
pub struct PinToken(());

#[cfg(test)]
impl PinToken {
    /// That of a test in which no other thread changes what is read.
    pub(crate) fn for_tests() -> PinToken {
        PinToken(())
    }
}

/// The client while it is used.
enum Using<'a> {
    /// As the thread's slot says.
    Said(Guard<'a, Client>),
    Counted(Client),
}

/// Runs `run` with the client of this process, if it is initialised, and shielded where the thread does not do so for its
/// first time. The client stays for so long, whoever finalizes.
#[inline]
pub fn with_current<R>(run: impl FnOnce(&Client, Option<&PinToken>) -> R) -> Option<R> {
    // SAFETY: what the pointers name is this thread's `HAZARD_SLOT`, which resets them when it goes.
    let slot = unsafe { SLOTS.get().as_ref().or_else(|| SLOT.get().as_ref()) };
    let using = match slot {
        // SAFETY: the slot is one of `CURRENT`'s and this thread's; it is free; it is forgotten when the thread ends.
        Some(slot) if slot.is_free() => Using::Said(unsafe { CURRENT.enter(slot) }?),
        _ => Using::Counted(hold_and_get_slot()?),
    };
    Some(match &using {
        Using::Said(client) => run(client, Some(&PinToken(()))),
        Using::Counted(client) => run(client, None),
    })
}

/// The same for what is worth it only where it costs next to nothing: where the thread has a place, and is shielded.
#[inline(always)]
pub fn with_pinned<R>(run: impl FnOnce(&Client, &PinToken) -> Option<R>) -> Option<R> {
    // SAFETY: as above.
    let slot = unsafe { SLOTS.get().as_ref() }.filter(|slot| slot.is_free())?;
    // SAFETY: as above.
    let client = unsafe { CURRENT.enter(slot) }?;
    run(&client, &PinToken(()))
}

/// Whether no other thread is shielded, so that what was put out of their reach before this call can be dropped.
pub(crate) fn is_unused() -> bool {
    CURRENT.is_unused(SLOT.get())
}

/// The client, counted: a thread's first time, or one within another, or one at the thread's very end.
#[cold]
fn hold_and_get_slot() -> Option<Client> {
    if SLOT.get().is_null() && CURRENT.is_set() {
        // Where the thread is ending, its slot may be gone already, and each time is the first.
        let _ = HAZARD_SLOT.try_with(|own| {
            let own = Arc::as_ptr(&own.0);
            SLOT.set(own);
            SLOTS.put(own.cast_mut());
        });
    }
    hold()
}

/// The client of this process while it is initialised, to be kept over a call that may wait for somebody: such a call
/// may outlast any number of finalizes.
pub fn hold() -> Option<Client> {
    CURRENT.hold().as_deref().cloned()
}

/// Connects on the first call, counts on later ones; gives this process's name.
///
/// # Errors
/// As [`Client::connect`]; `ERR_UNREACH` also where nobody launched the process, which then is initialised nevertheless:
/// it can read and store values of its own.
pub fn init(infos: &[Info]) -> Result<Proc> {
    let me = init_by(infos, || {
        let late = timeout_of(infos).and_then(|time| Instant::now().checked_add(time));
        let client = Client::connect(&Environment::from_process()?, infos)?;
        if let Err(status) = client.stop_in_init(late) {
            // It leaves as others do; what becomes of that is not what the caller is told.
            let _ = client.finalize(&[]);
            return Err(status);
        }
        Ok(client)
    })?;
    let is_alone = count() == 1 && hold().is_some_and(|client| client.is_singleton());
    if is_alone { Err(Status::ERR_UNREACH) } else { Ok(me) }
}

/// The same for a process that is a tool: see [`tool::connect`].
///
/// # Errors
/// As [`tool::connect`].
pub fn init_tool(infos: &[Info]) -> Result<Proc> {
    init_by(infos, || {
        let (client, servers) = tool::connect(Environment::from_process()?, infos)?;
        *SERVERS.lock() = Some(servers);
        Ok(client)
    })
}

/// The servers of this process, if it is a tool.
pub fn servers() -> Option<Arc<tool::Servers>> {
    SERVERS.lock().clone()
}

fn init_by(infos: &[Info], connect: impl FnOnce() -> Result<Client>) -> Result<Proc> {
    let mut state = STATE.lock();
    while state.is_changing {
        CHANGED.wait(&mut state);
    }
    if state.count == 0 {
        state.is_changing = true;
        drop(state);
        let client = connect();
        state = STATE.lock();
        state.is_changing = false;
        CHANGED.notify_all();
        let client = client?;
        let me = client.me().clone();
        client.declare_model(infos);
        let gone = set(&mut state, client);
        drop(state);
        drop(gone);
        return Ok(me);
    }
    state.count += 1;
    COUNT.store(state.count, Ordering::Relaxed);
    let client = hold().ok_or(Status::ERR_INIT)?;
    client.declare_model(infos);
    Ok(client.me().clone())
}

/// Makes `client` the client of this process, which then counts as initialised once.
///
/// # Errors
/// `ERR_EXISTS` where there is one.
pub fn install(client: Client) -> Result<()> {
    let mut state = STATE.lock();
    if state.count > 0 || state.is_changing {
        return Err(Status::ERR_EXISTS);
    }
    let gone = set(&mut state, client);
    drop(state);
    drop(gone);
    Ok(())
}

/// Undoes one [`init`] or [`install`]; the last one ends the connection.
///
/// # Errors
/// `ERR_INIT` where the process is not initialised; as [`Client::finalize`].
pub fn finalize(infos: &[Info]) -> Result<()> {
    let mut state = STATE.lock();
    if state.count == 0 || state.is_changing {
        return Err(Status::ERR_INIT);
    }
    if state.count > 1 {
        state.count -= 1;
        COUNT.store(state.count, Ordering::Relaxed);
        return Ok(());
    }
    let client = hold().ok_or(Status::ERR_INIT)?;
    state.is_changing = true;
    drop(state);
    let result = client.finalize(infos);
    drop(SERVERS.lock().take());
    let gone = CURRENT.take();
    let mut state = STATE.lock();
    COUNT.store(0, Ordering::Relaxed);
    state.count = 0;
    state.is_changing = false;
    CHANGED.notify_all();
    drop(state);
    drop(gone);
    result
}

/// How often the process is initialised.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Gives what nobody uses any more of the clients before, to be dropped outside the lock.
fn set(state: &mut State, client: Client) -> Vec<Arc<Client>> {
    state.count = 1;
    COUNT.store(1, Ordering::Relaxed);
    CURRENT.set(client)
}
