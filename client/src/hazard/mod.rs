//! A value that any thread uses without a lock, and that one may take away while others use it.
//!
//! Each thread has a [`Slot`]. Who wants to use the value writes the pointer that it sees into its slot, and then looks
//! whether the pointer is still the one. So there are two cases. Either it is not: the value has been taken away, and is
//! not touched. Or it is: whoever takes the value away does so later, looks into all slots after that, and finds the
//! pointer in this one. The value is then kept until a later look finds it in no slot; nobody waits for anybody.
//!
//! The slot is written by its thread alone, and read by others only when a value is taken away. What makes the two cases
//! the only ones is a full barrier between writing the slot and looking again on one side, and between taking away and
//! looking into the slots on the other. The first side is on the path of every Get, so the kernel lays both barriers in
//! the call of the second.

mod sync;

use std::ops::Deref;
use std::ptr;

use sync::{Arc, AtomicPtr, Mutex, Ordering};

/// What one thread uses, for those who take values away.
///
/// As large as the lines that processors fetch in pairs: neighbours write without disturbing each other.
#[repr(align(128))]
pub struct Slot<T> {
    used: AtomicPtr<T>,
}

impl<T> Slot<T> {
    /// Whether its thread uses nothing just now.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.used.load(Ordering::Relaxed).is_null()
    }
}

/// A place for one value.
pub struct HazardCell<T> {
    /// The value in `live`, or null.
    pointer: AtomicPtr<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    live: Option<Arc<T>>,
    /// Taken away, and still in use when somebody last looked.
    retired: Vec<Arc<T>>,
    slots: Vec<Arc<Slot<T>>>,
}

impl<T> HazardCell<T> {
    /// An empty place.
    #[cfg(not(loom))]
    pub const fn new() -> HazardCell<T> {
        HazardCell { pointer: AtomicPtr::new(ptr::null_mut()), state: Mutex::new(State::NOTHING) }
    }

    /// An empty place; those of loom are not made at compile time.
    #[cfg(loom)]
    pub fn new() -> HazardCell<T> {
        HazardCell { pointer: AtomicPtr::new(ptr::null_mut()), state: Mutex::new(State::NOTHING) }
    }

    /// Puts a value into the place, which is empty. Gives what was retired and is in use no more, for the caller to drop.
    #[must_use]
    pub fn set(&self, value: T) -> Vec<Arc<T>> {
        sync::prepare();
        let value = Arc::new(value);
        let mut state = self.state.lock();
        self.pointer.store(Arc::as_ptr(&value).cast_mut(), Ordering::Release);
        state.live = Some(value);
        state.sweep()
    }

    /// Empties the place. Gives what was in it, or was retired before, and is in use no more, for the caller to drop.
    #[must_use]
    pub fn take(&self) -> Vec<Arc<T>> {
        let mut state = self.state.lock();
        self.pointer.store(ptr::null_mut(), Ordering::Relaxed);
        let value = state.live.take();
        state.retired.extend(value);
        state.sweep()
    }

    /// The value, counted.
    pub fn hold(&self) -> Option<Arc<T>> {
        if self.is_set() { self.state.lock().live.clone() } else { None }
    }

    /// Whether there is a value.
    #[inline]
    pub fn is_set(&self) -> bool {
        !self.pointer.load(Ordering::Relaxed).is_null()
    }

    /// Whether nobody uses the value that is here, or another that was, but for the thread of slot `mine`: no other reads any
    /// more what was out of its reach before this call.
    pub fn is_unused(&self, mine: *const Slot<T>) -> bool {
        let state = self.state.lock();
        let is_free =
            |slot: &Arc<Slot<T>>| ptr::eq(Arc::as_ptr(slot), mine) || slot.used.load(Ordering::Acquire).is_null();
        sync::heavy_barrier() && state.slots.iter().all(is_free)
    }

    /// A slot for the calling thread.
    pub fn new_slot(&self) -> Arc<Slot<T>> {
        let slot = Arc::new(Slot { used: AtomicPtr::new(ptr::null_mut()) });
        self.state.lock().slots.push(Arc::clone(&slot));
        slot
    }

    /// Nobody looks into this slot any more, which is free: its thread ends.
    pub fn forget_slot(&self, slot: &Arc<Slot<T>>) {
        self.state.lock().slots.retain(|other| !Arc::ptr_eq(other, slot));
    }

    /// The value, which stays for as long as the result lives.
    ///
    /// # Safety
    /// `slot` is one of this place's, belongs to the calling thread, is free, and is not forgotten meanwhile.
    #[inline]
    pub unsafe fn enter<'a>(&'a self, slot: &'a Slot<T>) -> Option<Guard<'a, T>> {
        let mut seen = self.pointer.load(Ordering::Relaxed);
        while !seen.is_null() {
            slot.used.store(seen, Ordering::Relaxed);
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
    const NOTHING: State<T> = State { live: None, retired: Vec::new(), slots: Vec::new() };

    /// Moves out what is retired and in no slot.
    fn sweep(&mut self) -> Vec<Arc<T>> {
        if self.retired.is_empty() || !sync::heavy_barrier() {
            return Vec::new();
        }
        let slots = &self.slots;
        let is_in_use = |value: &mut Arc<T>| {
            slots.iter().any(|slot| ptr::eq(slot.used.load(Ordering::Acquire), Arc::as_ptr(value)))
        };
        self.retired.extract_if(.., |value| !is_in_use(value)).collect()
    }
}

/// The value while a thread uses it.
pub struct Guard<'a, T> {
    slot: &'a Slot<T>,
    /// A pointer also keeps this in its thread, as the slot is.
    value: *const T,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the pointer was in its place after it had been written into the slot. So who has taken the value away
        // since, or will, finds it in the slot, and keeps it; the slot is emptied when this is dropped.
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

    /// A value that is wrong once it has been dropped, and counts those that have been.
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
        let (place, dropped) = (HazardCell::new(), Arc::new(AtomicU32::new(0)));
        let (mine, others) = (place.new_slot(), place.new_slot());
        let counted = || dropped.load(Ordering::Relaxed);
        // SAFETY: the slots are this place's; this thread stands for two, each with its own.
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
        place.forget_slot(&others);
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
        const THREADS: u32 = 4;
        const VALUES: u32 = 20_000;
        let (place, dropped) = (HazardCell::new(), Arc::new(AtomicU32::new(0)));
        let (stop, used) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            let readers: Vec<_> = std::iter::repeat_with(|| {
                scope.spawn(|| {
                    let slot = place.new_slot();
                    let mut latest = 0;
                    while !stop.load(Ordering::Relaxed) {
                        // SAFETY: the slot is of this place and of this thread, which forgets it below.
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
                    place.forget_slot(&slot);
                })
            })
            .take(THREADS as usize)
            .collect();
            for number in 1..=VALUES {
                drop(place.set(Mortal::new(number, &dropped)));
                if number.is_multiple_of(64) {
                    let before = used.load(Ordering::Relaxed);
                    // Readers end early only if they have seen what they must not.
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
