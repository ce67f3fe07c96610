//! Other programs read the packets that are written here: Wireshark's decoder, and scapy.

mod scapy;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::pcap::{Resolution, Writer};
use crate::wire::{
    Addresses, Aeth, AtomicEth, Body, Bth, Ethernet, Ip, Ipv4, Ipv6, Psn, Repr, Reth, Syndrome,
    Transport,
};

const ADDRESS: u64 = 0x7f12_3456_7890;
const PAYLOADS: [&[u8]; 4] = [&[], b"x", b"seven b", &[9; 1024]];
const IPV4: Ip = Ip::V4(Ipv4 {
    source: [10, 0, 0, 1],
    target: [10, 0, 0, 2],
    tos: 0x68,
    ttl: 63,
    identification: 77,
    dont_fragment: true,
});
const IPV6: Ip = Ip::V6(Ipv6 {
    source: [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    target: [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
    traffic_class: 0x68,
    flow_label: 0x12345,
    hop_limit: 63,
});

/// Every opcode with this payload.
fn bodies(payload: &[u8]) -> Vec<Body<'_>> {
    let reth = Reth {
        address: ADDRESS,
        key: 0x4321,
        len: 1024,
    };
    let aeth = Aeth {
        syndrome: Syndrome::UNLIMITED,
        msn: 4711,
    };
    let atomic = AtomicEth {
        address: ADDRESS,
        key: 0x4321,
        swap_or_add: 12,
        compare: 34,
    };
    let mut bodies = vec![
        Body::SendFirst { payload },
        Body::SendMiddle { payload },
        Body::WriteFirst { reth, payload },
        Body::WriteMiddle { payload },
        Body::ReadRequest { reth },
        Body::ReadResponseFirst { aeth, payload },
        Body::ReadResponseMiddle { payload },
        Body::ReadResponseLast { aeth, payload },
        Body::ReadResponseOnly { aeth, payload },
        Body::Acknowledge { aeth },
        Body::AtomicAcknowledge { aeth, original: 56 },
        Body::CompareSwap(atomic),
        Body::FetchAdd(atomic),
    ];
    for immediate in [None, Some(0xcafe_babe)] {
        bodies.extend([
            Body::SendLast { immediate, payload },
            Body::SendOnly { immediate, payload },
            Body::WriteLast { immediate, payload },
            Body::WriteOnly {
                reth,
                immediate,
                payload,
            },
        ]);
    }
    bodies
}

/// Packets of every opcode, over both versions of IP.
fn packets() -> Vec<Repr<'static>> {
    let mut packets = Vec::new();
    for ip in [IPV4, IPV6] {
        for payload in PAYLOADS {
            for body in bodies(payload) {
                let number = packets.len() as u32;
                packets.push(Repr {
                    addresses: Addresses {
                        ethernet: Ethernet {
                            source: [2, 0, 0, 0, 0, 1],
                            target: [2, 0, 0, 0, 0, 2],
                        },
                        ip,
                        udp_source: 0xc000 + number as u16,
                    },
                    transport: Transport {
                        bth: Bth {
                            becn: number.is_multiple_of(2),
                            ack_requested: number.is_multiple_of(3),
                            ..Bth::new(number + 100, Psn::new(0xff_fff0 + number))
                        },
                        body,
                    },
                });
            }
        }
    }
    packets
}

/// Writes the packets to a capture called `name`.
fn capture(name: &str, resolution: Resolution, packets: &[Repr]) -> PathBuf {
    let mut writer = Writer::new(resolution);
    let mut frame = Vec::new();
    for (number, packet) in packets.iter().enumerate() {
        packet.emit(&mut frame).unwrap();
        writer.push(1_700_000_000_000_000_123 + number as u64 * 1000, &frame);
    }
    let path = scapy::temporary_folder().join(name);
    fs::write(&path, &writer.bytes).unwrap();
    path
}

#[test]
fn wireshark_decodes_the_packets() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("skipped: tshark is not installed");
        return;
    }
    let packets = packets();
    let path = capture("tshark.pcap", Resolution::Nanoseconds, &packets);
    let mut tshark = Command::new("tshark");
    // It guesses what messages of SEND mean, and guesses wrong.
    tshark.args(["--disable-protocol", "rpcordma"]);
    tshark
        .arg("-r")
        .arg(&path)
        .args(["-T", "fields", "-E", "separator=/t"]);
    for field in [
        "frame.time_epoch",
        "infiniband.bth.opcode",
        "infiniband.bth.destqp",
        "infiniband.bth.psn",
        "infiniband.bth.padcnt",
        "infiniband.reth.va",
        "infiniband.reth.dmalen",
        "infiniband.atomiceth.swapdt",
        "infiniband.atomiceth.cmpdt",
        "infiniband.aeth.msn",
        "infiniband.atomicacketh.origremdt",
        "data.len",
        "_ws.malformed",
    ] {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), packets.len(), "{said}{complaint}");
    for (number, (packet, line)) in packets.iter().zip(lines).enumerate() {
        assert_eq!(line, decoded(number, packet), "{packet:?}");
    }
}

/// The line of tshark for a packet.
fn decoded(number: usize, packet: &Repr) -> String {
    let Transport { bth, body } = packet.transport;
    let payload_len = body.payload().len();
    let padded_len = payload_len.next_multiple_of(4);
    let address = format!("{ADDRESS:#018x}");
    let none = String::new;
    let is_atomic = matches!(body, Body::CompareSwap(_) | Body::FetchAdd(_));
    let has_reth = body.opcode().has_reth();
    let text = |is_there: bool, text: &str| if is_there { text.to_owned() } else { none() };
    let is_atomic_acknowledge = matches!(body, Body::AtomicAcknowledge { .. });
    [
        format!("1700000000.{:09}", 123 + number * 1000),
        body.opcode().code().to_string(),
        format!("{:#08x}", bth.qpn),
        bth.psn.to_string(),
        (padded_len - payload_len).to_string(),
        // Wireshark calls the address of an atomic operation so too.
        text(has_reth || is_atomic, &address),
        text(has_reth, "1024"),
        text(is_atomic, "12"),
        text(is_atomic, "34"),
        text(body.opcode().has_aeth(), "4711"),
        text(is_atomic_acknowledge, "56"),
        text(padded_len > 0, &padded_len.to_string()),
        none(),
    ]
    .join("\t")
}

#[test]
fn scapy_computes_the_same_icrc() {
    let packets = packets();
    let path = capture("scapy.pcap", Resolution::Microseconds, &packets);
    scapy::assert_agrees(path, packets.len());
}
