//! Saturating connections. Each keeps a fixed number of requests outstanding. They put load on the
//! server in addition to that of the *measured* connections, whose latencies are recorded.

use sys::clock::monotonic_ns;
use sys::poll::Interest;
use workload::Requests;

use super::Engine;
use crate::carrier::{Carrier, CarrierError, InFlight};
use crate::limits::SATURATING_RECEIVE_MAX;

/// The saturating connections of a run. Each answer is followed by a new request on the same
/// connection. The answers are counted, but no latency is recorded.
pub(crate) struct Saturating<C> {
    /// The connections. None: the connection was lost.
    connections: Vec<Option<C>>,
    /// The source of the connections' requests.
    requests: Requests,
    /// The number of requests that each connection keeps outstanding.
    depth: usize,
}

impl<C: Carrier> Saturating<C> {
    pub(crate) fn new(connections: Vec<C>, requests: Requests, depth: u32) -> Self {
        Self {
            connections: connections.into_iter().map(Some).collect(),
            requests,
            depth: depth as usize,
        }
    }
}

impl<C: Carrier> Engine<C> {
    /// Sends the first requests of all saturating connections.
    pub(super) fn start_saturating(&mut self) {
        let count = self
            .saturating
            .as_ref()
            .map_or(0, |it| it.connections.len());
        let now_ns = monotonic_ns();
        for number in 0..count {
            let outcome = self.refill(number, now_ns);
            self.count_saturating(number, outcome.map(|()| 0), now_ns);
        }
    }

    /// Receives from a saturating connection once, and then sends as many requests as its depth and
    /// one batch permit. At most [`SATURATING_RECEIVE_MAX`] bytes are received, because requests on
    /// measured connections wait meanwhile. Returns the time just after the receive.
    pub(super) fn serve_saturating(
        &mut self,
        number: usize,
        is_writable: bool,
        buffer: &mut [u8],
    ) -> u64 {
        let received = self.receive_saturating(number, is_writable, buffer);
        let now_ns = monotonic_ns();
        let outcome = received.and_then(|answered| self.refill(number, now_ns).map(|()| answered));
        self.count_saturating(number, outcome, now_ns);
        now_ns
    }

    /// If the socket was full and has space again, sends the bytes that it did not accept. Then
    /// receives once. Returns the number of answers.
    fn receive_saturating(
        &mut self,
        number: usize,
        is_writable: bool,
        buffer: &mut [u8],
    ) -> Result<u64, CarrierError> {
        let connection = self
            .saturating
            .as_mut()
            .and_then(|it| it.connections[number].as_mut());
        let Some(connection) = connection else {
            return Ok(0);
        };
        if is_writable && connection.is_blocked() {
            connection.send_unsent()?;
            if !connection.is_blocked() {
                let token = (self.slots.len() + number) as u64;
                connection.set_interest(&self.poll, token, Interest::Read)?;
            }
        }
        let most = buffer.len().min(SATURATING_RECEIVE_MAX);
        let (len, _) = connection.receive(&mut buffer[..most])?;
        let mut input = &buffer[..len];
        let mut answered = 0;
        while connection.next(&mut input)?.is_some() {
            answered += 1;
        }
        Ok(answered)
    }

    /// Sends as many requests on a saturating connection as its depth and one batch permit.
    fn refill(&mut self, number: usize, now_ns: u64) -> Result<(), CarrierError> {
        let Some(saturating) = &mut self.saturating else {
            return Ok(());
        };
        let Some(connection) = &mut saturating.connections[number] else {
            return Ok(());
        };
        if connection.is_blocked() || now_ns >= self.timeline.end_ns {
            return Ok(());
        }
        self.batch.clear();
        while connection.in_flight().len() < saturating.depth && !self.batch.is_full() {
            let Some(request) = saturating.requests.next() else {
                break;
            };
            let opaque = self.next_opaque;
            self.next_opaque += 1;
            self.batch.push(&request, 0, opaque);
            let in_flight = InFlight::unmeasured(self.batch.protocol, request, opaque);
            connection.in_flight_mut().push_back(in_flight);
        }
        if self.batch.len() > 0 {
            let token = (self.slots.len() + number) as u64;
            connection.send(&self.batch, &self.poll, token)?;
        }
        if connection.is_blocked() {
            let token = (self.slots.len() + number) as u64;
            connection.set_interest(&self.poll, token, Interest::ReadWrite)?;
        }
        Ok(())
    }

    /// Counts the answers of a saturating connection, or drops the connection after an error.
    fn count_saturating(&mut self, number: usize, outcome: Result<u64, CarrierError>, now_ns: u64) {
        match outcome {
            Ok(answered) if self.timeline.measures(now_ns) => {
                self.totals.saturating += answered;
            }
            Ok(_) => {}
            Err(error) => {
                if let Some(saturating) = &mut self.saturating {
                    saturating.connections[number] = None;
                }
                self.totals.lost_connections += 1;
                self.window.counts.lost_connections += 1;
                self.last_loss = Some(error.to_string());
            }
        }
    }
}
