//! All limits of the crate.

/// Maximum number of processors of a runtime.
pub const PROCESSORS_MAX: usize = 256;
/// Lanes of a processor under the fair scheduler.
pub const LANES: usize = 2;
/// Minimum length of a fibre's stack, in bytes.
pub const STACK_LEN_MIN: usize = 8 * 1024;
/// Default length of a fibre's stack, in bytes of address space; only touched pages use memory. A
/// panic that prints a backtrace needs some tens of KiB.
pub const STACK_LEN: usize = 256 * 1024;
/// Stacks per mapping.
pub const SLAB_STACKS: usize = 64;
/// Maximum number of free stacks that each processor keeps for its next fibres, with their memory.
pub const PROCESSOR_STACKS: usize = 64;
/// Maximum number of free stacks in the shared list that keep their memory. Further free stacks
/// return theirs to the kernel.
pub const SHARED_STACKS: usize = 256;
/// Attempts at a lock before the thread yields to other threads.
pub const SPINS: u32 = 64;
/// Number of fibre runs between two polls of the kernel, while there is work.
pub const RUNS_PER_POLL: u32 = 61;
/// Steal attempts per round before a processor announces itself as idle; fewer under the model
/// checker.
pub const STEAL_ATTEMPTS: u32 = if cfg!(shuttle) { 1 } else { 5 };
/// Rounds of polling and stealing before a processor of the stealing scheduler sleeps; fewer under
/// the model checker.
pub const STEAL_SPIN_ROUNDS: u32 = if cfg!(shuttle) { 2 } else { 64 };
/// A processor takes the fibre at the head of another processor's lane if that fibre has waited
/// more than this many times the largest average wait in the processor's own lanes.
pub const HELP_FACTOR: u64 = 8;
/// Number of dequeues between two readings of the clock: a reading costs as much as a dequeue
/// without one. The error of a fibre's age is the run time of this many fibres.
pub const CLOCK_PERIOD: u32 = 4;
/// Minimum number of dequeues between two checks of another processor's lane: the period of the
/// C∀ (Cforall) runtime. This period applies while checks find lanes to help.
pub const HELP_PERIOD_MIN: u32 = 2;
/// Maximum number of dequeues between two checks of another processor's lane. While no lane needs
/// help, the period doubles up to this value, because a check takes the lane's cache line from the
/// threads that use it.
pub const HELP_PERIOD_MAX: u32 = 64;
/// Probability, in units of 1/256, that a lane is checked if it was picked and its processor runs
/// on another last-level cache.
pub const FAR_HELP_ODDS: u32 = 3;
/// Submission entries of a processor's ring.
pub const RING_ENTRIES: u32 = 1024;
/// Delay before the cancellation of a pending request is repeated, in nanoseconds. The delay
/// doubles with each repetition, up to one second.
pub const CANCEL_RETRY_NS: u64 = 1_000_000;
/// Maximum number of events of one `epoll_wait`.
pub const EVENTS_PER_POLL: usize = 256;
/// Maximum number of threads for calls that block and have no asynchronous form.
pub const OFFLOAD_THREADS_MAX: usize = 16;
/// Idle time after which a thread for blocking calls exits, in nanoseconds.
pub const OFFLOAD_IDLE_NS: u64 = 1_000_000_000;
