//! Connections that take what they can get, beside those that are measured.

use sys::clock::monotonic_ns;
use sys::poll::Interest;
use workload::Requests;

use super::Engine;
use crate::lane::{Broken, InFlight, Lane};
use crate::limits::SATURATING_RECEIVE_MAX;

/// Connections each of which asks on as its answers come. Nothing of them is measured but how many
/// answers they got.
pub(crate) struct Saturating {
    lanes: Vec<Option<Lane>>,
    requests: Requests,
    /// Requests one has outstanding.
    depth: usize,
}

impl Saturating {
    pub(crate) fn new(lanes: Vec<Lane>, requests: Requests, depth: u32) -> Self {
        Self {
            lanes: lanes.into_iter().map(Some).collect(),
            requests,
            depth: depth as usize,
        }
    }
}

impl Engine {
    /// Lets the saturating begin.
    pub(super) fn begin_saturating(&mut self) {
        let count = self.saturating.as_ref().map_or(0, |it| it.lanes.len());
        let now_ns = monotonic_ns();
        for number in 0..count {
            let outcome = self.ask_on(number, now_ns);
            self.count_saturating(number, outcome.map(|()| 0), now_ns);
        }
    }

    /// Receives from a saturating connection once and sends as many new requests as were answered.
    /// The receive is bounded, because measured requests wait for it. Returns the time by the
    /// thread's clock.
    pub(super) fn serve_saturating(
        &mut self,
        number: usize,
        is_writable: bool,
        buffer: &mut [u8],
    ) -> u64 {
        let heard = self.hear_saturating(number, is_writable, buffer);
        let now_ns = monotonic_ns();
        let outcome = heard.and_then(|answered| self.ask_on(number, now_ns).map(|()| answered));
        self.count_saturating(number, outcome, now_ns);
        now_ns
    }

    fn hear_saturating(
        &mut self,
        number: usize,
        is_writable: bool,
        buffer: &mut [u8],
    ) -> Result<u64, Broken> {
        let lane = self
            .saturating
            .as_mut()
            .and_then(|it| it.lanes[number].as_mut());
        let Some(lane) = lane else { return Ok(0) };
        if is_writable && lane.is_blocked() {
            lane.send_unsent()?;
            if !lane.is_blocked() {
                let token = (self.places.len() + number) as u64;
                self.poll.change(&lane.stream, token, Interest::Read)?;
            }
        }
        let most = buffer.len().min(SATURATING_RECEIVE_MAX);
        let (len, _) = lane.receive(&mut buffer[..most])?;
        let mut input = &buffer[..len];
        let mut answered = 0;
        while lane.answer(&mut input, self.manner.protocol)?.is_some() {
            answered += 1;
        }
        Ok(answered)
    }

    /// Sends as many requests as a saturating connection may have outstanding more, or as one send
    /// takes.
    fn ask_on(&mut self, number: usize, now_ns: u64) -> Result<(), Broken> {
        let Some(saturating) = &mut self.saturating else {
            return Ok(());
        };
        let Some(lane) = &mut saturating.lanes[number] else {
            return Ok(());
        };
        if lane.is_blocked() || now_ns >= self.timeline.end_ns {
            return Ok(());
        }
        self.batch.clear();
        while lane.in_flight.len() < saturating.depth && !self.batch.is_full() {
            let Some((record, op)) = saturating.requests.next() else {
                break;
            };
            let opaque = self.next_opaque;
            self.next_opaque += 1;
            self.batch.push(op, record, opaque);
            lane.in_flight.push_back(InFlight {
                intended_ns: now_ns,
                sent_ns: now_ns,
                opaque,
                late_ns: 0,
                op,
                measured: false,
                interrupted: false,
            });
        }
        if self.batch.len() > 0 {
            lane.send(&self.batch)?;
        }
        if lane.is_blocked() {
            let token = (self.places.len() + number) as u64;
            self.poll.change(&lane.stream, token, Interest::ReadWrite)?;
        }
        Ok(())
    }

    fn count_saturating(&mut self, number: usize, outcome: Result<u64, Broken>, now_ns: u64) {
        match outcome {
            Ok(answered) if self.timeline.measures(now_ns) => {
                self.totals.saturating += answered;
            }
            Ok(_) => {}
            Err(broken) => {
                if let Some(saturating) = &mut self.saturating {
                    saturating.lanes[number] = None;
                }
                self.totals.lost_connections += 1;
                self.part.counts.lost_connections += 1;
                self.last_loss = Some(broken.to_string());
            }
        }
    }
}
