//! The client of this process: counted, and found without a lock.
//!
//! This is the one module of the crate with `unsafe`: [`current`] is on the path of every Get, and must cost no more
//! than a load.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use pmix_dstore::model::{Info, Proc, Result, Status};

use crate::{Client, Environment};

/// The client while there is one; it belongs to [`STATE`].
static CURRENT: AtomicPtr<Client> = AtomicPtr::new(std::ptr::null_mut());
/// How often the process is initialised, for those who only ask.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static STATE: Mutex<State> = Mutex::new(State { is_changing: false, count: 0, live: None, retired: None });
static CHANGED: Condvar = Condvar::new();

struct State {
    /// Somebody connects or says farewell, with the lock free: callbacks that run meanwhile may come here.
    is_changing: bool,
    count: usize,
    live: Option<Arc<Client>>,
    /// The one before: a call that raced with the last finalize may still use it.
    retired: Option<Arc<Client>>,
}

/// The client of this process while it is initialised.
///
/// The reference stays good for a call that races with the last finalize: the client is kept until the process has been
/// initialised and finalized once more. What may wait uses [`hold`].
#[inline]
pub fn current() -> Option<&'static Client> {
    let client = CURRENT.load(Ordering::Acquire);
    // SAFETY: the pointer is null or that of the client in `live`, stored after the client was complete. Finalize moves
    // it to `retired`, where it stays until another client takes its place there.
    unsafe { client.as_ref() }
}

/// The client of this process while it is initialised, to be kept over a call that may wait for somebody: such a call
/// may outlast any number of finalizes.
pub fn hold() -> Option<Client> {
    STATE.lock().live.as_deref().cloned()
}

/// Connects on the first call, counts on later ones; gives this process's name.
///
/// # Errors
/// As [`Client::connect`]; `ERR_UNREACH` also where nobody launched the process, which then is initialised nevertheless:
/// it can read and store values of its own.
pub fn init(infos: &[Info]) -> Result<Proc> {
    let mut state = STATE.lock();
    while state.is_changing {
        CHANGED.wait(&mut state);
    }
    if state.count == 0 {
        state.is_changing = true;
        drop(state);
        let client = Environment::from_process().and_then(|env| Client::connect(&env, infos));
        state = STATE.lock();
        state.is_changing = false;
        CHANGED.notify_all();
        let client = client?;
        let (me, is_singleton) = (client.me().clone(), client.is_singleton());
        client.declare_model(infos);
        state.set(client);
        return if is_singleton { Err(Status::ERR_UNREACH) } else { Ok(me) };
    }
    state.count += 1;
    COUNT.store(state.count, Ordering::Relaxed);
    let client = state.live.as_ref().ok_or(Status::ERR_INIT)?;
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
    state.set(client);
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
    let client = state.live.as_ref().ok_or(Status::ERR_INIT)?.as_ref().clone();
    state.is_changing = true;
    drop(state);
    let result = client.finalize(infos);
    let mut state = STATE.lock();
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    COUNT.store(0, Ordering::Relaxed);
    state.count = 0;
    state.retired = state.live.take();
    state.is_changing = false;
    CHANGED.notify_all();
    result
}

/// How often the process is initialised.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

impl State {
    fn set(&mut self, client: Client) {
        let client = Arc::new(client);
        CURRENT.store(Arc::as_ptr(&client).cast_mut(), Ordering::Release);
        self.live = Some(client);
        self.count = 1;
        COUNT.store(1, Ordering::Relaxed);
    }
}
