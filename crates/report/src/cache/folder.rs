//! The format of a run folder, as types.
//!
//! ```text
//! runs/rate-ladder-20261121-011243/
//!   plan.toml          the effective plan: [`Plan`]
//!   host.json          the machine: [`Host`]
//!   trials.jsonl       one [`Trial`] per line, in the order in which they ended; append-only
//!   trials.csv         the same as a flat table
//!   histograms/ID.hist response and service histograms of a trial ([`TrialHistograms`] as JSON)
//!   logs/ID.server     output of the server
//!   figures/NAME.svg, NAME.csv
//!   report.html        one self-contained file
//! ```
//!
//! Rates are requests per second, durations nanoseconds, sizes bytes, shares 0 to 1.

use serde::{Deserialize, Serialize};

use crate::cache::settings::Vary;
use crate::record::{Factors, Value};

/// The version of everything in this module.
pub const SCHEMA: &str = "curtail.run/1";

/// The effective plan of a run, with every default resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`SCHEMA`].
    pub schema: String,
    /// The experiment's name (file stem).
    pub experiment: String,
    /// The question of the experiment, one sentence.
    pub question: String,
    /// Whether this is the short form; the report states it.
    pub quick: bool,
    /// Seed of the order of trials and of every schedule.
    pub seed: u64,
    /// Trials of each cell.
    pub repeats: u32,
    /// Measured time of a trial.
    pub trial_ns: u64,
    /// Warm-up: load before the measured interval, not recorded.
    pub warmup_ns: u64,
    /// The load offered to every server.
    pub load: Load,
    /// Processors to which the servers are pinned; empty: not pinned.
    pub server_cpus: Vec<usize>,
    /// Processors to which the load generator is pinned; empty: not pinned.
    pub load_cpus: Vec<usize>,
    /// Whether server and generator run with raised priority (nice -20).
    #[serde(default)]
    pub goes_first: bool,
    /// Offered rates.
    pub sweep: Sweep,
    /// The parameter varied in addition to the rate; the sweep is repeated under each value.
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
    /// Deviations from the experiment file on this machine (such as other processors to pin to), as
    /// sentences for the report.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Where servers and clients run, in words. Empty: on one host, over loopback.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hosts: String,
}

/// The settings of cache trials: [`crate::record::Plan::settings`] of a run of this kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Measured time of a trial.
    pub trial_ns: u64,
    /// Warm-up: load before the measured interval, not recorded.
    pub warmup_ns: u64,
    /// Processors to which the servers are pinned; empty: not pinned.
    pub server_cpus: Vec<usize>,
    /// Processors to which the load generator is pinned; empty: not pinned.
    pub load_cpus: Vec<usize>,
    /// Whether server and generator run with raised priority (nice -20).
    pub goes_first: bool,
    /// The offered load, where no factor sets it.
    pub load: Load,
    /// The servers, in the order of the file.
    pub servers: Vec<Server>,
    /// Where servers and clients run, in words. Empty: on one host, over loopback.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hosts: String,
}

/// The offered load of a plan, in the words of `curtail load`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Connections of the generator.
    pub connections: u32,
    /// Outstanding requests per connection, at most.
    pub depth: u32,
    /// Generator threads.
    pub threads: u32,
    /// Distribution of key sizes.
    pub keys: String,
    /// Distribution of value sizes.
    pub values: String,
    /// Distribution of the times between requests.
    pub arrivals: String,
    /// Distribution of popularity.
    pub popularity: String,
    /// Share of updates.
    pub update: f64,
    /// Weights of operations in place of `update`. Empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mix: String,
    /// Distribution of the number of keys of a multiget. Empty: the generator's default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub multiget: String,
    /// Records.
    pub records: u64,
    /// Saturating connections, in addition to the measured ones.
    #[serde(default, alias = "greedy")]
    pub saturating: u32,
    /// Outstanding requests of each saturating connection.
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
    /// Name in figures.
    pub name: String,
    /// Program and arguments as started, with `{port}` for the port.
    pub command: Vec<String>,
    /// Its reply to `version`.
    pub version: Option<String>,
    /// Why it is skipped (such as not installed). None: it takes part.
    pub skipped: Option<String>,
}

/// A figure: a quantity against *offered* rate or, with a single rate, against the varied
/// parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Achieved rate.
    Throughput,
    /// 99th percentile of response time, log axis.
    Tail,
    /// Server processor time per request.
    Cpu,
    /// Connections served per wake-up of the server, if it counts them.
    Bursts,
}

/// The phase of a run that a trial belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Closed loop: the achieved rate is a capacity.
    Capacity,
    /// An offered rate of the sweep.
    Sweep,
}

/// One trial: one server, one setting, one measured interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Unique within the run, such as `s-memcached-3-07` (phase, server, cell, repeat).
    pub id: String,
    /// The trial's phase.
    pub phase: Phase,
    /// A name of [`Plan::servers`].
    pub server: String,
    /// [`Plan::cell`] of a sweep trial; the setting of a capacity trial.
    pub cell: u32,
    /// From 0.
    pub repeat: u32,
    /// Value of the varied parameter. None: nothing is varied.
    #[serde(default)]
    pub setting: Option<f64>,
    /// Offered ÷ that server's capacity, where the sweep is in load levels.
    pub level: Option<f64>,
    /// Offered rate; none in a capacity trial.
    pub offered_rps: Option<f64>,
    /// Unix time of its start.
    pub started_unix_ns: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// Problems that do not affect the measurement (such as a server that had to be killed).
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The outcome of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was measured.
    Measured(Box<Measurement>),
    /// It failed, with the reason; shown as missing.
    Failed(String),
}

/// The measurement of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The measured interval.
    pub duration_ns: u64,
    /// Requests whose intended time lay in the interval.
    pub intended: u64,
    /// Answered ones of them.
    pub answered: u64,
    /// Those not sent or not answered by the end.
    pub censored: u64,
    /// Error replies.
    pub errors: u64,
    /// Answers per second of the interval.
    pub achieved_rps: f64,
    /// Gets answered with a value ÷ gets answered.
    pub hit_rate: Option<f64>,
    /// Share of the records resident after the prefill.
    pub resident: Option<f64>,
    /// Answer − intended time, censored requests included. None in closed loop.
    pub response: Option<Quantiles>,
    /// Answer − actual send, of those answered.
    pub service: Quantiles,
    /// Actual send − intended time, of those answered. None in closed loop.
    pub slip: Option<Quantiles>,
    /// The generator's own part of the slip, 99th percentile.
    pub lateness_p99_ns: Option<u64>,
    /// Whether the generator, not the server, was the limit.
    pub generator_limited: bool,
    /// Share of one processor that the generator used. It polls while it waits, so this says little
    /// about its load.
    pub generator_cpu: f64,
    /// Share of the interval in which the generator had work to do.
    #[serde(default)]
    pub generator_busy: Option<f64>,
    /// Connections lost during the trial.
    #[serde(default)]
    pub lost_connections: Option<u64>,
    /// Little's law: mean outstanding as counted.
    pub outstanding_mean: f64,
    /// Upper bound on the replies in that mean that had arrived but were not yet read. 0 in trials
    /// of builds that did not record it; those builds counted by time stamps.
    #[serde(default)]
    pub outstanding_unread: f64,
    /// Little's law: mean outstanding by time stamps.
    pub outstanding_expected: f64,
    /// Replies per second to the saturating connections, if there were any.
    #[serde(default, alias = "greedy_rps")]
    pub saturating_rps: Option<f64>,
    /// Resources the server used. None: they could not be read.
    pub cost: Option<Cost>,
    /// Ready connections per wake-up of a worker. None: the server does not count them.
    #[serde(default)]
    pub bursts: Option<Bursts>,
    /// Steal time. None: it could not be read.
    #[serde(default)]
    pub stolen: Option<Stolen>,
}

/// Steal time: shares of processor time that the hypervisor gave to others while the generator ran,
/// prefill and warm-up included. Without pinning, both are of all processors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stolen {
    /// Of the server's processors.
    pub server: f64,
    /// Of the generator's.
    pub load: f64,
}

/// Percentiles and moments of a distribution, nanoseconds.
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
    /// the samples with their minimum possible value. None: there are no such requests, or the
    /// build that recorded the trial did not distinguish them (see [`Measurement::censored`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_bounds: Option<LowerBounds>,
}

impl Measurement {
    /// Which points of the response time are lower bounds, because requests that were never
    /// answered may lie above them (the rule is in [`measure::WithCensored`]). If the trial's build
    /// did not record it, every point may be a lower bound.
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

/// Points of a distribution that are lower bounds. If any is, mean and maximum are too.
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

/// Resources that the server used in a trial's measured interval.
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
    /// Voluntary context switches. None: the server has too many threads to read them.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches, likewise.
    pub involuntary_switches: Option<u64>,
}

impl Cost {
    /// A count of the interval for each answer. None: no processor time tells how many there were.
    #[must_use]
    pub fn per_request(&self, count: f64) -> Option<f64> {
        let used_ns = (self.user_ns + self.system_ns) as f64;
        (used_ns > 0.0).then(|| count * self.cpu_ns_per_request / used_ns)
    }
}

/// Ready connections per wake-up, over a trial's measured interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    /// Wake-ups by number of ready connections: 1, up to 2, up to 4, up to 8 and so on; the last
    /// entry counts all larger ones.
    pub counts: Vec<u64>,
    /// Mean number of ready connections.
    pub mean: f64,
}

/// `histograms/ID.hist`: full histograms as base64 of the HDR V2 serialisation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialHistograms {
    /// [`Trial::id`].
    pub id: String,
    /// Answer − intended time, censored requests included.
    pub response: Option<String>,
    /// Censored requests alone, with their minimum possible value. None: there are none.
    #[serde(default)]
    pub censored: Option<String>,
    /// Answer − actual send.
    pub service: String,
    /// Actual send − intended time.
    pub slip: Option<String>,
}

/// The load as a table, whose keys factors may set. They are those of experiment files, with `-`
/// where records have `_`.
#[must_use]
pub fn load_table(load: &Load) -> toml::Table {
    // Every value of a load has a form in TOML.
    let table = toml::Table::try_from(load).unwrap_or_default();
    let setting = |(key, value): (String, _)| (key.replace('_', "-"), value);
    // Those are left out where they are empty.
    let optional = ["mix", "multiget"].map(|key| (key.to_owned(), String::new().into()));
    optional
        .into_iter()
        .chain(table.into_iter().map(setting))
        .collect()
}

/// The load with the keys that factors set.
///
/// # Errors
/// A factor has a value that its key cannot have: the problem, which follows the factor's name.
pub fn load_with(load: &Load, factors: &Factors) -> Result<Load, String> {
    let mut table = load_table(load);
    for (name, value) in factors {
        let Some(setting) = table.get_mut(name) else {
            continue;
        };
        *setting = match (&*setting, value) {
            (toml::Value::Integer(_), Value::Number(number))
                if number.fract() == 0.0 && (0.0..1e15).contains(number) =>
            {
                toml::Value::Integer(*number as i64)
            }
            (toml::Value::Float(_), Value::Number(number)) => toml::Value::Float(*number),
            (toml::Value::String(_), Value::Text(text)) => toml::Value::String(text.clone()),
            (toml::Value::Integer(_), _) => {
                return Err(format!("has {value}, which is no whole number"));
            }
            (toml::Value::Float(_), _) => return Err(format!("has {value}, which is no number")),
            _ => return Err(format!("has {value}, which is no name in quotes")),
        };
    }
    let setting = |(key, value): (String, _)| (key.replace('-', "_"), value);
    let table: toml::Table = table.into_iter().map(setting).collect();
    table.try_into().map_err(|error: toml::de::Error| {
        format!("has a value that is out of range: {}", error.message())
    })
}
