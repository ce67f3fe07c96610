//! A server with interrupt delay and processor speed as knobs, in virtual time.
//!
//! ```text
//!  clients ─▶ one queue a core ─▶ interrupt, at least a delay after the last one
//!                                   ─▶ core leaves its C-state (exit latency)
//!                                   ─▶ work of the wake-up, then of each packet there is
//!                                   ─▶ queue empty: into a C-state
//! ```
//!
//! | file | concept |
//! |---|---|
//! | `machine.rs` | cores, speeds, C-states, load: all that is not fitted, with sources |
//! | `system.rs` | the presets *Linux* and *library OS*: cycles, steering, idle policy |
//! | `core.rs` | one core and its queue, simulated packet by packet |
//! | `simulation.rs` | all cores: residencies, latencies, counts |
//! | `law.rs` | watts of each state at a speed; energy |
//! | `parameters.rs` | the eight free parameters |
//! | `sweep.rs` | lines of the grid, and what a knob saves on them |
//! | `published.rs` | the published savings, and whether they close |
//! | `fit.rs` | the search for the parameters |
//! | `audit.rs` | what a sweep says of the study's findings |
//! | `peak.rs` | rates that rise until throughput stops rising |
//!
//! A core's clock and work follow from the seed alone. Power does not act back on time, so one
//! simulation serves every law of power.

pub mod audit;
mod core;
pub mod fit;
pub mod law;
pub mod machine;
pub mod parameters;
pub mod peak;
pub mod published;
pub mod simulation;
pub mod sweep;
pub mod system;

pub use self::law::Law;
pub use self::machine::Machine;
pub use self::parameters::Parameters;
pub use self::simulation::{Simulated, simulate};
pub use self::system::System;

/// What an operator sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Least time from one interrupt of a queue to the next, microseconds.
    pub delay_us: f64,
    /// Speed of all cores.
    pub speed_ghz: f64,
    /// Cores never halt, and there are no interrupts.
    pub is_polling: bool,
}

impl Setting {
    /// Interrupts and halting.
    #[must_use]
    pub fn new(delay_us: f64, speed_ghz: f64) -> Self {
        Self {
            delay_us,
            speed_ghz,
            is_polling: false,
        }
    }

    /// Polling at a speed.
    #[must_use]
    pub fn polling(speed_ghz: f64) -> Self {
        Self {
            delay_us: 0.0,
            speed_ghz,
            is_polling: true,
        }
    }
}
