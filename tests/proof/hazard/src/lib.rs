//! The client of a process under loom: nobody uses one that has been given up, in every order that the memory model
//! allows. The module is the library's own; loom takes the place of atomics, lock and barrier (`sync.rs`).
#![cfg(all(loom, test))]

#[allow(dead_code, unreachable_pub)]
#[path = "../../../../client/src/hazard/mod.rs"]
mod hazard;

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering;
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
