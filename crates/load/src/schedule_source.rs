//! The schedule of one thread, generated in advance.

use std::collections::VecDeque;

use workload::{PlannedRequest, Schedule};

use crate::limits::{GENERATE_BATCH, PREGENERATED_MAX};

/// Requests in the order of their intended times, up to the run's end.
///
/// Up to [`PREGENERATED_MAX`] requests are generated before the run, which is the whole schedule of
/// most runs. The rest of a longer one is generated in small batches while the thread is idle.
pub(crate) struct ScheduleSource {
    schedule: Schedule,
    generated: VecDeque<PlannedRequest>,
    end_ns: u64,
    exhausted: bool,
}

impl ScheduleSource {
    /// Generates up to [`PREGENERATED_MAX`] requests that are intended before `end_ns`.
    pub(crate) fn new(schedule: Schedule, rate_rps: f64, end_ns: u64) -> Self {
        // 10 % above the mean, so that the list seldom grows; its length is bounded anyway.
        let expected = (rate_rps * end_ns as f64 / 1e9 * 1.1) as usize + 1024;
        let generated = VecDeque::with_capacity(expected.min(PREGENERATED_MAX));
        let mut source = Self {
            schedule,
            generated,
            end_ns,
            exhausted: false,
        };
        while !source.exhausted && source.generated.len() < PREGENERATED_MAX {
            source.generate(1);
        }
        source
    }

    /// The intended time of the next request, from the schedule's beginning. None: the schedule has
    /// ended.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.generated.front().map(|planned| planned.intended_ns)
    }

    /// Takes the next request.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<PlannedRequest> {
        let planned = self.generated.pop_front();
        if self.generated.is_empty() && !self.exhausted {
            // The thread was never idle while it sent the last `PREGENERATED_MAX` requests. A batch
            // has to be generated now, which adds to the thread's lateness.
            self.generate(GENERATE_BATCH);
        }
        planned
    }

    /// Generates a batch, if there is space. Called while the thread is idle.
    #[inline]
    pub(crate) fn generate_more(&mut self) {
        if !self.exhausted && self.generated.len() + GENERATE_BATCH <= PREGENERATED_MAX {
            self.generate(GENERATE_BATCH);
        }
    }

    fn generate(&mut self, count: usize) {
        for _ in 0..count {
            match self.schedule.next() {
                Some(planned) if planned.intended_ns < self.end_ns => {
                    self.generated.push_back(planned);
                }
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
    fn the_source_yields_the_schedule_up_to_its_end() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        config.connections = 7;
        let schedule = || config.demand().schedule(100_000.0).unwrap();
        let end_ns = 100_000_000;
        let expected: Vec<PlannedRequest> = schedule()
            .take_while(|planned| planned.intended_ns < end_ns)
            .collect();
        let mut source = ScheduleSource::new(schedule(), 100_000.0, end_ns);
        let mut popped = Vec::new();
        while let Some(next_ns) = source.next_ns() {
            let planned = source.pop().unwrap();
            assert_eq!(planned.intended_ns, next_ns);
            source.generate_more();
            popped.push(planned);
        }
        assert_eq!(popped, expected);
        assert!(popped.len() > 9_000, "{}", popped.len());
        assert_eq!(source.pop(), None);
    }
}
