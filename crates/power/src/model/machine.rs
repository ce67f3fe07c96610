//! The machine and the load of the study: nothing here is fitted.

/// A machine under load.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Cores, each with a queue of the network device. The study: 16.
    pub cores: usize,
    /// Connections. The study: 5 hosts × 16 cores × 16.
    pub connections: usize,
    /// Highest and lowest speed. The study: 2.9 and 1.2 GHz.
    pub speed_max_ghz: f64,
    /// Lowest speed.
    pub speed_min_ghz: f64,
    /// Everything of a latency outside the server: wire, switch, client. Assumed.
    pub network_ns: f64,
    /// What both packages use that neither knob changes. Assumed: it cancels in every saving.
    pub base_w: f64,
    /// Time over which energy is measured. The study: 20 to 30 s.
    pub run_s: f64,
    /// Variable part of a request's work, as a share of its mean; it is exponential. Assumed.
    pub work_spread: f64,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            cores: 16,
            connections: 1_280,
            speed_max_ghz: 2.9,
            speed_min_ghz: 1.2,
            network_ns: 20_000.0,
            base_w: 20.0,
            run_s: 30.0,
            work_spread: 0.5,
        }
    }
}

/// A state of an idle core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdleState {
    /// Clock stopped, voltage of the P-state: power depends on the speed.
    Halt,
    /// Power gated or nearly so: power does not depend on the speed.
    Deep,
}

/// A C-state as the governor sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CState {
    /// How its power is counted.
    pub state: IdleState,
    /// From the interrupt to the first instruction.
    pub exit_ns: f64,
    /// Shortest idle interval for which the governor takes it.
    pub residency_ns: f64,
}

/// C1, C3 and C6 of the study's processor, as `drivers/idle/intel_idle.c` of Linux has them for
/// Sandy Bridge (`snb_cstates`). C1E is left out: its lower voltage is another P-state, which the
/// study fixed. C7 differs from C6 by 5 µs.
pub const SANDY_BRIDGE: [CState; 3] = [
    CState {
        state: IdleState::Halt,
        exit_ns: 2_000.0,
        residency_ns: 2_000.0,
    },
    CState {
        state: IdleState::Deep,
        exit_ns: 80_000.0,
        residency_ns: 211_000.0,
    },
    CState {
        state: IdleState::Deep,
        exit_ns: 104_000.0,
        residency_ns: 345_000.0,
    },
];
