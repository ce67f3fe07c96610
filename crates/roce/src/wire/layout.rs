//! Where the fields lie, counted from the beginning of their header.

use std::ops::Range;

/// The UDP port of RoCEv2 (annex A17).
pub const UDP_PORT: u16 = 4791;

pub(crate) const ETHERNET_LEN: usize = 14;
pub(crate) const IPV4_LEN: usize = 20;
pub(crate) const IPV6_LEN: usize = 40;
pub(crate) const UDP_LEN: usize = 8;
pub(crate) const BTH_LEN: usize = 12;
pub(crate) const ICRC_LEN: usize = 4;
pub(crate) const RETH_LEN: usize = 16;
pub(crate) const ATOMIC_ETH_LEN: usize = 28;
pub(crate) const AETH_LEN: usize = 4;
/// The original value of an atomic operation, behind the AETH.
pub(crate) const ATOMIC_ACK_ETH_LEN: usize = 8;
pub(crate) const IMMEDIATE_LEN: usize = 4;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
pub(crate) const PROTOCOL_UDP: u8 = 17;

/// A contiguous part of a header.
pub(crate) type Field = Range<usize>;

pub(crate) mod ethernet {
    use super::Field;
    pub(crate) const TARGET: Field = 0..6;
    pub(crate) const SOURCE: Field = 6..12;
    pub(crate) const ETHERTYPE: Field = 12..14;
}

pub(crate) mod ipv4 {
    use super::Field;
    pub(crate) const VERSION: usize = 0;
    pub(crate) const TOS: usize = 1;
    pub(crate) const TOTAL_LEN: Field = 2..4;
    pub(crate) const IDENTIFICATION: Field = 4..6;
    pub(crate) const FRAGMENT: Field = 6..8;
    pub(crate) const TTL: usize = 8;
    pub(crate) const PROTOCOL: usize = 9;
    pub(crate) const CHECKSUM: Field = 10..12;
    pub(crate) const SOURCE: Field = 12..16;
    pub(crate) const TARGET: Field = 16..20;
}

pub(crate) mod ipv6 {
    use super::Field;
    pub(crate) const VERSION_CLASS_FLOW: Field = 0..4;
    pub(crate) const PAYLOAD_LEN: Field = 4..6;
    pub(crate) const NEXT_HEADER: usize = 6;
    pub(crate) const HOP_LIMIT: usize = 7;
    pub(crate) const SOURCE: Field = 8..24;
    pub(crate) const TARGET: Field = 24..40;
}

pub(crate) mod udp {
    use super::Field;
    pub(crate) const SOURCE: Field = 0..2;
    pub(crate) const TARGET: Field = 2..4;
    pub(crate) const LEN: Field = 4..6;
    pub(crate) const CHECKSUM: Field = 6..8;
}

pub(crate) mod bth {
    use super::Field;
    pub(crate) const OPCODE: usize = 0;
    /// Solicited event, migration request, pad count (two bits), version (four bits).
    pub(crate) const FLAGS: usize = 1;
    pub(crate) const PARTITION: Field = 2..4;
    /// FECN, BECN and six reserved bits; masked in the ICRC.
    pub(crate) const CONGESTION: usize = 4;
    pub(crate) const QPN: Field = 5..8;
    /// Acknowledge request and seven reserved bits.
    pub(crate) const ACK_REQUEST: usize = 8;
    pub(crate) const PSN: Field = 9..12;
}

pub(crate) mod reth {
    use super::Field;
    pub(crate) const ADDRESS: Field = 0..8;
    pub(crate) const KEY: Field = 8..12;
    pub(crate) const LEN: Field = 12..16;
}

pub(crate) mod atomic_eth {
    use super::Field;
    pub(crate) const ADDRESS: Field = 0..8;
    pub(crate) const KEY: Field = 8..12;
    pub(crate) const SWAP: Field = 12..20;
    pub(crate) const COMPARE: Field = 20..28;
}

pub(crate) mod aeth {
    use super::Field;
    pub(crate) const SYNDROME: usize = 0;
    pub(crate) const MSN: Field = 1..4;
}

/// Length of the IP header.
pub(crate) const fn ip_len(is_ipv4: bool) -> usize {
    if is_ipv4 { IPV4_LEN } else { IPV6_LEN }
}

/// The number in these bytes, most significant first.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// Writes the low bytes of a number, most significant first.
pub(crate) fn put(bytes: &mut [u8], number: u64) {
    let mut rest = number;
    for byte in bytes.iter_mut().rev() {
        *byte = rest as u8;
        rest >>= 8;
    }
}
