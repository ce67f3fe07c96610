//! Gaps: times in which a kernel thread of a runtime neither slept nor ran a *thread* (a fibre or a
//! task).
//!
//! The benchmark *turns* measures how long a thread waits to run; such a wait is a *turn*
//! (`rounds.rs`). The median turn is about 200 ns. The longest turn says more about the machine
//! than about the scheduler: a timer interrupt takes as long as 20 turns, and a time slice of the
//! host or of another process as long as tens of thousands of turns. So the benchmark finds these
//! times, and subtracts them from the turns.
//!
//! Each thread reports each of its steps. If no step is reported on a kernel thread for [`GAP_NS`]
//! or longer, and the kernel thread has not gone to sleep in that time, the time is a *gap*. Its
//! cause may be an interrupt, another process or the host. It may also be the scheduler itself,
//! which makes a system call or gives up the time slice.
//!
//! To tell the scheduler's gaps from the machine's, the benchmark first measures which share of
//! their time empty loops lose to gaps. If the runtime loses a much larger share, it causes gaps
//! itself, and its result must not be judged. This comparison holds for the sum of all gaps. It
//! says nothing about the cause of a single gap.
//!
//! The turns without gaps show whether a thread is left waiting while all kernel threads run. They
//! do not show whether other kernel threads help: the wait of a thread in the queue of a kernel
//! thread that has a gap is subtracted, even if another kernel thread could have run the thread.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The minimum length of a gap, in nanoseconds.
const GAP_NS: u64 = 2_000;

/// The maximum number of gaps that are kept for each kernel thread. The kept gaps belong to the
/// last round in which the kernel thread had a gap. Gaps that are not kept are not subtracted from
/// turns.
const GAPS: usize = 16;

/// The gaps of one kernel thread. Only this thread writes to them.
#[repr(align(128))]
#[derive(Default)]
struct ThreadGaps {
    /// The round to which the gaps in `gaps` belong.
    round: AtomicU64,
    /// The number of gaps in `gaps`.
    count: AtomicUsize,
    /// For each gap, the time at which it began and the time at which it ended.
    gaps: [[AtomicU64; 2]; GAPS],
    /// The sum of all gaps of the run.
    sum_ns: AtomicU64,
}

/// The state of a kernel thread at its last reported step.
#[derive(Clone, Copy)]
struct LastStep {
    /// The number of the kernel thread.
    thread: usize,
    /// The time of the step.
    at_ns: u64,
    /// The number of times that the kernel thread had slept. Updated only if [`GAP_NS`] or more
    /// have passed between two steps.
    sleeps: i64,
}

thread_local! {
    static LAST_STEP: Cell<Option<LastStep>> = const { Cell::new(None) };
}

/// Finds the gaps of all kernel threads of a runtime.
pub(crate) struct GapDetector {
    /// The gaps of each kernel thread, by the number of the kernel thread.
    threads: Box<[ThreadGaps]>,
    /// The number for the next kernel thread that reports its first step.
    next_thread: AtomicUsize,
}

impl GapDetector {
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            threads: (0..processors).map(|_| ThreadGaps::default()).collect(),
            next_thread: AtomicUsize::new(0),
        }
    }

    /// Reports a step of a thread on the current kernel thread. Must be called at each step,
    /// because a gap is found as the time between two steps on the same kernel thread.
    ///
    /// `round` returns the number of the last round, and the time at which it was published. It is
    /// called after `now_ns` was read. In the opposite order, a round that is published during a
    /// gap between the two readings would be missed.
    // Not inlined: a fibre that has moved to another kernel thread must not continue to use the
    // thread-local variable of the previous one.
    #[inline(never)]
    pub(crate) fn report_step(&self, now_ns: u64, round: impl Fn() -> (u64, u64)) {
        let last = LAST_STEP.get().unwrap_or_else(|| LastStep {
            thread: self.next_thread.fetch_add(1, Ordering::Relaxed),
            at_ns: now_ns,
            sleeps: sleeps(),
        });
        let mut step = LastStep {
            at_ns: now_ns,
            ..last
        };
        if now_ns.saturating_sub(last.at_ns) >= GAP_NS {
            step.sleeps = sleeps();
            let has_slept = step.sleeps != last.sleeps;
            if let Some(thread) = self.threads.get(last.thread).filter(|_| !has_slept) {
                thread.add(last.at_ns, now_ns, round());
            }
        }
        LAST_STEP.set(Some(step));
    }

    /// The part of the time from `since_ns` to `until_ns` in which at least one kernel thread had a
    /// gap. Both times are in the given round. Gaps of several kernel threads at the same time
    /// count once.
    pub(crate) fn gap_time_ns(&self, round: u64, since_ns: u64, until_ns: u64) -> u64 {
        let mut gaps: Vec<[u64; 2]> = self
            .threads
            .iter()
            .flat_map(|thread| thread.gaps_of(round))
            .collect();
        gaps.sort_unstable();
        let (mut sum_ns, mut end_ns) = (0, since_ns);
        for [from_ns, to_ns] in gaps {
            let to_ns = to_ns.min(until_ns);
            sum_ns += to_ns.saturating_sub(from_ns.max(end_ns));
            end_ns = end_ns.max(to_ns);
        }
        sum_ns
    }

    /// The share of their time that the kernel threads spent in gaps. `seconds` is the duration of
    /// the run.
    pub(crate) fn gap_share(&self, seconds: f64) -> f64 {
        let sum: u64 = self
            .threads
            .iter()
            .map(|thread| thread.sum_ns.load(Ordering::Relaxed))
            .sum();
        sum as f64 / 1e9 / seconds / self.threads.len() as f64
    }

    /// Runs empty loops on as many kernel threads as there are processors. Returns the share of
    /// their time that was in gaps.
    pub(crate) fn gap_share_of_loops(processors: usize, duration: Duration) -> f64 {
        let detector = Self::new(processors);
        thread::scope(|scope| {
            for _ in 0..processors {
                scope.spawn(|| {
                    let begin = Instant::now();
                    while begin.elapsed() < duration {
                        detector.report_step(begin.elapsed().as_nanos() as u64, || (0, 0));
                    }
                });
            }
        });
        detector.gap_share(duration.as_secs_f64())
    }
}

impl ThreadGaps {
    /// Adds a gap. The last argument consists of the number of the present round and the time at
    /// which the round was published. The part of the gap before that time counts only for
    /// `sum_ns`.
    fn add(&self, from_ns: u64, to_ns: u64, (round, published_ns): (u64, u64)) {
        let sum_ns = self.sum_ns.load(Ordering::Relaxed) + (to_ns - from_ns);
        self.sum_ns.store(sum_ns, Ordering::Relaxed);
        if published_ns > to_ns {
            return;
        }
        let count = match self.round.load(Ordering::Relaxed) == round {
            true => self.count.load(Ordering::Relaxed),
            false => 0,
        };
        let [from, to] = &self.gaps[count.min(GAPS - 1)];
        from.store(from_ns.max(published_ns), Ordering::Relaxed);
        to.store(to_ns, Ordering::Relaxed);
        self.round.store(round, Ordering::Relaxed);
        // Release: pairs with the load in `gaps_of`, so that the reader sees the gap and its round.
        self.count.store((count + 1).min(GAPS), Ordering::Release);
    }

    /// Returns the gaps of a round, each as its begin and its end.
    fn gaps_of(&self, round: u64) -> impl Iterator<Item = [u64; 2]> {
        // Acquire: pairs with the store in `add`.
        let count = self.count.load(Ordering::Acquire);
        let is_same_round = self.round.load(Ordering::Relaxed) == round;
        let gaps = self.gaps[..count].iter().filter(move |_| is_same_round);
        gaps.map(|gap| gap.each_ref().map(|at| at.load(Ordering::Relaxed)))
    }
}

/// The number of times that this kernel thread has gone to sleep: its voluntary context switches.
fn sleeps() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a local variable, which nothing else uses during the call.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: the structure is zeroed, and every bit pattern is valid.
    unsafe { usage.assume_init() }.ru_nvcsw
}
