//! A lane: a FIFO queue of ready fibres. A lock guards it, and is held for a few instructions. A
//! caller that can use another lane instead only tries the lock. Two words are readable without the
//! lock: the time at which the first fibre was enqueued, and the moving average of past waits.

use std::ptr;

use crate::fibre::{Ready, Record};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::sync::{pause, prefetch};

/// The value of `since` in an empty lane.
const EMPTY: u64 = u64::MAX;

/// A lane.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lane {
    locked: AtomicBool,
    /// When the first fibre was enqueued, in ticks; or [`EMPTY`].
    since: AtomicU64,
    /// The moving average of the waits in this lane, in ticks.
    average: AtomicU64,
    /// The queue, linked through the records; guarded by the lock.
    first: AtomicPtr<Record>,
    last: AtomicPtr<Record>,
}

/// The lock of a lane, held until this is dropped.
struct Held<'a> {
    lane: &'a Lane,
}

impl Lane {
    pub(crate) fn new() -> Self {
        Self {
            locked: AtomicBool::new(false),
            since: AtomicU64::new(EMPTY),
            average: AtomicU64::new(0),
            first: AtomicPtr::new(ptr::null_mut()),
            last: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// When the first fibre was enqueued; `None` if the lane is empty. May be outdated.
    pub(crate) fn since(&self) -> Option<u64> {
        let since = self.since.load(Ordering::Relaxed);
        (since != EMPTY).then_some(since)
    }

    /// The moving average of recent waits, in ticks.
    pub(crate) fn average(&self) -> u64 {
        self.average.load(Ordering::Relaxed)
    }

    /// Enqueues a fibre, unless the lane is locked. `now`: see [`ticks`](crate::sync::ticks).
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

    /// Dequeues the first fibre, unless the lane is empty or locked.
    pub(crate) fn try_pop(&self, now: u64) -> Option<Ready> {
        self.since()?;
        self.try_lock()?.pop(now)
    }

    /// Dequeues the first fibre. `None` if the lane was empty while this call held the lock.
    pub(crate) fn pop(&self, now: u64) -> Option<Ready> {
        self.lock().pop(now)
    }

    /// Enqueues a fibre and dequeues the first, which may be the same, unless the lane is locked.
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

    fn try_lock(&self) -> Option<Held<'_>> {
        // Acquire: pairs with the release in `Held::drop`: the last holder's changes of the list
        // are visible.
        let is_free =
            !self.locked.load(Ordering::Relaxed) && !self.locked.swap(true, Ordering::Acquire);
        is_free.then(|| Held { lane: self })
    }

    fn lock(&self) -> Held<'_> {
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

impl Held<'_> {
    fn push(&self, ready: Ready, now: u64) {
        let lane = self.lane;
        let record = ready.record();
        record.since.store(now, Ordering::Relaxed);
        record.link.store(ptr::null_mut(), Ordering::Relaxed);
        let record = ready.into_raw().cast_mut();
        let last = lane.last.load(Ordering::Relaxed);
        if lane.first.load(Ordering::Relaxed).is_null() {
            lane.first.store(record, Ordering::Relaxed);
            lane.since.store(now, Ordering::Relaxed);
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
        // SAFETY: `push` enqueued it; it is dequeued here, with the lock held.
        let ready = unsafe { Ready::from_raw(first) };
        let next = ready.record().link.load(Ordering::Relaxed);
        lane.first.store(next, Ordering::Relaxed);
        // SAFETY: the record is in this lane, whose lock is held.
        let next = unsafe { next.as_ref() };
        let since = next.map_or(EMPTY, |next| next.since.load(Ordering::Relaxed));
        lane.since.store(since, Ordering::Relaxed);
        if let Some(next) = next {
            // Prefetched while this fibre runs: the stack of the next fibre, and the record of the
            // one after it.
            prefetch(next.left_at.load(Ordering::Relaxed));
            prefetch(next.link.load(Ordering::Relaxed));
        }
        let enqueued = ready.record().since.load(Ordering::Relaxed);
        let (waited, average) = (now.saturating_sub(enqueued), lane.average());
        // Weights of 12/16 for the new wait and 4/16 for the average, as in Cforall.
        let average = 12 * (waited / 16) + 4 * (average / 16);
        lane.average.store(average, Ordering::Relaxed);
        Some(ready)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Release: pairs with `try_lock`.
        self.lane.locked.store(false, Ordering::Release);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        while self.pop(0).is_some() {}
    }
}
