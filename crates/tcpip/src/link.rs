//! The link as smoltcp sees it: at most one packet to receive, and a queue of frames to send.

use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, Ipv4Address,
};

use crate::acknowledgement::SentEnd;
use crate::limits::{ETHERNET_HEADER, FRAMES_MAX};
use crate::stack::Config;

/// Ethernet frames that wait to be sent, in one piece of memory that is reused. At [`FRAMES_MAX`],
/// connections send none. smoltcp's immediate answers to received frames are added up to twice as
/// many.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Where each frame ends in `bytes`.
    ends: Vec<usize>,
}

impl Frames {
    /// Returns the number of frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the frames in the order of sending.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.bytes[start..end])
    }

    /// Removes all frames, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Removes the first `count` frames.
    pub fn remove_first(&mut self, count: usize) {
        let Some(end) = count
            .checked_sub(1)
            .and_then(|last| self.ends.get(last))
            .copied()
        else {
            return;
        };
        self.bytes.drain(..end);
        self.ends.drain(..count);
        for other in &mut self.ends {
            *other -= end;
        }
    }

    /// Returns whether [`FRAMES_MAX`] is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.ends.len() >= FRAMES_MAX
    }

    /// Appends a frame with `len` bytes of payload, which `write` fills.
    fn push<R>(&mut self, header: Header, len: usize, write: impl FnOnce(&mut [u8]) -> R) -> R {
        let start = self.bytes.len();
        self.bytes.resize(start + ETHERNET_HEADER + len, 0);
        let mut frame = EthernetFrame::new_unchecked(&mut self.bytes[start..]);
        frame.set_src_addr(header.source);
        frame.set_dst_addr(header.target);
        frame.set_ethertype(header.protocol);
        let written = write(frame.payload_mut());
        self.ends.push(self.bytes.len());
        written
    }

    /// Appends an ARP reply with the hardware address of this end.
    pub(crate) fn push_arp_reply(
        &mut self,
        config: &Config,
        peer: EthernetAddress,
        peer_ip: Ipv4Address,
    ) {
        let reply = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply,
            source_hardware_addr: EthernetAddress(config.hardware_address),
            source_protocol_addr: config.address,
            target_hardware_addr: peer,
            target_protocol_addr: peer_ip,
        };
        let header = Header::new(config, peer, EthernetProtocol::Arp);
        self.push(header, reply.buffer_len(), |bytes| {
            reply.emit(&mut ArpPacket::new_unchecked(bytes));
        });
    }
}

/// The fields of an Ethernet header.
#[derive(Debug, Clone, Copy)]
struct Header {
    source: EthernetAddress,
    target: EthernetAddress,
    protocol: EthernetProtocol,
}

impl Header {
    fn new(config: &Config, target: EthernetAddress, protocol: EthernetProtocol) -> Self {
        Self {
            source: EthernetAddress(config.hardware_address),
            target,
            protocol,
        }
    }
}

/// The link while one packet is received, or while one connection sends. Packets that smoltcp sends
/// become frames for one peer.
pub(crate) struct Link<'a> {
    packet: Option<&'a [u8]>,
    frames: &'a mut Frames,
    sent_end: &'a mut SentEnd,
    header: Header,
    mtu: usize,
}

impl<'a> Link<'a> {
    /// Creates a link to the host with the hardware address `peer`, from which `packet` has come.
    /// `sent_end` is that of the connection which sends.
    pub(crate) fn new(
        config: &Config,
        peer: EthernetAddress,
        packet: Option<&'a [u8]>,
        frames: &'a mut Frames,
        sent_end: &'a mut SentEnd,
    ) -> Self {
        Self {
            packet,
            frames,
            sent_end,
            header: Header::new(config, peer, EthernetProtocol::Ipv4),
            mtu: config.mtu,
        }
    }
}

impl Device for Link<'_> {
    type RxToken<'t>
        = Received<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Sent<'t>
    where
        Self: 't;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Sent<'_>)> {
        let packet = self.packet.take()?;
        let sent = Sent {
            frames: self.frames,
            sent_end: self.sent_end,
            header: self.header,
        };
        Some((Received(packet), sent))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        (!self.frames.is_full()).then_some(Sent {
            frames: self.frames,
            sent_end: self.sent_end,
            header: self.header,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        // Received ones have been verified, or need not be (`Checksums`).
        capabilities.checksum.ipv4 = Checksum::Tx;
        capabilities.checksum.tcp = Checksum::Tx;
        capabilities.checksum.icmpv4 = Checksum::Tx;
        capabilities
    }
}

/// A received packet.
pub(crate) struct Received<'t>(&'t [u8]);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

/// Space for a packet to send.
pub(crate) struct Sent<'t> {
    frames: &'t mut Frames,
    sent_end: &'t mut SentEnd,
    header: Header,
}

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let Self {
            frames,
            sent_end,
            header,
        } = self;
        frames.push(header, len, |packet| {
            let written = write(packet);
            sent_end.correct(packet);
            written
        })
    }
}
