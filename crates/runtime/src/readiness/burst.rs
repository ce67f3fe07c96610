//! Serving the connections of a burst: receive on every connection, prepare all requests, answer
//! them, and send once for each connection.

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

/// A connection that is being served.
pub(super) struct BurstMember {
    slot: Slot,
    input: Input,
    /// Whether the peer has shut down its sending side.
    reached_eof: bool,
}

/// Where the input of a connection is while it is served.
enum Input {
    /// In the first `len` bytes of one of the worker's receive buffers. The connection has no
    /// earlier input.
    Buffer { bytes: Vec<u8>, len: usize },
    /// In the connection's own memory, where newly received bytes follow earlier input.
    HeldInput(HeldInput),
}

impl BurstMember {
    /// Returns the slot and the input of the connection.
    fn input_of(&self) -> (Slot, &[u8]) {
        let input = match &self.input {
            Input::Buffer { bytes, len } => &bytes[..*len],
            Input::HeldInput(held) => held.as_slice(),
        };
        (self.slot, input)
    }
}

impl<S: Worker, T: Transport, R: Registry<T>> ReadinessLoop<S, T, R> {
    /// Serves the connections in `slots` together. They are a burst, or a part of one with at most
    /// [`BURST_CONNECTIONS`](crate::limits::BURST_CONNECTIONS) connections.
    pub(super) fn serve(&mut self, slots: &[Slot], now_ns: u64) {
        let now_s = second(now_ns);
        let mut members = std::mem::take(&mut self.members);
        for &slot in slots {
            members.extend(self.receive(slot, now_s));
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let send = |context: &mut WorkerContext<S>,
                    connection: &mut Connection<S, ReadinessIo<T>>,
                    slot| { context.send(connection, slot, now_s) };
        self.context.serve_burst(
            &mut self.table,
            &members,
            BurstMember::input_of,
            now_ns,
            &mut outcomes,
            send,
        );
        for (member, outcome) in members.drain(..).zip(&outcomes) {
            self.keep_unconsumed(member.slot, member.input, outcome.progress.consumed);
            if outcome.is_lost {
                self.close(member.slot);
            } else {
                self.handle_next(member.slot, outcome.progress.next, member.reached_eof);
                self.count_buffered(member.slot);
            }
        }
        outcomes.clear();
        self.members = members;
        self.outcomes = outcomes;
    }

    /// Receives on a connection and returns it with its input. Returns `None` if the connection is
    /// closed, if the receive closes it, or if unsent output has to be sent first.
    fn receive(&mut self, slot: Slot, now_s: u32) -> Option<BurstMember> {
        let connection = self.table.get_mut(slot)?;
        let was_queued = std::mem::take(&mut connection.is_queued);
        if connection.unsent.is_some() {
            return None;
        }
        let member = |input, reached_eof| {
            Some(BurstMember {
                slot,
                input,
                reached_eof,
            })
        };
        let held = std::mem::take(&mut connection.held);
        // A connection gets its turn without a receive if it has held input (received but not
        // consumed) and its session needs no further input. The held input may contain complete
        // requests, which are answered first. A connection that was not queued is served by
        // `drain`, in order to receive once more.
        if was_queued && connection.continues_without_input && !held.is_empty() {
            return member(Input::HeldInput(held), false);
        }
        let is_plain = connection.io.transport.is_plain();
        // The missing part of a long value is received directly into the store's memory.
        let target = connection.session.upload_buffer();
        if target.len() >= DIRECT_MIN && held.is_empty() && is_plain {
            let received = connection.io.transport.receive(target);
            // The session gets no input, because `held` is empty. Received bytes are already in the
            // session's upload buffer.
            let input = Input::HeldInput(held);
            return match self.count_received(slot, received, now_s) {
                Received::Bytes(len) => {
                    let connection = self.table.get_mut(slot)?;
                    connection.session.advance_upload(len);
                    member(input, false)
                }
                Received::Nothing => member(input, false),
                Received::End => member(input, true),
                Received::Lost => None,
            };
        }
        let mut bytes = self.buffers.pop().unwrap_or_else(|| vec![0; RECEIVE_LEN]);
        let received = connection.io.transport.receive(&mut bytes);
        let (len, reached_eof) = match self.count_received(slot, received, now_s) {
            Received::Bytes(len) => (len, false),
            Received::Nothing => (0, false),
            Received::End => (0, true),
            Received::Lost => {
                self.buffers.push(bytes);
                return None;
            }
        };
        if held.is_empty() && is_plain {
            return member(Input::Buffer { bytes, len }, reached_eof);
        }
        let mut held = held;
        let connection = self.table.get_mut(slot)?;
        let transport = &mut connection.io.transport;
        // Appends the session's input to the held input. A plain transport has held input here, and
        // appends the received bytes unchanged.
        let transformed = transport.transform(&bytes[..len], held.tail());
        self.buffers.push(bytes);
        if let Err(error) = transformed {
            self.context.count_if_panic(&error);
            self.close(slot);
            return None;
        }
        member(Input::HeldInput(held), reached_eof)
    }

    /// Counts received bytes and classifies the result of a receive. Closes the connection if the
    /// receive failed.
    fn count_received(&mut self, slot: Slot, received: io::Result<usize>, now_s: u32) -> Received {
        match received {
            Ok(0) => Received::End,
            Ok(len) => {
                self.context.counts.add(Traffic::BytesRead, len as u64);
                if let Some(connection) = self.table.get_mut(slot) {
                    connection.active_s = now_s;
                    connection.transfer.add(len);
                }
                Received::Bytes(len)
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

    /// Keeps the input that the session has not consumed in the connection, and returns the receive
    /// buffer to the worker. `consumed` is the number of consumed bytes.
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

    /// Acts on what the session needs next: closes the connection, queues it for another turn, or
    /// registers the events to wait for.
    fn handle_next(&mut self, slot: Slot, next: Next, reached_eof: bool) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let is_blocked = connection.unsent.is_some();
        let must_close = connection.record_next(next, reached_eof);
        let waits_for_memory = next == Next::Memory;
        let waited_for_memory =
            std::mem::replace(&mut connection.io.waits_for_memory, waits_for_memory);
        if waited_for_memory && !waits_for_memory {
            // While the connection waited for memory, the peer could not be active. So this time
            // does not count as silence of the peer.
            connection.active_s = self.context.last_wake_s();
        }
        match (is_blocked, next) {
            // The rest of the output is sent in this round or the next ones.
            (true, _) if connection.waits_to_send => {}
            (true, _) => self.wait_for(slot, Interest::Write),
            (false, _) if must_close => self.close(slot),
            (false, Next::Yield | Next::OutputSpace) => {
                self.context.queue(connection, slot);
                self.context.counts.add(Traffic::Yields, 1);
            }
            (false, Next::Memory) => {
                connection.is_queued = true;
                self.context.waiting_for_memory.push(slot);
                // Count the wait once, even if the connection retries several times.
                if !waited_for_memory {
                    self.context.counts.add(Traffic::MemoryWaits, 1);
                }
                self.wait_for(slot, Interest::None);
            }
            (false, Next::Completion) => self.wait_for(slot, Interest::None),
            // A socket stays readable after the end of the stream. With the interest `Read`, every
            // wait would report the socket at once, and the worker would not sleep.
            (false, _) if reached_eof => self.wait_for(slot, Interest::None),
            // `Next::Close` does not occur here, because `must_close` is then true. It is listed
            // only because a `match` must be complete.
            (false, Next::Input | Next::Upload | Next::Close) => {
                self.wait_for(slot, Interest::Read);
            }
        }
    }
}

/// The result of a receive.
enum Received {
    /// This many bytes, at least one.
    Bytes(usize),
    /// No bytes are available.
    Nothing,
    /// The end of the stream: the peer has shut down its sending side.
    End,
    /// The receive failed and the connection has been closed.
    Lost,
}
