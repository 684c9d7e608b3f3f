//! Threads that use the client of this process without a lock: the hazard slot of each, and the token of one that does.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use crate::hazard::{Counted, GracePeriod, HeldSlots, Slot, Slots};
use crate::patience;
use crate::thread_slot::ThreadSlotCache;

/// The hazard slots of all threads.
pub(crate) static SLOTS: Slots = Slots::new();
/// The hazard slots of threads that own a line in this cache.
static CACHE: ThreadSlotCache<Slot> = ThreadSlotCache::new();

thread_local! {
    /// This thread's hazard slot; null before the first use.
    static SLOT: Cell<*const Slot> = const { Cell::new(ptr::null()) };
    /// Owns the thread's hazard slot until the thread ends.
    static HAZARD_SLOT: CachedHazardSlot = CachedHazardSlot(SLOTS.new_slot());
}

/// A thread's hazard slot, which [`CACHE`] and `SLOT` cache. Dropped at the end of the thread, which removes it from both.
struct CachedHazardSlot(Arc<Slot>);

impl Drop for CachedHazardSlot {
    fn drop(&mut self) {
        CACHE.take(Arc::as_ptr(&self.0).cast_mut());
        SLOT.set(ptr::null());
        SLOTS.forget_slot(&self.0);
    }
}

/// Proof that the thread's hazard slot holds the client while this is borrowed. Data that the thread can reach during
/// that time is not freed; see `is_unused`.
pub struct PinToken(());

impl PinToken {
    /// A token.
    ///
    /// # Safety
    /// The slot of the calling thread is not free for as long as the token is borrowed.
    #[inline(always)]
    pub(crate) unsafe fn new() -> PinToken {
        PinToken(())
    }

    /// The proof for look-ups in the mapped segments.
    #[inline(always)]
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading(PhantomData)
    }

    /// For tests in which no other thread changes the data.
    #[cfg(test)]
    pub(crate) fn for_tests() -> PinToken {
        PinToken(())
    }
}

/// A thread that reads in the mapped segments: by its pin, or else by being counted. None of them is unmapped while this lives; see
/// `begin_grace`.
pub(crate) struct Reader<'a> {
    _counted: Option<Counted<'static>>,
    pin: PhantomData<&'a PinToken>,
}

impl<'a> Reader<'a> {
    /// A reader. Costs nothing where there is a pin.
    #[inline(always)]
    pub(crate) fn new(pin: Option<&'a PinToken>) -> Reader<'a> {
        let counted = if pin.is_none() { Some(SLOTS.count_reader()) } else { None };
        Reader { _counted: counted, pin: PhantomData }
    }

    /// The proof for look-ups.
    #[inline(always)]
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading(PhantomData)
    }
}

/// Proof that the thread is a reader of the mapped segments for this lifetime: none of them is unmapped.
#[derive(Clone, Copy)]
pub struct Reading<'a>(PhantomData<&'a PinToken>);

/// The slot of the calling thread, if it has one.
///
/// # Safety
/// It is used by this thread alone, and not when the thread's variables are gone.
#[inline(always)]
pub(crate) unsafe fn slot<'a>() -> Option<&'a Slot> {
    // SAFETY: the pointers are null or point to this thread's `HAZARD_SLOT`, whose drop resets them.
    unsafe { CACHE.get().as_ref().or_else(|| own_slot().as_ref()) }
}

/// The slot of this thread by its thread-local variable; null before the thread's first call.
///
/// A function of its own: inlined, the compiler asks for the address of the variable before it knows whether the cache has the slot.
#[cold]
#[inline(never)]
fn own_slot() -> *const Slot {
    end_patience();
    SLOT.get()
}

/// The same as [`slot`], if it is found at next to no cost.
///
/// # Safety
/// As [`slot`].
#[inline(always)]
pub(crate) unsafe fn cached_slot<'a>() -> Option<&'a Slot> {
    // SAFETY: as above.
    unsafe { CACHE.get().as_ref() }
}

/// The slot of the calling thread, if it has one and no call of this thread uses it. Unlike [`slot`], this leaves the thread's patience as
/// it is.
///
/// # Safety
/// As [`slot`].
pub(crate) unsafe fn free_slot<'a>() -> Option<&'a Slot> {
    // SAFETY: the pointer is null or points to this thread's `HAZARD_SLOT`, whose drop resets it.
    unsafe { SLOT.get().as_ref() }.filter(|slot| slot.is_free())
}

/// Gives the calling thread a slot, if it has none. Where the thread is ending, its slot may be gone already: then it gets none.
pub(crate) fn get_slot() {
    if SLOT.get().is_null() {
        let _ = HAZARD_SLOT.try_with(|own| {
            let own = Arc::as_ptr(&own.0);
            SLOT.set(own);
            CACHE.put(own.cast_mut());
        });
    }
}

/// Lets the calling thread sleep longer until it uses its slot, if this many ranks share the node's processors: see
/// [`patience`](crate::patience).
pub(crate) fn begin_patience(ranks: u32) {
    if patience::begin(ranks) {
        CACHE.take(SLOT.get().cast_mut());
    }
}

/// Ends it.
pub(crate) fn end_patience() {
    let own = SLOT.get();
    if patience::end() && !own.is_null() {
        CACHE.put(own.cast_mut());
    }
}

/// Whether no other thread holds a pin. If so, data that was unlinked before this call can be freed.
pub(crate) fn is_unused() -> bool {
    SLOTS.is_unused(SLOT.get())
}

/// Holds the lock of the slots for a fork.
pub(crate) fn hold_for_fork() -> HeldSlots<'static> {
    SLOTS.hold_for_fork()
}

/// Begins a grace period for segments that were unlinked before this call: when it is over, nobody reads in them, and they can be unmapped.
/// `None` if the kernel refuses.
pub(crate) fn begin_grace() -> Option<GracePeriod> {
    SLOTS.begin_grace()
}
