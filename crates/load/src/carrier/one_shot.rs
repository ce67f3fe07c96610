//! The carrier that opens a new connection for each request: connect, send, receive, close.
//!
//! The time of connecting is part of the service time. After the answer, the generator closes its
//! end of a connection first. TCP keeps the socket of that end in TIME_WAIT, which occupies a local
//! port. To bound the number of these sockets ([`crate::limits::TIME_WAIT_MAX`]), the generator
//! resets a connection instead of closing it once the bound is reached. Resets are counted.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicBool;

use sys::clock::monotonic_ns;
use sys::poll::{Interest, Poll};
use sys::socket::Stream;

use super::persistent::{Unsent, receive};
use super::replies::Replies;
use super::time_wait::{TIME_WAIT, TimeWaitSockets};
use super::{Answered, Carrier, CarrierCounts, CarrierError, Failure, InFlight};
use crate::batch::Batch;
use crate::config::{Config, Target};
use crate::error::Error;
use crate::limits::INTERRUPTED_CONNECT_NS;
use crate::opening::{self, Share};
use crate::wire::Wire;

/// One connection of a run, with at most one request in flight. A new socket is opened for each
/// request.
#[derive(Debug)]
pub(crate) struct OneShot<W: Wire> {
    target: Target,
    /// The socket of the request in flight. None: no request is in flight.
    stream: Option<Stream>,
    replies: Replies<W>,
    unsent: Unsent,
    /// The sockets in TIME_WAIT that all connections of this process have left.
    time_wait: &'static TimeWaitSockets,
    /// The number of sockets opened.
    opened: u64,
    /// The number of sockets that were reset instead of closed.
    resets: u64,
}

impl<W: Wire> OneShot<W> {
    fn connect(&self) -> io::Result<Stream> {
        match &self.target {
            Target::Tcp(address) => Stream::connect(*address),
            Target::Unix(path) => Stream::connect_unix(path),
        }
    }

    /// Closes the socket before the server does, or resets it if too many sockets are in TIME_WAIT.
    fn close(&mut self) {
        let Some(stream) = self.take_stream() else {
            return;
        };
        // A Unix socket has no TIME_WAIT.
        let has_time_wait = matches!(self.target, Target::Tcp(_));
        if has_time_wait
            && !self.time_wait.try_add(monotonic_ns())
            && stream.reset_on_close().is_ok()
        {
            self.resets += 1;
        }
    }

    /// Ends the use of the socket, and returns it. If the connection has already ended, dropping it
    /// leaves no TIME_WAIT here.
    fn take_stream(&mut self) -> Option<Stream> {
        self.unsent.clear();
        self.replies.reset();
        self.stream.take()
    }
}

impl<W: Wire> Carrier for OneShot<W> {
    type Wire = W;
    const BATCH_MAX: usize = 1;
    const TIMES_OUT: bool = true;
    const INTERRUPTED_SEND_NS: u64 = INTERRUPTED_CONNECT_NS;

    /// Opens and closes one connection to each target, to check that the server answers. The
    /// connections of the run are opened when their requests are sent.
    fn open(
        config: &Config,
        poll: &Poll,
        share: Share,
        stop: &AtomicBool,
    ) -> Result<Vec<Self>, Error> {
        let targets = config.targets.len() as u32;
        let probes = Share {
            first: 0,
            count: targets,
            all: targets,
            ..share
        };
        drop(opening::open(&config.targets, poll, probes, stop)?);
        let connection = |number: u32| Self {
            target: opening::target_of(&config.targets, share.first + number).clone(),
            stream: None,
            replies: Replies::new(1),
            unsent: Unsent::default(),
            time_wait: &TIME_WAIT,
            opened: 0,
            resets: 0,
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
        !self.unsent.is_empty()
    }

    fn send(&mut self, batch: &Batch, poll: &Poll, token: u64) -> Result<usize, CarrierError> {
        let stream = self.connect()?;
        self.opened += 1;
        stream.set_nodelay();
        // This fails for Unix sockets, which have no time stamps. The engine then takes the time
        // just after the receive as the arrival time.
        let _ = stream.stamp_receives();
        poll.add(&stream, token, Interest::Read)?;
        // The socket accepts no bytes while the connection is being established. All bytes are then
        // kept until the poll reports that the socket is writable.
        let sent = self.unsent.send_batch(batch, &stream);
        self.stream = Some(stream);
        sent
    }

    fn send_unsent(&mut self) -> Result<usize, CarrierError> {
        match &self.stream {
            Some(stream) => self.unsent.send(stream),
            None => Ok(0),
        }
    }

    fn set_interest(&self, poll: &Poll, token: u64, interest: Interest) -> io::Result<()> {
        match &self.stream {
            Some(stream) => poll.change(stream, token, interest),
            None => Ok(()),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<(usize, Option<u64>), CarrierError> {
        match &self.stream {
            Some(stream) => receive(stream, buffer),
            None => Ok((0, None)),
        }
    }

    fn next(&mut self, input: &mut &[u8]) -> Result<Option<Answered>, CarrierError> {
        let answered = self.replies.next(input)?;
        if answered.is_some() {
            self.close();
        }
        Ok(answered)
    }

    fn give_up(&mut self, opaque: u64) -> Option<InFlight> {
        let request = self.replies.in_flight.front()?;
        if request.opaque != opaque {
            return None;
        }
        if self.unsent.is_empty() {
            self.close();
        } else {
            // The connection was probably not established, and then leaves no TIME_WAIT.
            drop(self.take_stream());
        }
        self.replies.in_flight.pop_front()
    }

    fn recover(&mut self, error: &CarrierError) -> Option<(Vec<InFlight>, Failure)> {
        let failed = self.replies.in_flight.drain(..).collect();
        match error {
            // The server or the network has ended the connection, or it was never established.
            CarrierError::Closed | CarrierError::Io(_) => drop(self.take_stream()),
            CarrierError::Malformed(_) | CarrierError::Unsolicited | CarrierError::ExtraValues => {
                self.close();
            }
        }
        Some((failed, error.failure()))
    }

    fn add_counts_to(&self, counts: &mut CarrierCounts) {
        counts.opened += self.opened;
        counts.resets += self.resets;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use sys::poll::Events;
    use workload::{Op, Request};

    use super::*;
    use crate::wire::Text;

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
        Config::new(address.parse().unwrap())
    }

    /// Opens one connection, as a run does.
    fn open(config: &Config, poll: &Poll) -> OneShot<Text> {
        let share = Share {
            first: 0,
            count: 1,
            all: 1,
            concurrent_max: 1,
        };
        let opened = OneShot::open(config, poll, share, &AtomicBool::new(false));
        opened.unwrap().pop().unwrap()
    }

    /// Sends a request and waits for the end of its connection, which is an answer or an error.
    fn request(connection: &mut OneShot<Text>, poll: &Poll, line: &[u8]) {
        let stream = connection.connect().unwrap();
        poll.add(&stream, 0, Interest::Read).unwrap();
        let mut events = Events::with_capacity(1);
        let request = Request::new(Op::Get, 0);
        let in_flight = InFlight::unmeasured::<Text>(request, 0);
        connection.in_flight_mut().push_back(in_flight);
        // The socket accepts the bytes as soon as the connection is established.
        while stream.send(line).is_err() {
            thread::yield_now();
        }
        connection.stream = Some(stream);
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
    fn sockets_of_an_earlier_run_count_in_the_next_run() {
        let config = server();
        let poll = Poll::new().unwrap();
        let mut first = open(&config, &poll);
        let before = first.time_wait.len(monotonic_ns());
        request(&mut first, &poll, b"get a\r\n");
        drop(first);
        let second = open(&config, &poll);
        assert_eq!(second.time_wait.len(monotonic_ns()), before + 1);
    }
    #[test]
    fn only_a_connection_that_the_generator_closes_first_counts_as_time_wait() {
        static SOCKETS: TimeWaitSockets = TimeWaitSockets::new(1);
        let config = server();
        let poll = Poll::new().unwrap();
        let mut connection = open(&config, &poll);
        connection.time_wait = &SOCKETS;
        // The server closes the first two connections.
        for (line, time_wait, resets) in [
            (b"quit\r\n", 0, 0),
            (b"quit\r\n", 0, 0),
            (b"get a\r\n", 1, 0),
            (b"get a\r\n", 1, 1),
        ] as [(&[u8], u64, u64); 4]
        {
            request(&mut connection, &poll, line);
            let len = SOCKETS.len(monotonic_ns());
            assert_eq!((len, connection.resets), (time_wait, resets), "{line:?}");
        }
    }
}
