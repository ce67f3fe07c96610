//! *transfer*: everyone must see one leader's signal.
//!
//! A leader publishes the number of a round and waits until everyone has seen it, then the next
//! one leads. Nobody blocks: leader and followers alike do what they can and yield. A scheduler
//! that forgets a thread for a while therefore stops all others, and one that never remembers it
//! never finishes; nothing but fairness helps, for every processor has something to run all the
//! time.
//!
//! All of it is here but the yielding, so that it is the same for every runtime.
//!
//! A *turn* is the time from the publication of a round until a thread has seen it: how long it
//! waited to run. A round is as long as its longest turn, and a little longer.
//!
//! *turns* is the same with a look at the clock at each step, so that it is known when a kernel
//! thread did not run ([`crate::machine`]), and that time can be taken off the turns. A step takes
//! longer for that, and so does the median turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::benchmark::{Outcome, Setting, Taken};
use crate::clock::Clock;
use crate::machine::Machine;
use crate::turns::Turns;

/// Has two cache lines, which processors fetch in pairs, for itself.
#[repr(align(128))]
#[derive(Default)]
struct Apart<T>(T);

/// What all share.
pub(crate) struct Rounds {
    /// Who leads.
    leader: Apart<AtomicU64>,
    round: Apart<Round>,
    /// The last round each has seen.
    seen: Box<[Apart<AtomicU64>]>,
    born: Instant,
    /// Of *turns*; and what was taken from empty loops before there were threads.
    machine: Option<Machine>,
    share_of_loops: Option<f64>,
}

#[derive(Default)]
struct Round {
    /// From 1; 0 before the first.
    number: AtomicU64,
    published_ns: AtomicU64,
}

impl Rounds {
    /// For *turns*, which are watched, or *transfer*.
    pub(crate) fn new(setting: Setting, is_watched: bool) -> Arc<Self> {
        let Setting {
            processors,
            duration,
            ..
        } = setting;
        let taken_from_loops = || Machine::taken_from_loops(processors, duration / 4);
        let share_of_loops = is_watched.then(taken_from_loops);
        Arc::new(Self {
            leader: Apart::default(),
            round: Apart::default(),
            seen: (0..setting.threads()).map(|_| Apart::default()).collect(),
            born: Instant::now(),
            machine: is_watched.then(|| Machine::new(processors)),
            share_of_loops,
        })
    }

    fn now_ns(&self) -> u64 {
        self.born.elapsed().as_nanos() as u64
    }

    /// How long ago the last round was published.
    fn age_ns(&self) -> u64 {
        self.age_at(self.now_ns())
    }

    fn age_at(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.round.0.published_ns.load(Ordering::Relaxed))
    }

    /// Lets the benchmark run; [`Measured::outcome`] adds up once all threads have ended.
    pub(crate) fn measure(&self, clock: &Clock, duration: Duration) -> Measured {
        let watched = self.machine.as_ref();
        self.round
            .0
            .published_ns
            .store(self.now_ns(), Ordering::Relaxed);
        let seconds = clock.run(duration);
        let is_finished = (self.age_ns() as f64) < seconds * 1e9 / 2.0;
        Measured {
            seconds,
            is_finished,
            share: watched.map(|machine| machine.taken_share(seconds)),
            share_of_loops: self.share_of_loops,
        }
    }
}

/// A run of *transfer*.
pub(crate) struct Measured {
    seconds: f64,
    /// Some round began in the second half of the run. Where none did, someone was not given its
    /// turn for as long, and the rounds before are no rate of anything.
    is_finished: bool,
    /// What was taken, of *turns*.
    share: Option<f64>,
    share_of_loops: Option<f64>,
}

impl Measured {
    pub(crate) fn outcome(&self, members: &[Member]) -> Outcome {
        let (mut turns, mut durations) = (Turns::new(), Turns::new());
        let mut own = Turns::new();
        for member in members {
            turns.merge(&member.turns);
            durations.merge(&member.durations);
            own.merge(&member.own);
        }
        let machine = self.share.zip(self.share_of_loops);
        Outcome {
            machine: machine.map(|(share, share_of_loops)| Taken {
                turns: own,
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

/// One thread's part.
pub(crate) struct Member {
    rounds: Arc<Rounds>,
    me: usize,
    /// The last round it has seen.
    round: u64,
    /// While it leads: the first of whom it does not know that they have seen the round.
    awaiting: Option<usize>,
    /// Rounds it has led to their end.
    led: u64,
    turns: Turns,
    durations: Turns,
    /// Turns less the gaps of processors; and the last, which is not yet among them.
    own: Turns,
    last: Option<Turn>,
}

/// A turn in a round, and when it came.
struct Turn {
    round: u64,
    age_ns: u64,
    until_ns: u64,
}

impl Member {
    pub(crate) fn new(rounds: &Arc<Rounds>, me: usize) -> Self {
        Self {
            rounds: Arc::clone(rounds),
            me,
            round: 0,
            awaiting: None,
            led: 0,
            turns: Turns::new(),
            durations: Turns::new(),
            own: Turns::new(),
            last: None,
        }
    }

    /// Does what can be done without waiting.
    #[inline]
    pub(crate) fn step(&mut self) {
        self.settle();
        if let Some(machine) = &self.rounds.machine {
            machine.runs(self.rounds.now_ns(), || {
                let round = &self.rounds.round.0;
                // Pairs with the store in `lead`: the time is that of the round.
                let number = round.number.load(Ordering::Acquire);
                (number, round.published_ns.load(Ordering::Relaxed))
            });
        }
        // Pairs with the store in `lead`, of the one before.
        if self.rounds.leader.0.load(Ordering::Acquire) == self.me as u64 {
            self.lead();
        } else {
            self.follow();
        }
    }

    /// Notes the last turn, less what was taken meanwhile: now, for whoever it was taken from may
    /// have been about to say so.
    #[inline]
    fn settle(&mut self) {
        if let (Some(machine), Some(last)) = (&self.rounds.machine, self.last.take()) {
            let since_ns = last.until_ns - last.age_ns;
            let taken_ns = machine.taken(last.round, since_ns, last.until_ns);
            self.own.record(last.age_ns - taken_ns);
        }
    }

    /// To be called at the end: who has not had a turn since the last round began has waited at
    /// least this long, and that must not be forgotten.
    pub(crate) fn close(mut self) -> Self {
        self.settle();
        self.follow();
        self.settle();
        self
    }

    fn lead(&mut self) {
        let rounds = &*self.rounds;
        let (round, seen) = (&rounds.round.0, &rounds.seen);
        let mut awaiting = self.awaiting.unwrap_or_else(|| {
            self.round = round.number.load(Ordering::Relaxed) + 1;
            seen[self.me].0.store(self.round, Ordering::Relaxed);
            round.published_ns.store(rounds.now_ns(), Ordering::Relaxed);
            // Pairs with the load in `follow`: the time is that of the round.
            round.number.store(self.round, Ordering::Release);
            0
        });
        while let Some(other) = seen.get(awaiting) {
            // Pairs with the store in `follow`.
            if other.0.load(Ordering::Acquire) != self.round {
                self.awaiting = Some(awaiting);
                return;
            }
            awaiting += 1;
        }
        self.awaiting = None;
        self.led += 1;
        self.durations.record(rounds.age_ns());
        let next = (self.me + 1) % seen.len();
        // Pairs with the load in `step`.
        rounds.leader.0.store(next as u64, Ordering::Release);
    }

    fn follow(&mut self) {
        let rounds = &*self.rounds;
        // Pairs with the store in `lead`.
        let round = rounds.round.0.number.load(Ordering::Acquire);
        if round != self.round {
            self.round = round;
            let now_ns = rounds.now_ns();
            let age_ns = rounds.age_at(now_ns);
            self.turns.record(age_ns);
            if rounds.machine.is_some() {
                self.last = Some(Turn {
                    round,
                    age_ns,
                    until_ns: now_ns,
                });
            }
            // Pairs with the load in `lead`.
            rounds.seen[self.me].0.store(round, Ordering::Release);
        }
    }
}
