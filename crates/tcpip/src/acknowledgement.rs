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

use crate::limits::RECEIVE_BUFFER;

/// The numbers of what a connection has sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SentEnd {
    /// The sequence number after the last byte, if anything has been sent.
    end: Option<TcpSeqNumber>,
    /// The last acknowledgement.
    acknowledged: Option<TcpSeqNumber>,
}

impl SentEnd {
    /// Whether an arriving IPv4 packet may come from the peer: it acknowledges what may be
    /// unacknowledged, and lies near the receive window. Who does not see the connection's packets
    /// has to guess both numbers (RFC 5961). `send_buffer` is the length of the send buffer.
    pub(crate) fn is_known_to_sender_of(&self, packet: &[u8], send_buffer: usize) -> bool {
        let ip = Ipv4Packet::new_unchecked(packet);
        let segment = TcpPacket::new_unchecked(ip.payload());
        let (Some(end), Some(acknowledged)) = (self.end, self.acknowledged) else {
            return false;
        };
        // The end of the stream takes a number too.
        let unacknowledged = end.0.wrapping_sub(segment.ack_number().0);
        let is_old = unacknowledged < 0 || unacknowledged as usize > send_buffer + 1;
        let distance = segment.seq_number().0.wrapping_sub(acknowledged.0);
        segment.ack() && !is_old && distance.unsigned_abs() as usize <= RECEIVE_BUFFER
    }

    /// Whether a segment acknowledges everything that was sent.
    pub(crate) fn is_acknowledged_by(&self, segment: &TcpPacket<&[u8]>) -> bool {
        segment.ack() && self.end == Some(segment.ack_number())
    }

    /// Whether a segment is the next one that is expected.
    pub(crate) fn is_next_after_acknowledged(&self, segment: &TcpPacket<&[u8]>) -> bool {
        self.acknowledged == Some(segment.seq_number())
    }

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
        if segment.ack() {
            self.acknowledged = Some(segment.ack_number());
        }
        let start = segment.seq_number();
        let len = segment.segment_len();
        match self.end {
            Some(end) if len == 0 && start < end => {
                segment.set_seq_number(end);
                segment.fill_checksum(&source.into(), &target.into());
            }
            Some(end) if start + len <= end => {}
            _ => self.end = Some(start + len),
        }
    }
}
