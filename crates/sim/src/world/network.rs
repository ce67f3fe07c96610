//! The network between the hosts.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use roce::wire::{Datagram, Packet};

use super::Host;
use super::events::{Events, What};

/// What the network does to frames, each on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkFaults {
    /// Frames lost, of a million.
    pub lost_ppm: u32,
    /// Frames that arrive twice, of a million.
    pub repeated_ppm: u32,
    /// Frames with a damaged byte, of a million.
    pub damaged_ppm: u32,
    /// Greatest additional delay. Frames overtake each other within it.
    pub jitter_ns: u64,
    /// Frames that are late, of a million: all that are sent within `late_ns` overtake them.
    pub late_ppm: u32,
    /// How late those are, in nanoseconds.
    pub late_ns: u64,
}

pub(crate) struct Network {
    pub(crate) faults: NetworkFaults,
    hop_ns: u64,
    random: Xoshiro256PlusPlus,
}

impl Network {
    pub(crate) fn new(faults: NetworkFaults, hop_ns: u64, seed: u64) -> Self {
        Self {
            faults,
            hop_ns,
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x6e65_7477_6f72_6b00),
        }
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            0
        } else {
            self.random.next_u64() % bound
        }
    }

    fn happens(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < ppm.into()
    }

    /// Sends a frame, which arrives never, once or twice.
    pub(crate) fn send(&mut self, now_ns: u64, to: Host, mut frame: Vec<u8>, events: &mut Events) {
        if self.happens(self.faults.lost_ppm) {
            return;
        }
        if self.happens(self.faults.damaged_ppm) {
            let index = self.below(frame.len() as u64) as usize;
            let bit = 1 << self.below(8);
            // A second fault could undo the first one, and what the middlebox has passed as foreign
            // would be intact. The check sequence of each real link makes that impossible.
            if is_intact(&frame) {
                frame[index] ^= bit;
            }
        }
        let jitter_ns = self.faults.jitter_ns;
        if self.happens(self.faults.repeated_ppm) {
            let at_ns = now_ns + self.hop_ns + self.below(8 * jitter_ns + 1);
            events.push(at_ns, What::Arrive(to, frame.clone()));
        }
        let is_late = self.happens(self.faults.late_ppm);
        let late_ns = if is_late { self.faults.late_ns } else { 0 };
        let at_ns = now_ns + self.hop_ns + self.below(jitter_ns + 1) + late_ns;
        events.push(at_ns, What::Arrive(to, frame));
    }
}

/// Whether the checksums of a frame are right.
fn is_intact(frame: &[u8]) -> bool {
    Packet::new_checked(frame).is_ok_and(|packet| packet.verify().is_ok())
        || Datagram::parse(frame).is_ok()
}
