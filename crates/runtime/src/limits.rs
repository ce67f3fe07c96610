//! Every bound of the runtimes, in one place.

/// Events one wait returns at most.
pub const EVENTS_PER_WAIT: usize = 256;
/// Connections whose requests are prepared together before any is answered.
pub const BURST_CONNECTIONS: usize = 32;
/// Requests whose items are asked for from memory beyond those about to be answered.
pub const PREFETCH_ITEMS: usize = 16;
/// Connections of fibres whose first requests are looked at together before any is answered.
pub const PREFETCH_CONNECTIONS_MAX: usize = 256;
/// Bytes received at once.
pub const RECEIVE_LEN: usize = 16 * 1024;
/// Least bytes of a value worth receiving straight into place.
pub const DIRECT_MIN: usize = 4 * 1024;
/// Pieces one send takes at most.
pub const PIECES_MAX: usize = 64;
/// Bytes sent to one connection before others have their turn; one send may go beyond it.
pub const SEND_PER_TURN: usize = 1 << 20;
/// Accepted connections that may wait for their worker.
pub const INBOX_MAX: usize = 4096;
/// How long accepting rests when descriptors have run out, in nanoseconds.
pub const ACCEPT_PAUSE_NS: u64 = 10_000_000;
/// Connections accepted in a row before anything else is looked at.
pub const ACCEPTS_PER_EVENT: usize = 256;
/// How often a connection that waits for memory tries again, in nanoseconds.
pub const MEMORY_RETRY_NS: u64 = 1_000_000;
/// How long a peer may hold memory that others wait for without taking or giving a byte, in
/// seconds.
pub const SLOW_PEER_S: u32 = 1;
/// Shortest time between two steps of the store's maintenance, in nanoseconds.
pub const MAINTAIN_INTERVAL_NS: u64 = 100_000;
/// Items one step of maintenance visits.
pub const MAINTAIN_ITEMS: usize = 16;
/// How long conversations may take to end after the server was told to stop, in nanoseconds.
pub const DRAIN_NS: u64 = 5_000_000_000;
/// How often a stopping worker looks whether it is done, in nanoseconds.
pub const DRAIN_CHECK_NS: u64 = 20_000_000;
/// Turns of a connection whose answers are sent together.
pub const TURNS_PER_SEND: u8 = 4;
/// How long a worker whose loop could not go on rests before it begins anew, in nanoseconds.
pub const RESTART_PAUSE_NS: u64 = 10_000_000;
/// Least bound, in bytes, of input and output that connections keep between bursts.
pub const BUFFERED_MIN: u64 = 64 << 20;
/// Part of the memory for items that the bound is at least.
pub const BUFFERED_MEMORY_PART: u64 = 8;
/// Bytes that the bound has for each connection at least: what one receive brings.
pub const BUFFERED_PER_CONNECTION: u64 = RECEIVE_LEN as u64;
/// Bytes that the bound has for each worker at least: memory for the longest line, which grows by
/// doubling, and more.
pub const BUFFERED_PER_WORKER: u64 = 4 << 20;
/// Bytes that one connection may keep without being counted.
pub const BUFFERED_UNCOUNTED: usize = IDLE_BUFFER_LEN;
/// Part of the bound that is freed when it has been reached, so that looking for those that keep
/// most is rare.
pub const BUFFERED_FREED_PART: u64 = 64;
/// Requests a worker's ring is handed at once.
pub const RING_ENTRIES: u32 = 1024;
/// Buffers a worker's ring receives into.
pub const RING_BUFFERS: u16 = 32;
/// Waits after which answers that a ring has not sent are taken to wait for their peers, though
/// there were more events at each: as many events as the ring holds have been taken by then.
pub const UNSETTLED_WAITS_MAX: u32 = 2 * RING_ENTRIES / EVENTS_PER_WAIT as u32;
/// Bytes of each.
pub const RING_BUFFER_LEN: u32 = 16 * 1024;
/// Bytes that a connection which cannot go on holds before no more are received for it.
pub const HELD_INPUT_MAX: usize = 4 * 1024;
/// Capacity, in bytes, of memory for answers that a worker keeps for others at most.
pub const SPARE_OUTPUT_LEN: usize = 32 * 1024;
/// Pieces of emptied memory for answers that a worker keeps.
pub const SPARE_OUTPUTS: usize = 128;
/// Bytes of a conversation's stack where each has a thread: address space, of which it touches
/// little.
pub const TASK_STACK_LEN: usize = 128 * 1024;
/// Areas of memory the kernel sees in such a thread: its stack, the one for signals that the
/// standard library gives it, and a page before each.
pub const MAPPINGS_PER_THREAD: usize = 4;
/// Areas of memory left for everything else. By the kernel's default there are 65 530: enough for
/// the 15 360 connections of the published experiments.
pub const OTHER_MAPPINGS: usize = 3072;
/// Bytes an idle conversation with a thread of its own receives at first, and keeps for answers.
/// One that fills them receives [`RECEIVE_LEN`] at once until it does not any more.
pub const IDLE_BUFFER_LEN: usize = 2 * 1024;
/// Bytes one blocking send takes at most: it is seen to move after each.
pub const BLOCKING_SEND_MAX: usize = 128 * 1024;
/// How long a blocking send waits for room before it is seen not to move, in nanoseconds.
pub const SEND_TIMEOUT_NS: u64 = 250_000_000;
/// Time between two steps of maintenance that go on without requests, in nanoseconds.
pub const IDLE_MAINTAIN_INTERVAL_NS: u64 = 1_000_000;
/// Such steps after the last request at most.
pub const IDLE_MAINTAIN_STEPS: u32 = 1024;
