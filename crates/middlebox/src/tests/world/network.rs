//! A network in virtual time whose faults come from a seed.

pub(crate) use roce::testing::{Faults as NetworkFaults, Random};
use roce::testing::{Network as Frames, Path};

/// Delay of a frame that is not held back, in nanoseconds.
const DELAY_NS: u64 = 5_000;

/// From a perfect network to a bad one.
pub(crate) fn any_faults(random: &mut Random) -> NetworkFaults {
    let mut chance = || match random.below(3) {
        0 => 0,
        1 => 1 + random.below(20),
        _ => 20 + random.below(80),
    };
    NetworkFaults {
        lost: chance(),
        repeated: chance(),
        late: chance(),
        damaged: chance(),
    }
}

/// Where a frame is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    FromClient,
    ToMemory,
    FromMemory,
    ToClient,
}

/// Frames on their way.
pub(crate) struct Network {
    pub(crate) frames: Frames<Hop>,
    /// What leaves the middlebox, if it is to be kept: time, towards memory, bytes.
    pub(crate) kept: Option<Vec<(u64, bool, Vec<u8>)>>,
}

impl Network {
    pub(crate) fn new(seed: u64, faults: NetworkFaults) -> Self {
        let path = Path {
            delay_ns: DELAY_NS,
            held_ns: 20 * DELAY_NS,
            intact_len: 0,
        };
        Self {
            frames: Frames::new(Random(seed), faults, path),
            kept: None,
        }
    }

    pub(crate) fn push(&mut self, now_ns: u64, hop: Hop, frame: &[u8]) {
        if let (Some(kept), Hop::ToMemory | Hop::ToClient) = (&mut self.kept, hop) {
            kept.push((now_ns, hop == Hop::ToMemory, frame.to_vec()));
        }
        self.frames.push(now_ns, hop, frame);
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.frames.next_ns()
    }

    /// A frame that is due.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<(Hop, Vec<u8>)> {
        self.frames.take(now_ns)
    }
}
