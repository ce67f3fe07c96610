//! Merges the windows and totals of all threads into a summary.

use measure::{BUSY_LIMIT, Histogram, WithCensored, generator_limited};

use crate::config::{Config, Rate};
use crate::engine::Outcome;
use crate::error::Error;
use crate::metrics::{Recorded, Totals, Window};
use crate::server_watch::Observed;
use crate::summary::{Censored, LatencyDistribution, Loop, SCHEMA, Summary};
use crate::timeline::Timeline;

/// The measurements of a run so far.
pub(crate) struct Aggregate {
    window: Window,
    totals: Option<Totals>,
    recorded: Vec<Recorded>,
    last_loss: Option<String>,
}

impl Aggregate {
    /// No measurements yet.
    pub(crate) fn new() -> Self {
        Self {
            window: Window::preallocated(),
            totals: None,
            recorded: Vec::new(),
            last_loss: None,
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
            self.recorded.extend(outcome.recorded);
            self.last_loss = outcome.last_loss.or(self.last_loss.take());
        }
    }

    /// The error of a run that lost all its connections; none if one is left.
    pub(crate) fn all_lost_error(&self, config: &Config) -> Option<Error> {
        let lost = self
            .totals
            .as_ref()
            .map_or(0, |totals| totals.lost_connections);
        let last = self.last_loss.clone()?;
        let connections = config.connections;
        let all = u64::from(connections) + u64::from(config.saturating_connections);
        (lost >= all).then_some(Error::AllLost { connections, last })
    }

    /// The summary, and the requests whose times were recorded one by one.
    pub(crate) fn into_summary(
        self,
        config: &Config,
        timeline: &Timeline,
        seen: Observed,
        stalls: Option<&Histogram>,
    ) -> (Summary, Vec<Recorded>) {
        let totals = self
            .totals
            .unwrap_or_else(|| Totals::new(timeline.measure_ns, timeline.end_ns));
        let latencies = &self.window.latencies;
        let offered_rps = match config.rate {
            Rate::PerSecond(rate_rps) => Some(rate_rps),
            Rate::Max => None,
        };
        let open = offered_rps.is_some();
        let distribution = |histogram| LatencyDistribution::of(histogram, &config.percentiles);
        let thread_ns = config.duration_ns as f64 * f64::from(config.threads);
        let busy = 1.0 - totals.idle_ns as f64 / thread_ns;
        let achieved_rps = totals.achieved as f64 * 1e9 / config.duration_ns as f64;
        let limited = match open {
            true => generator_limited(latencies.lateness.percentile(99.0)),
            false => busy > BUSY_LIMIT,
        };
        let summary = Summary {
            schema: SCHEMA.to_owned(),
            demand: if open { Loop::Open } else { Loop::Closed },
            offered_rps,
            duration_ns: config.duration_ns,
            intended: totals.intended,
            sent: totals.sent,
            answered: totals.answered,
            censored: totals.intended - totals.answered,
            errors: totals.errors,
            achieved_rps,
            gets: totals.gets,
            hits: totals.hits,
            sets: totals.sets,
            lost_connections: totals.lost_connections,
            // The caller sets this after a prefill.
            resident: None,
            response: open.then(|| {
                let (answered, censored) = (&latencies.response, &latencies.censored);
                LatencyDistribution::with_censored(answered, censored, &config.percentiles)
            }),
            service: distribution(&latencies.service),
            slip: open.then(|| distribution(&latencies.slip)),
            lateness: open.then(|| distribution(&latencies.lateness)),
            generator_limited: limited,
            generator_cpu: totals.cpu_ns as f64 / thread_ns,
            generator_busy: busy,
            outstanding_mean: totals.outstanding_count.mean(),
            outstanding_unread: totals.outstanding_count.mean_unread(),
            outstanding_expected: totals.outstanding.mean(timeline.end_ns),
            bytes_sent: totals.bytes_sent,
            bytes_received: totals.bytes_received,
            unstamped: totals.unstamped,
            saturating_rps: (config.saturating_connections > 0)
                .then(|| totals.saturating as f64 * 1e9 / config.duration_ns as f64),
            watched: seen.watched,
            bursts: seen.bursts,
            stalls: stalls.map(distribution),
        };
        (summary, self.recorded)
    }
}

impl LatencyDistribution {
    /// The distribution of a histogram, at chosen percentiles.
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

    /// The distribution of all latencies: the known ones and the lower bounds of the censored ones.
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
