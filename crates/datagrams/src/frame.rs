//! The header of each datagram, in both directions (memcached `doc/protocol.txt`, "UDP protocol").
//!
//! ```text
//!   0         2          4         6          8
//!   ├─────────┼──────────┼─────────┼──────────┼───
//!   │ request │ sequence │ count   │ reserved │ payload
//!   ╰─────────┴──────────┴─────────┴──────────┴───
//! ```
//!
//! All are big-endian. A client numbers its requests. The datagrams of a reply have the number of
//! the request, and sequence numbers from 0 to one below the count.

use crate::limits::REPLY_DATAGRAM_MAX;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;
/// Longest payload of a datagram of a reply, in bytes.
pub const PAYLOAD_MAX: usize = REPLY_DATAGRAM_MAX - HEADER_LEN;

/// The request number and the payload of a datagram that a client sent. `None`: it has no payload,
/// or claims to be a part of several. Reserved bytes are ignored, as by memcached.
#[must_use]
pub fn parse(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (header, payload) = datagram.split_first_chunk::<HEADER_LEN>()?;
    let [n0, n1, 0, 0, 0, 1, _, _] = *header else {
        return None;
    };
    (!payload.is_empty()).then_some((u16::from_be_bytes([n0, n1]), payload))
}

/// The number of datagrams of a reply.
#[must_use]
pub fn count(reply: &[u8]) -> usize {
    reply.len().div_ceil(PAYLOAD_MAX)
}

/// The length of all datagrams of a reply together, in bytes.
#[must_use]
pub fn total_len(reply: &[u8]) -> usize {
    reply.len() + count(reply) * HEADER_LEN
}

/// The datagrams of a reply in order, each with its header. There must be at most 65 535.
pub fn datagrams(request: u16, reply: &[u8]) -> impl Iterator<Item = ([u8; HEADER_LEN], &[u8])> {
    let [n0, n1] = request.to_be_bytes();
    let [c0, c1] = (count(reply) as u16).to_be_bytes();
    let payloads = reply.chunks(PAYLOAD_MAX).enumerate();
    payloads.map(move |(sequence, payload)| {
        let [s0, s1] = (sequence as u16).to_be_bytes();
        ([n0, n1, s0, s1, c0, c1, 0, 0], payload)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_request_of_one_datagram_is_read() {
        let datagram = |sequence, count, payload: &[u8]| {
            let header = [0x12, 0x34, 0, sequence, 0, count, 9, 9];
            [&header, payload].concat()
        };
        assert_eq!(
            parse(&datagram(0, 1, b"mn\r\n")),
            Some((0x1234, &b"mn\r\n"[..]))
        );
        for (sequence, count) in [(0, 0), (0, 2), (1, 2), (1, 1), (7, 1)] {
            assert_eq!(parse(&datagram(sequence, count, b"mn\r\n")), None);
        }
        assert_eq!(parse(&datagram(0, 1, b"")), None);
        for len in 0..HEADER_LEN {
            assert_eq!(parse(&datagram(0, 1, b"")[..len]), None);
        }
    }

    #[test]
    fn datagrams_of_a_reply_are_numbered_and_together_the_reply() {
        for len in [
            1,
            PAYLOAD_MAX - 1,
            PAYLOAD_MAX,
            PAYLOAD_MAX + 1,
            400 * PAYLOAD_MAX,
        ] {
            let reply: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let mut together = Vec::new();
            let mut total = 0;
            for (index, (header, payload)) in datagrams(0xabcd, &reply).enumerate() {
                let field =
                    |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
                assert_eq!((field(0), field(2)), (0xabcd, index));
                assert_eq!((field(4), field(6)), (count(&reply), 0));
                assert!(HEADER_LEN + payload.len() <= REPLY_DATAGRAM_MAX);
                total += HEADER_LEN + payload.len();
                together.extend_from_slice(payload);
            }
            assert_eq!((together, total), (reply.clone(), total_len(&reply)));
        }
    }
}
