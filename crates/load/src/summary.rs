//! The result of one run: the schema of `curtail load --json`.
//!
//! Rates are in requests per second, durations in nanoseconds, shares from 0 to 1.

use measure::{LITTLES_LAW_TOLERANCE, LittlesLaw};
use serde::{Deserialize, Serialize};

use crate::agents::AgentReport;
use crate::measuring::MeasuringReport;

/// The version of the JSON schema. Version 3 added `failures`, `follow_ups`, `operations`,
/// `carrier`, `script`, `agents` and `measuring_client`. A field that had another name in version 1
/// is read under both names.
pub const SCHEMA: &str = "curtail.load/3";

/// The versions that are read. Fields that an older one lacks are empty.
pub const READABLE: [&str; 3] = [SCHEMA, "curtail.load/2", "curtail.load/1"];

/// The kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// Requests follow a schedule that does not depend on the server's answers.
    Open,
    /// The next request is sent when the previous one is answered. If the server stalls, the next
    /// requests are sent later, and their delay is not recorded: the latencies hide the cost of the
    /// stall (coordinated omission).
    Closed,
}

/// One run of the generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: String,
    /// The kind of load.
    pub demand: Loop,
    /// Offered rate. None in closed loop.
    pub offered_rps: Option<f64>,
    /// The measured interval.
    pub duration_ns: u64,
    /// Requests whose intended time (closed loop: send time) lies in the interval.
    pub intended: u64,
    /// Intended requests that were sent.
    pub sent: u64,
    /// Intended requests that were answered.
    pub answered: u64,
    /// Intended requests neither answered nor failed by the end, whether sent or not.
    pub censored: u64,
    /// Intended requests that failed without an answer.
    #[serde(default)]
    pub failures: Failures,
    /// Intended requests that follow an answer (a cas, the set after a miss). They come on top of
    /// the offered rate.
    #[serde(default)]
    pub follow_ups: u64,
    /// Intended requests answered with an error.
    pub errors: u64,
    /// Answers that arrived within the interval, divided by its length.
    pub achieved_rps: f64,
    /// Keys of the answered requests that read.
    pub gets: u64,
    /// Values in their answers (hits).
    pub hits: u64,
    /// Answered requests that store a value.
    pub sets: u64,
    /// Connections lost while running.
    pub lost_connections: u64,
    /// Share of the records resident after the prefill. None without a prefill.
    pub resident: Option<f64>,
    /// Response time: answer − intended time, with the lower bounds of censored and failed
    /// requests. None in closed loop.
    pub response: Option<LatencyDistribution>,
    /// Service time: answer − actual send, of answered requests; in closed loop with the lower
    /// bounds of failed ones. Of a connection for each request, connecting is part of it.
    pub service: LatencyDistribution,
    /// Slip: actual send − intended time, of answered requests. None in closed loop.
    pub slip: Option<LatencyDistribution>,
    /// Lateness: the generator's own part of the response time. It has two parts: the time that the
    /// request waited only for the generator (and not for the socket or for a connection at its
    /// full depth), and the time from the report of its answer to the receive. None in closed loop.
    pub lateness: Option<LatencyDistribution>,
    /// `lateness` exceeds 50 µs at its 99th percentile; in closed loop, `generator_busy` exceeds
    /// 0.98.
    pub generator_limited: bool,
    /// Processor time of the generator's threads in the interval, divided by threads × interval.
    pub generator_cpu: f64,
    /// Share of the interval in which the generator's threads had work: they neither slept nor
    /// polled without result.
    pub generator_busy: f64,
    /// Mean outstanding requests during the interval, by a count independent of the requests' time
    /// stamps ([`measure::OutstandingCount`]).
    pub outstanding_mean: f64,
    /// The part of `outstanding_mean` that may have been answered already, with the answer unread
    /// in its socket: an upper bound.
    #[serde(default)]
    pub outstanding_unread: f64,
    /// Little's law: the mean computed from the requests' time stamps ([`measure::Outstanding`]).
    /// It must equal the count, up to the unread answers ([`measure::LittlesLaw`]).
    pub outstanding_expected: f64,
    /// Bytes sent in the interval.
    pub bytes_sent: u64,
    /// Bytes received in the interval.
    pub bytes_received: u64,
    /// Answers timed by the receiving thread's clock, because the kernel gave no time stamp (Unix
    /// sockets, the first moments of a run).
    #[serde(default)]
    pub unstamped: u64,
    /// Answers per second on the saturating connections, which no other count includes. None: there
    /// were no such connections. Version 1: `greedy_rps`.
    #[serde(default, alias = "greedy_rps")]
    pub saturating_rps: Option<f64>,
    /// Processor time, memory and context switches of the process that `--watch-pid` named, over
    /// the interval.
    pub watched: Option<Watched>,
    /// The first server's wake-ups during the interval, with `--watch-bursts`. None: the server
    /// does not count them.
    #[serde(default)]
    pub bursts: Option<Bursts>,
    /// Stalls of the machine: the wake-up latency of a real-time thread on the processor that
    /// `--detect-stalls` named, sampled every 250 µs of the interval. Version 1: `witness`.
    #[serde(default, alias = "witness")]
    pub stalls: Option<LatencyDistribution>,
    /// The operations that occurred, one by one.
    #[serde(default)]
    pub operations: Vec<OperationSummary>,
    /// What carried the requests, if not persistent connections.
    #[serde(default)]
    pub carrier: Option<CarrierSummary>,
    /// The script, if the load had one.
    #[serde(default)]
    pub script: Option<ScriptSummary>,
    /// The agents that offered the load, in the order of their connections. Every other field
    /// covers the connections of those that are not missing. Empty: this process offered the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentReport>,
    /// The measuring client that ran beside the load, and that no other field includes. None: there
    /// was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measuring_client: Option<Box<MeasuringReport>>,
}

/// Requests that failed without an answer, by kind. Each counts in the latencies with a lower
/// bound: the time until it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Failures {
    /// No answer came within the time-out.
    pub timed_out: u64,
    /// The server's host refused the connection or the datagram.
    pub refused: u64,
    /// The connection ended before the answer, or the answer was malformed.
    pub closed: u64,
    /// The generator's machine had no local port or descriptor left.
    pub no_port: u64,
}

impl Failures {
    /// All kinds together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.timed_out + self.refused + self.closed + self.no_port
    }
}

/// The measured requests of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationSummary {
    /// Its name in a mix; `gets` and `cas` are the two requests of a cas, `read-through` and `fill`
    /// those of a read-through.
    pub operation: String,
    /// Requests answered.
    pub count: u64,
    /// Keys of these requests.
    pub keys: u64,
    /// Items found and read, deleted, touched or counted; or values stored.
    pub hits: u64,
    /// Items not found.
    pub misses: u64,
    /// An `add` of an item that is there; a `cas` of one that has changed.
    pub conflicts: u64,
    /// Error replies, and sets not stored.
    pub errors: u64,
    /// Requests that failed without an answer.
    pub failures: Failures,
    /// Bytes of the answered requests.
    pub bytes_sent: u64,
    /// Bytes of their answers.
    pub bytes_received: u64,
    /// As [`Summary::response`].
    pub response: Option<LatencyDistribution>,
    /// As [`Summary::service`].
    pub service: LatencyDistribution,
}

/// What was read of a script.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScriptSummary {
    /// Operations read.
    pub operations: u64,
    /// Lines that are no operation; they are skipped.
    pub malformed: u64,
    /// The first of these lines, each with its number and its fault.
    pub faults: Vec<String>,
    /// The script was read to its end. `duration_ns` is then the time to the last answer, if that
    /// came before the end of the interval.
    pub ended: bool,
}

/// What carried the requests, with the counts that no latency shows. They cover the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarrierSummary {
    /// `udp` or `one-shot`.
    pub name: String,
    /// The time-out.
    pub timeout_ns: u64,
    /// Connections opened for single requests.
    pub opened: u64,
    /// Those of them that ended in a reset, to bound the sockets in TIME_WAIT
    /// ([`crate::limits::TIME_WAIT_MAX`]).
    pub resets: u64,
    /// Answers that came after the time-out of their request, or again; they are ignored.
    pub late_or_duplicate: u64,
    /// Datagrams that are no part of an answer; they are ignored.
    pub malformed: u64,
}

impl Summary {
    /// Little's law: checks the time stamps against the count.
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

/// A distribution of latencies: chosen percentiles and the complete histogram.
///
/// It contains censored requests at the lower bounds of their latencies; `censored` names the
/// percentiles that are lower bounds for that reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyDistribution {
    /// Samples.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Minimum.
    pub min: u64,
    /// Maximum.
    pub max: u64,
    /// (percentile, value) pairs, ascending.
    pub percentiles: Vec<(f64, u64)>,
    /// Base64 of the HDR V2 serialisation.
    pub hdr: String,
    /// The samples that are lower bounds. None if there are none, or if the file is of an older
    /// version, which did not record them separately.
    #[serde(default)]
    pub censored: Option<Censored>,
}

/// Requests given up unanswered: at the end of the grace period, with a lost connection, before
/// they could be sent, or failed ([`Failures`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Censored {
    /// Number of censored requests.
    pub count: u64,
    /// The percentiles of the distribution that are lower bounds, ascending;
    /// [`measure::WithCensored`] has the rule. Mean and maximum always are lower bounds.
    pub lower_bounds: Vec<f64>,
    /// Base64 of the HDR V2 serialisation of these samples alone.
    pub hdr: String,
}

/// The distribution of ready connections per wake-up of a server worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bursts {
    /// Wake-ups by the number of ready connections: 1, up to 2, up to 4, up to 8 and so on; the
    /// last counts all larger ones.
    pub counts: Vec<u64>,
    /// Ready connections, summed over all wake-ups.
    pub connections: u64,
}

impl Bursts {
    /// The number of wake-ups.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Mean ready connections per wake-up. None without wake-ups.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let wakes = self.wakes();
        (wakes > 0).then(|| self.connections as f64 / wakes as f64)
    }
}

/// The cost of the process under test during the measured interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in the kernel.
    pub system_ns: u64,
    /// Resident memory at the end.
    pub resident_bytes: u64,
    /// Voluntary context switches of all threads. None: the process had too many threads to read
    /// all their counters.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches of all threads. None as for `voluntary_switches`.
    pub involuntary_switches: Option<u64>,
}
