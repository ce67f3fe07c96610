//! A processor: a kernel thread that runs fibres, one after the other, and sleeps when none is
//! ready.
//!
//! ```text
//! next: take → poll, steal, poll, steal … → announce → search → sleep ─┐
//!  ▲                                                                    │
//!  └────────────── run until it leaves its stack ◄──────────────────────┘
//! ```

use std::cell::Cell;
use std::sync::Arc;

use crate::fibre::Ready;
use crate::idle::IdleProcessors;
use crate::limits::{RUNS_PER_POLL, STEAL_ATTEMPTS};
use crate::runtime::{Anchor, Shared};
use crate::scheduler::{RunQueues, TakeState};
use crate::slot::ProcessorSlot;
use crate::stack::Warm;
use crate::switch::{Here, Left, as_processor, resume};
use crate::sync::atomic::Ordering;
use crate::sync::{pause, ticks};

/// What only a processor's own thread has, fibres that run there among it.
pub(crate) struct Local {
    pub(crate) number: usize,
    pub(crate) anchor: Arc<Anchor>,
    /// Stacks of fibres that ended here.
    pub(crate) warm: Warm,
    /// Fibres run so far.
    runs: Cell<u64>,
    /// See [`TakeState::clock`].
    pub(crate) clock: Cell<u64>,
}

impl Local {
    pub(crate) fn shared(&self) -> &Shared {
        &self.anchor.shared
    }
}

/// What a processor asks between fibres, and sleeps in.
pub(crate) trait Driver {
    /// Hands over what fibres have asked for, and makes ready those whose wait is over.
    fn poll(&mut self);

    /// Makes ready those whose wait is over, as far as can be seen without asking the kernel: how
    /// many.
    fn poll_completed(&mut self) -> usize;

    /// Hands over, then sleeps until a wait of its own is over, or it is called.
    fn sleep(&mut self);

    /// After that: makes ready those whose wait is over.
    fn after_sleep(&mut self);

    /// Whether the processor is to end.
    fn is_over(&self) -> bool;
}

/// The next fibre for a processor to run; none: it is to end.
pub(crate) fn next<S: RunQueues>(
    scheduler: &S,
    idle: &IdleProcessors,
    state: &mut TakeState<'_>,
    driver: &mut impl Driver,
) -> Option<Ready> {
    loop {
        let taken = scheduler.take(state);
        if let Some(ready) = taken.or_else(|| poll_and_steal(scheduler, state, driver)) {
            wake_for_remaining(scheduler, idle, state.processor);
            return Some(ready);
        }
        if driver.is_over() {
            return None;
        }
        idle.announce(state.processor);
        if let Some(ready) = scheduler.search(state) {
            if !idle.withdraw(state.processor) {
                // Called for another fibre than this, perhaps: that one is for somebody else.
                idle.wake_one();
            }
            return Some(ready);
        }
        if idle.begin_sleep(state.processor) {
            driver.sleep();
            // First: the first fibre that becomes ready is its own, and it need not be called for
            // it.
            idle.end_sleep(state.processor);
            driver.after_sleep();
            idle.end_sleep(state.processor);
        }
        // Whoever called has taken it off already.
        idle.withdraw(state.processor);
    }
}

/// The next fibre, after one that lets others go first, which may be the same.
pub(crate) fn exchange<S: RunQueues>(
    scheduler: &S,
    idle: &IdleProcessors,
    state: &mut TakeState<'_>,
    ready: Ready,
) -> Ready {
    let next = scheduler.exchange(state, ready);
    wake_for_remaining(scheduler, idle, state.processor);
    next
}

/// Calls somebody who rests, if more wait here than the one just taken.
///
/// Who rests has searched one lane after the other, and fibres that yield go from one to another:
/// it may have overlooked one that waits here, while the one taken may run for ever. The lock of
/// the lane it was put back to shows whoever searched that before.
fn wake_for_remaining<S: RunQueues>(scheduler: &S, idle: &IdleProcessors, processor: usize) {
    if idle.has_any() && scheduler.has_more(processor) {
        idle.wake_one();
    }
}

/// Looks at what has come and at others, some times.
fn poll_and_steal<S: RunQueues>(
    scheduler: &S,
    state: &mut TakeState<'_>,
    driver: &mut impl Driver,
) -> Option<Ready> {
    if scheduler.is_alone() {
        return (driver.poll_completed() > 0)
            .then(|| scheduler.take(state))
            .flatten();
    }
    for round in 0..S::SPINS {
        for _ in 0..STEAL_ATTEMPTS {
            if driver.poll_completed() > 0
                && let Some(ready) = scheduler.take(state)
            {
                return Some(ready);
            }
            if let Some(ready) = scheduler.steal(state) {
                return Some(ready);
            }
        }
        if S::SPINS > 1 {
            pause(round);
        }
    }
    None
}

/// Runs fibres on the calling thread until the runtime is over.
pub(crate) fn run<S: RunQueues>(scheduler: &S, anchor: Arc<Anchor>, number: usize) {
    let local = Local {
        number,
        anchor,
        warm: Warm::default(),
        runs: Cell::new(0),
        clock: Cell::new(0),
    };
    let shared = local.shared();
    let _guard = AbortOnUnwind;
    as_processor(&local, |here| {
        let mut state = TakeState::new(number, &local.clock);
        let mut driver = ProcessorDriver { local: &local };
        driver.begin();
        let mut first = None;
        while let Some(ready) =
            first.or_else(|| next(scheduler, &shared.idle, &mut state, &mut driver))
        {
            let (back, to_all) = run_one(here, &local, ready);
            if to_all && !scheduler.has_more(number) {
                driver.poll();
            }
            first = back.map(|ready| exchange(scheduler, &shared.idle, &mut state, ready));
            let runs = local.runs.get() + 1;
            local.runs.set(runs);
            if runs.is_multiple_of(u64::from(RUNS_PER_POLL)) {
                shared.slots[number].counters.runs(runs);
                driver.poll();
                if driver.is_over() {
                    // Whoever is left is given up, and told so by `Runtime::stop`.
                    std::mem::forget(first);
                    break;
                }
            }
        }
        driver.asleep();
    });
}

/// Runs a fibre until it leaves its stack; gives it back if it is to go on, and says whether all
/// others are to run first.
fn run_one(here: &Here, local: &Local, ready: Ready) -> (Option<Ready>, bool) {
    let record = ready.record();
    let number = local.number as u32;
    if record.processor.load(Ordering::Relaxed) != number {
        record.processor.store(number, Ordering::Relaxed);
    }
    // SAFETY: `ready` is the right to run it.
    match unsafe { resume(here, record) } {
        Left::Yielded => (Some(ready), false),
        Left::YieldedToAll => (Some(ready), true),
        Left::Parked => (ready.park(), false),
        Left::Ended => {
            local.shared().reclaim(ready, &local.warm);
            (None, false)
        }
    }
}

/// Ends the program if a processor unwinds: its fibres would be nowhere, and whoever waits for them
/// would for ever. What fibres do does not come here; what a [`Watch`](crate::Watch) does, may.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// A processor's dealings with the kernel.
struct ProcessorDriver<'a> {
    local: &'a Local,
}

impl ProcessorDriver<'_> {
    fn begin(&self) {
        // Awake: others look after what it asked for, if it does not.
        self.slot().polled();
        self.awake();
    }

    /// It runs, for the first time or again: notes where and when.
    fn awake(&self) {
        let (shared, number) = (self.local.shared(), self.local.number);
        // Nobody becomes ready in the time before it slept.
        self.local.clock.set(ticks());
        shared.note_cache(number);
        if let Some(watch) = &shared.watch {
            watch.wakes(number);
        }
    }

    /// It is about to sleep, or to end.
    fn asleep(&self) {
        self.slot().counters.runs(self.local.runs.get());
        if let Some(watch) = &self.local.shared().watch {
            watch.sleeps(self.local.number);
        }
    }

    fn slot(&self) -> &ProcessorSlot {
        &self.local.shared().slots[self.local.number]
    }

    /// Shows what has come for a fibre that has not run since.
    fn show(&self, bytes: &[u8]) {
        if let Some(watch) = &self.local.shared().watch {
            watch.came(self.local.number, bytes);
        }
    }

    /// Rouses whose time has come, and says of them, and those the kernel roused, how many they
    /// are.
    fn tell(&self, roused: usize) -> usize {
        let ready = roused + self.slot().timers.expire();
        if ready > 0
            && let Some(watch) = &self.local.shared().watch
        {
            watch.polled(self.local.number, ready);
        }
        ready
    }
}

impl Driver for ProcessorDriver<'_> {
    fn poll(&mut self) {
        self.tell(self.slot().reactor.poll(&mut |bytes| self.show(bytes)));
        self.local.shared().help(self.local.number);
    }

    fn poll_completed(&mut self) -> usize {
        self.tell(
            self.slot()
                .reactor
                .poll_completed(&mut |bytes| self.show(bytes)),
        )
    }

    fn sleep(&mut self) {
        let slot = self.slot();
        self.asleep();
        slot.mark_sleeping();
        slot.reactor.sleep(slot.timers.timeout_ns());
        slot.counters.slept();
        self.awake();
    }

    fn after_sleep(&mut self) {
        self.tell(
            self.slot()
                .reactor
                .after_sleep(&mut |bytes| self.show(bytes)),
        );
        self.local.shared().help(self.local.number);
    }

    fn is_over(&self) -> bool {
        // Acquire: pairs with `Runtime::stop`.
        self.local.shared().over.load(Ordering::Acquire)
    }
}
