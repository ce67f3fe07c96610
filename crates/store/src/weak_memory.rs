//! What the models under loom share (`cargo xtask models`).
//!
//! Shuttle runs every operation of all threads in one order (sequential consistency), so a fence or
//! an ordering that is too weak makes no difference to it. Loom lets a load return any store that
//! the C++11 memory model allows and reports two accesses of plain memory of which neither happens
//! before the other. The models beside `epochs.rs`, `heap/segment.rs` and `heap/block/access.rs`
//! run those files themselves. What the code around them orders more strongly than they need, such
//! as the entries of the index, is relaxed here: the file under test has to suffice.
//!
//! Three limits of loom. A thread that passes a SeqCst fence acquires all that came before earlier
//! such fences, which is more than C++11 promises. No compare-exchange fails without cause. And of
//! all operations on a word loom remembers the last alone as one that it should try in another
//! order, so that a load hides another thread's before it: hence [`Switch`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU8;

/// How often a thread is stopped at most where it could run on, in one execution.
const PREEMPTIONS_MAX: usize = 3;
/// Operations of one execution at most.
const BRANCHES_MAX: usize = 1_000;

/// Runs `model` in all executions within the bounds. It returns whether it came to what it is
/// about, which some execution has to.
pub(crate) fn explore(model: impl Fn() -> bool + Send + Sync + 'static) {
    let reached = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&reached);
    let mut bounds = loom::model::Builder::new();
    bounds.preemption_bound = Some(PREEMPTIONS_MAX);
    bounds.max_branches = BRANCHES_MAX;
    bounds.check(move || {
        sum.fetch_add(u64::from(model()), Ordering::Relaxed);
    });
    assert!(reached.load(Ordering::Relaxed) > 0, "the case never arose");
}

/// The bytes of a block: plain memory, of which loom reports a data race.
#[derive(Debug)]
pub(crate) struct Bytes(UnsafeCell<u32>);

// SAFETY: loom runs one thread at a time, and ends the model at a race.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub(crate) fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) fn read(&self) -> u32 {
        // SAFETY: loom has checked that all writes happen before this.
        self.0.with(|bytes| unsafe { *bytes })
    }

    pub(crate) fn write(&self, value: u32) {
        // SAFETY: loom has checked that all other accesses happen before this.
        self.0.with_mut(|bytes| unsafe { *bytes = value });
    }
}

/// Where threads of a model may be stopped whatever they do next: loom tries all orders of stores
/// to one word. Nothing loads it, so it synchronises nothing.
#[derive(Debug)]
pub(crate) struct Switch(AtomicU8);

impl Switch {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    pub(crate) fn here(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
