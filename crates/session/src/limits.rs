//! All bounds of this crate. A *turn* is one call in which a session answers. The *tier* is the
//! files below the store, which keep evicted items.

/// Maximum length of a value that is copied into the output, in bytes. A longer value is sent from
/// the store's memory, and is pinned (kept there) until it has been sent.
pub const COPY_MAX: usize = 16 * 1024;
/// Minimum length in bytes of the memory that is allocated at a time for a value that is received
/// outside the store's segments. It is as much as has arrived before.
pub const SPOOL_CHUNK_MIN: usize = 4 * 1024;
/// Maximum of the same.
pub const SPOOL_CHUNK_MAX: usize = 64 * 1024;
/// Maximum number of bytes of such a value that a turn moves to the segments. This takes about 30
/// µs.
pub const SPOOL_MOVED_PER_TURN: usize = 256 * 1024;
/// Maximum number of keys of one `get` that are answered in one turn.
pub const KEYS_PER_TURN: usize = 256;
/// Maximum number of items that a session reads from the tier at a time. It is the number of keys
/// of a `get` that are processed together.
pub const FETCHES_MAX: usize = PREFETCH_KEYS;
/// Maximum number of times that a request waits for the tier. It waits again if its item is evicted
/// from memory again before the request is executed.
pub const FETCH_TRIES_MAX: u8 = 4;
/// Maximum number of reads of a memory pool whose replies one connection has not yet written. Each
/// of these replies may hold a value. Below this maximum, a further read begins only while these
/// values have less than [`OUTPUT_SOFT_MAX`](service::limits::OUTPUT_SOFT_MAX) bytes. A value that
/// is still being read counts with a length estimated from earlier values of the connection.
pub const POOL_READS_MAX: usize = 16;
/// Maximum number of repetitions of a change that creates a missing item in a memory pool. The
/// change is repeated if other clients have created or deleted the item meanwhile.
pub const VIVIFY_TRIES_MAX: u32 = 32;
/// Maximum number of users of a password file (memcached `MAX_ENTRIES`).
pub const PASSWORDS_MAX: usize = 8;
/// Maximum number of users of a password file of SASL. At this maximum, a login takes about 15 µs,
/// because it is compared with every user.
pub const SASL_PASSWORDS_MAX: usize = 256;
/// Maximum length of `USER:PASSWORD` in a password file, in bytes (memcached `MAX_ENTRY_LEN`, less
/// a line end and a final zero).
pub const PASSWORD_LINE_MAX: usize = 254;
/// Number of buckets of the store's index that a walk of all items visits in one step. A bucket has
/// at most eight items. The memory of all buckets of a step is prefetched together.
pub const WALK_BUCKETS: usize = 8;
/// Number of visited items after which a walk's turn ends. Visiting this number takes about 20 µs.
/// The last step of the turn may exceed the number.
pub const WALK_ITEMS_PER_TURN: usize = 128;
/// Maximum number of steps of a walk in a turn. Expired items do not count as visited items, so
/// only this limit bounds their number: 4 steps × 8 buckets × 8 items = 256 a turn. If the walk
/// reclaims expired items, each is unlinked under a lock.
pub const WALK_STEPS_PER_TURN: usize = 4;
/// Length of a pause of a `prefix` command. It pauses whenever it has visited as many entries of
/// the index as its rate allows so far. Each pause allows more entries.
pub const PREFIX_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
/// Number of connections that `stats conns` lists in a turn.
pub const CONNECTIONS_PER_TURN: usize = 32;
/// Number of counts that `stats sizes` writes in a turn.
pub const SIZES_PER_TURN: usize = 256;
/// A server that samples latencies records one burst of this many, in each worker. It is a prime
/// number, so that periodic load is not sampled at the same place of each period.
pub const LATENCY_BURST_INTERVAL: u32 = 61;
/// Maximum number of clients that receive log lines, as in memcached.
pub const WATCHERS_MAX: usize = 20;
/// Maximum length of a log line in bytes. A percent-encoded key of 250 bytes and the other fields
/// fit.
pub const LOG_LINE_MAX: usize = 1024;
/// Number of keys of one `get` whose memory is prefetched together, before the first is read.
pub const PREFETCH_KEYS: usize = 16;
/// Maximum number of key prefixes that one worker counts (`stats detail`), as many as memcached.
/// Further prefixes are not counted.
pub const PREFIXES_MAX: usize = 65_536;
/// Maximum number of key prefixes that all workers count. A prefix counts once for each worker that
/// has counted it.
pub const PREFIXES_MAX_OF_ALL: usize = 4 * PREFIXES_MAX;
/// Number of prefixes that `stats detail dump` lists in one turn. It reads them under the lock of
/// each worker in turn.
pub const PREFIXES_PER_TURN: usize = 256;
/// Maximum number of prefixes in a list that has to be complete in one turn: in the binary
/// protocol, whose reply is one statistic, over UDP, and with a memory pool.
pub const PREFIXES_AT_ONCE: usize = 1024;
/// Maximum number of requests that a session answers in one turn. The server's `-R` is limited to
/// this number.
pub const REQUESTS_PER_TURN_MAX: usize = 1024;
/// Maximum number of connections of one worker whose first requested item is prefetched before the
/// connection's turn, in runtimes that answer one connection at a time.
pub const EARLY_HASHES_MAX: usize = 256;
/// Maximum number of bytes of received input that are parsed before the connection's turn, to
/// prefetch the index bucket of its first request.
pub const PREFETCH_INPUT_MAX: usize = 512;
