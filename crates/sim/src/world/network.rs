//! The network between the hosts.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::events::{Events, What};
use super::{Costs, Host};

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
}

pub(crate) struct Network {
    pub(crate) faults: NetworkFaults,
    costs: Costs,
    random: Xoshiro256PlusPlus,
    /// When the link of the memory node is free, in each direction.
    link_free_ns: [f64; 2],
}

impl Network {
    pub(crate) fn new(faults: NetworkFaults, costs: Costs, seed: u64) -> Self {
        Self {
            faults,
            costs,
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x6e65_7477_6f72_6b00),
            link_free_ns: [0.0; 2],
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
    pub(crate) fn send(
        &mut self,
        now_ns: u64,
        from: Host,
        to: Host,
        mut frame: Vec<u8>,
        events: &mut Events,
    ) {
        if self.happens(self.faults.lost_ppm) {
            return;
        }
        let sent_ns = self.serialise(now_ns, from, to, frame.len());
        if self.happens(self.faults.damaged_ppm) {
            let index = self.below(frame.len() as u64) as usize;
            frame[index] ^= 1 << self.below(8);
        }
        let jitter_ns = self.faults.jitter_ns;
        if self.happens(self.faults.repeated_ppm) {
            let at_ns = sent_ns + self.costs.hop_ns + self.below(8 * jitter_ns + 1);
            events.push(at_ns, What::Arrive(to, frame.clone()));
        }
        let at_ns = sent_ns + self.costs.hop_ns + self.below(jitter_ns + 1);
        events.push(at_ns, What::Arrive(to, frame));
    }

    /// When the frame has left, on the link of the memory node after those before it.
    fn serialise(&mut self, now_ns: u64, from: Host, to: Host, len: usize) -> u64 {
        let link = match (from, to) {
            (_, Host::Node) => &mut self.link_free_ns[0],
            (Host::Node, _) => &mut self.link_free_ns[1],
            _ => return now_ns,
        };
        *link = link.max(now_ns as f64) + len as f64 * self.costs.byte_ns;
        link.round() as u64
    }
}
