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
use crate::stack::ProcessorStacks;
use crate::switch::{LeaveReason, ThreadContext, as_processor, resume};
use crate::sync::atomic::Ordering;
use crate::sync::{pause, ticks};

/// The part of a processor that only its own thread uses.
pub(crate) struct Local {
    pub(crate) number: usize,
    pub(crate) anchor: Arc<Anchor>,
    /// Stacks of fibres that ended on this processor.
    pub(crate) stacks: ProcessorStacks,
    /// Number of times the processor has run a fibre.
    runs: Cell<u64>,
    /// See [`TakeState::clock`].
    pub(crate) clock: Cell<u64>,
}

impl Local {
    pub(crate) fn shared(&self) -> &Shared {
        &self.anchor.shared
    }
}

/// The source of wake-ups that a processor polls between fibres, and for which it sleeps.
pub(crate) trait Driver {
    /// Submits the requests of fibres, and makes ready the fibres whose wait is over.
    fn poll(&mut self);

    /// As `poll`, but without a system call. Returns the number of fibres made ready.
    fn poll_completed(&mut self) -> usize;

    /// Submits requests, then sleeps until a wait on this processor is over, or it is woken.
    fn sleep(&mut self);

    /// Called after `sleep`: makes ready the fibres whose wait is over.
    fn after_sleep(&mut self);

    /// Whether the processor must end.
    fn must_stop(&self) -> bool;
}

/// The next fibre for a processor to run. `None` if the processor must end.
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
        if driver.must_stop() {
            return None;
        }
        idle.announce(state.processor);
        if let Some(ready) = scheduler.search(state) {
            if !idle.withdraw(state.processor) {
                // A waker removed this processor from the list to run another fibre. Another
                // processor has to run that one.
                idle.wake_one();
            }
            return Some(ready);
        }
        if idle.begin_sleep(state.processor) {
            driver.sleep();
            // `after_sleep` makes fibres ready. `end_sleep` is called before it, so that the
            // wake-up of this processor for these fibres makes no system call, and after it, to
            // clear that wake-up.
            idle.end_sleep(state.processor);
            driver.after_sleep();
            idle.end_sleep(state.processor);
        }
        // A waker has removed the announcement already. After any other wake-up it is still there.
        idle.withdraw(state.processor);
    }
}

/// Enqueues a fibre that yields, and returns the next, which may be the same.
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

/// Wakes an idle processor if fibres remain in the processor's own queues after one was taken.
///
/// An idle processor has searched the lanes one after the other, while fibres that yield move
/// between lanes. So it may have missed a remaining fibre, and the taken fibre may run for ever.
/// The lock of the lane in which the remaining fibre was enqueued makes visible the announcements
/// of all processors that searched the lane before.
fn wake_for_remaining<S: RunQueues>(scheduler: &S, idle: &IdleProcessors, processor: usize) {
    if idle.has_any() && scheduler.has_more(processor) {
        idle.wake_one();
    }
}

/// Polls and steals in turn, for a bounded number of rounds.
fn poll_and_steal<S: RunQueues>(
    scheduler: &S,
    state: &mut TakeState<'_>,
    driver: &mut impl Driver,
) -> Option<Ready> {
    if scheduler.has_one_processor() {
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

/// Runs fibres on the calling thread until the runtime stops.
pub(crate) fn run<S: RunQueues>(scheduler: &S, anchor: Arc<Anchor>, number: usize) {
    let local = Local {
        number,
        anchor,
        stacks: ProcessorStacks::default(),
        runs: Cell::new(0),
        clock: Cell::new(0),
    };
    let shared = local.shared();
    let _guard = AbortOnUnwind;
    as_processor(&local, |thread_context| {
        let mut state = TakeState::new(number, &local.clock);
        let mut driver = ProcessorDriver { local: &local };
        driver.begin();
        // The fibre that the last yield was exchanged for.
        let mut exchanged = None;
        while let Some(ready) =
            exchanged.or_else(|| next(scheduler, &shared.idle, &mut state, &mut driver))
        {
            let (still_ready, yields_to_all) = run_one(thread_context, &local, ready);
            if yields_to_all && !scheduler.has_more(number) {
                driver.poll();
            }
            exchanged =
                still_ready.map(|ready| exchange(scheduler, &shared.idle, &mut state, ready));
            let runs = local.runs.get() + 1;
            local.runs.set(runs);
            if runs.is_multiple_of(u64::from(RUNS_PER_POLL)) {
                shared.slots[number].counters.set_runs(runs);
                driver.poll();
                if driver.must_stop() {
                    // The remaining fibres are abandoned; `Runtime::stop` reports them.
                    std::mem::forget(exchanged);
                    break;
                }
            }
        }
        driver.before_sleep();
    });
}

/// Runs a fibre until it leaves its stack. Returns the fibre if it is still ready, and whether the
/// kernel has to be polled before it continues ([`LeaveReason::YieldedToAll`]).
fn run_one(thread_context: &ThreadContext, local: &Local, ready: Ready) -> (Option<Ready>, bool) {
    let record = ready.record();
    let number = local.number as u32;
    if record.processor.load(Ordering::Relaxed) != number {
        record.processor.store(number, Ordering::Relaxed);
    }
    // SAFETY: `ready` is the right to run the fibre.
    match unsafe { resume(thread_context, record) } {
        LeaveReason::Yielded => (Some(ready), false),
        LeaveReason::YieldedToAll => (Some(ready), true),
        LeaveReason::Parked => (ready.park(), false),
        LeaveReason::Ended => {
            local.shared().reclaim(ready, &local.stacks);
            (None, false)
        }
    }
}

/// Aborts the program if a processor unwinds: its fibres would be lost, and their joiners would
/// wait for ever. A panic of a fibre is caught before it reaches the processor; a panic of a
/// [`Watch`](crate::Watch) is not.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// A processor's driver: its reactor and its timers. Reports events to the [`Watch`](crate::Watch).
struct ProcessorDriver<'a> {
    local: &'a Local,
}

impl ProcessorDriver<'_> {
    fn begin(&self) {
        // Recording a poll marks the processor as awake. From now on, other processors take its
        // completions if it does not poll for long.
        self.slot().record_poll();
        self.after_wake();
    }

    /// Called when the processor starts or wakes: records its cache and the time.
    fn after_wake(&self) {
        let (shared, number) = (self.local.shared(), self.local.number);
        // With the old time, fibres enqueued from now on would seem to have waited since before the
        // sleep.
        self.local.clock.set(ticks());
        shared.record_cache(number);
        if let Some(watch) = &shared.watch {
            watch.wakes(number);
        }
    }

    /// Called before the processor sleeps or ends.
    fn before_sleep(&self) {
        self.slot().counters.set_runs(self.local.runs.get());
        if let Some(watch) = &self.local.shared().watch {
            watch.sleeps(self.local.number);
        }
    }

    fn slot(&self) -> &ProcessorSlot {
        &self.local.shared().slots[self.local.number]
    }

    /// Reports bytes received for a fibre to the `Watch`, before the fibre runs.
    fn report_received(&self, bytes: &[u8]) {
        if let Some(watch) = &self.local.shared().watch {
            watch.received(self.local.number, bytes);
        }
    }

    /// Expires timers. Reports the number of fibres made ready, by timers and by the reactor
    /// (`woken`), to the `Watch`, and returns it.
    fn report_ready(&self, woken: usize) -> usize {
        let ready = woken + self.slot().timers.expire();
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
        self.report_ready(
            self.slot()
                .reactor
                .poll(&mut |bytes| self.report_received(bytes)),
        );
        self.local
            .shared()
            .poll_overdue_processor(self.local.number);
    }

    fn poll_completed(&mut self) -> usize {
        self.report_ready(
            self.slot()
                .reactor
                .poll_completed(&mut |bytes| self.report_received(bytes)),
        )
    }

    fn sleep(&mut self) {
        let slot = self.slot();
        self.before_sleep();
        slot.mark_sleeping();
        slot.reactor.sleep(slot.timers.timeout_ns());
        slot.counters.count_sleep();
        self.after_wake();
    }

    fn after_sleep(&mut self) {
        self.report_ready(
            self.slot()
                .reactor
                .after_sleep(&mut |bytes| self.report_received(bytes)),
        );
        self.local
            .shared()
            .poll_overdue_processor(self.local.number);
    }

    fn must_stop(&self) -> bool {
        // Acquire: pairs with `Runtime::stop`.
        self.local.shared().must_stop.load(Ordering::Acquire)
    }
}
