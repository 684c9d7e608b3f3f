//! State shared by publisher and readers: the mutable words, the memory of a directory page, the lock of a view.
//!
//! It is in one place so that a model checker can replace it: with `--cfg loom` (`make loom`) the same publisher and the same
//! view run over [loom](https://docs.rs/loom)'s atomics, and loom tries every order that the memory model allows. The comments at
//! the loads and stores explain the orderings, labelled PUBLISH, FIRST, RETIRE and SET.

#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
mod modelled;

#[cfg(not(loom))]
pub(crate) use mapped::{AtomicPtr, AtomicU64, Complete, Mutex, Ordering, PAGE_CAPACITY, PageMemory, after_missing};
#[cfg(all(not(loom), feature = "builder"))]
pub(crate) use mapped::{CARRIED_MAX, PAGES_KEPT, PageFile, before_removal};
#[cfg(loom)]
pub(crate) use modelled::{
    AtomicPtr, AtomicU64, CARRIED_MAX, Complete, Mutex, Ordering, PAGE_CAPACITY, PAGES_KEPT, PageFile, PageMemory,
    after_missing, before_removal,
};
