//! All bounds of the store.

/// Longest key in bytes.
pub const KEY_MAX: usize = 250;
/// Bytes that memcached counts for an item in addition to key and value: 56 for a header with a
/// CAS, and 3 for terminators. The store rejects the same items as memcached.
pub const ITEM_OVERHEAD: usize = 59;
/// Bytes that memcached counts for client flags other than 0.
pub const FLAGS_LEN: usize = 4;
/// Minimum memory of a store, in bytes.
pub const MEMORY_MIN: u64 = 1 << 20;
/// Maximum memory a store can address, in bytes: a location has 40 bits and counts words of four
/// bytes.
pub const MEMORY_MAX: u64 = 4 << 40;
/// Minimum number of segments, unless memory is so small that segments have their least size.
pub(crate) const SEGMENTS_MIN: u64 = 1024;
/// Minimum and maximum size of a segment, as powers of two of bytes.
pub(crate) const SEGMENT_BITS: std::ops::RangeInclusive<u32> = 13..=21;
/// An item of at most this fraction (1/N) of a segment is stored in one block.
pub(crate) const WHOLE_PART: usize = 8;
/// A piece of a large value may take all space left in a segment if that is at least this fraction
/// (1/N) of the segment.
pub(crate) const PIECE_MIN_PART: usize = 16;
/// At most this fraction (1/N) of all segments are open: 5 %.
pub(crate) const OPEN_PART: usize = 20;
/// Maximum number of classes of expiry.
pub(crate) const CLASSES_MAX: usize = 8;
/// Maximum number of stripes (groups of workers that share open segments).
pub(crate) const STRIPES_MAX: usize = 16;
/// Maximum number of columns of live-byte counters. Each column belongs to one worker.
pub(crate) const COLUMNS_MAX: usize = 62;
/// Low watermark of free segments: this fraction (1/N) of all, plus [`RESERVE_MIN`], plus a segment
/// for each worker but one, because each may be evacuating one. The addition for workers is at most
/// as large as the fraction.
pub(crate) const RESERVE_PART: u32 = 200;
/// The constant part of the low watermark: see [`RESERVE_PART`].
pub(crate) const RESERVE_MIN: u32 = 4;
/// Critical watermark: at or below this fraction (1/N) of the reserve, or [`COPY_RESERVE`] segments
/// for a waiting writer, eviction ignores access frequency.
pub(crate) const RESERVE_CRITICAL_PART: u32 = 4;
/// Segments examined per search for one that is cheap to evacuate.
pub(crate) const SCAN_SEGMENTS: u32 = 32;
/// A segment with fewer live bytes than this percentage of its occupied bytes is evacuated out of
/// order; the first value is for the small part, the second for the main part. Live blocks are
/// copied if there is space. The bound of the small part is lower because its segments are soon
/// evicted anyway.
pub(crate) const SPARSE_PERCENT: [u64; 2] = [50, 80];
/// The bound for both parts without eviction, where even a small gain is useful.
pub(crate) const SPARSE_PERCENT_NO_EVICTION: u64 = 97;
/// Free segments that only copies of evacuated blocks may use.
pub(crate) const COPY_RESERVE: u32 = 2;
/// Maximum number of evacuation steps of a writer that waits for a segment.
pub(crate) const WAIT_STEPS_MAX: usize = 256;
/// For this many copied bytes, an evacuation step makes one visit less.
pub(crate) const COPY_BYTES_PER_VISIT: usize = 1024;
/// The memory limit cannot be lowered below this fraction (1/N) of the initial memory.
pub(crate) const LIMIT_PART: u64 = 8;
/// If less than this percentage of the bytes in the examined segments is live, memory suffices for
/// all live items, and none has to be evicted. The sparsest segment is then evacuated.
pub(crate) const LIVE_FITS_PERCENT: u64 = 85;
/// Minimum frequency at which an item is promoted to the main part when its segment is evicted.
pub(crate) const PROMOTE_AT: u8 = 1;
/// Under policies without decay, an item is evicted if its last request was within this first
/// fraction (1/N) of its segment's lifetime.
pub(crate) const EARLY_REQUEST_PART: u64 = 4;
/// Weight (1/N) of a new value in the moving average of segment lifetimes.
pub(crate) const LIFETIME_WEIGHT: u32 = 8;
/// Unit of the moving average of segment lifetimes: this fraction (1/N) of a second.
pub(crate) const LIFETIME_UNIT: u32 = 64;
/// Upper bound of a lifetime in seconds, half a year.
pub(crate) const LIFETIME_MAX_S: u32 = 1 << 24;
/// Segment lifetime in seconds below which every request counts, not only one after the first
/// quarter.
pub(crate) const LIFETIME_MIN_S: u32 = 8;
/// Ghosts take this fraction (1/N) of the memory.
pub(crate) const GHOST_PART: u64 = 128;
/// The miniature caches have one slot for this many bytes of memory.
pub(crate) const MINIATURE_PART: u64 = 16 * 1024;
/// Minimum and maximum slots of a miniature cache.
pub(crate) const MINIATURE_SLOTS: std::ops::RangeInclusive<usize> = 256..=8192;
/// Maximum number of evictions by which a miniature cache makes space for a request.
pub(crate) const MINIATURE_STEPS: usize = 4;
/// Maximum number of requests per second and watched key that a worker passes to the miniatures.
pub(crate) const SAMPLES_PER_SECOND: u32 = 8;
/// Slots examined per request for keys that are no longer watched.
pub(crate) const MINIATURE_SWEEP: usize = 8;
/// Bounds of the sampling rate: one of 2^N keys is watched.
pub(crate) const WATCHED_BITS_MIN: u32 = 6;
/// See [`WATCHED_BITS_MIN`].
pub(crate) const WATCHED_BITS_MAX: u32 = 40;
/// Bounds of the length of a score: 2^N requests.
pub(crate) const SCORE_BITS: std::ops::RangeInclusive<u32> = 9..=14;
/// Memory in bytes from which huge pages are requested by default. For a smaller memory a page of 2
/// MiB is too large a part.
pub const HUGE_FROM: u64 = 256 << 20;
/// Bytes populated in one step, which takes about 25 µs: short enough not to show in the latency
/// tail.
pub(crate) const POPULATE_BYTES: u32 = 64 << 10;
/// Memory per index class, in bytes.
pub(crate) const CLASS_MEMORY: u64 = 2 << 20;
/// Maximum number of index classes.
pub(crate) const INDEX_CLASSES_MAX: u64 = 256;
/// Initial and minimum number of buckets of a class.
pub(crate) const CLASS_BUCKETS: usize = 512;
/// The index takes at most this fraction (1/N) of the memory.
pub(crate) const INDEX_PART: u64 = 2;
/// While memory is short, an operation makes one evacuation step for this many bytes it writes.
pub(crate) const STEP_BYTES: usize = 4 * 1024;
/// Maximum number of evacuation steps of an operation before it waits for other workers.
pub(crate) const STEPS_MAX: usize = 32;
/// Number of times a worker without a segment for a copy yields before it evicts the item.
pub(crate) const COPY_WAITS_MAX: usize = 200;
/// Number of times a worker without a segment yields before it defers the request: a bound of the
/// delay of the worker's other connections.
pub(crate) const WAIT_YIELDS_MAX: usize = 256;
/// Pins and unfinished uploads together hold at most this fraction (1/N) of the memory.
pub const HELD_PART: u32 = 8;
/// Maximum number of blocks and buckets that an operation visits in addition to those of its keys.
pub const VISITS_MAX: usize = 64;
/// Maximum number of blocks visited by one evacuation step.
pub const STEP_ITEMS: usize = 16;
/// Buckets remembered by the breadth-first search for a free index slot.
pub(crate) const KICK_BUCKETS: usize = 48;
/// Buckets visited by the search for a free index slot without eviction, where a long search is
/// better than a rejection.
pub(crate) const LONG_SEARCH_BUCKETS: usize = 8 * KICK_BUCKETS;
/// Buckets visited by a split or a merge.
pub(crate) const RESIZE_BUCKETS: usize = 2;
/// Number of blocks in a batch of holes: they share one epoch stamp.
pub(crate) const HOLE_BATCH: usize = 16;
/// Maximum number of batches of holes waiting for their stamps to pass.
pub(crate) const HOLE_BATCHES_MAX: usize = 32;
/// Maximum number of reusable holes of a worker.
pub(crate) const HOLES_MAX: usize = 2048;
/// Lists of reusable holes: one per length, in multiples of 4 bytes, and part.
pub(crate) const HOLE_LISTS: usize = 2 * 512;
/// Maximum number of holes tried by a write. Evacuation may have reclaimed some.
pub(crate) const HOLE_TRIES: usize = 16;
/// Keys per worker in the sketch of hot keys.
pub const HOT_KEYS: usize = 32;
/// The sketch samples one read in this many on average.
pub const HOT_SAMPLE_PERIOD: u32 = 64;
/// Samples after which all counts are halved.
pub(crate) const HOT_WINDOW: u32 = 1 << 15;
/// Length of the longest decimal counter, in bytes.
pub const COUNTER_MAX: usize = 20;
/// Number of attempts of a read-modify-write, each repeated because the item has changed. From the
/// second attempt on, other writers of the class wait.
pub(crate) const REWRITE_ATTEMPTS: usize = 16;
/// Number of attempts of a write, each repeated because a rewrite of its class is in progress.
pub(crate) const REWRITE_WAITS_MAX: usize = 4;
/// Number of times a worker yields to a rewrite of the class before it defers the request.
pub(crate) const REWRITE_YIELDS_MAX: usize = 256;
/// Number of times a touch moves an item to a block that can hold an expiry before the touch is
/// deferred.
pub(crate) const TOUCH_MOVES_MAX: usize = 16;
/// Number of times the block of an item is built because flushes make the previous one unfit.
pub(crate) const BUILDS_MAX: usize = 8;
