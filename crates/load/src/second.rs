//! The measurements of one second, for the progress of a run.

use measure::{Bounded, WithCensored};

use crate::metrics::Window;
use crate::timeline::Timeline;

/// The measurements of one second of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Second {
    /// The end of the second, from the start of the load.
    pub at_ns: u64,
    /// Its length: one second, or less at an end of a warm-up or interval that is not a whole
    /// number of seconds.
    pub span_ns: u64,
    /// The second belongs to the warm-up, which the summary does not include.
    pub warmup: bool,
    /// Answers per second.
    pub rate_rps: f64,
    /// Median of the response time (closed loop: service time).
    pub p50: Bounded,
    /// Its 99th percentile.
    pub p99: Bounded,
    /// Its 99.9th percentile.
    pub p999: Bounded,
    /// Slip at its 99th percentile. None in closed loop.
    pub slip_p99_ns: Option<u64>,
    /// Share of the answered gets that were hits. None without gets.
    pub hit_rate: Option<f64>,
    /// Requests outstanding at its end.
    pub outstanding: u64,
    /// Requests due but not sent at its end: their connections are at their depth or blocked.
    pub waiting: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// Requests that failed without an answer.
    pub failed: u64,
    /// Connections lost.
    pub lost_connections: u64,
    /// Connections of missing agents: no other figure includes them.
    pub missing_connections: u32,
}

/// The figures of a window of an open or closed loop. None for the last window, which is the grace
/// period.
pub(crate) fn second(
    timeline: &Timeline,
    number: usize,
    window: &Window,
    open: bool,
) -> Option<Second> {
    let (from_ns, to_ns) = timeline.span(number)?;
    let span_ns = to_ns - from_ns;
    let latencies = window.latencies.all();
    let answered = match open {
        true => &latencies.response,
        false => &latencies.service,
    };
    let latency = WithCensored::new(answered, &latencies.censored);
    Some(Second {
        at_ns: to_ns - timeline.start_ns,
        span_ns,
        warmup: !timeline.is_measured(number),
        rate_rps: window.counts.answered as f64 * 1e9 / span_ns as f64,
        p50: latency.percentile(50.0),
        p99: latency.percentile(99.0),
        p999: latency.percentile(99.9),
        slip_p99_ns: open.then(|| window.latencies.slip.percentile(99.0)),
        hit_rate: (window.counts.gets > 0)
            .then(|| window.counts.hits as f64 / window.counts.gets as f64),
        outstanding: window.counts.outstanding,
        waiting: window.counts.waiting,
        errors: window.counts.errors,
        failed: window.counts.failed,
        lost_connections: window.counts.lost_connections,
        missing_connections: 0,
    })
}
