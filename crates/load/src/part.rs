//! The part of a run's connections that one process opens.
//!
//! The parts of a run are ranges of connection numbers. A connection has the same requests, at the
//! same intended times and to the same target, in whichever part it is
//! ([`workload::Demand::schedule_of`]), so the parts together are exactly the run.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::limits::PARTS_MAX;

/// One of the parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The number of the part, below [`PARTS_MAX`].
    pub number: u32,
    /// The number of its first connection.
    pub first: u32,
    /// Its connections.
    pub count: u32,
}

impl Part {
    /// All connections of a run.
    #[must_use]
    pub fn whole(config: &Config) -> Self {
        Self {
            number: 0,
            first: 0,
            count: config.connections,
        }
    }

    /// `parts` parts of almost equal size that together have each of the connections once.
    #[must_use]
    pub fn split(connections: u32, parts: u32) -> Vec<Self> {
        let part = |number| {
            let Range { start, end } = portion(connections, parts, number);
            Self {
                number,
                first: start,
                count: end - start,
            }
        };
        (0..parts).map(part).collect()
    }

    /// The numbers of its connections.
    #[must_use]
    pub fn range(&self) -> Range<u32> {
        self.first..self.first.saturating_add(self.count)
    }

    /// The numbers of the connections of one of `threads` threads.
    pub(crate) fn of_thread(&self, thread: u32, threads: u32) -> Range<u32> {
        let Range { start, end } = portion(self.count, threads, thread);
        self.first + start..self.first + end
    }

    /// The rate of the part's connections in a run at `rate_rps`.
    pub(crate) fn rate_rps(&self, config: &Config, rate_rps: f64) -> f64 {
        rate_rps * (f64::from(self.count) / f64::from(config.connections))
    }

    /// Whether the part has the run's saturating connections, which are all in the first part.
    pub(crate) fn is_saturating(&self, config: &Config) -> bool {
        self.number == 0 && config.saturating_connections > 0
    }

    /// The connections to open: with the saturating ones, if the part has them.
    pub(crate) fn all_connections(&self, config: &Config) -> u32 {
        match self.is_saturating(config) {
            true => self.count + config.saturating_connections,
            false => self.count,
        }
    }

    /// Whether the numbers are those of a part of such a run with a connection for every thread.
    pub(crate) fn fits(&self, config: &Config) -> bool {
        let end = self.first.checked_add(self.count);
        self.number < PARTS_MAX
            && self.count >= config.threads
            && end.is_some_and(|end| end <= config.connections)
    }
}

/// Portion `number` of `all` divided into `portions`.
fn portion(all: u32, portions: u32, number: u32) -> Range<u32> {
    let start = |number: u32| {
        // At most `all`.
        (u64::from(number) * u64::from(all) / u64::from(portions)) as u32
    };
    start(number)..start(number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::{Digest, PlannedRequest};

    #[test]
    fn parts_have_each_connection_once() {
        for (connections, parts) in [(1, 1), (7, 3), (1280, 5), (1 << 20, 64)] {
            let split = Part::split(connections, parts);
            let mut next = 0;
            for part in &split {
                assert_eq!(part.first, next);
                next = part.range().end;
            }
            assert_eq!((split.len() as u32, next), (parts, connections));
            let sizes = split.iter().map(|part| part.count);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
    }

    #[test]
    fn threads_divide_a_part_as_they_divide_a_run() {
        let part = Part {
            number: 1,
            first: 10,
            count: 7,
        };
        let ranges: Vec<_> = (0..3).map(|thread| part.of_thread(thread, 3)).collect();
        assert_eq!(ranges, [10..12, 12..14, 14..17]);
    }

    /// The schedules of the parts, merged by time, are the schedule of the whole run.
    #[test]
    fn the_schedule_of_the_parts_is_the_schedule_of_the_run() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        config.connections = 33;
        let rate_rps = 50_000.0;
        let until = |planned: &PlannedRequest| planned.intended_ns < 100_000_000;
        let whole = config.demand().schedule(rate_rps).unwrap();
        let whole: Vec<_> = whole.take_while(until).collect();
        let mut merged = Vec::new();
        for part in Part::split(config.connections, 5) {
            let schedule = config.demand().schedule_of(rate_rps, part.range()).unwrap();
            merged.extend(schedule.take_while(until));
        }
        merged.sort_by_key(|planned| (planned.intended_ns, planned.connection));
        assert!(whole.len() > 4_000, "{}", whole.len());
        assert_eq!(Digest::of(merged), Digest::of(whole));
    }

    #[test]
    fn a_part_outside_the_run_or_below_its_threads_does_not_fit() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        (config.connections, config.threads) = (8, 2);
        let part = |number, first, count| Part {
            number,
            first,
            count,
        };
        assert!(part(0, 0, 8).fits(&config) && part(3, 6, 2).fits(&config));
        assert!(!part(0, 0, 1).fits(&config), "fewer than threads");
        assert!(!part(0, 7, 2).fits(&config) && !part(0, u32::MAX, 2).fits(&config));
        assert!(!part(PARTS_MAX, 0, 8).fits(&config));
    }
}
