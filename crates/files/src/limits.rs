//! All bounds of the crate.

/// Longest read of a file in bytes. Reads end at multiples of it.
pub const BLOCK_LEN: usize = 64 * 1024;
/// Shortest part of a document in bytes that is sent from the page cache without a copy
/// (docs/decisions/028-sendfile.md).
pub const FILE_RANGE_MIN: u64 = 64 * 1024;
/// Longest part of a document in bytes that an output has. All its bytes must be in memory.
pub const FILE_RANGE_MAX: u64 = 256 * 1024;
/// Number of threads that may wait for a disk, and of openers if there are any. It bounds the
/// operations that a disk has at a time.
pub const READERS: usize = 16;
/// Maximum number of reads that an io_uring has at a time: as many as there are threads, so that
/// both give a disk the same. Less if half of the device's queue is less.
pub const RING_READS: u16 = READERS as u16;
/// Maximum number of operations that wait for one of these threads, or of reads that wait for the
/// io_uring. One more is refused.
pub const QUEUE_MAX: usize = 1 << 14;
/// Stack size of these threads in bytes. Blocks are not on the stack.
pub const READER_STACK_LEN: usize = 128 * 1024;
/// Maximum number of names that a strategy remembers for each worker, with a descriptor and a
/// mapping for each.
pub const NAMES_MAX: usize = 512;
/// How long a strategy uses a remembered name, in nanoseconds. Then the file is opened
/// again, so that a changed one is noticed.
pub const NAME_VALID_NS: u64 = 1_000_000_000;
/// Maximum number of bytes of the access log that a worker keeps until they are written. Lines
/// above it are dropped and counted.
pub const LOG_BUFFER_MAX: usize = 1 << 20;
/// How long the writer of the access log lets lines join the first one, in nanoseconds.
pub const LOG_PAUSE_NS: u64 = 100_000_000;
/// Longest key of a cached item in bytes: that of the cache's other protocols.
pub const ITEM_KEY_MAX: usize = 250;
/// Longest value of a cached item in bytes that is accepted over HTTP. It is held in the memory of
/// connections until it has arrived.
pub const ITEM_VALUE_MAX: usize = 1 << 20;
/// Longest time to live of a cached item in seconds. A longer one is shortened.
pub const ITEM_TTL_MAX_S: u32 = u32::MAX / 2;
/// Maximum number of requests of one connection that are answered in one turn.
pub const REQUESTS_PER_TURN: usize = 16;

const _: () = assert!(BLOCK_LEN <= sys::page_cache::RESIDENCY_PAGES_MAX * 4096);
