//! The carrier of connections that carry a bounded number of requests, one at a time. Then the
//! generator closes the connection and opens another one for the next request.
//!
//! It also opens a connection again that the server has closed, as web servers do after some number
//! of requests or an idle time. The time of connecting is part of the latency of the first request.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicBool;

use sys::poll::{Interest, Poll};

use super::replies::Replies;
use super::short_lived::{ShortLived, Sources};
use super::{Answered, Carrier, CarrierCounts, CarrierError, Failure, InFlight, web_probe};
use crate::batch::Batch;
use crate::config::Config;
use crate::error::Error;
use crate::limits::INTERRUPTED_CONNECT_NS;
use crate::opening::{self, Share};
use crate::wire::Wire;

/// One connection of a run, with at most one request in flight. Its socket is renewed after some
/// requests.
#[derive(Debug)]
pub(crate) struct Renewed<W: Wire> {
    socket: ShortLived,
    replies: Replies<W>,
    /// Requests sent on the present socket.
    sent: u32,
    /// The number of requests after which the socket is closed.
    sent_max: u32,
}

impl<W: Wire> Carrier for Renewed<W> {
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
        Sources::check(config)?;
        if W::HAS_VERSION {
            let targets = config.targets.len() as u32;
            let probes = Share {
                first: 0,
                count: targets,
                all: targets,
                ..share
            };
            let (targets, sources) = (&config.targets, &config.sources);
            drop(opening::open(targets, sources, poll, probes, stop)?);
        } else {
            for target in &config.targets {
                web_probe::probe(target, config.sources.first().copied(), stop)?;
            }
        }
        let verified = config.files.filter(|_| config.verify);
        let connection = |number: u32| Self {
            socket: ShortLived::new(config, share.first + number),
            replies: Replies::new(1).verifying(verified),
            sent: 0,
            sent_max: config.requests_per_connection.unwrap_or(u32::MAX),
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
            // They belong to no other answer, since at most one request is in flight.
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

    /// Without a request in flight, the server has closed an idle connection, and nothing fails.
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
