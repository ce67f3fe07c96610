//! Parses the replies on a byte stream and matches them to the outstanding requests.

use std::collections::VecDeque;

use workload::WebFiles;

use super::{Answered, CarrierError, InFlight};
use crate::wire::{Answer, HttpCounts, Outcome, Wire};

/// The outstanding requests of one byte stream, and the state of parsing their replies.
#[derive(Debug)]
pub(super) struct Replies<W: Wire> {
    /// The outstanding requests, in the order in which they were sent.
    pub(super) in_flight: VecDeque<InFlight>,
    reader: W::Reader,
    /// The number of bytes read of the answer that is not yet complete.
    len: u32,
}

impl<W: Wire> Replies<W> {
    pub(super) fn new(depth: usize) -> Self {
        Self {
            in_flight: VecDeque::with_capacity(depth),
            reader: W::Reader::default(),
            len: 0,
        }
    }

    /// Discards the state of parsing, before the replies on a new byte stream are parsed.
    pub(super) fn reset(&mut self) {
        W::reset(&mut self.reader);
        self.len = 0;
    }

    /// Sets the files whose bytes are compared with the replies. None: bytes are not compared.
    pub(super) fn verifying(mut self, verified: Option<WebFiles>) -> Self {
        self.reader = W::reader(verified);
        self
    }

    /// Whether the server closes the connection after the answer that was returned last.
    pub(super) fn closes(&self) -> bool {
        W::closes(&self.reader)
    }

    /// Counts one fault of the server: bytes after an answer, while no other answer is expected.
    /// Only the HTTP reader counts these faults.
    pub(super) fn count_surplus(&mut self) {
        W::count_surplus(&mut self.reader);
    }

    /// The counts of the replies so far. None: the protocol is not HTTP.
    pub(super) fn http_counts(&self) -> Option<HttpCounts> {
        W::http_counts(&self.reader)
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
            W::expect(&mut self.reader, &oldest.request);
            let step = W::read(&mut self.reader, input, oldest.request.op)?;
            *input = &input[step.consumed..];
            self.len += step.consumed as u32;
            let Some(reply) = step.reply else {
                return Ok(None);
            };
            // A reply without the number `opaque` answers the oldest request.
            let index = match W::opaque(reply) {
                None => 0,
                Some(opaque) => {
                    let has_token = |request: &InFlight| request.opaque == opaque;
                    let found = self.in_flight.iter().position(has_token);
                    found.ok_or(CarrierError::Unsolicited)?
                }
            };
            let request = &mut self.in_flight[index];
            let mut answer =
                W::answer(reply, request.request.op).ok_or(CarrierError::Unsolicited)?;
            // Without `ONE_REPLY`, a multiget has a reply for each of its keys.
            if !W::ONE_REPLY && request.request.keys > 1 {
                match request.add_reply(answer) {
                    Some(complete) => answer = complete,
                    None => continue,
                }
            }
            if answer.hits > request.request.keys {
                return Err(CarrierError::ExtraValues);
            }
            let answered = Answered {
                request: *request,
                answer,
                len: std::mem::take(&mut self.len),
                cas: W::cas(&self.reader),
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
    /// Adds one of the several replies to a multiget. If it is the last expected one, returns the
    /// answer that all replies make together.
    pub(super) fn add_reply(&mut self, answer: Answer) -> Option<Answer> {
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
