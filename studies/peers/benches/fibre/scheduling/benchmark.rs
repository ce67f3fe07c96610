//! The benchmarks and the runtimes; the size and the results of a run.
//!
//! A *thread* is a user-level thread: a fibre, a task or a goroutine. A *processor* is a kernel
//! thread that runs user-level threads. The threads of *cycle* and of its variants form *rings*, of
//! five threads each.

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

    /// Whether the benchmark can run if [`Setting::threads`] is 1. In *yield*, no thread needs
    /// another. In *cycle* and its variants, a single ring has five threads, which wake each other.
    /// In all other benchmarks, a thread waits for other threads.
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

/// A runtime that is measured. Each scheduler of this crate (`Fair`, `Steal`, `Global`) counts as a
/// runtime.
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

    /// The value of [`Scheduler`] for a scheduler of this crate; `None` for tokio and Go.
    pub(crate) fn scheduler(self) -> Option<Scheduler> {
        match self {
            Self::Fair => Some(Scheduler::Fair),
            Self::Steal => Some(Scheduler::Steal),
            Self::Global => Some(Scheduler::Global),
            Self::Tokio | Self::Go => None,
        }
    }
}

/// The size of a run and its planned duration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) processors: usize,
    /// The number of threads for each processor; in *cycle* and its variants, the number of rings
    /// for each processor.
    pub(crate) per_processor: usize,
    pub(crate) duration: Duration,
}

impl Setting {
    /// The number of threads on all processors. In *cycle* and its variants, this is the number of
    /// rings, unlike [`Outcome::threads`].
    pub(crate) fn threads(self) -> usize {
        self.processors * self.per_processor
    }
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The number of threads, which includes each thread of each ring.
    pub(crate) threads: usize,
    /// The number of operations of all threads.
    pub(crate) operations: u64,
    /// The measured duration of the run.
    pub(crate) seconds: f64,
    /// Whether the number of operations is meaningful. In *transfer* and *turns*, it is not if some
    /// thread did not run during the second half of the run. In other benchmarks, it always is.
    pub(crate) is_finished: bool,
    /// Only for *transfer* and *turns*: two histograms, the first of turns and the second of the
    /// durations of rounds. In a *round*, all threads see one signal of a leader. A *turn* is the
    /// time that one thread waits to see the signal (`rounds.rs`).
    pub(crate) turns: Option<(Turns, Turns)>,
    /// Only for *turns*.
    pub(crate) gaps: Option<GapSummary>,
}

/// The gaps in a run of *turns*. A *gap* is a time in which a processor neither slept nor ran a
/// thread ([`crate::gaps`]).
#[derive(Debug)]
pub(crate) struct GapSummary {
    /// A histogram of the turns, after the gaps during each turn were subtracted from it.
    pub(crate) turns: Turns,
    /// The sum of all gaps, as a share of the time of all processors: 0 to 1.
    pub(crate) share: f64,
    /// The same share, but for kernel threads that ran empty loops just before the benchmark.
    pub(crate) share_of_loops: f64,
}

impl Outcome {
    /// Creates the result of a run that has finished. The result contains no turns and no gaps.
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

/// The results of one run, which its process prints as one line of JSON. The Go program prints the
/// same fields, except those about gaps. In the names, `p50` means the median.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) runtime: RuntimeKind,
    pub(crate) benchmark: Benchmark,
    pub(crate) processors: usize,
    pub(crate) per_processor: usize,
    pub(crate) threads: usize,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    /// [`Outcome::is_finished`].
    pub(crate) finished: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_p50_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_max_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) round_p50_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) round_max_ns: Option<u64>,
    /// The longest of the turns in [`GapSummary::turns`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_without_gaps_max_ns: Option<u64>,
    /// [`GapSummary::share`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gap_share: Option<f64>,
    /// [`GapSummary::share_of_loops`].
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

    /// The *scalability* as the thesis defines it, in nanoseconds: the time of all processors, busy
    /// or not, divided by the number of operations. Smaller is better.
    pub(crate) fn scalability_ns(&self) -> f64 {
        self.seconds * 1e9 * self.processors as f64 / self.operations as f64
    }

    /// The longest turn divided by the median turn.
    pub(crate) fn longest_turn(&self) -> Option<f64> {
        Some(self.turn_max_ns? as f64 / self.turn_p50_ns?.max(1) as f64)
    }

    /// The longest turn in [`GapSummary::turns`], divided by the median turn. The median is that of
    /// [`Outcome::turns`], from which no gaps were subtracted.
    pub(crate) fn longest_turn_without_gaps(&self) -> Option<f64> {
        Some(self.turn_without_gaps_max_ns? as f64 / self.turn_p50_ns?.max(1) as f64)
    }
}
