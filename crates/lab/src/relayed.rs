//! What a relay did during a trial, as metrics, and whether it was the limit.

use report::record::{Better, Measured, Metric, Unit};

use crate::limits;
use hosts::{DirectionCounts, RelayRecord};

/// Why a trial is invalid whose relay added to the link's delay.
pub(crate) const LIMITED: &str = "the relay of the link was late, or dropped frames";

type RelayMetric = (
    &'static str,
    &'static str,
    &'static str,
    fn(&RelayRecord) -> f64,
);

#[rustfmt::skip]
const METRICS: [RelayMetric; 5] = [
    ("relay_forwarded", "frames forwarded by the relay", "count", |it| both(it, |it| it.forwarded)),
    ("relay_lost", "frames lost by the link's loss", "count", |it| both(it, |it| it.lost)),
    ("relay_dropped", "frames dropped because a queue was full", "count", |it| both(it, |it| it.dropped)),
    ("relay_lateness_p99_ns", "relay's lateness, 99th percentile", "ns", |it| it.lateness.percentile(99.0) as f64),
    ("relay_lateness_max_ns", "relay's lateness, maximum", "ns", |it| it.lateness.max() as f64),
];

fn both(record: &RelayRecord, of: fn(&DirectionCounts) -> u64) -> f64 {
    (of(&record.to_server) + of(&record.to_clients)) as f64
}

pub(crate) fn metrics() -> Vec<Metric> {
    let metrics = METRICS.into_iter().map(|(name, title, unit, _)| {
        Metric::new(name, title, Unit::from(unit.to_owned()), Better::Neither)
    });
    metrics.collect()
}

/// Whether a relay lengthened latencies beyond the link's.
pub(crate) fn is_limit(record: &RelayRecord) -> bool {
    let is_late = record.lateness.percentile(99.0) > limits::RELAY_LATENESS_NS;
    is_late || both(record, |it| it.dropped) > 0.0
}

/// Adds the metrics of a relay to a trial's.
pub(crate) fn add(record: &RelayRecord, measured: &mut Measured) {
    let values = METRICS.map(|(name, .., of)| (name.to_owned(), of(record)));
    measured.metrics.extend(values);
}

#[cfg(test)]
mod tests {
    use measure::Histogram;

    use super::*;

    fn record(late_ns: u64, dropped: u64) -> RelayRecord {
        let counts = |forwarded, dropped| DirectionCounts {
            forwarded,
            lost: 2,
            dropped,
        };
        let mut lateness = Histogram::new();
        lateness.record_n(late_ns, 100);
        RelayRecord {
            to_server: counts(60, dropped),
            to_clients: counts(40, 0),
            lateness,
        }
    }

    #[test]
    fn only_a_late_relay_and_one_that_drops_frames_are_the_limit() {
        let mut measured = Measured::default();
        let mut all = record(10_000, 0);
        all.merge(&record(20_000, 0));
        add(&all, &mut measured);
        assert!(!is_limit(&all));
        assert_eq!(measured.metrics.len(), metrics().len());
        assert_eq!(measured.metric("relay_forwarded"), Some(200.0));
        assert_eq!(measured.metric("relay_lost"), Some(8.0));
        for record in [record(2 * limits::RELAY_LATENESS_NS, 0), record(1, 1)] {
            assert!(is_limit(&record));
        }
    }
}
