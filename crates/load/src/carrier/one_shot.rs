//! A connection for each request: connect, send, receive, close.
//!
//! The time of connecting is part of the service time. The generator closes first, so its sockets
//! stay in TIME_WAIT. Their number is bounded ([`TIME_WAIT_MAX`]): beyond it, a connection ends in
//! a reset, which is counted.

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

/// One of a run's connections: it is opened for each of its requests and carries one at a time.
#[derive(Debug)]
pub(crate) struct OneShot<W: Wire> {
    target: Target,
    /// The connection of the request in flight.
    stream: Option<Stream>,
    replies: Replies<W>,
    unsent: Unsent,
    /// Shared by the connections of a thread.
    time_wait: Rc<RefCell<TimeWaitSockets>>,
    opened: u64,
    resets: u64,
}

impl<W: Wire> OneShot<W> {
    fn connect(&self) -> io::Result<Stream> {
        match &self.target {
            Target::Tcp(address) => Stream::connect(*address),
            Target::Unix(path) => Stream::connect_unix(path),
        }
    }

    fn close(&mut self) {
        self.unsent.clear();
        self.replies.reset();
        let Some(stream) = self.stream.take() else {
            return;
        };
        // A Unix socket has no TIME_WAIT.
        let waits = matches!(self.target, Target::Tcp(_));
        if waits
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

    /// Opens and closes one connection to each target, to see that it is there.
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
        // Where there are no time stamps (Unix sockets), the thread's clock is used.
        let _ = stream.stamp_receives();
        poll.add(&stream, token, Interest::Read)?;
        // While the connection is being established nothing is accepted: all bytes are kept.
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

/// The connections closed in the last [`TIME_WAIT_S`] seconds, by the second.
#[derive(Debug)]
struct TimeWaitSockets {
    by_second: [u32; TIME_WAIT_S],
    /// The second of the last close.
    second: u64,
    sum: u32,
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

    /// Whether one more socket may enter TIME_WAIT now; it is counted if so.
    fn try_add(&mut self, now_ns: u64) -> bool {
        let second = now_ns / 1_000_000_000;
        let passed = second.saturating_sub(self.second).min(TIME_WAIT_S as u64);
        for expired in 0..passed {
            let slot = &mut self.by_second[((second - expired) % TIME_WAIT_S as u64) as usize];
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
    fn sockets_in_time_wait_are_bounded_for_a_minute() {
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
