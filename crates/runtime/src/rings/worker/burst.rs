//! A burst: prepare what has come on every connection, answer all, send once each.

use session::{Counter, Next};
use sys::ring::{Arrived, Inputs, Ring};

use super::{Wire, Worker, watch_room};
use crate::connection::{Connection, Held};
use crate::desk::Desk;
use crate::limits::BUFFERED_UNCOUNTED;
use crate::table::Place;

/// One connection's part in a burst.
pub(super) struct Part {
    place: Place,
    input: Input,
    /// The peer will send no more.
    ended: bool,
}

/// Where a connection's input lies during a burst.
enum Input {
    /// Where the kernel has put it.
    Arrived(Arrived),
    /// Behind what was held from before.
    Held(Held),
}

impl Part {
    /// Whose it is, and what has come.
    fn said<'i>(&'i self, inputs: &'i Inputs) -> (Place, &'i [u8]) {
        let input = match &self.input {
            Input::Arrived(arrived) => inputs.bytes(arrived),
            Input::Held(held) => held.as_slice(),
        };
        (self.place, input)
    }
}

impl Worker {
    /// Serves connections that have something to say.
    pub(super) fn serve(&mut self, places: &[Place], now_ns: u64) {
        let now = self.desk.setup.clock.at(now_ns);
        let mut parts = std::mem::take(&mut self.parts);
        parts.extend(places.iter().filter_map(|&place| self.part(place)));
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let said = |part| Part::said(part, &self.inputs);
        let send = |desk: &mut Desk, connection: &mut Connection<Wire>, place| {
            let (ring, unsettled) = (&mut self.ring, &mut self.unsettled);
            send(desk, ring, unsettled, connection, place, now.elapsed_s)
        };
        self.desk
            .converse(&mut self.table, &parts, said, now, &mut outcomes, send);
        for (part, outcome) in parts.drain(..).zip(outcomes.drain(..)) {
            self.put_back(part.place, part.input, outcome.progress.consumed);
            if outcome.is_lost {
                self.close(part.place);
            } else {
                self.go_on(part.place, outcome.progress.next, part.ended);
                self.count_buffered(part.place);
            }
        }
        self.parts = parts;
        self.outcomes = outcomes;
    }

    /// What a connection brings to a burst; none: its answers are still on their way, or it was in
    /// the burst already.
    fn part(&mut self, place: Place) -> Option<Part> {
        let connection = self.table.get_mut(place)?;
        if !std::mem::take(&mut connection.queued) {
            return None;
        }
        let wire = &mut connection.wire;
        if connection.unsent.is_some() || wire.is_sending || wire.is_shut {
            return None;
        }
        let input = match (wire.arrived.take(), connection.held.is_empty()) {
            (Some(arrived), true) => Input::Arrived(arrived),
            (arrived, _) => {
                let mut held = std::mem::take(&mut connection.held);
                if let Some(arrived) = arrived {
                    held.append(self.inputs.bytes(&arrived));
                    self.inputs.give_back(arrived);
                }
                Input::Held(held)
            }
        };
        Some(Part {
            place,
            input,
            ended: wire.has_ended,
        })
    }

    /// Keeps the input that was not consumed and frees the rest.
    fn put_back(&mut self, place: Place, input: Input, consumed: usize) {
        let connection = self.table.get_mut(place);
        match (input, connection) {
            (Input::Arrived(arrived), connection) => {
                if let Some(connection) = connection
                    && consumed < arrived.len()
                {
                    let rest = &self.inputs.bytes(&arrived)[consumed..];
                    connection.held.append(rest);
                }
                self.inputs.give_back(arrived);
            }
            (Input::Held(mut held), Some(connection)) => {
                held.consume(consumed);
                connection.held = held;
            }
            (Input::Held(_), None) => {}
        }
    }

    /// Sees to what a connection needs next.
    fn go_on(&mut self, place: Place, next: Next, ended: bool) {
        let Some(connection) = self.table.get_mut(place) else {
            return;
        };
        if connection.wire.is_shut {
            // Closed while others of the burst were seen to.
            connection.held = Held::default();
            return;
        }
        let is_blocked = connection.unsent.is_some() || connection.wire.is_sending;
        connection.wants_turn = matches!(next, Next::Yield | Next::OutputSpace | Next::Memory);
        // A peer that has sent its last may still be owed answers to what it sent before.
        let is_over = next == Next::Close || (ended && !connection.wants_turn);
        connection.closing |= is_over;
        connection.wire.wants_memory &= next == Next::Memory;
        match (is_blocked, next) {
            // It goes on when they have been taken.
            (true, _) => {}
            (false, _) if is_over => self.close(place),
            (false, Next::Yield | Next::OutputSpace) => {
                connection.queued = true;
                self.desk.again.push(place);
                self.desk.counters.count(Counter::ConnYields);
            }
            (false, Next::Memory) => {
                connection.queued = true;
                self.desk.waiting.push(place);
                // One that tries again in vain still waits the same wait.
                if !std::mem::replace(&mut connection.wire.wants_memory, true) {
                    self.desk.counters.count(Counter::HeldWaits);
                }
            }
            (false, Next::Input | Next::Upload | Next::Close) => {}
        }
        self.rein_in(place);
        if !is_blocked && !is_over {
            self.receive(place);
        }
    }
}

/// Sends a desk's output to a connection: with all others of the burst, or at once where values are
/// pinned, which only this can wait for. False: the connection is lost.
fn send(
    desk: &mut Desk,
    ring: &mut Ring,
    unsettled: &mut Vec<Place>,
    connection: &mut Connection<Wire>,
    place: Place,
    now_s: u32,
) -> bool {
    if desk.output.is_empty() {
        return true;
    }
    if let Some(bytes) = desk.take_bytes() {
        connection.wire.is_sending = true;
        connection.wire.sending = bytes.capacity();
        if bytes.capacity() > BUFFERED_UNCOUNTED && !connection.wire.is_unsettled {
            connection.wire.is_unsettled = true;
            unsettled.push(place);
        }
        ring.send(&connection.transport, place as u32, bytes);
        return true;
    }
    let is_kept = desk.send(connection, now_s);
    if connection.unsent.is_some() {
        watch_room(ring, connection, place);
    }
    is_kept
}
