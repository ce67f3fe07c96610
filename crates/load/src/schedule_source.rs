//! The schedule of one thread, drawn ahead of need.

use std::collections::VecDeque;

use workload::{Planned, Schedule};

use crate::limits::{DRAW_BATCH, DRAWN_AHEAD_MAX};

/// Requests in the order of their intended times, up to the run's end.
///
/// Most runs are drawn whole before they begin. Of a longer one the first [`DRAWN_AHEAD_MAX`] are;
/// the rest is drawn in idle moments, a few at a time.
pub(crate) struct ScheduleSource {
    schedule: Schedule,
    drawn: VecDeque<Planned>,
    end_ns: u64,
    exhausted: bool,
}

impl ScheduleSource {
    /// A feed of what is intended before `end_ns`, drawn as far as there is room.
    pub(crate) fn new(schedule: Schedule, rate_rps: f64, end_ns: u64) -> Self {
        // A tenth more than the mean, so that it seldom grows; what it holds is bounded anyway.
        let expected = (rate_rps * end_ns as f64 / 1e9 * 1.1) as usize + 1024;
        let drawn = VecDeque::with_capacity(expected.min(DRAWN_AHEAD_MAX));
        let mut source = Self {
            schedule,
            drawn,
            end_ns,
            exhausted: false,
        };
        while !source.exhausted && source.drawn.len() < DRAWN_AHEAD_MAX {
            source.draw(1);
        }
        source
    }

    /// When the next request is intended, from the schedule's beginning; none: there is no more.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.drawn.front().map(|planned| planned.intended_ns)
    }

    /// Takes the next request.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Planned> {
        let planned = self.drawn.pop_front();
        if self.drawn.is_empty() && !self.exhausted {
            // No idle moment came for four million requests: there is no other time left.
            self.draw(DRAW_BATCH);
        }
        planned
    }

    /// Uses an idle moment.
    #[inline]
    pub(crate) fn draw_ahead(&mut self) {
        if !self.exhausted && self.drawn.len() + DRAW_BATCH <= DRAWN_AHEAD_MAX {
            self.draw(DRAW_BATCH);
        }
    }

    fn draw(&mut self, count: usize) {
        for _ in 0..count {
            match self.schedule.next() {
                Some(planned) if planned.intended_ns < self.end_ns => self.drawn.push_back(planned),
                _ => {
                    self.exhausted = true;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_feed_is_the_schedule_up_to_its_end() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        config.connections = 7;
        let schedule = || config.demand().schedule(100_000.0).unwrap();
        let end_ns = 100_000_000;
        let expected: Vec<Planned> = schedule()
            .take_while(|planned| planned.intended_ns < end_ns)
            .collect();
        let mut source = ScheduleSource::new(schedule(), 100_000.0, end_ns);
        let mut fed = Vec::new();
        while let Some(next_ns) = source.next_ns() {
            let planned = source.pop().unwrap();
            assert_eq!(planned.intended_ns, next_ns);
            source.draw_ahead();
            fed.push(planned);
        }
        assert_eq!(fed, expected);
        assert!(fed.len() > 9_000, "{}", fed.len());
        assert_eq!(source.pop(), None);
    }
}
