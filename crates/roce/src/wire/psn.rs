//! Packet sequence numbers: 24 bits that wrap (specification, 9.7).

use std::fmt;

/// Number of packet sequence numbers.
const MODULUS: u32 = 1 << 24;

/// A packet sequence number. Two of them are compared by their distance, because they wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// The number modulo 2²⁴.
    pub const fn new(number: u32) -> Self {
        Self(number % MODULUS)
    }

    /// The number, below 2²⁴.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The number that follows after `count` packets.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// The number of the packet before.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self::new(self.0.wrapping_add(MODULUS - 1))
    }

    /// How many packets this number is after `other`: −2²³ to 2²³ − 1.
    pub const fn distance_from(self, other: Self) -> i32 {
        let distance = self.0.wrapping_sub(other.0) % MODULUS;
        // Sign-extends the 24 bits.
        ((distance << 8).cast_signed()) >> 8
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_wrap() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.plus(1), Psn::new(0));
        assert_eq!(Psn::new(0).previous(), last);
        assert_eq!(Psn::new(2).distance_from(last), 3);
        assert_eq!(last.distance_from(Psn::new(2)), -3);
        assert_eq!(Psn::new(0x80_0000).distance_from(Psn::new(0)), -0x80_0000);
        assert_eq!(Psn::new(0x7f_ffff).distance_from(Psn::new(0)), 0x7f_ffff);
        assert_eq!(Psn::new(0x0100_0005), Psn::new(5));
    }
}
