//! The benchmarks, the runtimes, the settings of a run, and its results.

use std::time::Duration;

use clap::ValueEnum;
use fibre::Scheduler;
use serde::{Deserialize, Serialize};

use crate::turns::Turns;

/// A benchmark. `scheduling.rs` describes all of them.
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
    /// Whether the Go program has this benchmark.
    pub(crate) fn is_in_go(self) -> bool {
        !matches!(self, Self::CycleBare | Self::CycleSemaphores | Self::Turns)
    }

    /// Whether the benchmark can run with a single thread (in *cycle*, a single ring) on one
    /// processor. In the other benchmarks threads wake each other or wait for each other, so a
    /// single thread is not enough. A ring has five members, which wake each other.
    pub(crate) fn works_alone(self) -> bool {
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

/// A runtime that is measured. Each scheduler of this crate counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RuntimeKind {
    Fair,
    Steal,
    Global,
    Tokio,
    /// Runs in the Go program; see [`crate::go`].
    #[value(skip)]
    Go,
}

impl RuntimeKind {
    /// The schedulers of this crate.
    pub(crate) const OURS: [Self; 3] = [Self::Fair, Self::Steal, Self::Global];
    /// The runtimes with which the schedulers of this crate are compared.
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

    /// The scheduler of this crate; `None` for other runtimes.
    pub(crate) fn scheduler(self) -> Option<Scheduler> {
        match self {
            Self::Fair => Some(Scheduler::Fair),
            Self::Steal => Some(Scheduler::Steal),
            Self::Global => Some(Scheduler::Global),
            Self::Tokio | Self::Go => None,
        }
    }
}

/// The size and the duration of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) processors: usize,
    /// The number of rings (in *cycle*) or threads (in all other benchmarks) for each processor.
    pub(crate) per_processor: usize,
    pub(crate) duration: Duration,
}

impl Setting {
    /// The number of threads; in *cycle*, the number of rings.
    pub(crate) fn threads(self) -> usize {
        self.processors * self.per_processor
    }
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) threads: usize,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    /// False if a thread waited so long that the number of operations is meaningless.
    pub(crate) is_finished: bool,
    /// Only for *transfer* and *turns*: the turns, and the durations of the rounds (`rounds.rs`
    /// defines *turn* and *round*).
    pub(crate) turns: Option<(Turns, Turns)>,
    /// Only for *turns*.
    pub(crate) gaps: Option<GapSummary>,
}

/// The effect of gaps ([`crate::gaps`]) on a run of *turns*.
#[derive(Debug)]
pub(crate) struct GapSummary {
    /// The turns, each without the gaps that kernel threads had during it.
    pub(crate) turns: Turns,
    /// The share of the kernel threads' time that was in gaps.
    pub(crate) share: f64,
    /// The same share for empty loops, which were run just before the benchmark.
    pub(crate) share_of_loops: f64,
}

impl Outcome {
    /// Creates the result of a run whose number of operations is meaningful, without turns.
    pub(crate) fn new(threads: usize, operations: u64, seconds: f64) -> Self {
        Self {
            threads,
            operations,
            seconds,
            is_finished: true,
            turns: None,
            gaps: None,
        }
    }
}

/// The line of JSON that a run prints. The Go program prints the same fields.
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
    /// The longest turn after gaps were subtracted from each turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_without_gaps_max_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gap_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gap_share_of_loops: Option<f64>,
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
        let gaps = outcome.gaps.as_ref();
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
            turn_without_gaps_max_ns: gaps.and_then(|gaps| gaps.turns.greatest()),
            gap_share: gaps.map(|gaps| gaps.share),
            gap_share_of_loops: gaps.map(|gaps| gaps.share_of_loops),
        }
    }

    /// The number of operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// The *scalability* as the thesis defines it: the processor time of an operation, in
    /// nanoseconds.
    pub(crate) fn scalability_ns(&self) -> f64 {
        self.seconds * 1e9 * self.processors as f64 / self.operations as f64
    }

    /// The longest turn, as a multiple of the median turn.
    pub(crate) fn longest_turn(&self) -> Option<f64> {
        Some(self.turn_max_ns? as f64 / self.turn_p50_ns?.max(1) as f64)
    }

    /// The longest turn after gaps were subtracted from each turn, as a multiple of the median
    /// turn, from which none were subtracted.
    pub(crate) fn longest_turn_without_gaps(&self) -> Option<f64> {
        Some(self.turn_without_gaps_max_ns? as f64 / self.turn_p50_ns?.max(1) as f64)
    }
}
