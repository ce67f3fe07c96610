//! All bounds of energy.

/// Requests that a simulation makes, least and most.
pub const REQUESTS: std::ops::RangeInclusive<usize> = 1_000..=10_000_000;
/// Cores of a simulated machine.
pub const CORES: usize = 256;
/// Longest delay of interrupts, microseconds.
pub const DELAY_US: f64 = 10_000.0;
/// Speeds of a processor, GHz.
pub const SPEED_GHZ: std::ops::RangeInclusive<f64> = 0.1..=10.0;
/// Greatest offered rate.
pub const RATE_RPS: f64 = 1e9;
/// Idle intervals that a prediction of the next one looks at (the menu governor of Linux: 8).
pub const IDLE_HISTORY: usize = 8;
