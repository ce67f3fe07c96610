//! The result of one run. Serialised, it is the output of `curtail load --json`.
//!
//! Rates are in requests per second, durations in nanoseconds. Shares are from 0 to 1.

use measure::{LITTLES_LAW_TOLERANCE, LittlesLaw, SizeDeciles};
use serde::{Deserialize, Serialize};

use crate::agents::AgentReport;
use crate::measuring::MeasuringReport;
use crate::second::Second;

/// The version of the JSON schema that is written. Version 3 added `failures`, `follow_ups`,
/// `operations`, `carrier`, `script`, `agents` and `measuring_client`. Fields that had another name
/// in version 1 are read under both names.
pub const SCHEMA: &str = "curtail.load/3";

/// The versions of the JSON schema that can be read. Fields that an older version lacks are empty.
pub const READABLE: [&str; 3] = [SCHEMA, "curtail.load/2", "curtail.load/1"];

/// The kind of a load: open or closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// Requests follow a schedule that does not depend on the server's answers.
    Open,
    /// The next request is sent when the previous one is answered. If the server stalls, the next
    /// requests are sent later, and this delay is not part of their latencies. Therefore the
    /// latencies hide the cost of the stall (coordinated omission).
    Closed,
}

/// The summary of one run.
///
/// *Intended requests* are those whose intended time (closed loop: send time) lies in the measured
/// interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The version of the schema: [`SCHEMA`] in a new summary.
    pub schema: String,
    /// The kind of load.
    pub demand: Loop,
    /// The offered rate. None in closed loop.
    pub offered_rps: Option<f64>,
    /// The length of the measured interval.
    pub duration_ns: u64,
    /// The number of intended requests.
    pub intended: u64,
    /// Intended requests that were sent.
    pub sent: u64,
    /// Intended requests that were answered.
    pub answered: u64,
    /// Intended requests that were neither answered nor failed by the end of the run. Some of them
    /// were never sent.
    pub censored: u64,
    /// Intended requests that failed without an answer.
    #[serde(default)]
    pub failures: Failures,
    /// Intended requests that an answer caused: a `cas` after its `gets`, and a set after a miss.
    /// They are sent in addition to the offered rate.
    #[serde(default)]
    pub follow_ups: u64,
    /// Intended requests answered with an error.
    pub errors: u64,
    /// The achieved rate: the number of answers that arrived in the interval, divided by the
    /// interval's length.
    pub achieved_rps: f64,
    /// The number of keys of the answered intended requests that read items.
    pub gets: u64,
    /// The number of the keys in `gets` whose value was found (hits).
    pub hits: u64,
    /// Answered intended requests that store a value.
    pub sets: u64,
    /// Connections lost in the whole run.
    pub lost_connections: u64,
    /// The share of the records that were resident after the prefill. None: there was no prefill.
    pub resident: Option<f64>,
    /// The response time: arrival of the answer − intended time. Censored and failed requests are
    /// included with lower bounds. None in closed loop.
    pub response: Option<LatencyDistribution>,
    /// The service time of answered requests: arrival of the answer − actual send time. If each
    /// request has its own connection, the time of connecting is included. In closed loop, censored
    /// and failed requests are included with lower bounds.
    pub service: LatencyDistribution,
    /// The slip of answered requests: actual send time − intended time. None in closed loop.
    pub slip: Option<LatencyDistribution>,
    /// The greatest slip of all requests that were sent, those of the warm-up included. None in
    /// closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slip_max_ns: Option<u64>,
    /// The lateness of answered requests: the delay that the generator itself caused. It is the sum
    /// of two delays. The first is the time before the send in which the request waits only for the
    /// generator's thread, while the socket has space and the connection is below its depth. The
    /// second is the time from the end of the poll that reports the answer to the receive. The
    /// second delay counts only for answers without a time stamp of the kernel. None in closed
    /// loop.
    pub lateness: Option<LatencyDistribution>,
    /// Whether the figures measure the generator rather than the server. Set in open loop if the
    /// 99th percentile of `lateness` exceeds 50 µs, and in closed loop if `generator_busy` exceeds
    /// 0.98. Also set if a request failed because the generator had no local port for the request
    /// ([`Failures::no_port`]).
    pub generator_limited: bool,
    /// Processor time of the generator's threads in the interval, divided by the number of threads
    /// and by the length of the interval.
    pub generator_cpu: f64,
    /// The share of the interval in which the generator's threads had work: they neither slept nor
    /// polled without result.
    pub generator_busy: f64,
    /// The mean number of outstanding requests in the interval. It is counted without the requests'
    /// time stamps ([`measure::OutstandingCount`]).
    pub outstanding_mean: f64,
    /// An upper bound of the part of `outstanding_mean` that was already answered: the answer had
    /// arrived at the socket, but the generator had not read it.
    #[serde(default)]
    pub outstanding_unread: f64,
    /// The mean number of outstanding requests in the interval, computed from the requests' time
    /// stamps ([`measure::Outstanding`]). By Little's law, this number lies between
    /// `outstanding_mean` − `outstanding_unread` and `outstanding_mean` ([`measure::LittlesLaw`]).
    pub outstanding_expected: f64,
    /// Bytes sent on the measured connections in the interval.
    pub bytes_sent: u64,
    /// Bytes received on the measured connections in the interval.
    pub bytes_received: u64,
    /// Answers in the whole run without a time stamp of the kernel (over Unix sockets, and in the
    /// first moments of a run). The receiving thread's clock is used for them.
    #[serde(default)]
    pub unstamped: u64,
    /// Answers per second on the saturating connections. Of the other fields, only
    /// `lost_connections` includes these connections. None: there were no such connections. The
    /// name of this field in version 1 is `greedy_rps`.
    #[serde(default, alias = "greedy_rps")]
    pub saturating_rps: Option<f64>,
    /// Processor time, memory and context switches of the process that `--watch-pid` names, in the
    /// interval. None: no process was named.
    pub watched: Option<Watched>,
    /// The first server's wake-ups in the interval. None: `--watch-bursts` was not given, or the
    /// server does not count its wake-ups.
    #[serde(default)]
    pub bursts: Option<Bursts>,
    /// Stalls of the machine: the wake-up latency of a real-time thread on the processor that
    /// `--detect-stalls` names, sampled every 250 µs of the interval. None: no processor was named.
    /// The name of this field in version 1 is `witness`.
    #[serde(default, alias = "witness")]
    pub stalls: Option<LatencyDistribution>,
    /// The operations that occurred, each with its own counts and latencies.
    #[serde(default)]
    pub operations: Vec<OperationSummary>,
    /// The carrier of the requests. None: persistent connections.
    #[serde(default)]
    pub carrier: Option<CarrierSummary>,
    /// The script from which the requests came. None: they were drawn from the seed.
    #[serde(default)]
    pub script: Option<ScriptSummary>,
    /// The requests for files, grouped by the size of the file. None: no files were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Box<FilesSummary>>,
    /// The rates of a closed loop. None: the loop is open, or the summary was written before this
    /// field existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_loop: Option<ClosedLoop>,
    /// The agents that offered the load, in the order of their connections. Empty: this process
    /// offered the load. The other fields do not include the connections of missing agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentReport>,
    /// The measuring client that ran at the same time as the load. No other field includes the
    /// client's requests. None: there was no measuring client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measuring_client: Option<Box<MeasuringReport>>,
    /// The seconds of the measured interval, in order. Empty: they were not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seconds: Vec<SecondSummary>,
}

/// One second of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SecondSummary {
    /// Answers per second.
    pub rate_rps: f64,
    /// The median of the response time (closed loop: service time), with lower bounds for requests
    /// that were given up. 0: there were no requests.
    pub p50_ns: u64,
    /// The 99th percentile of the same times.
    pub p99_ns: u64,
    /// Answers that are errors, and requests that failed without one.
    pub errors: u64,
}

impl From<&Second> for SecondSummary {
    fn from(second: &Second) -> Self {
        Self {
            rate_rps: second.rate_rps,
            p50_ns: second.p50.map_or(0, |it| it.value_ns),
            p99_ns: second.p99.map_or(0, |it| it.value_ns),
            errors: second.errors + second.failed,
        }
    }
}

/// The rates of a closed loop. Published results define the rate in two ways, `requests_per_s` and
/// `connections_over_mean_rps`, and the two differ. The second uses only the latencies of requests.
/// Therefore it leaves out the time that a connection spends between an answer and its next
/// request, and it does not depend on which requests the ends of the interval cut off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClosedLoop {
    /// The number of measured connections. With depth 1, each is one client.
    pub connections: u32,
    /// Requests ÷ time: the number of requests sent in the interval, failed ones included, divided
    /// by the length of the interval.
    pub requests_per_s: f64,
    /// Clients ÷ mean latency: the number of connections divided by the mean of
    /// [`Summary::service`], which includes failed requests with the lower bounds of their
    /// latencies. 0 if there was no request. With a depth above 1, this value must be multiplied by
    /// the depth to be a rate.
    pub connections_over_mean_rps: f64,
    /// Time ÷ requests of a client: the length of the interval, multiplied by the number of
    /// connections and divided by the number of requests. Unlike the mean service time, it includes
    /// the time that a client spends between two requests. 0 if there was no request.
    pub time_per_request_ns: f64,
    /// The share of requests that failed without an answer ([`Summary::failures`]).
    pub failed_share: f64,
}

impl ClosedLoop {
    /// Returns the rates of a run in which `connections` connections sent `sent` requests in
    /// `duration_ns`, of which `failed` failed, with a mean service time of `mean_ns`.
    pub(crate) fn new(
        connections: u32,
        sent: u64,
        failed: u64,
        duration_ns: u64,
        mean_ns: f64,
    ) -> Self {
        let clients = f64::from(connections);
        let or_zero = |ratio: f64| if ratio.is_finite() { ratio } else { 0.0 };
        Self {
            connections,
            requests_per_s: sent as f64 * 1e9 / duration_ns.max(1) as f64,
            connections_over_mean_rps: or_zero(clients * 1e9 / mean_ns),
            time_per_request_ns: or_zero(duration_ns as f64 * clients / sent as f64),
            failed_share: or_zero(failed as f64 / sent as f64),
        }
    }
}

/// The numbers of requests that failed without an answer, by kind. The latency distributions
/// include each of these requests with a lower bound, which is the time until it failed.
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
    /// Returns the number of failed requests of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.timed_out + self.refused + self.closed + self.no_port
    }
}

/// The summary of one operation, over the intended requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationSummary {
    /// The name of the operation, as in a mix. A `cas` of a mix has two operations here, `gets` and
    /// `cas`; a `read-through` has two, `read-through` and `fill`.
    pub operation: String,
    /// The number of answered requests.
    pub count: u64,
    /// The number of keys of these requests.
    pub keys: u64,
    /// The number of items that were found (and read, deleted, touched, incremented or
    /// decremented). For an operation that stores: the number of values that were stored.
    pub hits: u64,
    /// The number of items that were not found.
    pub misses: u64,
    /// The number of `add`s whose item already existed and of `cas`es whose item had changed.
    pub conflicts: u64,
    /// The number of error replies and of sets that were not stored.
    pub errors: u64,
    /// Requests that failed without an answer.
    pub failures: Failures,
    /// Bytes of the answered requests.
    pub bytes_sent: u64,
    /// Bytes of the answers to these requests.
    pub bytes_received: u64,
    /// The response time, as in [`Summary::response`].
    pub response: Option<LatencyDistribution>,
    /// The service time, as in [`Summary::service`].
    pub service: LatencyDistribution,
}

/// The upper bounds, in bytes, of the size series: ranges of file sizes into which
/// [`FilesSummary::size_deciles`] divides the requests. The figure of latency deciles in Ruan &
/// Pai, USENIX ATC 2006, has the same bounds.
pub const SIZE_SERIES: [u64; 4] = [500, 4_000, 6_000, 900_000];

/// The requests for files, by size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilesSummary {
    /// The number of directories of the file set.
    pub directories: u32,
    /// The size of the file set.
    pub bytes: u64,
    /// Whether the bytes of the answers were compared with those of the files.
    pub verified: bool,
    /// The latencies of each class of sizes.
    pub classes: Vec<FileClassSummary>,
    /// How far the order of latencies is from the order of sizes, over the gets in the sample
    /// ([`measure::service_inversion`]). Latencies are response times in open loop and service
    /// times in closed loop. None: there were too few gets.
    pub service_inversion: Option<f64>,
    /// The upper bounds in bytes of the size series of `size_deciles` ([`SIZE_SERIES`]).
    pub size_series: Vec<u64>,
    /// The share of each size series in each tenth of the gets in the sample. The tenths are formed
    /// in the order of latency. None: there were too few gets.
    pub size_deciles: Option<SizeDeciles>,
    /// The number of requests in the sample, at most [`crate::limits::SIZED_SAMPLE_MAX`].
    pub sampled: u64,
    /// The number of requests from which the sample was taken: the answered measured gets that
    /// found their file.
    pub sampled_of: u64,
}

/// The latencies of the requests for the files of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileClassSummary {
    /// The name of the class.
    pub class: String,
    /// The size of the smallest files of the class.
    pub smallest_bytes: u64,
    /// The size of the largest files of the class.
    pub largest_bytes: u64,
    /// The response time, as in [`Summary::response`].
    pub response: Option<LatencyDistribution>,
    /// The service time, as in [`Summary::service`].
    pub service: LatencyDistribution,
}

/// The counts of the script from which a load came.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScriptSummary {
    /// The number of operations read.
    pub operations: u64,
    /// The number of malformed lines (or lengths, in a script of lengths). They are skipped.
    pub malformed: u64,
    /// The numbers and the faults of the first malformed lines or lengths.
    pub faults: Vec<String>,
    /// Whether the script was read to its end. If so, the run ends with the last answer, and
    /// [`Summary::duration_ns`] may be shorter than the interval of the settings.
    pub ended: bool,
}

/// The carrier of the requests, with its counts over the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarrierSummary {
    /// The name of the carrier: `udp`, `one-shot`, `per-operation`, or `renewed` for connections
    /// that are opened again when they end.
    pub name: String,
    /// The time after which a request without an answer has failed. With `per-operation`, this is
    /// the time-out of gets; the time-out of other requests is at least
    /// [`crate::limits::TEXTILE_TCP_TIMEOUT_MIN_NS`].
    pub timeout_ns: u64,
    /// The number of connections that were opened during the run to send requests. UDP sockets are
    /// not counted.
    pub opened: u64,
    /// The number of connections among `opened` that the generator reset instead of closing, to
    /// bound the number of sockets in TIME_WAIT ([`crate::limits::TIME_WAIT_MAX`]).
    pub resets: u64,
    /// The number of answers that arrived after the time-out of their request, or that arrived a
    /// second time. They are ignored.
    pub late_or_duplicate: u64,
    /// The number of datagrams that are not part of an answer. They are ignored.
    pub malformed: u64,
    /// The counts of HTTP answers. None: the protocol is not HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSummary>,
}

/// The answers over HTTP in the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HttpSummary {
    /// Answers with a status from 200 to 299.
    pub status_2xx: u64,
    /// Answers with a status from 300 to 399.
    pub status_3xx: u64,
    /// Answers with a status from 400 to 499. A 404 counts as a miss, any other as an error.
    pub status_4xx: u64,
    /// Answers with a status from 500 to 599, which count as errors.
    pub status_5xx: u64,
    /// Answers with status 200 whose length, or whose bytes if they are verified, are not those of
    /// the file. They count as errors.
    pub wrong_bodies: u64,
    /// Answers that could not be parsed. Their requests failed, and their connections were closed.
    pub malformed: u64,
    /// What was wrong with one of the malformed answers.
    pub fault: Option<String>,
}

impl Summary {
    /// Returns the number of requests that the server answered in the interval, including those of
    /// saturating connections and of a measuring client. The resources that the server used were
    /// spent on all of them.
    #[must_use]
    pub fn answers_of_server(&self) -> f64 {
        let client = self.measuring_client.as_ref();
        let rate_rps = self.achieved_rps
            + self.saturating_rps.unwrap_or_default()
            + client.map_or(0.0, |client| client.summary.achieved_rps);
        rate_rps * self.duration_ns as f64 / 1e9
    }

    /// Checks by Little's law whether the requests' time stamps and the count of outstanding
    /// requests agree.
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

/// A distribution of latencies in nanoseconds: chosen percentiles and the complete histogram.
///
/// A censored request is one sample, whose value is a lower bound of its latency. Therefore some
/// percentiles are lower bounds too. `censored` lists these percentiles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyDistribution {
    /// The number of samples.
    pub count: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The minimum.
    pub min: u64,
    /// The maximum.
    pub max: u64,
    /// (percentile, value) pairs, ascending.
    pub percentiles: Vec<(f64, u64)>,
    /// The histogram of all samples: base64 of the HDR V2 serialisation.
    pub hdr: String,
    /// The samples of censored requests. None: there are none, or the summary is of an older
    /// version, which did not record them separately.
    #[serde(default)]
    pub censored: Option<Censored>,
}

/// The censored samples of a distribution: requests that failed ([`Failures`]), and requests that
/// were given up because the grace period ended, because the connection was lost, or because the
/// request could not be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Censored {
    /// The number of these requests.
    pub count: u64,
    /// The percentiles of the distribution that are lower bounds, ascending
    /// ([`measure::WithCensored`] says which are). The mean and the maximum are lower bounds too.
    pub lower_bounds: Vec<f64>,
    /// The histogram of these samples alone: base64 of the HDR V2 serialisation.
    pub hdr: String,
}

/// The distribution of the number of ready connections per wake-up of a server's workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bursts {
    /// The number of wake-ups with 1 ready connection, with 2, with 3 to 4, with 5 to 8, and so on.
    /// The last element has no upper bound.
    pub counts: Vec<u64>,
    /// The sum of the ready connections of all wake-ups.
    pub connections: u64,
}

impl Bursts {
    /// Returns the number of wake-ups.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the mean number of ready connections per wake-up. None: there were no wake-ups.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let wakes = self.wakes();
        (wakes > 0).then(|| self.connections as f64 / wakes as f64)
    }
}

/// The resources that the watched process used in the measured interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in the kernel.
    pub system_ns: u64,
    /// Resident memory at the end of the interval.
    pub resident_bytes: u64,
    /// Resident memory after the prefill, if there was one, and before the connections of the load
    /// were opened. None: the version that wrote the summary did not measure this.
    #[serde(default)]
    pub resident_before_bytes: Option<u64>,
    /// Voluntary context switches of all threads. None: the process had more than
    /// [`sys::cost::SWITCHES_THREADS_MAX`] threads, each of which has its own counter to read.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches of all threads. None as for `voluntary_switches`.
    pub involuntary_switches: Option<u64>,
}
