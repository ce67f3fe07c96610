//! The benchmark *transfer*. Its *threads* are fibres or tasks; they are numbered from 0. One
//! thread at a time is the *leader*, the others are *followers*.
//!
//! In a *round*, the leader publishes the number of the round, and each follower must see this
//! number. Once all followers have seen it, the round is complete, and the next thread becomes the
//! leader. No thread blocks. A thread repeats *steps*: in a step, it does what it can do without
//! waiting; after the step, it yields. If a scheduler does not run one of the threads for a while,
//! the round lasts at least as long. If the scheduler never runs the thread, the round never ends.
//! All threads are always ready, so a scheduler must be fair in order to run each of them soon.
//!
//! This file contains everything except the loop of steps and yields, which differs between
//! runtimes (`fibres.rs`, `tasks.rs`).
//!
//! A *turn* is the time from the publication of a round until a given thread has seen the round,
//! that is, the time that the thread waited to run. A round lasts a little longer than its longest
//! turn.
//!
//! The benchmark *turns* is *transfer* with a [`GapDetector`]. It finds the *gaps*: times in which
//! a kernel thread of the runtime neither ran a thread nor slept. For this, every step reads the
//! clock; in *transfer*, few steps do. So the median turn is longer in *turns*.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::benchmark::{GapSummary, Outcome, Setting};
use crate::clock::Clock;
use crate::gaps::GapDetector;
use crate::turns::Turns;

/// A value that shares no cache line with other values. It is aligned to two cache lines, because
/// CPUs fetch cache lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct CachePadded<T>(T);

/// The state that all threads of the benchmark share.
pub(crate) struct Rounds {
    /// The number of the thread that is the leader.
    leader: CachePadded<AtomicU64>,
    /// The latest round that was published.
    round: CachePadded<Round>,
    /// For each thread, the number of the latest round that the thread has seen.
    seen: Box<[CachePadded<AtomicU64>]>,
    /// All times in nanoseconds are counted from this time.
    created: Instant,
    /// Only for *turns*; `None` for *transfer*.
    gap_detector: Option<GapDetector>,
    /// Only for *turns*: the share of time that empty loops lost to gaps (0 to 1). It is measured
    /// before the threads start.
    share_of_loops: Option<f64>,
}

/// The latest round that was published.
#[derive(Default)]
struct Round {
    /// The number of the round, from 1; 0 before the first round.
    number: AtomicU64,
    /// The time at which the round was published. Before the first round, the time at which the
    /// benchmark began.
    published_ns: AtomicU64,
}

impl Rounds {
    /// Creates the state for *turns* if `detects_gaps` is true, otherwise for *transfer*. For
    /// *turns*, first runs empty loops for a quarter of the duration of the benchmark.
    pub(crate) fn new(setting: Setting, detects_gaps: bool) -> Arc<Self> {
        let Setting {
            processors,
            duration,
            ..
        } = setting;
        let gap_share_of_loops = || GapDetector::gap_share_of_loops(processors, duration / 4);
        let share_of_loops = detects_gaps.then(gap_share_of_loops);
        Arc::new(Self {
            leader: CachePadded::default(),
            round: CachePadded::default(),
            seen: (0..setting.threads())
                .map(|_| CachePadded::default())
                .collect(),
            created: Instant::now(),
            gap_detector: detects_gaps.then(|| GapDetector::new(processors)),
            share_of_loops,
        })
    }

    fn now_ns(&self) -> u64 {
        self.created.elapsed().as_nanos() as u64
    }

    /// The time since the latest round was published.
    fn age_ns(&self) -> u64 {
        self.age_at(self.now_ns())
    }

    /// The time from the publication of the latest round until `now_ns`.
    fn age_at(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.round.0.published_ns.load(Ordering::Relaxed))
    }

    /// Runs the benchmark for `duration`. Then the caller waits until all threads have ended, and
    /// calls [`Measured::outcome`], which adds up the results of the threads.
    pub(crate) fn measure(&self, clock: &Clock, duration: Duration) -> Measured {
        let gap_detector = self.gap_detector.as_ref();
        self.round
            .0
            .published_ns
            .store(self.now_ns(), Ordering::Relaxed);
        let seconds = clock.run(duration);
        // The latest round, if any, began less than half the run's duration ago.
        let is_finished = (self.age_ns() as f64) < seconds * 1e9 / 2.0;
        Measured {
            seconds,
            is_finished,
            share: gap_detector.map(|detector| detector.gap_share(seconds)),
            share_of_loops: self.share_of_loops,
        }
    }
}

/// The measurements of a run that are known before its threads have ended.
pub(crate) struct Measured {
    /// The duration of the run.
    seconds: f64,
    /// Whether the number of rounds is meaningful as a rate: true if a round began in the second
    /// half of the run. If none began, the scheduler did not run some thread during that half.
    is_finished: bool,
    /// Only for *turns*: the share of time that the kernel threads of the runtime lost to gaps.
    share: Option<f64>,
    /// [`Rounds::share_of_loops`].
    share_of_loops: Option<f64>,
}

impl Measured {
    /// The result of the run. `members` are all threads of the benchmark; each has been closed
    /// ([`Member::close`]).
    pub(crate) fn outcome(&self, members: &[Member]) -> Outcome {
        let (mut turns, mut durations) = (Turns::new(), Turns::new());
        let mut without_gaps = Turns::new();
        for member in members {
            turns.merge(&member.turns);
            durations.merge(&member.durations);
            without_gaps.merge(&member.turns_without_gaps);
        }
        let shares = self.share.zip(self.share_of_loops);
        Outcome {
            gaps: shares.map(|(share, share_of_loops)| GapSummary {
                turns: without_gaps,
                share,
                share_of_loops,
            }),
            is_finished: self.is_finished,
            turns: Some((turns, durations)),
            ..Outcome::new(
                members.len(),
                members.iter().map(|member| member.led).sum(),
                self.seconds,
            )
        }
    }
}

/// One thread of the benchmark: its state and its measurements.
pub(crate) struct Member {
    rounds: Arc<Rounds>,
    /// The number of the thread.
    number: usize,
    /// The number of the latest round that the thread has seen or published.
    round: u64,
    /// Only while the thread leads: the number of the follower for which it waits. All threads with
    /// lower numbers have seen the round.
    awaiting: Option<usize>,
    /// The number of complete rounds that the thread has led.
    led: u64,
    /// The turns of the thread.
    turns: Turns,
    /// The durations of the rounds that the thread has led.
    durations: Turns,
    /// Only for *turns*: the same turns, after the gaps during each turn were subtracted from it.
    turns_without_gaps: Turns,
    /// Only for *turns*: the last turn, if it has not been added to `turns_without_gaps` yet.
    unsettled: Option<Turn>,
}

/// A turn that has ended.
struct Turn {
    /// The number of the round.
    round: u64,
    len_ns: u64,
    end_ns: u64,
}

impl Member {
    pub(crate) fn new(rounds: &Arc<Rounds>, number: usize) -> Self {
        Self {
            rounds: Arc::clone(rounds),
            number,
            round: 0,
            awaiting: None,
            led: 0,
            turns: Turns::new(),
            durations: Turns::new(),
            turns_without_gaps: Turns::new(),
            unsettled: None,
        }
    }

    /// Does one step of the leader or of a follower: as much as is possible without waiting. The
    /// caller yields between steps.
    #[inline]
    pub(crate) fn step(&mut self) {
        self.settle();
        if let Some(detector) = &self.rounds.gap_detector {
            detector.report_step(self.rounds.now_ns(), || {
                let round = &self.rounds.round.0;
                // Acquire: pairs with the store in `lead`, so that `published_ns` is not older than
                // this round. It may be that of the next round, whose number is stored after it.
                let number = round.number.load(Ordering::Acquire);
                (number, round.published_ns.load(Ordering::Relaxed))
            });
        }
        // Acquire: pairs with the store in `lead` by the previous leader.
        if self.rounds.leader.0.load(Ordering::Acquire) == self.number as u64 {
            self.lead();
        } else {
            self.follow();
        }
    }

    /// If the last turn has not been added to `turns_without_gaps` yet, subtracts the gaps and adds
    /// it. This is done in the step after the turn: a kernel thread reports a gap when the gap has
    /// ended, which may be later than the turn.
    #[inline]
    fn settle(&mut self) {
        if let (Some(detector), Some(turn)) = (&self.rounds.gap_detector, self.unsettled.take()) {
            let begin_ns = turn.end_ns - turn.len_ns;
            let gap_ns = detector.gap_time_ns(turn.round, begin_ns, turn.end_ns);
            self.turns_without_gaps.record(turn.len_ns - gap_ns);
        }
    }

    /// Ends the measurement. Called once by each thread, after the run. A thread that has not seen
    /// the latest round records a turn from its publication until now. Without this, the wait of
    /// the thread that did not run during the rest of the benchmark would not be measured.
    pub(crate) fn close(mut self) -> Self {
        self.settle();
        self.follow();
        self.settle();
        self
    }

    /// Publishes a round, unless this thread has done so in an earlier step. Then checks which
    /// threads have seen the round. Once all have, makes the next thread the leader.
    fn lead(&mut self) {
        let rounds = &*self.rounds;
        let (round, seen) = (&rounds.round.0, &rounds.seen);
        let mut awaiting = self.awaiting.unwrap_or_else(|| {
            self.round = round.number.load(Ordering::Relaxed) + 1;
            seen[self.number].0.store(self.round, Ordering::Relaxed);
            round.published_ns.store(rounds.now_ns(), Ordering::Relaxed);
            // Release: pairs with the loads in `follow` and `step`, which thereby also see
            // `published_ns`.
            round.number.store(self.round, Ordering::Release);
            0
        });
        while let Some(other) = seen.get(awaiting) {
            // Acquire: pairs with the store in `follow`.
            if other.0.load(Ordering::Acquire) != self.round {
                self.awaiting = Some(awaiting);
                return;
            }
            awaiting += 1;
        }
        self.awaiting = None;
        self.led += 1;
        self.durations.record(rounds.age_ns());
        let next = (self.number + 1) % seen.len();
        // Release: pairs with the load of `leader` in `step`, so that the next leader sees the
        // number of this round.
        rounds.leader.0.store(next as u64, Ordering::Release);
    }

    /// If there is a new round, marks it as seen by this thread, and records the turn.
    fn follow(&mut self) {
        let rounds = &*self.rounds;
        // Acquire: pairs with the store in `lead`.
        let round = rounds.round.0.number.load(Ordering::Acquire);
        if round != self.round {
            self.round = round;
            let now_ns = rounds.now_ns();
            let age_ns = rounds.age_at(now_ns);
            self.turns.record(age_ns);
            if rounds.gap_detector.is_some() {
                self.unsettled = Some(Turn {
                    round,
                    len_ns: age_ns,
                    end_ns: now_ns,
                });
            }
            // Release: pairs with the load in `lead`, so that `published_ns` was read above before
            // the next leader overwrites it.
            rounds.seen[self.number].0.store(round, Ordering::Release);
        }
    }
}
