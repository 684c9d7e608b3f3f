//! The client of this process: initialisation is counted, and a Get finds the client without a lock.

mod forks;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Info, Proc, Result, Status, keys};

use crate::forked::{Condvar, Mutex};
use crate::get_options::timeout_of;
use crate::hazard::{Guard, HazardCell};
use crate::link::progress_externally;
use crate::pin::{self, Reader};
pub use crate::pin::{PinToken, Reading};
use crate::{AttributeLevel, Client, Environment, hazard, recorder, tool};
pub use forks::watch_forks;

/// The client while the process is initialised.
static CURRENT: HazardCell<Client> = HazardCell::new(&pin::SLOTS);
/// A copy of `State::count`, readable without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The servers of a tool.
static SERVERS: Mutex<Option<Arc<tool::Servers>>> = Mutex::new(None);
static STATE: Mutex<State> = Mutex::new(State { changed_by: 0, count: 0, is_unreached: false });
static CHANGED: Condvar = Condvar::new();

struct State {
    /// The process in which a thread is connecting or disconnecting; 0 for none. It does so without the lock, because callbacks that run
    /// meanwhile may need it.
    changed_by: u32,
    count: usize,
    /// A launcher has started this process, and its server was not to be reached.
    is_unreached: bool,
}

impl State {
    /// Whether a thread is connecting or disconnecting. One of the process that has forked this one will not end that here.
    fn is_changing(&self) -> bool {
        self.changed_by == std::process::id()
    }
}

/// The two ways to keep the client alive during a call.
enum Using<'a> {
    /// By the thread's hazard slot.
    Pinned(Guard<'a, Client>),
    Counted(Client),
}

/// Runs `run` with the client, if the process is initialised. There is a pin except in a thread's first call and in
/// nested calls. The client lives until `run` returns, even if another thread finalizes.
#[inline]
pub fn with_current<R>(run: impl FnOnce(&Client, Option<&PinToken>) -> R) -> Option<R> {
    Some(match &using()? {
        // SAFETY: the guard has the slot for longer than the call.
        Using::Pinned(client) => run(client, Some(&unsafe { PinToken::new() })),
        Using::Counted(client) => run(client, None),
    })
}

/// As [`with_current`], for what reads in the mapped segments and nothing else.
#[inline]
pub fn with_reading<R>(run: impl FnOnce(&Client, Reading<'_>) -> R) -> Option<R> {
    match using()? {
        // SAFETY: the guard has the slot for longer than the call.
        Using::Pinned(client) => Some(run(&client, unsafe { PinToken::new() }.reading())),
        Using::Counted(client) => Some(with_counted(&client, run)),
    }
}

/// Apart, so that the code for a pinned thread has nothing to undo.
#[cold]
#[inline(never)]
fn with_counted<R>(client: &Client, run: impl FnOnce(&Client, Reading<'_>) -> R) -> R {
    run(client, Reader::new(None).reading())
}

/// The client, kept alive by the thread's slot if that is free.
#[inline(always)]
fn using<'a>() -> Option<Using<'a>> {
    // SAFETY: it is used by this thread, within the call of the caller, which the result does not outlive.
    let slot = unsafe { pin::slot() };
    Some(match slot {
        // SAFETY: the slot is of `CURRENT` and of this thread, is free, and is removed only when the thread ends.
        Some(slot) if slot.is_free() => Using::Pinned(unsafe { CURRENT.enter(slot) }?),
        _ => Using::Counted(hold_and_get_slot()?),
    })
}

/// As [`with_current`], but only if it costs very little: if the thread owns a line in the cache of `pin` and its slot is free.
/// Otherwise `None`, and the caller uses the general way.
#[inline(always)]
pub fn with_pinned<R>(run: impl FnOnce(&Client, &PinToken) -> Option<R>) -> Option<R> {
    // SAFETY: as above.
    let slot = unsafe { pin::cached_slot() }.filter(|slot| slot.is_free())?;
    // SAFETY: as above.
    let client = unsafe { CURRENT.enter(slot) }?;
    // SAFETY: the guard has the slot for longer than the call.
    run(&client, &unsafe { PinToken::new() })
}

/// The client with a reference count: for a thread's first call, a nested call, or a call while the thread ends.
#[cold]
fn hold_and_get_slot() -> Option<Client> {
    if CURRENT.is_set() {
        // While the thread ends, it gets no slot; then each call counts references.
        pin::get_slot();
    }
    hold()
}

/// The client of this process while it is initialised, for a call that may block: the reference keeps the client alive
/// across any number of finalizes.
///
/// Without the cell's lock where the thread has a free slot: in a forked child, a thread of the parent may hold that lock for ever.
pub fn hold() -> Option<Client> {
    // SAFETY: it is used by this thread, within this call.
    match unsafe { pin::free_slot() } {
        // SAFETY: the slot is of `CURRENT` and of this thread, is free, and is removed only when the thread ends.
        Some(slot) => unsafe { CURRENT.enter(slot) }.as_deref().cloned(),
        None => CURRENT.hold().as_deref().cloned(),
    }
}

/// Prepares the library in a process that still has one thread; must be called before a server starts its thread.
pub fn prepare() {
    hazard::prepare();
}

/// Connects on the first call, counts on later ones; returns this process's name. Any call with `PMIX_SERVER_URI` connects a
/// singleton to that server.
///
/// # Errors
/// As [`Client::connect`]; `ERR_UNREACH` also in a singleton, which is initialised nevertheless: it can store and read
/// its own values. So is, as in the stock library, a process whose server is not to be reached: Open MPI 5 takes that status for the one
/// of a singleton, goes on, and waits without end for the number of an event handler.
pub fn init(infos: &[Info]) -> Result<Proc> {
    let me = init_by(infos, || {
        let deadline = timeout_of(infos).and_then(|time| Instant::now().checked_add(time));
        let env = Environment::from_process()?;
        let client = match Client::connect(&env, infos) {
            Err(Status::ERR_UNREACH) => {
                let client = Client::alone(&env)?;
                STATE.wait_lock().is_unreached = true;
                return Ok(client);
            }
            connected => connected?,
        };
        if let Err(status) = client.stop_in_init(deadline) {
            // Disconnects in the normal way. The caller gets the first error, not one of the finalize.
            let _ = client.finalize(&[]);
            return Err(status);
        }
        Ok(client)
    })?;
    let Some(client) = hold() else { return Ok(me) };
    // The call counts even if this fails, as in the stock library.
    client.join_server(infos)?;
    if client.is_singleton() && (count() == 1 || is_unreached()) { Err(Status::ERR_UNREACH) } else { Ok(me) }
}

/// Whether this process is initialised without the server that its environment names: nobody answered there.
pub fn is_unreached() -> bool {
    STATE.wait_lock().is_unreached
}

/// As [`init`] for a tool: see [`tool::connect`].
///
/// # Errors
/// As [`tool::connect`].
pub fn init_tool(infos: &[Info]) -> Result<Proc> {
    init_by(infos, || {
        let (client, servers) = tool::connect(Environment::from_process()?, infos)?;
        *SERVERS.wait_lock() = Some(servers);
        Ok(client)
    })
}

/// The servers of this process, if it is a tool.
pub fn servers() -> Option<Arc<tool::Servers>> {
    SERVERS.wait_lock().clone()
}

/// At which level the attributes that this process declares are listed.
pub fn attribute_level() -> AttributeLevel {
    if SERVERS.wait_lock().is_some() { AttributeLevel::Tool } else { AttributeLevel::Client }
}

fn init_by(infos: &[Info], connect: impl FnOnce() -> Result<Client>) -> Result<Proc> {
    let mut state = STATE.wait_lock();
    while state.is_changing() {
        state = CHANGED.wait(state);
    }
    if state.count == 0 {
        state.changed_by = std::process::id();
        drop(state);
        let is_external = Info::is_set(infos, keys::EXTERNAL_PROGRESS);
        // The reserve comes before all that allocates: without it a failed allocation would end the process.
        let client = fallible_alloc::reserve_emergency().and_then(|()| {
            prepare();
            watch_forks();
            progress_externally(is_external);
            connect()
        });
        state = STATE.wait_lock();
        state.changed_by = 0;
        CHANGED.notify_all();
        if client.is_err() {
            progress_externally(false);
        }
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

/// Makes `client` the client of this process, which then has an initialisation count of 1.
///
/// # Errors
/// `ERR_EXISTS` where there is one.
pub fn install(client: Client) -> Result<()> {
    let mut state = STATE.wait_lock();
    if state.count > 0 || state.is_changing() {
        return Err(Status::ERR_EXISTS);
    }
    let gone = set(&mut state, client);
    drop(state);
    drop(gone);
    watch_forks();
    Ok(())
}

/// Undoes one [`init`] or [`install`]; the last one ends the connection.
///
/// # Errors
/// `ERR_INIT` where the process is not initialised; as [`Client::finalize`].
pub fn finalize(infos: &[Info]) -> Result<()> {
    let mut state = STATE.wait_lock();
    if state.count == 0 || state.is_changing() {
        return Err(Status::ERR_INIT);
    }
    if state.count > 1 {
        state.count -= 1;
        COUNT.store(state.count, Ordering::Relaxed);
        return Ok(());
    }
    let client = hold().ok_or(Status::ERR_INIT)?;
    state.changed_by = std::process::id();
    drop(state);
    let result = client.finalize(infos);
    recorder::stop();
    progress_externally(false);
    let servers = SERVERS.wait_lock().take();
    drop(servers);
    let gone = CURRENT.take();
    let mut state = STATE.wait_lock();
    COUNT.store(0, Ordering::Relaxed);
    (state.count, state.is_unreached) = (0, false);
    state.changed_by = 0;
    CHANGED.notify_all();
    drop(state);
    drop(gone);
    result
}

/// The initialisation count of the process.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Returns former clients that are no longer in use, for the caller to drop outside the lock.
fn set(state: &mut State, client: Client) -> Vec<Arc<Client>> {
    state.count = 1;
    COUNT.store(1, Ordering::Relaxed);
    CURRENT.set(client)
}
