//! All bounds of simulations.

/// Most client threads.
pub const THREADS_MAX: u32 = 1024;
/// Most operations that a client thread has outstanding.
pub const OUTSTANDING_MAX: u32 = 64;
/// Most keys; each costs 40 bytes, and 4 bytes for each thread.
pub const KEYS_MAX: u32 = 1 << 20;
/// Most cores of a middlebox.
pub const CORES_MAX: u32 = 64;
/// Most operations that a simulation runs.
pub const OPERATIONS_MAX: u64 = 100_000_000;

/// Longest scenario in virtual time, in nanoseconds.
pub const SCENARIO_LEN_NS: u64 = 300_000_000_000;
/// Most events of a scenario.
pub const SCENARIO_EVENTS_MAX: usize = 2_000_000;
