//! The atomics and the lock of this module, in one place, so that a model checker can take theirs.

pub(super) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

pub(super) use parking_lot::Mutex;
