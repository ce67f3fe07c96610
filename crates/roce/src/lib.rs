//! RoCEv2, without I/O: packets of RDMA over Ethernet, captures of them, and the ends of a reliable
//! connection.
//!
//! ```text
//! frame ──▶ Packet, a view: look, set a field, repair the ICRC ──▶ frame
//!       └─▶ Repr, a value: Addresses and Transport             ──▶ frame
//!                                 └──▶ Responder, Requester ──▶ frames and events
//! ```
//!
//! Values in, values out: no sockets, no clock, no threads; time is an argument. The packets are
//! those of reliable connections (InfiniBand Architecture Specification 1.4, volume 1, chapter 9)
//! over UDP (annex A17).
//!
//! Invariants:
//! - No input makes a function panic.
//! - A packet that was written parses to the same value.
//! - A field set through a view leaves the ICRC as right or as wrong as it was.
//!
//! Connections are agreed on in unreliable datagrams ([`connect`]), which are read and written
//! apart ([`wire::Datagram`]). Other services, SEND with invalidate, congestion notification
//! packets, VLAN tags, IP options and fragments are refused.

#![forbid(unsafe_code)]

pub mod connect;
pub mod endpoint;
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
pub mod pcap;
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod wire;
