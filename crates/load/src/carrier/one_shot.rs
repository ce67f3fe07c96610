//! The carrier that opens a new connection for each request: connect, send, receive, close.
//!
//! The time of connecting is part of the service time. The generator closes its end of a connection
//! first. TCP keeps the socket of that end in TIME_WAIT, which occupies a local port. To bound the
//! number of these sockets ([`TIME_WAIT_MAX`]), the generator resets a connection instead of
//! closing it once the bound is reached. Resets are counted.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use sys::clock::monotonic_ns;
use sys::poll::{Interest, Poll};
use sys::socket::Stream;

use super::persistent::{Unsent, receive};
use super::replies::Replies;
use super::{Answered, Carrier, CarrierCounts, CarrierError, Failure, InFlight};
use crate::batch::Batch;
use crate::config::{Config, Target};
use crate::error::Error;
use crate::limits::{INTERRUPTED_CONNECT_NS, TIME_WAIT_MAX, TIME_WAIT_S};
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
    /// All connections of a thread share this count.
    time_wait: Rc<RefCell<TimeWaitSockets>>,
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

    /// Closes the socket, or resets it if too many sockets are in TIME_WAIT.
    fn close(&mut self) {
        self.unsent.clear();
        self.replies.reset();
        let Some(stream) = self.stream.take() else {
            return;
        };
        // A Unix socket has no TIME_WAIT.
        let has_time_wait = matches!(self.target, Target::Tcp(_));
        if has_time_wait
            && !self.time_wait.borrow_mut().try_add(monotonic_ns())
            && stream.reset_on_close().is_ok()
        {
            self.resets += 1;
        }
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
        let time_wait = Rc::new(RefCell::new(TimeWaitSockets::new(
            TIME_WAIT_MAX / config.threads,
        )));
        let connection = |number: u32| Self {
            target: opening::target_of(&config.targets, share.first + number).clone(),
            stream: None,
            replies: Replies::new(1),
            unsent: Unsent::default(),
            time_wait: Rc::clone(&time_wait),
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
        self.close();
        self.replies.in_flight.pop_front()
    }

    fn recover(&mut self, error: &CarrierError) -> Option<(Vec<InFlight>, Failure)> {
        let failed = self.replies.in_flight.drain(..).collect();
        self.close();
        Some((failed, error.failure()))
    }

    fn add_counts_to(&self, counts: &mut CarrierCounts) {
        counts.opened += self.opened;
        counts.resets += self.resets;
    }
}

/// The number of sockets in TIME_WAIT: those closed in the last [`TIME_WAIT_S`] seconds.
#[derive(Debug)]
struct TimeWaitSockets {
    /// The number of sockets closed in each of these seconds. Second `s` is at index
    /// `s % TIME_WAIT_S`.
    by_second: [u32; TIME_WAIT_S],
    /// The second of the last call.
    second: u64,
    /// The sum of `by_second`.
    sum: u32,
    /// The maximum of `sum`.
    max: u32,
}

impl TimeWaitSockets {
    fn new(max: u32) -> Self {
        Self {
            by_second: [0; TIME_WAIT_S],
            second: 0,
            sum: 0,
            max,
        }
    }

    /// Counts one more socket, unless the maximum is reached. Returns whether it was counted.
    fn try_add(&mut self, now_ns: u64) -> bool {
        let second = now_ns / 1_000_000_000;
        // The slots of the seconds since the last call still have counts of a minute before.
        let passed = second.saturating_sub(self.second).min(TIME_WAIT_S as u64);
        for seconds_ago in 0..passed {
            let slot = &mut self.by_second[((second - seconds_ago) % TIME_WAIT_S as u64) as usize];
            self.sum -= std::mem::take(slot);
        }
        self.second = second;
        let has_space = self.sum < self.max;
        if has_space {
            self.by_second[(second % TIME_WAIT_S as u64) as usize] += 1;
            self.sum += 1;
        }
        has_space
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_closed_within_a_minute_are_bounded() {
        const S: u64 = 1_000_000_000;
        let mut sockets = TimeWaitSockets::new(3);
        let at = |sockets: &mut TimeWaitSockets, second: u64| sockets.try_add(second * S);
        assert!(at(&mut sockets, 1000) && at(&mut sockets, 1000) && at(&mut sockets, 1030));
        assert!(!at(&mut sockets, 1030) && !at(&mut sockets, 1059));
        assert!(at(&mut sockets, 1060) && at(&mut sockets, 1060) && !at(&mut sockets, 1060));
        assert!(!at(&mut sockets, 1089) && at(&mut sockets, 1090));
        assert!(at(&mut sockets, 9999) && at(&mut sockets, 9999) && at(&mut sockets, 9999));
        assert!(!at(&mut sockets, 9999));
    }
}
