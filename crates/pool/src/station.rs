//! Where a host of the pool is on the network.

use roce::wire::{Addresses, Datagram, Ethernet, Ip, Ipv4, Repr, Transport};

/// The addresses of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Station {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its IPv4 address.
    pub ip: [u8; 4],
    /// The UDP source port of its packets.
    pub udp_source: u16,
}

/// What a frame for a host contains.
pub(crate) enum Frame<'a> {
    /// A packet of a reliable connection, and its sender.
    Packet(Station, Transport<'a>),
    Datagram(Datagram<'a>),
}

impl Station {
    /// The host with this IP address, and an Ethernet address made of it: 02:00 and the four
    /// bytes. No address has to be resolved then.
    pub const fn of_ip(ip: [u8; 4], udp_source: u16) -> Self {
        let [a, b, c, d] = ip;
        Self {
            mac: [2, 0, a, b, c, d],
            ip,
            udp_source,
        }
    }

    /// The addresses of packets to another host.
    pub fn to(&self, target: &Self) -> Addresses {
        Addresses {
            ethernet: Ethernet {
                source: self.mac,
                target: target.mac,
            },
            ip: Ip::V4(Ipv4::between(self.ip, target.ip)),
            udp_source: self.udp_source,
        }
    }

    /// The sender of packets with these addresses. Nothing for IPv6.
    pub fn sender(addresses: &Addresses) -> Option<Self> {
        match addresses.ip {
            Ip::V4(ip) => Some(Self {
                mac: addresses.ethernet.source,
                ip: ip.source,
                udp_source: addresses.udp_source,
            }),
            Ip::V6(_) => None,
        }
    }

    /// Whether packets with these addresses are for this host.
    pub fn is_target(&self, addresses: &Addresses) -> bool {
        matches!(addresses.ip, Ip::V4(ip) if ip.target == self.ip)
    }

    /// Reads a frame. Nothing if it is damaged, no packet, or for another host.
    pub(crate) fn parse<'a>(&self, frame: &'a [u8]) -> Option<Frame<'a>> {
        let (addresses, content) = match Repr::parse(frame) {
            Ok(packet) => {
                let sender = Self::sender(&packet.addresses)?;
                (packet.addresses, Frame::Packet(sender, packet.transport))
            }
            Err(_) => {
                let datagram = Datagram::parse(frame).ok()?;
                (datagram.addresses, Frame::Datagram(datagram))
            }
        };
        self.is_target(&addresses).then_some(content)
    }

    /// Sends a datagram to the queue pair `qpn` of another host.
    pub(crate) fn send(
        &self,
        target: &Self,
        qpn: u32,
        queue_key: u32,
        payload: &[u8],
        send: &mut impl FnMut(&[u8]),
    ) {
        let datagram = Datagram {
            addresses: self.to(target),
            qpn,
            source_qpn: qpn,
            queue_key,
            payload,
        };
        let mut frame = Vec::new();
        // Messages are much shorter than the largest payload.
        if datagram.emit(&mut frame).is_ok() {
            send(&frame);
        }
    }
}
