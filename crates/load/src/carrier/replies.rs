//! Parses the replies on a byte stream and matches them to the outstanding requests.

use std::collections::VecDeque;

use workload::WebFiles;

use super::{Answered, CarrierError, InFlight};
use crate::config::Protocol;
use crate::wire::{Answer, HttpCounts, Outcome, Reader};

/// The outstanding requests of one byte stream, and the state of parsing their replies.
#[derive(Debug)]
pub(super) struct Replies {
    /// The outstanding requests, in the order in which they were sent.
    pub(super) in_flight: VecDeque<InFlight>,
    protocol: Protocol,
    reader: Reader,
    /// The number of bytes read of the answer that is not yet complete.
    len: u32,
}

impl Replies {
    pub(super) fn new(protocol: Protocol, depth: usize) -> Self {
        Self::verifying(protocol, depth, None)
    }

    /// `verified` are the files whose bytes are compared with the replies. None: bytes are not
    /// compared.
    pub(super) fn verifying(protocol: Protocol, depth: usize, verified: Option<WebFiles>) -> Self {
        Self {
            in_flight: VecDeque::with_capacity(depth),
            protocol,
            reader: Reader::new(protocol, verified),
            len: 0,
        }
    }

    /// Discards the state of parsing, before the replies on a new byte stream are parsed.
    pub(super) fn reset(&mut self) {
        self.reader.reset();
        self.len = 0;
    }

    /// Whether the server closes the connection after the answer that was returned last.
    pub(super) fn closes(&self) -> bool {
        self.reader.closes()
    }

    /// Counts one fault of the server: bytes after an answer, while no other answer is expected.
    /// Only the HTTP reader counts these faults.
    pub(super) fn count_surplus(&mut self) {
        self.reader.count_surplus();
    }

    /// The counts of the replies so far. None: the protocol is not HTTP.
    pub(super) fn http_counts(&self) -> Option<HttpCounts> {
        self.reader.http_counts()
    }

    /// Parses the next answer, removes its bytes from `input`, and returns it with its request.
    /// None: `input` has no further complete answer.
    #[inline]
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Answered>, CarrierError> {
        loop {
            let Some(oldest) = self.in_flight.front() else {
                return if input.is_empty() {
                    Ok(None)
                } else {
                    self.count_surplus();
                    Err(CarrierError::Unsolicited)
                };
            };
            self.reader.expect(&oldest.request);
            let step = self.reader.read(input, oldest.request.op)?;
            *input = &input[step.consumed..];
            self.len += step.consumed as u32;
            let Some(reply) = step.reply else {
                return Ok(None);
            };
            // A reply without the number `opaque` answers the oldest request.
            let index = match reply.opaque() {
                None => 0,
                Some(opaque) => {
                    let has_token = |request: &InFlight| request.opaque == opaque;
                    let found = self.in_flight.iter().position(has_token);
                    found.ok_or(CarrierError::Unsolicited)?
                }
            };
            let request = &mut self.in_flight[index];
            let answer = reply.answer(request.request.op);
            let answer = answer.ok_or(CarrierError::Unsolicited)?;
            let Some(answer) = request.add_reply(self.protocol, answer) else {
                continue;
            };
            if answer.hits > request.request.keys {
                return Err(CarrierError::ExtraValues);
            }
            let answered = Answered {
                request: *request,
                answer,
                len: std::mem::take(&mut self.len),
                cas: self.reader.cas(),
            };
            if index == 0 {
                self.in_flight.pop_front();
            } else {
                self.in_flight.remove(index);
            }
            return Ok(Some(answered));
        }
    }
}

impl InFlight {
    /// Returns the answer to the request, of which `answer` is the last expected reply. A multiget
    /// may have a reply for each of its keys, which make one answer together. None: further replies
    /// follow.
    #[inline]
    pub(super) fn add_reply(&mut self, protocol: Protocol, answer: Answer) -> Option<Answer> {
        if protocol.replies(self.request.op, self.request.keys) == 1 {
            return Some(answer);
        }
        self.hits += answer.hits;
        self.has_error |= answer.outcome == Outcome::Error;
        self.replies -= 1;
        if self.replies > 0 {
            return None;
        }
        Some(if self.has_error {
            Answer::ERROR
        } else {
            Answer::found(self.hits)
        })
    }
}
