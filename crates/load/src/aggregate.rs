//! Merges the windows (measurements of a second each) and the totals (counts of the whole run) of
//! all generator threads into a summary.

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

/// The merged measurements of all threads.
pub(crate) struct Aggregate {
    /// The sum of the windows added so far.
    window: Window,
    /// The sum of the threads' counts. None: no thread has ended yet.
    totals: Option<Totals>,
    /// The requests whose times were recorded one by one.
    recorded: Vec<Recorded>,
    /// The sizes and latencies of some requests for files.
    sized: SizedSample,
    /// The number of measured connections that are not lost.
    alive: usize,
    /// The error with which one of the lost connections was lost. None: no connection was lost.
    last_loss: Option<String>,
    /// When the last thread ended, on the monotonic clock.
    ended_ns: u64,
}

impl Aggregate {
    /// Returns an aggregate without measurements.
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

    /// Adds a window of the measured interval or of the grace period.
    pub(crate) fn add(&mut self, window: &Window) {
        self.window.merge(window);
    }

    /// Adds the results of the threads.
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

    /// The error of a run that has lost all its measured connections, those whose latencies are
    /// recorded. Such a run ends, even if it still has saturating connections, which only load the
    /// server. None: the run still has a measured connection.
    pub(crate) fn all_lost_error(&self, part: Part) -> Option<Error> {
        let last = self.last_loss.clone()?;
        let connections = part.count;
        (self.alive == 0).then_some(Error::AllLost { connections, last })
    }

    /// Returns the summary of a part of a run, and the requests whose times were recorded one by
    /// one.
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
        let all = latencies.all();
        let counts = totals.of(|_| true);
        let reads = totals.of(Op::reads);
        let distribution = |histogram| LatencyDistribution::of(histogram, &config.percentiles);
        let duration_ns = duration_ns(config, timeline, script.as_ref(), self.ended_ns);
        let offered_rps = match config.rate {
            // The lines of a script may have their own times, so the configured rate may not be the
            // offered rate.
            Rate::PerSecond(_) if script.is_some() => {
                Some(totals.intended as f64 * 1e9 / duration_ns as f64)
            }
            Rate::PerSecond(rate_rps) => Some(part.rate_rps(config, rate_rps)),
            Rate::Max => None,
        };
        let open_loop = offered_rps.is_some();
        // `totals` computes means over the configured length of the interval. This factor converts
        // them to means over the actual length.
        let mean_scale = config.duration_ns as f64 / duration_ns as f64;
        let thread_ns = duration_ns as f64 * f64::from(config.threads);
        let busy = 1.0 - totals.idle_ns as f64 / thread_ns;
        let limited = match open_loop {
            true => generator_limited(latencies.lateness.percentile(99.0)),
            false => busy > BUSY_LIMIT,
        };
        let service = service_of(&all, config);
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
            censored: totals.intended - counts.answered - counts.failed(),
            failures: failures(&counts),
            follow_ups: totals.follow_ups,
            errors: counts.errors,
            achieved_rps: totals.achieved as f64 * 1e9 / duration_ns as f64,
            gets: reads.keys(),
            hits: reads.hits,
            sets: totals.of(Op::stores).answered,
            lost_connections: totals.lost_connections,
            // After a prefill, the caller sets this.
            resident: None,
            response: response_of(&all, config),
            service,
            slip_max_ns: open_loop.then_some(totals.slip_max_ns),
            slip: open_loop.then(|| distribution(&latencies.slip)),
            lateness: open_loop.then(|| distribution(&latencies.lateness)),
            generator_limited: limited || counts.failures[Failure::NoPort as usize] > 0,
            generator_cpu: totals.cpu_ns as f64 / thread_ns,
            generator_busy: busy,
            outstanding_mean: totals.outstanding_count.mean() * mean_scale,
            outstanding_unread: totals.outstanding_count.mean_unread() * mean_scale,
            outstanding_expected: totals.outstanding.mean(timeline.end_ns) * mean_scale,
            bytes_sent: totals.bytes_sent,
            bytes_received: totals.bytes_received,
            unstamped: totals.unstamped,
            saturating_rps: part
                .is_saturating(config)
                .then(|| totals.saturating as f64 * 1e9 / duration_ns as f64),
            // If the server or the machine was observed, the caller sets these.
            watched: None,
            bursts: None,
            stalls: None,
            operations: latencies
                .operations()
                .map(|(op, latencies)| operation(op, latencies, &totals, config))
                .filter(|it| it.count + it.failures.total() > 0 || it.has_censored())
                .collect(),
            carrier: carrier(config, &totals.carriers),
            files,
            script,
            closed_loop,
            agents: Vec::new(),
            measuring_client: None,
        };
        (summary, self.recorded)
    }

    /// The summary of a run's requests by the sizes of their files. None: the run requested no
    /// files.
    fn files(&self, config: &Config) -> Option<Box<FilesSummary>> {
        let files = config.files?;
        let sample = self.sized.requests();
        let class = |(class, latencies): (SizeClass, &OperationLatencies)| FileClassSummary {
            class: class.name().to_owned(),
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
            sampled_of: self.sized.added(),
        }))
    }
}

/// The length of the interval over which rates are computed: the measured interval, or its part
/// until the end of the script if the script ended first.
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

/// The distribution of the response times, with the lower bounds of requests without an answer.
/// None in a closed loop, in which requests have no intended times.
fn response_of(latencies: &OperationLatencies, config: &Config) -> Option<LatencyDistribution> {
    (config.rate != Rate::Max).then(|| {
        let (answered, censored) = (&latencies.response, &latencies.censored);
        LatencyDistribution::with_censored(answered, censored, &config.percentiles)
    })
}

/// The distribution of the service times. In a closed loop it includes the lower bounds of requests
/// without an answer. In an open loop, the distribution of the response times includes these.
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

/// The summary of one operation.
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

fn failures(counts: &OperationCounts) -> Failures {
    let of = |failure: Failure| counts.failures[failure as usize];
    Failures {
        timed_out: of(Failure::TimedOut),
        refused: of(Failure::Refused),
        closed: of(Failure::Closed),
        no_port: of(Failure::NoPort),
    }
}

/// Returns the counts of the carrier. None: the connections are persistent and never opened again,
/// so there is nothing to count.
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

fn http(counts: &HttpCounts) -> HttpSummary {
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
    fn has_censored(&self) -> bool {
        let latency = self.response.as_ref().unwrap_or(&self.service);
        latency.censored.is_some()
    }
}

impl LatencyDistribution {
    /// The distribution of the values of a histogram, at the given percentiles.
    #[must_use]
    pub fn of(histogram: &Histogram, percentiles: &[f64]) -> Self {
        let point = |&percentile: &f64| (percentile, histogram.percentile(percentile));
        Self {
            count: histogram.len(),
            mean: histogram.mean(),
            min: histogram.min(),
            max: histogram.max(),
            percentiles: percentiles.iter().map(point).collect(),
            hdr: histogram.to_base64(),
            censored: None,
        }
    }

    /// The distribution of the latencies of all requests. A request in `answered` contributes its
    /// latency, and a request in `censored` the lower bound of its latency.
    #[must_use]
    pub fn with_censored(answered: &Histogram, censored: &Histogram, percentiles: &[f64]) -> Self {
        let with = WithCensored::new(answered, censored);
        let is_lower_bound = |&&at: &&f64| with.percentile(at).is_lower_bound;
        Self {
            censored: (!censored.is_empty()).then(|| Censored {
                count: censored.len(),
                lower_bounds: percentiles.iter().filter(is_lower_bound).copied().collect(),
                hdr: censored.to_base64(),
            }),
            ..Self::of(with.all(), percentiles)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_in_which_a_request_had_no_local_port_is_generator_limited() {
        for rate in [Rate::PerSecond(1000.0), Rate::Max] {
            let mut config = Config::new("127.0.0.1:1".parse().unwrap());
            config.rate = rate;
            let part = Part::whole(&config);
            let is_limited = |failure: Option<Failure>| {
                let mut outcome = Outcome::empty();
                // The thread had no work in the interval, so it is not limited by its processor.
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
