//! The UDP carrier. A request is one datagram, and an answer is one or more datagrams. Datagrams
//! may be lost, late or duplicated.
//!
//! Each datagram begins with memcached's frame header of 8 bytes (doc/protocol.txt, "UDP
//! protocol"). The requests of a socket are numbered, and the header of an answer has the number of
//! the request. An answer that comes after the time-out of its request, or a second time, is
//! counted and ignored. Request numbers have 16 bits, so they repeat after 65 536 requests. An
//! answer that is so late that its number is in use again could be matched to the wrong request.

mod reassembly;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};

use sys::clock::monotonic_ns;
use sys::datagram::Datagram;
use sys::poll::{Events, Interest, Poll};

use super::{Answered, Carrier, CarrierCounts, CarrierError, Failure, InFlight, zero_if_blocked};
use crate::batch::Batch;
use crate::config::{Config, Protocol, Target};
use crate::error::Error;
use crate::limits::{
    DATAGRAMS_PER_TURN_MAX, OPENING_ATTEMPTS_MAX, OPENING_BACKOFF_NS, UDP_RECEIVE_BUFFER,
};
use crate::opening::{Probe, Share, target_of};
use crate::wire::{Answer, Reader, Step};
use reassembly::{Accepted, Frame, HEADER_LEN, Reassembly};

/// A UDP socket that sends to one server.
#[derive(Debug)]
pub(crate) struct Udp {
    socket: Datagram,
    answers: Answers,
    /// The datagram of the newest request, if the socket did not accept the datagram: the socket
    /// was full, or reported that an earlier datagram was refused. Empty: there is none.
    unsent: Vec<u8>,
    /// The request number in the header of the next request.
    next_number: u16,
}

/// The outstanding requests of a socket. Matches received datagrams to them, without I/O.
#[derive(Debug)]
struct Answers {
    /// The outstanding requests, in the order in which they were sent.
    in_flight: VecDeque<InFlight>,
    /// The answers of which some datagrams are still missing.
    reassembly: Reassembly,
    /// Datagrams of answers that came twice, or after the time-out of their request.
    late_or_duplicate: u64,
    /// Datagrams that cannot be a part of an answer.
    malformed: u64,
    protocol: Protocol,
}

impl Answers {
    fn new(protocol: Protocol, depth: usize) -> Self {
        Self {
            in_flight: VecDeque::with_capacity(depth),
            reassembly: Reassembly::default(),
            late_or_duplicate: 0,
            malformed: 0,
            protocol,
        }
    }

    /// Processes a received datagram. Returns the answer that it completes, if any.
    fn accept(&mut self, datagram: &[u8]) -> Option<Answered> {
        let Some((frame, payload)) = Frame::parse(datagram) else {
            self.malformed += 1;
            return None;
        };
        let has_number = |request: &InFlight| request.datagram == frame.request;
        let Some(index) = self.in_flight.iter().position(has_number) else {
            self.late_or_duplicate += 1;
            return None;
        };
        match self.reassembly.accept(frame, payload) {
            Accepted::Single => self.finish(index, payload),
            Accepted::Complete(bytes) => self.finish(index, &bytes),
            Accepted::Partial => None,
            Accepted::Duplicate => {
                self.late_or_duplicate += 1;
                None
            }
            Accepted::Malformed => {
                self.malformed += 1;
                None
            }
        }
    }

    /// Completes the request at `index` with all bytes of its answer. If the bytes cannot be
    /// parsed, the request counts as answered with an error. None: the answer has the opaque token
    /// ([`InFlight::opaque`]) of another request and is ignored.
    fn finish(&mut self, index: usize, input: &[u8]) -> Option<Answered> {
        let request = self.in_flight[index];
        let mut reader = Reader::new(self.protocol, None);
        let answer = match parse(self.protocol, &mut reader, request, input) {
            ParsedAnswer::Answer(answer) => answer,
            ParsedAnswer::Malformed => Answer::ERROR,
            ParsedAnswer::OtherRequest => {
                self.malformed += 1;
                return None;
            }
        };
        self.in_flight.remove(index);
        Some(Answered {
            request,
            answer,
            len: input.len() as u32,
            cas: reader.cas(),
        })
    }

    fn give_up(&mut self, opaque: u64) -> Option<InFlight> {
        let has_token = |request: &InFlight| request.opaque == opaque;
        let index = self.in_flight.iter().position(has_token)?;
        let request = self.in_flight.remove(index)?;
        self.reassembly.discard(request.datagram);
        Some(request)
    }
}

/// The result of parsing the bytes of a complete answer.
enum ParsedAnswer {
    /// An answer to the request.
    Answer(Answer),
    /// Bytes that are not an answer to the request, bytes after the answer, or more values than the
    /// request has keys.
    Malformed,
    /// An answer with the opaque token of another request.
    OtherRequest,
}

/// Parses the bytes of a complete answer. Bytes after its last reply make the answer malformed.
fn parse(
    protocol: Protocol,
    reader: &mut Reader,
    mut request: InFlight,
    mut input: &[u8],
) -> ParsedAnswer {
    let op = request.request.op;
    loop {
        let Ok(Step {
            consumed,
            reply: Some(reply),
        }) = reader.read(input, op)
        else {
            return ParsedAnswer::Malformed;
        };
        input = &input[consumed..];
        if reply
            .opaque()
            .is_some_and(|opaque| opaque != request.opaque)
        {
            return ParsedAnswer::OtherRequest;
        }
        let Some(answer) = reply.answer(op) else {
            return ParsedAnswer::Malformed;
        };
        match request.add_reply(protocol, answer) {
            // Further replies to the request follow.
            None => {}
            Some(answer) if input.is_empty() && answer.hits <= request.request.keys => {
                return ParsedAnswer::Answer(answer);
            }
            Some(_) => return ParsedAnswer::Malformed,
        }
    }
}

impl Udp {
    /// The number of requests in flight whose datagrams were sent. Only the newest request in
    /// flight may be unsent. `unsent` may also be the datagram of a request that was given up and
    /// is no longer in flight.
    fn sent_count(&self) -> usize {
        let in_flight = &self.answers.in_flight;
        let is_unsent = |request: &InFlight| {
            self.unsent
                .starts_with(&Frame::of_request(request.datagram))
        };
        in_flight.len() - usize::from(in_flight.back().is_some_and(is_unsent))
    }
}

impl Carrier for Udp {
    const BATCH_MAX: usize = 1;
    const TIMES_OUT: bool = true;
    const RECEIVES_MAX: usize = DATAGRAMS_PER_TURN_MAX;

    /// Opens a socket for each connection, after each target has answered `version`.
    fn open(
        config: &Config,
        poll: &Poll,
        share: Share,
        stop: &AtomicBool,
    ) -> Result<Vec<Self>, Error> {
        // Connections are assigned to the targets in turn, so that the first connections of the
        // share include one to each of its targets.
        let targets = config.targets.len().min(share.count as usize) as u32;
        for number in 0..targets {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let protocol = config.protocol.probe().unwrap_or(Probe::Text);
            probe(target_of(&config.targets, share.first + number), protocol)?;
        }
        let mut connections = Vec::with_capacity(share.count as usize);
        for number in 0..share.count {
            let socket = connect(target_of(&config.targets, share.first + number))?;
            // Both calls may fail. Without time stamps, the engine takes the time just after the
            // receive as the arrival time. With a smaller buffer, more datagrams may be lost, and
            // their requests time out.
            let _ = socket.stamp_receives();
            let _ = socket.set_receive_buffer(UDP_RECEIVE_BUFFER);
            poll.add(&socket, number.into(), Interest::Read)
                .map_err(Error::system("register a socket"))?;
            connections.push(Self {
                socket,
                answers: Answers::new(config.protocol, config.depth as usize),
                unsent: Vec::new(),
                next_number: 0,
            });
        }
        Ok(connections)
    }

    fn in_flight(&self) -> &VecDeque<InFlight> {
        &self.answers.in_flight
    }

    fn in_flight_mut(&mut self) -> &mut VecDeque<InFlight> {
        &mut self.answers.in_flight
    }

    fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn send(&mut self, batch: &Batch, _: &Poll, _: u64) -> Result<usize, CarrierError> {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        if let Some(request) = self.answers.in_flight.back_mut() {
            request.datagram = number;
        }
        let header = Frame::of_request(number);
        let sent = batch.send_with_header(&header, |pieces| self.socket.send(pieces));
        let sent = zero_if_blocked(sent);
        // If the send reports that an earlier datagram was refused, this datagram was not sent. It
        // is kept, and sent when the next poll reports that the socket is writable.
        let is_kept = match &sent {
            Ok(len) => *len == 0,
            Err(error) => error.failure() == Failure::Refused,
        };
        if is_kept {
            self.unsent.extend_from_slice(&header);
            batch.append_from(0, &mut self.unsent);
        }
        sent
    }

    fn send_unsent(&mut self) -> Result<usize, CarrierError> {
        let sent = zero_if_blocked(self.socket.send(&[IoSlice::new(&self.unsent)]))?;
        if sent > 0 {
            self.unsent.clear();
        }
        Ok(sent)
    }

    fn set_interest(&self, poll: &Poll, token: u64, interest: Interest) -> io::Result<()> {
        poll.change(&self.socket, token, interest)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<(usize, Option<u64>), CarrierError> {
        match self.socket.recv_stamped(buffer) {
            Ok(received) => Ok(received),
            Err(error) => zero_if_blocked(Err(error)).map(|len| (len, None)),
        }
    }

    fn next(&mut self, input: &mut &[u8]) -> Result<Option<Answered>, CarrierError> {
        let datagram = std::mem::take(input);
        if datagram.is_empty() {
            return Ok(None);
        }
        Ok(self.answers.accept(datagram))
    }

    fn give_up(&mut self, opaque: u64) -> Option<InFlight> {
        self.answers.give_up(opaque)
    }

    /// The kernel reports each refused datagram once, but not which one it was. So the oldest sent
    /// request in flight fails. If there is none, the refused request has already failed for
    /// another reason. The datagram in `unsent` is kept. Each report belongs to a datagram that was
    /// sent before, so that a bounded number of reports can delay the unsent datagram. After any
    /// other error of the socket, all requests in flight fail.
    fn recover(&mut self, error: &CarrierError) -> Option<(Vec<InFlight>, Failure)> {
        let failure = error.failure();
        let count = match failure {
            Failure::Refused => self.sent_count().min(1),
            _ => {
                self.unsent.clear();
                self.answers.in_flight.len()
            }
        };
        let failed: Vec<InFlight> = self.answers.in_flight.drain(..count).collect();
        for request in &failed {
            self.answers.reassembly.discard(request.datagram);
        }
        Some((failed, failure))
    }

    fn add_counts_to(&self, counts: &mut CarrierCounts) {
        counts.late_or_duplicate += self.answers.late_or_duplicate;
        counts.malformed += self.answers.malformed;
    }
}

/// Opens a UDP socket that sends to `target` and receives only from it.
fn connect(target: &Target) -> Result<Datagram, Error> {
    let connected = match target {
        Target::Tcp(address) => Datagram::connect(*address),
        Target::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
    };
    connected.map_err(|source| Error::Connect {
        target: target.clone(),
        attempts: 1,
        source,
    })
}

/// Sends `version` to a target until the target answers. The first attempt waits for the answer
/// four times [`OPENING_BACKOFF_NS`], and each further attempt twice as long as the attempt before.
/// `probe` is the protocol of `version`.
fn probe(target: &Target, probe: Probe) -> Result<(), Error> {
    let socket = connect(target)?;
    let poll = Poll::new().map_err(Error::system("open an epoll descriptor"))?;
    poll.add(&socket, 0, Interest::Read)
        .map_err(Error::system("register a socket"))?;
    let mut events = Events::with_capacity(1);
    let started_ns = monotonic_ns();
    for attempt in 0..OPENING_ATTEMPTS_MAX {
        let mut request = Frame::of_request(attempt as u16).to_vec();
        probe.write(&mut request);
        let answered = socket
            .send(&[IoSlice::new(&request)])
            .and_then(|_| poll.wait(&mut events, Some(OPENING_BACKOFF_NS << (attempt + 2))))
            .and_then(|()| socket.recv_stamped(&mut [0; 512]));
        match answered {
            Ok((len, _)) if len > HEADER_LEN => return Ok(()),
            Err(source) if source.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(Error::Connect {
                    target: target.clone(),
                    attempts: attempt + 1,
                    source,
                });
            }
            _ => {}
        }
    }
    Err(Error::SilentUdp {
        target: target.clone(),
        waited_ms: (monotonic_ns() - started_ns) / 1_000_000,
    })
}

#[cfg(test)]
mod tests;
