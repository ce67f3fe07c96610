//! The end of a word. Words are mostly so short that a call of `memchr` takes longer than
//! comparing eight bytes at once here. Longer ones are left to it.

use memchr::{memchr, memchr2};

/// Bytes at the front of a text that are compared here.
const SHORT: usize = 32;

/// The index of the first byte that is `wanted`.
#[inline]
pub(crate) fn find(text: &[u8], wanted: u8) -> Option<usize> {
    search(
        text,
        |byte| byte == wanted,
        |eight| equal(eight, wanted),
        |rest| memchr(wanted, rest),
    )
}

/// The index of the first byte that is one of these.
#[inline]
pub(crate) fn find_either(text: &[u8], first: u8, second: u8) -> Option<usize> {
    search(
        text,
        |byte| byte == first || byte == second,
        |eight| equal(eight, first) | equal(eight, second),
        |rest| memchr2(first, second, rest),
    )
}

/// Searches `text`: by `is_wanted` if it is shorter than eight bytes, or else its front by
/// `in_eight`, whose result is as that of [`equal`], and the bytes behind that by `in_rest`.
#[inline(always)]
fn search(
    text: &[u8],
    is_wanted: impl Fn(u8) -> bool,
    in_eight: impl Fn([u8; 8]) -> u64,
    in_rest: impl FnOnce(&[u8]) -> Option<usize>,
) -> Option<usize> {
    let found_in = |at: usize, eight| match in_eight(eight) {
        0 => None,
        found => Some(at + found.trailing_zeros() as usize / 8),
    };
    let Some(&last) = text.last_chunk() else {
        return text.iter().position(|&byte| is_wanted(byte));
    };
    let (eights, _) = text[..text.len().min(SHORT)].as_chunks();
    for (number, &eight) in eights.iter().enumerate() {
        if let Some(found) = found_in(8 * number, eight) {
            return Some(found);
        }
    }
    match text.len() {
        // These overlap bytes in which nothing was found.
        len @ ..=SHORT => found_in(len - 8, last),
        _ => in_rest(&text[SHORT..]).map(|at| SHORT + at),
    }
}

/// Compares eight bytes. The lowest set bit of the result is in the byte of the first one that is
/// `wanted`; there is none if no byte is. The bits above it have no meaning, because the
/// subtraction borrows from them.
#[inline(always)]
fn equal(eight: [u8; 8], wanted: u8) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let zero_if_equal = u64::from_le_bytes(eight) ^ (ONES * u64::from(wanted));
    zero_if_equal.wrapping_sub(ONES) & !zero_if_equal & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_byte_is_found_at_every_place_in_text_of_every_length() {
        // Beside the wanted byte, bytes from which a subtraction borrows or that differ by one bit.
        for filler in [b'k', 0, 1, b' ' ^ 1, b' ' | 0x80, 0xff] {
            for len in 0..80 {
                let mut text = vec![filler; len];
                assert_eq!(find(&text, b' '), None, "{text:?}");
                assert_eq!(find_either(&text, b' ', b'\n'), None, "{text:?}");
                for at in (0..len).rev() {
                    // There are others behind the first one.
                    text[at] = if at % 3 == 0 { b'\n' } else { b' ' };
                    let first = text.iter().position(|&byte| byte == b' ');
                    assert_eq!(find(&text, b' '), first, "{text:?}");
                    assert_eq!(find_either(&text, b' ', b'\n'), Some(at), "{text:?}");
                }
            }
        }
    }
}
