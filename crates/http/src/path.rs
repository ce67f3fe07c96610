//! Paths of request targets, decoded to names of files relative to a root, and encoded again.

use std::fmt::Write as _;

/// Why a path names no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// It does not begin with a slash, has a malformed escape, a NUL byte, or a segment `.` or
    /// `..`. Clients remove such segments before they send a request (RFC 3986, section 5.2.4).
    Malformed,
    /// A segment contains an encoded slash. No name of a file contains a slash, and the path would
    /// have another meaning for a proxy than for the server.
    EncodedSlash,
}

/// Decodes the path of a request target, such as `/a/b%20c`, to a name relative to a root, `a/b
/// c`. Empty segments are removed: `//a///b` is `a/b`. The result has no leading slash, and ends
/// with a slash if the path does, except that `/` is the empty name.
///
/// # Errors
/// See [`PathError`]. Segments are compared after decoding, so `%2e%2e` is rejected like `..`.
pub fn decode_path(path: &str) -> Result<Vec<u8>, PathError> {
    let encoded = path.strip_prefix('/').ok_or(PathError::Malformed)?;
    let mut name = Vec::with_capacity(encoded.len());
    for segment in encoded.split('/') {
        if segment.is_empty() {
            continue;
        }
        let start = name.len();
        decode_segment(segment, &mut name)?;
        if matches!(&name[start..], b"." | b"..") {
            return Err(PathError::Malformed);
        }
        name.push(b'/');
    }
    if !encoded.ends_with('/') {
        name.pop();
    }
    Ok(name)
}

/// Decodes the percent escapes of a text. `None` if one is malformed.
#[must_use]
pub fn decode_percent(text: &str) -> Option<Vec<u8>> {
    decoded(text).collect()
}

/// The bytes of a text with its percent escapes decoded. `None` for one that is malformed.
fn decoded(text: &str) -> impl Iterator<Item = Option<u8>> {
    let mut bytes = text.bytes();
    std::iter::from_fn(move || {
        let byte = match bytes.next()? {
            b'%' => {
                let high = bytes.next().and_then(hex_digit);
                let low = bytes.next().and_then(hex_digit);
                high.zip(low).map(|(high, low)| high << 4 | low)
            }
            byte => Some(byte),
        };
        Some(byte)
    })
}

fn decode_segment(segment: &str, name: &mut Vec<u8>) -> Result<(), PathError> {
    for byte in decoded(segment) {
        match byte {
            None | Some(0) => return Err(PathError::Malformed),
            Some(b'/') => return Err(PathError::EncodedSlash),
            Some(byte) => name.push(byte),
        }
    }
    Ok(())
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Encodes a name that [`decode_path`] returned as the path of a URL. All bytes are escaped but
/// unreserved characters (RFC 3986, section 2.3) and slashes, so the result is safe in a header
/// field. It begins with exactly one slash: with two it would name another host.
#[must_use]
pub fn encode_path(name: &[u8]) -> String {
    let mut path = String::with_capacity(name.len() + 1);
    path.push('/');
    for &byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                path.push(char::from(byte));
            }
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(path, "%{byte:02X}");
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_decoded_to_relative_names() {
        for (path, name) in [
            ("/", ""),
            ("//", ""),
            ("/a", "a"),
            ("/a/", "a/"),
            ("//a///b//", "a/b/"),
            ("/a%20b+c", "a b+c"),
            ("/%61%2E%2ehtml", "a..html"),
            ("/..a/.b./...", "..a/.b./..."),
            ("/%25252e", "%252e"),
        ] {
            assert_eq!(decode_path(path).as_deref(), Ok(name.as_bytes()), "{path}");
        }
    }

    #[test]
    fn paths_that_could_leave_the_root_are_rejected() {
        use PathError::{EncodedSlash, Malformed};
        for (path, error) in [
            ("", Malformed),
            ("*", Malformed),
            ("a", Malformed),
            ("/..", Malformed),
            ("/../etc/passwd", Malformed),
            ("/a/../b", Malformed),
            ("/./a", Malformed),
            ("/%2e%2e/a", Malformed),
            ("/.%2E/a", Malformed),
            ("/a/..%00", Malformed),
            ("/a%00", Malformed),
            ("/a%", Malformed),
            ("/a%4", Malformed),
            ("/a%4g", Malformed),
            ("/a%+1", Malformed),
            ("/..%2fetc/passwd", EncodedSlash),
            ("/a%2F..%2fb", EncodedSlash),
        ] {
            assert_eq!(decode_path(path), Err(error), "{path}");
        }
    }

    proptest! {
        #[test]
        fn an_encoded_name_is_decoded_to_itself(
            segments in proptest::collection::vec("[^/\0]{1,9}", 0..4), is_folder: bool,
        ) {
            prop_assume!(!segments.iter().any(|segment| segment == "." || segment == ".."));
            let mut name = segments.join("/");
            if is_folder && !name.is_empty() {
                name.push('/');
            }
            let path = encode_path(name.as_bytes());
            prop_assert!(path.is_ascii() && !path.starts_with("//"));
            prop_assert_eq!(decode_path(&path), Ok(name.into_bytes()));
        }
    }
}
