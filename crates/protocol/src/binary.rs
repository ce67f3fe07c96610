//! memcached's binary protocol, in both directions, without I/O.
//!
//! Requests and replies are frames: a header of 24 bytes and a body. Numbers are big-endian.
//!
//! ```text
//!   0       1        2         4        5       6          8          12       16      24
//!   ├───────┼────────┼─────────┼────────┼───────┼──────────┼──────────┼────────┼───────┤
//!   │ magic │ opcode │ key     │ extras │ data  │ status   │ body     │ opaque │ CAS   │
//!   │       │        │ length  │ length │ type  │ of reply │ length   │        │       │
//!   ╰───────┴────────┴─────────┴────────┴───────┴──────────┴──────────┴────────┴───────╯
//!   body: extras (fixed fields of the command), key, value
//! ```
//!
//! A reply repeats the opcode and the opaque of its request. The reply to a *quiet* opcode is left
//! out in the common case: a miss of a `getq`, the success of a `setq`.
//!
//! The value of a storage command is not part of its [`Request`]: the caller consumes `value_len`
//! bytes after it. No line end follows a value.
//!
//! Frames and texts are those of memcached 1.6.45 (its `proto_bin.c`). Differences:
//! - A `stat`, `touch`, `gat` or `gatk` with a value is invalid, as are other commands with a value
//!   that they do not use. memcached takes the bytes of the value as the next frame.
//! - The body of an unknown command is skipped. memcached also skips as many bytes after the body
//!   as extras and key have, and so loses the next frames.
//! - An invalid header is answered when it has arrived, not when extras and key have.

mod header;
mod opcode;
pub mod reply;
mod request;
pub mod sasl;
mod status;

pub use header::{Head, Header, REPLY_MAGIC, REQUEST_MAGIC};
pub use opcode::{Command, Opcode};
pub use request::{Arith, Get, Parsed, Request, Set, parse, stats, write};
pub use status::Status;
