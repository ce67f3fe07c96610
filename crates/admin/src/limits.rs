//! All bounds of the admin service.

use http::limits::HEAD_LEN_MAX;

/// Maximum number of connections to the admin address. One more is answered with 503.
pub const CONNECTIONS_MAX: u32 = 256;
/// Maximum number of requests of one connection that are answered in one turn.
pub const REQUESTS_PER_TURN: usize = 4;
/// Bound, in bytes, of the input and output that all connections together keep between bursts. It
/// covers the longest incomplete head of each.
pub const BUFFERED_MAX: u64 = 4 << 20;
/// Maximum number of figures on a page. Further ones are left out.
pub const FIGURES_MAX: usize = 1024;
/// Longest text of a figure in bytes. A longer one is cut off.
pub const TEXT_LEN_MAX: usize = 1024;
/// Longest name of a figure in bytes. A figure with a longer one is left out.
pub const NAME_LEN_MAX: usize = 128;

const _: () = assert!(BUFFERED_MAX >= CONNECTIONS_MAX as u64 * HEAD_LEN_MAX as u64);
