//! Frames: the format in which messages between coordinator and agent are sent over a byte stream.
//!
//! ```text
//! "CAGT"  version  length   body
//! 4 bytes 2 bytes  4 bytes  length bytes        numbers are big-endian
//! ```
//!
//! Every frame contains the version of the messages. The layout of the first ten bytes is the same
//! in all versions, so that each end can report which version the other end speaks.

use crate::limits::FRAME_LEN_MAX;

const MAGIC: [u8; 4] = *b"CAGT";
/// The version of the messages. A change to a message must increase it. The messages contain the
/// settings of a run, so a change to these settings must increase it too.
pub const VERSION: u16 = 2;
/// The number of bytes before the body.
pub const HEAD_LEN: usize = 10;

/// Why bytes cannot be parsed as a frame, or why a frame cannot be emitted. In the error texts,
/// "it" is the other end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes do not begin with the magic number of a frame.
    #[error("it does not speak the agents' protocol")]
    NotAFrame,
    /// The frame has another version.
    #[error(
        "it speaks version {peer} of the agents' protocol, and this program version {VERSION}; run \
         the same curtail on both hosts"
    )]
    Version {
        /// The version of the frame.
        peer: u16,
    },
    /// The body is longer than the receiver accepts.
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
        /// The minimum length of a complete frame that begins with these bytes.
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

/// Parses the first frame of `input`. Its body may have up to `body_max` bytes. An error is
/// returned as soon as `input` has the bytes that show it, even if the frame is not complete.
///
/// # Errors
/// The input does not begin with a frame of this version and of an accepted length.
pub fn parse(input: &[u8], body_max: usize) -> Result<Parsed<'_>, FrameError> {
    let begun = input.len().min(MAGIC.len());
    if input[..begun] != MAGIC[..begun] {
        return Err(FrameError::NotAFrame);
    }
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
    let most = body_max.min(FRAME_LEN_MAX);
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
/// The body is longer than [`FRAME_LEN_MAX`].
pub fn emit(body: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
    let (len, most) = (body.len(), FRAME_LEN_MAX);
    if len > most {
        return Err(FrameError::TooLong { len, most });
    }
    // The cast loses nothing, because the limit fits 32 bits.
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
                let Ok(Parsed::Frame { body: parsed, len }) = parse(rest, FRAME_LEN_MAX) else {
                    panic!("{rest:?}")
                };
                prop_assert_eq!(parsed, body.as_slice());
                rest = &rest[len..];
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn beginning_of_a_frame_is_incomplete(body in prop::collection::vec(any::<u8>(), 0..50)) {
            let whole = frame(&body);
            for len in 0..whole.len() {
                let Ok(Parsed::Incomplete { needed }) = parse(&whole[..len], FRAME_LEN_MAX) else {
                    panic!("{len} of {whole:?}")
                };
                prop_assert!(len < needed && needed <= whole.len());
            }
        }

        #[test]
        fn frame_parsed_from_any_input_is_within_the_input_and_the_bound(
            input in prop::collection::vec(any::<u8>(), 0..40),
            body_max in 0_usize..20,
        ) {
            if let Ok(Parsed::Frame { body, len }) = parse(&input, body_max) {
                prop_assert!(body.len() <= body_max && len <= input.len());
            }
        }
    }

    #[test]
    fn error_is_returned_before_the_frame_is_complete() {
        let fault = |input: &[u8]| parse(input, 100).unwrap_err();
        assert_eq!(fault(b"G"), FrameError::NotAFrame);
        assert_eq!(fault(b"CAGE"), FrameError::NotAFrame);
        assert_eq!(fault(b"CAGT\0\x03"), FrameError::Version { peer: 3 });
        let long = frame(&[0; 101]);
        let expected = FrameError::TooLong {
            len: 101,
            most: 100,
        };
        assert_eq!(fault(&long[..HEAD_LEN]), expected);
        assert_eq!(
            FrameError::Version { peer: 3 }.to_string(),
            "it speaks version 3 of the agents' protocol, and this program version 2; run the same \
             curtail on both hosts"
        );
    }

    #[test]
    fn emitting_a_body_above_the_bound_is_an_error() {
        let mut out = Vec::new();
        assert!(emit(&vec![0; FRAME_LEN_MAX + 1], &mut out).is_err());
        assert!(out.is_empty());
    }
}
