//! The bounds of the service.

/// Longest request over TCP in bytes, without its NUL. A longer one is answered as malformed.
pub const REQUEST_LEN_MAX: usize = 1 << 20;
/// Longest request over UDP in bytes, with its NUL: one datagram of the published clients.
pub const DATAGRAM_REQUEST_MAX: usize = DATAGRAM_LEN_MAX;
/// Bytes of an answer in one datagram, as published. A longer answer has several datagrams.
pub const DATAGRAM_LEN_MAX: usize = 1024;
/// Time in nanoseconds that a peer may take to send its request, and to take its answer. A worker
/// waits for one peer at a time, so without this bound a silent peer would stop it.
pub const EXCHANGE_NS: u64 = 1_000_000_000;
/// Connections that the kernel queues until they are accepted. (The published server has 10.)
pub const BACKLOG: i32 = 1024;
/// Requests in the queue of a pool. Requests beyond it are dropped and counted.
pub const QUEUE_MAX: usize = 1024;
/// Most worker threads.
pub const WORKERS_MAX: usize = 256;
/// Connections of the pool `rings` at a time.
pub const CONNECTIONS_MAX: u64 = 1024;
/// Interval in nanoseconds at which a thread that waits for requests checks whether to stop.
pub const STOP_CHECK_NS: u64 = 50_000_000;
