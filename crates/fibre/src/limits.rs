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
/// Number of stacks in a slab. A slab is a memory mapping that is divided into stacks.
pub const SLAB_STACKS: usize = 64;
/// Maximum number of free stacks that each processor keeps for its next fibres. The memory of these
/// stacks is not returned to the kernel.
pub const PROCESSOR_STACKS: usize = 64;
/// Maximum number of free stacks in the list that all processors share whose memory is not returned
/// to the kernel. The memory of further free stacks is returned.
pub const SHARED_STACKS: usize = 256;
/// Number of attempts of a thread to take a spin lock before the thread yields to other kernel
/// threads.
pub const SPINS: u32 = 64;
/// Number of fibres that a processor runs between two polls of the kernel. A processor without
/// ready fibres polls immediately.
pub const RUNS_PER_POLL: u32 = 61;
/// A processor without ready fibres looks for work in rounds of so many attempts. In each attempt,
/// it polls for completed waits, and then tries to steal a fibre from another processor. The number
/// is smaller under the model checker.
pub const STEAL_ATTEMPTS: u32 = if cfg!(shuttle) { 1 } else { 5 };
/// Number of these rounds before a processor of the stealing scheduler announces itself as idle. In
/// the other schedulers, it is one. The number is smaller under the model checker.
pub const STEAL_SPIN_ROUNDS: u32 = if cfg!(shuttle) { 2 } else { 64 };
/// A processor (the helper) takes the fibre at the head of another processor's lane if the fibre
/// has waited longer than this many times the average wait in the helper's own lanes. (The largest
/// average of these lanes counts; empty lanes do not.) The same factor applies to polls: the helper
/// takes the completions of another processor if the time since the last poll of that processor is
/// more than this many times the average interval between the helper's polls.
pub const HELP_FACTOR: u64 = 8;
/// Number of dequeues of the fair scheduler between two readings of the clock. A reading costs as
/// much as the rest of a dequeue, so the clock is not read each time. The computed wait of a fibre
/// is therefore wrong by up to the time that a processor takes to run this many fibres.
pub const CLOCK_PERIOD: u32 = 4;
/// Minimum number of dequeues of the fair scheduler between two checks of other processors' lanes.
/// This number applies after a check that took a fibre. The C∀ (Cforall) runtime, which the fair
/// scheduler follows, always uses it.
pub const HELP_PERIOD_MIN: u32 = 2;
/// Maximum number of dequeues between two checks of other processors' lanes. Each check that took
/// no fibre doubles the number, up to this value. Checks become rarer because each one takes a
/// lane's cache line away from the CPU whose threads use the lane.
pub const HELP_PERIOD_MAX: u32 = 64;
/// Probability, in units of 1/256, that a processor checks a lane of a processor that runs on
/// another last-level cache. For each check, the fair scheduler picks a lane at random. A lane of a
/// processor on the same cache is always checked.
pub const FAR_HELP_ODDS: u32 = 3;
/// Number of entries of the submission queue of a processor's io_uring.
pub const RING_ENTRIES: u32 = 1024;
/// Delay before the cancellation of a pending io_uring request is repeated, in nanoseconds. The
/// delay doubles with each repetition, up to 1024 times this value.
pub const CANCEL_RETRY_NS: u64 = 1_000_000;
/// Maximum number of events that one `epoll_wait` returns.
pub const EVENTS_PER_POLL: usize = 256;
/// Maximum number of threads that make blocking calls for fibres ([`offload`](crate::offload())).
pub const OFFLOAD_THREADS_MAX: usize = 16;
/// Time in nanoseconds after which one of these threads exits if it gets no call.
pub const OFFLOAD_IDLE_NS: u64 = 1_000_000_000;
/// How long a processor waits before it calls the kernel again, if that has no memory for a call.
pub const NO_MEMORY_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
