//! Synchronisation primitives: those of the standard library, or, in builds of the models (`cargo
//! xtask models`), those of a scheduler that explores interleavings:
//!
//! - `--cfg shuttle`: all threads see every operation at once (sequential consistency). Shuttle can
//!   run the whole store, but cannot detect a missing fence.
//! - `--cfg loom`: also the weaker orders of the C++11 memory model, in which a thread may see
//!   stores of another thread late. Loom is fast enough for small parts only.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, atomic};

/// Yields the processor to other threads, because the caller may be waiting for one of them.
#[cfg(not(any(loom, shuttle)))]
pub(crate) use rustix::thread::sched_yield as yield_now;

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Arc, Mutex, MutexGuard, atomic},
    thread::yield_now,
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::{Mutex, MutexGuard, atomic},
    thread::yield_now,
};
// Loom's `Arc` cannot be a method receiver (`self: &Arc<Self>`). No code here relies on the memory
// ordering of reference counts.
#[cfg(loom)]
pub(crate) use std::sync::Arc;
