//! The free parameters of the model: eight, listed in `docs/decisions/025-energy-model.md` before
//! the first fit.

use super::published::Reading;

/// What is fitted. The bounds of the search are [`Parameters::BOUNDS`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Power of a working core at the highest speed, above that of a power-gated one.
    pub active_w: f64,
    /// Active power ∝ speed to this (with voltage about proportional to speed: 2 to 3).
    pub active_exponent: f64,
    /// Power of a halted core (C1) at the highest speed; same exponent as active power.
    pub halt_w: f64,
    /// Power of the rest of the clock domain (ring, last-level cache), for each core, at the
    /// highest speed, whatever the core does.
    pub ring_w: f64,
    /// Its exponent.
    pub ring_exponent: f64,
    /// Cycles of a wake-up on Linux: interrupt, softirq, wake-up of the thread, poll.
    pub linux_wake_cycles: f64,
    /// Cycles of an interrupt on the library OS.
    pub libos_wake_cycles: f64,
    /// Exit latency of the state in which the library OS sleeps.
    pub libos_exit_us: f64,
}

impl Parameters {
    /// Bounds of those that are searched; the three in watts are solved for, at least 0.
    pub const BOUNDS: [(&'static str, f64, f64); 5] = [
        ("active-exponent", 1.0, 4.0),
        ("ring-exponent", 0.5, 4.0),
        ("linux-wake-cycles", 1_000.0, 100_000.0),
        ("libos-wake-cycles", 200.0, 50_000.0),
        ("libos-exit-us", 1.0, 150.0),
    ];
    /// Fitted to the published table as printed. Sum of squared relative errors: 2.49.
    pub const PRINTED: Self = Self {
        active_w: 7.361926,
        active_exponent: 1.010986,
        halt_w: 1.392971,
        ring_w: 1.887050,
        ring_exponent: 0.952175,
        linux_wake_cycles: 62316.677786,
        libos_wake_cycles: 1187.146270,
        libos_exit_us: 1.418058,
    };
    /// Fitted with the columns by speed exchanged: 1.46.
    pub const EXCHANGED: Self = Self {
        active_w: 8.608897,
        active_exponent: 1.000000,
        halt_w: 1.842996,
        ring_w: 1.135255,
        ring_exponent: 3.868318,
        linux_wake_cycles: 59185.683912,
        libos_wake_cycles: 200.000000,
        libos_exit_us: 1.822590,
    };

    /// Those of a reading.
    #[must_use]
    pub fn of(reading: Reading) -> Self {
        match reading {
            Reading::Printed => Self::PRINTED,
            Reading::Exchanged => Self::EXCHANGED,
        }
    }
}

/// The presets': see the decision.
impl Default for Parameters {
    fn default() -> Self {
        Self::EXCHANGED
    }
}
