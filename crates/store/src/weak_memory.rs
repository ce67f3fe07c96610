//! Common parts of the models under loom (`cargo xtask models`).
//!
//! Shuttle runs all operations in one total order (sequential consistency), so it does not detect
//! missing fences or weak orderings. Loom lets a load return any store that the C++11 memory model
//! allows, and reports data races on plain memory. The models next to `epochs.rs`,
//! `heap/segment.rs` and `heap/block/access.rs` run the production code of those files. Orderings
//! of surrounding code that are stronger than these files need, such as those of index entries, are
//! relaxed here: the file under test has to suffice.
//!
//! Loom has three limits. A SeqCst fence acquires everything that precedes earlier SeqCst fences,
//! which is more than C++11 guarantees. No compare-exchange fails spuriously. And loom tries
//! another order only for the last operation on a word, so that a load can hide an earlier
//! operation of another thread. [`PreemptionPoint`] works around the limit named last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU8;

/// Maximum number of preemptions per execution.
const PREEMPTIONS_MAX: usize = 3;
/// Maximum number of operations per execution.
const BRANCHES_MAX: usize = 1_000;

/// Whether the case to be tested arose in an execution of a model.
#[derive(Debug)]
pub(crate) struct CaseArose(pub(crate) bool);

/// Runs `model` in all executions within the bounds. The case to be tested must arise in at least
/// one of them.
pub(crate) fn explore(model: impl Fn() -> CaseArose + Send + Sync + 'static) {
    let arose_count = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&arose_count);
    let mut bounds = loom::model::Builder::new();
    bounds.preemption_bound = Some(PREEMPTIONS_MAX);
    bounds.max_branches = BRANCHES_MAX;
    bounds.check(move || {
        let CaseArose(arose) = model();
        sum.fetch_add(u64::from(arose), Ordering::Relaxed);
    });
    assert!(
        arose_count.load(Ordering::Relaxed) > 0,
        "the case never arose"
    );
}

/// The bytes of a block: plain memory, for which loom reports data races.
#[derive(Debug)]
pub(crate) struct Bytes(UnsafeCell<u32>);

// SAFETY: loom runs one thread at a time, and ends the model at a race.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub(crate) fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) fn read(&self) -> u32 {
        // SAFETY: loom has checked that all writes happen before this read.
        self.0.with(|bytes| unsafe { *bytes })
    }

    pub(crate) fn write(&self, value: u32) {
        // SAFETY: loom has checked that all other accesses happen before this write.
        self.0.with_mut(|bytes| unsafe { *bytes = value });
    }
}

/// A word that every thread of a model stores to at the points at which it may be preempted: loom
/// tries all orders of stores to one word. The word is never loaded, so it synchronises nothing.
#[derive(Debug)]
pub(crate) struct PreemptionPoint(AtomicU8);

impl PreemptionPoint {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// The calling thread may be preempted here.
    pub(crate) fn point(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
