//! Timers of fibres, for sleeping and for the timeouts of waits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::cancel::Cancelled;
use crate::clock::{deadline_ns, monotonic_ns};
use crate::fibre::Fibre;
use crate::switch::{current, is_fibre, local, park};
use crate::sync::{Mutex, lock};

/// A time, in nanoseconds of the monotonic clock, that is never reached.
const NEVER: u64 = u64::MAX;

/// Sleeps for `duration`, or a little longer. If the caller is a fibre, this blocks only the fibre.
/// Otherwise it blocks the calling thread.
///
/// # Errors
/// The fibre was cancelled.
pub fn sleep(duration: Duration) -> Result<(), Cancelled> {
    if !is_fibre() {
        thread::sleep(duration);
        return Ok(());
    }
    let fibre = current();
    let timer = Timer::start(&fibre, deadline_ns(duration));
    loop {
        if fibre.is_cancelled() {
            return Err(Cancelled);
        }
        if timer.is_due() {
            return Ok(());
        }
        park();
    }
}

/// The timers of a processor.
#[derive(Debug)]
pub(crate) struct Timers {
    /// The time at which the first timer is due, in nanoseconds of the monotonic clock; or
    /// [`NEVER`]. Readable without the lock of `list`.
    next_ns: AtomicU64,
    list: Mutex<List>,
}

/// The started timers of a processor, in the order in which they become due.
#[derive(Debug, Default)]
struct List {
    /// For each timer, the fibre that it wakes. The key consists of the time at which the timer is
    /// due, in nanoseconds, and the number of the timer.
    entries: BTreeMap<(u64, u64), Fibre>,
    /// The number of timers started so far, which is also the number of the last timer.
    count: u64,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self {
            next_ns: AtomicU64::new(NEVER),
            list: Mutex::default(),
        }
    }

    /// The time until the first timer is due, in nanoseconds; `None` if there is no timer.
    pub(crate) fn timeout_ns(&self) -> Option<u64> {
        let next_ns = self.next_ns.load(Ordering::Relaxed);
        (next_ns != NEVER).then(|| next_ns.saturating_sub(monotonic_ns()))
    }

    /// Wakes the fibres whose timers are due. Returns their number.
    pub(crate) fn expire(&self) -> usize {
        let next_ns = self.next_ns.load(Ordering::Relaxed);
        if next_ns == NEVER {
            return 0;
        }
        let now_ns = monotonic_ns();
        if now_ns < next_ns {
            return 0;
        }
        // The timers that are due sort before this key, all others after it.
        let first_not_due = (now_ns + 1, 0);
        let mut list = lock(&self.list);
        let not_due = list.entries.split_off(&first_not_due);
        let due = std::mem::replace(&mut list.entries, not_due);
        self.update_next(&list);
        drop(list);
        due.values().for_each(Fibre::unpark);
        due.len()
    }

    /// Updates `next_ns` after a change of the list.
    fn update_next(&self, list: &List) {
        let next = list.entries.first_key_value();
        let next_ns = next.map_or(NEVER, |(&(due_ns, _), _)| due_ns);
        self.next_ns.store(next_ns, Ordering::Relaxed);
    }
}

/// A timer that unparks a fibre when it is due. Dropping this value cancels the timer.
pub(crate) struct Timer {
    /// The time at which the timer is due, in nanoseconds of the monotonic clock.
    due_ns: u64,
    /// The number of the timer, which no other timer of the same processor has.
    number: u64,
    /// The number of the processor whose list contains the timer.
    processor: usize,
    fibre: Fibre,
}

impl Timer {
    /// Starts a timer that wakes `fibre`, the caller, at the time `due_ns`. The timer is put in the
    /// list of the current processor.
    pub(crate) fn start(fibre: &Fibre, due_ns: u64) -> Self {
        let processor = local(|local| local.map_or(0, |local| local.number));
        let timers = &fibre.record.anchor.shared.slots[processor].timers;
        let mut list = lock(&timers.list);
        list.count += 1;
        let number = list.count;
        list.entries.insert((due_ns, number), fibre.clone());
        timers.update_next(&list);
        Self {
            due_ns,
            number,
            processor,
            fibre: fibre.clone(),
        }
    }

    /// Whether the timer is due.
    pub(crate) fn is_due(&self) -> bool {
        monotonic_ns() >= self.due_ns
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let timers = &self.fibre.record.anchor.shared.slots[self.processor].timers;
        let mut list = lock(&timers.list);
        if list.entries.remove(&(self.due_ns, self.number)).is_some() {
            timers.update_next(&list);
        }
    }
}
