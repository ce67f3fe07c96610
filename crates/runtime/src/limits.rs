//! The bounds and intervals of the runtimes.

/// Maximum number of events returned by one wait.
pub const EVENTS_PER_WAIT: usize = 256;
/// Connections whose requests are prepared together before the first is answered.
pub const BURST_CONNECTIONS: usize = 32;
/// Number of requests whose items are prefetched ahead of the connection that is being answered.
pub const PREFETCH_ITEMS: usize = 16;
/// Maximum bytes of one receive.
pub const RECEIVE_LEN: usize = 16 * 1024;
/// Minimum number of missing bytes of a value for which they are received directly into store
/// memory. Fewer bytes are received into a buffer, together with the requests behind them, and
/// copied.
pub const DIRECT_MIN: usize = 4 * 1024;
/// Maximum number of slices of output that one vectored send passes to the kernel.
pub const SLICES_PER_SEND: usize = 64;
/// Bytes of output sent to one connection before another connection gets a turn. The last send of a
/// turn may exceed this number.
pub const SEND_PER_TURN: usize = 1 << 20;
/// Maximum bytes of a file that one system call sends. Before it the runtime looks whether they are
/// in memory.
pub const FILE_SEND_MAX: usize = 256 * 1024;
/// The same on a socket that blocks: sendfile(2) passes on at most 16 pages at a time, and would
/// read the next ones only when the peer has taken these, long after the look.
pub const BLOCKING_FILE_SEND_MAX: usize = 64 * 1024;
/// Maximum number of results of tickets that are delivered between two waits.
pub const COMPLETIONS_PER_WAIT: usize = EVENTS_PER_WAIT;
/// Interval at which a task that waits for the result of a ticket checks whether its peer has hung
/// up, in nanoseconds.
pub const HANG_UP_CHECK_NS: u64 = 100_000_000;
/// Maximum number of plain bytes that a transform takes at a time. It takes the next bytes only
/// after the wire bytes of the previous ones have been sent.
pub const TRANSFORM_CHUNK: usize = 16 * 1024;
/// Maximum number of new connections in a worker's inbox.
pub const INBOX_MAX: usize = 4096;
/// How long the acceptor pauses after descriptors, threads or stacks were exhausted, in
/// nanoseconds.
pub const ACCEPT_PAUSE_NS: u64 = 10_000_000;
/// Maximum number of connections accepted from one listener before other events are handled.
pub const ACCEPTS_PER_EVENT: usize = 256;
/// Interval at which a connection that waits for store memory tries again, in nanoseconds.
pub const MEMORY_RETRY_NS: u64 = 1_000_000;
/// Seconds without a received or sent byte after which a peer counts as inactive. If memory is
/// needed, inactive peers that hold some are closed.
pub const SLOW_PEER_S: u32 = 1;
/// Interval at which connections are checked for silent peers and passed deadlines, in nanoseconds,
/// if the service or the setup has such limits.
pub const SWEEP_INTERVAL_NS: u64 = 1_000_000_000;
/// Maximum number of connections that are checked at a time.
pub const SWEEP_CONNECTIONS: usize = 1024;
/// Pause before the next connections are checked if there are more, in nanoseconds.
pub const SWEEP_STEP_NS: u64 = 10_000_000;
/// Minimum time between two steps of store maintenance, in nanoseconds.
pub const MAINTAIN_INTERVAL_NS: u64 = 100_000;
/// Maximum number of items visited by one step of maintenance.
pub const MAINTAIN_ITEMS: usize = 16;
/// How long connections may take to finish after the server was told to stop, in nanoseconds.
pub const DRAIN_NS: u64 = 5_000_000_000;
/// Interval at which a stopping worker checks whether its connections have finished, in
/// nanoseconds.
pub const DRAIN_CHECK_NS: u64 = 20_000_000;
/// Maximum number of consecutive turns of a connection whose replies are sent together.
pub const TURNS_PER_SEND: u8 = 4;
/// Pause before the failed loop of a worker restarts, in nanoseconds.
pub const RESTART_PAUSE_NS: u64 = 10_000_000;
/// Minimum, in bytes, of the bound of the input and output that all connections keep between bursts
/// ([`buffered_max`](crate::buffered_max)).
pub const BUFFERED_MIN: u64 = 64 << 20;
/// The bound of the bytes that connections keep is at least this fraction (1/N) of the memory for
/// items.
pub const BUFFERED_MEMORY_PART: u64 = 8;
/// The bound of the bytes that connections keep is at least this many bytes per connection, the
/// size of one receive.
pub const BUFFERED_PER_CONNECTION: u64 = RECEIVE_LEN as u64;
/// The bound of the bytes that connections keep is at least this many bytes per worker. That is
/// more than the buffer of the longest line, whose capacity doubles as it grows.
pub const BUFFERED_PER_WORKER: u64 = 4 << 20;
/// Maximum number of bytes that a connection may keep between bursts without being counted.
pub const BUFFERED_UNCOUNTED: usize = IDLE_BUFFER_LEN;
/// Fraction (1/N) of the bound that is freed by closing connections once the bound is exceeded. A
/// smaller fraction would make the search for connections to close more frequent.
pub const BUFFERED_FREED_PART: u64 = 64;
/// Number of entries of the submission queue of a worker's io_uring. The completion queue has twice
/// as many.
pub const RING_ENTRIES: u32 = 1024;
/// Number of receive buffers of a worker's io_uring, shared by its connections.
pub const RING_BUFFERS: u16 = 32;
/// Number of waits after which a send of an io_uring that has not completed counts as blocked.
///
/// If the socket has space, a send completes when it is submitted, and its completion is in the
/// completion queue then. The worker handles [`EVENTS_PER_WAIT`] completions per wait. After this
/// many waits it has handled as many as the queue holds, so a send without a completion is blocked.
pub const SEND_CHECK_WAITS_MAX: u32 = 2 * RING_ENTRIES / EVENTS_PER_WAIT as u32;
/// Length of each receive buffer of an io_uring, in bytes.
pub const RING_BUFFER_LEN: u32 = 16 * 1024;
/// Bytes of held input at which a connection of an io_uring stops receiving, if its input cannot be
/// answered now.
pub const HELD_INPUT_MAX: usize = 4 * 1024;
/// Number of received frames of `bypass` that the kernel keeps for a worker, at least.
pub const RING_FRAMES: usize = 2048;
/// Maximum number of frames that a worker of `bypass` receives before it serves connections.
pub const FRAMES_PER_TURN: usize = 256;
/// Interval at which a worker of `bypass` that does not sleep checks by a system call whether
/// another thread has woken it, in nanoseconds.
pub const INBOX_CHECK_NS: u64 = 50_000;
/// Pause of a worker of `bypass` before it sends frames again that the device did not take, in
/// nanoseconds.
pub const SEND_RETRY_NS: u64 = 100_000;
/// Maximum capacity, in bytes, of an output buffer that a worker keeps for reuse.
pub const SPARE_OUTPUT_LEN: usize = 32 * 1024;
/// Maximum number of output buffers that a worker keeps for reuse.
pub const SPARE_OUTPUTS: usize = 128;
/// Stack size of a connection's thread, in bytes of address space. Only the few pages that the
/// thread touches occupy memory.
pub const TASK_STACK_LEN: usize = 128 * 1024;
/// Number of memory mappings of a connection's thread: its stack, the signal stack that the
/// standard library adds, and a guard page for each of the two.
pub const MAPPINGS_PER_THREAD: usize = 4;
/// Number of memory mappings reserved for everything but the stacks of threads and fibres. The rest
/// of the kernel's default of 65 530 mappings suffices for the threads of the 15 360 connections of
/// the published experiments.
pub const OTHER_MAPPINGS: usize = 3072;
/// Initial length of the receive buffer of a thread or fibre, in bytes. After a receive that fills
/// it, the buffer has [`RECEIVE_LEN`] bytes, until a receive returns fewer bytes than the initial
/// length. Also the length of the longest output whose buffer a thread or fibre keeps for its next
/// replies.
pub const IDLE_BUFFER_LEN: usize = 2 * 1024;
/// Maximum bytes of one blocking send. Each send that takes at least one byte counts as activity of
/// the peer.
pub const BLOCKING_SEND_MAX: usize = 128 * 1024;
/// Timeout of a blocking send, in nanoseconds. A send that times out is repeated, but does not
/// count as activity of the peer.
pub const SEND_TIMEOUT_NS: u64 = 250_000_000;
/// How long a task discards input after the last reply of a connection that it closes with input
/// unread, in nanoseconds.
pub const LINGER_NS: u64 = 1_000_000_000;
/// Maximum bytes that it discards.
pub const LINGER_LEN: usize = 16 << 20;
/// Interval between the maintenance steps of the supervisor, which it makes while no requests
/// arrive, in nanoseconds.
pub const IDLE_MAINTAIN_INTERVAL_NS: u64 = 1_000_000;
/// Maximum number of maintenance steps that the supervisor makes after the last request.
pub const IDLE_MAINTAIN_STEPS: u32 = 1024;
/// Requests count as arriving for this long after a maintenance step of a task, in nanoseconds. The
/// supervisor makes no step meanwhile.
pub const REQUESTS_RECENT_NS: u64 = IDLE_MAINTAIN_INTERVAL_NS / 2;
/// Interval at which the supervisor checks whether requests still arrive before it makes
/// maintenance steps, in nanoseconds.
pub const REQUESTS_CHECK_NS: u64 = 10_000_000;
