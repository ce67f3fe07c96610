//! Keys in base64, decoded bit by bit.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes standard base64 that the parser has accepted; like memcached it passes over what is
/// no digit.
pub(crate) fn decode(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    let digits = text
        .iter()
        .filter_map(|letter| ALPHABET.iter().position(|digit| digit == letter));
    for digit in digits {
        bits = bits << 6 | u32::try_from(digit).unwrap_or_default();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

/// Encodes, with padding.
pub(crate) fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| {
            bits << 8 | u32::from(group.get(at).copied().unwrap_or(0))
        });
        for digit in 0..4 {
            text.push(if digit <= group.len() {
                ALPHABET[(bits >> (18 - 6 * digit) & 63) as usize]
            } else {
                b'='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn known_texts_there_and_back() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(decode(text.as_bytes()), bytes.as_bytes());
            assert_eq!(encode(bytes.as_bytes()), text.as_bytes());
        }
        assert_eq!(decode(b"/+8A"), [0xff, 0xef, 0x00]);
        assert_eq!(encode(&[0xff, 0xef, 0x00]), b"/+8A");
        assert_eq!(decode(b"Z\0m9-v"), b"foo");
    }
}
