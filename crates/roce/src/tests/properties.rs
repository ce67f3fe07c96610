//! Properties of packets: written and parsed again, changed in place.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::connect::{Attempt, MESSAGE_LEN, Message, QueuePair, Reason};
use crate::endpoint::{
    ByteMemory, Connection, Mtu, Region, Request, Requester, Responder, Retries,
};
use crate::fuzzing;
use crate::limits::{FRAME_LEN_MAX, MTU_MAX};
use crate::wire::{
    Addresses, Aeth, AtomicEth, Body, Bth, Datagram, Ethernet, Ip, Ipv4, Ipv6, Packet, PacketError,
    Psn, Repr, Reth, Syndrome, Transport,
};

fn addresses() -> impl Strategy<Value = Addresses> {
    let ipv4 = any::<([u8; 4], [u8; 4], u8, u8, u16, bool)>().prop_map(|values| {
        let (source, target, tos, ttl, identification, dont_fragment) = values;
        Ip::V4(Ipv4 {
            source,
            target,
            tos,
            ttl,
            identification,
            dont_fragment,
        })
    });
    let ipv6 = any::<([u8; 16], [u8; 16], u8, u32, u8)>().prop_map(|values| {
        let (source, target, traffic_class, flow_label, hop_limit) = values;
        Ip::V6(Ipv6 {
            source,
            target,
            traffic_class,
            flow_label: flow_label >> 12,
            hop_limit,
        })
    });
    (any::<([u8; 6], [u8; 6], u16)>(), prop_oneof![ipv4, ipv6]).prop_map(|(values, ip)| {
        let (source, target, udp_source) = values;
        Addresses {
            ethernet: Ethernet { source, target },
            ip,
            udp_source,
        }
    })
}

fn bth() -> impl Strategy<Value = Bth> {
    any::<([bool; 5], u16, u32, u32)>().prop_map(|(flags, partition, qpn, psn)| Bth {
        solicited: flags[0],
        migrated: flags[1],
        partition,
        fecn: flags[2],
        becn: flags[3],
        qpn: qpn >> 8,
        ack_requested: flags[4],
        psn: Psn::new(psn),
    })
}

/// A body of every kind; `kind` chooses.
fn body<'a>(kind: usize, immediate: Option<u32>, words: [u64; 4], payload: &'a [u8]) -> Body<'a> {
    let reth = Reth {
        address: words[0],
        key: words[1] as u32,
        len: (words[1] >> 32) as u32,
    };
    let aeth = Aeth {
        syndrome: Syndrome::from_code(words[2] as u8),
        msn: (words[2] >> 40) as u32,
    };
    let atomic = AtomicEth {
        address: words[0],
        key: words[1] as u32,
        swap_or_add: words[2],
        compare: words[3],
    };
    match kind {
        0 => Body::SendFirst { payload },
        1 => Body::SendMiddle { payload },
        2 => Body::SendLast { immediate, payload },
        3 => Body::SendOnly { immediate, payload },
        4 => Body::WriteFirst { reth, payload },
        5 => Body::WriteMiddle { payload },
        6 => Body::WriteLast { immediate, payload },
        7 => Body::WriteOnly {
            reth,
            immediate,
            payload,
        },
        8 => Body::ReadRequest { reth },
        9 => Body::ReadResponseFirst { aeth, payload },
        10 => Body::ReadResponseMiddle { payload },
        11 => Body::ReadResponseLast { aeth, payload },
        12 => Body::ReadResponseOnly { aeth, payload },
        13 => Body::Acknowledge { aeth },
        14 => Body::AtomicAcknowledge {
            aeth,
            original: words[3],
        },
        15 => Body::CompareSwap(atomic),
        _ => Body::FetchAdd(atomic),
    }
}

/// The parts of a packet.
type Parts = (Addresses, Bth, usize, Option<u32>, [u64; 4], Vec<u8>);

fn parts() -> impl Strategy<Value = Parts> {
    let payload = prop_oneof![vec(any::<u8>(), 0..70), vec(any::<u8>(), 4000..=MTU_MAX)];
    let immediate = option::of(any::<u32>());
    (
        addresses(),
        bth(),
        0..17_usize,
        immediate,
        any::<[u64; 4]>(),
        payload,
    )
}

fn repr(parts: &Parts) -> Repr<'_> {
    let (addresses, bth, kind, immediate, words, payload) = parts;
    Repr {
        addresses: *addresses,
        transport: Transport {
            bth: *bth,
            body: body(*kind, *immediate, *words, payload),
        },
    }
}

proptest! {
    #[test]
    fn a_datagram_that_was_written_parses_to_the_same_value(
        addresses in addresses(),
        numbers in any::<(u32, u32, u32)>(),
        payload in prop_oneof![vec(any::<u8>(), 0..70), vec(any::<u8>(), 4000..=MTU_MAX)],
        bit in any::<usize>(),
    ) {
        let datagram = Datagram {
            addresses,
            qpn: numbers.0 >> 8,
            source_qpn: numbers.1 >> 8,
            queue_key: numbers.2,
            payload: &payload,
        };
        let mut frame = Vec::new();
        prop_assert_eq!(datagram.emit(&mut frame), Ok(()));
        prop_assert_eq!(Datagram::parse(&frame), Ok(datagram));
        prop_assert_eq!(Packet::new_checked(&frame).err(), Some(PacketError::Opcode(0x64)));
        // The payload and the CRC are at the end, whatever the IP version is.
        let bit = bit % ((payload.len() + 4) * 8);
        let end = frame.len() - 1;
        frame[end - bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Datagram::parse(&frame), Err(PacketError::Icrc));
    }

    #[test]
    fn a_message_of_connecting_survives_a_round_trip(
        numbers in any::<(u64, u16, u32, u32, u32)>(),
        code in 0..5_usize,
        bytes in vec(any::<u8>(), MESSAGE_LEN),
    ) {
        let (client, index, attempt, qpn, psn) = numbers;
        let mtus = [Mtu::Bytes256, Mtu::Bytes512, Mtu::Bytes1024, Mtu::Bytes2048, Mtu::Bytes4096];
        let pair = QueuePair { qpn: qpn >> 8, first_psn: Psn::new(psn), mtu: mtus[code] };
        let attempt = Attempt { client, index, attempt };
        let reason = [Reason::Full, Reason::Disconnected][code % 2];
        for message in [
            Message::Connect(attempt, pair),
            Message::Accept(attempt, pair),
            Message::Refuse(attempt, reason),
            Message::Disconnect { client },
            Message::Disconnected { client },
        ] {
            let emitted = message.emit();
            prop_assert_eq!(Message::parse(&emitted), Some(message));
            prop_assert_eq!(Message::parse(&emitted[1..]), None);
        }
        fuzzing::check_packets(&bytes);
    }

    #[test]
    fn a_written_packet_parses_to_itself(parts in parts(), trailer in vec(any::<u8>(), 0..20)) {
        let repr = repr(&parts);
        let mut frame = Vec::new();
        prop_assert_eq!(repr.emit(&mut frame), Ok(()));
        prop_assert!(frame.len() <= FRAME_LEN_MAX);
        frame.extend(trailer);
        prop_assert_eq!(Repr::parse(&frame), Ok(repr));
        fuzzing::check_packets(&frame);
    }

    #[test]
    fn a_route_set_in_place_is_as_if_the_packet_were_written_with_it(
        parts in parts(), qpn: u32, psn: u32, port: u16, ends: [u8; 32], checksum: u16,
    ) {
        let repr = repr(&parts);
        let mut frame = Vec::new();
        prop_assert_eq!(repr.emit(&mut frame), Ok(()));
        let mut expected = repr;
        expected.transport.bth.qpn = qpn & 0xff_ffff;
        expected.transport.bth.psn = Psn::new(psn);
        expected.addresses.udp_source = port;
        expected.addresses.ethernet = Ethernet { source: [1; 6], target: [2; 6] };
        let (source, target) = ends.split_at(16);
        let udp_offset = match &mut expected.addresses.ip {
            Ip::V4(ip) => {
                ip.source.copy_from_slice(&source[..4]);
                ip.target.copy_from_slice(&target[..4]);
                34
            }
            Ip::V6(ip) => {
                ip.source.copy_from_slice(source);
                ip.target.copy_from_slice(target);
                54
            }
        };
        // The ICRC does not cover the checksum of UDP.
        frame[udp_offset + 6..udp_offset + 8].copy_from_slice(&checksum.to_be_bytes());
        let mut packet = Packet::new_checked(frame.as_mut_slice()).unwrap();
        prop_assert!(packet.set_route(&expected.addresses, qpn, Psn::new(psn)));
        let mut written = Vec::new();
        prop_assert_eq!(expected.emit(&mut written), Ok(()));
        prop_assert_eq!(&frame, &written);
        // A wrong ICRC stays wrong, by the same difference.
        let last = frame.len() - 1;
        frame[last] ^= 0x40;
        let mut packet = Packet::new_checked(frame.as_mut_slice()).unwrap();
        prop_assert!(packet.set_route(&repr.addresses, repr.transport.bth.qpn, Psn::new(psn)));
        prop_assert_eq!(packet.icrc() ^ packet.computed_icrc(), 0x4000_0000);
    }

    #[test]
    fn a_field_set_in_place_is_as_if_the_packet_were_written_with_it(
        parts in parts(), qpn: u32, psn: u32, port: u16, word: u64, ends: [u8; 32],
    ) {
        let repr = repr(&parts);
        let mut frame = Vec::new();
        prop_assert_eq!(repr.emit(&mut frame), Ok(()));
        let mut packet = Packet::new_checked(frame.as_mut_slice()).unwrap();
        let mut expected = repr;
        packet.set_qpn(qpn);
        expected.transport.bth.qpn = qpn & 0xff_ffff;
        packet.set_psn(Psn::new(psn));
        expected.transport.bth.psn = Psn::new(psn);
        packet.set_udp_source(port);
        expected.addresses.udp_source = port;
        packet.set_ethernet([1; 6], [2; 6]);
        expected.addresses.ethernet = Ethernet { source: [1; 6], target: [2; 6] };
        let (source, target) = ends.split_at(16);
        match &mut expected.addresses.ip {
            Ip::V4(ip) => {
                let address = |bytes: &[u8]| <[u8; 4]>::try_from(&bytes[..4]).unwrap();
                (ip.source, ip.target) = (address(source), address(target));
                prop_assert!(packet.set_ipv4(ip.source, ip.target));
            }
            Ip::V6(ip) => {
                let address = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).unwrap();
                (ip.source, ip.target) = (address(source), address(target));
                prop_assert!(packet.set_ipv6(ip.source, ip.target));
            }
        }
        let has_address = match &mut expected.transport.body {
            Body::WriteFirst { reth, .. }
            | Body::WriteOnly { reth, .. }
            | Body::ReadRequest { reth } => {
                reth.address = word;
                true
            }
            Body::CompareSwap(atomic) | Body::FetchAdd(atomic) => {
                atomic.address = word;
                true
            }
            _ => false,
        };
        prop_assert_eq!(packet.set_address(word), has_address);
        if let Body::AtomicAcknowledge { aeth, original } = &mut expected.transport.body {
            (aeth.msn, *original) = (qpn & 0xff_ffff, word);
            prop_assert!(packet.set_msn(qpn) && packet.set_original(word));
        }
        prop_assert_eq!(Repr::parse(&frame), Ok(expected));
        let mut rewritten = Vec::new();
        prop_assert_eq!(expected.emit(&mut rewritten), Ok(()));
        prop_assert_eq!(frame, rewritten);
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        fuzzing::check_packets(&bytes);
    }

    #[test]
    fn damaged_packets_never_panic(
        parts in parts(),
        damages in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut frame = Vec::new();
        prop_assert_eq!(repr(&parts).emit(&mut frame), Ok(()));
        for (index, value) in damages {
            let index = index.index(frame.len());
            frame[index] = value;
        }
        fuzzing::check_packets(&frame);
    }
}

proptest! {
    #[test]
    fn the_ends_of_a_connection_take_any_packet(
        packets in vec((parts(), -3..40_i32), 1..40),
        requests in vec((0..3_usize, 0..2000_u32), 1..10),
    ) {
        let (mut requester, mut responder) = ends(packets[0].0.0);
        let mut memory = ByteMemory { start: 4096, bytes: vec![0; 4096] };
        for (id, (kind, len)) in requests.iter().enumerate() {
            prop_assert_eq!(requester.post(id as u64, request(*kind, *len), false), Ok(()));
        }
        let mut completed = 0;
        for (now_ns, (parts, distance)) in packets.iter().enumerate() {
            let mut packet = repr(parts).transport;
            packet.bth.qpn = 9;
            packet.bth.psn = Psn::new(0xff_fff0_u32.wrapping_add_signed(*distance));
            // Requests into the memory are executed.
            if let Body::WriteFirst { reth, .. }
            | Body::WriteOnly { reth, .. }
            | Body::ReadRequest { reth } = &mut packet.body
            {
                (reth.address, reth.key) = (4096 + reth.address % 4096, 1);
                reth.len %= 4096;
            }
            responder.handle(&packet, &mut memory, &mut |_| ());
            responder.acknowledge(&mut |_| ());
            requester.handle(now_ns as u64, &packet);
            requester.transmit(now_ns as u64, &mut |_| ());
            while requester.take_completion().is_some() {
                completed += 1;
            }
            prop_assert_eq!(completed + requester.pending(), requests.len());
        }
    }
}

/// Both ends of a connection, each with the number 9.
fn ends(addresses: Addresses) -> (Requester, Responder) {
    let connection = Connection {
        addresses,
        local_qpn: 9,
        peer_qpn: 9,
        mtu: Mtu::Bytes256,
        first_psn: Psn::new(0xff_fff0),
    };
    let retries = Retries {
        timeout_ns: 3,
        losses_max: 9,
        not_ready_max: 9,
    };
    let mut responder = Responder::new(&connection, 0);
    let region = Region {
        key: 1,
        start: 4096,
        len: 4096,
        may_read: true,
        may_write: true,
        may_change_atomically: true,
    };
    responder.regions.add(region).unwrap();
    (Requester::new(&connection, 20, 4, retries), responder)
}

fn request(kind: usize, len: u32) -> Request {
    match kind {
        0 => Request::Read {
            address: 0,
            key: 1,
            len,
        },
        1 => Request::FetchAdd(AtomicEth {
            address: 0,
            key: 1,
            swap_or_add: 1,
            compare: 0,
        }),
        _ => Request::Send {
            bytes: vec![0; len as usize],
            immediate: None,
        },
    }
}

#[test]
fn a_payload_above_the_largest_mtu_is_refused() {
    let payload = vec![0; MTU_MAX + 1];
    let ethernet = Ethernet {
        source: [0; 6],
        target: [0; 6],
    };
    let ip = Ipv4::between([10, 0, 0, 1], [10, 0, 0, 2]);
    let repr = Repr {
        addresses: Addresses {
            ethernet,
            ip: Ip::V4(ip),
            udp_source: 0xc000,
        },
        transport: Transport {
            bth: Bth::new(1, Psn::new(0)),
            body: Body::WriteMiddle { payload: &payload },
        },
    };
    let mut frame = vec![1];
    assert!(repr.emit(&mut frame).is_err() && frame.is_empty());
}
