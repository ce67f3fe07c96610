//! Reading and writing decimal numbers, with memcached's rules for what counts as a number.

use crate::limits::COUNTER_MAX;

/// Appends `value` in decimal.
pub(crate) fn write(out: &mut Vec<u8>, value: u64) {
    if value < 10 {
        out.push(b'0' + value as u8);
        return;
    }
    let mut text = [0; COUNTER_MAX];
    out.extend_from_slice(render(value, &mut text));
}

/// The decimal text of `value`, in `text`.
pub fn render(mut value: u64, text: &mut [u8; COUNTER_MAX]) -> &[u8] {
    let mut start = COUNTER_MAX;
    loop {
        start -= 1;
        text[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &text[start..];
        }
    }
}

/// Parses at most 22 digits and nothing else (memcached `mcmc_toktou64`).
pub(crate) fn unsigned_64(word: &[u8]) -> Option<u64> {
    if word.len() > 22 {
        return None;
    }
    word.iter().try_fold(0u64, |sum, &byte| {
        sum.checked_mul(10)?.checked_add(digit(byte)?)
    })
}

/// Parses at most 11 digits and nothing else (memcached `mcmc_toktou32`).
pub(crate) fn unsigned_32(word: &[u8]) -> Option<u32> {
    if word.len() > 11 {
        return None;
    }
    unsigned_64(word).and_then(|value| u32::try_from(value).ok())
}

/// Parses digits after an optional minus, at most 11 bytes in all. A lone minus is zero (memcached
/// `mcmc_tokto32`).
pub(crate) fn signed_32(word: &[u8]) -> Option<i32> {
    if word.len() > 11 {
        return None;
    }
    signed_64(word).and_then(|value| i32::try_from(value).ok())
}

/// Parses digits after an optional minus, down to `-i64::MAX`.
pub(crate) fn signed_64(word: &[u8]) -> Option<i64> {
    let (digits, sign) = match word {
        [b'-', digits @ ..] => (digits, -1),
        digits => (digits, 1),
    };
    let magnitude = i64::try_from(unsigned_64(digits)?).ok()?;
    Some(sign * magnitude)
}

/// Parses client flags like C's `strtoul` with memcached's `safe_strtoul`: white space and a sign
/// may precede the digits, white space may follow them with anything after it, and only the low
/// 32 bits count.
pub(crate) fn lenient_unsigned_32(word: &[u8]) -> Option<u32> {
    let (negative, magnitude) = lenient(word)?;
    let value = if negative {
        magnitude.wrapping_neg()
    } else {
        magnitude
    };
    let refused = negative && (value as i64) < 0;
    (!refused).then_some(value as u32)
}

/// Parses a time to live like C's `strtol` with memcached's `safe_strtol`: as
/// [`lenient_unsigned_32`], but the number must fit 64 signed bits.
pub(crate) fn lenient_signed_32(word: &[u8]) -> Option<i32> {
    let (negative, magnitude) = lenient(word)?;
    let value = if negative {
        0i64.checked_sub_unsigned(magnitude)?
    } else {
        i64::try_from(magnitude).ok()?
    };
    Some(value as i32)
}

fn lenient(word: &[u8]) -> Option<(bool, u64)> {
    let start = word.iter().position(|&byte| !is_space(byte))?;
    let (negative, digits) = match &word[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let (mut magnitude, mut rest) = (0u64, digits);
    while let [byte @ b'0'..=b'9', after @ ..] = rest {
        magnitude = magnitude
            .checked_mul(10)?
            .checked_add(u64::from(byte - b'0'))?;
        rest = after;
    }
    let has_digits = rest.len() < digits.len();
    let ends_well = rest.first().is_none_or(|&byte| byte == 0 || is_space(byte));
    (has_digits && ends_well).then_some((negative, magnitude))
}

fn digit(byte: u8) -> Option<u64> {
    byte.is_ascii_digit().then(|| u64::from(byte - b'0'))
}

/// C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_like_the_standard_library_does() {
        for value in [0, 9, 10, 99, 100, 4_294_967_295, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(out, value.to_string().into_bytes());
            assert_eq!(unsigned_64(&out), Some(value));
        }
    }

    #[test]
    fn strict_numbers_are_bounded_and_accept_no_plus_sign() {
        assert_eq!(unsigned_64(b"0018446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned_64(b"18446744073709551616"), None);
        assert_eq!(unsigned_64(b"00000000000000000000001"), None);
        assert_eq!(unsigned_64(b"+1"), None);
        assert_eq!(unsigned_32(b"4294967295"), Some(u32::MAX));
        assert_eq!(unsigned_32(b"4294967296"), None);
        assert_eq!(unsigned_32(b"000000000001"), None);
        assert_eq!(signed_32(b"-2147483648"), Some(i32::MIN));
        assert_eq!(signed_32(b"2147483648"), None);
        assert_eq!(signed_32(b"-"), Some(0));
        assert_eq!(signed_32(b"--1"), None);
    }

    #[test]
    fn lenient_numbers_follow_c() {
        assert_eq!(lenient_unsigned_32(b"4294967296"), Some(0));
        assert_eq!(lenient_unsigned_32(b"\t+7\tx"), Some(7));
        assert_eq!(lenient_unsigned_32(b"-1"), None);
        assert_eq!(lenient_unsigned_32(b"-18446744073709551615"), Some(1));
        assert_eq!(lenient_unsigned_32(b"18446744073709551616"), None);
        assert_eq!(lenient_unsigned_32(b"1x"), None);
        assert_eq!(lenient_signed_32(b"-1"), Some(-1));
        assert_eq!(lenient_signed_32(b"4294967295"), Some(-1));
        assert_eq!(lenient_signed_32(b"-9223372036854775808"), Some(0));
        assert_eq!(lenient_signed_32(b"9223372036854775808"), None);
        assert_eq!(lenient_signed_32(b""), None);
    }
}
