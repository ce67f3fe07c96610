//! The benchmark *transfer*: every thread (a fibre or a task) must see the signal of each leader.
//!
//! The leader publishes the number of a *round*, and waits until all other threads have seen it.
//! Then the next thread leads. No thread blocks: leader and followers do what they can without
//! waiting, and yield. If a scheduler does not run one of the threads for a while, all other
//! threads wait for that thread. If the scheduler never runs the thread, the round never ends.
//! Every processor always has some other thread to run, so only a fair scheduler avoids this.
//!
//! This file contains everything except the yields, so that the benchmark is the same for each
//! runtime.
//!
//! A *turn* is the time from the publication of a round until a given thread has seen the round,
//! that is, the time that the thread waited to run. A round lasts a little longer than its longest
//! turn.
//!
//! The benchmark *turns* is the same with a [`GapDetector`], which finds the *gaps*: times in which
//! a kernel thread did not run. For this, each step reads the clock. So a step takes longer than in
//! *transfer*, and the median turn is longer, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::benchmark::{GapSummary, Outcome, Setting};
use crate::clock::Clock;
use crate::gaps::GapDetector;
use crate::turns::Turns;

/// A value on two cache lines of its own. CPUs fetch cache lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Apart<T>(T);

/// The state that all threads of the benchmark share.
pub(crate) struct Rounds {
    /// The number of the thread that is the leader.
    leader: Apart<AtomicU64>,
    /// The present round.
    round: Apart<Round>,
    /// The last round that each thread has seen.
    seen: Box<[Apart<AtomicU64>]>,
    /// The time from which all times in nanoseconds are counted.
    created: Instant,
    /// Only for *turns*.
    gap_detector: Option<GapDetector>,
    /// Only for *turns*: the share of gaps in empty loops, measured before the threads started.
    share_of_loops: Option<f64>,
}

/// The present round.
#[derive(Default)]
struct Round {
    /// The number of the round, from 1; 0 before the first.
    number: AtomicU64,
    /// The time at which the round was published.
    published_ns: AtomicU64,
}

impl Rounds {
    /// Creates the state for *turns* (`detects_gaps` is true) or for *transfer*.
    pub(crate) fn new(setting: Setting, detects_gaps: bool) -> Arc<Self> {
        let Setting {
            processors,
            duration,
            ..
        } = setting;
        let gap_share_of_loops = || GapDetector::gap_share_of_loops(processors, duration / 4);
        let share_of_loops = detects_gaps.then(gap_share_of_loops);
        Arc::new(Self {
            leader: Apart::default(),
            round: Apart::default(),
            seen: (0..setting.threads()).map(|_| Apart::default()).collect(),
            created: Instant::now(),
            gap_detector: detects_gaps.then(|| GapDetector::new(processors)),
            share_of_loops,
        })
    }

    fn now_ns(&self) -> u64 {
        self.created.elapsed().as_nanos() as u64
    }

    /// The time since the last round was published.
    fn age_ns(&self) -> u64 {
        self.age_at(self.now_ns())
    }

    /// The time from the publication of the last round until `now_ns`.
    fn age_at(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.round.0.published_ns.load(Ordering::Relaxed))
    }

    /// Runs the benchmark. Once all threads have ended, [`Measured::outcome`] adds up their
    /// results.
    pub(crate) fn measure(&self, clock: &Clock, duration: Duration) -> Measured {
        let gap_detector = self.gap_detector.as_ref();
        self.round
            .0
            .published_ns
            .store(self.now_ns(), Ordering::Relaxed);
        let seconds = clock.run(duration);
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
    seconds: f64,
    /// A round began in the second half of the run. If not, some thread did not run during that
    /// half, so the number of earlier rounds does not give a rate.
    is_finished: bool,
    /// Only for *turns*: the share of the kernel threads' time that was in gaps.
    share: Option<f64>,
    /// Only for *turns*: the same share for empty loops.
    share_of_loops: Option<f64>,
}

impl Measured {
    /// The result of the run. `members` are the measurements of all threads, which have ended.
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

/// The state and the measurements of one thread.
pub(crate) struct Member {
    rounds: Arc<Rounds>,
    /// The number of the thread.
    number: usize,
    /// The last round that the thread has seen.
    round: u64,
    /// While the thread leads, the lowest number of a thread that may not have seen the round yet.
    awaiting: Option<usize>,
    /// The number of complete rounds that the thread has led.
    led: u64,
    /// The turns of the thread.
    turns: Turns,
    /// The durations of the rounds that the thread has led.
    durations: Turns,
    /// The turns without the gaps of kernel threads.
    turns_without_gaps: Turns,
    /// The last turn, until it is added to `turns_without_gaps`.
    unsettled: Option<Turn>,
}

/// A turn that has ended.
struct Turn {
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

    /// Does the leader's or a follower's work, as far as this is possible without waiting.
    #[inline]
    pub(crate) fn step(&mut self) {
        self.settle();
        if let Some(detector) = &self.rounds.gap_detector {
            detector.report_step(self.rounds.now_ns(), || {
                let round = &self.rounds.round.0;
                // Acquire: pairs with the store in `lead`, so that `published_ns` belongs to this
                // round.
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

    /// Records the last turn without its gaps. This is done one step after the turn, because a
    /// kernel thread reports a gap only when the gap has ended, which may be after the turn.
    #[inline]
    fn settle(&mut self) {
        if let (Some(detector), Some(turn)) = (&self.rounds.gap_detector, self.unsettled.take()) {
            let begin_ns = turn.end_ns - turn.len_ns;
            let gap_ns = detector.gap_time_ns(turn.round, begin_ns, turn.end_ns);
            self.turns_without_gaps.record(turn.len_ns - gap_ns);
        }
    }

    /// Called at the end of the run. A thread that has not run since the last round began records
    /// its wait until now: without this, a thread that starves would not be measured.
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
            // Release: pairs with the loads in `follow` and `step`, so that `published_ns` belongs
            // to this round there.
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
        // Release: pairs with the load in `step`.
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
            // Release: pairs with the load in `lead`.
            rounds.seen[self.number].0.store(round, Ordering::Release);
        }
    }
}
