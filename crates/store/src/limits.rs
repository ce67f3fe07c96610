//! All bounds of the store, and the parameters of its algorithms.

/// Maximum length of a key in bytes.
pub const KEY_MAX: usize = 250;
/// The size of an item is the sum of key, value and this overhead, in bytes. The overhead is
/// memcached's (56 bytes for a header with a CAS, and 3 for terminators), so that the same items
/// are too large for the store and for memcached.
pub const ITEM_OVERHEAD: usize = 59;
/// Bytes that the size of an item includes for client flags other than 0, as in memcached.
pub const FLAGS_LEN: usize = 4;
/// Minimum memory of a store, in bytes.
pub const MEMORY_MIN: u64 = 1 << 20;
/// Maximum memory of a store, in bytes. A location has 40 bits and is in units of four bytes, so it
/// addresses 4 TiB.
pub const MEMORY_MAX: u64 = 4 << 40;
/// A store has at least this many segments, or fewer if its segments already have the minimum size.
pub(crate) const SEGMENTS_MIN: u64 = 1024;
/// Minimum and maximum size of a segment: 2^N bytes.
pub(crate) const SEGMENT_BITS: std::ops::RangeInclusive<u32> = 13..=21;
/// An item of at most this fraction (1/N) of a segment is stored in one block. The value of a
/// larger item is stored in pieces.
pub(crate) const WHOLE_PART: usize = 8;
/// A piece of a large value may be shortened to fit into the space left in a segment, if that space
/// is at least this fraction (1/N) of the segment.
pub(crate) const PIECE_MIN_PART: usize = 16;
/// At most this fraction (1/N) of all segments is open at a time.
pub(crate) const OPEN_PART: usize = 20;
/// Maximum number of expiry classes. Items of one class have similar expiry and share segments.
pub(crate) const CLASSES_MAX: usize = 8;
/// Maximum number of stripes, the groups of workers that share open segments.
pub(crate) const STRIPES_MAX: usize = 16;
/// Maximum number of workers that have live-byte counters of their own (`heap/live.rs`).
pub(crate) const COLUMNS_MAX: usize = 62;
/// The reserve is the low watermark of free segments: below it, writers evacuate. It is the sum of
/// three terms: this fraction (1/N) of all segments, [`RESERVE_MIN`], and the number of stripes
/// minus 1. The third term is at most as large as the first. It accounts for the segments that
/// workers are evacuating, which are not free yet.
pub(crate) const RESERVE_PART: u32 = 200;
/// The constant part of the low watermark: see [`RESERVE_PART`].
pub(crate) const RESERVE_MIN: u32 = 4;
/// The critical watermark of free segments, as a fraction (1/N) of the reserve. At or below it,
/// eviction ignores access frequency. For a writer that waits for memory, this watermark is at
/// least [`COPY_RESERVE`].
pub(crate) const RESERVE_CRITICAL_PART: u32 = 4;
/// Maximum length of the list of buckets that a walk of the index has to visit again, because
/// entries moved into them after its visit (`index/walk.rs`). A walk that would need more is
/// incomplete. The list takes at most 512 KiB.
pub(crate) const MOVED_BUCKETS_MAX: usize = 1 << 16;
/// Maximum number of repeated visits of a walk, per bucket of the index. A walk that deletes all
/// items, so that the index shrinks meanwhile, needs about two per bucket.
pub(crate) const REVISITS_PER_BUCKET: u64 = 4;
/// A walk that has made no step for this many seconds is superseded when another walk begins.
pub(crate) const WALK_STALL_S: u32 = 60;
/// Maximum number of evicted items that a worker records (`worker/evicted.rs`).
pub(crate) const EVICTED_MAX: usize = 256;
/// Number of segments that one search for a victim (a segment to evacuate) examines.
pub(crate) const SCAN_SEGMENTS: u32 = 32;
/// A segment is sparse, and is compacted before older segments are evicted, if its live bytes are
/// below this percentage of its occupied bytes, which include dead blocks. The first value is for
/// the small part, the second for the main part. The value for the small part is lower because its
/// segments are soon evicted anyway.
pub(crate) const SPARSE_PERCENT: [u64; 2] = [50, 80];
/// Replaces [`SPARSE_PERCENT`], for both parts, in a store that does not evict. There compaction is
/// the only way to gain space, so even a small gain is useful.
pub(crate) const SPARSE_PERCENT_NO_EVICTION: u64 = 97;
/// The small part, if the policy has one, has space for at least two of the largest items, or for
/// this fraction (1/N) of all segments if that is less.
pub(crate) const SMALL_FLOOR_PART: u32 = 8;
/// The number of free segments that are reserved for copies by evacuation.
pub(crate) const COPY_RESERVE: u32 = 2;
/// Maximum number of evacuation steps of a writer that waits for a segment.
pub(crate) const WAIT_STEPS_MAX: usize = 256;
/// Copying this many bytes counts as one visit against the budget of an evacuation step.
pub(crate) const COPY_BYTES_PER_VISIT: usize = 1024;
/// The memory limit cannot be lowered below this fraction (1/N) of the initial memory.
pub(crate) const LIMIT_PART: u64 = 8;
/// While at least this fraction (1/N) of the memory is dead, segments are compacted, and none is
/// evicted as long as there is memory for copies.
pub(crate) const DEAD_PART: u64 = 10;
/// An eviction begins as if this fraction (1/N) of its segment had been visited.
pub(crate) const ASSUMED_PART: u32 = 16;
/// Minimum frequency counter with which an item of the small part is copied to the main part when
/// its segment is evacuated.
pub(crate) const PROMOTE_AT: u8 = 1;
/// Under policies without decay (`eviction_policy.rs`), an item is evicted if its last request was
/// early: in the first 1/N of its segment's lifetime.
pub(crate) const EARLY_REQUEST_PART: u64 = 4;
/// Weight (1/N) of a new value in the moving average of segment lifetimes.
pub(crate) const LIFETIME_WEIGHT: u32 = 8;
/// Unit of the moving average of segment lifetimes: this fraction (1/N) of a second.
pub(crate) const LIFETIME_UNIT: u32 = 64;
/// Maximum lifetime of a segment that enters the moving average, in seconds: about half a year.
pub(crate) const LIFETIME_MAX_S: u32 = 1 << 24;
/// If the lifetime of a segment is below this number of seconds, early requests
/// ([`EARLY_REQUEST_PART`]) keep an item too, because times are only exact to the second.
pub(crate) const LIFETIME_MIN_S: u32 = 8;
/// The table of ghosts takes this fraction (1/N) of the memory.
pub(crate) const GHOST_PART: u64 = 128;
/// The number of ghosts per item of the store. It determines how many sets of the table of ghosts
/// are in use. The actual number may be higher or lower by a factor of up to
/// [`GHOST_SETS_TOLERANCE`].
pub(crate) const GHOSTS_PER_ITEM: u64 = 2;
/// The number of sets of ghosts in use changes if it differs from the needed number by more than
/// this factor.
pub(crate) const GHOST_SETS_TOLERANCE: u64 = 2;
/// A miniature (a simulated small cache, `miniature.rs`) has one slot per this many bytes of the
/// store's memory.
pub(crate) const MINIATURE_PART: u64 = 16 * 1024;
/// Minimum and maximum number of slots of a miniature cache.
pub(crate) const MINIATURE_SLOTS: std::ops::RangeInclusive<usize> = 256..=8192;
/// Maximum number of evictions in a miniature cache for one request.
pub(crate) const MINIATURE_STEPS: usize = 4;
/// Maximum number of requests for one watched (sampled) key that a worker passes to the miniatures
/// per second.
pub(crate) const SAMPLES_PER_SECOND: u32 = 8;
/// Number of slots of a miniature cache that a request examines, to remove keys that are no longer
/// watched.
pub(crate) const MINIATURE_SWEEP: usize = 8;
/// The highest sampling rate of the miniatures: one of 2^N keys is watched. Stores of large items,
/// which have few items, reach this rate. With a lower rate, their sample would be so small that
/// chance would decide the choice of the policy.
pub(crate) const WATCHED_BITS_MIN: u32 = 3;
/// The lowest sampling rate of the miniatures: one of 2^N keys is watched.
pub(crate) const WATCHED_BITS_MAX: u32 = 40;
/// Minimum and maximum length of the period over which hits are compared: 2^N requests.
pub(crate) const SCORE_BITS: std::ops::RangeInclusive<u32> = 9..=14;
/// Memory in bytes from which huge pages are requested by default. In a smaller memory, a huge page
/// of 2 MiB would be too large a fraction.
pub const HUGE_FROM: u64 = 256 << 20;
/// Bytes populated in one step of page maintenance. A step takes about 25 µs, which is too short to
/// affect tail latencies.
pub(crate) const POPULATE_BYTES: u32 = 64 << 10;
/// At most this many bytes of segments are populated before they are needed.
pub(crate) const POPULATED_AHEAD_MAX: u64 = 1 << 30;
/// The index has one shard per this many bytes of memory.
pub(crate) const SHARD_MEMORY: u64 = 2 << 20;
/// Maximum number of index shards.
pub(crate) const INDEX_SHARDS_MAX: u64 = 256;
/// The difference between the first CAS of two successive index shards. The first CAS of the last
/// of [`INDEX_SHARDS_MAX`] shards fits into 32 bits, and a short block header has 40 bits for a
/// CAS.
pub(crate) const CAS_PER_SHARD: u64 = 1 << 24;
/// Initial number of buckets of an index shard, and also the minimum.
pub(crate) const SHARD_BUCKETS: usize = 512;
/// The index takes at most this fraction (1/N) of the memory.
pub(crate) const INDEX_PART: u64 = 2;
/// While fewer segments than the reserve are free, a write makes one evacuation step, plus one step
/// per this many bytes of the block that it writes.
pub(crate) const STEP_BYTES: usize = 4 * 1024;
/// A write makes this many times as many steps while it compacts, because a compaction gains less
/// than it copies: of segments that are nine tenths live, a ninth.
pub(crate) const COMPACTION_STEPS: usize = 3;
/// Maximum number of evacuation steps that a write makes before it allocates.
pub(crate) const STEPS_MAX: usize = 32;
/// Number of times that a worker yields while no segment is free for a copy. After that, the worker
/// evicts the item, or abandons the evacuation if it is a compaction or the store does not evict.
pub(crate) const COPY_WAITS_MAX: usize = 200;
/// Number of times that a worker yields while no segment is free for a new block. After that, the
/// worker defers the request, because its other connections are waiting meanwhile.
pub(crate) const WAIT_YIELDS_MAX: usize = 256;
/// Pins and unfinished uploads together hold at most this fraction (1/N) of the memory. An upload
/// begins only while at most half of that is held.
pub const HELD_PART: u32 = 8;
/// The spool, which takes what may not be held, has at least this many bytes, or the fraction
/// [`HELD_PART`] of the memory if that is more.
pub const SPOOL_MIN: u64 = 32 << 20;
/// A value of at most this many bytes is copied to the spool if it cannot be pinned.
pub const COPIED_PIN_MAX: usize = 1 << 20;
/// The same for a read that changes the item, which copies the value under the lock of its shard.
pub const COPIED_UNDER_LOCK_MAX: usize = 64 << 10;
/// Maximum number of blocks and index buckets that an operation visits in addition to those of its
/// keys, unless it writes more than 12 KiB or finds no free segment.
pub const VISITS_MAX: usize = 64;
/// Maximum number of blocks visited by one evacuation step.
pub const STEP_ITEMS: usize = 16;
/// Maximum number of buckets in the queue of the breadth-first search for a free index slot.
pub(crate) const KICK_BUCKETS: usize = 48;
/// Maximum number of buckets that the search for a free index slot visits if the store does not
/// evict, or if the index can grow and a search within [`VISITS_MAX`] found none.
pub(crate) const LONG_SEARCH_BUCKETS: usize = 8 * KICK_BUCKETS;
/// Number of entries of a bucket of the index.
pub const BUCKET_ENTRIES: usize = 8;
/// The value at which the frequency counter of an item saturates. The counter has two bits.
pub const FREQUENCY_MAX: u8 = 3;
/// Number of buckets that a split or a merge visits.
pub(crate) const RESIZE_BUCKETS: usize = 2;
/// Number of holes in a batch. The holes of a batch share one epoch stamp.
pub(crate) const HOLE_BATCH: usize = 16;
/// Maximum number of batches of a worker that wait for their epoch stamps to pass (`epochs.rs`).
pub(crate) const HOLE_BATCHES_MAX: usize = 32;
/// Maximum number of holes of a worker that are ready to be filled.
pub(crate) const HOLES_MAX: usize = 2048;
/// Number of lists of ready holes: 2 parts times 512 lengths in multiples of 4 bytes.
pub(crate) const HOLE_LISTS: usize = 2 * 512;
/// Maximum number of holes that a write tries to fill. A hole cannot be filled if, for example, its
/// segment was evacuated.
pub(crate) const HOLE_TRIES: usize = 16;
/// Number of keys in a worker's sketch of hot keys.
pub const HOT_KEYS: usize = 32;
/// Mean number of reads per sample of the hot keys.
pub const HOT_SAMPLE_PERIOD: u32 = 64;
/// Number of samples after which the counts of the hot keys are halved.
pub(crate) const HOT_WINDOW: u32 = 1 << 15;
/// Maximum length of a counter as decimal text, in bytes: the digits of 2^64 - 1.
pub const COUNTER_MAX: usize = 20;
/// Maximum size of an item ([`item_len`](crate::item_len)) whose value arithmetic reads, in bytes.
/// A larger item counts as not numeric. Otherwise a value of nothing but spaces would be read to
/// its end, however long it is. memcached (1.6.45, `do_add_delta`) refuses the items that it stores
/// in chunks, which by default are those of more than half a slab page of 1 MiB.
pub const NUMERIC_ITEM_MAX: usize = 512 << 10;
/// Maximum number of attempts of a read-modify-write. An attempt fails if the item has changed
/// since it was read. From the second attempt on, other writers of the index shard wait.
pub(crate) const REWRITE_ATTEMPTS: usize = 16;
/// Maximum number of attempts of a write. An attempt fails if another worker is rewriting an item
/// of the same index shard.
pub(crate) const REWRITE_WAITS_MAX: usize = 4;
/// Number of times that a worker yields to a rewrite in the same index shard. After that, the
/// worker defers the request.
pub(crate) const REWRITE_YIELDS_MAX: usize = 256;
/// Maximum number of attempts of a touch to move an item to a block that can hold an expiry. After
/// that, the touch is deferred.
pub(crate) const TOUCH_MOVES_MAX: usize = 16;
/// Maximum number of attempts of a write with vivify, which changes the item of a key or creates
/// one. An attempt fails if the key has no item to change, and then has one because another worker
/// has created it. After the last attempt, the write is deferred.
pub(crate) const VIVIFY_ATTEMPTS_MAX: usize = 16;
/// Maximum number of further blocks that a write builds for its item. The write builds another
/// block if the first one cannot be linked, for example because of a flush.
pub(crate) const BUILDS_MAX: usize = 8;
