//! A burst: prepare what has come on every connection, answer all, send once each.

use session::{Counter, Next};
use sys::ring::{Arrived, Inputs, Ring};

use super::{RingState, Worker, watch_room};
use crate::connection::{Connection, HeldInput};
use crate::connection_table::Slot;
use crate::limits::BUFFERED_UNCOUNTED;
use crate::worker_context::WorkerContext;

/// One connection's part in a burst.
pub(super) struct Part {
    slot: Slot,
    input: Input,
    /// The peer will send no more.
    ended: bool,
}

/// Where a connection's input lies during a burst.
enum Input {
    /// Where the kernel has put it.
    Arrived(Arrived),
    /// Behind what was held from before.
    HeldInput(HeldInput),
}

impl Part {
    /// Whose it is, and what has come.
    fn said<'i>(&'i self, inputs: &'i Inputs) -> (Slot, &'i [u8]) {
        let input = match &self.input {
            Input::Arrived(arrived) => inputs.bytes(arrived),
            Input::HeldInput(held) => held.as_slice(),
        };
        (self.slot, input)
    }
}

impl Worker {
    /// Serves connections that have something to say.
    pub(super) fn serve(&mut self, slots: &[Slot], now_ns: u64) {
        let now = self.context.setup.clock.at(now_ns);
        let mut parts = std::mem::take(&mut self.parts);
        parts.extend(slots.iter().filter_map(|&slot| self.part(slot)));
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let said = |part| Part::said(part, &self.inputs);
        let send = |context: &mut WorkerContext, connection: &mut Connection<RingState>, slot| {
            let (ring, unsettled) = (&mut self.ring, &mut self.unsettled);
            send(context, ring, unsettled, connection, slot, now.elapsed_s)
        };
        self.context
            .serve_connection(&mut self.table, &parts, said, now, &mut outcomes, send);
        for (part, outcome) in parts.drain(..).zip(outcomes.drain(..)) {
            self.keep_unconsumed(part.slot, part.input, outcome.progress.consumed);
            if outcome.is_lost {
                self.close(part.slot);
            } else {
                self.go_on(part.slot, outcome.progress.next, part.ended);
                self.count_buffered(part.slot);
            }
        }
        self.parts = parts;
        self.outcomes = outcomes;
    }

    /// What a connection brings to a burst; none: its answers are still on their way, or it was in
    /// the burst already.
    fn part(&mut self, slot: Slot) -> Option<Part> {
        let connection = self.table.get_mut(slot)?;
        if !std::mem::take(&mut connection.queued) {
            return None;
        }
        let io_state = &mut connection.io_state;
        if connection.unsent.is_some() || io_state.is_sending || io_state.is_shut {
            return None;
        }
        let input = match (io_state.arrived.take(), connection.held.is_empty()) {
            (Some(arrived), true) => Input::Arrived(arrived),
            (arrived, _) => {
                let mut held = std::mem::take(&mut connection.held);
                if let Some(arrived) = arrived {
                    held.append(self.inputs.bytes(&arrived));
                    self.inputs.give_back(arrived);
                }
                Input::HeldInput(held)
            }
        };
        Some(Part {
            slot,
            input,
            ended: io_state.has_ended,
        })
    }

    /// Keeps the input that was not consumed and frees the rest.
    fn keep_unconsumed(&mut self, slot: Slot, input: Input, consumed: usize) {
        let connection = self.table.get_mut(slot);
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
            (Input::HeldInput(mut held), Some(connection)) => {
                held.consume(consumed);
                connection.held = held;
            }
            (Input::HeldInput(_), None) => {}
        }
    }

    /// Sees to what a connection needs next.
    fn go_on(&mut self, slot: Slot, next: Next, ended: bool) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.io_state.is_shut {
            // Closed while others of the burst were seen to.
            connection.held = HeldInput::default();
            return;
        }
        let is_blocked = connection.unsent.is_some() || connection.io_state.is_sending;
        connection.wants_turn = matches!(next, Next::Yield | Next::OutputSpace | Next::Memory);
        // A peer that has sent its last may still be owed answers to what it sent before.
        let is_over = next == Next::Close || (ended && !connection.wants_turn);
        connection.closing |= is_over;
        connection.io_state.waits_for_memory &= next == Next::Memory;
        match (is_blocked, next) {
            // It goes on when they have been taken.
            (true, _) => {}
            (false, _) if is_over => self.close(slot),
            (false, Next::Yield | Next::OutputSpace) => {
                connection.queued = true;
                self.context.again.push(slot);
                self.context.counters.count(Counter::ConnYields);
            }
            (false, Next::Memory) => {
                connection.queued = true;
                self.context.waiting.push(slot);
                // One that tries again in vain still waits the same wait.
                if !std::mem::replace(&mut connection.io_state.waits_for_memory, true) {
                    self.context.counters.count(Counter::HeldWaits);
                }
            }
            (false, Next::Input | Next::Upload | Next::Close) => {}
        }
        self.limit_receiving(slot);
        if !is_blocked && !is_over {
            self.receive(slot);
        }
    }
}

/// Sends a desk's output to a connection: with all others of the burst, or at once where values are
/// pinned, which only this can wait for. False: the connection is lost.
fn send(
    context: &mut WorkerContext,
    ring: &mut Ring,
    unsettled: &mut Vec<Slot>,
    connection: &mut Connection<RingState>,
    slot: Slot,
    now_s: u32,
) -> bool {
    if context.output.is_empty() {
        return true;
    }
    if let Some(bytes) = context.take_bytes() {
        connection.io_state.is_sending = true;
        connection.io_state.sending = bytes.capacity();
        if bytes.capacity() > BUFFERED_UNCOUNTED && !connection.io_state.is_unsettled {
            connection.io_state.is_unsettled = true;
            unsettled.push(slot);
        }
        ring.send(&connection.transport, slot as u32, bytes);
        return true;
    }
    let is_kept = context.send(connection, now_s);
    if connection.unsent.is_some() {
        watch_room(ring, connection, slot);
    }
    is_kept
}
