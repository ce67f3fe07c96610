//! When kernel threads that run fibres or tasks ran none, though they did not sleep.
//!
//! A maximum of turns that take 200 ns each is the machine's before it is a scheduler's: a timer
//! interrupt is 20 turns, a slice that the host or another process takes some ten thousand. So each
//! thread says when it runs. Where a kernel thread has run nothing for [`GAP_NS`] and has not gone
//! to sleep meanwhile, that time is a *gap*: an interrupt, another process, the host; or the
//! scheduler itself, in a system call, or where it gives its slice away. How much of their time
//! empty loops lose to gaps is measured just before: where the runtime loses much more, its gaps
//! are its own, and its figure is not to be judged. That shows what is usual; for a single gap it
//! proves nothing. And who waits in a lane whose processor stands still is excused, though others
//! could have helped: turns less gaps are for whether somebody is forgotten while all run.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What is shorter is not counted as taken.
const GAP_NS: u64 = 2_000;

/// Gaps of a round that are remembered; more are not taken off, nor are those of rounds before the
/// last in which there was one.
const GAPS: usize = 16;

/// A kernel thread: nobody else writes here.
#[repr(align(128))]
#[derive(Default)]
struct ThreadGaps {
    /// The round that the gaps are of, and how many there are.
    round: AtomicU64,
    count: AtomicUsize,
    /// When they began and ended.
    gaps: [[AtomicU64; 2]; GAPS],
    /// Taken in all.
    sum_ns: AtomicU64,
}

/// What a kernel thread knows of itself.
#[derive(Clone, Copy)]
struct Here {
    thread: usize,
    last_ns: u64,
    sleeps: i64,
}

thread_local! {
    static HERE: Cell<Option<Here>> = const { Cell::new(None) };
}

/// All kernel threads of a runtime.
pub(crate) struct Machine {
    threads: Box<[ThreadGaps]>,
    next_thread: AtomicUsize,
}

impl Machine {
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            threads: (0..processors).map(|_| ThreadGaps::default()).collect(),
            next_thread: AtomicUsize::new(0),
        }
    }

    /// A thread runs now. To be told at each step, so that what lies between two steps on the same
    /// kernel thread is seen. `round` tells the last round, and when it was published: it is asked
    /// after the look at the clock, for the time may be taken in between.
    // Not inlined: who is moved to another kernel thread must not go on with this one's variables.
    #[inline(never)]
    pub(crate) fn runs(&self, now_ns: u64, round: impl Fn() -> (u64, u64)) {
        let here = HERE.get().unwrap_or_else(|| Here {
            thread: self.next_thread.fetch_add(1, Ordering::Relaxed),
            last_ns: now_ns,
            sleeps: sleeps(),
        });
        let mut next = Here {
            last_ns: now_ns,
            ..here
        };
        if now_ns.saturating_sub(here.last_ns) >= GAP_NS {
            next.sleeps = sleeps();
            let has_slept = next.sleeps != here.sleeps;
            if let Some(thread) = self.threads.get(here.thread).filter(|_| !has_slept) {
                thread.add(here.last_ns, now_ns, round());
            }
        }
        HERE.set(Some(next));
    }

    /// How much of the time between the two, both in this round, was in a gap of somebody: where it
    /// was of several, it counts once.
    pub(crate) fn taken(&self, round: u64, since_ns: u64, until_ns: u64) -> u64 {
        let mut gaps: Vec<[u64; 2]> = self
            .threads
            .iter()
            .flat_map(|thread| thread.of(round))
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

    /// The share of their time that was taken from all, of so many seconds.
    pub(crate) fn taken_share(&self, seconds: f64) -> f64 {
        let sum: u64 = self
            .threads
            .iter()
            .map(|thread| thread.sum_ns.load(Ordering::Relaxed))
            .sum();
        sum as f64 / 1e9 / seconds / self.threads.len() as f64
    }

    /// The same of empty loops on as many kernel threads.
    pub(crate) fn taken_from_loops(processors: usize, duration: Duration) -> f64 {
        let machine = Self::new(processors);
        thread::scope(|scope| {
            for _ in 0..processors {
                scope.spawn(|| {
                    let begin = Instant::now();
                    while begin.elapsed() < duration {
                        machine.runs(begin.elapsed().as_nanos() as u64, || (0, 0));
                    }
                });
            }
        });
        machine.taken_share(duration.as_secs_f64())
    }
}

impl ThreadGaps {
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
        // Pairs with the load in `of`: the gap and its round are there.
        self.count.store((count + 1).min(GAPS), Ordering::Release);
    }

    /// Its gaps since this round was published.
    fn of(&self, round: u64) -> impl Iterator<Item = [u64; 2]> {
        // Pairs with the store in `add`.
        let count = self.count.load(Ordering::Acquire);
        let is_its = self.round.load(Ordering::Relaxed) == round;
        let gaps = self.gaps[..count].iter().filter(move |_| is_its);
        gaps.map(|gap| gap.each_ref().map(|at| at.load(Ordering::Relaxed)))
    }
}

/// How often this kernel thread has gone to sleep.
fn sleeps() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is writable; for the calling thread the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: zeroed, then filled by the kernel; every bit pattern is valid.
    unsafe { usage.assume_init() }.ru_nvcsw
}
