//! All bounds of this crate.

use std::ops::RangeInclusive;

/// Permissions of new files: they contain the items of all clients, and the seed of the hash.
pub const FILE_MODE: u32 = 0o600;
/// Length of what precedes the segments in a file, in bytes.
pub const MARK_LEN: u64 = 4096;
/// Length of the front of a file in which bytes other than 0 are foreign, unless the mark is there:
/// where file systems and tables of partitions have their signatures.
pub const FOREIGN_LEN: usize = 128 << 10;
/// Size of a segment in bytes, if it is chosen: within these bounds, such that a tier has about
/// [`SEGMENTS_WANTED`] of them.
pub const SEGMENT_BYTES: RangeInclusive<u64> = 256 << 10..=4 << 20;
/// The greatest size of a segment that may be configured, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Number of segments that a tier has, if their size is within its bounds.
pub const SEGMENTS_WANTED: u64 = 256;
/// Segments are multiples of this many bytes, a page.
pub const SEGMENT_UNIT: u64 = 4096;
/// Number of segments that are open at a time. Each takes items of some of the hashes, so that
/// workers seldom wait for each other.
pub const OPEN_SEGMENTS: usize = 4;
/// Number of full segments that may wait for the device. Beyond them items are dropped.
pub const WAITING_SEGMENTS: usize = 4;
/// Number of write buffers. Each has the size of a segment.
pub const BUFFERS: usize = OPEN_SEGMENTS + WAITING_SEGMENTS;
/// Number of bytes that the thread that writes handles before it yields the processor: some 20 µs
/// of a write to the page cache.
pub const STEP_BYTES: usize = 64 << 10;
/// A tier has at least this many segments: as many again as may be in memory.
pub const SEGMENTS_MIN: u64 = 2 * BUFFERS as u64;
/// Maximum number of files of a tier.
pub const DEVICES_MAX: usize = 64;
/// Records begin at multiples of this many bytes.
pub const RECORD_ALIGN: usize = 8;
/// Number of locks of the index, a power of two.
pub const INDEX_SHARDS: usize = 256;
/// Number of entries of a bucket of the index.
pub const BUCKET_ENTRIES: usize = 8;
/// The index has space for this many times the items that fit the files, in percent.
pub const INDEX_SPARE_PERCENT: u64 = 125;
/// The mean size of an item for which the index is made, in bytes, if none is given.
pub const ITEM_BYTES_DEFAULT: u32 = 1024;
/// The least mean size of an item that may be given, in bytes.
pub const ITEM_BYTES_MIN: u32 = 64;
/// Number of threads that read, if none is given.
pub const READERS_DEFAULT: usize = 16;
/// Maximum number of threads that read.
pub const READERS_MAX: usize = 256;
/// Maximum number of reads that wait for a thread. Beyond it a read is refused.
pub const READS_WAITING_MAX: usize = 4096;
/// Maximum number of bytes that are being read, or have been read and are not restored yet. Beyond
/// them a read is refused, unless it is the only one.
pub const READS_BYTES_MAX: u64 = 64 << 20;
/// Size of a reader's stack in bytes.
pub const READ_STACK_LEN: usize = 128 << 10;
/// A copy stays where it is, when its item is evicted again, if fewer than this fraction (1/N) of
/// all segments were opened after it. An older copy is appended again.
pub const KEPT_PART: u32 = 2;
/// Copies with a CAS of at least this are not counted for the CAS with which the next process
/// begins.
pub const CAS_NOTED_MAX: u64 = 1 << 62;
/// Maximum length of a part of a saved index that has a checksum of its own, in bytes.
pub const FRAME_BYTES: usize = 64 << 10;
