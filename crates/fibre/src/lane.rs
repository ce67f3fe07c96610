//! A lane: a FIFO queue of ready fibres with a spin lock. Each operation holds the lock for a few
//! instructions only.
//!
//! [`Lane::push`] and [`Lane::pop`] wait for the lock. The functions whose names begin with `try_`
//! do not wait; if the lane is locked, their callers use another lane or try again later. Two
//! values are readable without the lock: the time at which the fibre now at the head was enqueued,
//! and the moving average of the times that fibres waited in the lane.
//!
//! Times are in [`ticks`](crate::sync::ticks). Only the fair scheduler uses them. The other
//! schedulers pass 0 for the present time.

use std::ptr;

use crate::fibre::{Ready, Record};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::sync::{pause, prefetch};

/// The value of the field `head_since` of an empty lane.
const EMPTY: u64 = u64::MAX;

/// A queue of ready fibres.
// The alignment gives each lane cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lane {
    is_locked: AtomicBool,
    /// The time at which the fibre now at the head was enqueued; or [`EMPTY`].
    head_since: AtomicU64,
    /// The moving average of the times from when a fibre was enqueued to when it was dequeued.
    average: AtomicU64,
    /// Head of the queue; guarded by the lock. The queue is a list of fibres' records: the `link`
    /// of each record points to the next.
    first: AtomicPtr<Record>,
    /// Tail of the queue; guarded by the lock.
    last: AtomicPtr<Record>,
}

/// The lock of a lane, held until this value is dropped.
struct LaneGuard<'a> {
    lane: &'a Lane,
}

impl Lane {
    pub(crate) fn new() -> Self {
        Self {
            is_locked: AtomicBool::new(false),
            head_since: AtomicU64::new(EMPTY),
            average: AtomicU64::new(0),
            first: AtomicPtr::new(ptr::null_mut()),
            last: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The time at which the fibre now at the head was enqueued; `None` if the lane is empty. May
    /// be outdated.
    pub(crate) fn head_since(&self) -> Option<u64> {
        let head_since = self.head_since.load(Ordering::Relaxed);
        (head_since != EMPTY).then_some(head_since)
    }

    /// Whether the lane is empty. May be outdated.
    pub(crate) fn is_empty(&self) -> bool {
        self.head_since().is_none()
    }

    /// The moving average of the times that fibres waited in this lane. May be outdated.
    pub(crate) fn average(&self) -> u64 {
        self.average.load(Ordering::Relaxed)
    }

    /// Enqueues a fibre at the time `now`. Fails and returns the fibre if the lane is locked.
    pub(crate) fn try_push(&self, ready: Ready, now: u64) -> Result<(), Ready> {
        match self.try_lock() {
            Some(held) => {
                held.push(ready, now);
                Ok(())
            }
            None => Err(ready),
        }
    }

    /// Enqueues a fibre.
    pub(crate) fn push(&self, ready: Ready, now: u64) {
        self.lock().push(ready, now);
    }

    /// Dequeues the first fibre. Returns `None` if the lane is empty or locked.
    pub(crate) fn try_pop(&self, now: u64) -> Option<Ready> {
        if self.is_empty() {
            return None;
        }
        self.try_lock()?.pop(now)
    }

    /// Dequeues the first fibre. Returns `None` if the lane is empty: unlike [`Lane::try_pop`],
    /// decides this with the lock held.
    pub(crate) fn pop(&self, now: u64) -> Option<Ready> {
        self.lock().pop(now)
    }

    /// Dequeues the first fibre and returns it, and enqueues `ready` at the end. If the lane is
    /// empty, returns `Ok(ready)`. If the lane is locked, returns `Err(ready)`.
    pub(crate) fn try_exchange(&self, ready: Ready, now: u64) -> Result<Ready, Ready> {
        let Some(held) = self.try_lock() else {
            return Err(ready);
        };
        match held.pop(now) {
            Some(first) => {
                held.push(ready, now);
                Ok(first)
            }
            None => Ok(ready),
        }
    }

    fn try_lock(&self) -> Option<LaneGuard<'_>> {
        // Acquire: pairs with the release in `LaneGuard::drop`, so that this thread sees how the
        // previous holder of the lock changed the queue.
        let is_free = !self.is_locked.load(Ordering::Relaxed)
            && !self.is_locked.swap(true, Ordering::Acquire);
        is_free.then(|| LaneGuard { lane: self })
    }

    fn lock(&self) -> LaneGuard<'_> {
        let mut round = 0;
        loop {
            if let Some(held) = self.try_lock() {
                return held;
            }
            pause(round);
            round = round.wrapping_add(1);
        }
    }
}

impl LaneGuard<'_> {
    fn push(&self, ready: Ready, now: u64) {
        let lane = self.lane;
        let record = ready.record();
        record.enqueued_at.store(now, Ordering::Relaxed);
        record.link.store(ptr::null_mut(), Ordering::Relaxed);
        let record = ready.into_raw().cast_mut();
        let last = lane.last.load(Ordering::Relaxed);
        if lane.first.load(Ordering::Relaxed).is_null() {
            lane.first.store(record, Ordering::Relaxed);
            lane.head_since.store(now, Ordering::Relaxed);
        } else {
            // SAFETY: the record is in this lane, whose lock is held.
            let last = unsafe { &*last };
            last.link.store(record, Ordering::Relaxed);
        }
        lane.last.store(record, Ordering::Relaxed);
    }

    fn pop(&self, now: u64) -> Option<Ready> {
        let lane = self.lane;
        let first = lane.first.load(Ordering::Relaxed);
        if first.is_null() {
            return None;
        }
        // SAFETY: `push` enqueued this record, and it is dequeued only here, with the lock held.
        let ready = unsafe { Ready::from_raw(first) };
        let next = ready.record().link.load(Ordering::Relaxed);
        lane.first.store(next, Ordering::Relaxed);
        // SAFETY: the record is in this lane, whose lock is held.
        let next = unsafe { next.as_ref() };
        let head_since = next.map_or(EMPTY, |next| next.enqueued_at.load(Ordering::Relaxed));
        lane.head_since.store(head_since, Ordering::Relaxed);
        if let Some(next) = next {
            // The processor will need the stack of the next fibre, and the record of the fibre
            // after that one. Both are prefetched while the fibre that is dequeued here runs.
            prefetch(next.suspended_sp.load(Ordering::Relaxed));
            prefetch(next.link.load(Ordering::Relaxed));
        }
        let enqueued_at = ready.record().enqueued_at.load(Ordering::Relaxed);
        let (waited, average) = (now.saturating_sub(enqueued_at), lane.average());
        // Weights of 12/16 for the new wait and 4/16 for the average, as in the Cforall runtime
        // (`scheduler/fair.rs`).
        let average = 12 * (waited / 16) + 4 * (average / 16);
        lane.average.store(average, Ordering::Relaxed);
        Some(ready)
    }
}

impl Drop for LaneGuard<'_> {
    fn drop(&mut self) {
        // Release: pairs with `try_lock`.
        self.lane.is_locked.store(false, Ordering::Release);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        while self.pop(0).is_some() {}
    }
}
