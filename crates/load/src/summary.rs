//! What one run of the generator says: the schema of `curtail load --json`.
//!
//! Rates are requests per second, durations nanoseconds, shares 0 to 1.

use measure::{LITTLES_LAW_TOLERANCE, LittlesLaw};
use serde::{Deserialize, Serialize};

/// The version of this module's JSON. Fields that version 1 named otherwise are read under both
/// names.
pub const SCHEMA: &str = "curtail.load/2";

/// How demand was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// By a schedule drawn before the run; the server's slowness does not slow it.
    Open,
    /// The next request leaves when the last is answered. Latency hides what a stall costs.
    Closed,
}

/// One run of the generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: String,
    /// How demand was made.
    pub demand: Loop,
    /// Offered rate; none in closed loop.
    pub offered_rps: Option<f64>,
    /// The measured interval.
    pub duration_ns: u64,
    /// Requests whose intended time (closed loop: send) lay in the interval.
    pub intended: u64,
    /// Of those, sent.
    pub sent: u64,
    /// Of those, answered.
    pub answered: u64,
    /// Of those, not sent or not answered by the end.
    pub censored: u64,
    /// Answered with an error.
    pub errors: u64,
    /// Answers that arrived within the interval ÷ its length.
    pub achieved_rps: f64,
    /// Gets answered.
    pub gets: u64,
    /// Gets answered with a value.
    pub hits: u64,
    /// Sets answered.
    pub sets: u64,
    /// Connections lost while running.
    pub lost_connections: u64,
    /// Share of the records resident after the prefill, where one was made.
    pub resident: Option<f64>,
    /// Answer − intended time, the censored among them. None in closed loop.
    pub response: Option<LatencyDistribution>,
    /// Answer − actual send, of those answered.
    pub service: LatencyDistribution,
    /// Actual send − intended time, of those answered. None in closed loop.
    pub slip: Option<LatencyDistribution>,
    /// The generator's own part of the response time: how long a request that could leave waited
    /// for the generator (not for the socket's back-pressure, nor for a connection at its depth),
    /// and how long its answer, once reported, waited to be received. None in closed loop.
    pub lateness: Option<LatencyDistribution>,
    /// `lateness` exceeds 50 µs at its 99th percentile; in closed loop, `generator_busy` exceeds
    /// 0.98.
    pub generator_limited: bool,
    /// Processor time of the generator's threads in the interval ÷ (threads × interval).
    pub generator_cpu: f64,
    /// Share of the interval in which the generator's threads had work: neither slept nor polled
    /// in vain.
    pub generator_busy: f64,
    /// Mean outstanding requests over the interval, by a count that knows no time stamps
    /// ([`measure::OutstandingCount`]).
    pub outstanding_mean: f64,
    /// Of those, answers that lay unread in their sockets, at most.
    #[serde(default)]
    pub outstanding_unread: f64,
    /// Little's law: what the mean should be by the requests' time stamps
    /// ([`measure::Outstanding`]), give or take the unread ([`measure::LittlesLaw`]).
    pub outstanding_expected: f64,
    /// Bytes sent in the interval.
    pub bytes_sent: u64,
    /// Bytes received in the interval.
    pub bytes_received: u64,
    /// Answers timed by the thread that took them, because the kernel did not note their arrival
    /// (Unix sockets, the first moments of a run).
    #[serde(default)]
    pub unstamped: u64,
    /// Answers per second on the saturating connections, which no other count includes. None: there
    /// were no such connections. Version 1: `greedy_rps`.
    #[serde(default, alias = "greedy_rps")]
    pub saturating_rps: Option<f64>,
    /// The processor time, memory and switches of the process under test over the interval, where
    /// `--watch-pid` named it.
    pub watched: Option<Watched>,
    /// The first server's wake-ups over the interval, where `--watch-bursts` asked for them and
    /// the server counts them.
    #[serde(default)]
    pub bursts: Option<Bursts>,
    /// Stalls of the machine: the wake-up latency of a real-time thread on the processor that
    /// `--detect-stalls` named, sampled every 250 µs of the interval. Version 1: `witness`.
    #[serde(default, alias = "witness")]
    pub stalls: Option<LatencyDistribution>,
}

impl Summary {
    /// Little's law: requests outstanding by their time stamps against those counted.
    #[must_use]
    pub fn littles_law(&self) -> LittlesLaw {
        LittlesLaw::check(
            self.outstanding_mean,
            self.outstanding_unread,
            self.outstanding_expected,
            LITTLES_LAW_TOLERANCE,
        )
    }
}

/// A distribution: chosen points and, losslessly, the whole.
///
/// Where requests were censored, they stand in it at the lower bounds of what they would have
/// taken, and `censored` says which points are lower bounds for that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyDistribution {
    /// Samples.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Least.
    pub min: u64,
    /// Greatest.
    pub max: u64,
    /// (percentile, value) pairs, ascending.
    pub percentiles: Vec<(f64, u64)>,
    /// Base64 of the HDR V2 serialisation.
    pub hdr: String,
    /// Those of the samples that are lower bounds. None: there are none, or a build before these
    /// were told apart has written this.
    #[serde(default)]
    pub censored: Option<Censored>,
}

/// Requests that were given up unanswered: at the end of the grace, with a lost connection, or
/// before they could be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Censored {
    /// How many.
    pub count: u64,
    /// The percentiles of the distribution that are lower bounds, ascending (the rule:
    /// [`measure::WithCensored`]). Mean and maximum always are.
    pub lower_bounds: Vec<f64>,
    /// Base64 of the HDR V2 serialisation of the bounds alone.
    pub hdr: String,
}

/// How many connections had something to say when a worker of the server woke up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bursts {
    /// Wake-ups by their size: of 1, then up to 2, 4, 8 and so on, the last of any more.
    pub counts: Vec<u64>,
    /// Connections in all of them.
    pub connections: u64,
}

impl Bursts {
    /// Wake-ups in all.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Connections a wake-up. None: there was none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let wakes = self.wakes();
        (wakes > 0).then(|| self.connections as f64 / wakes as f64)
    }
}

/// What the process under test paid over the measured interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in the kernel.
    pub system_ns: u64,
    /// Resident memory at the end.
    pub resident_bytes: u64,
    /// Voluntary context switches, all threads. None: there are too many of them to be asked.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches, all threads, likewise.
    pub involuntary_switches: Option<u64>,
}
