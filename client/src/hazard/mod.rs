//! A hazard cell: a value that any thread reads without a lock, and that one thread may remove while others use it.
//!
//! Each thread has a [`Slot`]. A reader loads the pointer, writes it into its slot, and then re-checks the cell's
//! pointer. There are two cases. If the pointer has changed, the value has been removed, and the reader does not use
//! it. If it has not, a thread that removes the value does so after the re-check; it scans all slots after the removal
//! and finds the pointer in this one. It then keeps the value until a later scan finds it in no slot. No thread waits
//! for another.
//!
//! Only its own thread writes a slot; other threads read it only when they remove a value. These two cases are complete
//! because there is a full barrier on each side: between writing the slot and re-checking the pointer, and between
//! removing the value and scanning the slots. The reader's side is on the path of every Get. So its barrier is light
//! (no instruction), and the writer's is heavy: `membarrier(2)` makes all threads of the process pass a barrier.
//!
//! A thread that cannot use its slot, because it has none or it is in use further up its stack, counts itself instead ([`Counted`]). The
//! same two cases hold: who looks at the count after a removal either sees the reader, or the reader looks after the removal.

mod sync;

use std::ops::Deref;
use std::ptr;

use sync::{Arc, AtomicPtr, AtomicUsize, Mutex, Ordering};

#[cfg(not(loom))]
use crate::forked::{FORK_WAIT, MutexGuard};

/// Prepares the barriers of this process. Call it before the process starts threads. Later calls may have no effect; then Gets are
/// slower.
#[cfg(not(loom))]
pub fn prepare() {
    sync::prepare();
}

/// The pointer that one thread uses, published to threads that remove values.
///
/// Aligned to 128 bytes, a pair of cache lines that processors fetch together, so that slots do not share a line.
#[repr(align(128))]
pub struct Slot {
    used: AtomicPtr<()>,
}

impl Slot {
    /// Whether its thread uses no value now.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.used.load(Ordering::Relaxed).is_null()
    }
}

/// The slots of all threads, and how many readers do without.
pub struct Slots {
    all: Mutex<Vec<Arc<Slot>>>,
    /// Numbers of [`Counted`], in two counters.
    counts: [AtomicUsize; 2],
    /// In which of the two a reader counts itself that begins now. [`GracePeriod::is_over`] changes it, so that the other one falls to zero
    /// however many readers come and go. A reader that has not seen the change counts where it is not expected, which only takes longer.
    turn: AtomicUsize,
}

/// A reader that uses no slot. No [`GracePeriod`] that began before is over while this lives.
pub struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        // Pairs with the acquire load in `is_over`: what the reader has read comes before.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Slots {
    /// No slots.
    #[cfg(not(loom))]
    pub const fn new() -> Slots {
        Slots {
            all: Mutex::new(Vec::new()),
            counts: [AtomicUsize::new(0), AtomicUsize::new(0)],
            turn: AtomicUsize::new(0),
        }
    }

    /// No slots. Not `const`: loom's types cannot be constructed at compile time.
    #[cfg(loom)]
    pub fn new() -> Slots {
        Slots {
            all: Mutex::new(Vec::new()),
            counts: [AtomicUsize::new(0), AtomicUsize::new(0)],
            turn: AtomicUsize::new(0),
        }
    }

    /// A slot for the calling thread.
    pub fn new_slot(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot { used: AtomicPtr::new(ptr::null_mut()) });
        self.all.wait_lock().push(Arc::clone(&slot));
        slot
    }

    /// Removes a free slot, whose thread ends, from the list of slots to scan.
    pub fn forget_slot(&self, slot: &Arc<Slot>) {
        self.all.wait_lock().retain(|other| !Arc::ptr_eq(other, slot));
    }

    /// Whether no thread except that of slot `mine` uses a value. If so, no other thread still reads data that was unlinked
    /// before this call.
    pub fn is_unused(&self, mine: *const Slot) -> bool {
        let all = self.all.wait_lock();
        let is_free =
            |slot: &Arc<Slot>| ptr::eq(Arc::as_ptr(slot), mine) || slot.used.load(Ordering::Acquire).is_null();
        sync::heavy_barrier() && all.iter().all(is_free)
    }

    /// Counts the calling thread as a reader. It may be one already, by a slot or by counting.
    #[cold]
    pub fn count_reader(&self) -> Counted<'_> {
        let count = &self.counts[self.turn.load(Ordering::Relaxed) % 2];
        count.fetch_add(1, Ordering::Relaxed);
        sync::light_barrier();
        Counted(count)
    }

    /// Holds the lock for a fork. Who holds that of a cell, too, has taken it before this one.
    #[cfg(not(loom))]
    pub(crate) fn hold_for_fork(&self) -> HeldSlots<'_> {
        HeldSlots { _all: self.all.hold_for_fork(FORK_WAIT) }
    }

    /// Begins a grace period: it is over when each reader of now has ended, that of the calling thread included. Then nobody still reads data
    /// that was unlinked before this call. `None` if the kernel refuses the barrier.
    pub fn begin_grace(&'static self) -> Option<GracePeriod> {
        // Before the lock, for which a fork may wait. A slot that is added after it is that of a thread
        // which finds what is there now.
        sync::heavy_barrier().then(|| {
            let readers = self.all.wait_lock().to_vec();
            let turn = self.turn.load(Ordering::Relaxed) % 2;
            GracePeriod { readers, counts: 2, turn, slots: self }
        })
    }
}

/// The time in which readers may still use data that was unlinked before it began.
///
/// They need not all have ended at the same time: a thread that has been seen without a value since then reaches only what was there after
/// the removal. The same holds for all that count in a counter that has been seen at zero. So a period ends although threads are in a Get
/// nearly all the time.
pub struct GracePeriod {
    /// Those that have not been seen free.
    readers: Vec<Arc<Slot>>,
    /// How many of the two counters have not been seen at zero.
    counts: u32,
    /// The counter in use when it began, which comes last.
    turn: usize,
    slots: &'static Slots,
}

impl GracePeriod {
    /// Whether it is over. To be called again until it is; a call costs a load for each reader that is left.
    pub fn is_over(&mut self) -> bool {
        self.readers.retain(|slot| !slot.used.load(Ordering::Acquire).is_null());
        let is_zero = |counter: usize| self.slots.counts[counter].load(Ordering::Acquire) == 0;
        if self.counts == 2 && is_zero(1 - self.turn) {
            self.counts = 1;
            self.slots.turn.store(1 - self.turn, Ordering::Relaxed);
        }
        if self.counts == 1 && is_zero(self.turn) {
            self.counts = 0;
        }
        self.readers.is_empty() && self.counts == 0
    }
}

/// The lock of the slots during a fork.
#[cfg(not(loom))]
pub(crate) struct HeldSlots<'a> {
    _all: Option<MutexGuard<'a, Vec<Arc<Slot>>>>,
}

/// The lock of a cell during a fork.
#[cfg(not(loom))]
pub(crate) struct HeldCell<'a, T> {
    state: Option<MutexGuard<'a, State<T>>>,
}

#[cfg(not(loom))]
impl<T> HeldCell<'_, T> {
    /// The value, if there is one and the lock is held.
    pub fn live(&self) -> Option<&T> {
        self.state.as_ref()?.live.as_deref()
    }
}

/// A cell for one value.
pub struct HazardCell<T> {
    /// The value in `live`, or null.
    pointer: AtomicPtr<T>,
    /// Those of the threads that use the value.
    slots: &'static Slots,
    state: Mutex<State<T>>,
}

struct State<T> {
    live: Option<Arc<T>>,
    /// Removed values that were in use at the last scan.
    retired: Vec<Arc<T>>,
}

impl<T> HazardCell<T> {
    /// An empty cell for threads that have one of these slots.
    #[cfg(not(loom))]
    pub const fn new(slots: &'static Slots) -> HazardCell<T> {
        HazardCell { pointer: AtomicPtr::new(ptr::null_mut()), slots, state: Mutex::new(State::NOTHING) }
    }

    /// The same. Not `const`: loom's types cannot be constructed at compile time.
    #[cfg(loom)]
    pub fn new(slots: &'static Slots) -> HazardCell<T> {
        HazardCell { pointer: AtomicPtr::new(ptr::null_mut()), slots, state: Mutex::new(State::NOTHING) }
    }

    /// Sets the value of an empty cell. Returns retired values that are no longer in use, for the caller to drop.
    #[must_use]
    pub fn set(&self, value: T) -> Vec<Arc<T>> {
        let value = Arc::new(value);
        let mut state = self.state.wait_lock();
        self.pointer.store(Arc::as_ptr(&value).cast_mut(), Ordering::Release);
        state.live = Some(value);
        state.sweep(self.slots)
    }

    /// Empties the cell. Returns the removed and retired values that are no longer in use, for the caller to drop.
    #[must_use]
    pub fn take(&self) -> Vec<Arc<T>> {
        let mut state = self.state.wait_lock();
        self.pointer.store(ptr::null_mut(), Ordering::Relaxed);
        let value = state.live.take();
        state.retired.extend(value);
        state.sweep(self.slots)
    }

    /// Holds the lock for a fork: the value is not removed meanwhile.
    #[cfg(not(loom))]
    pub(crate) fn hold_for_fork(&self) -> HeldCell<'_, T> {
        HeldCell { state: self.state.hold_for_fork(FORK_WAIT) }
    }

    /// The value with a reference count of its own, which keeps it alive.
    pub fn hold(&self) -> Option<Arc<T>> {
        if self.is_set() { self.state.wait_lock().live.clone() } else { None }
    }

    /// Whether there is a value.
    #[inline]
    pub fn is_set(&self) -> bool {
        !self.pointer.load(Ordering::Relaxed).is_null()
    }

    /// The value, protected from being dropped while the guard lives.
    ///
    /// # Safety
    /// `slot` is one of this cell's [`Slots`], belongs to the calling thread, is free, and is not passed to
    /// [`Slots::forget_slot`] while the guard lives.
    #[inline]
    pub unsafe fn enter<'a>(&'a self, slot: &'a Slot) -> Option<Guard<'a, T>> {
        let mut seen = self.pointer.load(Ordering::Relaxed);
        while !seen.is_null() {
            slot.used.store(seen.cast(), Ordering::Relaxed);
            sync::light_barrier();
            let again = self.pointer.load(Ordering::Acquire);
            if again == seen {
                return Some(Guard { slot, value: again });
            }
            seen = again;
        }
        slot.used.store(ptr::null_mut(), Ordering::Release);
        None
    }
}

impl<T> State<T> {
    const NOTHING: State<T> = State { live: None, retired: Vec::new() };

    /// Returns the retired values that are in no slot.
    fn sweep(&mut self, slots: &Slots) -> Vec<Arc<T>> {
        if self.retired.is_empty() {
            return Vec::new();
        }
        let slots = slots.all.wait_lock();
        if !sync::heavy_barrier() {
            return Vec::new();
        }
        let is_in_use = |value: &mut Arc<T>| {
            slots.iter().any(|slot| ptr::eq(slot.used.load(Ordering::Acquire), Arc::as_ptr(value).cast()))
        };
        self.retired.extract_if(.., |value| !is_in_use(value)).collect()
    }
}

/// Access to the value; its thread's slot protects it until this is dropped.
pub struct Guard<'a, T> {
    slot: &'a Slot,
    /// A raw pointer also makes the guard `!Send`, as it must be: the slot belongs to one thread.
    value: *const T,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the cell still had this pointer after it was written into the slot. So a thread that has removed the
        // value since, or removes it later, finds it in the slot and keeps it. The slot is cleared when this guard is
        // dropped.
        unsafe { &*self.value }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.slot.used.store(ptr::null_mut(), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32};
    use std::thread;

    use super::*;

    /// A value that is marked when it is dropped, and counts the drops.
    struct Mortal {
        number: AtomicU32,
        dropped: Arc<AtomicU32>,
    }

    const DEAD: u32 = u32::MAX;

    impl Mortal {
        fn new(number: u32, dropped: &Arc<AtomicU32>) -> Mortal {
            Mortal { number: AtomicU32::new(number), dropped: Arc::clone(dropped) }
        }
    }

    impl Drop for Mortal {
        fn drop(&mut self) {
            self.number.store(DEAD, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn values_in_use_are_not_freed() {
        static SLOTS: Slots = Slots::new();
        let (place, dropped) = (HazardCell::new(&SLOTS), Arc::new(AtomicU32::new(0)));
        let (mine, others) = (SLOTS.new_slot(), SLOTS.new_slot());
        let counted = || dropped.load(Ordering::Relaxed);
        // SAFETY: the slots are of this cell; this thread plays two threads, each with its own slot.
        let enter = |slot| unsafe { place.enter(slot) };
        assert!(enter(&mine).is_none() && mine.is_free() && !place.is_set());
        drop(place.set(Mortal::new(1, &dropped)));
        let first = enter(&mine).expect("it is there");
        assert!(!mine.is_free() && others.is_free() && place.is_set());
        drop(place.take());
        assert!(enter(&others).is_none());
        drop(place.set(Mortal::new(2, &dropped)));
        let second = enter(&others).expect("another is there");
        drop(place.take());
        assert_eq!((first.number.load(Ordering::Relaxed), second.number.load(Ordering::Relaxed)), (1, 2));
        drop(first);
        assert_eq!(counted(), 0, "it goes when somebody looks");
        assert_eq!(place.take().len(), 1);
        assert_eq!(counted(), 1);
        drop(second);
        SLOTS.forget_slot(&others);
        drop(place.set(Mortal::new(3, &dropped)));
        assert_eq!(counted(), 2);
        let held = place.hold();
        drop(place.take());
        assert_eq!(counted(), 2, "who counts it has it");
        drop(held);
        assert_eq!(counted(), 3);
    }

    #[test]
    fn readers_never_see_a_freed_value() {
        // Once as in a process that had threads, and once with the kernel's barriers.
        see_living_values();
        sync::register();
        see_living_values();
    }

    fn see_living_values() {
        const THREADS: u32 = 4;
        const VALUES: u32 = 20_000;
        static SLOTS: Slots = Slots::new();
        let (place, dropped) = (HazardCell::new(&SLOTS), Arc::new(AtomicU32::new(0)));
        let (stop, used) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            let readers: Vec<_> = std::iter::repeat_with(|| {
                scope.spawn(|| {
                    let slot = SLOTS.new_slot();
                    let mut latest = 0;
                    while !stop.load(Ordering::Relaxed) {
                        // SAFETY: the slot is of this cell and this thread, which removes it below.
                        let Some(value) = (unsafe { place.enter(&slot) }) else { continue };
                        let first: &Mortal = &value;
                        let number = first.number.load(Ordering::Relaxed);
                        assert!(number >= latest && number != DEAD);
                        latest = number;
                        used.fetch_add(1, Ordering::Relaxed);
                        if number.is_multiple_of(16) {
                            thread::yield_now();
                        }
                        assert_eq!(value.number.load(Ordering::Relaxed), number);
                    }
                    SLOTS.forget_slot(&slot);
                })
            })
            .take(THREADS as usize)
            .collect();
            for number in 1..=VALUES {
                drop(place.set(Mortal::new(number, &dropped)));
                if number.is_multiple_of(64) {
                    let before = used.load(Ordering::Relaxed);
                    // A reader ends early only if an assertion has failed.
                    while used.load(Ordering::Relaxed) == before && !readers.iter().any(|reader| reader.is_finished()) {
                        thread::yield_now();
                    }
                }
                let gone = place.take();
                gone.iter().for_each(|value| value.number.store(DEAD, Ordering::Relaxed));
                assert!(gone.len() <= THREADS as usize + 1);
            }
            stop.store(true, Ordering::Relaxed);
        });
        drop(place.take());
        assert_eq!(dropped.load(Ordering::Relaxed), VALUES);
    }
}
