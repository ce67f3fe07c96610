//! The headers below the transport as values: Ethernet, IP and the UDP source port.

use super::layout::{
    ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, PROTOCOL_UDP, UDP_LEN,
    UDP_PORT, ethernet, ip_len, ipv4, ipv6, number, put, udp,
};

/// Where a packet comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The frame's addresses.
    pub ethernet: Ethernet,
    /// The IP header.
    pub ip: Ip,
    /// The source port. It only spreads connections over paths and queues; the target is 4791.
    pub udp_source: u16,
}

/// Addresses of Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// The sender.
    pub source: [u8; 6],
    /// The receiver.
    pub target: [u8; 6],
}

/// An IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// Version 4, without options.
    V4(Ipv4),
    /// Version 6, without extension headers.
    V6(Ipv6),
}

/// The header of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// The sender.
    pub source: [u8; 4],
    /// The receiver.
    pub target: [u8; 4],
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Hops that the packet may still go.
    pub ttl: u8,
    /// Identification of the datagram.
    pub identification: u16,
    /// Routers must not fragment the packet. Fragments are refused.
    pub dont_fragment: bool,
}

impl Ipv4 {
    /// The header between two hosts on a network of their own: nothing special, and no fragments.
    #[must_use]
    pub const fn between(source: [u8; 4], target: [u8; 4]) -> Self {
        Self {
            source,
            target,
            tos: 0,
            ttl: 64,
            identification: 0,
            dont_fragment: true,
        }
    }
}

/// The header of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// The sender.
    pub source: [u8; 16],
    /// The receiver.
    pub target: [u8; 16],
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Label of the flow, 20 bits.
    pub flow_label: u32,
    /// Hops that the packet may still go.
    pub hop_limit: u8,
}

impl Addresses {
    /// The addresses of an answer: both ends exchanged, the port kept.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            ethernet: Ethernet {
                source: self.ethernet.target,
                target: self.ethernet.source,
            },
            ip: match self.ip {
                Ip::V4(ip) => Ip::V4(Ipv4 {
                    source: ip.target,
                    target: ip.source,
                    ..ip
                }),
                Ip::V6(ip) => Ip::V6(Ipv6 {
                    source: ip.target,
                    target: ip.source,
                    ..ip
                }),
            },
            udp_source: self.udp_source,
        }
    }

    /// Length in bytes of the headers before the transport header.
    pub(crate) fn headers_len(&self) -> usize {
        ETHERNET_LEN + self.ip_len() + UDP_LEN
    }

    pub(crate) fn ip_len(&self) -> usize {
        match self.ip {
            Ip::V4(_) => IPV4_LEN,
            Ip::V6(_) => IPV6_LEN,
        }
    }

    /// Reads the headers of a frame whose lengths were checked.
    pub(crate) fn parse(frame: &[u8], is_ipv4: bool) -> Self {
        let (link, packet) = frame.split_at(ETHERNET_LEN);
        let ip_len = ip_len(is_ipv4);
        Self {
            ethernet: Ethernet {
                source: array(&link[ethernet::SOURCE]),
                target: array(&link[ethernet::TARGET]),
            },
            ip: if is_ipv4 {
                Ip::V4(Ipv4::parse(packet))
            } else {
                Ip::V6(Ipv6::parse(packet))
            },
            udp_source: number(&packet[ip_len..][udp::SOURCE]) as u16,
        }
    }

    /// Writes the headers for `payload_len` bytes after the UDP header. The UDP checksum is 0,
    /// which means that there is none: the ICRC protects the packet.
    pub(crate) fn emit(&self, frame: &mut [u8], payload_len: usize) {
        let (link, packet) = frame.split_at_mut(ETHERNET_LEN);
        link[ethernet::SOURCE].copy_from_slice(&self.ethernet.source);
        link[ethernet::TARGET].copy_from_slice(&self.ethernet.target);
        let (ip, rest) = packet.split_at_mut(self.ip_len());
        let udp_len = UDP_LEN + payload_len;
        let ethertype = match &self.ip {
            Ip::V4(header) => {
                header.emit(ip, udp_len);
                ETHERTYPE_IPV4
            }
            Ip::V6(header) => {
                header.emit(ip, udp_len);
                ETHERTYPE_IPV6
            }
        };
        put(&mut link[ethernet::ETHERTYPE], ethertype.into());
        put(&mut rest[udp::SOURCE], self.udp_source.into());
        put(&mut rest[udp::TARGET], UDP_PORT.into());
        put(&mut rest[udp::LEN], udp_len as u64);
        rest[udp::CHECKSUM].fill(0);
    }
}

impl Ipv4 {
    /// Flag of the fragment field: do not fragment.
    const DONT_FRAGMENT: u64 = 0x4000;

    fn parse(bytes: &[u8]) -> Self {
        Self {
            source: array(&bytes[ipv4::SOURCE]),
            target: array(&bytes[ipv4::TARGET]),
            tos: bytes[ipv4::TOS],
            ttl: bytes[ipv4::TTL],
            identification: number(&bytes[ipv4::IDENTIFICATION]) as u16,
            dont_fragment: number(&bytes[ipv4::FRAGMENT]) & Self::DONT_FRAGMENT != 0,
        }
    }

    fn emit(&self, bytes: &mut [u8], payload_len: usize) {
        bytes[ipv4::VERSION] = 0x45;
        bytes[ipv4::TOS] = self.tos;
        put(&mut bytes[ipv4::TOTAL_LEN], (IPV4_LEN + payload_len) as u64);
        put(&mut bytes[ipv4::IDENTIFICATION], self.identification.into());
        let fragment = if self.dont_fragment {
            Self::DONT_FRAGMENT
        } else {
            0
        };
        put(&mut bytes[ipv4::FRAGMENT], fragment);
        bytes[ipv4::TTL] = self.ttl;
        bytes[ipv4::PROTOCOL] = PROTOCOL_UDP;
        bytes[ipv4::CHECKSUM].fill(0);
        bytes[ipv4::SOURCE].copy_from_slice(&self.source);
        bytes[ipv4::TARGET].copy_from_slice(&self.target);
        let checksum = !ones_sum(&bytes[..IPV4_LEN]);
        put(&mut bytes[ipv4::CHECKSUM], checksum.into());
    }
}

impl Ipv6 {
    fn parse(bytes: &[u8]) -> Self {
        let first = number(&bytes[ipv6::VERSION_CLASS_FLOW]);
        Self {
            source: array(&bytes[ipv6::SOURCE]),
            target: array(&bytes[ipv6::TARGET]),
            traffic_class: (first >> 20) as u8,
            flow_label: (first & 0xf_ffff) as u32,
            hop_limit: bytes[ipv6::HOP_LIMIT],
        }
    }

    fn emit(&self, bytes: &mut [u8], payload_len: usize) {
        let flow_label = u64::from(self.flow_label & 0xf_ffff);
        let first = (6 << 28) | (u64::from(self.traffic_class) << 20) | flow_label;
        put(&mut bytes[ipv6::VERSION_CLASS_FLOW], first);
        put(&mut bytes[ipv6::PAYLOAD_LEN], payload_len as u64);
        bytes[ipv6::NEXT_HEADER] = PROTOCOL_UDP;
        bytes[ipv6::HOP_LIMIT] = self.hop_limit;
        bytes[ipv6::SOURCE].copy_from_slice(&self.source);
        bytes[ipv6::TARGET].copy_from_slice(&self.target);
    }
}

/// The sum of 16-bit words in ones' complement (RFC 1071). Over an intact header it is 0xffff.
pub(crate) fn ones_sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|word| number(word) as u32).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Bytes whose number the caller has checked.
fn array<const LEN: usize>(bytes: &[u8]) -> [u8; LEN] {
    let mut array = [0; LEN];
    array.copy_from_slice(bytes);
    array
}
