//! What a relay did during a trial, as metrics, and whether it was the limit.

use report::record::{Better, Measured, Metric, Unit};

use crate::interval::Edge;
use crate::limits;
use hosts::{Error, Hosts, RelayRecord};

/// Why a trial is invalid whose relay added to the link's delay.
pub(crate) const LIMITED: &str = "the relay of the link was late, or dropped frames";

/// The metrics: name, title, unit.
const METRICS: [(&str, &str, &str); 5] = [
    ("relay_forwarded", "frames forwarded by the relay", "count"),
    ("relay_lost", "frames lost by the link's loss", "count"),
    (
        "relay_dropped",
        "frames dropped because a queue was full",
        "count",
    ),
    (
        "relay_lateness_p99_ns",
        "relay's lateness, 99th percentile",
        "ns",
    ),
    ("relay_lateness_max_ns", "relay's lateness, maximum", "ns"),
];

/// The definitions of the metrics of a relay.
pub(crate) fn metrics() -> Vec<Metric> {
    let metric = |(name, title, unit): (&str, &str, &str)| {
        Metric::new(name, title, Unit::from(unit.to_owned()), Better::Neither)
    };
    METRICS.map(metric).to_vec()
}

/// Whether a relay lengthened latencies beyond the link's.
pub(crate) fn is_limit(record: &RelayRecord) -> bool {
    let dropped = record.to_server.dropped + record.to_clients.dropped;
    record.lateness.percentile(99.0) > limits::RELAY_LATENESS_NS || dropped > 0
}

/// Adds the metrics of a relay to a trial's.
pub(crate) fn add(record: &RelayRecord, measured: &mut Measured) {
    let both = |of: fn(&hosts::DirectionCounts) -> u64| {
        (of(&record.to_server) + of(&record.to_clients)) as f64
    };
    let dropped = both(|it| it.dropped);
    let lateness = &record.lateness;
    let values = [
        both(|it| it.forwarded),
        both(|it| it.lost),
        dropped,
        lateness.percentile(99.0) as f64,
        lateness.max() as f64,
    ];
    for ((name, ..), value) in METRICS.into_iter().zip(values) {
        measured.metrics.insert(name.to_owned(), value);
    }
}

/// The relay's record of the measured interval of `curtail load`: the frames of the prefill, which
/// come in bursts, are left out. Without a warm-up, the record is that of all the load.
#[derive(Debug)]
pub(crate) struct RelayWindow<'a> {
    hosts: &'a Hosts,
    /// None: the interval is not over, or cannot be noticed.
    record: Option<Option<RelayRecord>>,
}

impl<'a> RelayWindow<'a> {
    /// A window of a generator that is about to start.
    ///
    /// # Errors
    /// The relay has failed.
    pub(crate) fn begin(hosts: &'a Hosts) -> Result<Self, Error> {
        hosts.take_relay_record()?;
        Ok(Self {
            hosts,
            record: None,
        })
    }

    /// Notices the start or the end of the interval.
    ///
    /// # Errors
    /// The relay has failed.
    pub(crate) fn note(&mut self, edge: Edge) -> Result<(), Error> {
        let record = self.hosts.take_relay_record()?;
        if edge == Edge::End {
            self.record = Some(record);
        }
        Ok(())
    }

    /// The record, once the generator has ended. None: there is no relay.
    ///
    /// # Errors
    /// The relay has failed.
    pub(crate) fn end(self) -> Result<Option<RelayRecord>, Error> {
        match self.record {
            Some(record) => Ok(record),
            None => self.hosts.take_relay_record(),
        }
    }
}

#[cfg(test)]
mod tests {
    use measure::Histogram;

    use super::*;
    use hosts::DirectionCounts;

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
    fn a_relay_in_time_only_adds_its_metrics() {
        let mut measured = Measured::default();
        let mut all = record(10_000, 0);
        all.merge(&record(20_000, 0));
        add(&all, &mut measured);
        assert!(!is_limit(&all));
        let names: Vec<&String> = measured.metrics.keys().collect();
        let mut defined: Vec<String> = metrics().into_iter().map(|it| it.name).collect();
        defined.sort();
        assert_eq!(names, defined.iter().collect::<Vec<_>>());
        assert_eq!(measured.metric("relay_forwarded"), Some(200.0));
        assert_eq!(measured.metric("relay_lost"), Some(8.0));
    }

    #[test]
    fn a_late_relay_and_one_that_drops_frames_are_the_limit() {
        for record in [record(2 * limits::RELAY_LATENESS_NS, 0), record(1, 1)] {
            assert!(is_limit(&record));
        }
    }

    #[test]
    fn without_a_relay_a_window_is_empty() {
        let mut window = RelayWindow::begin(&Hosts::One).unwrap();
        window.note(Edge::Begin).unwrap();
        assert_eq!(window.end().unwrap(), None);
    }
}
