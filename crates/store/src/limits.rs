//! Every bound of the store, in one place.

/// Longest key in bytes.
pub const KEY_MAX: usize = 250;
/// What memcached counts as part of an item beside its key and value (header with CAS 56, the ends
/// of key and value 3): kept so that the same items are refused.
pub const ITEM_OVERHEAD: usize = 59;
/// What it counts for client flags other than 0.
pub const FLAGS_LEN: usize = 4;
/// Least memory a store can work in, in bytes.
pub const MEMORY_MIN: u64 = 1 << 20;
/// Most memory a store can address, in bytes: a location has 40 bits and counts in words of four
/// bytes.
pub const MEMORY_MAX: u64 = 4 << 40;
/// Segments a store has at least, wherever memory allows for any of them to be as small.
pub(crate) const SEGMENTS_MIN: u64 = 1024;
/// Bytes of a segment, as powers of two: least and most.
pub(crate) const SEGMENT_BITS: std::ops::RangeInclusive<u32> = 13..=21;
/// An item of at most this part of a segment lies in one piece.
pub(crate) const WHOLE_PART: usize = 8;
/// A piece of a value fills what a segment has left if that is at least this part of it.
pub(crate) const PIECE_MIN_PART: usize = 16;
/// Open segments are at most this part of all (5 %).
pub(crate) const OPEN_PART: usize = 20;
/// Classes of expiry at most.
pub(crate) const CLASSES_MAX: usize = 8;
/// Stripes of workers that share open segments, at most.
pub(crate) const STRIPES_MAX: usize = 16;
/// Columns in which workers count what is alive each for itself, at most.
pub(crate) const COLUMNS_MAX: usize = 62;
/// Segments kept free: this part of all, and so many more.
pub(crate) const RESERVE_PART: u32 = 200;
/// See [`RESERVE_PART`]. Where several workers drain, each for itself, one more for each other, up
/// to as many again as the part.
pub(crate) const RESERVE_MIN: u32 = 4;
/// When no more than this part of the reserve is left, nothing stays for having been asked for, nor
/// in the hands of who waits while no more than [`COPY_RESERVE`] are.
pub(crate) const RESERVE_CRITICAL_PART: u32 = 4;
/// Segments looked at to find one that is cheap to drain.
pub(crate) const SCAN_SEGMENTS: u32 = 32;
/// A segment of which less is alive, in hundredths, is emptied out of turn, and what
/// is in it stays if there is room for copies: of the small part, whose segments do not stay long,
/// and of the main part.
pub(crate) const SPARSE_PERCENT: [u64; 2] = [50, 80];
/// The bound of both parts where nothing may be evicted: then even a little is worth having.
pub(crate) const SPARSE_PERCENT_NO_EVICTION: u64 = 97;
/// Free segments that only what is copied while draining may take.
pub(crate) const COPY_RESERVE: u32 = 2;
/// Steps of draining a writer makes at most while it waits for a segment.
pub(crate) const WAIT_STEPS_MAX: usize = 256;
/// A step of draining visits a block less for each so many bytes it copies.
pub(crate) const COPY_BYTES_PER_VISIT: usize = 1024;
/// The limit of memory is not lowered below this part of what the store was made with.
pub(crate) const LIMIT_PART: u64 = 8;
/// While less than this of the segments looked at is alive, in hundredths, there is room for all
/// that is, and nothing has to leave: then the sparsest will do.
pub(crate) const ROOMY_PERCENT: u64 = 85;
/// A new item that was asked for so often when the oldest of them goes stays.
pub(crate) const PROMOTE_AT: u8 = 1;
/// Where counts are not kept, an item leaves if its last request came within this part of its
/// segment's life, reckoned from the beginning.
pub(crate) const REQUESTED_PARTS: u64 = 4;
/// The usual life of a segment is the average of so many, a part of each going to the next.
pub(crate) const LIFETIME_WEIGHT: u32 = 8;
/// It is kept in this part of a second.
pub(crate) const LIFETIME_UNIT: u32 = 64;
/// A longer life counts as one of so many seconds: half a year.
pub(crate) const LIFETIME_MAX_S: u32 = 1 << 24;
/// A segment's life of fewer seconds is too short to be told in quarters.
pub(crate) const LIFETIME_MIN_S: u32 = 8;
/// Names of items that have left: this part of the memory.
pub(crate) const GHOST_PART: u64 = 128;
/// The small caches that eviction is tried in have a slot for each so many bytes of the memory.
pub(crate) const MINIATURE_PART: u64 = 16 * 1024;
/// Slots they have: least and most.
pub(crate) const MINIATURE_SLOTS: std::ops::RangeInclusive<usize> = 256..=8192;
/// Steps by which one of them makes room for a request.
pub(crate) const MINIATURE_STEPS: usize = 4;
/// Requests of a watched key that a worker shows them in a second.
pub(crate) const SAMPLES_PER_SECOND: u32 = 8;
/// Slots that a request looks at for keys that are watched no more.
pub(crate) const MINIATURE_SWEEP: usize = 8;
/// Of two to the power of this many keys one is watched, at most and at least.
pub(crate) const WATCHED_BITS_MIN: u32 = 6;
/// See [`WATCHED_BITS_MIN`].
pub(crate) const WATCHED_BITS_MAX: u32 = 40;
/// Two to the power of this many requests make up a score: least and most.
pub(crate) const SCORE_BITS: std::ops::RangeInclusive<u32> = 9..=14;
/// From so much memory on huge pages are asked for though nobody said so: below, a page of 2 MiB is
/// too large a part of it.
pub const HUGE_FROM: u64 = 256 << 20;
/// Bytes that the kernel finds the pages of in a step, in some 25 us: who waits for that long is
/// not among the slowest.
pub(crate) const POPULATE_BYTES: u32 = 64 << 10;
/// Memory one class of the index is made for, in bytes.
pub(crate) const CLASS_MEMORY: u64 = 2 << 20;
/// Classes of the index at most.
pub(crate) const INDEX_CLASSES_MAX: u64 = 256;
/// Buckets a class begins with, and never falls below.
pub(crate) const CLASS_BUCKETS: usize = 512;
/// The index grows to this part of the memory at most.
pub(crate) const INDEX_PART: u64 = 2;
/// An operation makes one step of draining for each so many bytes it writes, while memory is short.
pub(crate) const STEP_BYTES: usize = 4 * 1024;
/// Steps an operation makes at most before it waits for others.
pub(crate) const STEPS_MAX: usize = 32;
/// How often a worker that finds no segment for a copy lets others run before the item leaves.
pub(crate) const COPY_WAITS_MAX: usize = 200;
/// How often a worker that finds no segment lets others run before it has its peer wait instead:
/// what that takes, and no more, is what others on its connections pay.
pub(crate) const WAIT_YIELDS_MAX: usize = 256;
/// Pins and unfinished uploads together hold at most this part of the memory (one eighth).
pub const HELD_PART: u32 = 8;
/// Blocks and buckets an operation visits beside what it names.
pub const VISITS_MAX: usize = 64;
/// Blocks one step of draining visits at most.
pub const STEP_ITEMS: usize = 16;
/// Buckets that a search for room keeps on its way.
pub(crate) const KICK_BUCKETS: usize = 48;
/// Buckets looked at for room where nothing may be evicted: better a long search than a refusal.
pub(crate) const LONG_SEARCH_BUCKETS: usize = 8 * KICK_BUCKETS;
/// Buckets a split or a merge visits.
pub(crate) const RESIZE_BUCKETS: usize = 2;
/// Blocks a worker unlinks before their stamp is taken.
pub(crate) const HOLE_BATCH: usize = 16;
/// Batches of them that wait for their stamps to be over.
pub(crate) const HOLE_BATCHES_MAX: usize = 32;
/// Holes that a worker keeps beside those.
pub(crate) const HOLES_MAX: usize = 2048;
/// Lists of them: of so many lengths, multiples of 4 bytes, in either part.
pub(crate) const HOLE_LISTS: usize = 2 * 512;
/// Holes that a write asks for at most, which draining may have been quicker to find.
pub(crate) const HOLE_TRIES: usize = 16;
/// Keys that a worker remembers as read much.
pub const HOT_KEYS: usize = 32;
/// One read in so many is looked at for that, on average.
pub const HOT_SAMPLE_PERIOD: u32 = 64;
/// Looks after which all counts are halved.
pub(crate) const HOT_WINDOW: u32 = 1 << 15;
/// Longest text of a counter in bytes.
pub const COUNTER_MAX: usize = 20;
/// How often a change that depends on the present value is made again because the item has moved:
/// other writers of its class wait from the second time on.
pub(crate) const REWRITE_ATTEMPTS: usize = 16;
/// How often a write is made again because a rewrite of its class was under way.
pub(crate) const REWRITE_WAITS_MAX: usize = 4;
/// How often a worker that finds a rewrite of the class under way lets others run before it has its
/// peer wait instead.
pub(crate) const REWRITE_YIELDS_MAX: usize = 256;
/// How often an item is moved to a block with room for an expiry before its touch is put off.
pub(crate) const TOUCH_MOVES_MAX: usize = 16;
/// How often the block of an item is made again, because of a flush.
pub(crate) const REMAKES_MAX: usize = 8;
