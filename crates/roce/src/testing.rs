//! What tests of senders and receivers share: numbers from a seed, and a network in virtual time
//! that loses, repeats, delays and damages frames.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A sequence of numbers from a seed (SplitMix64; Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "the sequence has no end, so it needs no `Option`"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Chances of each frame, in 1/1000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// It is lost.
    pub lost: u64,
    /// It arrives twice.
    pub repeated: u64,
    /// It is held back for a while, so that others overtake it.
    pub late: u64,
    /// One of its bits changes.
    pub damaged: u64,
}

impl Faults {
    /// A perfect network.
    pub const NONE: Self = Self {
        lost: 0,
        repeated: 0,
        late: 0,
        damaged: 0,
    };
}

/// What is the same for all frames.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Delay of a frame that is not held back, in nanoseconds.
    pub delay_ns: u64,
    /// A frame that is held back arrives later by less than this, in nanoseconds.
    pub held_ns: u64,
    /// Bytes at the start of a frame that no fault damages.
    pub intact_len: usize,
}

/// A frame on its way.
#[derive(Debug)]
struct Frame<T> {
    due_ns: u64,
    /// Keeps the order of frames that are due together.
    number: u64,
    to: T,
    bytes: Vec<u8>,
}

impl<T> PartialEq for Frame<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Frame<T> {}

impl<T> PartialOrd for Frame<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Frame<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

/// Frames on their way, each with what its sender says of its receiver.
#[derive(Debug)]
pub struct Network<T> {
    /// The numbers that decide about the frames.
    pub random: Random,
    faults: Faults,
    path: Path,
    frames: BinaryHeap<Reverse<Frame<T>>>,
    sent: u64,
}

impl<T: Copy> Network<T> {
    /// An empty network.
    pub fn new(random: Random, faults: Faults, path: Path) -> Self {
        Self {
            random,
            faults,
            path,
            frames: BinaryHeap::new(),
            sent: 0,
        }
    }

    /// Sends a frame that is longer than [`Path::intact_len`]: it arrives never, once or twice.
    pub fn push(&mut self, now_ns: u64, to: T, frame: &[u8]) {
        let Faults {
            lost,
            repeated,
            late,
            damaged,
        } = self.faults;
        let Path {
            delay_ns,
            held_ns,
            intact_len,
        } = self.path;
        let copies = 1 + u64::from(self.random.below(1000) < repeated);
        for _ in 0..copies {
            if self.random.below(1000) < lost {
                continue;
            }
            let mut bytes = frame.to_vec();
            if self.random.below(1000) < damaged {
                let offset = self.random.below((bytes.len() - intact_len) as u64) as usize;
                bytes[intact_len + offset] ^= 1 << self.random.below(8);
            }
            let mut due_ns = now_ns + delay_ns;
            if self.random.below(1000) < late {
                due_ns += self.random.below(held_ns);
            }
            self.sent += 1;
            self.frames.push(Reverse(Frame {
                due_ns,
                number: self.sent,
                to,
                bytes,
            }));
        }
    }

    /// When the next frame is due. None: there is no frame.
    pub fn next_ns(&self) -> Option<u64> {
        self.frames.peek().map(|Reverse(frame)| frame.due_ns)
    }

    /// A frame that is due, and its receiver.
    pub fn take(&mut self, now_ns: u64) -> Option<(T, Vec<u8>)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        let Reverse(frame) = self.frames.pop()?;
        Some((frame.to, frame.bytes))
    }
}
