//! Packets worked out by hand from the specification; their ICRCs were computed with zlib.

use crate::wire::{
    Addresses, Aeth, AtomicEth, Body, Bth, Ethernet, Ip, Ipv4, Ipv6, NakCode, Packet, PacketError,
    Psn, Repr, Reth, Syndrome, Transport,
};

/// Ethernet, IPv4 with the given total length and checksum, UDP with the given length.
macro_rules! ipv4 {
    ($total:literal, $checksum:literal, $udp:literal) => {
        concat!(
            "020000000002 020000000001 0800",
            "45 02 ",
            $total,
            " 1234 4000 40 11 ",
            $checksum,
            " 0a000001 0a000002",
            "c0de 12b7 ",
            $udp,
            " 0000",
        )
    };
}

/// WRITE only with immediate data; five bytes of payload, so three of pad.
const WRITE: &str = concat!(
    ipv4!("0048", "146d", "0034"),
    "0b f0 ffff 40 000011 80 00abcd",
    "00007f0000001000 00001234 00000005 cafebabe",
    "68656c6c6f 000000 6638fea6",
);
const COMPARE_SWAP: &str = concat!(
    ipv4!("0048", "146d", "0034"),
    "13 40 ffff 00 000011 80 fffffe",
    "00007f0000001008 00001234 00000000000000aa 0000000000000000 ea299b5a",
);
const ATOMIC_ACKNOWLEDGE: &str = concat!(
    ipv4!("0038", "147d", "0024"),
    "12 40 ffff 00 000012 00 fffffe 1f000007 00000000000000bb 5d0b83d6",
);
/// A negative acknowledgement: remote access error.
const NAK: &str = concat!(
    ipv4!("0030", "1485", "001c"),
    "11 40 ffff 00 000012 00 000005 62000003 9cb95d5a",
);
const READ_REQUEST: &str = concat!(
    "020000000002 020000000001 86dd",
    "6 28 abcde 0028 11 3f",
    "20010db8000000000000000000000001 20010db8000000000000000000000002",
    "c0de 12b7 0028 0000",
    "0c 40 ffff 00 000011 80 000001",
    "00007f0000002000 00001234 00000400 1a4e23ba",
);

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|letter| letter.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] << 4) | pair[1])
        .collect()
}

fn addresses() -> Addresses {
    Addresses {
        ethernet: Ethernet {
            source: [2, 0, 0, 0, 0, 1],
            target: [2, 0, 0, 0, 0, 2],
        },
        ip: Ip::V4(Ipv4 {
            source: [10, 0, 0, 1],
            target: [10, 0, 0, 2],
            tos: 2,
            ttl: 64,
            identification: 0x1234,
            dont_fragment: true,
        }),
        udp_source: 0xc0de,
    }
}

/// The packets as values, beside their bytes.
fn packets() -> [(Repr<'static>, &'static str); 5] {
    let request = |psn| Bth {
        ack_requested: true,
        ..Bth::new(0x11, Psn::new(psn))
    };
    let response = |psn| Bth::new(0x12, Psn::new(psn));
    let ipv4 = |bth, body| Repr {
        addresses: addresses(),
        transport: Transport { bth, body },
    };
    let write = Body::WriteOnly {
        reth: Reth {
            address: 0x7f00_0000_1000,
            key: 0x1234,
            len: 5,
        },
        immediate: Some(0xcafe_babe),
        payload: b"hello",
    };
    let write_bth = Bth {
        solicited: true,
        becn: true,
        ..request(0xabcd)
    };
    let compare_swap = Body::CompareSwap(AtomicEth {
        address: 0x7f00_0000_1008,
        key: 0x1234,
        swap_or_add: 0xaa,
        compare: 0,
    });
    let acknowledge = Body::AtomicAcknowledge {
        aeth: Aeth {
            syndrome: Syndrome::UNLIMITED,
            msn: 7,
        },
        original: 0xbb,
    };
    let nak = Body::Acknowledge {
        aeth: Aeth {
            syndrome: Syndrome::Nak(NakCode::RemoteAccess),
            msn: 3,
        },
    };
    let read = Body::ReadRequest {
        reth: Reth {
            address: 0x7f00_0000_2000,
            key: 0x1234,
            len: 0x400,
        },
    };
    let ipv6 = Ip::V6(Ipv6 {
        source: [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        target: [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
        traffic_class: 0x28,
        flow_label: 0xabcde,
        hop_limit: 63,
    });
    let read = Repr {
        addresses: Addresses {
            ip: ipv6,
            ..addresses()
        },
        ..ipv4(request(1), read)
    };
    [
        (ipv4(write_bth, write), WRITE),
        (ipv4(request(0xff_fffe), compare_swap), COMPARE_SWAP),
        (ipv4(response(0xff_fffe), acknowledge), ATOMIC_ACKNOWLEDGE),
        (ipv4(response(5), nak), NAK),
        (read, READ_REQUEST),
    ]
}

#[test]
fn packets_are_written_as_the_specification_says() {
    let mut frame = Vec::new();
    for (repr, text) in packets() {
        repr.emit(&mut frame).unwrap();
        assert_eq!(frame, bytes(text), "{:?}", repr.transport.body);
        assert_eq!(frame.len(), repr.frame_len());
    }
}

#[test]
fn packets_are_read_as_the_specification_says() {
    for (repr, text) in packets() {
        let mut frame = bytes(text);
        assert_eq!(Repr::parse(&frame), Ok(repr));
        // A short frame has bytes after its packet.
        frame.extend([0xee; 6]);
        assert_eq!(Repr::parse(&frame), Ok(repr));
    }
}

#[test]
fn fields_that_routers_change_are_not_covered() {
    let mut frame = bytes(COMPARE_SWAP);
    let bth_offset = 14 + 20 + 8;
    // Type of service, time to live, UDP checksum, congestion bits.
    frame[15] = 0x55;
    frame[22] = 3;
    frame[40..42].fill(0x77);
    frame[bth_offset + 4] = 0xc0;
    let packet = Packet::new_checked(frame.as_slice()).unwrap();
    assert_eq!(packet.icrc(), packet.computed_icrc());
    // IPv4's own checksum does cover them.
    assert_eq!(packet.verify(), Err(PacketError::IpChecksum));
}

#[test]
fn what_is_no_packet_of_a_reliable_connection_is_refused() {
    let bth_offset = 14 + 20 + 8;
    let refused = |offset: usize, value: u8| {
        let mut frame = bytes(WRITE);
        frame[offset] = value;
        Packet::new_checked(frame).unwrap_err()
    };
    assert_eq!(refused(12, 0x81), PacketError::EtherType(0x8100));
    assert_eq!(refused(14, 0x46), PacketError::Ip);
    assert_eq!(refused(20, 0x20), PacketError::Ip, "more fragments");
    assert_eq!(refused(21, 1), PacketError::Ip, "a fragment's offset");
    assert_eq!(refused(23, 6), PacketError::Ip, "TCP");
    assert_eq!(refused(17, 0x49), PacketError::Truncated);
    assert_eq!(refused(17, 0x44), PacketError::Length);
    assert_eq!(refused(16, 0x20), PacketError::TooLong);
    assert_eq!(refused(37, 0xb6), PacketError::Port(0x12b6));
    assert_eq!(refused(39, 0x30), PacketError::Length);
    assert_eq!(refused(bth_offset, 0x16), PacketError::Opcode(0x16));
    assert_eq!(refused(bth_offset, 0x24), PacketError::Opcode(0x24), "UC");
    assert_eq!(refused(bth_offset, 0x81), PacketError::Opcode(0x81), "CNP");
    assert_eq!(
        refused(bth_offset, 0x0c),
        PacketError::Length,
        "a READ with payload"
    );
    assert_eq!(refused(bth_offset + 1, 0xf1), PacketError::Version(1));
    let mut frame = bytes(NAK);
    frame[bth_offset + 1] |= 0x10;
    assert_eq!(
        Packet::new_checked(frame).unwrap_err(),
        PacketError::Length,
        "a pad without payload"
    );
    for len in 0..bytes(WRITE).len() {
        let cut = &bytes(WRITE)[..len];
        assert_eq!(Repr::parse(cut), Err(PacketError::Truncated), "{len}");
    }
}

#[test]
fn a_corrupted_packet_is_refused() {
    for (_, text) in packets() {
        let intact = bytes(text);
        for offset in 14..intact.len() {
            for bit in 0..8 {
                let mut frame = intact.clone();
                frame[offset] ^= 1 << bit;
                let parsed = Repr::parse(&frame);
                if let Ok(repr) = parsed {
                    // Masked and reserved fields, and IPv4's reserved flag is none of them.
                    let masked = if frame[12] == 8 {
                        [40, 41, 46]
                    } else {
                        [60, 61, 66]
                    };
                    let is_ipv6_label = frame[12] == 0x86 && [14, 15, 16, 17, 21].contains(&offset);
                    assert!(
                        masked.contains(&offset) || is_ipv6_label,
                        "{offset} {repr:?}"
                    );
                }
            }
        }
    }
}
