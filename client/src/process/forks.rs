//! What a thread does before and after a `fork()` of the program: it holds the locks that the child may take.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;

use super::{CURRENT, SERVERS, STATE, State};
use crate::forked::{FORK_WAIT, Mutex, MutexGuard, TURN_WAIT};
use crate::hazard::{HeldCell, HeldSlots};
use crate::{Client, client, pin, tool};

/// Held by the thread that forks: another one that forks at the same time waits for its end.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// How many forks this thread has begun: a handler of another library, or a signal handler, may fork within a fork.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The locks of a thread that forks. It does not end before it has released them, so they need no destructor.
    static HELD: Cell<Option<ManuallyDrop<Held>>> = const { Cell::new(None) };
}

/// The locks, the last one first: this is the order in which they are released.
struct Held {
    _slots: HeldSlots<'static>,
    _of_client: Option<client::Held<'static>>,
    _current: HeldCell<'static, Client>,
    _servers: Option<MutexGuard<'static, Option<Arc<tool::Servers>>>>,
    _state: Option<MutexGuard<'static, State>>,
    _turn: Option<MutexGuard<'static, ()>>,
}

/// Makes the forks of this process run the functions below, from now on. Where the C library has no memory for that, children get
/// `ERR_UNREACH` for locks that they find taken, or wait for them.
///
/// The earlier the better. Handlers of the program that are registered afterwards run before `before` and after `after`: they may use this
/// library, and take locks with which other threads of the program call it.
pub fn watch_forks() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: three functions of this library, which do not unwind. The C library forgets them when it unloads this library.
        let refused = unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) } != 0;
        IS_WATCHED.store(!refused, Ordering::Relaxed);
    }
}

extern "C" fn before() {
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    if depth == 0 {
        HELD.set(Some(ManuallyDrop::new(hold())));
    }
}

/// In the parent and in the child.
extern "C" fn after() {
    let depth = DEPTH.get();
    if depth == 1 {
        // The program looks at it if the fork has failed.
        let errno = Errno::last_raw();
        drop(HELD.take().map(ManuallyDrop::into_inner));
        Errno::set_raw(errno);
    }
    // Afterwards: a signal handler may fork meanwhile.
    DEPTH.set(depth - 1);
}

/// Takes the locks, in the order in which other threads do that have several.
fn hold() -> Held {
    let turn = TURN.hold_for_fork(TURN_WAIT);
    let (state, servers) = (STATE.hold_for_fork(FORK_WAIT), SERVERS.hold_for_fork(FORK_WAIT));
    let current = CURRENT.hold_for_fork();
    // SAFETY: a client is removed only by who has the cell's lock, which is released after the client's.
    let of_client = current.live().map(|client| unsafe { &*std::ptr::from_ref(client) }.inner.hold_for_fork());
    let slots = pin::hold_for_fork();
    Held { _slots: slots, _of_client: of_client, _current: current, _servers: servers, _state: state, _turn: turn }
}
