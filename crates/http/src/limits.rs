//! All bounds of the parser.

/// Longest head of a request in bytes: request line, header fields and the empty line. A longer
/// one is answered with 431.
pub const HEAD_LEN_MAX: usize = 8 * 1024;
/// Maximum number of header fields of a request. A request with more is answered with 431.
pub const HEADERS_MAX: usize = 64;
