//! Ranges of bytes (RFC 9110, section 14). One range for each request is supported.

/// A part of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// The offset of its first byte.
    pub start: u64,
    /// The offset behind its last byte.
    pub end: u64,
}

/// What a header field `Range` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeRequest {
    /// The whole document: the field is malformed, of another unit, or has several ranges. A
    /// server may ignore a `Range` (RFC 9110, section 14.2).
    Whole,
    /// A part of the document, which is not empty.
    Part(ByteRange),
    /// No byte of the document. The answer is 416.
    Unsatisfiable,
}

/// Parses the value of a `Range` for a document of `len` bytes.
#[must_use]
pub fn parse_range(value: &[u8], len: u64) -> RangeRequest {
    parse(value, len).unwrap_or(RangeRequest::Whole)
}

fn parse(value: &[u8], len: u64) -> Option<RangeRequest> {
    let text = std::str::from_utf8(value).ok()?;
    let (unit, set) = text.split_once('=')?;
    if !unit.trim_ascii().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return None;
    }
    let (first, last) = set.trim_ascii().split_once('-')?;
    if first.is_empty() {
        // The last bytes.
        let suffix_len = number(last)?.min(len);
        return Some(if suffix_len == 0 {
            RangeRequest::Unsatisfiable
        } else {
            let start = len - suffix_len;
            RangeRequest::Part(ByteRange { start, end: len })
        });
    }
    let start = number(first)?;
    let end = match last {
        "" => len,
        _ => {
            let last = number(last)?;
            if last < start {
                return None;
            }
            last.saturating_add(1).min(len)
        }
    };
    Some(if start >= len {
        RangeRequest::Unsatisfiable
    } else {
        RangeRequest::Part(ByteRange { start, end })
    })
}

/// A decimal number. One that does not fit is larger than any document.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_cut_to_the_document() {
        let part = |start, end| RangeRequest::Part(ByteRange { start, end });
        for (value, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=0-9", part(0, 10)),
            ("bytes=3-5", part(3, 6)),
            ("bytes=3-", part(3, 10)),
            ("bytes=-3", part(7, 10)),
            ("bytes=-99", part(0, 10)),
            ("bytes=9-99", part(9, 10)),
            ("Bytes = 1-1", part(1, 2)),
            ("bytes=0-99999999999999999999999", part(0, 10)),
            ("bytes=10-", RangeRequest::Unsatisfiable),
            (
                "bytes=99999999999999999999999-",
                RangeRequest::Unsatisfiable,
            ),
            ("bytes=-0", RangeRequest::Unsatisfiable),
            ("bytes=5-3", RangeRequest::Whole),
            ("bytes=-", RangeRequest::Whole),
            ("bytes=", RangeRequest::Whole),
            ("bytes=0-1,3-4", RangeRequest::Whole),
            ("bytes=+1-2", RangeRequest::Whole),
            ("bytes=0x1-2", RangeRequest::Whole),
            ("bytes=1-2-3", RangeRequest::Whole),
            ("lines=1-2", RangeRequest::Whole),
            ("1-2", RangeRequest::Whole),
        ] {
            assert_eq!(parse_range(value.as_bytes(), 10), expected, "{value}");
        }
        for value in ["bytes=0-", "bytes=0-0", "bytes=-1"] {
            let parsed = parse_range(value.as_bytes(), 0);
            assert_eq!(parsed, RangeRequest::Unsatisfiable, "{value} of nothing");
        }
    }
}
