//! Finds *gaps* in the benchmark *turns*. A gap is a time in which a kernel thread of a runtime
//! neither slept nor ran a fibre. What is said here of fibres is also true of tokio tasks.
//!
//! In *turns*, one fibre at a time publishes a *round*, and waits until all other fibres have seen
//! the round. A fibre sees it when the fibre runs the next time. The time from the publication
//! until then is a *turn* of the fibre (`rounds.rs`). The median turn is about 200 ns. The longest
//! turn says more about the machine than about the scheduler. A timer interrupt takes as long as 20
//! median turns. A time slice of the host or of another process takes as long as tens of thousands
//! of them. So the benchmark finds the gaps, and subtracts them from the turns.
//!
//! In a *step*, a fibre does what it can do without waiting; then it yields. It reports each step
//! to the [`GapDetector`]. There is a gap if no step is reported on a kernel thread for [`GAP_NS`]
//! or longer, and the kernel thread did not sleep in that time. The cause may be an interrupt,
//! another process or the host. But it may also be the scheduler of the runtime, if the scheduler
//! makes a system call or gives up the time slice of the kernel thread.
//!
//! So the benchmark must find out whether the scheduler causes gaps itself. Before the run, it
//! measures the share of time that empty loops lose to gaps. If a runtime loses a much larger
//! share, its scheduler causes gaps. Then the result of the runtime must not be judged, because
//! the subtraction hides waits that the scheduler causes. The comparison is about the sum of all
//! gaps. It does not show the cause of a single gap.
//!
//! The turns without gaps show how long fibres wait while all kernel threads run. They do not show
//! whether one kernel thread helps another. For example, a kernel thread has a gap, and a fibre
//! waits in the queue of this kernel thread. Then the gap is subtracted from the fibre's turn, even
//! if another kernel thread could have run the fibre.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sys::cost::thread_sleeps;

/// The minimum length of a gap, in nanoseconds.
const GAP_NS: u64 = 2_000;

/// The maximum number of gaps that are kept for each kernel thread. Only gaps of a single round are
/// kept: the last round in which this kernel thread had a gap. If that round has more gaps, each
/// further gap replaces the last kept gap. A replaced gap is not subtracted from turns.
const MAX_KEPT_GAPS: usize = 16;

/// The gaps of one kernel thread. Only this kernel thread changes them; other kernel threads read
/// them.
// The alignment gives the gaps cache lines of their own. CPUs fetch cache lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct KernelThreadGaps {
    /// The number of the round to which the gaps in `kept` belong.
    round: AtomicU64,
    /// The number of gaps in `kept`.
    count: AtomicUsize,
    /// For each gap, the time at which it began and the time at which it ended, in nanoseconds.
    kept: [[AtomicU64; 2]; MAX_KEPT_GAPS],
    /// The sum of the lengths of all gaps of the run.
    sum_ns: AtomicU64,
}

/// The last step that was reported on a kernel thread.
#[derive(Clone, Copy)]
struct LastStep {
    /// The number of the kernel thread.
    kernel_thread: usize,
    /// The time of the step.
    at_ns: u64,
    /// The result of [`thread_sleeps`] when it was last called on this kernel thread. It is called
    /// at the first step, and at each step that is [`GAP_NS`] or more after the step before.
    sleep_count: u64,
}

thread_local! {
    /// The last step on the current kernel thread; `None` before the first step.
    static LAST_STEP: Cell<Option<LastStep>> = const { Cell::new(None) };
}

/// Finds the gaps of all kernel threads of a runtime.
pub(crate) struct GapDetector {
    /// The gaps of each kernel thread, by the number of the kernel thread.
    kernel_threads: Box<[KernelThreadGaps]>,
    /// Kernel threads are numbered in the order of their first steps. This is the next number.
    next_kernel_thread: AtomicUsize,
}

impl GapDetector {
    /// `processors` is the number of the runtime's kernel threads.
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            kernel_threads: (0..processors)
                .map(|_| KernelThreadGaps::default())
                .collect(),
            next_kernel_thread: AtomicUsize::new(0),
        }
    }

    /// Reports that a fibre does a step at the time `now_ns` on the current kernel thread. Each
    /// step must be reported, because a gap is the time between two steps on one kernel thread.
    ///
    /// `last_round` returns the number of the last round, and the time at which this round was
    /// published. It is called after `now_ns` was read. In the opposite order, there could be a gap
    /// after the call, and during the gap a new round could be published. Then the gap would count
    /// for the previous round, and would not be subtracted from the turns of the new one.
    // Not inlined: if it were, the compiler could keep the address of the thread-local variable
    // across a yield. After the yield, a fibre may run on another kernel thread.
    #[inline(never)]
    pub(crate) fn report_step(&self, now_ns: u64, last_round: impl Fn() -> (u64, u64)) {
        let last = LAST_STEP.get().unwrap_or_else(|| LastStep {
            kernel_thread: self.next_kernel_thread.fetch_add(1, Ordering::Relaxed),
            at_ns: now_ns,
            sleep_count: thread_sleeps(),
        });
        let mut step = LastStep {
            at_ns: now_ns,
            ..last
        };
        if now_ns.saturating_sub(last.at_ns) >= GAP_NS {
            step.sleep_count = thread_sleeps();
            let has_slept = step.sleep_count != last.sleep_count;
            // Kernel threads beyond the number given to `new` are ignored.
            let own_gaps = self.kernel_threads.get(last.kernel_thread);
            if let Some(own_gaps) = own_gaps.filter(|_| !has_slept) {
                own_gaps.add(last.at_ns, now_ns, last_round());
            }
        }
        LAST_STEP.set(Some(step));
    }

    /// Returns how much of the time from `since_ns` to `until_ns` was in a gap of at least one
    /// kernel thread. A time that is in gaps of several kernel threads counts once. Neither
    /// `since_ns` nor `until_ns` may be before the publication of `round`, or after that of the
    /// next round.
    pub(crate) fn gap_time_ns(&self, round: u64, since_ns: u64, until_ns: u64) -> u64 {
        let mut gaps: Vec<[u64; 2]> = self
            .kernel_threads
            .iter()
            .flat_map(|kernel_thread| kernel_thread.gaps_of(round))
            .collect();
        gaps.sort_unstable();
        // The gaps between `since_ns` and `counted_until_ns` are already in `sum_ns`.
        let (mut sum_ns, mut counted_until_ns) = (0, since_ns);
        for [begin_ns, end_ns] in gaps {
            let end_ns = end_ns.min(until_ns);
            sum_ns += end_ns.saturating_sub(begin_ns.max(counted_until_ns));
            counted_until_ns = counted_until_ns.max(end_ns);
        }
        sum_ns
    }

    /// Returns the sum of all gaps as a share of the time of all kernel threads: 0 to 1. `seconds`
    /// is the duration of the run.
    pub(crate) fn gap_share(&self, seconds: f64) -> f64 {
        let sum_ns: u64 = self
            .kernel_threads
            .iter()
            .map(|kernel_thread| kernel_thread.sum_ns.load(Ordering::Relaxed))
            .sum();
        sum_ns as f64 / 1e9 / seconds / self.kernel_threads.len() as f64
    }

    /// Runs an empty loop on each of `processors` new kernel threads for `duration`. Returns the
    /// sum of the loops' gaps as a share of the time of these kernel threads.
    pub(crate) fn gap_share_of_loops(processors: usize, duration: Duration) -> f64 {
        let detector = Self::new(processors);
        thread::scope(|scope| {
            for _ in 0..processors {
                scope.spawn(|| {
                    let begin = Instant::now();
                    while begin.elapsed() < duration {
                        // There are no rounds here. All gaps count for a round 0.
                        detector.report_step(begin.elapsed().as_nanos() as u64, || (0, 0));
                    }
                });
            }
        });
        detector.gap_share(duration.as_secs_f64())
    }
}

impl KernelThreadGaps {
    /// Adds the gap from `begin_ns` to `end_ns`. `round` is the number of the last round, and
    /// `published_ns` the time at which it was published. `sum_ns` always includes the whole gap.
    /// But only the part of the gap after `published_ns` is added to `kept`.
    fn add(&self, begin_ns: u64, end_ns: u64, (round, published_ns): (u64, u64)) {
        let sum_ns = self.sum_ns.load(Ordering::Relaxed) + (end_ns - begin_ns);
        self.sum_ns.store(sum_ns, Ordering::Relaxed);
        if published_ns > end_ns {
            return;
        }
        let count = match self.round.load(Ordering::Relaxed) == round {
            true => self.count.load(Ordering::Relaxed),
            false => 0,
        };
        let [begin, end] = &self.kept[count.min(MAX_KEPT_GAPS - 1)];
        begin.store(begin_ns.max(published_ns), Ordering::Relaxed);
        end.store(end_ns, Ordering::Relaxed);
        self.round.store(round, Ordering::Relaxed);
        // Release: pairs with the load in `gaps_of`, so that the reader sees the gap and its round.
        self.count
            .store((count + 1).min(MAX_KEPT_GAPS), Ordering::Release);
    }

    /// Returns the kept gaps if they belong to `round`, otherwise none. Each gap is given as the
    /// time at which it began and the time at which it ended.
    fn gaps_of(&self, round: u64) -> impl Iterator<Item = [u64; 2]> {
        // Acquire: pairs with the store in `add`.
        let count = self.count.load(Ordering::Acquire);
        let is_same_round = self.round.load(Ordering::Relaxed) == round;
        let gaps = self.kept[..count].iter().filter(move |_| is_same_round);
        gaps.map(|gap| gap.each_ref().map(|ns| ns.load(Ordering::Relaxed)))
    }
}
