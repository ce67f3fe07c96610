//! The published savings, and whether they can be those of one grid.
//!
//! Dong et al., *Slowing Down for Performance and Energy*, arXiv 2112.07010: joules saved by each
//! knob, with the other at its slowest and at its fastest value.
//!
//! On one grid the four numbers of a box are differences of four corners, so two ways around the
//! box must give the same sum: speed at the slowest delay + delay at the fastest speed = delay at
//! the slowest speed + speed at the fastest delay. [`Savings::gap`] is the difference.

/// Four savings of one system at one rate, joules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Savings {
    /// By speed, at the longest delay.
    pub speed_at_slow_delay: f64,
    /// By speed, at the shortest delay.
    pub speed_at_fast_delay: f64,
    /// By delay, at the lowest speed.
    pub delay_at_slow_speed: f64,
    /// By delay, at the highest speed.
    pub delay_at_fast_speed: f64,
}

/// Names of the four, in the order of [`Savings::values`].
pub const NAMES: [&str; 4] = [
    "speed, longest delay",
    "speed, shortest delay",
    "delay, lowest speed",
    "delay, highest speed",
];

impl Savings {
    /// No saving.
    pub const NONE: Self = Self::new([0.0; 4]);

    const fn new(values: [f64; 4]) -> Self {
        let [slow_delay, fast_delay, slow_speed, fast_speed] = values;
        Self {
            speed_at_slow_delay: slow_delay,
            speed_at_fast_delay: fast_delay,
            delay_at_slow_speed: slow_speed,
            delay_at_fast_speed: fast_speed,
        }
    }

    /// In the order of the declaration.
    #[must_use]
    pub fn values(&self) -> [f64; 4] {
        [
            self.speed_at_slow_delay,
            self.speed_at_fast_delay,
            self.delay_at_slow_speed,
            self.delay_at_fast_speed,
        ]
    }

    /// What is left over around the box, joules. 0 on one grid.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.speed_at_slow_delay + self.delay_at_fast_speed
            - self.speed_at_fast_delay
            - self.delay_at_slow_speed
    }

    /// The least greatest relative error of any four corners: the gap, shared in proportion.
    #[must_use]
    pub fn least_error(&self) -> f64 {
        self.gap().abs() / self.values().iter().sum::<f64>()
    }

    /// With the two savings by speed exchanged.
    #[must_use]
    pub fn exchanged(self) -> Self {
        Self {
            speed_at_slow_delay: self.speed_at_fast_delay,
            speed_at_fast_delay: self.speed_at_slow_delay,
            ..self
        }
    }
}

/// How the columns *by DVFS, at slowest / fastest ITR* are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The slowest ITR is the longest delay.
    Printed,
    /// The two are exchanged.
    Exchanged,
}

/// The systems of the study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The library OS.
    Libos,
    /// Linux.
    Linux,
}

/// A box of the published table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Offered rate.
    pub rate_rps: f64,
    /// System.
    pub which: Which,
    /// As printed.
    pub savings: Savings,
}

impl Published {
    /// The savings in a reading.
    #[must_use]
    pub fn read(&self, reading: Reading) -> Savings {
        match reading {
            Reading::Printed => self.savings,
            Reading::Exchanged => self.savings.exchanged(),
        }
    }
}

const fn row(rate_rps: f64, which: Which, values: [f64; 4]) -> Published {
    Published {
        rate_rps,
        which,
        savings: Savings::new(values),
    }
}

/// All 24 savings. Those at 600 000 are predicted, not fitted.
pub const TABLE: [Published; 6] = [
    row(200e3, Which::Libos, [702.25, 544.91, 21.11, 260.41]),
    row(200e3, Which::Linux, [1041.8, 760.76, 70.94, 277.91]),
    row(400e3, Which::Libos, [809.36, 632.57, 25.48, 302.86]),
    row(400e3, Which::Linux, [1135.93, 644.14, 90.47, 420.31]),
    row(600e3, Which::Libos, [891.97, 723.47, 30.19, 325.17]),
    row(600e3, Which::Linux, [706.79, 547.11, 92.84, 471.21]),
];

/// The rate that is predicted.
pub const PREDICTED_RPS: f64 = 600e3;
/// The latency objective of the study: p99 below this.
pub const OBJECTIVE_US: f64 = 500.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_printed_no_box_closes_within_the_target() {
        for row in TABLE {
            let [printed, exchanged] =
                [Reading::Printed, Reading::Exchanged].map(|it| row.read(it));
            assert!(printed.least_error() > 0.22, "{row:?}");
            assert!(exchanged.least_error() < 0.13, "{row:?}");
        }
    }

    #[test]
    fn corners_of_one_grid_close() {
        // Energies: fast and fast 10, fast delay and slow speed 4, slow delay and fast speed 7,
        // slow and slow 3.
        let savings = Savings::new([4.0, 6.0, 1.0, 3.0]);
        assert_eq!(savings.gap(), 0.0);
    }
}
