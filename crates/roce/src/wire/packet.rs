//! A view on a frame whose lengths and opcode were checked, with setters that repair the ICRC.

use super::addresses::{Addresses, Ethernet, Ip, ones_sum};
use super::error::PacketError;
use super::headers::{Aeth, AtomicEth, Bth, Reth};
use super::icrc;
use super::layout::{
    BTH_LEN, ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Field, ICRC_LEN, IPV4_LEN, IPV6_LEN,
    PROTOCOL_UDP, UDP_LEN, UDP_PORT, aeth, atomic_eth, bth, ethernet, ip_len, ipv4, ipv6, number,
    put, reth, udp,
};
use super::opcode::Opcode;
use super::psn::Psn;
use crate::limits::{FRAME_LEN_MAX, MTU_MAX};

/// From the addresses of IPv6 to the end of the BTH.
const ROUTE_LEN_MAX: usize = IPV6_LEN - ipv6::SOURCE.start + UDP_LEN + BTH_LEN;

/// A frame with a RoCEv2 packet of a reliable connection.
///
/// [`Packet::new_checked`] checks all lengths, so no accessor panics. It reads neither the
/// checksum of IPv4 nor the ICRC: see [`Packet::verify`]. Bytes after the packet, such as
/// Ethernet's own padding of short frames, are ignored and never changed.
///
/// Setters write a field in place and repair the ICRC and the checksum of IPv4 by the difference.
/// A wrong ICRC therefore stays wrong: a middlebox does not make corruption invisible. They write
/// 0 as UDP checksum, which means none.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    frame: T,
    opcode: Opcode,
    is_ipv4: bool,
    payload_len: usize,
    /// Offset of the ICRC.
    icrc_offset: usize,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view on `frame`, which begins with its Ethernet header.
    ///
    /// # Errors
    /// The frame is no packet of a reliable connection, or its lengths are wrong.
    pub fn new_checked(frame: T) -> Result<Self, PacketError> {
        let (is_ipv4, datagram) = datagram_of(frame.as_ref())?;
        let end = datagram.end;
        let (opcode, payload_len) = check_datagram(&frame.as_ref()[datagram])?;
        Ok(Self {
            frame,
            opcode,
            is_ipv4,
            payload_len,
            icrc_offset: end - ICRC_LEN,
        })
    }

    /// Checks the checksum of IPv4 and the ICRC.
    ///
    /// # Errors
    /// One of them is wrong.
    pub fn verify(&self) -> Result<(), PacketError> {
        if self.is_ipv4 && ones_sum(&self.bytes()[ETHERNET_LEN..][..IPV4_LEN]) != 0xffff {
            return Err(PacketError::IpChecksum);
        }
        if self.icrc() != self.computed_icrc() {
            return Err(PacketError::Icrc);
        }
        Ok(())
    }

    /// The frame without bytes after the packet.
    pub fn frame(&self) -> &[u8] {
        &self.bytes()[..self.icrc_offset + ICRC_LEN]
    }

    /// The headers below the transport.
    pub fn addresses(&self) -> Addresses {
        Addresses::parse(self.bytes(), self.is_ipv4)
    }

    /// The opcode.
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// The base transport header.
    pub fn bth(&self) -> Bth {
        Bth::parse(&self.bytes()[self.bth_offset()..])
    }

    /// The queue pair at the receiver.
    pub fn qpn(&self) -> u32 {
        number(&self.bytes()[self.bth_offset()..][bth::QPN]) as u32
    }

    /// The packet's sequence number.
    pub fn psn(&self) -> Psn {
        Psn::new(number(&self.bytes()[self.bth_offset()..][bth::PSN]) as u32)
    }

    /// Address, key and length, in first or only packets of WRITE and in requests of READ.
    pub fn reth(&self) -> Option<Reth> {
        let has = self.opcode.has_reth();
        has.then(|| Reth::parse(&self.bytes()[self.extension_offset()..]))
    }

    /// Address, key and operands of an atomic operation.
    pub fn atomic_eth(&self) -> Option<AtomicEth> {
        let has = self.opcode.has_atomic_eth();
        has.then(|| AtomicEth::parse(&self.bytes()[self.extension_offset()..]))
    }

    /// Syndrome and message sequence number of a response.
    pub fn aeth(&self) -> Option<Aeth> {
        let has = self.opcode.has_aeth();
        has.then(|| Aeth::parse(&self.bytes()[self.extension_offset()..]))
    }

    /// The original value, in the response to an atomic operation.
    pub fn original(&self) -> Option<u64> {
        let field = self.original_field()?;
        Some(number(&self.bytes()[field]))
    }

    /// The immediate data.
    pub fn immediate(&self) -> Option<u32> {
        let end = self.payload_offset();
        let has = self.opcode.has_immediate();
        has.then(|| number(&self.bytes()[end - 4..end]) as u32)
    }

    /// The payload without its pad.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[self.payload_range()]
    }

    /// Where in the frame the payload lies.
    pub(crate) fn payload_range(&self) -> Field {
        let start = self.payload_offset();
        start..start + self.payload_len
    }

    /// The ICRC that the packet has.
    pub fn icrc(&self) -> u32 {
        let mut bytes = [0; ICRC_LEN];
        bytes.copy_from_slice(&self.bytes()[self.icrc_offset..][..ICRC_LEN]);
        u32::from_le_bytes(bytes)
    }

    /// The ICRC that the packet should have.
    pub fn computed_icrc(&self) -> u32 {
        icrc::compute(&self.bytes()[ETHERNET_LEN..self.icrc_offset], self.is_ipv4)
    }

    fn bytes(&self) -> &[u8] {
        self.frame.as_ref()
    }

    fn udp_offset(&self) -> usize {
        ETHERNET_LEN + ip_len(self.is_ipv4)
    }

    fn bth_offset(&self) -> usize {
        self.udp_offset() + UDP_LEN
    }

    fn extension_offset(&self) -> usize {
        self.bth_offset() + BTH_LEN
    }

    fn payload_offset(&self) -> usize {
        self.extension_offset() + self.opcode.extension_len()
    }

    fn original_field(&self) -> Option<Field> {
        let start = self.extension_offset() + 4;
        let has = self.opcode.has_atomic_ack_eth();
        has.then_some(start..start + 8)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the addresses of Ethernet, which the ICRC does not cover.
    pub fn set_ethernet(&mut self, source: [u8; 6], target: [u8; 6]) {
        let frame = self.frame.as_mut();
        frame[ethernet::SOURCE].copy_from_slice(&source);
        frame[ethernet::TARGET].copy_from_slice(&target);
    }

    /// Sets the addresses of IPv4 and repairs its checksum; false for a packet of IPv6.
    pub fn set_ipv4(&mut self, source: [u8; 4], target: [u8; 4]) -> bool {
        if !self.is_ipv4 {
            return false;
        }
        let mut new = [0; 8];
        new[..4].copy_from_slice(&source);
        new[4..].copy_from_slice(&target);
        self.repair_ipv4_checksum(&new);
        self.replace(ETHERNET_LEN + ipv4::SOURCE.start, &new);
        true
    }

    /// Sets the addresses of IPv6; false for a packet of IPv4.
    pub fn set_ipv6(&mut self, source: [u8; 16], target: [u8; 16]) -> bool {
        if self.is_ipv4 {
            return false;
        }
        let mut new = [0; 32];
        new[..16].copy_from_slice(&source);
        new[16..].copy_from_slice(&target);
        self.replace(ETHERNET_LEN + ipv6::SOURCE.start, &new);
        true
    }

    /// Sets the UDP source port.
    pub fn set_udp_source(&mut self, port: u16) {
        self.replace(self.udp_offset() + udp::SOURCE.start, &port.to_be_bytes());
    }

    /// Sets the number of the receiver's queue pair, modulo 2²⁴.
    pub fn set_qpn(&mut self, qpn: u32) {
        self.replace(self.bth_offset() + bth::QPN.start, &qpn.to_be_bytes()[1..]);
    }

    /// Sets the packet's sequence number.
    pub fn set_psn(&mut self, psn: Psn) {
        let bytes = psn.number().to_be_bytes();
        self.replace(self.bth_offset() + bth::PSN.start, &bytes[1..]);
    }

    /// Sets the virtual address of a READ, a WRITE or an atomic operation; false if the packet
    /// has none.
    pub fn set_address(&mut self, address: u64) -> bool {
        // Both headers begin with the address.
        const { assert!(reth::ADDRESS.start == atomic_eth::ADDRESS.start) };
        let has = self.opcode.has_reth() || self.opcode.has_atomic_eth();
        if has {
            let offset = self.extension_offset() + reth::ADDRESS.start;
            self.replace(offset, &address.to_be_bytes());
        }
        has
    }

    /// Sets the value that memory must have for a swap; false if the packet is no compare-and-swap.
    pub fn set_compare(&mut self, compare: u64) -> bool {
        let has = self.opcode == Opcode::CompareSwap;
        if has {
            let offset = self.extension_offset() + atomic_eth::COMPARE.start;
            self.replace(offset, &compare.to_be_bytes());
        }
        has
    }

    /// Sets the message sequence number of a response, modulo 2²⁴; false if the packet has none.
    pub fn set_msn(&mut self, msn: u32) -> bool {
        let has = self.opcode.has_aeth();
        if has {
            let offset = self.extension_offset() + aeth::MSN.start;
            self.replace(offset, &msn.to_be_bytes()[1..]);
        }
        has
    }

    /// Sets the original value in the response to an atomic operation; false if it is none.
    pub fn set_original(&mut self, value: u64) -> bool {
        let field = self.original_field();
        if let Some(field) = &field {
            self.replace(field.start, &value.to_be_bytes());
        }
        field.is_some()
    }

    /// Sets where the packet comes from and goes to, with one repair: addresses of Ethernet and IP,
    /// UDP source port, queue pair (modulo 2²⁴) and sequence number. False, and nothing is changed,
    /// if the packet is of the other version of IP.
    pub fn set_route(&mut self, addresses: &Addresses, qpn: u32, psn: Psn) -> bool {
        let ip_offset = match (&addresses.ip, self.is_ipv4) {
            (Ip::V4(_), true) => ipv4::SOURCE.start,
            (Ip::V6(_), false) => ipv6::SOURCE.start,
            _ => return false,
        };
        let Ethernet { source, target } = addresses.ethernet;
        self.set_ethernet(source, target);
        let (start, end) = (ETHERNET_LEN + ip_offset, self.bth_offset() + BTH_LEN);
        let (udp_start, bth_start) = (self.udp_offset() - start, self.bth_offset() - start);
        let mut old = [0; ROUTE_LEN_MAX];
        let old = &mut old[..end - start];
        old.copy_from_slice(&self.bytes()[start..end]);
        // It is masked in the ICRC, and will be 0.
        old[udp_start..][udp::CHECKSUM].fill(0);
        let mut new = [0; ROUTE_LEN_MAX];
        let new = &mut new[..end - start];
        new.copy_from_slice(old);
        match &addresses.ip {
            Ip::V4(ip) => {
                new[..4].copy_from_slice(&ip.source);
                new[4..8].copy_from_slice(&ip.target);
                let mut ends = [0; 8];
                ends.copy_from_slice(&new[..8]);
                self.repair_ipv4_checksum(&ends);
            }
            Ip::V6(ip) => {
                new[..16].copy_from_slice(&ip.source);
                new[16..32].copy_from_slice(&ip.target);
            }
        }
        put(
            &mut new[udp_start..][udp::SOURCE],
            addresses.udp_source.into(),
        );
        put(&mut new[bth_start..][bth::QPN], qpn.into());
        put(&mut new[bth_start..][bth::PSN], psn.number().into());
        let icrc_offset = self.icrc_offset;
        let repaired = icrc::repair(self.icrc(), old, new, icrc_offset - end);
        let frame = self.frame.as_mut();
        frame[start..end].copy_from_slice(new);
        frame[icrc_offset..][..ICRC_LEN].copy_from_slice(&repaired.to_le_bytes());
        true
    }

    /// Repairs the checksum of IPv4 for other addresses, which are not written yet.
    fn repair_ipv4_checksum(&mut self, new: &[u8; 8]) {
        let header = &mut self.frame.as_mut()[ETHERNET_LEN..][..IPV4_LEN];
        // RFC 1624, equation 3: the complement of the sum of old checksum's complement, the
        // complement of the old words, and the new ones.
        let mut words = [0; 18];
        for (word, old) in words
            .iter_mut()
            .zip(&header[ipv4::CHECKSUM.start..])
            .take(10)
        {
            *word = !old;
        }
        words[10..].copy_from_slice(new);
        put(&mut header[ipv4::CHECKSUM], (!ones_sum(&words)).into());
    }

    /// Writes a field that the ICRC covers unmasked, and repairs the ICRC.
    fn replace(&mut self, offset: usize, new: &[u8]) {
        let (udp_offset, icrc_offset) = (self.udp_offset(), self.icrc_offset);
        let icrc = self.icrc();
        let frame = self.frame.as_mut();
        let end = offset + new.len();
        let repaired = icrc::repair(icrc, &frame[offset..end], new, icrc_offset - end);
        frame[offset..end].copy_from_slice(new);
        frame[udp_offset..][udp::CHECKSUM].fill(0);
        frame[icrc_offset..][..ICRC_LEN].copy_from_slice(&repaired.to_le_bytes());
    }
}

/// Whether a frame is of IPv4, and where its UDP datagram lies, which is within the frame.
pub(super) fn datagram_of(frame: &[u8]) -> Result<(bool, Field), PacketError> {
    let link = frame.get(..ETHERNET_LEN).ok_or(PacketError::Truncated)?;
    let packet = &frame[ETHERNET_LEN..];
    let (is_ipv4, payload_len) = match number(&link[ethernet::ETHERTYPE]) as u16 {
        ETHERTYPE_IPV4 => (true, ipv4_payload_len(packet)?),
        ETHERTYPE_IPV6 => (false, ipv6_payload_len(packet)?),
        other => return Err(PacketError::EtherType(other)),
    };
    let start = ETHERNET_LEN + ip_len(is_ipv4);
    let end = start + payload_len;
    if end > FRAME_LEN_MAX {
        return Err(PacketError::TooLong);
    }
    if end > frame.len() {
        return Err(PacketError::Truncated);
    }
    Ok((is_ipv4, start..end))
}

/// The number of bytes after the IPv4 header, which must be complete.
fn ipv4_payload_len(packet: &[u8]) -> Result<usize, PacketError> {
    let header = packet.get(..IPV4_LEN).ok_or(PacketError::Truncated)?;
    // All flags and the offset, but "do not fragment" and the reserved one.
    let is_fragment = number(&header[ipv4::FRAGMENT]) & 0x3fff != 0;
    if header[ipv4::VERSION] != 0x45 || is_fragment || header[ipv4::PROTOCOL] != PROTOCOL_UDP {
        return Err(PacketError::Ip);
    }
    (number(&header[ipv4::TOTAL_LEN]) as usize)
        .checked_sub(IPV4_LEN)
        .ok_or(PacketError::Length)
}

/// The number of bytes after the IPv6 header, which must be complete.
fn ipv6_payload_len(packet: &[u8]) -> Result<usize, PacketError> {
    let header = packet.get(..IPV6_LEN).ok_or(PacketError::Truncated)?;
    if header[0] >> 4 != 6 || header[ipv6::NEXT_HEADER] != PROTOCOL_UDP {
        return Err(PacketError::Ip);
    }
    Ok(number(&header[ipv6::PAYLOAD_LEN]) as usize)
}

/// What a UDP datagram carries: at least a BTH, of version 0.
pub(super) fn transport_of(datagram: &[u8]) -> Result<&[u8], PacketError> {
    let (header, transport) = datagram
        .split_at_checked(UDP_LEN)
        .ok_or(PacketError::Length)?;
    let port = number(&header[udp::TARGET]) as u16;
    if port != UDP_PORT {
        return Err(PacketError::Port(port));
    }
    if number(&header[udp::LEN]) as usize != datagram.len() || transport.len() < BTH_LEN {
        return Err(PacketError::Length);
    }
    let flags = transport[bth::FLAGS];
    if flags & 0x0f != 0 {
        return Err(PacketError::Version(flags & 0x0f));
    }
    Ok(transport)
}

/// The opcode and the length of the payload of a UDP datagram.
fn check_datagram(datagram: &[u8]) -> Result<(Opcode, usize), PacketError> {
    let transport = transport_of(datagram)?;
    let flags = transport[bth::FLAGS];
    let code = transport[bth::OPCODE];
    let opcode = Opcode::from_code(code).ok_or(PacketError::Opcode(code))?;
    let pad_len = usize::from((flags >> 4) & 3);
    let padded_len = transport
        .len()
        .checked_sub(BTH_LEN + opcode.extension_len() + ICRC_LEN)
        .ok_or(PacketError::Length)?;
    let payload_len = padded_len.checked_sub(pad_len).ok_or(PacketError::Length)?;
    let has_wrong_pad = padded_len % 4 != 0 || (payload_len == 0 && pad_len > 0);
    if has_wrong_pad || (padded_len > 0 && !opcode.has_payload()) {
        return Err(PacketError::Length);
    }
    if payload_len > MTU_MAX {
        return Err(PacketError::TooLong);
    }
    Ok((opcode, payload_len))
}
