//! The client of a process under loom: nobody uses one that has been given up, in every order that the memory model
//! allows. The module is the library's own; loom takes the place of atomics, lock and barrier (`sync.rs`).
#![cfg(all(loom, test))]

#[allow(dead_code, unreachable_pub)]
#[path = "../../../../client/src/current/mod.rs"]
mod current;

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering;
use loom::thread;

use current::Current;

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

    fn is_alive(&self) -> bool {
        // SAFETY: loom ends the test where somebody writes at the same time.
        self.alive.with(|alive| unsafe { *alive })
    }
}

// SAFETY: the cell is accessed as the module promises, which is what loom checks.
unsafe impl Sync for Watched {}

/// The end of values that are in use no more; their memory stays, so that a late reader is found and does not crash.
fn end(values: Vec<Arc<Watched>>, ended: &mut Vec<Arc<Watched>>) {
    for value in values {
        // SAFETY: loom ends the test where somebody reads at the same time.
        value.alive.with_mut(|alive| unsafe { *alive = false });
        ended.push(value);
    }
}

/// A thread that uses the value as a Get does, `times` times.
fn reader(place: &Arc<Current<Watched>>, times: u32) -> thread::JoinHandle<()> {
    let place = Arc::clone(place);
    thread::spawn(move || {
        let slot = place.new_slot();
        for _ in 0..times {
            // SAFETY: the slot is of this place and this thread, free, and forgotten below.
            if let Some(value) = unsafe { place.enter(&slot) } {
                assert!(value.is_alive(), "a value that is gone is used");
            }
        }
        place.forget_slot(&slot);
    })
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
fn one_is_taken_away_under_a_reader() {
    check("one is taken away under a reader", || {
        let place = Arc::new(Current::new());
        let mut ended = Vec::new();
        end(place.set(Watched::new()), &mut ended);
        let using = reader(&place, 2);
        end(place.take(), &mut ended);
        using.join().expect("nothing wrong was seen");
        end(place.take(), &mut ended);
        assert_eq!(ended.len(), 1, "it goes in the end");
    });
}

#[test]
fn another_comes_in_its_place() {
    check("another comes in its place", || {
        let place = Arc::new(Current::new());
        let mut ended = Vec::new();
        let using = reader(&place, 1);
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
fn what_is_out_of_reach_ends_when_nobody_reads_it() {
    check("what is out of reach ends when nobody reads it", || {
        let place = Arc::new(Current::new());
        let mut ended = Vec::new();
        end(place.set(Watched::new()), &mut ended);
        let things = Arc::new((Watched::new(), Watched::new(), loom::sync::atomic::AtomicBool::new(false)));
        let reading = {
            let (place, things) = (Arc::clone(&place), Arc::clone(&things));
            thread::spawn(move || {
                let slot = place.new_slot();
                // SAFETY: the slot is of this place and this thread, free, and forgotten below.
                let using = unsafe { place.enter(&slot) }.expect("a value is there all the time");
                let (first, second, is_replaced) = &*things;
                let thing = if is_replaced.load(Ordering::Acquire) { second } else { first };
                assert!(thing.is_alive(), "a value that is gone is used");
                drop(using);
                place.forget_slot(&slot);
            })
        };
        things.2.store(true, Ordering::Release);
        if place.is_unused(std::ptr::null()) {
            // SAFETY: loom ends the test where somebody reads at the same time.
            things.0.alive.with_mut(|alive| unsafe { *alive = false });
        }
        reading.join().expect("nothing wrong was seen");
        end(place.take(), &mut ended);
    });
}
