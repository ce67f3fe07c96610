//! Parses memcached's UDP frame headers, and joins answers that consist of several datagrams. This
//! module does no I/O.

use crate::limits::ANSWER_DATAGRAMS_MAX;

/// The length of a frame header in bytes. The header has four fields of two bytes each, big-endian:
/// request number, datagram number, number of datagrams, and a reserved field.
pub(super) const HEADER_LEN: usize = 8;

/// The frame header of one datagram of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// The number of the request that is answered.
    pub(super) request: u16,
    /// The number of this datagram in the answer, from 0.
    pub(super) number: u16,
    /// The number of datagrams of the answer.
    pub(super) total: u16,
}

impl Frame {
    /// Returns the header of a request, which is always a single datagram.
    pub(super) fn of_request(request: u16) -> [u8; HEADER_LEN] {
        let [high, low] = request.to_be_bytes();
        [high, low, 0, 0, 0, 1, 0, 0]
    }

    /// Splits a datagram into its header and its payload. None: the header is not valid.
    pub(super) fn parse(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (header, payload) = datagram.split_first_chunk::<HEADER_LEN>()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let frame = Self {
            request: word(0),
            number: word(2),
            total: word(4),
        };
        (frame.number < frame.total).then_some((frame, payload))
    }
}

/// The result of adding a datagram to the incomplete answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// The datagram is a complete answer.
    Single,
    /// The datagram was the last missing one of its answer. These are the bytes of the answer.
    Complete(Vec<u8>),
    /// Other datagrams of the answer have not come yet.
    Partial,
    /// A datagram with the same number had already come for this answer.
    Duplicate,
    /// The number of datagrams in the header differs from that in an earlier datagram of the
    /// answer, or is too large.
    Malformed,
}

/// The incomplete answers: some of their datagrams have come, and others have not. An outstanding
/// request has at most one incomplete answer.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    partial: Vec<PartialAnswer>,
}

/// An incomplete answer.
#[derive(Debug)]
struct PartialAnswer {
    /// The number of the request.
    request: u16,
    /// The number of datagrams that have not come.
    missing: u16,
    /// The payload of each datagram of the answer. None: the datagram has not come.
    parts: Vec<Option<Vec<u8>>>,
}

impl Reassembly {
    /// Adds a datagram that belongs to the answer to an outstanding request.
    pub(super) fn accept(&mut self, frame: Frame, payload: &[u8]) -> Accepted {
        if frame.total == 1 {
            // This datagram is a complete answer. Earlier datagrams with the same request number
            // may have been parts of a longer answer. They cannot belong to this answer, so they
            // are discarded.
            self.discard(frame.request);
            return Accepted::Single;
        }
        if frame.total > ANSWER_DATAGRAMS_MAX {
            return Accepted::Malformed;
        }
        let of_request = |it: &PartialAnswer| it.request == frame.request;
        let index = match self.partial.iter().position(of_request) {
            Some(index) => index,
            None => {
                self.partial.push(PartialAnswer {
                    request: frame.request,
                    missing: frame.total,
                    parts: vec![None; frame.total.into()],
                });
                self.partial.len() - 1
            }
        };
        let answer = &mut self.partial[index];
        if answer.parts.len() != usize::from(frame.total) {
            return Accepted::Malformed;
        }
        let part = &mut answer.parts[usize::from(frame.number)];
        if part.is_some() {
            return Accepted::Duplicate;
        }
        *part = Some(payload.to_vec());
        answer.missing -= 1;
        if answer.missing > 0 {
            return Accepted::Partial;
        }
        let answer = self.partial.remove(index);
        Accepted::Complete(answer.parts.into_iter().flatten().flatten().collect())
    }

    /// Discards the datagrams of the incomplete answer to a request.
    pub(super) fn discard(&mut self, request: u16) {
        if !self.partial.is_empty() {
            self.partial.retain(|it| it.request != request);
        }
    }
}
