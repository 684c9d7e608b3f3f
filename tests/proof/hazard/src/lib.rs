//! The client of a process under loom: nobody uses one that has been given up, in every order that the memory model
//! allows. The module is the library's own; loom takes the place of atomics, lock and barrier (`sync.rs`).
#![cfg(all(loom, test))]

#[allow(dead_code, unreachable_pub)]
#[path = "../../../../client/src/hazard/mod.rs"]
mod hazard;

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use hazard::{HazardCell, Slots};

/// A value as loom watches it: whoever gives it up writes, and must come after all who read.
struct Watched {
    alive: UnsafeCell<bool>,
}

impl Watched {
    fn new() -> Watched {
        let value = Watched { alive: UnsafeCell::new(false) };
        // SAFETY: nobody else has it yet; loom ends the test where somebody reads before it is complete.
        value.alive.with_mut(|alive| unsafe { *alive = true });
        value
    }

    fn assert_alive(&self) {
        // SAFETY: loom ends the test where somebody writes at the same time.
        assert!(self.alive.with(|alive| unsafe { *alive }), "a value that is gone is used");
    }

    fn end(&self) {
        // SAFETY: loom ends the test where somebody reads at the same time.
        self.alive.with_mut(|alive| unsafe { *alive = false });
    }
}

// SAFETY: the cell is accessed as the module promises, which is what loom checks.
unsafe impl Sync for Watched {}

/// The end of values that are in use no more; their memory stays, so that a late reader is found and does not crash.
fn end(values: Vec<Arc<Watched>>, ended: &mut Vec<Arc<Watched>>) {
    values.iter().for_each(|value| value.end());
    ended.extend(values);
}

/// A thread that enters as a Get does, `times` times, and calls `within` each time with the value, if there is one.
fn reader(
    place: &Arc<HazardCell<Watched>>,
    slots: &'static Slots,
    times: u32,
    within: impl Fn(Option<&Watched>) + Send + 'static,
) -> thread::JoinHandle<()> {
    let place = Arc::clone(place);
    thread::spawn(move || {
        let slot = slots.new_slot();
        for _ in 0..times {
            // SAFETY: the slot is of this place and this thread, free, and forgotten below.
            let value = unsafe { place.enter(&slot) };
            within(value.as_deref());
        }
        slots.forget_slot(&slot);
    })
}

/// An empty place, and the slots of its threads, which stay: in a process both are static.
fn place() -> (Arc<HazardCell<Watched>>, &'static Slots) {
    let slots: &'static Slots = Box::leak(Box::new(Slots::new()));
    (Arc::new(HazardCell::new(slots)), slots)
}

/// What a Get does with the value.
fn read(value: Option<&Watched>) {
    value.into_iter().for_each(Watched::assert_alive);
}

/// Runs a model and tells how many orders there were.
fn check(name: &'static str, body: impl Fn() + Send + Sync + 'static) {
    let orders = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Arc::clone(&orders);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        body();
    });
    println!("{name}: {} orders", orders.load(std::sync::atomic::Ordering::Relaxed));
}

#[test]
fn a_segment_removed_under_a_reader() {
    check("one is taken away under a reader", || {
        let (place, slots) = place();
        let mut ended = Vec::new();
        end(place.set(Watched::new()), &mut ended);
        let using = reader(&place, slots, 2, read);
        end(place.take(), &mut ended);
        using.join().expect("nothing wrong was seen");
        end(place.take(), &mut ended);
        assert_eq!(ended.len(), 1, "it goes in the end");
    });
}

#[test]
fn a_segment_replaced_under_a_reader() {
    check("another comes in its place", || {
        let (place, slots) = place();
        let mut ended = Vec::new();
        let using = reader(&place, slots, 1, read);
        for _ in 0..2 {
            end(place.set(Watched::new()), &mut ended);
            end(place.take(), &mut ended);
        }
        using.join().expect("nothing wrong was seen");
        end(place.take(), &mut ended);
        assert_eq!(ended.len(), 2, "both go in the end");
    });
}

#[test]
fn unreachable_values_are_freed_without_readers() {
    check("what is out of reach ends when nobody reads it", || {
        let (place, slots) = place();
        let mut ended = Vec::new();
        end(place.set(Watched::new()), &mut ended);
        let things = Arc::new((Watched::new(), Watched::new(), loom::sync::atomic::AtomicBool::new(false)));
        let seen = Arc::clone(&things);
        let reading = reader(&place, slots, 1, move |value| {
            assert!(value.is_some(), "a value is there all the time");
            let (first, second, is_replaced) = &*seen;
            let thing = if is_replaced.load(Ordering::Acquire) { second } else { first };
            thing.assert_alive();
        });
        things.2.store(true, Ordering::Release);
        if slots.is_unused(std::ptr::null()) {
            things.0.end();
        }
        reading.join().expect("nothing wrong was seen");
        end(place.take(), &mut ended);
    });
}

/// What a view is to its readers: sets of which one is current, and which are read as `NamespaceView` reads them.
struct View {
    current: AtomicUsize,
    sets: [Watched; 3],
}

impl View {
    fn look_up(&self) {
        self.sets[self.current.load(Ordering::Acquire)].assert_alive();
    }

    /// Makes the next set current, and begins a grace period for the one before.
    fn replace(&self, next: usize, slots: &'static Slots) -> hazard::GracePeriod {
        self.current.store(next, Ordering::Release);
        slots.begin_grace().expect("the model has its barrier")
    }
}

/// A thread that counts itself, as one does that has no slot or is in a Get already.
fn counted_reader(view: &Arc<View>, slots: &'static Slots, times: u32) -> thread::JoinHandle<()> {
    let view = Arc::clone(view);
    thread::spawn(move || {
        for _ in 0..times {
            let _counted = slots.count_reader();
            view.look_up();
        }
    })
}

/// A view, whose first set is current, and a place with a value for threads that are in a Get.
fn view() -> (Arc<View>, Arc<HazardCell<Watched>>, &'static Slots) {
    let (place, slots) = place();
    assert!(place.set(Watched::new()).is_empty());
    let view = Arc::new(View { current: AtomicUsize::new(0), sets: [(); 3].map(|()| Watched::new()) });
    (view, place, slots)
}

/// A thread that looks up in a Get, `times` times.
fn pinned_reader(
    view: &Arc<View>,
    place: &Arc<HazardCell<Watched>>,
    slots: &'static Slots,
    times: u32,
) -> thread::JoinHandle<()> {
    let view = Arc::clone(view);
    reader(place, slots, times, move |value| {
        assert!(value.is_some(), "a value is there all the time");
        view.look_up();
    })
}

/// Replaces the set twice under a reader: the second period begins before or after the first one has changed the counter.
fn replace_twice(view: &View, slots: &'static Slots, reader: thread::JoinHandle<()>) {
    let mut first = view.replace(1, slots);
    let is_over = first.is_over();
    let mut second = view.replace(2, slots);
    // Each look sees those that were left.
    if is_over || first.is_over() {
        view.sets[0].end();
    }
    if second.is_over() {
        view.sets[1].end();
    }
    reader.join().expect("nothing wrong was seen");
    assert!(first.is_over() && second.is_over(), "both go in the end");
}

#[test]
fn replaced_sets_are_dropped_without_readers() {
    check("a set is replaced under one reader in a Get and one that is counted", || {
        let (view, place, slots) = view();
        let pinned = pinned_reader(&view, &place, slots, 1);
        let counted = counted_reader(&view, slots, 1);
        let mut grace = view.replace(1, slots);
        let is_over = grace.is_over();
        if is_over {
            view.sets[0].end();
        }
        pinned.join().expect("nothing wrong was seen");
        counted.join().expect("nothing wrong was seen");
        if !is_over {
            assert!(grace.is_over(), "it goes in the end");
            view.sets[0].end();
        }
        view.look_up();
        drop(place);
    });
}

#[test]
fn readers_that_come_and_go_do_not_hold_up_the_end() {
    check("a set is replaced twice under a reader that comes again", || {
        let (view, place, slots) = view();
        replace_twice(&view, slots, pinned_reader(&view, &place, slots, 2));
        drop(place);
    });
}

#[test]
fn counted_readers_that_come_and_go_do_not_hold_up_the_end() {
    check("a set is replaced twice under a counted reader that comes again", || {
        let (view, place, slots) = view();
        replace_twice(&view, slots, counted_reader(&view, slots, 2));
        drop(place);
    });
}
