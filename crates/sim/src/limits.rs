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

/// Most clients of a trial with packets.
pub const TRIAL_CLIENTS_MAX: u16 = 256;
/// Most keys of a trial with packets: each client reads each of them first.
pub const TRIAL_KEYS_MAX: u32 = 4096;
/// Most operations of a trial with packets. All values are in memory, and all calls in histories.
pub const TRIAL_OPERATIONS_MAX: u64 = 200_000;
/// Longest measurement with packets in virtual time, in nanoseconds.
pub const TRIAL_LEN_NS: u64 = 60_000_000_000;
/// Most events of each part of it.
pub const TRIAL_EVENTS_MAX: usize = 50_000_000;
