//! Base64 (RFC 4648, standard alphabet, padded) of keys.
//!
//! Decoding is as lenient as memcached's: it skips bytes outside the alphabet and ignores
//! everything after the first padded group.

use crate::limits::KEY_MAX;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` in base64.
pub(crate) fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let mut padded = [0; 3];
        padded[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        for digit in 0..4 {
            out.push(if digit <= group.len() {
                ALPHABET[(bits >> (18 - 6 * digit)) as usize & 63]
            } else {
                b'='
            });
        }
    }
}

/// Decodes `text` into `into`. Returns none unless `text` consists of at least one group and only
/// complete ones, is padded correctly and has at most [`KEY_MAX`] bytes, padding included.
pub(crate) fn decode<'a>(text: &[u8], into: &'a mut [u8; KEY_MAX]) -> Option<&'a [u8]> {
    let symbols = text.iter().filter(|&&byte| symbol(byte).is_some()).count();
    if symbols == 0 || !symbols.is_multiple_of(4) || symbols / 4 * 3 > KEY_MAX {
        return None;
    }
    let mut len = 0;
    let (mut bits, mut held, mut padding) = (0u32, 0, 0);
    for &byte in text {
        let Some(value) = symbol(byte) else { continue };
        padding += usize::from(byte == b'=');
        bits = bits << 6 | u32::from(value);
        held += 1;
        if held == 4 {
            into[len..len + 3].copy_from_slice(&bits.to_be_bytes()[1..]);
            len += 3;
            (bits, held) = (0, 0);
            if padding > 0 {
                break;
            }
        }
    }
    if padding > 2 {
        return None;
    }
    Some(&into[..len - padding])
}

fn symbol(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        b'=' => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        decode(text, &mut [0; KEY_MAX]).map(<[u8]>::to_vec)
    }

    #[test]
    fn every_length_survives_a_round_trip() {
        let bytes: Vec<u8> = (0..187).map(|n| (n * 91) as u8).collect();
        for len in 1..=bytes.len() {
            let mut text = Vec::new();
            encode(&mut text, &bytes[..len]);
            assert_eq!(text.len(), len.div_ceil(3) * 4);
            assert_eq!(decoded(&text).as_deref(), Some(&bytes[..len]));
        }
    }

    #[test]
    fn decoding_is_as_lenient_as_memcached() {
        assert_eq!(decoded(b"Zm9v").as_deref(), Some(b"foo".as_slice()));
        assert_eq!(decoded(b"!Zm.9v\xff").as_deref(), Some(b"foo".as_slice()));
        assert_eq!(
            decoded(b"Zm9vYg==Zm9v").as_deref(),
            Some(b"foob".as_slice())
        );
        assert_eq!(decoded(b"=m9v").as_deref(), Some([0x02, 0x6f].as_slice()));
        assert_eq!(decoded(b"Zm=9").as_deref(), Some([0x66, 0x60].as_slice()));
        for wrong in ["", "!!!", "Zm9", "Zm9vY", "A===", "===="] {
            assert_eq!(decoded(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
