//! Watts of each state at a speed, and the energy of a run.
//!
//! With x = speed ÷ highest speed:
//!
//! ```text
//! core working, polling or leaving a C-state   active × x^a
//! core halted (C1)                             halt × x^a
//! core in a deep state                         0 (what it uses is part of the base)
//! ring and cache, for each core                ring × x^r
//! both packages                                base
//! ```
//!
//! Leaving a C-state is counted as work: caches are filled and voltage rises meanwhile.

use super::{Machine, Parameters, Simulated};

/// Watts by state, linear in three of the parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    parameters: Parameters,
}

impl Law {
    /// The law of these parameters.
    #[must_use]
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            parameters: *parameters,
        }
    }

    /// Mean power of the machine, watts.
    #[must_use]
    pub fn power_w(&self, machine: &Machine, speed_ghz: f64, simulated: &Simulated) -> f64 {
        let it = &self.parameters;
        let exponents = (it.active_exponent, it.ring_exponent);
        let [active, halt, ring] = terms(machine, exponents, speed_ghz, simulated);
        machine.base_w + it.active_w * active + it.halt_w * halt + it.ring_w * ring
    }

    /// Energy of a run of [`Machine::run_s`], joules.
    #[must_use]
    pub fn energy_j(&self, machine: &Machine, speed_ghz: f64, simulated: &Simulated) -> f64 {
        self.power_w(machine, speed_ghz, simulated) * machine.run_s
    }
}

/// What multiplies the watts of active, halted and ring: cores in the state, scaled by speed.
pub(super) fn terms(
    machine: &Machine,
    (active_exponent, ring_exponent): (f64, f64),
    speed_ghz: f64,
    simulated: &Simulated,
) -> [f64; 3] {
    let x = speed_ghz / machine.speed_max_ghz;
    let cores = machine.cores as f64;
    let active = simulated.work_share + simulated.exit_share + simulated.poll_share;
    let scale = libm::pow(x, active_exponent) * cores;
    [
        active * scale,
        simulated.halt_share * scale,
        libm::pow(x, ring_exponent) * cores,
    ]
}
