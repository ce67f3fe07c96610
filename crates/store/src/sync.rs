//! What threads share, from the standard library; or, for the models (`cargo xtask models`), from a
//! scheduler that explores interleavings:
//!
//! - `--cfg shuttle`: interleavings of whole operations, each of which all threads see at once
//!   (sequential consistency). It takes the whole store, and cannot see a missing fence.
//! - `--cfg loom`: the weaker orders of the C++11 memory model as well, in which a thread may see
//!   another's stores late. It takes small parts only.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, atomic};

/// Lets other threads of this processor run: one of them may be the one that is waited for.
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
// A method cannot take loom's as `self`. Nothing is ordered by the counts of an `Arc` here.
#[cfg(loom)]
pub(crate) use std::sync::Arc;
