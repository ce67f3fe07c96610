//! A network in virtual time whose faults come from a seed.

use crate::testing::Path;
pub(crate) use crate::testing::{Faults, Network, Random};
use crate::wire::{Addresses, Ethernet, Ip, Ipv4};
use proptest::prelude::*;

/// Delay of a frame that is not held back, in nanoseconds.
const DELAY_NS: u64 = 10_000;

pub(crate) const LOST: Faults = Faults {
    lost: 1000,
    ..Faults::NONE
};

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

/// A network in both directions: a frame goes to the responder, or to the requester.
pub(crate) fn network(seed: u64, faults: Faults) -> Network<bool> {
    let path = Path {
        delay_ns: DELAY_NS,
        held_ns: 20 * DELAY_NS,
        intact_len: 0,
    };
    Network::new(Random(seed), faults, path)
}

pub(crate) fn addresses() -> Addresses {
    Addresses {
        ethernet: Ethernet {
            source: [2, 0, 0, 0, 0, 1],
            target: [2, 0, 0, 0, 0, 2],
        },
        ip: Ip::V4(Ipv4::between([10, 0, 0, 1], [10, 0, 0, 2])),
        udp_source: 0xc000,
    }
}
