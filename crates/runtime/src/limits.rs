//! All bounds of the runtimes.

/// Maximum number of events returned by one wait.
pub const EVENTS_PER_WAIT: usize = 256;
/// Connections whose requests are prepared together before the first is answered.
pub const BURST_CONNECTIONS: usize = 32;
/// Requests whose items are prefetched beyond those about to be answered.
pub const PREFETCH_ITEMS: usize = 16;
/// Maximum bytes of one receive.
pub const RECEIVE_LEN: usize = 16 * 1024;
/// Minimum remaining bytes of a value for which receiving directly into store memory is worthwhile.
pub const DIRECT_MIN: usize = 4 * 1024;
/// Maximum number of slices of one send.
pub const SLICES_PER_SEND: usize = 64;
/// Bytes sent to one connection before the next gets its turn. The last send of a turn may exceed
/// it.
pub const SEND_PER_TURN: usize = 1 << 20;
/// Maximum number of results of tickets that are delivered between two waits.
pub const COMPLETIONS_PER_WAIT: usize = EVENTS_PER_WAIT;
/// How often a connection with a task checks whether its peer has hung up while it waits for the
/// result of a ticket, in nanoseconds.
pub const HANG_UP_CHECK_NS: u64 = 100_000_000;
/// Maximum plain bytes that a transform takes at a time. It takes the next ones once their wire
/// bytes are sent.
pub const TRANSFORM_CHUNK: usize = 16 * 1024;
/// Maximum number of accepted connections in a worker's inbox.
pub const INBOX_MAX: usize = 4096;
/// How long accepting pauses after a resource is exhausted, in nanoseconds.
pub const ACCEPT_PAUSE_NS: u64 = 10_000_000;
/// Maximum number of connections accepted in a row before other events are handled.
pub const ACCEPTS_PER_EVENT: usize = 256;
/// How often a connection that waits for store memory tries again, in nanoseconds.
pub const MEMORY_RETRY_NS: u64 = 1_000_000;
/// How long a peer may hold memory that others wait for without receiving or sending a byte, in
/// seconds.
pub const SLOW_PEER_S: u32 = 1;
/// Minimum time between two steps of store maintenance, in nanoseconds.
pub const MAINTAIN_INTERVAL_NS: u64 = 100_000;
/// Items visited by one step of maintenance.
pub const MAINTAIN_ITEMS: usize = 16;
/// How long connections may take to finish after a stop was requested, in nanoseconds.
pub const DRAIN_NS: u64 = 5_000_000_000;
/// How often a stopping worker checks whether it is finished, in nanoseconds.
pub const DRAIN_CHECK_NS: u64 = 20_000_000;
/// Turns of a connection whose replies are sent together.
pub const TURNS_PER_SEND: u8 = 4;
/// Pause before a failed worker loop restarts, in nanoseconds.
pub const RESTART_PAUSE_NS: u64 = 10_000_000;
/// Minimum bound, in bytes, of the input and output that connections keep between bursts.
pub const BUFFERED_MIN: u64 = 64 << 20;
/// The bound on what connections keep between bursts is at least this fraction (1/N) of the memory
/// for items.
pub const BUFFERED_MEMORY_PART: u64 = 8;
/// The bound is at least this many bytes per connection: one receive.
pub const BUFFERED_PER_CONNECTION: u64 = RECEIVE_LEN as u64;
/// The bound is at least this many bytes per worker: the buffer of the longest line, which grows by
/// doubling, and some more.
pub const BUFFERED_PER_WORKER: u64 = 4 << 20;
/// Bytes that a connection may keep without being counted.
pub const BUFFERED_UNCOUNTED: usize = IDLE_BUFFER_LEN;
/// Fraction (1/N) of the bound that is freed when the bound is reached, so that the search for the
/// largest connections is rare.
pub const BUFFERED_FREED_PART: u64 = 64;
/// Entries of a worker's submission queue.
pub const RING_ENTRIES: u32 = 1024;
/// Receive buffers of a worker's ring.
pub const RING_BUFFERS: u16 = 32;
/// Number of waits after which an uncompleted send of a ring counts as one that its peer did not
/// take at once, even if every wait returned more events than were handled. By then as many events
/// were handled as the ring holds.
pub const SEND_CHECK_WAITS_MAX: u32 = 2 * RING_ENTRIES / EVENTS_PER_WAIT as u32;
/// Bytes of each receive buffer.
pub const RING_BUFFER_LEN: u32 = 16 * 1024;
/// Bytes of held input at which a connection that cannot continue stops receiving.
pub const HELD_INPUT_MAX: usize = 4 * 1024;
/// Maximum capacity, in bytes, of an output buffer that a worker keeps for reuse.
pub const SPARE_OUTPUT_LEN: usize = 32 * 1024;
/// Output buffers that a worker keeps for reuse.
pub const SPARE_OUTPUTS: usize = 128;
/// Stack of a connection's thread, in bytes of address space. A thread touches little of it.
pub const TASK_STACK_LEN: usize = 128 * 1024;
/// Memory mappings of a connection's thread: its stack, the signal stack that the standard library
/// adds, and a guard page for each.
pub const MAPPINGS_PER_THREAD: usize = 4;
/// Memory mappings reserved for everything else. The kernel's default of 65 530 mappings in total
/// is then enough for the 15 360 connections of the published experiments.
pub const OTHER_MAPPINGS: usize = 3072;
/// Initial size, in bytes, of the receive buffer of a connection with a thread or fibre, and length
/// of the longest output whose buffer is kept. A connection that fills the receive buffer gets one
/// of [`RECEIVE_LEN`] bytes, until a receive returns fewer than this.
pub const IDLE_BUFFER_LEN: usize = 2 * 1024;
/// Maximum bytes of one blocking send. Each completed send counts as activity.
pub const BLOCKING_SEND_MAX: usize = 128 * 1024;
/// How long a blocking send waits for space before the connection counts as inactive, in
/// nanoseconds.
pub const SEND_TIMEOUT_NS: u64 = 250_000_000;
/// Time between two steps of maintenance without requests, in nanoseconds.
pub const IDLE_MAINTAIN_INTERVAL_NS: u64 = 1_000_000;
/// Maximum number of steps of maintenance after the last request.
pub const IDLE_MAINTAIN_STEPS: u32 = 1024;
