//! What things cost. `docs/decisions/023-simulated-pool.md` says how the numbers were found.

use super::Step;

/// Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// The processor of a client thread, for each verb.
    pub client_verb_ns: f64,
    /// From client to middlebox, and from middlebox to memory: half of a round trip without queues.
    pub hop_ns: f64,
    /// A byte on the link of the memory, in each direction.
    pub byte_ns: f64,
    /// A core of the middlebox, for each packet, by step.
    pub packet_ns: [f64; 5],
    /// The memory's adapter, between two atomic operations on one address.
    pub atomic_ns: f64,
    /// How many versions the shortcut to a chain's end is behind.
    pub lag: u32,
}

impl Costs {
    /// The prototype on its hardware. Endpoints (`client_verb_ns`, `lag`, and `packet_ns` of
    /// forwarding) are fitted to the published series without steering; the other four of
    /// `packet_ns` to one published point each, YCSB-A with 32 threads. The rest are assumptions.
    #[must_use]
    pub const fn prototype() -> Self {
        Self {
            client_verb_ns: 28_000.0,
            hop_ns: 1_000.0,
            byte_ns: 0.2,
            packet_ns: [631.0, 1_018.0, 1_533.0, 5_762.0, 5_812.0],
            atomic_ns: 330.0,
            lag: 0,
        }
    }

    /// Our middlebox, at the prototype's endpoints: `packet_ns` is what a core takes for a frame
    /// (`cargo xtask bench middlebox`, journal of 2026-11-25). The benchmark has no ports, so a
    /// core that also receives and sends takes longer.
    #[must_use]
    pub const fn ours() -> Self {
        Self {
            packet_ns: [20.0, 222.0, 217.0, 397.0, 433.0],
            ..Self::prototype()
        }
    }

    /// A packet at a core of the middlebox.
    #[must_use]
    pub const fn packet(&self, step: Step) -> f64 {
        self.packet_ns[step.index()]
    }
}
