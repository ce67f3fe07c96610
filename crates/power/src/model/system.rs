//! The two kinds of operating system.

use super::Parameters;
use super::machine::{CState, IdleState, SANDY_BRIDGE};

/// Software on the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Work of a mean request, without that of the interrupt which announced it.
    pub request_cycles: f64,
    /// Work of an interrupt and of what it wakes.
    pub wake_cycles: f64,
    /// Which C-state an idle core enters.
    pub idle: IdlePolicy,
    /// How connections come to cores.
    pub steering: Steering,
    /// The published peak.
    pub peak_rps: f64,
}

/// Which C-state an idle core enters.
#[derive(Debug, Clone, PartialEq)]
pub enum IdlePolicy {
    /// The deepest whose residency is at most the mean of the last eight idle intervals, after the
    /// menu governor of Linux.
    Predict(Vec<CState>),
    /// Always the same.
    Always(CState),
}

/// How connections come to cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steering {
    /// Equally many for each: worker threads take them in turn, and the device follows the threads
    /// (Application Targeted Routing of the 82599).
    Even,
    /// By a hash (receive-side scaling), at random.
    Hash,
}

/// Published peaks, requests a second.
pub const PEAK_LINUX_RPS: f64 = 800_000.0;
/// See above.
pub const PEAK_LIBOS_RPS: f64 = 2_000_000.0;
/// Cores × cycles a second of the study's machine: what a peak divides.
const CYCLES_PER_SECOND: f64 = 16.0 * 2.9e9;

impl System {
    /// memcached on Linux.
    #[must_use]
    pub fn linux(parameters: &Parameters) -> Self {
        Self {
            request_cycles: CYCLES_PER_SECOND / PEAK_LINUX_RPS,
            wake_cycles: parameters.linux_wake_cycles,
            idle: IdlePolicy::Predict(SANDY_BRIDGE.to_vec()),
            steering: Steering::Even,
            peak_rps: PEAK_LINUX_RPS,
        }
    }

    /// memcached's protocol on a library OS: one address space, run to completion.
    #[must_use]
    pub fn libos(parameters: &Parameters) -> Self {
        Self {
            request_cycles: CYCLES_PER_SECOND / PEAK_LIBOS_RPS,
            wake_cycles: parameters.libos_wake_cycles,
            idle: IdlePolicy::Always(CState {
                state: IdleState::Deep,
                exit_ns: parameters.libos_exit_us * 1e3,
                residency_ns: 0.0,
            }),
            steering: Steering::Hash,
            peak_rps: PEAK_LIBOS_RPS,
        }
    }
}
