//! All limits of the crate.

/// Maximum number of processors of a runtime.
pub const PROCESSORS_MAX: usize = 256;
/// Number of lanes (queues of ready fibres) of each processor under the fair scheduler.
pub const LANES: usize = 2;
/// Minimum length of a fibre's stack, in bytes.
pub const STACK_LEN_MIN: usize = 8 * 1024;
/// Default length of a fibre's stack, in bytes of address space. Only the pages that the fibre has
/// touched use memory. A panic that prints a backtrace needs some tens of KiB.
pub const STACK_LEN: usize = 256 * 1024;
/// Number of stacks in a slab: stacks are mapped together, in slabs.
pub const SLAB_STACKS: usize = 64;
/// Maximum number of free stacks that each processor keeps for its next fibres. These stacks keep
/// their memory.
pub const PROCESSOR_STACKS: usize = 64;
/// Maximum number of free stacks that keep their memory in the list that all processors share. The
/// memory of further free stacks is returned to the kernel.
pub const SHARED_STACKS: usize = 256;
/// Number of attempts to take a spin lock before the thread yields to other kernel threads.
pub const SPINS: u32 = 64;
/// Number of fibres that a processor runs between two polls of the kernel. A processor without
/// ready fibres polls immediately.
pub const RUNS_PER_POLL: u32 = 61;
/// Number of steal attempts in each round of polling and stealing; fewer under the model checker.
pub const STEAL_ATTEMPTS: u32 = if cfg!(shuttle) { 1 } else { 5 };
/// Number of rounds of polling and stealing before a processor of the stealing scheduler announces
/// itself as idle; fewer under the model checker.
pub const STEAL_SPIN_ROUNDS: u32 = if cfg!(shuttle) { 2 } else { 64 };
/// A processor takes the fibre at the head of another processor's lane if that fibre has waited
/// more than this many times the largest average wait in the processor's own lanes.
pub const HELP_FACTOR: u64 = 8;
/// Number of dequeues between two readings of the clock. A reading costs as much as the rest of a
/// dequeue, so the clock is not read each time. The age of a waiting fibre is therefore wrong by up
/// to the run time of this many fibres.
pub const CLOCK_PERIOD: u32 = 4;
/// Minimum number of dequeues between two checks of another processor's lane. The period has this
/// value after a check that found a fibre to help. The C∀ (Cforall) runtime always uses this value.
pub const HELP_PERIOD_MIN: u32 = 2;
/// Maximum number of dequeues between two checks of another processor's lane. The period doubles
/// after each check that found no fibre to help, up to this value. Checks are made rarer because
/// each one takes the lane's cache line away from the threads that use the lane.
pub const HELP_PERIOD_MAX: u32 = 64;
/// Probability, in units of 1/256, of checking a picked lane whose processor runs on another
/// last-level cache. Lanes of processors on the same cache are always checked.
pub const FAR_HELP_ODDS: u32 = 3;
/// Number of submission entries of a processor's io_uring.
pub const RING_ENTRIES: u32 = 1024;
/// Delay before the cancellation of a pending io_uring request is repeated, in nanoseconds. The
/// delay doubles with each repetition, up to one second.
pub const CANCEL_RETRY_NS: u64 = 1_000_000;
/// Maximum number of events that one `epoll_wait` returns.
pub const EVENTS_PER_POLL: usize = 256;
/// Maximum number of threads that make blocking calls for fibres ([`offload`](crate::offload())).
pub const OFFLOAD_THREADS_MAX: usize = 16;
/// Time without a call after which such a thread exits, in nanoseconds.
pub const OFFLOAD_IDLE_NS: u64 = 1_000_000_000;
