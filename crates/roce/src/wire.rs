//! The packets: views on frames ([`Packet`]) and their contents as values ([`Repr`]).
//!
//! ```text
//! Ethernet 14 │ IPv4 20 or IPv6 40 │ UDP 8 │ BTH 12 │ more headers │ payload, pad │ ICRC 4
//!             └──────────── covered by the ICRC, with some fields masked ────────┘
//! ```
//!
//! The headers after the BTH follow from the opcode: RETH (16 bytes), AtomicETH (28), AETH (4),
//! AtomicAckETH (8) and immediate data (4), in the order of the specification's chapter 9.

mod addresses;
mod datagram;
mod error;
mod headers;
mod icrc;
mod layout;
mod opcode;
mod packet;
mod psn;
mod readdress;
mod repr;

pub use addresses::{Addresses, Ethernet, Ip, Ipv4, Ipv6};
pub use datagram::{Datagram, encapsulate, seal};
pub use error::PacketError;
pub use headers::{Aeth, AtomicEth, Bth, NakCode, Reth, Syndrome};
pub use layout::UDP_PORT;
pub use opcode::Opcode;
pub use packet::Packet;
pub use psn::Psn;
pub use readdress::readdress;
pub use repr::{Body, Repr, Transport};
