//! Merges the measurements of all generator threads into the summary of a run. Each thread delivers
//! *windows*, which are its measurements of about a second each, and *totals*, which are its counts
//! over the whole run.
//!
//! If several processes offer the load of a run, each process opens a *part* of the connections,
//! and the summary covers that part. Latencies are recorded on the *measured* connections only. A
//! run may also have *saturating* connections, which only put load on the server. A *lower bound*
//! of its latency is recorded for a request that failed or was given up without an answer. In the
//! histograms, all these requests are called *censored*.

use measure::{
    BUSY_LIMIT, Histogram, SizeDeciles, WithCensored, generator_limited, service_inversion,
};
use workload::{Op, SizeClass};

use crate::carrier::{CarrierCounts, Failure};
use crate::config::{CarrierKind, Config, Protocol, Rate};
use crate::engine::Outcome;
use crate::error::Error;
use crate::metrics::{OperationCounts, OperationLatencies, Recorded, Totals, Window};
use crate::part::Part;
use crate::sized_sample::SizedSample;
use crate::summary::{
    CarrierSummary, Censored, ClosedLoop, Failures, FileClassSummary, FilesSummary, HttpSummary,
    LatencyDistribution, Loop, OperationSummary, SCHEMA, SIZE_SERIES, ScriptSummary, Summary,
};
use crate::timeline::Timeline;
use crate::wire::HttpCounts;

/// The sum of the measurements of the threads, as far as they were added.
pub(crate) struct Aggregate {
    /// The sum of the windows that were added.
    window: Window,
    /// The sum of the totals that were added. None: none were added.
    totals: Option<Totals>,
    /// The times of single requests, which are recorded in addition to the histograms if the caller
    /// of the run requests it.
    recorded: Vec<Recorded>,
    /// A random sample of the requests for files. It has the file size and the latency of each.
    sized: SizedSample,
    /// The number of measured connections that are not lost.
    alive: usize,
    /// The error by which one of the lost connections was lost. Saturating connections are
    /// included. None: no connection was lost.
    last_loss: Option<String>,
    /// When the last thread ended, on the monotonic clock.
    ended_ns: u64,
}

impl Aggregate {
    /// Returns an aggregate without measurements. Its histograms are already allocated.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            window: Window::preallocated(&config.operations(), config.files.is_some()),
            totals: None,
            recorded: Vec::new(),
            sized: SizedSample::default(),
            alive: 0,
            last_loss: None,
            ended_ns: 0,
        }
    }

    /// Adds a window of the measured interval or of the grace period (the wait for outstanding
    /// answers after that interval). The caller leaves out the windows of the warm-up.
    pub(crate) fn add(&mut self, window: &Window) {
        self.window.merge(window);
    }

    /// Adds the results that the threads return when they end.
    pub(crate) fn add_outcomes(&mut self, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            match &mut self.totals {
                Some(totals) => totals.merge(&outcome.totals),
                None => self.totals = Some(outcome.totals),
            }
            self.ended_ns = self.ended_ns.max(outcome.ended_ns);
            self.alive += outcome.alive;
            self.recorded.extend(outcome.recorded);
            self.sized.merge(outcome.sized);
            self.last_loss = outcome.last_loss.or(self.last_loss.take());
        }
    }

    /// Returns the error of a run that has lost all its measured connections. Such a run fails,
    /// even if it still has saturating connections. None: the run still has a measured connection.
    pub(crate) fn all_lost_error(&self, part: Part) -> Option<Error> {
        let last = self.last_loss.clone()?;
        // `part.count` does not include saturating connections.
        let connections = part.count;
        (self.alive == 0).then_some(Error::AllLost { connections, last })
    }

    /// Returns the summary of the part `part` of a run, and the recorded times of single requests.
    /// `script` has the counts of the script from which the requests came, if they came from one.
    pub(crate) fn into_summary(
        self,
        config: &Config,
        part: Part,
        timeline: &Timeline,
        script: Option<ScriptSummary>,
    ) -> (Summary, Vec<Recorded>) {
        let files = self.files(config);
        let totals = self
            .totals
            .unwrap_or_else(|| Totals::new(timeline.measure_ns, timeline.end_ns));
        let latencies = &self.window.latencies;
        let all_latencies = latencies.all();
        // The sum of the counts of all operations, and that of the operations that read values.
        let counts = totals.of(|_| true);
        let reads = totals.of(Op::reads);
        let distribution = |histogram| LatencyDistribution::of(histogram, &config.percentiles);
        // The length of the measured interval.
        let duration_ns = duration_ns(config, timeline, script.as_ref(), self.ended_ns);
        let rps = |requests: u64| requests as f64 * 1e9 / duration_ns as f64;
        let offered_rps = match config.rate {
            // If a line of a script contains a time, its request is sent at this time and not at
            // the configured rate. Therefore the rate is computed from the number of requests.
            Rate::PerSecond(_) if script.is_some() => Some(rps(totals.intended)),
            Rate::PerSecond(rate_rps) => Some(part.rate_rps(config, rate_rps)),
            Rate::Max => None,
        };
        let open_loop = offered_rps.is_some();
        // `totals` computes the mean numbers of outstanding requests over the configured length of
        // the measured interval. This factor converts each to the mean over the actual length.
        let mean_scale = config.duration_ns as f64 / duration_ns as f64;
        // The time of all threads together in the interval.
        let threads_ns = duration_ns as f64 * f64::from(config.threads);
        let busy_share = 1.0 - totals.idle_ns as f64 / threads_ns;
        // In open loop, a slow generator sends late. In closed loop, no request has a time at which
        // it is due, so the generator counts as slow if its threads are nearly always busy.
        let is_slow = match open_loop {
            true => generator_limited(latencies.lateness.percentile(99.0)),
            false => busy_share > BUSY_LIMIT,
        };
        // A request that found no local port or file descriptor was not sent. The generator caused
        // this failure too, not the server.
        let lacked_port = counts.failures[Failure::NoPort as usize] > 0;
        let service = service_of(&all_latencies, config);
        let failed = failures(&counts).total();
        let closed_loop = (!open_loop)
            .then(|| ClosedLoop::new(part.count, totals.sent, failed, duration_ns, service.mean));
        let summary = Summary {
            schema: SCHEMA.to_owned(),
            demand: if open_loop { Loop::Open } else { Loop::Closed },
            offered_rps,
            duration_ns,
            intended: totals.intended,
            sent: totals.sent,
            answered: counts.answered,
            // Here, requests that failed do not count as censored.
            censored: totals.intended - counts.answered - counts.failed(),
            failures: failures(&counts),
            follow_ups: totals.follow_ups,
            errors: counts.errors,
            achieved_rps: rps(totals.achieved),
            gets: reads.keys(),
            hits: reads.hits,
            sets: totals.of(Op::stores).answered,
            lost_connections: totals.lost_connections,
            // If the records were stored before the run (prefill), the caller sets this.
            resident: None,
            response: response_of(&all_latencies, config),
            service,
            slip_max_ns: open_loop.then_some(totals.slip_max_ns),
            slip: open_loop.then(|| distribution(&latencies.slip)),
            lateness: open_loop.then(|| distribution(&latencies.lateness)),
            generator_limited: is_slow || lacked_port,
            generator_cpu: totals.cpu_ns as f64 / threads_ns,
            generator_busy: busy_share,
            // Little's law is checked with these means: the first two come from a count, the third
            // from the time stamps of the requests.
            outstanding_mean: totals.outstanding_count.mean() * mean_scale,
            outstanding_unread: totals.outstanding_count.mean_unread() * mean_scale,
            outstanding_expected: totals.outstanding.mean(timeline.end_ns) * mean_scale,
            bytes_sent: totals.bytes_sent,
            bytes_received: totals.bytes_received,
            unstamped: totals.unstamped,
            saturating_rps: part.is_saturating(config).then(|| rps(totals.saturating)),
            // The caller sets these if the server's process, the server's wake-ups or the stalls of
            // the machine were observed.
            watched: None,
            bursts: None,
            stalls: None,
            operations: latencies
                .operations()
                .map(|(op, latencies)| operation(op, latencies, &totals, config))
                // The operations that were configured but did not occur are left out.
                .filter(|it| it.count + it.failures.total() > 0 || it.has_censored())
                .collect(),
            carrier: carrier(config, &totals.carriers),
            files,
            script,
            closed_loop,
            // If the run has agents or a measuring client, the code that runs them sets these.
            agents: Vec::new(),
            measuring_client: None,
            seconds: Vec::new(),
        };
        (summary, self.recorded)
    }

    /// Returns the summary of the requests for files. It has separate latencies for each class of
    /// file sizes. None: the run requested no files.
    fn files(&self, config: &Config) -> Option<Box<FilesSummary>> {
        let files = config.files?;
        let sample = self.sized.requests();
        let class = |(class, latencies): (SizeClass, &OperationLatencies)| FileClassSummary {
            class: class.name().to_owned(),
            // The sizes of a class are the multiples of `step`, from `step` on.
            smallest_bytes: class.step(),
            largest_bytes: class.largest(),
            response: response_of(latencies, config),
            service: service_of(latencies, config),
        };
        Some(Box::new(FilesSummary {
            directories: files.directories(),
            bytes: files.bytes(),
            verified: config.verify,
            classes: self.window.latencies.classes().map(class).collect(),
            service_inversion: service_inversion(&sample),
            size_series: SIZE_SERIES.to_vec(),
            size_deciles: SizeDeciles::of(&sample, &SIZE_SERIES),
            sampled: sample.len() as u64,
            // The number of requests from which the sample was taken.
            sampled_of: self.sized.added(),
        }))
    }
}

/// Returns the actual length of the measured interval. It is the configured length, unless the
/// requests came from a script that ended. In that case the last thread ends at `ended_ns`, after
/// the last answer. If this is before the configured end, the interval ends at `ended_ns`.
fn duration_ns(
    config: &Config,
    timeline: &Timeline,
    script: Option<&ScriptSummary>,
    ended_ns: u64,
) -> u64 {
    match script {
        Some(ScriptSummary { ended: true, .. }) => {
            let until_end_ns = ended_ns.saturating_sub(timeline.measure_ns);
            until_end_ns.clamp(1, config.duration_ns)
        }
        _ => config.duration_ns,
    }
}

/// Returns the distribution of the response times. A censored request contributes a lower bound of
/// its response time. None in closed loop: requests then have no intended send times, from which
/// response times are measured.
fn response_of(latencies: &OperationLatencies, config: &Config) -> Option<LatencyDistribution> {
    (config.rate != Rate::Max).then(|| {
        let (answered, censored) = (&latencies.response, &latencies.censored);
        LatencyDistribution::with_censored(answered, censored, &config.percentiles)
    })
}

/// Returns the distribution of the service times. In closed loop, a censored request contributes a
/// lower bound of its service time. In open loop, it contributes only to the response times.
fn service_of(latencies: &OperationLatencies, config: &Config) -> LatencyDistribution {
    let answered = &latencies.service;
    match config.rate {
        Rate::PerSecond(_) => LatencyDistribution::of(answered, &config.percentiles),
        Rate::Max => {
            let censored = &latencies.censored;
            LatencyDistribution::with_censored(answered, censored, &config.percentiles)
        }
    }
}

/// Returns the summary of one operation, over its measured requests: those whose intended time
/// (closed loop: send time) lies in the measured interval.
fn operation(
    op: Op,
    latencies: &OperationLatencies,
    totals: &Totals,
    config: &Config,
) -> OperationSummary {
    let counts = &totals.operations[op as usize];
    OperationSummary {
        operation: op.name().to_owned(),
        count: counts.answered,
        keys: counts.keys(),
        hits: counts.hits,
        misses: counts.misses,
        conflicts: counts.conflicts,
        errors: counts.errors,
        failures: failures(counts),
        bytes_sent: counts.bytes_sent,
        bytes_received: counts.bytes_received,
        response: response_of(latencies, config),
        service: service_of(latencies, config),
    }
}

/// Returns the numbers of failed requests by the kind of failure.
fn failures(counts: &OperationCounts) -> Failures {
    let count_of = |failure: Failure| counts.failures[failure as usize];
    Failures {
        timed_out: count_of(Failure::TimedOut),
        refused: count_of(Failure::Refused),
        closed: count_of(Failure::Closed),
        no_port: count_of(Failure::NoPort),
    }
}

/// Returns the summary of the carrier, which is the transport of requests and answers. None: the
/// carrier is persistent connections that are not renewed (opened again when they end). It has no
/// counts.
pub(crate) fn carrier(config: &Config, counts: &CarrierCounts) -> Option<CarrierSummary> {
    let name = match config.carrier {
        CarrierKind::Stream if config.renews_connections() => "renewed",
        CarrierKind::Stream => return None,
        CarrierKind::Udp => "udp",
        CarrierKind::OneShot => "one-shot",
        CarrierKind::PerOperation => "per-operation",
    };
    Some(CarrierSummary {
        name: name.to_owned(),
        timeout_ns: config.timeout_ns,
        opened: counts.opened,
        resets: counts.resets,
        late_or_duplicate: counts.late_or_duplicate,
        malformed: counts.malformed,
        http: (config.protocol == Protocol::Http).then(|| http(&counts.http)),
    })
}

/// Returns the summary of the answers over HTTP.
fn http(counts: &HttpCounts) -> HttpSummary {
    // The class of an answer is the first digit of its status, from 2 to 5.
    let [status_2xx, status_3xx, status_4xx, status_5xx] = counts.by_class;
    HttpSummary {
        status_2xx,
        status_3xx,
        status_4xx,
        status_5xx,
        wrong_bodies: counts.wrong_bodies,
        malformed: counts.malformed,
        fault: counts.fault.map(|fault| fault.to_string()),
    }
}

impl OperationSummary {
    /// Whether a request of the operation is censored. Censored requests contribute to the response
    /// times or, in closed loop, to the service times.
    fn has_censored(&self) -> bool {
        let latency = self.response.as_ref().unwrap_or(&self.service);
        latency.censored.is_some()
    }
}

impl LatencyDistribution {
    /// Returns the distribution of the values of a histogram, with the values at `percentiles`
    /// (from 0 to 100).
    #[must_use]
    pub fn of(histogram: &Histogram, percentiles: &[f64]) -> Self {
        let percentile_and_value =
            |&percentile: &f64| (percentile, histogram.percentile(percentile));
        Self {
            count: histogram.len(),
            mean: histogram.mean(),
            min: histogram.min(),
            max: histogram.max(),
            percentiles: percentiles.iter().map(percentile_and_value).collect(),
            hdr: histogram.to_base64(),
            censored: None,
        }
    }

    /// Returns the distribution of the latencies of answered and censored requests. `answered` has
    /// the latencies of the answered requests. `censored` has the lower bounds of the latencies of
    /// the censored requests. The percentiles that are only lower bounds are listed.
    #[must_use]
    pub fn with_censored(answered: &Histogram, censored: &Histogram, percentiles: &[f64]) -> Self {
        let with_censored = WithCensored::new(answered, censored);
        let is_lower_bound =
            |&&percentile: &&f64| with_censored.percentile(percentile).is_lower_bound;
        Self {
            censored: (!censored.is_empty()).then(|| Censored {
                count: censored.len(),
                lower_bounds: percentiles.iter().filter(is_lower_bound).copied().collect(),
                hdr: censored.to_base64(),
            }),
            ..Self::of(with_censored.all(), percentiles)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_generator_limited_if_a_request_had_no_local_port_but_not_if_one_was_refused() {
        for rate in [Rate::PerSecond(1000.0), Rate::Max] {
            let mut config = Config::new("127.0.0.1:1".parse().unwrap());
            config.rate = rate;
            let part = Part::whole(&config);
            // The summary of a run of one thread, with at most one request, which failed.
            let is_limited = |failure: Option<Failure>| {
                let mut outcome = Outcome::empty();
                // The thread is idle for the whole interval, so the generator is not slow.
                outcome.totals.idle_ns = config.duration_ns;
                if let Some(failure) = failure {
                    outcome.totals.intended = 1;
                    outcome.totals.operations[Op::Get as usize].failures[failure as usize] = 1;
                }
                let mut aggregate = Aggregate::new(&config);
                aggregate.add_outcomes(vec![outcome]);
                let timeline = Timeline::new(&config, 0);
                let (summary, _) = aggregate.into_summary(&config, part, &timeline, None);
                summary.generator_limited
            };
            assert!(!is_limited(None) && !is_limited(Some(Failure::Refused)));
            assert!(is_limited(Some(Failure::NoPort)));
        }
    }
}
