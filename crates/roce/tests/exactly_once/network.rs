//! A network in virtual time whose faults come from a seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;
use roce::wire::{Addresses, Ethernet, Ip, Ipv4};

/// Delay of a frame that is not held back, in nanoseconds.
const DELAY_NS: u64 = 10_000;

/// Chances of each frame, in 1/1000.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    /// Held back for a while, so that others overtake it.
    pub(crate) late: u64,
    pub(crate) damaged: u64,
}

impl Faults {
    pub(crate) const NONE: Self = Self {
        lost: 0,
        repeated: 0,
        late: 0,
        damaged: 0,
    };
    pub(crate) const LOST: Self = Self {
        lost: 1000,
        ..Self::NONE
    };
}

/// From a perfect network to one on which every fourth frame suffers.
pub(crate) fn faults() -> impl Strategy<Value = Faults> {
    let chance = || prop_oneof![Just(0), 1..20_u64, 20..150_u64];
    (chance(), chance(), chance(), chance()).prop_map(|(lost, repeated, late, damaged)| Faults {
        lost,
        repeated,
        late,
        damaged,
    })
}

/// Due time, a number that keeps the order of frames due together, direction, bytes.
type Frame = (u64, u64, bool, Vec<u8>);

/// Frames on their way in both directions.
pub(crate) struct Network {
    pub(crate) random: Random,
    faults: Faults,
    frames: BinaryHeap<Reverse<Frame>>,
    sent: u64,
}

impl Network {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        Self {
            random: Random(seed),
            faults,
            frames: BinaryHeap::new(),
            sent: 0,
        }
    }

    pub(crate) fn push(&mut self, now_ns: u64, is_request: bool, frame: &[u8]) {
        let Faults {
            lost,
            repeated,
            late,
            damaged,
        } = self.faults;
        let copies = 1 + u64::from(self.random.below(1000) < repeated);
        for _ in 0..copies {
            if self.random.below(1000) < lost {
                continue;
            }
            let mut frame = frame.to_vec();
            if self.random.below(1000) < damaged {
                let offset = self.random.below(frame.len() as u64) as usize;
                frame[offset] ^= 1 << self.random.below(8);
            }
            let mut due_ns = now_ns + DELAY_NS;
            if self.random.below(1000) < late {
                due_ns += self.random.below(20 * DELAY_NS);
            }
            self.sent += 1;
            self.frames
                .push(Reverse((due_ns, self.sent, is_request, frame)));
        }
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.frames.peek().map(|Reverse((due_ns, ..))| *due_ns)
    }

    /// A frame that is due, and whether it goes to the responder.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<(bool, Vec<u8>)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        let Reverse((_, _, is_request, frame)) = self.frames.pop()?;
        Some((is_request, frame))
    }
}

/// A sequence of numbers from a seed (SplitMix64; Steele, Lea and Flood, OOPSLA 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

pub(crate) fn addresses() -> Addresses {
    Addresses {
        ethernet: Ethernet {
            source: [2, 0, 0, 0, 0, 1],
            target: [2, 0, 0, 0, 0, 2],
        },
        ip: Ip::V4(Ipv4 {
            source: [10, 0, 0, 1],
            target: [10, 0, 0, 2],
            tos: 0,
            ttl: 64,
            identification: 0,
            dont_fragment: true,
        }),
        udp_source: 0xc000,
    }
}
