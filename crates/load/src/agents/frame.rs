//! Frames: the format in which messages between coordinator and agent are sent over a byte stream.
//!
//! ```text
//! "CAGT"  version  length   body
//! 4 bytes 2 bytes  4 bytes  length bytes        numbers are big-endian
//! ```
//!
//! The first four bytes are the magic number, which marks a frame. The version is that of the
//! agents' protocol, which defines the messages in the bodies. The layout of the first ten bytes is
//! the same in all versions. Therefore a program can read and report the version of a frame even if
//! it cannot parse the message.

use crate::limits::MESSAGE_LEN_MAX;

/// The magic number: the first four bytes of every frame.
const MAGIC: [u8; 4] = *b"CAGT";
/// The version of the agents' protocol. It must be increased with each change to the content of a
/// message. The settings of a run are part of a message, so a change to them counts too.
pub const VERSION: u16 = 2;
/// The number of bytes before the body: the magic number, the version and the length.
pub const HEAD_LEN: usize = 10;

/// Why bytes cannot be parsed as a frame, or why a frame cannot be emitted. In the error texts,
/// "it" is the other end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes do not begin with the magic number of a frame.
    #[error("it does not speak the agents' protocol")]
    NotAFrame,
    /// The version of the frame is not [`VERSION`].
    #[error(
        "it speaks version {peer} of the agents' protocol, and this program version {VERSION}; run \
         the same curtail on both hosts"
    )]
    Version {
        /// The version of the frame.
        peer: u16,
    },
    /// The body is longer than the limit of the receiver ([`parse`]) or of all frames ([`emit`]).
    #[error("a message of {len} bytes; at most {most} are accepted here")]
    TooLong {
        /// The length of the body.
        len: usize,
        /// The maximum length accepted.
        most: usize,
    },
}

/// The result of parsing the beginning of a byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// The first frame is not complete yet.
    Incomplete {
        /// The length of the whole frame, or [`HEAD_LEN`] if the length of the body is not known
        /// yet. Always more than the length of the parsed input.
        needed: usize,
    },
    /// The first frame is complete.
    Frame {
        /// The body of the frame.
        body: &'a [u8],
        /// The length of the frame: head and body.
        len: usize,
    },
}

/// Parses the first frame of `input`. The body of the frame may have up to `body_max` bytes, but
/// never more than [`MESSAGE_LEN_MAX`]. The magic number, the version and the length are each
/// checked once they have arrived, so an error can be returned for an incomplete frame.
///
/// # Errors
/// The magic number is wrong, the version is not [`VERSION`], or the body is too long.
pub fn parse(input: &[u8], body_max: usize) -> Result<Parsed<'_>, FrameError> {
    // The number of bytes of the magic number that have arrived.
    let magic_len = input.len().min(MAGIC.len());
    if input[..magic_len] != MAGIC[..magic_len] {
        return Err(FrameError::NotAFrame);
    }
    // The version is in bytes 4 and 5, and the length of the body in bytes 6 to 9.
    let incomplete = Ok(Parsed::Incomplete { needed: HEAD_LEN });
    let Some(&[a, b]) = input.get(4..6) else {
        return incomplete;
    };
    let peer = u16::from_be_bytes([a, b]);
    if peer != VERSION {
        return Err(FrameError::Version { peer });
    }
    let Some(&[a, b, c, d]) = input.get(6..HEAD_LEN) else {
        return incomplete;
    };
    let len = u32::from_be_bytes([a, b, c, d]) as usize;
    let most = body_max.min(MESSAGE_LEN_MAX);
    if len > most {
        return Err(FrameError::TooLong { len, most });
    }
    match input.get(HEAD_LEN..HEAD_LEN + len) {
        Some(body) => Ok(Parsed::Frame {
            body,
            len: HEAD_LEN + len,
        }),
        None => Ok(Parsed::Incomplete {
            needed: HEAD_LEN + len,
        }),
    }
}

/// Appends a frame with this body to `out`.
///
/// # Errors
/// The body is longer than [`MESSAGE_LEN_MAX`].
pub fn emit(body: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
    let (len, most) = (body.len(), MESSAGE_LEN_MAX);
    if len > most {
        return Err(FrameError::TooLong { len, most });
    }
    // The cast keeps the value, because `len` is at most `MESSAGE_LEN_MAX`, which is below 2³².
    let body_len = len as u32;
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&body_len.to_be_bytes());
    out.extend_from_slice(body);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes of a frame with this body.
    fn frame(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        emit(body, &mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn emitted_frames_are_parsed_unchanged(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..5),
        ) {
            let stream: Vec<u8> = bodies.iter().flat_map(|body| frame(body)).collect();
            let mut rest = stream.as_slice();
            for body in &bodies {
                let Ok(Parsed::Frame { body: parsed, len }) = parse(rest, MESSAGE_LEN_MAX) else {
                    panic!("{rest:?}")
                };
                prop_assert_eq!(parsed, body.as_slice());
                rest = &rest[len..];
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn shortened_frame_is_incomplete(body in prop::collection::vec(any::<u8>(), 0..50)) {
            let whole = frame(&body);
            for len in 0..whole.len() {
                let Ok(Parsed::Incomplete { needed }) = parse(&whole[..len], MESSAGE_LEN_MAX) else {
                    panic!("{len} of {whole:?}")
                };
                prop_assert!(len < needed && needed <= whole.len());
            }
        }

        #[test]
        fn parsed_frame_exceeds_neither_the_input_nor_the_limit_of_the_body(
            input in prop::collection::vec(any::<u8>(), 0..40),
            body_max in 0_usize..20,
        ) {
            if let Ok(Parsed::Frame { body, len }) = parse(&input, body_max) {
                prop_assert!(body.len() <= body_max && len <= input.len());
            }
        }
    }

    #[test]
    fn wrong_magic_number_version_or_length_of_an_incomplete_frame_is_an_error() {
        let error_of = |input: &[u8]| parse(input, 100).unwrap_err();
        assert_eq!(error_of(b"G"), FrameError::NotAFrame);
        assert_eq!(error_of(b"CAGE"), FrameError::NotAFrame);
        assert_eq!(error_of(b"CAGT\0\x03"), FrameError::Version { peer: 3 });
        let long = frame(&[0; 101]);
        let expected = FrameError::TooLong {
            len: 101,
            most: 100,
        };
        assert_eq!(error_of(&long[..HEAD_LEN]), expected);
        // The text of a version error names both versions.
        assert_eq!(
            FrameError::Version { peer: 3 }.to_string(),
            "it speaks version 3 of the agents' protocol, and this program version 2; run the same \
             curtail on both hosts"
        );
    }

    #[test]
    fn emitting_a_body_above_the_limit_is_an_error_and_writes_nothing() {
        let mut out = Vec::new();
        assert!(emit(&vec![0; MESSAGE_LEN_MAX + 1], &mut out).is_err());
        assert!(out.is_empty());
    }
}
