//! A processor: a kernel thread that runs fibres, one after the other, and sleeps when none is
//! ready.
//!
//! ```text
//! next: take → poll, steal, poll, steal … → announce → search → sleep ─┐
//!  ▲                                                                    │
//!  └────────── run the fibre until it leaves its stack ◄────────────────┘
//! ```
//!
//! *take*: takes a fibre from the processor's own queues. *poll*: looks for fibres whose waits are
//! over, and makes them ready. *steal*: takes a fibre from another processor's queues. *announce*:
//! enters the processor in the list of idle processors, from which wakers choose (`idle.rs`).
//! *search*: takes a fibre from any queue. Once a step has found a fibre, the processor runs it and
//! skips the remaining steps.

use std::cell::Cell;
use std::sync::Arc;

use crate::fibre::Ready;
use crate::idle::IdleProcessors;
use crate::limits::{RUNS_PER_POLL, STEAL_ATTEMPTS};
use crate::local::Local;
use crate::scheduler::{RunQueues, TakeState};
use crate::shared::Anchor;
use crate::slot::ProcessorSlot;
use crate::stack::ProcessorStacks;
use crate::switch::{LeaveReason, ThreadContext, as_processor, resume};
use crate::sync::atomic::Ordering;
use crate::sync::{pause, ticks};

/// The source of the events that end the waits of fibres: completions, readiness and timers.
/// Between fibres, the processor calls `poll`; if no fibre is ready, it calls `sleep`.
pub(crate) trait Driver {
    /// Submits the fibres' requests to the kernel, and makes ready the fibres whose wait is over.
    fn poll(&mut self);

    /// Makes ready the fibres whose wait is over, as far as this can be seen without a system call.
    /// Submits nothing. Returns the number of these fibres.
    fn poll_completed(&mut self) -> usize;

    /// Submits requests, then sleeps until the wait of a fibre is over, or until another thread
    /// wakes the processor.
    fn sleep(&mut self);

    /// Called after `sleep`. Makes ready the fibres whose wait is over.
    fn after_sleep(&mut self);

    /// Whether the loop of the processor must end, because the runtime stops.
    fn must_stop(&self) -> bool;
}

/// Returns the fibre that a processor, the caller, runs next. Sleeps while there is none. Returns
/// `None` if the processor must end.
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
                // A waker has removed this processor from the list, in order to wake it for a
                // fibre. But this processor may have found another fibre in its search, so it wakes
                // another idle processor for the waker's fibre.
                idle.wake_one();
            }
            return Some(ready);
        }
        if idle.begin_sleep(state.processor) {
            driver.sleep();
            // This processor is awake from here on. `after_sleep` enqueues fibres, and for each
            // fibre it wakes an idle processor. It may choose this processor, which is still in the
            // list. So the state word of this processor is set to *awake* first: if the word said
            // *asleep*, to wake the processor would cost a system call.
            idle.end_sleep(state.processor);
            driver.after_sleep();
            // If `after_sleep` chose this processor, it has left a notification in the state word.
            // The second call clears it. The enqueued fibres are not missed, because the next round
            // of this loop takes from the queues.
            idle.end_sleep(state.processor);
        }
        // If a waker ended the sleep, the waker has already removed this processor from the list,
        // and this call does nothing. If a completion or a timer ended the sleep, the processor may
        // still be in the list.
        idle.withdraw(state.processor);
    }
}

/// Enqueues `ready`, a fibre that yields, and dequeues the fibre to run next. This may be the same
/// fibre.
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

/// Wakes an idle processor if fibres remain in the queues of `processor`, the caller, which has
/// just taken a fibre from them. Without this, a ready fibre could be forgotten:
///
/// A processor that becomes idle searches the lanes one after the other. During the search, a fibre
/// that yields can move from a lane not yet searched to a lane already searched, and the search
/// then misses the fibre. The processor that owns the second lane may never take it, because that
/// processor may be about to run another fibre that never yields.
///
/// `has_any` sees every processor whose search missed a remaining fibre. That processor announced
/// itself, then locked and unlocked the lane. The fibre was enqueued later, under the same lock.
fn wake_for_remaining<S: RunQueues>(scheduler: &S, idle: &IdleProcessors, processor: usize) {
    if idle.has_any() && scheduler.has_more(processor) {
        idle.wake_one();
    }
}

/// Polls the driver and tries to steal, alternately, for a bounded number of rounds
/// ([`STEAL_ATTEMPTS`]). If the runtime has only one processor, polls once, because there is
/// nothing to steal.
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
    for round in 0..S::ROUNDS_BEFORE_IDLE {
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
        if S::ROUNDS_BEFORE_IDLE > 1 {
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
        // The fibre that `exchange` returned because the last fibre was still ready; it runs next.
        // `None` if the last fibre has parked or ended.
        let mut exchanged = None;
        while let Some(ready) =
            exchanged.or_else(|| next(scheduler, &shared.idle, &mut state, &mut driver))
        {
            let (still_ready, reason) = run_one(thread_context, &local, ready);
            let must_poll = match reason {
                LeaveReason::YieldedToAll => !scheduler.has_more(number),
                LeaveReason::YieldedAfterLongRun => true,
                LeaveReason::Yielded | LeaveReason::Parked | LeaveReason::Ended => false,
            };
            if must_poll {
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
                    // The fibres that are left are abandoned, and `Runtime::stop` reports their
                    // number. The reference to the fibre in `exchanged` is leaked, because the
                    // registry still has a pointer to the fibre's record.
                    std::mem::forget(exchanged);
                    break;
                }
            }
        }
        driver.before_sleep();
    });
}

/// Runs a fibre until it leaves its stack. Returns the fibre if it is still ready, that is, if it
/// yielded or has a permit. Also returns why it left its stack.
fn run_one(
    thread_context: &ThreadContext,
    local: &Local,
    ready: Ready,
) -> (Option<Ready>, LeaveReason) {
    let record = ready.record();
    let number = local.number as u32;
    if record.processor.load(Ordering::Relaxed) != number {
        record.processor.store(number, Ordering::Relaxed);
    }
    // SAFETY: `ready` is the right to run the fibre.
    let reason = unsafe { resume(thread_context, record) };
    let still_ready = match reason {
        LeaveReason::Yielded | LeaveReason::YieldedToAll | LeaveReason::YieldedAfterLongRun => {
            Some(ready)
        }
        LeaveReason::Parked => ready.park(),
        LeaveReason::Ended => {
            local.shared().reclaim(ready, &local.stacks);
            None
        }
    };
    (still_ready, reason)
}

/// A guard that aborts the program if the thread of a processor unwinds. Otherwise the fibres of
/// the processor would be lost, and every `join` of them would wait for ever. A panic of a fibre is
/// caught before it reaches the processor's thread, but a panic of a [`Watch`](crate::Watch) is
/// not.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// The driver of a real processor: polls its reactor and its timers, and reports events to the
/// [`Watch`](crate::Watch).
struct ProcessorDriver<'a> {
    local: &'a Local,
}

impl ProcessorDriver<'_> {
    /// Called when the processor starts.
    fn begin(&self) {
        // The first recorded poll marks the processor as awake. From now on, other processors take
        // its completions whenever it has not polled for a long time.
        self.slot().record_poll();
        self.after_wake();
    }

    /// Called when the processor starts, and when it wakes from sleep. Reads the clock, and records
    /// the last-level cache of the CPU on which the processor now runs.
    fn after_wake(&self) {
        let (shared, number) = (self.local.shared(), self.local.number);
        // A fibre that this processor enqueues is stamped with its last reading of the clock. If
        // this were a reading from before the sleep, the sleep would count as a wait of the fibre.
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

    /// Makes ready the fibres whose timers have expired. Returns their number plus `woken`, the
    /// number of fibres that the reactor made ready. Reports this sum to the `Watch` unless it is
    /// 0.
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
        // Acquire: pairs with the store in `Runtime::shut_down`.
        self.local.shared().must_stop.load(Ordering::Acquire)
    }
}
