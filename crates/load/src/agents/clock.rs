//! The offset between the clocks of two hosts.
//!
//! ```text
//! coordinator   sent ─────┐                ┌───► returned
//! agent                   └► received … echoed
//! ```
//!
//! As in NTP (RFC 5905, section 8), a probe gives the offset ((received − sent) + (echoed −
//! returned)) / 2. The round-trip delay is the time from `sent` to `returned`, without the time
//! that the agent held the probe. The error of the offset is at most half the round-trip delay,
//! however the delay is divided between the two directions. Of several probes, the one with the
//! shortest delay is therefore used.
//!
//! Offsets only serve to start a run on all hosts at the same time. A latency is always the
//! difference of two readings of one clock.

use serde::{Deserialize, Serialize};

/// The four clock readings of one probe, in nanoseconds of Unix time. Each is by the clock of the
/// host that took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// When the coordinator sent the probe.
    pub sent_ns: u64,
    /// When the agent received the probe.
    pub received_ns: u64,
    /// When the agent sent the echo.
    pub echoed_ns: u64,
    /// When the coordinator received the echo.
    pub returned_ns: u64,
}

/// The difference between an agent's clock and the coordinator's, or the change of that difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockOffset {
    /// The agent's time − the coordinator's time.
    pub offset_ns: i64,
    /// The greatest possible distance of `offset_ns` from the true difference.
    pub error_ns: u64,
}

impl ClockOffset {
    /// Returns the offset of the probe with the shortest round-trip delay. None: there is no probe,
    /// or a clock was set back during every probe.
    #[must_use]
    pub fn estimate(probes: &[Probe]) -> Option<Self> {
        let offsets = probes.iter().filter_map(Self::from_probe);
        offsets.min_by_key(|offset| offset.error_ns)
    }

    /// Computes the offset from one probe. None: a clock was set back during the probe.
    fn from_probe(probe: &Probe) -> Option<Self> {
        let ns = |time: u64| i128::from(time);
        let elapsed_ns = ns(probe.returned_ns) - ns(probe.sent_ns);
        let held_ns = ns(probe.echoed_ns) - ns(probe.received_ns);
        let delay_ns = u64::try_from(elapsed_ns - held_ns).ok()?;
        let sum = (ns(probe.received_ns) - ns(probe.sent_ns))
            + (ns(probe.echoed_ns) - ns(probe.returned_ns));
        (held_ns >= 0).then_some(Self {
            offset_ns: i64::try_from(sum / 2).ok()?,
            error_ns: delay_ns.div_ceil(2),
        })
    }

    /// Converts a time of the coordinator's clock to the agent's clock.
    #[must_use]
    pub fn to_agent_clock(&self, coordinator_ns: u64) -> u64 {
        coordinator_ns.saturating_add_signed(self.offset_ns)
    }

    /// The change of the offset since `earlier`. Its error is the sum of both errors.
    #[must_use]
    pub fn drift_since(&self, earlier: &Self) -> Self {
        Self {
            offset_ns: self.offset_ns.saturating_sub(earlier.offset_ns),
            error_ns: self.error_ns.saturating_add(earlier.error_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A probe sent at `at` to an agent whose clock is `offset` ahead. The probe takes `there` to
    /// reach the agent, the agent holds it for `held`, and the echo takes `back` to return. All
    /// times are in nanoseconds.
    fn probe(at: u64, offset: i64, there: u64, held: u64, back: u64) -> Probe {
        let arrived = at + there;
        Probe {
            sent_ns: at,
            received_ns: arrived.saturating_add_signed(offset),
            echoed_ns: (arrived + held).saturating_add_signed(offset),
            returned_ns: arrived + held + back,
        }
    }

    proptest! {
        #[test]
        fn true_offset_is_within_the_error_of_the_estimate(
            offset in -1_000_000_000_000_i64..1_000_000_000_000,
            delays in prop::collection::vec((0_u64..5_000_000, 0_u64..5_000_000), 1..20),
        ) {
            const AT: u64 = 1_700_000_000_000_000_000;
            let probes: Vec<Probe> = delays
                .iter()
                .map(|&(there, back)| probe(AT, offset, there, 10_000, back))
                .collect();
            let found = ClockOffset::estimate(&probes).unwrap();
            // The division that computes the offset may round by half a nanosecond, so one
            // nanosecond more is permitted.
            prop_assert!(found.offset_ns.abs_diff(offset) <= found.error_ns + 1);
            let shortest = delays.iter().map(|(there, back)| there + back).min().unwrap();
            prop_assert_eq!(found.error_ns, shortest.div_ceil(2));
        }

        #[test]
        fn any_readings_are_converted_without_overflow(
            sent_ns in any::<u64>(), received_ns in any::<u64>(),
            echoed_ns in any::<u64>(), returned_ns in any::<u64>(),
        ) {
            let probe = Probe { sent_ns, received_ns, echoed_ns, returned_ns };
            if let Some(found) = ClockOffset::estimate(&[probe]) {
                let _ = (found.to_agent_clock(sent_ns), found.drift_since(&found));
            }
        }
    }

    #[test]
    fn offset_converts_times_and_drift_is_the_difference_of_two_offsets() {
        let before = ClockOffset {
            offset_ns: -500,
            error_ns: 20,
        };
        let after = ClockOffset {
            offset_ns: -450,
            error_ns: 30,
        };
        assert_eq!(before.to_agent_clock(10_000), 9_500);
        let moved = after.drift_since(&before);
        assert_eq!((moved.offset_ns, moved.error_ns), (50, 50));
    }

    #[test]
    fn probe_during_which_a_clock_was_set_back_gives_no_offset() {
        // Sent at 1000 ns, without an offset, and 10 ns for each section of the way.
        let mut back = probe(1_000, 0, 10, 10, 10);
        back.echoed_ns -= 100;
        assert_eq!(ClockOffset::estimate(&[back]), None);
        back = probe(1_000, 0, 10, 10, 10);
        back.returned_ns -= 100;
        assert_eq!(ClockOffset::estimate(&[back]), None);
        assert_eq!(ClockOffset::estimate(&[]), None);
    }
}
