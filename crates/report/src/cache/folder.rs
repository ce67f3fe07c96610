//! What a trial of a cache measures, and the settings of such a run.

use serde::{Deserialize, Serialize};

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
    #[serde(default)]
    pub saturating: u32,
    /// Outstanding requests of each saturating connection.
    #[serde(default)]
    pub saturating_depth: u32,
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
    #[serde(default)]
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
    /// The name of the trial.
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
