//! A burst: receive on every connection, prepare all requests, answer all, send once per
//! connection.

use std::io;

use session::{Counter, Next};
use sys::poll::Interest;

use super::Worker;
use crate::connection::{Connection, HeldInput};
use crate::connection_table::Slot;
use crate::limits::DIRECT_MIN;
use crate::worker_context::WorkerContext;

/// The part of one connection in a burst.
pub(super) struct Part {
    slot: Slot,
    input: Input,
    /// The peer has closed its side.
    ended: bool,
}

/// Where the input of a connection is during a burst.
enum Input {
    /// In a receive buffer of the worker.
    Buffer { bytes: Vec<u8>, len: usize },
    /// Appended to held input.
    HeldInput(HeldInput),
}

impl Part {
    /// The slot and the input.
    fn input_of(&self) -> (Slot, &[u8]) {
        let input = match &self.input {
            Input::Buffer { bytes, len } => &bytes[..*len],
            Input::HeldInput(held) => held.as_slice(),
        };
        (self.slot, input)
    }
}

impl Worker {
    /// Serves connections that have input or continue a turn.
    pub(in crate::events) fn serve(&mut self, slots: &[Slot], now_ns: u64) {
        let now = self.context.setup.clock.at(now_ns);
        let mut parts = std::mem::take(&mut self.parts);
        for &slot in slots {
            parts.extend(self.receive(slot, now.elapsed_s));
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let send = |context: &mut WorkerContext, connection: &mut Connection<_>, _| {
            context.send(connection, now.elapsed_s)
        };
        self.context.serve_burst(
            &mut self.table,
            &parts,
            Part::input_of,
            now,
            &mut outcomes,
            send,
        );
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

    /// Receives on a connection. `None` if there is nothing to answer.
    fn receive(&mut self, slot: Slot, now_s: u32) -> Option<Part> {
        let connection = self.table.get_mut(slot)?;
        let had_turn = std::mem::take(&mut connection.queued);
        if connection.unsent.is_some() {
            return None;
        }
        let part = |input, ended| Some(Part { slot, input, ended });
        let held = std::mem::take(&mut connection.held);
        // Held input that is not answered yet comes before new input.
        if had_turn && connection.wants_turn && !held.is_empty() {
            return part(Input::HeldInput(held), false);
        }
        let room = connection.session.upload_buffer();
        if room.len() >= DIRECT_MIN && held.is_empty() {
            let received = connection.transport.receive(room);
            let input = Input::HeldInput(held);
            return match self.count_received(slot, received, now_s) {
                Received::Some(len) => {
                    let connection = self.table.get_mut(slot)?;
                    connection.session.advance_upload(len);
                    part(input, false)
                }
                Received::Nothing => part(input, false),
                Received::End => part(input, true),
                Received::Lost => None,
            };
        }
        let mut bytes = self
            .buffers
            .pop()
            .unwrap_or_else(|| vec![0; crate::limits::RECEIVE_LEN]);
        let received = connection.transport.receive(&mut bytes);
        let (len, ended) = match self.count_received(slot, received, now_s) {
            Received::Some(len) => (len, false),
            Received::Nothing => (0, false),
            Received::End => (0, true),
            Received::Lost => {
                self.buffers.push(bytes);
                return None;
            }
        };
        if held.is_empty() {
            return part(Input::Buffer { bytes, len }, ended);
        }
        let mut held = held;
        held.append(&bytes[..len]);
        self.buffers.push(bytes);
        part(Input::HeldInput(held), ended)
    }

    fn count_received(&mut self, slot: Slot, received: io::Result<usize>, now_s: u32) -> Received {
        match received {
            Ok(0) => Received::End,
            Ok(len) => {
                self.context.counters.add(Counter::BytesRead, len as u64);
                if let Some(connection) = self.table.get_mut(slot) {
                    connection.active_s = now_s;
                }
                Received::Some(len)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Received::Nothing
            }
            Err(_) => {
                self.close(slot);
                Received::Lost
            }
        }
    }

    /// Keeps unconsumed input with the connection and returns the buffer.
    fn keep_unconsumed(&mut self, slot: Slot, input: Input, consumed: usize) {
        let connection = self.table.get_mut(slot);
        match (input, connection) {
            (Input::Buffer { bytes, len }, connection) => {
                if let Some(connection) = connection
                    && consumed < len
                {
                    connection.held.append(&bytes[consumed..len]);
                }
                self.buffers.push(bytes);
            }
            (Input::HeldInput(mut held), Some(connection)) => {
                held.consume(consumed);
                connection.held = held;
            }
            (Input::HeldInput(_), None) => {}
        }
    }

    /// Does what a connection needs next.
    fn go_on(&mut self, slot: Slot, next: Next, ended: bool) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let blocked = connection.unsent.is_some();
        connection.wants_turn = matches!(next, Next::Yield | Next::OutputSpace | Next::Memory);
        connection.closing |= next == Next::Close;
        // Replies may still be due after the peer has closed its side.
        let nothing_left = ended && !connection.wants_turn;
        match (blocked, next) {
            (false, Next::Close) => self.close(slot),
            (false, _) if nothing_left => self.close(slot),
            (true, _) => {
                connection.closing |= nothing_left;
                self.wait_for(slot, Interest::Write);
            }
            (false, Next::Yield | Next::OutputSpace) => {
                connection.queued = true;
                self.context.again.push(slot);
                self.context.counters.count(Counter::ConnYields);
            }
            (false, Next::Memory) => {
                connection.queued = true;
                self.context.waiting.push(slot);
                // A failed retry is part of the same wait.
                if connection.io_state != Interest::None {
                    self.context.counters.count(Counter::HeldWaits);
                }
                self.wait_for(slot, Interest::None);
            }
            (false, Next::Input | Next::Upload) => self.wait_for(slot, Interest::Read),
        }
    }
}

/// The result of receiving.
enum Received {
    Some(usize),
    Nothing,
    End,
    Lost,
}
