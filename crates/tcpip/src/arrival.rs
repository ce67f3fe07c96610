//! What a received frame is.

use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    Icmpv4Packet, IpProtocol, Ipv4Address, Ipv4Packet, TcpPacket,
};

use crate::stack::{Checksums, Config};

/// Addresses and ports of a connection, except for the address of this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) peer: u32,
    pub(crate) peer_port: u16,
    pub(crate) local_port: u16,
}

/// A frame for this stack, or why it is none.
#[derive(Debug)]
pub(crate) enum Arrival<'f> {
    /// An ARP request for the hardware address of this end.
    ArpRequest {
        peer: EthernetAddress,
        peer_ip: Ipv4Address,
    },
    /// An IPv4 packet with an ICMP message.
    Icmp {
        peer: EthernetAddress,
        packet: &'f [u8],
    },
    /// An IPv4 packet with a TCP segment.
    Tcp {
        peer: EthernetAddress,
        packet: &'f [u8],
        key: Key,
        /// The segment opens a connection: it has the flag SYN, and neither ACK nor RST.
        opens: bool,
    },
    /// A frame for another host, of another protocol, or of a kind that is not supported.
    Foreign,
    /// A frame that is truncated or has a wrong checksum.
    Damaged,
}

/// Finds out what a frame is.
pub(crate) fn classify<'f>(frame: &'f [u8], checksums: Checksums, config: &Config) -> Arrival<'f> {
    let Ok(ethernet) = EthernetFrame::new_checked(frame) else {
        return Arrival::Damaged;
    };
    let peer = ethernet.src_addr();
    let is_own = ethernet.dst_addr().0 == config.hardware_address;
    if !peer.is_unicast() || !(is_own || ethernet.dst_addr().is_broadcast()) {
        return Arrival::Foreign;
    }
    match ethernet.ethertype() {
        EthernetProtocol::Arp => arp(ethernet.payload(), config),
        EthernetProtocol::Ipv4 if is_own => ipv4(peer, ethernet.payload(), checksums, config),
        _ => Arrival::Foreign,
    }
}

fn arp<'f>(bytes: &[u8], config: &Config) -> Arrival<'f> {
    let parsed = ArpPacket::new_checked(bytes).and_then(|packet| ArpRepr::parse(&packet));
    let Ok(ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: peer,
        source_protocol_addr: peer_ip,
        target_protocol_addr,
        ..
    }) = parsed
    else {
        return Arrival::Damaged;
    };
    // A peer that checks whether its address is free has no address yet.
    let is_valid = peer.is_unicast() && peer_ip != config.address;
    if operation == ArpOperation::Request && target_protocol_addr == config.address && is_valid {
        Arrival::ArpRequest { peer, peer_ip }
    } else {
        Arrival::Foreign
    }
}

fn ipv4<'f>(
    peer: EthernetAddress,
    bytes: &'f [u8],
    checksums: Checksums,
    config: &Config,
) -> Arrival<'f> {
    let Ok(packet) = Ipv4Packet::new_checked(bytes) else {
        return Arrival::Damaged;
    };
    if packet.version() != 4 || !packet.verify_checksum() {
        return Arrival::Damaged;
    }
    let (source, target) = (packet.src_addr(), packet.dst_addr());
    let is_peer = !source.is_unspecified()
        && !source.is_multicast()
        && !source.is_broadcast()
        && source != config.address;
    let is_fragment = packet.more_frags() || packet.frag_offset() != 0;
    if target != config.address || !is_peer || is_fragment {
        return Arrival::Foreign;
    }
    let is_verified = checksums == Checksums::Verified;
    match packet.next_header() {
        IpProtocol::Tcp => {
            let Ok(segment) = TcpPacket::new_checked(packet.payload()) else {
                return Arrival::Damaged;
            };
            let is_right = is_verified || segment.verify_checksum(&source.into(), &target.into());
            if !is_right || segment.src_port() == 0 || segment.dst_port() == 0 {
                return Arrival::Damaged;
            }
            Arrival::Tcp {
                peer,
                packet: bytes,
                key: Key {
                    peer: source.to_bits(),
                    peer_port: segment.src_port(),
                    local_port: segment.dst_port(),
                },
                opens: segment.syn() && !segment.ack() && !segment.rst(),
            }
        }
        IpProtocol::Icmp => match Icmpv4Packet::new_checked(packet.payload()) {
            Ok(message) if is_verified || message.verify_checksum() => Arrival::Icmp {
                peer,
                packet: bytes,
            },
            _ => Arrival::Damaged,
        },
        _ => Arrival::Foreign,
    }
}
