//! The sequence number of segments that only acknowledge.
//!
//! After a retransmission timeout, smoltcp sends again from the first unacknowledged byte. Until it
//! has caught up, its acknowledgements without data carry the sequence number of that byte. If the
//! peer has received that byte, the segment lies before its receive window, and it discards the
//! segment with its acknowledgement (RFC 9293, 3.10.7.4). If both ends retransmit at once, each
//! discards the acknowledgements of the other, and the connection makes no progress.
//!
//! So an acknowledgement without data is sent with the number after the last byte ever sent:
//! SND.NXT of RFC 9293, `snd_max` of BSD.

use smoltcp::wire::{IpProtocol, Ipv4Packet, TcpPacket, TcpSeqNumber};

/// The sequence number after the last byte that a connection has sent, if it has sent anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SentEnd(Option<TcpSeqNumber>);

impl SentEnd {
    /// Takes account of an IPv4 packet to send, which has no options, and corrects its sequence
    /// number.
    pub(crate) fn correct(&mut self, packet: &mut [u8]) {
        let ip = Ipv4Packet::new_unchecked(packet);
        if ip.next_header() != IpProtocol::Tcp {
            return;
        }
        let (source, target) = (ip.src_addr(), ip.dst_addr());
        let header_len = usize::from(ip.header_len());
        let packet = ip.into_inner();
        let mut segment = TcpPacket::new_unchecked(&mut packet[header_len..]);
        if segment.rst() {
            return;
        }
        let start = segment.seq_number();
        let len = segment.segment_len();
        match self.0 {
            Some(end) if len == 0 && start < end => {
                segment.set_seq_number(end);
                segment.fill_checksum(&source.into(), &target.into());
            }
            Some(end) if start + len <= end => {}
            _ => self.0 = Some(start + len),
        }
    }
}
