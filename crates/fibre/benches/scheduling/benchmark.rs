//! Which benchmarks and runtimes there are, how they are set, and what comes out.

use std::time::Duration;

use clap::ValueEnum;
use fibre::Scheduler;
use serde::{Deserialize, Serialize};

use crate::turns::Turns;

/// A benchmark; the program's documentation says what each does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Benchmark {
    Cycle,
    CycleBare,
    CycleSemaphores,
    Yield,
    Churn,
    LocalityShare,
    LocalityNoshare,
    Transfer,
    Turns,
}

impl Benchmark {
    /// Whether Go takes part.
    pub(crate) fn is_in_go(self) -> bool {
        !matches!(self, Self::CycleBare | Self::CycleSemaphores | Self::Turns)
    }

    /// Whether it says something of one thread on one processor: a ring has five.
    pub(crate) fn may_be_alone(self) -> bool {
        use Benchmark::{Cycle, CycleBare, CycleSemaphores, Yield};
        matches!(self, Cycle | CycleBare | CycleSemaphores | Yield)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cycle => "cycle",
            Self::CycleBare => "cycle-bare",
            Self::CycleSemaphores => "cycle-semaphores",
            Self::Yield => "yield",
            Self::Churn => "churn",
            Self::LocalityShare => "locality-share",
            Self::LocalityNoshare => "locality-noshare",
            Self::Transfer => "transfer",
            Self::Turns => "turns",
        }
    }
}

/// A runtime, or a scheduler of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RuntimeKind {
    Fair,
    Steal,
    Global,
    Tokio,
    /// A program of its own, see [`crate::go`].
    #[value(skip)]
    Go,
}

impl RuntimeKind {
    pub(crate) const OURS: [Self; 3] = [Self::Fair, Self::Steal, Self::Global];
    pub(crate) const THEIRS: [Self; 2] = [Self::Tokio, Self::Go];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Steal => "steal",
            Self::Global => "global",
            Self::Tokio => "tokio",
            Self::Go => "go",
        }
    }

    /// The scheduler, of those that run fibres.
    pub(crate) fn scheduler(self) -> Option<Scheduler> {
        match self {
            Self::Fair => Some(Scheduler::Fair),
            Self::Steal => Some(Scheduler::Steal),
            Self::Global => Some(Scheduler::Global),
            Self::Tokio | Self::Go => None,
        }
    }
}

/// How large a run is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) processors: usize,
    /// Rings of *cycle*, threads of the others.
    pub(crate) per_processor: usize,
    pub(crate) duration: Duration,
}

impl Setting {
    /// Threads of all benchmarks but *cycle*, which has as many rings.
    pub(crate) fn threads(self) -> usize {
        self.processors * self.per_processor
    }
}

/// What a run found.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) threads: usize,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    /// Not so where a thread waited so long that the operations say nothing.
    pub(crate) is_finished: bool,
    /// Of *transfer* and *turns*: how long threads waited for their turn in a round, and how long
    /// rounds were.
    pub(crate) turns: Option<(Turns, Turns)>,
    /// Of *turns*.
    pub(crate) machine: Option<Taken>,
}

/// The time in which processors neither ran anything nor slept, while *turns* ran.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Turns less what of it there was meanwhile.
    pub(crate) turns: Turns,
    /// Of all time, and of that of empty loops just before.
    pub(crate) share: f64,
    pub(crate) share_of_loops: f64,
}

impl Outcome {
    /// Of a benchmark in which nobody can starve for good.
    pub(crate) fn new(threads: usize, operations: u64, seconds: f64) -> Self {
        Self {
            threads,
            operations,
            seconds,
            is_finished: true,
            turns: None,
            machine: None,
        }
    }
}

/// The line a run prints, the same in every language.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) runtime: RuntimeKind,
    pub(crate) benchmark: Benchmark,
    pub(crate) processors: usize,
    pub(crate) per_processor: usize,
    pub(crate) threads: usize,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) finished: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_p50_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_max_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) round_p50_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) round_max_ns: Option<u64>,
    /// The longest of the turns less such time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_own_max_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) taken_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) taken_share_of_loops: Option<f64>,
}

impl Line {
    pub(crate) fn new(
        runtime: RuntimeKind,
        benchmark: Benchmark,
        setting: Setting,
        outcome: &Outcome,
    ) -> Self {
        let turns = outcome.turns.as_ref().map(|(turns, _)| turns);
        let rounds = outcome.turns.as_ref().map(|(_, rounds)| rounds);
        let machine = outcome.machine.as_ref();
        Self {
            runtime,
            benchmark,
            processors: setting.processors,
            per_processor: setting.per_processor,
            threads: outcome.threads,
            operations: outcome.operations,
            seconds: outcome.seconds,
            finished: outcome.is_finished,
            turn_p50_ns: turns.and_then(Turns::median),
            turn_max_ns: turns.and_then(Turns::greatest),
            round_p50_ns: rounds.and_then(Turns::median),
            round_max_ns: rounds.and_then(Turns::greatest),
            turn_own_max_ns: machine.and_then(|taken| taken.turns.greatest()),
            taken_share: machine.map(|taken| taken.share),
            taken_share_of_loops: machine.map(|taken| taken.share_of_loops),
        }
    }

    /// How many operations a second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// The thesis's *scalability*: the nanoseconds of a processor that an operation takes.
    pub(crate) fn scalability_ns(&self) -> f64 {
        self.seconds * 1e9 * self.processors as f64 / self.operations as f64
    }

    /// The longest turn in medians.
    pub(crate) fn longest_turn(&self) -> Option<f64> {
        Some(self.turn_max_ns? as f64 / self.turn_p50_ns?.max(1) as f64)
    }

    /// The same of the turns less the time in which processors neither ran anything nor slept.
    pub(crate) fn longest_own_turn(&self) -> Option<f64> {
        Some(self.turn_own_max_ns? as f64 / self.turn_p50_ns?.max(1) as f64)
    }
}
