//! A network in virtual time whose faults come from a seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Delay of a frame that is not held back, in nanoseconds.
const DELAY_NS: u64 = 5_000;

/// Chances of each frame, in 1/1000.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkFaults {
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    /// Held back for a while, so that others overtake it.
    pub(crate) late: u64,
    pub(crate) damaged: u64,
}

impl NetworkFaults {
    pub(crate) const NONE: Self = Self {
        lost: 0,
        repeated: 0,
        late: 0,
        damaged: 0,
    };

    /// From a perfect network to a bad one.
    pub(crate) fn any(random: &mut Random) -> Self {
        let mut chance = || match random.below(3) {
            0 => 0,
            1 => 1 + random.below(20),
            _ => 20 + random.below(80),
        };
        Self {
            lost: chance(),
            repeated: chance(),
            late: chance(),
            damaged: chance(),
        }
    }
}

/// Where a frame is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hop {
    FromClient,
    ToMemory,
    FromMemory,
    ToClient,
}

/// Due time, a number that keeps the order of frames due together, hop, bytes.
type Frame = (u64, u64, Hop, Vec<u8>);

/// Frames on their way.
pub(crate) struct Network {
    pub(crate) random: Random,
    faults: NetworkFaults,
    frames: BinaryHeap<Reverse<Frame>>,
    sent: u64,
    /// What leaves the middlebox, if it is to be kept: time, towards memory, bytes.
    pub(crate) kept: Option<Vec<(u64, bool, Vec<u8>)>>,
}

impl Network {
    pub(crate) fn new(seed: u64, faults: NetworkFaults) -> Self {
        Self {
            random: Random(seed),
            faults,
            frames: BinaryHeap::new(),
            sent: 0,
            kept: None,
        }
    }

    pub(crate) fn push(&mut self, now_ns: u64, hop: Hop, frame: &[u8]) {
        let faults = self.faults;
        if let (Some(kept), Hop::ToMemory | Hop::ToClient) = (&mut self.kept, hop) {
            kept.push((now_ns, hop == Hop::ToMemory, frame.to_vec()));
        }
        let copies = 1 + u64::from(self.random.below(1000) < faults.repeated);
        for _ in 0..copies {
            if self.random.below(1000) < faults.lost {
                continue;
            }
            let mut frame = frame.to_vec();
            if self.random.below(1000) < faults.damaged {
                let offset = self.random.below(frame.len() as u64) as usize;
                frame[offset] ^= 1 << self.random.below(8);
            }
            let mut due_ns = now_ns + DELAY_NS;
            if self.random.below(1000) < faults.late {
                due_ns += self.random.below(20 * DELAY_NS);
            }
            self.sent += 1;
            self.frames.push(Reverse((due_ns, self.sent, hop, frame)));
        }
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.frames.peek().map(|Reverse((due_ns, ..))| *due_ns)
    }

    /// A frame that is due.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<(Hop, Vec<u8>)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        let Reverse((_, _, hop, frame)) = self.frames.pop()?;
        Some((hop, frame))
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
