//! Requests in UDP datagrams (memcached's `-U`): one thread beside a runtime, which gives each
//! datagram a session of the service.
//!
//! ```text
//! socket ─▶ up to 32 datagrams ─▶ frame.rs ─▶ exchange.rs: a session each ─▶ service
//!        ◀─ datagrams of a reply ◀─ frame.rs ◀─ reply_limit.rs ◀─ complete reply
//! ```
//!
//! Each datagram has a header ([`frame`]) and complete requests of any protocol of the service.
//! Their replies together are one message, of as many datagrams as it needs.
//!
//! Invariants:
//! - Nothing is kept of a datagram after its reply. A request that is not complete in its datagram
//!   is dropped.
//! - Any number of hostile datagrams takes a bounded memory: that of one burst and of its replies,
//!   which are sent after the last one is complete. At most 32 of 2 MiB, in buffers of up to twice
//!   that.
//! - A peer outside of private networks is sent at most a few times the bytes that it has sent
//!   ([`ReplyLimit`]), because its address may be forged.
//! - A reply that begins with an `ERROR` line is not sent. Otherwise two servers could send each
//!   other many replies, after one datagram with the forged address of the other: the first line of
//!   a reply is an unknown command, but lines of its values may be requests.
//!
//! What it does not do: it repeats, reorders and acknowledges nothing. A lost datagram is lost.

#![forbid(unsafe_code)]

mod counts;
mod exchange;
pub mod frame;
pub mod fuzzing;
pub mod limits;
mod reply_limit;
mod running;
#[cfg(test)]
mod tests;
mod worker;

pub use counts::{Count, Counts};
pub use reply_limit::ReplyLimit;
pub use running::{Panicked, Running, start};
