//! A packet's contents as a value: parsed from a frame, written to a frame.

use super::addresses::Addresses;
use super::error::PacketError;
use super::headers::{Aeth, AtomicEth, Bth, Reth};
use super::icrc;
use super::layout::{
    AETH_LEN, ATOMIC_ACK_ETH_LEN, ATOMIC_ETH_LEN, BTH_LEN, ETHERNET_LEN, ICRC_LEN, IPV4_LEN,
    RETH_LEN, put,
};
use super::opcode::Opcode;
use super::packet::Packet;
use crate::limits::MTU_MAX;

/// A packet of a reliable connection.
///
/// Reserved fields are written as zeros and ignored when read; lengths, pad, checksums and ICRC
/// follow from the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// The headers below the transport.
    pub addresses: Addresses,
    /// The packet of the transport.
    pub transport: Transport<'a>,
}

/// The part of a packet that the ends of a connection look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport<'a> {
    /// The base transport header.
    pub bth: Bth,
    /// What the opcode brings.
    pub body: Body<'a>,
}

/// The headers and the payload of each opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "names and fields are those of the specification"
)]
pub enum Body<'a> {
    SendFirst {
        payload: &'a [u8],
    },
    SendMiddle {
        payload: &'a [u8],
    },
    SendLast {
        immediate: Option<u32>,
        payload: &'a [u8],
    },
    SendOnly {
        immediate: Option<u32>,
        payload: &'a [u8],
    },
    WriteFirst {
        reth: Reth,
        payload: &'a [u8],
    },
    WriteMiddle {
        payload: &'a [u8],
    },
    WriteLast {
        immediate: Option<u32>,
        payload: &'a [u8],
    },
    WriteOnly {
        reth: Reth,
        immediate: Option<u32>,
        payload: &'a [u8],
    },
    ReadRequest {
        reth: Reth,
    },
    ReadResponseFirst {
        aeth: Aeth,
        payload: &'a [u8],
    },
    ReadResponseMiddle {
        payload: &'a [u8],
    },
    ReadResponseLast {
        aeth: Aeth,
        payload: &'a [u8],
    },
    ReadResponseOnly {
        aeth: Aeth,
        payload: &'a [u8],
    },
    Acknowledge {
        aeth: Aeth,
    },
    AtomicAcknowledge {
        aeth: Aeth,
        original: u64,
    },
    CompareSwap(AtomicEth),
    FetchAdd(AtomicEth),
}

impl<'a> Repr<'a> {
    /// Parses a frame, with its checksums.
    ///
    /// # Errors
    /// The frame is no packet of a reliable connection, or it was corrupted on its way.
    pub fn parse(frame: &'a [u8]) -> Result<Self, PacketError> {
        let packet = Packet::new_checked(frame)?;
        packet.verify()?;
        Ok(Self::of(&packet, frame))
    }

    /// The contents of a packet, which is a view on `frame`. Does not look at its ICRC.
    fn of(packet: &Packet<&'a [u8]>, frame: &'a [u8]) -> Self {
        let payload = &frame[packet.payload_range()];
        Self {
            addresses: packet.addresses(),
            transport: Transport {
                bth: packet.bth(),
                body: Body::of(packet, payload),
            },
        }
    }

    /// Length in bytes of the frame, without Ethernet's padding of short frames.
    pub fn frame_len(&self) -> usize {
        self.addresses.headers_len() + self.transport_len()
    }

    /// Length in bytes of the transport headers, the padded payload and the ICRC.
    fn transport_len(&self) -> usize {
        let body = &self.transport.body;
        let padded_len = body.payload().len().next_multiple_of(4);
        BTH_LEN + body.opcode().extension_len() + padded_len + ICRC_LEN
    }

    /// Replaces `frame` by this packet.
    ///
    /// # Errors
    /// The payload is longer than [`MTU_MAX`]; the frame is then empty.
    pub fn emit(&self, frame: &mut Vec<u8>) -> Result<(), PacketError> {
        frame.clear();
        let body = &self.transport.body;
        let payload = body.payload();
        if payload.len() > MTU_MAX {
            return Err(PacketError::TooLong);
        }
        frame.resize(self.frame_len(), 0);
        self.addresses.emit(frame, self.transport_len());
        let (_, transport) = frame.split_at_mut(self.addresses.headers_len());
        let pad_len = payload.len().next_multiple_of(4) - payload.len();
        let opcode = body.opcode();
        self.transport.bth.emit(opcode.code(), pad_len, transport);
        let (extensions, rest) = transport[BTH_LEN..].split_at_mut(opcode.extension_len());
        body.emit_extensions(extensions);
        rest[..payload.len()].copy_from_slice(payload);
        let icrc_offset = frame.len() - ICRC_LEN;
        let is_ipv4 = self.addresses.ip_len() == IPV4_LEN;
        let icrc = icrc::compute(&frame[ETHERNET_LEN..icrc_offset], is_ipv4);
        frame[icrc_offset..].copy_from_slice(&icrc.to_le_bytes());
        Ok(())
    }
}

impl<'a> Body<'a> {
    fn of(packet: &Packet<&'a [u8]>, payload: &'a [u8]) -> Self {
        // The headers are there, because the view has checked the lengths for its opcode.
        let nothing = Reth {
            address: 0,
            key: 0,
            len: 0,
        };
        let reth = packet.reth().unwrap_or(nothing);
        let aeth = packet.aeth().unwrap_or_else(|| Aeth::parse(&[0; AETH_LEN]));
        let atomic = packet
            .atomic_eth()
            .unwrap_or_else(|| AtomicEth::parse(&[0; ATOMIC_ETH_LEN]));
        let immediate = packet.immediate();
        match packet.opcode() {
            Opcode::SendFirst => Self::SendFirst { payload },
            Opcode::SendMiddle => Self::SendMiddle { payload },
            Opcode::SendLast | Opcode::SendLastImmediate => Self::SendLast { immediate, payload },
            Opcode::SendOnly | Opcode::SendOnlyImmediate => Self::SendOnly { immediate, payload },
            Opcode::WriteFirst => Self::WriteFirst { reth, payload },
            Opcode::WriteMiddle => Self::WriteMiddle { payload },
            Opcode::WriteLast | Opcode::WriteLastImmediate => {
                Self::WriteLast { immediate, payload }
            }
            Opcode::WriteOnly | Opcode::WriteOnlyImmediate => Self::WriteOnly {
                reth,
                immediate,
                payload,
            },
            Opcode::ReadRequest => Self::ReadRequest { reth },
            Opcode::ReadResponseFirst => Self::ReadResponseFirst { aeth, payload },
            Opcode::ReadResponseMiddle => Self::ReadResponseMiddle { payload },
            Opcode::ReadResponseLast => Self::ReadResponseLast { aeth, payload },
            Opcode::ReadResponseOnly => Self::ReadResponseOnly { aeth, payload },
            Opcode::Acknowledge => Self::Acknowledge { aeth },
            Opcode::AtomicAcknowledge => Self::AtomicAcknowledge {
                aeth,
                original: packet.original().unwrap_or(0),
            },
            Opcode::CompareSwap => Self::CompareSwap(atomic),
            Opcode::FetchAdd => Self::FetchAdd(atomic),
        }
    }

    /// The opcode.
    pub fn opcode(&self) -> Opcode {
        let either = |immediate: &Option<u32>, without, with| match immediate {
            None => without,
            Some(_) => with,
        };
        match self {
            Self::SendFirst { .. } => Opcode::SendFirst,
            Self::SendMiddle { .. } => Opcode::SendMiddle,
            Self::SendLast { immediate, .. } => {
                either(immediate, Opcode::SendLast, Opcode::SendLastImmediate)
            }
            Self::SendOnly { immediate, .. } => {
                either(immediate, Opcode::SendOnly, Opcode::SendOnlyImmediate)
            }
            Self::WriteFirst { .. } => Opcode::WriteFirst,
            Self::WriteMiddle { .. } => Opcode::WriteMiddle,
            Self::WriteLast { immediate, .. } => {
                either(immediate, Opcode::WriteLast, Opcode::WriteLastImmediate)
            }
            Self::WriteOnly { immediate, .. } => {
                either(immediate, Opcode::WriteOnly, Opcode::WriteOnlyImmediate)
            }
            Self::ReadRequest { .. } => Opcode::ReadRequest,
            Self::ReadResponseFirst { .. } => Opcode::ReadResponseFirst,
            Self::ReadResponseMiddle { .. } => Opcode::ReadResponseMiddle,
            Self::ReadResponseLast { .. } => Opcode::ReadResponseLast,
            Self::ReadResponseOnly { .. } => Opcode::ReadResponseOnly,
            Self::Acknowledge { .. } => Opcode::Acknowledge,
            Self::AtomicAcknowledge { .. } => Opcode::AtomicAcknowledge,
            Self::CompareSwap(_) => Opcode::CompareSwap,
            Self::FetchAdd(_) => Opcode::FetchAdd,
        }
    }

    /// The payload; empty for opcodes without one.
    pub fn payload(&self) -> &'a [u8] {
        match *self {
            Self::SendFirst { payload }
            | Self::SendMiddle { payload }
            | Self::SendLast { payload, .. }
            | Self::SendOnly { payload, .. }
            | Self::WriteFirst { payload, .. }
            | Self::WriteMiddle { payload }
            | Self::WriteLast { payload, .. }
            | Self::WriteOnly { payload, .. }
            | Self::ReadResponseFirst { payload, .. }
            | Self::ReadResponseMiddle { payload }
            | Self::ReadResponseLast { payload, .. }
            | Self::ReadResponseOnly { payload, .. } => payload,
            Self::ReadRequest { .. }
            | Self::Acknowledge { .. }
            | Self::AtomicAcknowledge { .. }
            | Self::CompareSwap(_)
            | Self::FetchAdd(_) => &[],
        }
    }

    /// Writes the headers after the BTH.
    fn emit_extensions(&self, bytes: &mut [u8]) {
        match self {
            Self::WriteFirst { reth, .. } | Self::ReadRequest { reth } => reth.emit(bytes),
            Self::WriteOnly {
                reth, immediate, ..
            } => {
                reth.emit(bytes);
                emit_immediate(*immediate, &mut bytes[RETH_LEN..]);
            }
            Self::SendLast { immediate, .. }
            | Self::SendOnly { immediate, .. }
            | Self::WriteLast { immediate, .. } => emit_immediate(*immediate, bytes),
            Self::ReadResponseFirst { aeth, .. }
            | Self::ReadResponseLast { aeth, .. }
            | Self::ReadResponseOnly { aeth, .. }
            | Self::Acknowledge { aeth } => aeth.emit(bytes),
            Self::AtomicAcknowledge { aeth, original } => {
                aeth.emit(bytes);
                put(
                    &mut bytes[AETH_LEN..AETH_LEN + ATOMIC_ACK_ETH_LEN],
                    *original,
                );
            }
            Self::CompareSwap(atomic) | Self::FetchAdd(atomic) => atomic.emit(bytes),
            Self::SendFirst { .. }
            | Self::SendMiddle { .. }
            | Self::WriteMiddle { .. }
            | Self::ReadResponseMiddle { .. } => {}
        }
    }
}

fn emit_immediate(immediate: Option<u32>, bytes: &mut [u8]) {
    if let Some(immediate) = immediate {
        put(bytes, immediate.into());
    }
}
