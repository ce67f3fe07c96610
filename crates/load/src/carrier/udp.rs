//! UDP: one datagram a request, one or more an answer. Datagrams may be lost, late or repeated.
//!
//! Each datagram begins with memcached's frame header of 8 bytes (doc/protocol.txt, "UDP
//! protocol"). A socket's requests are numbered; an answer names its request. An answer that comes
//! after its request's time-out, or again, is counted and ignored. Request numbers repeat after
//! 65 536 requests of a socket: an answer as late as that could be taken for another's.

mod reassembly;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use sys::clock::monotonic_ns;
use sys::datagram::Datagram;
use sys::poll::{Events, Interest, Poll};

use super::{Answered, Carrier, CarrierCounts, CarrierError, Failure, InFlight, zero_if_blocked};
use crate::batch::Batch;
use crate::config::{Config, Target};
use crate::error::Error;
use crate::limits::{OPENING_ATTEMPTS_MAX, OPENING_BACKOFF_NS, UDP_RECEIVE_BUFFER};
use crate::opening::{Share, target_of};
use crate::wire::{Answer, Step, Wire};
use reassembly::{Accepted, Frame, HEADER_LEN, Reassembly};

/// A socket to one server.
#[derive(Debug)]
pub(crate) struct Udp<W: Wire> {
    socket: Datagram,
    answers: Answers<W>,
    /// A datagram that a full socket did not accept; empty: there is none.
    unsent: Vec<u8>,
    next_number: u16,
}

/// The outstanding requests of a socket, and the matching of datagrams to them. No I/O.
#[derive(Debug)]
struct Answers<W: Wire> {
    in_flight: VecDeque<InFlight>,
    reassembly: Reassembly,
    late_or_duplicate: u64,
    malformed: u64,
    wire: PhantomData<W>,
}

impl<W: Wire> Answers<W> {
    fn new(depth: usize) -> Self {
        Self {
            in_flight: VecDeque::with_capacity(depth),
            reassembly: Reassembly::default(),
            late_or_duplicate: 0,
            malformed: 0,
            wire: PhantomData,
        }
    }

    /// The answer that a datagram completes.
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

    /// Completes a request with its whole answer. One that cannot be read is an error reply. None:
    /// its token is that of another request.
    fn finish(&mut self, index: usize, input: &[u8]) -> Option<Answered> {
        let request = self.in_flight[index];
        let mut reader = W::Reader::default();
        let answer = match read::<W>(&mut reader, request, input) {
            Read::Answer(answer) => answer,
            Read::Malformed => Answer::ERROR,
            Read::OtherRequest => {
                self.malformed += 1;
                return None;
            }
        };
        self.in_flight.remove(index);
        Some(Answered {
            request,
            answer,
            len: input.len() as u32,
            cas: W::cas(&reader),
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

/// What the bytes of a whole answer are.
enum Read {
    Answer(Answer),
    Malformed,
    OtherRequest,
}

/// Reads the whole answer to a request.
fn read<W: Wire>(reader: &mut W::Reader, mut request: InFlight, mut input: &[u8]) -> Read {
    let op = request.request.op;
    loop {
        let Ok(Step {
            consumed,
            reply: Some(reply),
        }) = W::read(reader, input, op)
        else {
            return Read::Malformed;
        };
        input = &input[consumed..];
        if W::opaque(reply).is_some_and(|opaque| opaque != request.opaque) {
            return Read::OtherRequest;
        }
        let Some(answer) = W::answer(reply, op) else {
            return Read::Malformed;
        };
        let whole = if request.replies > 1 {
            request.add_reply(answer)
        } else {
            Some(answer)
        };
        match whole {
            None => {}
            Some(answer) if input.is_empty() => return Read::Answer(answer),
            Some(_) => return Read::Malformed,
        }
    }
}

impl<W: Wire> Carrier for Udp<W> {
    type Wire = W;
    const BATCH_MAX: usize = 1;
    const TIMES_OUT: bool = true;

    /// Opens a socket for each connection. Each target has to answer `version` first.
    fn open(
        config: &Config,
        poll: &Poll,
        share: Share,
        stop: &AtomicBool,
    ) -> Result<Vec<Self>, Error> {
        let targets = config.targets.len().min(share.count as usize) as u32;
        for number in 0..targets {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            probe(target_of(&config.targets, share.first + number))?;
        }
        let mut connections = Vec::with_capacity(share.count as usize);
        for number in 0..share.count {
            let socket = connect(target_of(&config.targets, share.first + number))?;
            // Without time stamps the thread's clock is used; with a smaller buffer, datagrams are
            // lost earlier, which the run counts as time-outs.
            let _ = socket.stamp_receives();
            let _ = socket.set_receive_buffer(UDP_RECEIVE_BUFFER);
            poll.add(&socket, number.into(), Interest::Read)
                .map_err(Error::system("register a socket"))?;
            connections.push(Self {
                socket,
                answers: Answers::new(config.depth as usize),
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
        let sent = batch.send_after(&header, |pieces| self.socket.send(pieces));
        let sent = zero_if_blocked(sent)?;
        if sent == 0 {
            self.unsent.extend_from_slice(&header);
            batch.append_from(0, &mut self.unsent);
        }
        Ok(sent)
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

    /// The kernel reports a refusal once for a datagram, and does not say which: the oldest request
    /// fails. After another error of the socket, all fail.
    fn recover(&mut self, error: &CarrierError) -> Option<(Vec<InFlight>, Failure)> {
        let failure = error.failure();
        self.unsent.clear();
        let in_flight = &mut self.answers.in_flight;
        let count = match failure {
            Failure::Refused => in_flight.len().min(1),
            _ => in_flight.len(),
        };
        let failed: Vec<InFlight> = in_flight.drain(..count).collect();
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

/// Sends `version` until it is answered. Each attempt waits twice as long as the one before.
fn probe(target: &Target) -> Result<(), Error> {
    let socket = connect(target)?;
    let poll = Poll::new().map_err(Error::system("open an epoll descriptor"))?;
    poll.add(&socket, 0, Interest::Read)
        .map_err(Error::system("register a socket"))?;
    let mut events = Events::with_capacity(1);
    let started_ns = monotonic_ns();
    for attempt in 0..OPENING_ATTEMPTS_MAX {
        let mut request = Frame::of_request(attempt as u16).to_vec();
        protocol::client::version(&mut request);
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
