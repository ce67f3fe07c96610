//! The measurements of one second, which are shown while a run is in progress.

use measure::{Bounded, WithCensored};

use crate::metrics::Window;
use crate::timeline::Timeline;

/// The measurements of one second of a run. At the start of the warm-up and at the end of the
/// measured interval, the second may be shorter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Second {
    /// The end of the second, as a time since the start of the load.
    pub at_ns: u64,
    /// The length. It is less than one second at the start of the warm-up and at the end of the
    /// interval, if their lengths are not whole numbers of seconds.
    pub span_ns: u64,
    /// Whether the second belongs to the warm-up, which the summary does not include.
    pub warmup: bool,
    /// The number of answers per second.
    pub rate_rps: f64,
    /// The median of the response time (closed loop: service time). None: no request was answered
    /// or given up.
    pub p50: Option<Bounded>,
    /// The 99th percentile of the same times. None: as for `p50`.
    pub p99: Option<Bounded>,
    /// The 99.9th percentile of the same times. None: as for `p50`.
    pub p999: Option<Bounded>,
    /// The 99th percentile of the slip (actual send time − intended time). None: the load is a
    /// closed loop, or no request was answered.
    pub slip_p99_ns: Option<u64>,
    /// The share of the requested keys for which an item was found. None: no key was requested.
    pub hit_rate: Option<f64>,
    /// The number of requests outstanding at the end of the second.
    pub outstanding: u64,
    /// The number of requests due but not sent at the end of the second, because their connections
    /// have as many requests outstanding as `--depth` permits, or their sockets are full.
    pub waiting: u64,
    /// The number of answers that are errors.
    pub errors: u64,
    /// The number of requests that failed without an answer.
    pub failed: u64,
    /// The number of connections lost.
    pub lost_connections: u64,
    /// The number of connections of agents that are missing in this second (set by the coordinator,
    /// 0 without agents). The other fields do not include the requests of these connections.
    pub missing_connections: u32,
}

/// Computes the measurements of window `number`. `open` says whether the load is an open loop.
/// Returns None for the last window, which is the grace period.
pub(crate) fn second(
    timeline: &Timeline,
    number: usize,
    window: &Window,
    open: bool,
) -> Option<Second> {
    let (from_ns, to_ns) = timeline.span(number)?;
    let span_ns = to_ns - from_ns;
    let latencies = window.latencies.all();
    let of_answered = match open {
        true => &latencies.response,
        false => &latencies.service,
    };
    let latency = WithCensored::new(of_answered, &latencies.censored);
    let is_measured = !of_answered.is_empty() || !latencies.censored.is_empty();
    let percentile = |at| is_measured.then(|| latency.percentile(at));
    let slip = &window.latencies.slip;
    Some(Second {
        at_ns: to_ns - timeline.start_ns,
        span_ns,
        warmup: !timeline.is_measured(number),
        rate_rps: window.counts.answered as f64 * 1e9 / span_ns as f64,
        p50: percentile(50.0),
        p99: percentile(99.0),
        p999: percentile(99.9),
        slip_p99_ns: (open && !slip.is_empty()).then(|| slip.percentile(99.0)),
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

#[cfg(test)]
mod tests {
    use workload::Op;

    use super::*;
    use crate::config::Config;
    use crate::text::second_line;

    /// Returns the printed line of a window of one second in open loop, with single spaces.
    fn line(window: &Window) -> String {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        config.warmup_ns = 0;
        let (start_ns, number, is_open_loop) = (0, 0, true);
        let timeline = Timeline::new(&config, start_ns);
        let second = second(&timeline, number, window, is_open_loop).unwrap();
        let words = second_line(&second);
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn second_without_answers_has_no_latencies() {
        let mut window = Window::default();
        window.counts.outstanding = 7;
        assert_eq!(line(&window), "1.0s 0 - - - - - 7");
        // A failed request adds a lower bound of its response time, although it was not answered.
        window.latencies.of(Op::Get).censored.record(100);
        assert_eq!(line(&window), "1.0s 0 ≥100 ns ≥100 ns ≥100 ns - - 7");
    }
}
