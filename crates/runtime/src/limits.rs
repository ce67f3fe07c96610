//! The bounds and intervals of the runtimes.
//!
//! A *worker* is a thread that serves many connections. A *task* is a thread or fibre that serves
//! one connection. A *ticket* stands for a result for which a connection waits.

/// Maximum number of events that one wait of a worker returns.
pub const EVENTS_PER_WAIT: usize = 256;
/// Maximum number of connections whose requests are prepared before the first is answered. A larger
/// burst (the connections to serve after one wait) is divided.
pub const BURST_CONNECTIONS: usize = 32;
/// Number of requests whose items are prefetched ahead of the connection that is being answered.
pub const PREFETCH_ITEMS: usize = 16;
/// Maximum bytes of one receive.
pub const RECEIVE_LEN: usize = 16 * 1024;
/// Minimum number of missing bytes of a value for which these bytes are received directly into the
/// store's memory. Fewer bytes are received into a buffer, together with the requests that follow
/// the value, and copied.
pub const DIRECT_MIN: usize = 4 * 1024;
/// After so many short receives of a value, a task is woken only for [`DRIPS_GATHERED`] bytes. Of
/// clients that send byte by byte, nearly the whole cost are the wake-ups.
pub const DRIPS_MAX: u32 = 8;
/// Bytes of a value that the kernel then gathers. With more, clients in step would cause rare but
/// long bursts: with 1024, 64 of them delayed others by 3 ms.
pub const DRIPS_GATHERED: usize = 16;
/// Maximum number of slices of output that one vectored send passes to the kernel.
pub const SLICES_PER_SEND: usize = 64;
/// Maximum length of a part of long output, which has values above 16 KiB or a part of a file. A
/// worker sends no further part in a round (one pass of its loop) that has sent this number of
/// bytes of long output. So a round sends less than twice as much. The kernel takes 25 to 50 µs for
/// this number. With a larger one, long values take less processor time, but all requests wait
/// longer.
pub const SEND_PER_ROUND: usize = 128 * 1024;
/// Maximum bytes of one send of a task. When a task has sent this number of bytes, another task
/// gets a turn. Each blocking send that takes at least one byte counts as activity of the peer.
pub const SEND_PER_TURN: usize = SEND_PER_ROUND;
/// A fibre that yields after a turn of this length, in nanoseconds, lets the processor look for
/// input of others: a line of many keys, for example, has hundreds of them in each turn.
pub const LONG_TURN_NS: u64 = 20_000;
/// Maximum number of bytes of a file that one system call sends on a blocking socket. There,
/// sendfile(2) passes at most 16 pages at a time to the socket, and reads the next pages only after
/// the peer has taken these. Until then the kernel might evict the next pages from memory, although
/// the check has found them there.
pub const BLOCKING_FILE_SEND_MAX: usize = 64 * 1024;
/// Maximum number of results of tickets that are delivered between two waits.
pub const COMPLETIONS_PER_WAIT: usize = EVENTS_PER_WAIT;
/// Interval at which a task that waits for the result of a ticket checks whether its peer has hung
/// up, in nanoseconds.
pub const HANG_UP_CHECK_NS: u64 = 100_000_000;
/// Maximum number of bytes of output that a transform (such as TLS) takes at a time. It takes the
/// next bytes only after it has transformed the previous bytes and these have been sent.
pub const TRANSFORM_CHUNK: usize = 16 * 1024;
/// Maximum number of accepted connections that wait in a worker's inbox.
pub const INBOX_MAX: usize = 4096;
/// How long the acceptor pauses after it could not open a connection for lack of descriptors,
/// threads or stacks, in nanoseconds.
pub const ACCEPT_PAUSE_NS: u64 = 10_000_000;
/// Maximum number of connections accepted from one listener before other events are handled.
pub const ACCEPTS_PER_EVENT: usize = 256;
/// Interval at which a connection that waits for store memory tries again, in nanoseconds.
pub const MEMORY_RETRY_NS: u64 = 1_000_000;
/// If no byte was received from or sent to a peer for more than this many seconds, the peer counts
/// as inactive. If connections keep too many bytes, those with inactive peers are closed first.
pub const SLOW_PEER_S: u32 = 1;
/// While a connection waits for store memory, connections that hold such memory are watched. Those
/// that transfer less than [`HOLDER_RATE_MIN`] bytes per second, over more than this many seconds,
/// are closed.
pub const HOLDER_WATCH_S: u32 = 5;
/// See [`HOLDER_WATCH_S`].
pub const HOLDER_RATE_MIN: u64 = 16 * 1024;
/// Interval at which connections are checked for silent peers and passed deadlines, in nanoseconds,
/// if the service or the setup has such limits.
pub const SWEEP_INTERVAL_NS: u64 = 1_000_000_000;
/// A check that is this late, in nanoseconds, closes nothing: the process stood still (SIGSTOP, a
/// paused virtual machine), and what peers have sent meanwhile is still to be received. The next
/// check does, however late.
pub const CHECK_LATE_NS: u64 = 100_000_000;
/// A stopping worker's check that is this late, in nanoseconds, was delayed because the process
/// stood still, and not by other work.
pub const STOOD_STILL_NS: u64 = 1_000_000_000;
/// How many times connections of a stopping worker may get as much more time.
pub const STOOD_STILL_MAX: u32 = 8;
/// Maximum number of connections in one step of the check for silent peers and passed deadlines.
pub const SWEEP_CONNECTIONS: usize = 1024;
/// Pause between two steps of the check for silent peers and passed deadlines, in nanoseconds.
pub const SWEEP_STEP_NS: u64 = 10_000_000;
/// Minimum time between two steps of store maintenance, in nanoseconds.
pub const MAINTAIN_INTERVAL_NS: u64 = 100_000;
/// Maximum number of items visited by one step of maintenance.
pub const MAINTAIN_ITEMS: usize = 16;
/// How long connections may take to finish after the server was told to stop, in nanoseconds,
/// unless the user says otherwise. A fibre that has been joined ends sooner.
pub const DRAIN_NS: u64 = 5_000_000_000;
/// Interval at which a stopping worker checks whether its connections have finished, in
/// nanoseconds.
pub const DRAIN_CHECK_NS: u64 = 20_000_000;
/// Maximum number of consecutive turns of one connection whose replies are sent together.
pub const TURNS_PER_SEND: u8 = 4;
/// Pause before a worker whose loop has failed begins a new loop, in nanoseconds.
pub const RESTART_PAUSE_NS: u64 = 10_000_000;
/// The bound on the bytes of input and output that all connections together keep between bursts
/// ([`buffered_max`](crate::buffered_max)) is at least this many bytes.
pub const BUFFERED_MIN: u64 = 64 << 20;
/// The bound on kept bytes is at least this fraction (1/N) of the memory for items.
pub const BUFFERED_MEMORY_PART: u64 = 8;
/// The bound on kept bytes is at least this many bytes per connection, the size of one receive.
pub const BUFFERED_PER_CONNECTION: u64 = RECEIVE_LEN as u64;
/// The bound on kept bytes is at least this many bytes per worker. That is more than the buffer of
/// the longest line needs. (The capacity of a buffer doubles as the buffer grows.)
pub const BUFFERED_PER_WORKER: u64 = 4 << 20;
/// If a connection keeps at most this many bytes between bursts, they do not count towards the
/// bound on kept bytes.
pub const BUFFERED_UNCOUNTED: usize = IDLE_BUFFER_LEN;
/// When the bound on kept bytes is exceeded, connections are closed until the kept bytes are below
/// the bound by this fraction (1/N) of the bound. With a smaller fraction, the worker would have to
/// search for connections to close more often.
pub const BUFFERED_FREED_PART: u64 = 64;
/// Number of entries of the submission queue of a worker's io_uring. The completion queue has twice
/// as many.
pub const RING_ENTRIES: u32 = 1024;
/// Number of receive buffers of a worker's io_uring, shared by its connections.
pub const RING_BUFFERS: u16 = 32;
/// Number of waits of the worker after which an unfinished send of an io_uring counts as blocked.
///
/// If the socket has space, a send completes when it is submitted, and its completion is then in
/// the completion queue. The worker handles up to [`EVENTS_PER_WAIT`] completions per wait. After
/// this many waits it has handled as many completions as the queue holds. So a send without a
/// completion is blocked.
pub const SEND_CHECK_WAITS_MAX: u32 = 2 * RING_ENTRIES / EVENTS_PER_WAIT as u32;
/// Length of each receive buffer of an io_uring, in bytes.
pub const RING_BUFFER_LEN: u32 = 16 * 1024;
/// Number of bytes of held input (received but not consumed) at which a connection of an io_uring
/// stops receiving, if its input cannot be answered now.
pub const HELD_INPUT_MAX: usize = 4 * 1024;
/// Minimum number of received frames that the kernel can keep for a worker of the runtime `bypass`
/// (TCP/IP in the process, instead of in the kernel).
pub const RING_FRAMES: usize = 2048;
/// Maximum number of frames that a worker of `bypass` receives before it serves connections.
pub const FRAMES_PER_ROUND: usize = 256;
/// Interval at which a busy worker of `bypass` makes a system call to check whether another thread
/// has woken it, in nanoseconds. (A worker that sleeps is woken without this check.)
pub const INBOX_CHECK_NS: u64 = 50_000;
/// If the device does not take frames, a worker of `bypass` tries to send them again after this
/// pause, in nanoseconds.
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
/// Number of memory mappings reserved for everything but the stacks of threads and fibres. The
/// kernel's default limit is 65 530 mappings. The remaining mappings suffice for the threads of
/// 15 360 connections, the number of connections in published experiments.
pub const OTHER_MAPPINGS: usize = 3072;
/// Initial length of the receive buffer of a task, in bytes. After a receive that fills it, the
/// buffer has [`RECEIVE_LEN`] bytes, until a receive that begins a request returns fewer bytes than
/// the initial length.
/// Also the length of the longest output whose buffer a task keeps for its next replies.
pub const IDLE_BUFFER_LEN: usize = 2 * 1024;
/// Timeout of a blocking send, in nanoseconds. A send that times out is repeated, but does not
/// count as activity of the peer.
pub const SEND_TIMEOUT_NS: u64 = 250_000_000;
/// If a task has to close a connection whose input it has not read completely, it first discards
/// further input, for at most this long after the last reply, in nanoseconds.
pub const LINGER_NS: u64 = 1_000_000_000;
/// Number of discarded bytes after which the task closes such a connection in any case.
pub const LINGER_LEN: usize = 16 << 20;
/// Interval between the maintenance steps that the supervisor (the thread that controls all tasks)
/// makes while no requests arrive, in nanoseconds.
pub const IDLE_MAINTAIN_INTERVAL_NS: u64 = 1_000_000;
/// Maximum number of maintenance steps that the supervisor makes after the last request.
pub const IDLE_MAINTAIN_STEPS: u32 = 1024;
/// After a maintenance step of a task, requests count as arriving for this long, in nanoseconds.
/// The supervisor makes no step in this time.
pub const REQUESTS_RECENT_NS: u64 = IDLE_MAINTAIN_INTERVAL_NS / 2;
/// Interval at which the supervisor checks whether requests still arrive before it makes
/// maintenance steps, in nanoseconds.
pub const REQUESTS_CHECK_NS: u64 = 10_000_000;
