//! All bounds of the pool.

use roce::limits::{OPERATIONS_MAX, READS_MAX};

/// Most queue pairs of a memory node. More are refused.
pub const QUEUE_PAIRS_MAX: usize = 4096;
/// Most clients that a memory node remembers as disconnected. The oldest are forgotten.
pub const DISCONNECTED_MAX: usize = 4096;

/// Smallest slab, in bytes.
pub const SLAB_LEN_MIN: u32 = 4096;
/// Largest slab, in bytes: that of the longest node.
pub const SLAB_LEN_MAX: u32 = 1 << 20;
/// Smallest slot of a slab, in bytes.
pub const SLOT_LEN_MIN: u32 = 64;

/// Most operations of a client that have begun and are not complete. More wait in its queue.
pub const OUTSTANDING_MAX: usize = 64;
/// Most operations of a client that were submitted and not taken as completed. More are refused.
pub const SUBMITTED_MAX: usize = 256;
/// Most operations that wait for the client of a thread ([`crate::client_thread`]). More are not
/// accepted.
pub const QUEUED_MAX: usize = 4096;
/// Most bytes of values of operations that such a client has and that are not complete. An
/// operation with a value beyond is not accepted.
pub const VALUES_LEN_MAX: usize = 64 << 20;
/// Most bytes of the values that a client's changes have made of what was there, while these wait
/// for memory. A change that would exceed them fails as if it had waited long enough.
pub const WAITING_DRAFTS_LEN_MAX: usize = 8 << 20;
/// Pause of such a thread after an error of its port, in nanoseconds.
pub const ERROR_PAUSE_NS: u64 = 10_000_000;
/// Longest time in nanoseconds until such a thread looks at its queue again.
pub const TURN_NS: u64 = 1_000_000_000;
/// A turn that lasts so much longer, in nanoseconds, takes no time from operations.
pub const TURN_LATE_NS: u64 = 100_000_000;
/// How long a thread that ends waits for its last operations and the end of its lease, in
/// nanoseconds.
pub const LEAVE_NS: u64 = 500_000_000;
/// Most nodes that a client follows from a stale one. Then it begins again at the anchor.
pub const WALK_MAX: u32 = 16;
/// Most times that an operation begins again at the anchor, and most compare-and-swaps that it
/// loses, before it fails.
pub const ATTEMPTS_MAX: u32 = 1000;
/// Most links between nodes that a client keeps until the metadata service has them. Beyond, the
/// oldest are forgotten; the metadata service then finds them by walking.
pub const EDGES_KEPT_MAX: usize = 4096;

/// Most clients of a metadata service. More are refused.
pub const CLIENTS_MAX: usize = 4096;
/// Most chains. No more keys are accepted beyond.
pub const CHAINS_MAX: usize = 1 << 24;
/// Most links of a chain that wait for others between. Beyond, all are forgotten and the chain is
/// walked.
pub const CHAIN_EDGES_MAX: usize = 256;
/// Most requests to the metadata service that wait for the same chain, until it is there, read or
/// closed. More are dropped, and come again.
pub const WAITERS_MAX: usize = 256;
/// Most READs at once of a pass of the metadata service over all chains.
pub const SWEEP_READS_MAX: usize = 16;
/// Most chains that such a pass looks at in one call, with or without a READ.
pub const SWEEP_STEPS_MAX: usize = 1024;
/// How many times as long as a pass took the service waits until the next one, unless a client is
/// refused memory.
pub const SWEEP_CALM: u64 = 15;
/// How long a value must have been expired for all clients for its chain to be closed, in seconds:
/// the clock of a client that comes later may be slower by that.
pub const EXPIRED_FOR_S: u64 = 10;
/// Most operations of the metadata service on memory at once.
pub const METADATA_OPERATIONS_MAX: usize = 64;

/// Longest message between client and metadata service, in bytes.
pub const MESSAGE_LEN_MAX: usize = 1200;
/// Most links between nodes in one message.
pub const MESSAGE_EDGES_MAX: usize = 32;
/// Most free slots in one message.
pub const MESSAGE_FREED_MAX: usize = 120;

/// Maximum difference between the numbers of two requests of a client that reach the metadata
/// service one after the other: a client that leaves may give up the request before.
pub const SEQUENCE_AHEAD_MAX: u64 = 2;

const _: () =
    assert!(METADATA_OPERATIONS_MAX <= OPERATIONS_MAX && OUTSTANDING_MAX <= OPERATIONS_MAX);
const _: () = assert!(MESSAGE_FREED_MAX * 8 + 80 <= MESSAGE_LEN_MAX);
const _: () = assert!(MESSAGE_EDGES_MAX * 24 + 300 <= MESSAGE_LEN_MAX);
const _: () = assert!(READS_MAX >= 2);
