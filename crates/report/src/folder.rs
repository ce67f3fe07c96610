//! The run folder: what a run leaves behind, as types.
//!
//! ```text
//! runs/rate-ladder-20261121-011243/
//!   plan.toml          the effective plan: [`Plan`]
//!   host.json          what the machine was: [`Host`]
//!   trials.jsonl       one [`Trial`] a line, in the order they ended; appended, never rewritten
//!   trials.csv         the same, flat
//!   histograms/ID.hist response and service histograms of a trial ([`TrialHistograms`] as JSON)
//!   logs/ID.server     what the server printed
//!   figures/NAME.svg, NAME.png
//!   report.html        one file, works without a network
//! ```
//!
//! Rates are requests per second, durations nanoseconds, sizes bytes, shares 0 to 1.

use serde::{Deserialize, Serialize};

use crate::settings::Vary;

/// The version of everything in this module.
pub const SCHEMA: &str = "curtail.run/1";

/// The effective plan of a run: nothing is left to defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`SCHEMA`].
    pub schema: String,
    /// The experiment's name (file stem).
    pub experiment: String,
    /// What the experiment asks, in a sentence.
    pub question: String,
    /// The short form was asked for; the report says so.
    pub quick: bool,
    /// Seeds the order of trials and every schedule.
    pub seed: u64,
    /// Trials of each cell.
    pub repeats: u32,
    /// Measured time of a trial.
    pub trial_ns: u64,
    /// Unrecorded load before it.
    pub warmup_ns: u64,
    /// What every server is asked.
    pub load: Load,
    /// Processors of the servers, as `taskset` would say them; empty: not pinned.
    pub server_cpus: Vec<usize>,
    /// Processors of the load generator.
    pub load_cpus: Vec<usize>,
    /// Server and generator go before whatever else wants their processors ("nice" -20).
    #[serde(default)]
    pub goes_first: bool,
    /// Offered rates.
    pub sweep: Sweep,
    /// What is varied besides the rate; under each of its values the sweep is made again.
    #[serde(default)]
    pub vary: Option<Vary>,
    /// Closed-loop trials of each server and setting before the sweep; their median is its
    /// capacity.
    #[serde(default)]
    pub capacity_trials: u32,
    /// The servers, in the order of the file.
    pub servers: Vec<Server>,
    /// Figures to draw, in order.
    pub figures: Vec<FigureKind>,
    /// Where this machine could not give what the file asks for (processors to pin to), and what
    /// was done instead: sentences for the reader of the report.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The offered load of a plan, in the words of `curtail load`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Connections of the generator.
    pub connections: u32,
    /// Requests one connection may have outstanding.
    pub depth: u32,
    /// Generator threads.
    pub threads: u32,
    /// Law of key sizes.
    pub keys: String,
    /// Law of value sizes.
    pub values: String,
    /// Law of times between requests.
    pub arrivals: String,
    /// Law of popularity.
    pub popularity: String,
    /// Share of updates.
    pub update: f64,
    /// Records.
    pub records: u64,
    /// Saturating connections besides those measured.
    #[serde(default, alias = "greedy")]
    pub saturating: u32,
    /// Requests one of those has outstanding.
    #[serde(default, alias = "greedy_depth")]
    pub saturating_depth: u32,
}

/// The offered rates of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sweep {
    /// Shares of each server's own measured capacity.
    LoadLevels(Vec<f64>),
    /// Requests per second, the same for all.
    Rates(Vec<f64>),
}

/// A server of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// The name in figures.
    pub name: String,
    /// Program and arguments as started, `{port}` standing for the port.
    pub command: Vec<String>,
    /// What it said of its version.
    pub version: Option<String>,
    /// Why it takes no part, where it does not (not installed).
    pub skipped: Option<String>,
}

/// A quantity that can be drawn: against *offered* rate or, where there is one rate only, against
/// what is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Achieved rate.
    Throughput,
    /// 99th percentile of response time, log axis.
    Tail,
    /// Server processor time a request.
    Cpu,
    /// Connections served a wake-up of the server, where it counts them.
    Bursts,
}

/// What a trial is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Infinite demand (closed loop): the achieved rate is a capacity.
    Capacity,
    /// An offered rate of the sweep.
    Sweep,
}

/// One trial: one server, one setting, one measured interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Unique within the run, such as `s-memcached-3-07` (phase, server, cell, repeat).
    pub id: String,
    /// What the trial is of.
    pub phase: Phase,
    /// A name of [`Plan::servers`].
    pub server: String,
    /// Of a sweep: [`Plan::cell`]; of a capacity: the setting.
    pub cell: u32,
    /// From 0.
    pub repeat: u32,
    /// What is varied, at this trial. None: nothing is.
    #[serde(default)]
    pub setting: Option<f64>,
    /// Offered ÷ that server's capacity, where the sweep is in load levels.
    pub level: Option<f64>,
    /// Offered rate; none in a capacity trial.
    pub offered_rps: Option<f64>,
    /// Unix time of its start.
    pub started_unix_ns: u64,
    /// What came of it.
    pub outcome: Outcome,
    /// What went wrong without spoiling the measurement (the server had to be killed).
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was measured.
    Measured(Box<Measurement>),
    /// It failed, and why; drawn as missing.
    Failed(String),
}

/// What a trial measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The measured interval.
    pub duration_ns: u64,
    /// Requests whose intended time lay in the interval.
    pub intended: u64,
    /// Of those, answered.
    pub answered: u64,
    /// Of those, not sent or not answered by the end.
    pub censored: u64,
    /// Answered with an error.
    pub errors: u64,
    /// Answers per second of the interval.
    pub achieved_rps: f64,
    /// Gets answered with a value ÷ gets answered.
    pub hit_rate: Option<f64>,
    /// Share of the records resident after the prefill.
    pub resident: Option<f64>,
    /// Answer − intended time, the censored among them. None in closed loop.
    pub response: Option<Quantiles>,
    /// Answer − actual send, of those answered.
    pub service: Quantiles,
    /// Actual send − intended time, of those answered. None in closed loop.
    pub slip: Option<Quantiles>,
    /// The generator's own part of the slip, 99th percentile.
    pub lateness_p99_ns: Option<u64>,
    /// The generator, not the server, was the limit.
    pub generator_limited: bool,
    /// Share of one processor the generator used. It polls while it waits, so this says little of
    /// how much it had to do.
    pub generator_cpu: f64,
    /// Share of the interval in which the generator had work.
    #[serde(default)]
    pub generator_busy: Option<f64>,
    /// Connections lost while running.
    #[serde(default)]
    pub lost_connections: Option<u64>,
    /// Little's law: mean outstanding as counted.
    pub outstanding_mean: f64,
    /// Of those, answers not yet read, at most. 0 where a build before these were told recorded it,
    /// which counted by time stamps too.
    #[serde(default)]
    pub outstanding_unread: f64,
    /// Little's law: mean outstanding by time stamps.
    pub outstanding_expected: f64,
    /// Answers a second that the saturating connections got besides, where there were any.
    #[serde(default, alias = "greedy_rps")]
    pub saturating_rps: Option<f64>,
    /// What the server paid. None where it could not be read.
    pub cost: Option<Cost>,
    /// How many connections had something to say when a worker woke up. None where the server
    /// does not count them.
    #[serde(default)]
    pub bursts: Option<Bursts>,
    /// What the host took. None where it could not be read.
    #[serde(default)]
    pub stolen: Option<Stolen>,
}

/// Shares of processor time that the host took for others ("steal") while the generator ran:
/// filling and warm-up included. Without pinning both are of all processors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stolen {
    /// Of the server's processors.
    pub server: f64,
    /// Of the generator's.
    pub load: f64,
}

/// A distribution's chosen points, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Samples.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Least.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Greatest.
    pub max: u64,
    /// Which of the points are lower bounds, because requests that were never answered are among
    /// the samples at the least they can have taken. None: there are none such, or the trial was
    /// recorded before they were told apart ([`Measurement::censored`] counts them all the same).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_bounds: Option<LowerBounds>,
}

impl Measurement {
    /// Which points of the response time are lower bounds, for requests that were never answered
    /// may be beyond them (the rule: [`measure::WithCensored`]). Where a trial was recorded before
    /// that was told, nothing is known of where those stand: every point may be one.
    #[must_use]
    pub fn response_bounds(&self) -> LowerBounds {
        let Some(response) = &self.response else {
            return LowerBounds::default();
        };
        let any = self.censored > 0;
        response.lower_bounds.unwrap_or(LowerBounds {
            p50: any,
            p90: any,
            p95: any,
            p99: any,
            p999: any,
        })
    }
}

/// Points of a distribution that are lower bounds. Mean and maximum are where there are any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowerBounds {
    /// Median.
    pub p50: bool,
    /// 90th percentile.
    pub p90: bool,
    /// 95th percentile.
    pub p95: bool,
    /// 99th percentile.
    pub p99: bool,
    /// 99.9th percentile.
    pub p999: bool,
}

/// What a server paid for a trial's measured interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in the kernel.
    pub system_ns: u64,
    /// (user + system) ÷ answers that arrived in the interval (`achieved_rps` and `saturating_rps`
    /// × its length).
    pub cpu_ns_per_request: f64,
    /// Resident memory at the end.
    pub resident_bytes: u64,
    /// Voluntary context switches. None: the server has too many threads to be asked.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches, likewise.
    pub involuntary_switches: Option<u64>,
}

/// The bursts of a trial's measured interval: connections with something to say at a wake-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    /// Wake-ups by size: of 1, then up to 2, 4, 8 and so on, the last of any more.
    pub counts: Vec<u64>,
    /// Mean size.
    pub mean: f64,
}

/// `histograms/ID.hist`: lossless, base64 of HDR V2 serialisation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialHistograms {
    /// [`Trial::id`].
    pub id: String,
    /// Answer − intended time, the censored among them.
    pub response: Option<String>,
    /// Those alone: the least that requests never answered can have taken. None: there are none.
    #[serde(default)]
    pub censored: Option<String>,
    /// Answer − actual send.
    pub service: String,
    /// Actual send − intended time.
    pub slip: Option<String>,
}

/// `host.json`: what the machine was. A run is resumed only where most of it is as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// `uname -sr`.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Processors online.
    pub processors: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// Hypervisor, where one shows.
    pub virtualised: Option<String>,
    /// Clock source of the kernel.
    pub clock: String,
    /// Frequency governor, where one shows.
    pub governor: Option<String>,
    /// Limit of open files.
    pub open_files: u64,
    /// This build.
    pub curtail: String,
}
