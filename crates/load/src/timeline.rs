//! The timeline of a run: its phases and the ends of its windows, on the monotonic clock.

use crate::config::Config;

const SECOND_NS: u64 = 1_000_000_000;

/// The phases of a run, and the boundaries at which its windows end.
///
/// A window is a section of a run whose measurements are collected together. Windows are one second
/// long, counted from the start of the measured interval. The first window of the warm-up and the
/// last window of the interval may be shorter. The grace period is the last window. It has no
/// boundary, because it ends with the run.
///
/// ```text
/// start    measure                        end      grace end
///   │ warm-up │   second   second   second │  grace   │
///   └─────────┴────────┴────────┴──────────┴──────────┘   windows
/// ```
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    /// The start of the load.
    pub(crate) start_ns: u64,
    /// The start of the measured interval.
    pub(crate) measure_ns: u64,
    /// The end of the measured interval.
    pub(crate) end_ns: u64,
    /// The end of the grace period, in which outstanding answers are awaited.
    pub(crate) grace_end_ns: u64,
    /// The ends of all windows except the last, ascending.
    boundaries: Vec<u64>,
}

impl Timeline {
    /// Returns the timeline of a run that starts at `start_ns`.
    pub(crate) fn new(config: &Config, start_ns: u64) -> Self {
        let measure_ns = start_ns + config.warmup_ns;
        let end_ns = measure_ns + config.duration_ns;
        // The number of boundaries after the start and before `measure_ns`.
        let before = config.warmup_ns.saturating_sub(1) / SECOND_NS;
        // The number of boundaries after `measure_ns` and before `end_ns`.
        let after = (config.duration_ns - 1) / SECOND_NS;
        let mut boundaries = Vec::new();
        if config.warmup_ns > 0 {
            boundaries.extend((0..=before).rev().map(|n| measure_ns - n * SECOND_NS));
        }
        boundaries.extend((1..=after).map(|n| measure_ns + n * SECOND_NS));
        boundaries.push(end_ns);
        Self {
            start_ns,
            measure_ns,
            end_ns,
            grace_end_ns: end_ns + config.grace_ns,
            boundaries,
        }
    }

    /// Returns the boundary at which the window with the number `window` ends. None for the last
    /// window, which ends with the run.
    pub(crate) fn boundary(&self, window: usize) -> Option<u64> {
        self.boundaries.get(window).copied()
    }

    /// Returns the number of boundaries. This is also the number of the last window, because the
    /// first window has the number 0.
    pub(crate) fn boundaries(&self) -> usize {
        self.boundaries.len()
    }

    /// Returns the beginning and the end of a window. None for the last window.
    pub(crate) fn span(&self, window: usize) -> Option<(u64, u64)> {
        let end_ns = self.boundary(window)?;
        let before = window
            .checked_sub(1)
            .and_then(|before| self.boundary(before));
        Some((before.unwrap_or(self.start_ns), end_ns))
    }

    /// Whether a window is merged into the result: it belongs to the measured interval or to the
    /// grace period.
    pub(crate) fn is_measured(&self, window: usize) -> bool {
        self.boundary(window)
            .is_none_or(|end_ns| end_ns > self.measure_ns)
    }

    /// Whether the time `at_ns` lies in the measured interval.
    #[inline]
    pub(crate) fn measures(&self, at_ns: u64) -> bool {
        (self.measure_ns..self.end_ns).contains(&at_ns)
    }

    /// Returns the earlier of two times: `at_ns` and the end of the measured interval.
    #[inline]
    pub(crate) fn clamped(&self, at_ns: u64) -> u64 {
        at_ns.min(self.end_ns)
    }

    /// Returns the lower bound of the response time of a request that was given up at
    /// `given_up_ns`. A request that was given up before the end of the measured interval counts as
    /// unanswered until the end of the interval.
    pub(crate) fn lower_bound_ns(&self, intended_ns: u64, given_up_ns: u64) -> u64 {
        given_up_ns.max(self.end_ns) - intended_ns
    }

    /// Returns how much of the time from `from_ns` to `to_ns` lies in the measured interval.
    pub(crate) fn overlap_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        to_ns
            .min(self.end_ns)
            .saturating_sub(from_ns.max(self.measure_ns))
    }

    /// Returns the latest time at which a window ends: its boundary or, for the last window, the
    /// end of the grace period.
    pub(crate) fn next_event_ns(&self, window: usize) -> u64 {
        self.boundary(window).unwrap_or(self.grace_end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the timeline of a run that starts at 1000 ns.
    fn timeline(warmup_ns: u64, duration_ns: u64) -> Timeline {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        (config.warmup_ns, config.duration_ns) = (warmup_ns, duration_ns);
        Timeline::new(&config, 1_000)
    }

    #[test]
    fn windows_are_full_seconds_from_the_start_of_the_interval() {
        let timeline = timeline(1_500_000_000, 2_200_000_000);
        let spans: Vec<_> = (0..6).map_while(|window| timeline.span(window)).collect();
        let at = |ns: u64| 1_000 + ns;
        assert_eq!(
            spans,
            [
                (at(0), at(500_000_000)),
                (at(500_000_000), at(1_500_000_000)),
                (at(1_500_000_000), at(2_500_000_000)),
                (at(2_500_000_000), at(3_500_000_000)),
                (at(3_500_000_000), at(3_700_000_000)),
            ]
        );
        let measured: Vec<_> = (0..6).map(|window| timeline.is_measured(window)).collect();
        assert_eq!(measured, [false, false, true, true, true, true]);
    }

    #[test]
    fn measured_interval_begins_with_the_load_if_there_is_no_warm_up() {
        let warmup_ns = 0;
        let timeline = timeline(warmup_ns, SECOND_NS);
        assert_eq!(timeline.boundaries(), 1);
        assert!(timeline.is_measured(0));
        assert_eq!(timeline.overlap_ns(0, 2_000), 1_000);
        // A request given up in the interval counts as unanswered until the end of the interval.
        assert_eq!(timeline.lower_bound_ns(1_000, 5_000), SECOND_NS);
        assert_eq!(
            timeline.lower_bound_ns(1_000, 2 * SECOND_NS),
            2 * SECOND_NS - 1_000
        );
        assert!(timeline.measures(1_000) && !timeline.measures(1_000 + SECOND_NS));
    }
}
