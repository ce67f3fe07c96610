//! Every bound of the scheduler, in one place.

/// Most processors of a runtime.
pub const PROCESSORS_MAX: usize = 256;
/// Lanes of a processor under the fair scheduler.
pub const LANES: usize = 2;
/// Least bytes of a fibre's stack.
pub const STACK_LEN_MIN: usize = 8 * 1024;
/// Bytes of a fibre's stack where nothing else is asked for: address space, of which it touches
/// what it uses. A panic that prints where it came from wants some tens of KiB.
pub const STACK_LEN: usize = 256 * 1024;
/// Stacks that are mapped together.
pub const SLAB_STACKS: usize = 64;
/// Stacks a processor keeps for its next fibres, memory and all.
pub const WARM_STACKS: usize = 64;
/// Stacks kept with their memory for all processors; what comes beyond gives its memory back.
pub const SHARED_STACKS: usize = 256;
/// Looks at a lock before other threads are let run.
pub const SPINS: u32 = 64;
/// Fibres run between two looks at the kernel's completions, or readiness, while there is work.
pub const RUNS_PER_POLL: u32 = 61;
/// Random victims asked before a processor announces that it has nothing to do; few in a model.
pub const STEAL_ATTEMPTS: u32 = if cfg!(shuttle) { 1 } else { 5 };
/// Rounds of looking that the stealing scheduler spends before it blocks; few in a model.
pub const STEAL_SPIN_ROUNDS: u32 = if cfg!(shuttle) { 2 } else { 64 };
/// How much older than the largest moving average of a processor's own lanes a lane's head is
/// helped, as a factor.
pub const HELP_FACTOR: u64 = 8;
/// Takings between two looks at the clock, which costs as much as the rest of a taking: fibres are
/// taken for older by as much as so few have run.
pub const CLOCK_PERIOD: u32 = 4;
/// Takings between two looks at a lane of another's: as often as Cforall looks, while there is
/// somebody to help.
pub const HELP_PERIOD_MIN: u32 = 2;
/// The same while there is not: it doubles up to this. A look takes the lane's memory away from
/// those who use it.
pub const HELP_PERIOD_MAX: u32 = 64;
/// Out of 256: how often a victim that does not share the last-level cache is taken.
pub const FAR_STEAL_ODDS: u32 = 3;
/// Requests a processor's ring is handed at once.
pub const RING_ENTRIES: u32 = 1024;
/// How long a request that is to be ended may go on before that is asked for again, in nanoseconds;
/// from time to time twice as long, up to a second.
pub const CANCEL_RETRY_NS: u64 = 1_000_000;
/// Events one look at readiness returns at most.
pub const EVENTS_PER_POLL: usize = 256;
/// Threads that may block on behalf of fibres where the kernel has no other way.
pub const OFFLOAD_THREADS_MAX: usize = 16;
/// How long a thread that blocks for fibres waits for its next before it ends, in nanoseconds.
pub const OFFLOAD_IDLE_NS: u64 = 1_000_000_000;
