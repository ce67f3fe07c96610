//! When packets are sent again, and how often.

/// Bounds of sending again. The counts begin anew with each progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How long the oldest packet may stay unacknowledged, in nanoseconds.
    pub timeout_ns: u64,
    /// How often packets are sent again, for time-outs and losses together.
    pub losses_max: u32,
    /// How often packets are sent again because the peer could not receive them.
    pub not_ready_max: u32,
}

/// The clock of the oldest packet, and what was counted since the last progress.
#[derive(Debug, Default)]
pub(super) struct Deadline {
    /// When the oldest packet is sent again.
    at_ns: Option<u64>,
    /// Nothing is sent before.
    pause_until_ns: Option<u64>,
    losses: u32,
    not_ready: u32,
}

impl Deadline {
    /// Starts the clock, unless it runs, from now or from the end of the pause.
    pub(super) fn start(&mut self, now_ns: u64, retries: &Retries) {
        let from_ns = self
            .pause_until_ns
            .map_or(now_ns, |until_ns| until_ns.max(now_ns));
        self.at_ns
            .get_or_insert(from_ns.saturating_add(retries.timeout_ns));
    }

    /// Stops the clock and forgets the counts, but not a pause.
    pub(super) fn reset(&mut self) {
        *self = Self {
            pause_until_ns: self.pause_until_ns,
            ..Self::default()
        };
    }

    pub(super) fn is_over(&self, now_ns: u64) -> bool {
        self.at_ns.is_some_and(|at_ns| at_ns <= now_ns)
    }

    pub(super) fn is_pausing(&mut self, now_ns: u64) -> bool {
        if self
            .pause_until_ns
            .is_some_and(|until_ns| until_ns <= now_ns)
        {
            self.pause_until_ns = None;
        }
        self.pause_until_ns.is_some()
    }

    /// When something is to be sent: after the pause, or again.
    pub(super) fn next_ns(&self, has_unsent: bool) -> Option<u64> {
        match self.pause_until_ns {
            Some(until_ns) if has_unsent => Some(until_ns),
            _ => self.at_ns,
        }
    }

    /// Stops sending for a time.
    pub(super) fn pause(&mut self, now_ns: u64, pause_ns: u64, retries: &Retries) {
        let until_ns = now_ns.saturating_add(pause_ns);
        self.pause_until_ns = Some(until_ns);
        self.at_ns = Some(until_ns.saturating_add(retries.timeout_ns));
    }

    /// Counts a loss and starts the clock anew; false if there were too many.
    pub(super) fn count_retry(&mut self, now_ns: u64, retries: &Retries) -> bool {
        self.losses += 1;
        self.at_ns = Some(now_ns.saturating_add(retries.timeout_ns));
        self.losses <= retries.losses_max
    }

    /// Counts a refusal for want of a receive; false if there were too many.
    pub(super) fn count_not_ready(&mut self, retries: &Retries) -> bool {
        self.not_ready += 1;
        self.not_ready <= retries.not_ready_max
    }
}

/// How long the requester waits, from the five bits of the syndrome (the specification's table of
/// RNR NAK timers).
pub(super) fn not_ready_ns(timer: u8) -> u64 {
    const UNIT_NS: u64 = 10_000;
    let units = match timer & 0x1f {
        0 => 65_536,
        code @ 1..=4 => u64::from(code),
        // From here on, the steps are 3/2 and 4/3 in turn.
        code => {
            let code = u64::from(code - 5);
            let factor = if code.is_multiple_of(2) { 6 } else { 8 };
            factor << (code / 2)
        }
    };
    units * UNIT_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_times_are_those_of_the_specification() {
        let microseconds = |timer| not_ready_ns(timer) / 1000;
        let times: Vec<u64> = (0..32).map(microseconds).collect();
        assert_eq!(
            times,
            [
                655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
                2560, 3840, 5120, 7680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920,
                122_880, 163_840, 245_760, 327_680, 491_520
            ]
        );
    }
}
