//! The carrier of connections that are opened again during a run. A connection carries one request
//! at a time. After a set number of requests, or at a sign that the server closes the connection,
//! the generator closes it and opens another one for the next request. If the number is 1, each
//! request has its own connection ([`CarrierKind::OneShot`]).
//!
//! The carrier also opens another connection if the server has closed the last one. Web servers
//! close a connection after some number of requests or some idle time. The time that it takes to
//! connect is part of the latency of the first request.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicBool;

use sys::poll::{Interest, Poll};

use super::replies::Replies;
use super::short_lived::{ShortLived, Sources};
use super::{Answered, Carrier, CarrierCounts, CarrierError, Failure, InFlight, web_probe};
use crate::batch::Batch;
use crate::config::{CarrierKind, Config};
use crate::error::Error;
use crate::limits::UNINTERRUPTED_CONNECT_MAX_NS;
use crate::opening::{self, Share};

/// One connection of a run in the sense of [`Carrier`]: a sequence of requests, of which at most
/// one is in flight. After `sent_max` requests, the next one is sent on a new socket.
#[derive(Debug)]
pub(crate) struct Renewed {
    socket: ShortLived,
    replies: Replies,
    /// The number of requests sent on the open socket.
    sent: u32,
    /// The number of requests after which the socket is closed.
    sent_max: u32,
}

impl Carrier for Renewed {
    const BATCH_MAX: usize = 1;
    const TIMES_OUT: bool = true;
    const UNINTERRUPTED_SEND_MAX_NS: u64 = UNINTERRUPTED_CONNECT_MAX_NS;

    /// Opens and closes one connection to each target, to check that the server answers. The
    /// connections for requests are opened later, when the requests are sent.
    fn open(
        config: &Config,
        poll: &Poll,
        share: Share,
        stop: &AtomicBool,
    ) -> Result<Vec<Self>, Error> {
        Sources::check(config)?;
        if let Some(probe) = config.protocol.probe() {
            let targets = config.targets.len() as u32;
            let probes = Share {
                first: 0,
                count: targets,
                all: targets,
                ..share
            };
            let (targets, sources) = (&config.targets, &config.sources);
            drop(opening::open(targets, sources, probe, poll, probes, stop)?);
        } else {
            for target in &config.targets {
                web_probe::probe(target, config.sources.first().copied(), stop)?;
            }
        }
        // The files with whose bytes the answers are compared.
        let verified = config.files.filter(|_| config.verify);
        let connection = |number: u32| Self {
            socket: ShortLived::new(config, share.first + number),
            replies: Replies::verifying(config.protocol, 1, verified),
            sent: 0,
            sent_max: match config.carrier {
                CarrierKind::OneShot => 1,
                _ => config.requests_per_connection.unwrap_or(u32::MAX),
            },
        };
        Ok((0..share.count).map(connection).collect())
    }

    fn in_flight(&self) -> &VecDeque<InFlight> {
        &self.replies.in_flight
    }

    fn in_flight_mut(&mut self) -> &mut VecDeque<InFlight> {
        &mut self.replies.in_flight
    }

    fn is_blocked(&self) -> bool {
        self.socket.is_blocked()
    }

    fn send(&mut self, batch: &Batch, poll: &Poll, token: u64) -> Result<usize, CarrierError> {
        self.sent += 1;
        match self.socket.stream {
            Some(_) => self.socket.send_again(batch),
            None => {
                self.sent = 1;
                self.socket.send(batch, poll, token)
            }
        }
    }

    fn send_unsent(&mut self) -> Result<usize, CarrierError> {
        self.socket.send_unsent()
    }

    fn set_interest(&self, poll: &Poll, token: u64, interest: Interest) -> io::Result<()> {
        self.socket.set_interest(poll, token, interest)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<(usize, Option<u64>), CarrierError> {
        self.socket.receive(buffer)
    }

    fn next(&mut self, input: &mut &[u8]) -> Result<Option<Answered>, CarrierError> {
        let answered = self.replies.next(input)?;
        if answered.is_some() && (self.sent >= self.sent_max || self.replies.closes()) {
            self.socket.close();
            self.replies.reset();
            // Bytes after the answer belong to no other answer, because at most one request is in
            // flight.
            if !std::mem::take(input).is_empty() {
                self.replies.count_surplus();
            }
        }
        Ok(answered)
    }

    fn give_up(&mut self, opaque: u64) -> Option<InFlight> {
        let request = self.replies.in_flight.front()?;
        if request.opaque != opaque {
            return None;
        }
        self.socket.give_up();
        self.replies.reset();
        self.replies.in_flight.pop_front()
    }

    /// If no request is in flight, the server has closed an idle connection, and no request fails.
    fn recover(&mut self, error: &CarrierError) -> Option<(Vec<InFlight>, Failure)> {
        let failed = self.replies.in_flight.drain(..).collect();
        self.socket.recover(error);
        self.replies.reset();
        Some((failed, error.failure()))
    }

    fn add_counts_to(&self, counts: &mut CarrierCounts) {
        self.socket.add_counts_to(counts);
        if let Some(http) = self.replies.http_counts() {
            counts.http.merge(&http);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use sys::clock::monotonic_ns;
    use sys::poll::Events;
    use workload::{Op, Request};

    use super::super::time_wait::TimeWaitSockets;
    use super::*;
    use crate::config::Protocol;

    /// Starts a server that answers every get with a miss, and closes a connection at any other
    /// request.
    fn server() -> Config {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                        let answer: &[u8] = match line.unwrap().as_str() {
                            "version" => b"VERSION 0\r\n",
                            "get a" => b"END\r\n",
                            _ => return,
                        };
                        stream.write_all(answer).unwrap();
                    }
                });
            }
        });
        Config {
            carrier: CarrierKind::OneShot,
            ..Config::new(address.parse().unwrap())
        }
    }

    /// Opens the carrier with one connection, as a run does.
    fn open(config: &Config, poll: &Poll) -> Renewed {
        let share = Share {
            first: 0,
            count: 1,
            all: 1,
            concurrent_max: 1,
        };
        let opened = Renewed::open(config, poll, share, &AtomicBool::new(false));
        opened.unwrap().pop().unwrap()
    }

    /// Sends a request on a new connection. Returns after an answer or an error, when the carrier
    /// has closed the connection.
    fn request(connection: &mut Renewed, poll: &Poll, line: &[u8]) {
        let stream = connection.socket.connect().unwrap();
        poll.add(&stream, 0, Interest::Read).unwrap();
        let mut events = Events::with_capacity(1);
        let request = Request::new(Op::Get, 0);
        let in_flight = InFlight::unmeasured(Protocol::Text, request, 0);
        connection.in_flight_mut().push_back(in_flight);
        // The socket accepts the bytes as soon as the connection is established.
        while stream.send(line).is_err() {
            thread::yield_now();
        }
        connection.socket.stream = Some(stream);
        connection.sent = 1;
        let mut buffer = [0; 64];
        loop {
            poll.wait(&mut events, None).unwrap();
            let received = connection.receive(&mut buffer);
            let answered = received.and_then(|(len, _)| connection.next(&mut &buffer[..len]));
            match answered {
                Ok(None) => {}
                Ok(Some(_)) => return,
                Err(error) => {
                    assert!(connection.recover(&error).is_some());
                    return;
                }
            }
        }
    }

    #[test]
    fn time_wait_sockets_of_an_earlier_run_count_in_the_next_run() {
        let config = server();
        let poll = Poll::new().unwrap();
        let mut first = open(&config, &poll);
        let before = first.socket.time_wait.len(monotonic_ns());
        request(&mut first, &poll, b"get a\r\n");
        drop(first);
        let second = open(&config, &poll);
        assert_eq!(second.socket.time_wait.len(monotonic_ns()), before + 1);
    }

    #[test]
    fn only_a_connection_that_the_generator_closes_first_counts_as_time_wait() {
        // At most one socket may be in TIME_WAIT.
        static SOCKETS: TimeWaitSockets = TimeWaitSockets::new(1);
        let config = server();
        let poll = Poll::new().unwrap();
        let mut connection = open(&config, &poll);
        connection.socket.time_wait = &SOCKETS;
        // The server closes the first two connections. The generator closes the third, and resets
        // the fourth because the maximum is reached.
        for (line, time_wait, resets) in [
            (b"quit\r\n", 0, 0),
            (b"quit\r\n", 0, 0),
            (b"get a\r\n", 1, 0),
            (b"get a\r\n", 1, 1),
        ] as [(&[u8], u64, u64); 4]
        {
            request(&mut connection, &poll, line);
            let len = SOCKETS.len(monotonic_ns());
            assert_eq!(
                (len, connection.socket.resets),
                (time_wait, resets),
                "{line:?}"
            );
        }
    }
}
