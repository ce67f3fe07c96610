//! Counter values as decimal text, for arithmetic on stored values (`operations/rewrite.rs`).

use crate::limits::COUNTER_MAX;

/// The decimal text of a counter value, without leading zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digits {
    /// The digits are at the end of this array.
    text: [u8; COUNTER_MAX],
    /// Index of the first digit.
    start: usize,
}

impl Digits {
    /// Formats a counter value.
    pub(crate) fn new(mut value: u64) -> Self {
        let mut digits = Self {
            text: [b'0'; COUNTER_MAX],
            start: COUNTER_MAX,
        };
        loop {
            digits.start -= 1;
            digits.text[digits.start] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                return digits;
            }
        }
    }

    /// Returns the digits as ASCII text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

/// Parses an item's value as a counter. Accepts optional white space and an optional plus sign
/// before the digits, as memcached does, which uses C's `strtoull`. The number ends at the end of
/// the text, at a zero byte, or at white space. (Spaces follow a number that arithmetic has made
/// shorter.) Returns `None` if the text is not a number, or if the number exceeds 64 bits.
pub(crate) fn parse<'t>(text: impl Iterator<Item = &'t u8>) -> Option<u64> {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let mut bytes = text.copied().skip_while(|&byte| is_space(byte));
    let first = match bytes.next()? {
        b'+' => bytes.next()?,
        first => first,
    };
    let mut others = bytes.take_while(|&byte| !is_space(byte) && byte != 0);
    let add = |value: u64, byte| value.checked_mul(10)?.checked_add(digit(byte)?);
    others.try_fold(digit(first)?, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsing_the_digits_of_a_number_returns_the_number() {
        for value in [0, 7, 10, 99, 1_000_000, u64::MAX] {
            assert_eq!(parse(Digits::new(value).as_bytes().iter()), Some(value));
        }
    }

    #[test]
    fn only_text_that_begins_with_a_complete_number_is_parsed() {
        for text in [
            "",
            " ",
            "a",
            "1a",
            "-1",
            "+",
            "+ 1",
            "++1",
            "\0",
            "18446744073709551616",
            "184467440737095516150",
        ] {
            assert_eq!(parse(text.as_bytes().iter()), None, "{text}");
        }
        assert_eq!(parse(b"9  ".iter()), Some(9));
        assert_eq!(parse(b"12 monkeys".iter()), Some(12));
        assert_eq!(parse(b" \x0b\t\r\n+7\0x".iter()), Some(7));
        assert_eq!(
            parse([&[b'0'; 30][..], b"8\x0c"].into_iter().flatten()),
            Some(8)
        );
    }
}
