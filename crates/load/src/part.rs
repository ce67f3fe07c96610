//! The division of a run's connections into parts. Each part is opened by one process.
//!
//! A part is a range of connection numbers. In open loop, the number of a connection determines its
//! target, its requests and their intended times ([`workload::Demand::schedule_of`]). The division
//! into parts does not change them, so all parts together offer exactly the load of the undivided
//! run.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::limits::PARTS_MAX;

/// A part of a run: a range of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The number of the part, below [`PARTS_MAX`].
    pub number: u32,
    /// The number of the part's first connection.
    pub first: u32,
    /// The number of connections of the part.
    pub count: u32,
}

impl Part {
    /// Returns the only part of an undivided run, which has all connections.
    #[must_use]
    pub fn whole(config: &Config) -> Self {
        Self {
            number: 0,
            first: 0,
            count: config.connections,
        }
    }

    /// Divides `connections` into `parts` parts. Their sizes differ by at most one connection.
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

    /// Returns the numbers of the part's connections.
    #[must_use]
    pub fn range(&self) -> Range<u32> {
        self.first..self.first.saturating_add(self.count)
    }

    /// Returns the numbers of the connections that thread `thread` of `threads` opens.
    pub(crate) fn of_thread(&self, thread: u32, threads: u32) -> Range<u32> {
        let Range { start, end } = portion(self.count, threads, thread);
        self.first + start..self.first + end
    }

    /// Returns the part's share of the run's rate `rate_rps`.
    pub(crate) fn rate_rps(&self, config: &Config, rate_rps: f64) -> f64 {
        rate_rps * (f64::from(self.count) / f64::from(config.connections))
    }

    /// Whether the part opens saturating connections ([`Config::saturating_connections`]). The
    /// first part opens all of them.
    pub(crate) fn is_saturating(&self, config: &Config) -> bool {
        self.number == 0 && config.saturating_connections > 0
    }

    /// Returns the number of connections that the part opens, saturating ones included.
    pub(crate) fn all_connections(&self, config: &Config) -> u32 {
        match self.is_saturating(config) {
            true => self.count + config.saturating_connections,
            false => self.count,
        }
    }

    /// Whether a run with the settings `config` can have this part: the part's number and
    /// connections are within the bounds, and the part has at least one connection for each thread.
    pub(crate) fn fits(&self, config: &Config) -> bool {
        let end = self.first.checked_add(self.count);
        self.number < PARTS_MAX
            && self.count >= config.threads
            && end.is_some_and(|end| end <= config.connections)
    }
}

/// Divides the numbers from 0 to `all` into `portions` consecutive ranges, and returns range
/// `number`.
fn portion(all: u32, portions: u32, number: u32) -> Range<u32> {
    let start = |number: u32| {
        // The quotient is at most `all`, so it fits in 32 bits.
        (u64::from(number) * u64::from(all) / u64::from(portions)) as u32
    };
    start(number)..start(number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::{Digest, PlannedRequest};

    #[test]
    fn split_parts_contain_each_connection_once() {
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
    fn connections_of_a_part_are_divided_among_its_threads() {
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
    fn schedules_of_all_parts_are_the_schedule_of_the_run() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        config.connections = 33;
        let rate_rps = 50_000.0;
        let is_early = |planned: &PlannedRequest| planned.intended_ns < 100_000_000;
        let whole = config.demand().schedule(rate_rps).unwrap();
        let whole: Vec<_> = whole.take_while(is_early).collect();
        let mut merged = Vec::new();
        for part in Part::split(config.connections, 5) {
            let schedule = config.demand().schedule_of(rate_rps, part.range()).unwrap();
            merged.extend(schedule.take_while(is_early));
        }
        merged.sort_by_key(|planned| (planned.intended_ns, planned.connection));
        assert!(whole.len() > 4_000, "{}", whole.len());
        assert_eq!(Digest::of(merged), Digest::of(whole));
    }

    #[test]
    fn part_outside_the_run_or_with_fewer_connections_than_threads_does_not_fit() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        (config.connections, config.threads) = (8, 2);
        // The arguments are the part's number, its first connection and its number of connections.
        let part = |number, first, count| Part {
            number,
            first,
            count,
        };
        assert!(part(0, 0, 8).fits(&config) && part(3, 6, 2).fits(&config));
        assert!(!part(0, 0, 1).fits(&config), "1 connection for 2 threads");
        assert!(!part(0, 7, 2).fits(&config) && !part(0, u32::MAX, 2).fits(&config));
        assert!(!part(PARTS_MAX, 0, 8).fits(&config));
    }
}
