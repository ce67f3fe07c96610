//! The free parameters of the model: eight, listed in `docs/decisions/025-energy-model.md` before
//! the first fit.

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
}

impl Default for Parameters {
    /// Before any fit: round values, of no use but as a start.
    fn default() -> Self {
        Self {
            active_w: 2.0,
            active_exponent: 2.5,
            halt_w: 0.5,
            ring_w: 0.5,
            ring_exponent: 2.0,
            linux_wake_cycles: 10_000.0,
            libos_wake_cycles: 4_000.0,
            libos_exit_us: 50.0,
        }
    }
}
