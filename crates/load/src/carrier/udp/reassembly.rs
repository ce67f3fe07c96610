//! Memcached's datagram frames, and answers of several datagrams put together. No I/O.

use crate::limits::ANSWER_DATAGRAMS_MAX;

/// Bytes of a frame header: request number, datagram number, number of datagrams, reserved; each
/// two bytes, big-endian.
pub(super) const HEADER_LEN: usize = 8;

/// The header of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// The request that it answers.
    pub(super) request: u16,
    /// Its number in the answer, from 0.
    pub(super) number: u16,
    /// Number of datagrams of the answer.
    pub(super) total: u16,
}

impl Frame {
    /// The header of a request, which is a single datagram.
    pub(super) fn of_request(request: u16) -> [u8; HEADER_LEN] {
        let [high, low] = request.to_be_bytes();
        [high, low, 0, 0, 0, 1, 0, 0]
    }

    /// The header and the payload of a datagram. None: it has no valid header.
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

/// What a datagram is to the answers in progress.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// The whole answer.
    Single,
    /// The last missing part of this answer.
    Complete(Vec<u8>),
    /// A part of an answer that lacks others.
    Partial,
    /// A part that came before.
    Duplicate,
    /// A part that contradicts the others, or of an answer beyond the bounds.
    Malformed,
}

/// The answers of which some datagrams have come; at most one for each outstanding request.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    partial: Vec<PartialAnswer>,
}

#[derive(Debug)]
struct PartialAnswer {
    request: u16,
    missing: u16,
    parts: Vec<Option<Vec<u8>>>,
}

impl Reassembly {
    /// Adds a datagram of an answer to an outstanding request.
    pub(super) fn accept(&mut self, frame: Frame, payload: &[u8]) -> Accepted {
        if frame.total == 1 {
            // Parts of an answer of several datagrams cannot precede an answer of one.
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

    /// Discards the parts of an answer.
    pub(super) fn discard(&mut self, request: u16) {
        if !self.partial.is_empty() {
            self.partial.retain(|it| it.request != request);
        }
    }
}
