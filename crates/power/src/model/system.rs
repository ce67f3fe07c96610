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

/// Processor time of a server on a processor of its own, interrupts and softirq included, as
/// `cargo bench -p curtail-tests --bench bypass` measures it between two network namespaces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// For each request of a closed loop that keeps the server busy: wake-ups have many packets.
    pub busy_us: f64,
    /// For each request at 5 000 a second: nearly each has a wake-up of its own.
    pub alone_us: f64,
    /// Speed of the processor.
    pub speed_ghz: f64,
}

/// `curtail serve --runtime rings` in a virtual machine, 2026-11-26: medians of two trials, whose
/// ranges are in `docs/journal/energy.md`.
pub const RINGS: Measured = Measured {
    busy_us: 20.1,
    alone_us: 40.7,
    speed_ghz: 2.6,
};
/// `curtail serve --runtime bypass`, likewise.
pub const BYPASS: Measured = Measured {
    busy_us: 22.3,
    alone_us: 46.7,
    speed_ghz: 2.6,
};

impl System {
    /// A server whose work was measured, on Linux: idle states as Linux takes them, connections
    /// that workers take in turn. What a request takes more if it comes alone is its wake-up.
    #[must_use]
    pub fn measured(measured: &Measured) -> Self {
        let cycles = |us: f64| us * measured.speed_ghz * 1e3;
        Self {
            request_cycles: cycles(measured.busy_us),
            wake_cycles: cycles(measured.alone_us - measured.busy_us),
            idle: IdlePolicy::Predict(SANDY_BRIDGE.to_vec()),
            steering: Steering::Even,
            peak_rps: CYCLES_PER_SECOND / cycles(measured.busy_us),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Machine, Setting, simulate};

    #[test]
    fn a_measured_system_works_as_long_as_it_was_measured() {
        let measured = Measured {
            busy_us: 10.0,
            alone_us: 25.0,
            speed_ghz: 2.9,
        };
        let system = System::measured(&measured);
        assert!(
            (system.peak_rps / 1.6e6 - 1.0).abs() < 1e-9,
            "{}",
            system.peak_rps
        );
        // At 16 × 100 requests a second, each is alone.
        let setting = Setting::new(0.0, 2.9);
        let found = simulate(&Machine::default(), &system, setting, 1_600.0, 40_000, 1);
        let work_us = found.work_share * 16.0 / found.achieved_rps * 1e6;
        assert!((work_us / 25.0 - 1.0).abs() < 0.02, "{work_us}");
    }
}
