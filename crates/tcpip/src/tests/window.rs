//! A peer that sends more than the window.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpAddress, IpProtocol,
    Ipv4Address, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};

use crate::limits::RECEIVE_BUFFER;
use crate::{Checksums, Config, Stack};

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ADDRESS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const PEER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const PORT: u16 = 11211;
const SEGMENT: usize = 1460;

/// A segment of the peer, at a distance from its first sequence number.
fn frame(
    control: TcpControl,
    distance: usize,
    ack: Option<TcpSeqNumber>,
    payload: &[u8],
) -> Vec<u8> {
    let is_syn = control == TcpControl::Syn;
    let tcp = TcpRepr {
        src_port: 40_000,
        dst_port: PORT,
        control,
        seq_number: TcpSeqNumber(1000) + distance,
        ack_number: ack,
        window_len: u16::MAX,
        window_scale: is_syn.then_some(7),
        max_seg_size: is_syn.then_some(SEGMENT as u16),
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload,
    };
    let ip = Ipv4Repr {
        src_addr: PEER,
        dst_addr: ADDRESS,
        next_header: IpProtocol::Tcp,
        payload_len: tcp.buffer_len(),
        hop_limit: 64,
    };
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress([2, 0, 0, 0, 0, 2]),
        dst_addr: EthernetAddress(OWN),
        ethertype: EthernetProtocol::Ipv4,
    };
    let mut bytes = vec![0; ethernet.buffer_len() + ip.buffer_len() + tcp.buffer_len()];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    ethernet.emit(&mut frame);
    let checksums = ChecksumCapabilities::default();
    let mut packet = Ipv4Packet::new_unchecked(frame.payload_mut());
    ip.emit(&mut packet, &checksums);
    let mut segment = TcpPacket::new_unchecked(packet.payload_mut());
    let (from, to) = (IpAddress::Ipv4(PEER), IpAddress::Ipv4(ADDRESS));
    tcp.emit(&mut segment, &from, &to, &checksums);
    bytes
}

/// Sends `count` segments in order right after the handshake, before the stack answers. Returns
/// what the owner receives.
fn flooded(receive_buffer: usize, count: usize) -> Vec<u8> {
    let mut config = Config::new(OWN, ADDRESS, vec![PORT]);
    config.receive_buffer = receive_buffer;
    let mut stack = Stack::new(config, 0);
    let syn = frame(TcpControl::Syn, 0, None, &[]);
    stack.receive(&syn, Checksums::Unverified, 0);
    stack.flush(0);
    let answer = stack.frames().iter().next().unwrap().to_vec();
    stack.frames().clear();
    let answer = EthernetFrame::new_checked(&answer).unwrap();
    let answer = Ipv4Packet::new_checked(answer.payload()).unwrap();
    let answer = TcpPacket::new_checked(answer.payload()).unwrap();
    assert!(answer.syn() && answer.ack());
    let ack = Some(answer.seq_number() + 1);
    for number in 0..count {
        let payload = [number as u8; SEGMENT];
        let segment = frame(TcpControl::Psh, 1 + number * SEGMENT, ack, &payload);
        stack.receive(&segment, Checksums::Unverified, 0);
    }
    let id = stack.accept().unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = stack.recv(id, &mut buffer) {
        received.extend_from_slice(&buffer[..len]);
    }
    received
}

#[test]
fn more_than_the_window_is_cut() {
    for receive_buffer in [SEGMENT, RECEIVE_BUFFER, 1 << 20] {
        let bound = receive_buffer.min(RECEIVE_BUFFER);
        let received = flooded(receive_buffer, 120);
        assert!((bound - SEGMENT..=bound).contains(&received.len()));
        let sent = (0..120).flat_map(|number| [number; SEGMENT]);
        assert!(received.iter().copied().eq(sent.take(received.len())));
    }
}
