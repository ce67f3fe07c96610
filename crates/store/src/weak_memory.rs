//! Common parts of the models under the model checker loom (`cargo xtask models`).
//!
//! The other model checker, shuttle, runs all operations in one total order (sequential
//! consistency), so it does not detect missing fences or orderings that are too weak. Loom lets a
//! load return any store that the C++11 memory model allows, and reports data races on plain
//! memory. The models for loom are in `epochs/weak_memory.rs`, `heap/segment/weak_memory.rs` and
//! `heap/block/access/weak_memory.rs`. The models run the production code of `epochs.rs`,
//! `heap/segment.rs` and `heap/block/access.rs`. A model replaces the code around these files, such
//! as the index, and uses relaxed orderings there. So the model passes only if the orderings of the
//! file under test suffice by themselves.
//!
//! Loom omits some executions that C++11 allows, so it may miss an error. It has three limits:
//!
//! - In loom, a SeqCst fence acquires everything that precedes earlier SeqCst fences. In C++11, a
//!   SeqCst fence guarantees less.
//! - In loom, no compare-exchange fails spuriously.
//! - Loom does not try all orders of the operations on a word. If a thread loads a word and then
//!   stores to it, loom may never run the store before an earlier load by another thread. In this
//!   case loom does not test that the other thread loads the stored value. The reason is that loom
//!   compares a store only with the most recent operation on the word, which is here the load by
//!   the same thread. [`PreemptionPoint`] works around this limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU8;

/// Maximum number of preemptions per execution.
const PREEMPTIONS_MAX: usize = 3;
/// Maximum number of loom's branches per execution. Each operation on an atomic is a branch.
const BRANCHES_MAX: usize = 1_000;

/// The result of one execution of a model: whether the situation that the model tests occurred.
#[derive(Debug)]
pub(crate) struct CaseArose(pub(crate) bool);

/// Runs `model` in all executions within the bounds. Panics if the case to be tested arises in none
/// of them, because the model would then test nothing.
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

/// A stand-in for the bytes of a block: plain memory, on which loom detects data races.
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

/// A word by which a model marks the points at which loom shall preempt its threads. Each thread
/// stores to this word at such a point. No thread loads the word. So the most recent operation on
/// the word is always a store, and the third limit above does not apply: within the bounds of
/// [`explore`], loom tries all orders of these stores, and with them all orders of the points. A
/// word that is never loaded does not synchronise threads.
#[derive(Debug)]
pub(crate) struct PreemptionPoint(AtomicU8);

impl PreemptionPoint {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Marks a point at which the calling thread may be preempted.
    pub(crate) fn point(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
