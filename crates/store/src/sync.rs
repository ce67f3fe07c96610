//! The synchronisation primitives of this crate. Normally they are those of the standard library.
//! In builds of the models (`cargo xtask models`), they are those of a model checker, which runs
//! the threads of a test in many interleavings:
//!
//! - `--cfg shuttle`: every operation takes effect for all threads immediately (sequential
//!   consistency). Shuttle can run the whole store, but cannot detect a missing fence.
//! - `--cfg loom`: as in the C++11 memory model, a thread may see the stores of another thread late
//!   and in another order. Loom is fast enough for small parts of the store only.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, atomic};

/// Yields the processor to other threads. A loop that waits for another thread calls this.
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
