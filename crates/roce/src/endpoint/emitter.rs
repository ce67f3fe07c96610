//! What both ends know of their connection, and how they write packets.

use crate::limits::MTU_MAX;
use crate::wire::{Addresses, Body, Bth, Psn, Repr, Transport};

/// The path MTU: bytes of payload in all packets of a message but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say the number")]
pub enum Mtu {
    Bytes256,
    Bytes512,
    Bytes1024,
    Bytes2048,
    Bytes4096,
}

impl Mtu {
    /// The number of bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bytes256 => 256,
            Self::Bytes512 => 512,
            Self::Bytes1024 => 1024,
            Self::Bytes2048 => 2048,
            Self::Bytes4096 => MTU_MAX,
        }
    }

    /// How many packets a message of this length takes: at least one.
    pub const fn packets(self, len: usize) -> u32 {
        let packets = len.div_ceil(self.bytes());
        if packets == 0 { 1 } else { packets as u32 }
    }
}

/// What both ends of a connection agreed on, from the view of one.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// From this end to the other.
    pub addresses: Addresses,
    /// The queue pair at this end, 24 bits. Packets for others are ignored.
    pub local_qpn: u32,
    /// The queue pair at the other end, 24 bits.
    pub peer_qpn: u32,
    /// The path MTU.
    pub mtu: Mtu,
    /// The first sequence number that the requester sends.
    pub first_psn: Psn,
}

/// Writes packets to the other end into one buffer, which grows to one frame.
#[derive(Debug)]
pub(crate) struct Emitter {
    addresses: Addresses,
    peer_qpn: u32,
    frame: Vec<u8>,
}

impl Emitter {
    pub(crate) fn new(connection: &Connection) -> Self {
        Self {
            addresses: connection.addresses,
            peer_qpn: connection.peer_qpn,
            frame: Vec::new(),
        }
    }

    /// Writes a packet and sends it.
    pub(crate) fn send(
        &mut self,
        psn: Psn,
        ack_requested: bool,
        body: Body,
        send: &mut impl FnMut(&[u8]),
    ) {
        let repr = Repr {
            addresses: self.addresses,
            transport: Transport {
                bth: Bth {
                    ack_requested,
                    ..Bth::new(self.peer_qpn, psn)
                },
                body,
            },
        };
        // No payload is longer than the MTU, so this does not fail.
        if repr.emit(&mut self.frame).is_ok() {
            send(&self.frame);
        }
    }
}
