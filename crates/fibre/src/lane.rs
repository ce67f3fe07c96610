//! A lane: fibres that are ready, first in, first out. One lock, held for a few instructions, which
//! those who have other lanes to turn to only try; and two words that can be read without it: since
//! when the first waits, and how long those before it waited.

use std::ptr;

use crate::fibre::{Ready, Record};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::sync::{pause, prefetch};

/// Nobody waits.
const EMPTY: u64 = u64::MAX;

/// A lane.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lane {
    locked: AtomicBool,
    /// When the first came here.
    since: AtomicU64,
    /// The moving average of how long fibres waited here.
    average: AtomicU64,
    /// Those who wait, a list by their links: the lock guards it.
    first: AtomicPtr<Record>,
    last: AtomicPtr<Record>,
}

/// The lock, held.
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

    /// Since when the first waits; none: nobody does. A moment ago.
    pub(crate) fn since(&self) -> Option<u64> {
        let since = self.since.load(Ordering::Relaxed);
        (since != EMPTY).then_some(since)
    }

    /// How long fibres waited here of late.
    pub(crate) fn average(&self) -> u64 {
        self.average.load(Ordering::Relaxed)
    }

    /// Puts a fibre last, if nobody else is at the lane. `now`: see [`ticks`](crate::sync::ticks).
    pub(crate) fn try_push(&self, ready: Ready, now: u64) -> Result<(), Ready> {
        match self.try_lock() {
            Some(held) => {
                held.push(ready, now);
                Ok(())
            }
            None => Err(ready),
        }
    }

    /// Puts a fibre last.
    pub(crate) fn push(&self, ready: Ready, now: u64) {
        self.lock().push(ready, now);
    }

    /// Takes the first, if there is one and nobody else is at the lane.
    pub(crate) fn try_pop(&self, now: u64) -> Option<Ready> {
        self.since()?;
        self.try_lock()?.pop(now)
    }

    /// Takes the first. Nobody there means that nobody was, at a moment during the call.
    pub(crate) fn pop(&self, now: u64) -> Option<Ready> {
        self.lock().pop(now)
    }

    /// Puts a fibre last and takes the first, which may be the same, if nobody else is at the lane.
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
        // Acquire: pairs with the release in `Held::drop`: the list is as the last left it.
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
            // SAFETY: in this lane, whose lock is held.
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
        // SAFETY: `push` put it here, and it leaves, the lock being held.
        let ready = unsafe { Ready::from_raw(first) };
        let next = ready.record().link.load(Ordering::Relaxed);
        lane.first.store(next, Ordering::Relaxed);
        // SAFETY: in this lane, whose lock is held.
        let next = unsafe { next.as_ref() };
        let since = next.map_or(EMPTY, |next| next.since.load(Ordering::Relaxed));
        lane.since.store(since, Ordering::Relaxed);
        if let Some(next) = next {
            // While this one runs: where the next left off, and what is known of the one after it.
            prefetch(next.left_at.load(Ordering::Relaxed));
            prefetch(next.link.load(Ordering::Relaxed));
        }
        let came = ready.record().since.load(Ordering::Relaxed);
        let (waited, average) = (now.saturating_sub(came), lane.average());
        // Twelve parts new and four old, as Cforall has it.
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
