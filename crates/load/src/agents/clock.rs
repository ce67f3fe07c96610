//! The offset between the clocks of two hosts.
//!
//! ```text
//! coordinator   sent ─────┐                ┌───► returned
//! agent                   └► received … echoed
//! ```
//!
//! A probe is a message to the agent that the agent echoes immediately. As in NTP (RFC 5905,
//! section 8), the four clock readings of a probe give the offset ((received − sent) + (echoed −
//! returned)) / 2. The round-trip delay is the time from `sent` to `returned` minus the time from
//! `received` to `echoed`. The offset differs from the true offset by at most half the round-trip
//! delay, however the delay is divided between the two directions. Of several probes, the one with
//! the shortest delay is therefore used.
//!
//! An offset serves to start a run on all hosts at the same time, and is reported. It has no part
//! in any latency: a latency is always the difference of two readings of one clock.

use serde::{Deserialize, Serialize};

/// The four clock readings of one probe, in nanoseconds of Unix time. Each reading is by the clock
/// of the host that took it.
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

/// The difference between an agent's clock and the coordinator's. The same type is used for the
/// change of the difference ([`ClockOffset::drift_since`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockOffset {
    /// The agent's time − the coordinator's time, or the later such difference − the earlier one.
    pub offset_ns: i64,
    /// The greatest possible distance of `offset_ns` from its true value.
    pub error_ns: u64,
}

impl ClockOffset {
    /// Returns the offset of the probe with the shortest round-trip delay. None: there is no probe,
    /// or the readings of every probe are impossible because a clock was set meanwhile.
    #[must_use]
    pub fn estimate(probes: &[Probe]) -> Option<Self> {
        let offsets = probes.iter().filter_map(Self::from_probe);
        // The error is half the delay.
        offsets.min_by_key(|offset| offset.error_ns)
    }

    /// Computes the offset from one probe. None: the readings are not possible unless a clock was
    /// set during the probe, or the offset is out of the bounds of its type.
    fn from_probe(probe: &Probe) -> Option<Self> {
        // Differences of 64-bit times do not overflow in 128 bits.
        let wide = |time_ns: u64| i128::from(time_ns);
        let elapsed_ns = wide(probe.returned_ns) - wide(probe.sent_ns);
        let held_ns = wide(probe.echoed_ns) - wide(probe.received_ns);
        // A negative delay is not possible.
        let delay_ns = u64::try_from(elapsed_ns - held_ns).ok()?;
        let sum = (wide(probe.received_ns) - wide(probe.sent_ns))
            + (wide(probe.echoed_ns) - wide(probe.returned_ns));
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

    /// The change of the offset since `earlier`. The error of the change is the sum of the errors
    /// of both offsets.
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

    /// A probe sent at `sent` to an agent whose clock is `offset` ahead. The probe takes the time
    /// `request` to reach the agent. The agent echoes it after the time `held`. The echo takes the
    /// time `response` to return. All times are in nanoseconds.
    fn probe(sent: u64, offset: i64, request: u64, held: u64, response: u64) -> Probe {
        let arrived = sent + request;
        Probe {
            sent_ns: sent,
            received_ns: arrived.saturating_add_signed(offset),
            echoed_ns: (arrived + held).saturating_add_signed(offset),
            returned_ns: arrived + held + response,
        }
    }

    proptest! {
        #[test]
        fn true_offset_is_within_the_error_of_the_estimate(
            offset in -1_000_000_000_000_i64..1_000_000_000_000,
            delays in prop::collection::vec((0_u64..5_000_000, 0_u64..5_000_000), 1..20),
        ) {
            const SENT: u64 = 1_700_000_000_000_000_000;
            let probes: Vec<Probe> = delays
                .iter()
                .map(|&(request, response)| probe(SENT, offset, request, 10_000, response))
                .collect();
            let estimate = ClockOffset::estimate(&probes).unwrap();
            // One nanosecond of tolerance, because the offset and its error are rounded.
            prop_assert!(estimate.offset_ns.abs_diff(offset) <= estimate.error_ns + 1);
            let round_trips = delays.iter().map(|(request, response)| request + response);
            let shortest = round_trips.min().unwrap();
            prop_assert_eq!(estimate.error_ns, shortest.div_ceil(2));
        }

        #[test]
        fn any_readings_are_converted_without_overflow(
            sent_ns in any::<u64>(), received_ns in any::<u64>(),
            echoed_ns in any::<u64>(), returned_ns in any::<u64>(),
        ) {
            let probe = Probe { sent_ns, received_ns, echoed_ns, returned_ns };
            if let Some(offset) = ClockOffset::estimate(&[probe]) {
                let _ = (offset.to_agent_clock(sent_ns), offset.drift_since(&offset));
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
        let drift = after.drift_since(&before);
        assert_eq!((drift.offset_ns, drift.error_ns), (50, 50));
    }

    #[test]
    fn probe_during_which_a_clock_was_set_gives_no_offset() {
        // The probe is sent at 1000 ns, and the two clocks agree. The way to the agent, the hold at
        // the agent and the way back take 10 ns each.
        let valid = probe(1_000, 0, 10, 10, 10);
        // The agent's clock is set back by 100 ns before the echo.
        let mut invalid = valid;
        invalid.echoed_ns -= 100;
        assert_eq!(ClockOffset::estimate(&[invalid]), None);
        // The agent's clock is set forward by 100 ns before the echo.
        invalid = valid;
        invalid.echoed_ns += 100;
        assert_eq!(ClockOffset::estimate(&[invalid]), None);
        // The coordinator's clock is set back by 100 ns before the echo returns.
        invalid = valid;
        invalid.returned_ns -= 100;
        assert_eq!(ClockOffset::estimate(&[invalid]), None);
        assert_eq!(ClockOffset::estimate(&[]), None);
    }
}
