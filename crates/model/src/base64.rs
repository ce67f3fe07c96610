//! Keys in base64, decoded bit by bit.

/// Decodes standard base64 that the parser has found to be well formed.
pub(crate) fn decode(text: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
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

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn known_texts_decode() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(decode(text.as_bytes()), bytes.as_bytes());
        }
        assert_eq!(decode(b"/+8A"), [0xff, 0xef, 0x00]);
    }
}
