//! The schedule of one generator thread. Its requests are generated before the run, up to a maximum
//! number that bounds the memory.

use std::collections::VecDeque;

use workload::{PlannedRequest, Schedule};

use crate::limits::{GENERATE_BATCH, PREGENERATED_MAX};

/// The scheduled requests of a thread, in the order of their intended times, up to the end of the
/// run.
///
/// Up to [`PREGENERATED_MAX`] requests are generated before the run. For most runs, this is the
/// complete schedule. If the schedule is longer, the thread generates the rest in small batches
/// while it is idle.
pub(crate) struct ScheduleSource {
    schedule: Schedule,
    /// The requests that are generated and not yet taken.
    generated: VecDeque<PlannedRequest>,
    /// The end of the run, as a time since the beginning of the schedule.
    end_ns: u64,
    /// Whether the schedule has no further request before `end_ns`.
    exhausted: bool,
}

impl ScheduleSource {
    /// Returns a source of the requests of `schedule` that are intended before `end_ns`. Generates
    /// the first [`PREGENERATED_MAX`] of them. `rate_rps` is the rate of the schedule.
    pub(crate) fn new(schedule: Schedule, rate_rps: f64, end_ns: u64) -> Self {
        // 10 % and 1024 requests above the expected number, so that the list rarely has to grow.
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

    /// Returns the intended time of the next request, since the beginning of the schedule. None:
    /// the schedule has ended.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.generated.front().map(|planned| planned.intended_ns)
    }

    /// Takes the next request. None: the schedule has ended.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<PlannedRequest> {
        let planned = self.generated.pop_front();
        if self.generated.is_empty() && !self.exhausted {
            // The list has run empty, because the thread was not idle for long enough. A batch must
            // be generated now, and the time for this adds to the thread's lateness.
            self.generate(GENERATE_BATCH);
        }
        planned
    }

    /// Generates a batch, if the list has space for it. Called while the thread is idle.
    #[inline]
    pub(crate) fn generate_more(&mut self) {
        if !self.exhausted && self.generated.len() + GENERATE_BATCH <= PREGENERATED_MAX {
            self.generate(GENERATE_BATCH);
        }
    }

    /// Generates up to `count` requests.
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
    fn source_yields_the_schedule_up_to_the_end_of_the_run() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        config.connections = 7;
        let rate_rps = 100_000.0;
        let schedule = || config.demand().schedule(rate_rps).unwrap();
        let end_ns = 100_000_000;
        let expected: Vec<PlannedRequest> = schedule()
            .take_while(|planned| planned.intended_ns < end_ns)
            .collect();
        let mut source = ScheduleSource::new(schedule(), rate_rps, end_ns);
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
