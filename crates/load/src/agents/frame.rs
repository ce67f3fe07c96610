//! Frames: how messages between coordinator and agent follow each other in a byte stream.
//!
//! ```text
//! "CAGT"  version  length   body
//! 4 bytes 2 bytes  4 bytes  length bytes        numbers are big-endian
//! ```
//!
//! The version is that of the messages. It stands in every frame, and the layout of its first ten
//! bytes never changes, so that either end can say which version the other speaks.

use crate::limits::FRAME_LEN_MAX;

const MAGIC: [u8; 4] = *b"CAGT";
/// The version of the messages. Any change to them, or to the settings of a run that they carry, is
/// a new version.
pub const VERSION: u16 = 1;
/// Bytes before the body.
pub const HEAD_LEN: usize = 10;

/// Why bytes are not a frame that this program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes do not begin as a frame.
    #[error("it does not speak the agents' protocol")]
    NotAFrame,
    /// A frame of another version.
    #[error(
        "it speaks version {peer} of the agents' protocol, and this curtail version {VERSION}; run \
         the same curtail on both hosts"
    )]
    Version {
        /// The version of the frame.
        peer: u16,
    },
    /// The body is longer than is accepted here.
    #[error("a message of {len} bytes; at most {most} are accepted here")]
    TooLong {
        /// Its length.
        len: usize,
        /// The longest accepted.
        most: usize,
    },
}

/// The beginning of a byte stream, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// No frame is complete yet. So many bytes are needed at least.
    Incomplete {
        /// The length of the shortest input that can be a frame.
        needed: usize,
    },
    /// A frame.
    Frame {
        /// Its body.
        body: &'a [u8],
        /// Its length with the head.
        len: usize,
    },
}

/// Parses the first frame of `input`, whose body may have `body_max` bytes. A fault is found as
/// soon as the bytes that have it are there.
///
/// # Errors
/// The input does not begin with such a frame.
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

/// Appends a frame with this body.
///
/// # Errors
/// The body is longer than [`FRAME_LEN_MAX`].
pub fn emit(body: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
    let (len, most) = (body.len(), FRAME_LEN_MAX);
    let short = u32::try_from(len).ok().filter(|_| len <= most);
    let short = short.ok_or(FrameError::TooLong { len, most })?;
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&short.to_be_bytes());
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
        fn what_is_emitted_is_parsed_again(
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
        fn a_part_of_a_frame_is_incomplete(body in prop::collection::vec(any::<u8>(), 0..50)) {
            let whole = frame(&body);
            for part in 0..whole.len() {
                let Ok(Parsed::Incomplete { needed }) = parse(&whole[..part], FRAME_LEN_MAX) else {
                    panic!("{part} of {whole:?}")
                };
                prop_assert!(part < needed && needed <= whole.len().max(HEAD_LEN));
            }
        }

        #[test]
        fn no_input_is_parsed_beyond_its_end_or_bound(
            input in prop::collection::vec(any::<u8>(), 0..40),
            body_max in 0_usize..20,
        ) {
            if let Ok(Parsed::Frame { body, len }) = parse(&input, body_max) {
                prop_assert!(body.len() <= body_max && len <= input.len());
            }
        }
    }

    #[test]
    fn a_fault_is_found_as_soon_as_its_bytes_are_there() {
        let fault = |input: &[u8]| parse(input, 100).unwrap_err();
        assert_eq!(fault(b"G"), FrameError::NotAFrame);
        assert_eq!(fault(b"CAGE"), FrameError::NotAFrame);
        assert_eq!(fault(b"CAGT\0\x02"), FrameError::Version { peer: 2 });
        let long = frame(&[0; 101]);
        let expected = FrameError::TooLong {
            len: 101,
            most: 100,
        };
        assert_eq!(fault(&long[..HEAD_LEN]), expected);
        assert_eq!(
            FrameError::Version { peer: 2 }.to_string(),
            "it speaks version 2 of the agents' protocol, and this curtail version 1; run the same \
             curtail on both hosts"
        );
    }

    #[test]
    fn a_body_beyond_the_bound_is_not_emitted() {
        let mut out = Vec::new();
        assert!(emit(&vec![0; FRAME_LEN_MAX + 1], &mut out).is_err());
        assert!(out.is_empty());
    }
}
