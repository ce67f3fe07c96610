use super::*;
use crate::device_pair::{device_pair, ip};
use crate::namespace::NetworkNamespace;
use crate::packet::PacketSocket;
use crate::poll::{Interest, is_ready_within};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

fn open(frames: usize) -> PacketRing {
    let device = Device::find("two").unwrap();
    PacketRing::open(&device, Ipv4Addr::new(192, 0, 2, 2), frames).unwrap()
}

/// Waits for a frame, and returns its bytes and whether its checksum is verified.
fn receive(ring: &mut PacketRing) -> (Vec<u8>, bool) {
    is_ready_within(&*ring, Interest::Read, 5_000_000_000).unwrap();
    let mut received = None;
    assert!(ring.has_frame());
    assert!(ring.receive(|frame| received = Some((frame.bytes.to_vec(), frame.is_verified))));
    received.unwrap()
}

#[test]
fn packets_for_the_address_arrive_and_others_do_not() {
    let Some(namespace) = device_pair() else {
        return;
    };
    namespace
        .run(|| {
            let mut ring = open(64);
            assert!(!ring.has_frame());
            assert!(!ring.receive(|_| panic!("no frame has arrived")));
            let sender = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            assert!(ip(
                "neighbour add 192.0.2.3 lladdr 02:00:00:00:00:03 dev one nud permanent"
            ));
            sender.send_to(b"for another", "192.0.2.3:7").unwrap();
            // More than there are slots, so each slot is used several times.
            for number in 0..200_u32 {
                sender
                    .send_to(&number.to_be_bytes(), "192.0.2.2:7")
                    .unwrap();
                let (frame, is_verified) = receive(&mut ring);
                assert_eq!(frame[42..46], number.to_be_bytes());
                assert!(is_verified, "the kernel leaves the checksum to the device");
            }
            assert!(!ring.has_frame());
        })
        .unwrap();
}

#[test]
fn frames_that_find_no_slot_are_counted() {
    const SENT: u64 = 500;
    let Some(namespace) = device_pair() else {
        return;
    };
    namespace
        .run(|| {
            let mut ring = open(64);
            let sender = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            let send = || assert_eq!(sender.send_to(b"frame", "192.0.2.2:7").unwrap(), 5);
            (0..SENT).for_each(|_| send());
            let mut received = 0;
            while ring.receive(|_| received += 1) {}
            // The next frame says that others were lost.
            assert_eq!(ring.lost(), 0);
            send();
            receive(&mut ring);
            assert_eq!(received + ring.lost(), SENT);
            assert!(ring.lost() > 0);
        })
        .unwrap();
}

#[test]
fn a_frame_that_is_too_long_for_the_device_is_lost_and_others_are_sent() {
    let Some(namespace) = device_pair() else {
        return;
    };
    namespace
        .run(|| {
            let ring = open(64);
            let frame = |len| {
                let mut frame = vec![0; len];
                frame[12..14].copy_from_slice(&[8, 0]);
                frame
            };
            let frames = [frame(60), frame(4000), frame(60)];
            let mut rest: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            while !rest.is_empty() {
                let sent = ring.send(rest.iter().copied()).unwrap();
                assert!(sent > 0);
                rest.drain(..sent);
            }
        })
        .unwrap();
}

#[test]
fn a_frame_that_is_longer_than_a_slot_arrives_whole() {
    let Some(namespace) = device_pair() else {
        return;
    };
    namespace
        .run(|| {
            let mut ring = open(64);
            let sender = PacketSocket::open("one", 1 << 20).unwrap();
            assert!(ip("link set one mtu 9000"));
            assert!(ip("link set two mtu 9000"));
            let mut frame: Vec<u8> = (0..8000_u32).map(|at| (at % 251) as u8).collect();
            frame[12..14].copy_from_slice(&[8, 0]);
            frame[30..34].copy_from_slice(&[192, 0, 2, 2]);
            for _ in 0..100 {
                assert!(sender.send(&frame).unwrap());
                assert_eq!(receive(&mut ring).0, frame);
            }
        })
        .unwrap();
}

#[test]
fn sent_frames_arrive_at_the_other_end() {
    let Some(namespace) = device_pair() else {
        return;
    };
    namespace
        .run(|| {
            // The kernel never passes frames of a socket to itself, but to others of the device.
            let (ring, other) = (open(64), open(64));
            let receiver = PacketSocket::open("one", 4 << 20).unwrap();
            let frame = |at| {
                let mut frame = vec![at; 60];
                // The ring's filter would pass it.
                frame[12..14].copy_from_slice(&[8, 0]);
                frame[30..34].copy_from_slice(&[192, 0, 2, 2]);
                frame
            };
            let frames: Vec<Vec<u8>> = (0..150).map(frame).collect();
            let sent = ring.send(frames.iter().map(Vec::as_slice)).unwrap();
            assert_eq!(sent, 150);
            let has_frame = ring.has_frame() || other.has_frame();
            assert!(!has_frame, "sent frames do not arrive here");
            let mut buffer = [0; 100];
            for frame in &frames {
                let (len, _) = receiver.recv_stamped(&mut buffer).unwrap();
                assert_eq!(&buffer[..len], frame);
            }
        })
        .unwrap();
}

/// The number of a VLAN is another network; a tag without one has a priority only.
#[test]
fn frames_of_a_vlan_are_skipped_and_tags_with_a_priority_only_are_ignored() {
    const PRIORITY: u8 = 3 << 5;
    let Some(namespace) = device_pair() else {
        return;
    };
    namespace
        .run(|| {
            let mut ring = open(64);
            let sender = PacketSocket::open("one", 1 << 20).unwrap();
            for (tag, last) in [([PRIORITY, 5], 1), ([PRIORITY, 0], 2)] {
                let mut frame = [0xff; 64];
                // The tag, and IPv4 for the address of the ring.
                frame[12..18].copy_from_slice(&[0x81, 0, tag[0], tag[1], 8, 0]);
                frame[34..38].copy_from_slice(&[192, 0, 2, 2]);
                frame[63] = last;
                assert!(sender.send(&frame).unwrap());
            }
            let (mut taken, mut read) = (0, Vec::new());
            while taken < 2 {
                let is_ready = is_ready_within(&ring, Interest::Read, 5_000_000_000);
                assert!(is_ready.unwrap(), "{taken} frames");
                let read_one = |frame: ReceivedFrame<'_>| read = frame.bytes.to_vec();
                taken += u32::from(ring.receive(read_one));
                assert!(taken == 2 || read.is_empty(), "a frame of another network");
            }
            assert_eq!((read.len(), read[12..14].to_vec()), (60, vec![8, 0]));
            assert_eq!(read.last(), Some(&2));
        })
        .unwrap();
}

#[test]
fn sockets_that_share_a_device_receive_each_frame_once_and_flows_stay_together() {
    let Some(namespace) = device_pair() else {
        return;
    };
    namespace
        .run(|| {
            let mut rings: Vec<PacketRing> = (0..3).map(|_| open(256)).collect();
            let group = rings[0].share(None).unwrap();
            for ring in &rings[1..] {
                assert_eq!(ring.share(Some(group)).unwrap(), group);
            }
            let senders: Vec<UdpSocket> = (0..16)
                .map(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap())
                .collect();
            for sender in &senders {
                for _ in 0..10 {
                    sender.send_to(b"x", "192.0.2.2:7").unwrap();
                }
            }
            let mut flows = std::collections::BTreeMap::new();
            for (number, ring) in rings.iter_mut().enumerate() {
                let mut count = |frame: ReceivedFrame<'_>| {
                    let port = [frame.bytes[34], frame.bytes[35]];
                    *flows.entry((port, number)).or_insert(0) += 1;
                };
                while ring.receive(&mut count) {}
            }
            assert_eq!(flows.len(), 16, "{flows:?}");
            assert!(flows.values().all(|&count| count == 10));
        })
        .unwrap();
}

#[test]
fn unknown_devices_and_those_that_are_down_are_errors() {
    let Some(namespace) = device_pair() else {
        return;
    };
    namespace
        .run(|| {
            let kind = |name: &str| Device::find(name).unwrap_err().kind();
            assert_eq!(kind("three"), io::ErrorKind::NotFound);
            assert_eq!(kind(""), io::ErrorKind::NotFound);
            assert_eq!(kind("lo"), io::ErrorKind::NetworkDown);
            assert!(ip("link set lo up"));
            assert_eq!(kind("lo"), io::ErrorKind::Unsupported);
            assert_eq!(Device::find("two").unwrap().mtu, 1500);
        })
        .unwrap();
}

/// A connection of the kernel over the ring's device is not disturbed by the ring, which receives
/// none of its packets.
#[test]
fn the_kernel_receives_what_is_for_its_own_address() {
    let Some(namespace) = device_pair() else {
        return;
    };
    // Within one namespace the kernel would use the loopback device.
    let peer = NetworkNamespace::new().unwrap();
    let path = peer.path();
    let open_both = || {
        assert!(ip(&format!("link set one netns {}", path.display())));
        assert!(ip("address add 192.0.2.7/24 dev two"));
        (open(64), TcpListener::bind("192.0.2.7:0").unwrap())
    };
    let (mut ring, listener) = namespace.run(open_both).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || {
        assert!(ip("link set one up"));
        assert!(ip("address add 192.0.2.1/24 dev one"));
        assert!(ip(
            "neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev one nud permanent"
        ));
        let mut stream = TcpStream::connect(address).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        stream.write_all(b"x").unwrap();
        accepted.read_exact(&mut [0]).unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        sender.send_to(b"for the ring", "192.0.2.2:7").unwrap();
    };
    peer.run(connect).unwrap();
    let arp = [8, 6];
    let first = std::iter::repeat_with(|| receive(&mut ring).0).find(|it| it[12..14] != arp);
    assert_eq!(first.unwrap()[42..], *b"for the ring");
}
