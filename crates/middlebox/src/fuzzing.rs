//! Properties that hold for any input. The fuzz target checks them, and a test does so on the
//! committed corpus.

use roce::wire::Packet;

use crate::config::{Config, Step, Switches};
use crate::limits::{CHAINS, FLOWS_MAX, FRAMES_MAX};
use crate::middlebox::{Middlebox, Side};

/// Passes a sequence of frames to a middlebox. The input is a byte of switches, then for each
/// frame: side and time (1 byte), length (2 bytes), the bytes. Their ICRCs are put right, as
/// fuzzers do not find them.
///
/// # Panics
/// A bound was exceeded, or a frame left that is no packet although it arrived as one.
pub fn check_sequence(input: &[u8]) {
    let Some((switches, mut rest)) = input.split_first() else {
        return;
    };
    let mut config = Config::new(Step::Forward, 1);
    config.switches = Switches {
        write_steering: switches & 1 != 0,
        read_steering: switches & 2 != 0,
        mapping: switches & 4 != 0,
        conversion: switches & 12 == 12,
    };
    config.hottest = (switches & 16 != 0).then_some(2);
    config.shared = 2;
    config.chains = 4;
    config.addresses = 16;
    let Ok(mut middlebox) = Middlebox::new(config) else {
        panic!("conversion is on only with mapping");
    };
    let mut now_ns = 0;
    while let Some((head, tail)) = rest.split_at_checked(3) {
        let len = usize::from(u16::from_be_bytes([head[1], head[2]])).min(tail.len());
        let (frame, after) = tail.split_at(len);
        rest = after;
        now_ns += u64::from(head[0] >> 1) * 10_000;
        let side = if head[0] & 1 == 0 {
            Side::Client
        } else {
            Side::Memory
        };
        let mut frame = sealed(frame);
        let mut emit = |_: Side, sent: &[u8]| {
            if let Ok(packet) = Packet::new_checked(sent) {
                assert_eq!(packet.icrc(), packet.computed_icrc());
            }
        };
        middlebox.process(now_ns, side, &mut frame, &mut emit);
        middlebox.tick(now_ns, &mut |_, _| {});
    }
    let sizes = middlebox.sizes();
    assert!(sizes.flows <= FLOWS_MAX && sizes.chains <= 4.min(CHAINS));
    assert!(sizes.frames <= FRAMES_MAX && sizes.timers <= 64);
}

/// The frame with a right ICRC, if it is a packet of a connection or a datagram.
fn sealed(frame: &[u8]) -> Vec<u8> {
    let mut sealed = frame.to_vec();
    if let Ok(packet) = Packet::new_checked(frame) {
        let (len, icrc) = (packet.frame().len(), packet.computed_icrc());
        sealed[len - 4..len].copy_from_slice(&icrc.to_le_bytes());
    } else {
        roce::wire::seal(&mut sealed);
    }
    sealed
}
