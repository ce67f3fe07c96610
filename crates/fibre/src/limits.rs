//! All limits of the crate.

/// Maximum number of processors (kernel threads that run fibres) of a runtime.
pub const PROCESSORS_MAX: usize = 256;
/// Number of lanes (queues of ready fibres) of each processor under the fair scheduler.
pub const LANES: usize = 2;
/// Minimum length of a fibre's stack, in bytes.
pub const STACK_LEN_MIN: usize = 8 * 1024;
/// Default length of a fibre's stack, in bytes of address space. Only the pages that the fibre has
/// touched use memory. A panic that prints a backtrace needs some tens of KiB.
pub const STACK_LEN: usize = 256 * 1024;
/// Number of stacks in a slab. A slab is one memory mapping, which is divided into stacks.
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
/// A processor without ready fibres polls and steals in rounds. This is the number of attempts in
/// one round. Each attempt is a poll and then a steal. The number is smaller under the model
/// checker.
pub const STEAL_ATTEMPTS: u32 = if cfg!(shuttle) { 1 } else { 5 };
/// Number of rounds ([`STEAL_ATTEMPTS`]) before a processor of the stealing scheduler announces
/// itself as idle. The number is smaller under the model checker.
pub const STEAL_SPIN_ROUNDS: u32 = if cfg!(shuttle) { 2 } else { 64 };
/// A processor takes the fibre at the head of another processor's lane if that fibre has waited
/// more than this many times the largest average wait in the processor's own lanes. The same factor
/// applies to polls: a processor takes the completions of another one whose last poll is older than
/// this many times the average interval between its own polls.
pub const HELP_FACTOR: u64 = 8;
/// Number of dequeues between two readings of the clock. A reading costs as much as the rest of a
/// dequeue, so the clock is not read each time. The age of a waiting fibre is therefore wrong by up
/// to the run time of this many fibres.
pub const CLOCK_PERIOD: u32 = 4;
/// Minimum number of dequeues of the fair scheduler between two checks of another processor's lane.
/// It applies after a check that took a fibre from that lane. The C∀ (Cforall) runtime always uses
/// this value.
pub const HELP_PERIOD_MIN: u32 = 2;
/// Maximum number of dequeues between two checks of another processor's lane. The number doubles
/// after each check that took no fibre, up to this value. Checks are made rarer because each one
/// takes the lane's cache line away from the threads that use the lane.
pub const HELP_PERIOD_MAX: u32 = 64;
/// Probability of a check across caches, in units of 1/256. For each check the fair scheduler picks
/// a lane at random. If the lane's processor runs on the same last-level cache, the lane is always
/// checked; if it runs on another one, only with this probability.
pub const FAR_HELP_ODDS: u32 = 3;
/// Number of submission entries of a processor's io_uring.
pub const RING_ENTRIES: u32 = 1024;
/// Delay before the cancellation of a pending io_uring request is repeated, in nanoseconds. The
/// delay doubles with each repetition, up to 1024 times this value.
pub const CANCEL_RETRY_NS: u64 = 1_000_000;
/// Maximum number of events that one `epoll_wait` returns.
pub const EVENTS_PER_POLL: usize = 256;
/// Maximum number of threads that make blocking calls for fibres ([`offload`](crate::offload())).
pub const OFFLOAD_THREADS_MAX: usize = 16;
/// Time after which a thread that makes blocking calls exits if it gets no call, in nanoseconds.
pub const OFFLOAD_IDLE_NS: u64 = 1_000_000_000;
