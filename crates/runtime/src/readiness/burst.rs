//! A burst: receive on every connection, prepare all requests, answer all, send once per
//! connection.

use std::io;

use service::{Next, Session as _, Worker};
use sys::poll::Interest;

use super::{ReadinessIo, ReadinessLoop, Registry};
use crate::connection::{Connection, HeldInput};
use crate::connection_counts::Traffic;
use crate::connection_table::Slot;
use crate::limits::{DIRECT_MIN, RECEIVE_LEN};
use crate::setup::second;
use crate::transport::Transport;
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

impl<S: Worker, T: Transport, R: Registry<T>> ReadinessLoop<S, T, R> {
    /// Serves connections that have input or continue a turn.
    pub(super) fn serve(&mut self, slots: &[Slot], now_ns: u64) {
        let now_s = second(now_ns);
        let mut parts = std::mem::take(&mut self.parts);
        for &slot in slots {
            parts.extend(self.receive(slot, now_s));
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let send = |context: &mut WorkerContext<S>,
                    connection: &mut Connection<S, ReadinessIo<T>>,
                    _| { context.send(connection, now_s) };
        self.context.serve_burst(
            &mut self.table,
            &parts,
            Part::input_of,
            now_ns,
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
        let is_plain = connection.io.transport.is_plain();
        let room = connection.session.upload_buffer();
        if room.len() >= DIRECT_MIN && held.is_empty() && is_plain {
            let received = connection.io.transport.receive(room);
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
        let mut bytes = self.buffers.pop().unwrap_or_else(|| vec![0; RECEIVE_LEN]);
        let received = connection.io.transport.receive(&mut bytes);
        let (len, ended) = match self.count_received(slot, received, now_s) {
            Received::Some(len) => (len, false),
            Received::Nothing => (0, false),
            Received::End => (0, true),
            Received::Lost => {
                self.buffers.push(bytes);
                return None;
            }
        };
        if held.is_empty() && is_plain {
            return part(Input::Buffer { bytes, len }, ended);
        }
        let mut held = held;
        let connection = self.table.get_mut(slot)?;
        let transport = &mut connection.io.transport;
        let transformed = transport.transform(&bytes[..len], held.tail());
        self.buffers.push(bytes);
        if transformed.is_err() {
            self.close(slot);
            return None;
        }
        part(Input::HeldInput(held), ended)
    }

    fn count_received(&mut self, slot: Slot, received: io::Result<usize>, now_s: u32) -> Received {
        match received {
            Ok(0) => Received::End,
            Ok(len) => {
                self.context.counts.add(Traffic::BytesRead, len as u64);
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
        connection.wants_turn = !matches!(next, Next::Input | Next::Upload | Next::Close);
        connection.waits_for_completion = next == Next::Completion;
        connection.closing |= next == Next::Close;
        // Replies may still be due after the peer has closed its side.
        let nothing_left = ended && !connection.wants_turn && connection.tickets.count() == 0;
        // A session that waits for a completion without having a ticket would wait forever.
        let is_stuck = next == Next::Completion && connection.tickets.count() == 0;
        debug_assert!(!is_stuck, "the session waits for nothing");
        match (blocked, next) {
            (false, Next::Close) => self.close(slot),
            (false, _) if nothing_left || is_stuck => self.close(slot),
            (true, _) => {
                connection.closing |= nothing_left;
                self.wait_for(slot, Interest::Write);
            }
            (false, Next::Yield | Next::OutputSpace) => {
                connection.queued = true;
                self.context.again.push(slot);
                self.context.counts.add(Traffic::Yields, 1);
            }
            (false, Next::Memory) => {
                connection.queued = true;
                self.context.waiting.push(slot);
                // A failed retry is part of the same wait.
                if connection.io.interest != Interest::None {
                    self.context.counts.add(Traffic::MemoryWaits, 1);
                }
                self.wait_for(slot, Interest::None);
            }
            // Reading again would only find the end, at every wait.
            (false, Next::Completion) => self.wait_for(slot, Interest::None),
            (false, _) if ended => self.wait_for(slot, Interest::None),
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
