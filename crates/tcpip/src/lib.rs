//! A TCP/IP stack for a server with many connections, without I/O: Ethernet frames in, Ethernet
//! frames out. Time and randomness are arguments.
//!
//! ```text
//! frame ─▶ classify ┬ ARP ─────────────────────────────────▶ answer
//!                   ├ ICMP echo ─▶ smoltcp ────────────────▶ answer
//!                   └ TCP ─▶ table of connections ─▶ smoltcp ─▶ bytes, events, frames
//! ```
//!
//! The state machine of each connection is that of smoltcp (`smoltcp::socket::tcp`), with its
//! windows, selective acknowledgements, retransmissions and congestion control. smoltcp itself
//! compares each packet with each of its sockets, and a listening socket becomes the connection. So
//! the rest is here:
//!
//! - the table that finds the connection of a segment by addresses and ports ([`Stack`]);
//! - the table of half-open connections, which is bounded and has no buffers, so that a flood of
//!   SYNs cannot exhaust memory ([`limits::HALF_OPEN_MAX`]), and their sequence numbers;
//! - one deadline a connection in a heap, so that time costs nothing where nothing is due;
//! - readiness, reported as by a level-triggered epoll ([`Stack::events`]);
//! - the sequence number of acknowledgements without data (`acknowledgement.rs`).
//!
//! Each connection has a smoltcp socket set of its own, with one socket, and all share a smoltcp
//! interface. The cost of a segment therefore does not depend on the number of connections, except
//! through the caches of the processor.
//!
//! Invariants:
//! - No frame makes a function panic.
//! - Memory is bounded: by the established connections, which the owner accepts and closes, plus
//!   [`limits::HALF_OPEN_MAX`] and [`limits::CLOSING_MAX`] others.
//! - A frame is answered to the hardware address that it came from, or for a connection, to that
//!   of the last frame whose sender knew the connection's numbers. The stack has no neighbour cache
//!   and no routes. It sends answers, what its owner sends on connections, retransmissions,
//!   and probes of silent peers.
//!
//! Not supported: IPv6, fragments, IP options beyond skipping them, VLAN tags, connections that
//! this end opens.

#![forbid(unsafe_code)]

mod acknowledgement;
mod arrival;
mod connection;
mod deadlines;
#[doc(hidden)]
pub mod fuzzing;
mod half_open;
pub mod limits;
mod link;
mod stack;
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use link::Frames;
pub use stack::{Checksums, Config, ConnectionId, Counts, Event, Interest, Stack};
