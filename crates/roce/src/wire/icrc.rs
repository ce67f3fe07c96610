//! The invariant CRC: computed, and repaired after a change of a few bytes.
//!
//! It is the CRC-32 of Ethernet over eight bytes of ones in place of the link's header, then the
//! packet from its IP header to the end of the pad, where every field that may change on the way
//! counts as ones (annex A17). It is sent with its least significant byte first.
//!
//! A CRC is linear: the CRCs of two packets of one length differ by the CRC, without its initial
//! and final ones, of their difference. If only bytes in the middle differ, the difference ends
//! with `distance` bytes of zeros, and a zero byte multiplies the register by x⁸ modulo the
//! polynomial. So a repair costs the changed bytes, eight at a time, and one multiplication by
//! x^(8·distance), which is read from a table.

use crate::limits::FRAME_LEN_MAX;

use super::layout::{BTH_LEN, IPV6_LEN, UDP_LEN, bth, ip_len, ipv4, ipv6, udp};

/// The polynomial, with the coefficient of x⁰ in the highest bit.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// Bytes of ones in front, in place of the link's header.
const LINK_LEN: usize = 8;

/// Bytes of headers of which some are masked, and the ones in front of them.
const HEAD_LEN_MAX: usize = LINK_LEN + IPV6_LEN + UDP_LEN + BTH_LEN;

/// The CRC register after a byte and `k` zeros, from a register of zero: `SLICES[k][byte]`.
static SLICES: [[u32; 256]; 8] = slices();

/// x^(8n − 32) modulo the polynomial, for every distance n within a frame. Reduction multiplies by
/// x³², which is taken back here.
static POWERS: [u32; FRAME_LEN_MAX] = powers();

/// The ICRC of a packet, from its IP header to the end of its pad. Its headers must be complete.
pub(crate) fn compute(packet: &[u8], is_ipv4: bool) -> u32 {
    let masked_len = ip_len(is_ipv4) + UDP_LEN + BTH_LEN;
    let mut head = [0xff; HEAD_LEN_MAX];
    let (headers, rest) = packet.split_at(masked_len.min(packet.len()));
    let copy = &mut head[LINK_LEN..LINK_LEN + headers.len()];
    copy.copy_from_slice(headers);
    mask(copy, is_ipv4);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head[..LINK_LEN + headers.len()]);
    hasher.update(rest);
    hasher.finalize()
}

/// Sets the fields to ones that may change on the way, in the headers from that of IP to the BTH.
pub(super) fn mask(headers: &mut [u8], is_ipv4: bool) {
    if is_ipv4 {
        headers[ipv4::TOS] = 0xff;
        headers[ipv4::TTL] = 0xff;
        headers[ipv4::CHECKSUM].fill(0xff);
    } else {
        // Traffic class and flow label, but not the version.
        headers[0] |= 0x0f;
        headers[1..4].fill(0xff);
        headers[ipv6::HOP_LIMIT] = 0xff;
    }
    let headers = &mut headers[ip_len(is_ipv4)..];
    headers[udp::CHECKSUM].fill(0xff);
    headers[UDP_LEN + bth::CONGESTION] = 0xff;
}

/// The ICRC after a change: `old` became `new`, which are of one length, and `distance` bytes lie
/// between them and the ICRC.
///
/// Costs the changed bytes and one multiplication, wherever in the packet they are. Only for fields
/// that are not masked.
///
/// # Panics
/// The lengths differ, or the distance is not within a frame.
pub(crate) fn repair(icrc: u32, old: &[u8], new: &[u8], distance: usize) -> u32 {
    assert_eq!(old.len(), new.len(), "a change of length needs a new ICRC");
    let mut register = 0;
    // Zeros in front do not change a register of zero, so the first chunk may be short.
    let (short, whole) = (old.len() % 8, old.len());
    let mut start = 0;
    let mut end = if short == 0 { whole.min(8) } else { short };
    while start < whole {
        let difference = padded(&old[start..end]) ^ padded(&new[start..end]);
        register = reduce(difference ^ u64::from(register));
        start = end;
        end += 8;
    }
    icrc ^ reduce(product(register, POWERS[distance]) << 1)
}

/// Eight bytes at most, first byte lowest, after zeros.
fn padded(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    padded[8 - bytes.len()..].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}

/// The CRC register after eight bytes, lowest first, from a register of zero. As a polynomial with
/// the coefficient of x⁶³ in the lowest bit: the value times x³², modulo the polynomial of the CRC.
fn reduce(value: u64) -> u32 {
    let mut register = 0;
    for (index, byte) in value.to_le_bytes().into_iter().enumerate() {
        register ^= SLICES[7 - index][usize::from(byte)];
    }
    register
}

/// The product of two polynomials, by multiplications of integers: in each factor only every
/// fourth bit is kept, so that carries, at most three bits long, do not reach the next one that
/// counts.
fn product(left: u32, right: u32) -> u64 {
    const KEPT: u64 = 0x1111_1111_1111_1111;
    let part = |value: u32, shift: usize| u64::from(value) & (KEPT << shift);
    let left: [u64; 4] = std::array::from_fn(|shift| part(left, shift));
    let right: [u64; 4] = std::array::from_fn(|shift| part(right, shift));
    let mut product = 0;
    for shift in 0..4 {
        let mut bits = 0;
        for (index, left) in left.iter().enumerate() {
            bits ^= left.wrapping_mul(right[(4 + shift - index) % 4]);
        }
        product |= bits & (KEPT << shift);
    }
    product
}

const fn times_x(value: u32) -> u32 {
    (value >> 1) ^ (POLYNOMIAL & 0_u32.wrapping_sub(value & 1))
}

const fn times_x8(mut value: u32) -> u32 {
    let mut bit = 0;
    while bit < 8 {
        value = times_x(value);
        bit += 1;
    }
    value
}

const fn slices() -> [[u32; 256]; 8] {
    let mut table = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u32;
        let mut zeros = 0;
        while zeros < 8 {
            register = times_x8(register);
            table[zeros][byte] = register;
            zeros += 1;
        }
        byte += 1;
    }
    table
}

const fn powers() -> [u32; FRAME_LEN_MAX] {
    let mut table = [0; FRAME_LEN_MAX];
    let mut power = 1 << 31;
    let mut bit = 0;
    while bit < 32 {
        power = by_x(power);
        bit += 1;
    }
    let mut distance = 0;
    while distance < FRAME_LEN_MAX {
        table[distance] = power;
        power = times_x8(power);
        distance += 1;
    }
    table
}

/// The inverse of [`times_x`]: the highest bit tells whether the polynomial was added.
const fn by_x(value: u32) -> u32 {
    let was_added = value >> 31;
    ((value ^ (POLYNOMIAL & 0_u32.wrapping_sub(was_added))) << 1) | was_added
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_repaired_crc_is_the_one_of_the_changed_bytes(
            bytes in prop::collection::vec(any::<u8>(), 1..FRAME_LEN_MAX),
            change in prop::collection::vec(any::<u8>(), 1..40),
            offset: prop::sample::Index,
        ) {
            let offset = offset.index(bytes.len());
            let end = (offset + change.len()).min(bytes.len());
            let change = &change[..end - offset];
            let mut changed = bytes.clone();
            changed[offset..end].copy_from_slice(change);
            let repaired = repair(
                crc32fast::hash(&bytes),
                &bytes[offset..end],
                change,
                bytes.len() - end,
            );
            prop_assert_eq!(repaired, crc32fast::hash(&changed));
        }
    }

    #[test]
    fn the_crc_is_that_of_ethernet() {
        // The check value of CRC-32/ISO-HDLC.
        let register = b"123456789".iter().fold(!0, |register: u32, byte| {
            (register >> 8) ^ SLICES[0][usize::from(register as u8 ^ byte)]
        });
        assert_eq!(!register, 0xcbf4_3926);
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }
}
