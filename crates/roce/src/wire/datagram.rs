//! Unreliable datagrams: SEND of one packet without a connection (specification, 9.2.4 and 9.3.2).
//!
//! ```text
//! Ethernet │ IP │ UDP │ BTH, opcode 0x64 │ DETH 8: Q_Key 4, source queue pair 4 │ payload │ ICRC
//! ```
//!
//! The ends of connections use them to find each other. [`super::Packet`] refuses them, as they
//! belong to no connection.

use super::addresses::{Addresses, ones_sum};
use super::error::PacketError;
use super::headers::Bth;
use super::icrc;
use super::layout::{BTH_LEN, ETHERNET_LEN, Field, ICRC_LEN, IPV4_LEN, UDP_LEN, bth, number, put};
use super::packet::{datagram_of, transport_of};
use super::psn::Psn;
use crate::limits::MTU_MAX;

/// SEND only, of the service "unreliable datagram".
const OPCODE: u8 = 0x64;
const DETH_LEN: usize = 8;
const QUEUE_KEY: Field = 0..4;
const SOURCE_QPN: Field = 5..8;

/// A datagram as a value: parsed from a frame, written to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The headers below the transport.
    pub addresses: Addresses,
    /// The queue pair at the receiver, 24 bits.
    pub qpn: u32,
    /// The queue pair at the sender, 24 bits.
    pub source_qpn: u32,
    /// The key of the receiver's queue.
    pub queue_key: u32,
    /// The message, at most [`MTU_MAX`] bytes.
    pub payload: &'a [u8],
}

/// Replaces `frame` by the frame of a UDP datagram to port 4791, of which a kernel has taken the
/// headers away: `transport` is from the BTH to the ICRC. It is not looked at.
pub fn encapsulate(addresses: &Addresses, transport: &[u8], frame: &mut Vec<u8>) {
    let headers_len = addresses.headers_len();
    frame.clear();
    frame.resize(headers_len, 0);
    addresses.emit(frame, transport.len());
    frame.extend_from_slice(transport);
}

/// Puts the ICRC of a datagram right. Nothing happens to other frames, and IP checksums stay.
pub fn seal(frame: &mut [u8]) {
    let Ok((is_ipv4, datagram)) = datagram_of(frame) else {
        return;
    };
    let is_datagram =
        transport_of(&frame[datagram.clone()]).is_ok_and(|it| it[bth::OPCODE] == OPCODE);
    let icrc_at = datagram.end.saturating_sub(ICRC_LEN);
    if is_datagram && icrc_at > ETHERNET_LEN {
        let icrc = icrc::compute(&frame[ETHERNET_LEN..icrc_at], is_ipv4);
        frame[icrc_at..datagram.end].copy_from_slice(&icrc.to_le_bytes());
    }
}

impl<'a> Datagram<'a> {
    /// Parses a frame, with its checksums.
    ///
    /// # Errors
    /// The frame is no datagram, or it was corrupted on its way.
    pub fn parse(frame: &'a [u8]) -> Result<Self, PacketError> {
        let (is_ipv4, datagram) = datagram_of(frame)?;
        let transport = transport_of(&frame[datagram.clone()])?;
        let opcode = transport[bth::OPCODE];
        if opcode != OPCODE {
            return Err(PacketError::Opcode(opcode));
        }
        let pad_len = usize::from((transport[bth::FLAGS] >> 4) & 3);
        let padded_len = transport
            .len()
            .checked_sub(BTH_LEN + DETH_LEN + ICRC_LEN)
            .ok_or(PacketError::Length)?;
        let len = padded_len.checked_sub(pad_len).ok_or(PacketError::Length)?;
        if padded_len % 4 != 0 || (len == 0 && pad_len > 0) {
            return Err(PacketError::Length);
        }
        if len > MTU_MAX {
            return Err(PacketError::TooLong);
        }
        let packet = &frame[ETHERNET_LEN..datagram.end];
        if is_ipv4 && ones_sum(&packet[..IPV4_LEN]) != 0xffff {
            return Err(PacketError::IpChecksum);
        }
        let (covered, icrc) = packet.split_at(packet.len() - ICRC_LEN);
        if icrc != icrc::compute(covered, is_ipv4).to_le_bytes() {
            return Err(PacketError::Icrc);
        }
        let (deth, payload) = transport[BTH_LEN..].split_at(DETH_LEN);
        Ok(Self {
            addresses: Addresses::parse(frame, is_ipv4),
            qpn: number(&transport[bth::QPN]) as u32,
            source_qpn: number(&deth[SOURCE_QPN]) as u32,
            queue_key: number(&deth[QUEUE_KEY]) as u32,
            payload: &payload[..len],
        })
    }

    /// Replaces `frame` by this datagram.
    ///
    /// # Errors
    /// The payload is longer than [`MTU_MAX`]; the frame is then empty.
    pub fn emit(&self, frame: &mut Vec<u8>) -> Result<(), PacketError> {
        frame.clear();
        if self.payload.len() > MTU_MAX {
            return Err(PacketError::TooLong);
        }
        let padded_len = self.payload.len().next_multiple_of(4);
        let transport_len = BTH_LEN + DETH_LEN + padded_len + ICRC_LEN;
        let headers_len = self.addresses.headers_len();
        frame.resize(headers_len + transport_len, 0);
        self.addresses.emit(frame, transport_len);
        let transport = &mut frame[headers_len..];
        Bth::new(self.qpn, Psn::new(0)).emit(OPCODE, padded_len - self.payload.len(), transport);
        let (deth, rest) = transport[BTH_LEN..].split_at_mut(DETH_LEN);
        put(&mut deth[QUEUE_KEY], self.queue_key.into());
        put(&mut deth[SOURCE_QPN], self.source_qpn.into());
        rest[..self.payload.len()].copy_from_slice(self.payload);
        let is_ipv4 = headers_len == ETHERNET_LEN + IPV4_LEN + UDP_LEN;
        let end = frame.len() - ICRC_LEN;
        let icrc = icrc::compute(&frame[ETHERNET_LEN..end], is_ipv4);
        frame[end..].copy_from_slice(&icrc.to_le_bytes());
        Ok(())
    }
}
