//! Packets a second that one core rewrites as a steering middlebox does: look at a frame, set the
//! address, and make the ICRC right again.
//!
//! Frames lie in a ring of 256 buffers, as they would after a receive. The ways take turns, seven
//! rounds each; printed are the median and the range.
//!
//! `[--quick]`: short rounds, to see that it runs.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark speaks to the terminal"
)]

use std::env;
use std::hint::black_box;
use std::time::{Duration, Instant};

use roce::wire::{
    Addresses, AtomicEth, Body, Bth, Ethernet, Ip, Ipv4, Packet, Psn, Repr, Reth, Transport,
};

const FRAMES: usize = 256;
const ROUNDS: usize = 7;
/// The least that a middlebox has to rewrite, in packets a second.
const TARGET: f64 = 2e6;

/// What is done with a frame; the number is the address to set.
type Way = fn(&mut [u8], u64);

fn main() {
    let is_quick = env::args().any(|argument| argument == "--quick");
    let round = Duration::from_millis(if is_quick { 5 } else { 300 });
    let payload = [7; 1024];
    let reth = Reth {
        address: 0x7f00_0000_0000,
        key: 1,
        len: 1024,
    };
    let write = Body::WriteOnly {
        reth,
        immediate: None,
        payload: &payload,
    };
    let compare_swap = Body::CompareSwap(AtomicEth {
        address: 0x7f00_0000_0000,
        key: 1,
        swap_or_add: 2,
        compare: 3,
    });
    let ways: [(&str, Body, Way); 7] = [
        ("WRITE of 1 KiB: set, repair", write, set_and_repair),
        ("WRITE of 1 KiB: set, compute anew", write, set_and_compute),
        ("WRITE of 1 KiB: verify, set, repair", write, verify_and_set),
        (
            "compare-and-swap: set, repair",
            compare_swap,
            set_and_repair,
        ),
        (
            "compare-and-swap: set, compute anew",
            compare_swap,
            set_and_compute,
        ),
        (
            "compare-and-swap: verify, set, repair",
            compare_swap,
            verify_and_set,
        ),
        (
            "compare-and-swap: written anew as WRITE",
            compare_swap,
            write_anew,
        ),
    ];
    let mut rings: Vec<Vec<Vec<u8>>> = ways.iter().map(|(_, body, _)| ring(*body)).collect();
    let mut rates = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for (index, (_, _, way)) in ways.iter().enumerate() {
            rates[index].push(rate(&mut rings[index], *way, round));
        }
    }
    println!("million packets a second, one core: median (least to most of {ROUNDS} rounds)");
    for ((name, _, _), mut rates) in ways.iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|rank| rates[rank] / 1e6);
        println!("{name:42} {median:7.2} ({least:.2} to {most:.2})");
    }
    println!("a middlebox needs {:.1}", TARGET / 1e6);
}

/// Frames that differ in their numbers.
fn ring(body: Body) -> Vec<Vec<u8>> {
    let addresses = Addresses {
        ethernet: Ethernet {
            source: [2, 0, 0, 0, 0, 1],
            target: [2, 0, 0, 0, 0, 2],
        },
        ip: Ip::V4(Ipv4::between([10, 0, 0, 1], [10, 0, 0, 2])),
        udp_source: 0xc000,
    };
    (0..FRAMES as u32)
        .map(|number| {
            let bth = Bth::new(number, Psn::new(number));
            let transport = Transport { bth, body };
            let mut frame = Vec::new();
            Repr {
                addresses,
                transport,
            }
            .emit(&mut frame)
            .unwrap();
            frame
        })
        .collect()
}

/// Packets a second.
fn rate(frames: &mut [Vec<u8>], way: Way, round: Duration) -> f64 {
    let started = Instant::now();
    let mut packets = 0;
    while started.elapsed() < round {
        for frame in frames.iter_mut() {
            packets += 1;
            way(black_box(frame), packets);
        }
    }
    packets as f64 / started.elapsed().as_secs_f64()
}

fn set_and_repair(frame: &mut [u8], address: u64) {
    let mut packet = Packet::new_checked(frame).unwrap();
    black_box(packet.set_address(address));
}

/// Without the repair: the bytes are set, and the whole ICRC is computed.
fn set_and_compute(frame: &mut [u8], address: u64) {
    let packet = Packet::new_checked(&*frame).unwrap();
    black_box(packet.opcode());
    // Both headers begin with the address, after 54 bytes.
    frame[54..62].copy_from_slice(&address.to_be_bytes());
    let packet = Packet::new_checked(&*frame).unwrap();
    let icrc = packet.computed_icrc();
    let end = frame.len() - 4;
    frame[end..].copy_from_slice(&icrc.to_le_bytes());
}

fn verify_and_set(frame: &mut [u8], address: u64) {
    let mut packet = Packet::new_checked(frame).unwrap();
    packet.verify().unwrap();
    black_box(packet.set_address(address));
}

/// The length changes, so the packet is written anew.
fn write_anew(frame: &mut [u8], address: u64) {
    thread_local! {
        static TARGET: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let packet = Packet::new_checked(&*frame).unwrap();
    let atomic = packet.atomic_eth().unwrap();
    let repr = Repr {
        addresses: packet.addresses(),
        transport: Transport {
            bth: packet.bth(),
            body: Body::WriteOnly {
                reth: Reth {
                    address,
                    key: atomic.key,
                    len: 8,
                },
                immediate: None,
                payload: &atomic.swap_or_add.to_le_bytes(),
            },
        },
    };
    TARGET.with_borrow_mut(|target| {
        repr.emit(target).unwrap();
        black_box(target);
    });
}
