//! Serving the connections of a burst: prepare the input of all of them, then answer each
//! connection and submit one send for it.

use service::Next;
use sys::ring::{ReceiveBuffers, ReceivedBytes, Ring};

use super::{RingIo, Worker, watch_writable};
use crate::connection::{Connection, HeldInput};
use crate::connection_counts::Traffic;
use crate::connection_table::Slot;
use crate::limits::BUFFERED_UNCOUNTED;
use crate::setup::second;
use crate::transport::Transport as _;
use crate::worker_context::WorkerContext;

/// A connection that is being served.
pub(super) struct BurstMember {
    slot: Slot,
    input: Input,
    /// Whether a receive has returned the end of the stream, because the peer has shut down its
    /// sending side.
    reached_eof: bool,
}

/// Where the input of a connection is while it is served.
enum Input {
    /// In a receive buffer of the ring. The connection has no earlier input.
    Buffer(ReceivedBytes),
    /// In the connection's own memory, where newly received bytes follow earlier input.
    HeldInput(HeldInput),
}

impl BurstMember {
    /// Returns the slot and the input of the connection.
    fn input_of<'i>(&'i self, receive_buffers: &'i ReceiveBuffers) -> (Slot, &'i [u8]) {
        let input = match &self.input {
            Input::Buffer(arrived) => receive_buffers.bytes(arrived),
            Input::HeldInput(held) => held.as_slice(),
        };
        (self.slot, input)
    }
}

impl<S: service::Worker> Worker<S> {
    /// Serves the connections in `slots` together. They are a burst, or a part of one with at most
    /// [`BURST_CONNECTIONS`](crate::limits::BURST_CONNECTIONS) connections.
    pub(super) fn serve(&mut self, slots: &[Slot], now_ns: u64) {
        let now_s = second(now_ns);
        let mut members = std::mem::take(&mut self.members);
        members.extend(slots.iter().filter_map(|&slot| self.member(slot)));
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let input_of = |member| BurstMember::input_of(member, &self.receive_buffers);
        let send =
            |context: &mut WorkerContext<S>, connection: &mut Connection<S, RingIo>, slot| {
                let (ring, unchecked_sends) = (&mut self.ring, &mut self.unchecked_sends);
                send(context, ring, unchecked_sends, connection, slot, now_s)
            };
        self.context.serve_burst(
            &mut self.table,
            &members,
            input_of,
            now_ns,
            &mut outcomes,
            send,
        );
        for (member, outcome) in members.drain(..).zip(outcomes.drain(..)) {
            self.keep_unconsumed(member.slot, member.input, outcome.progress.consumed);
            if outcome.is_lost {
                self.close(member.slot);
            } else {
                self.handle_next(member.slot, outcome.progress.next, member.reached_eof);
                self.count_buffered(member.slot);
            }
        }
        self.members = members;
        self.outcomes = outcomes;
    }

    /// Takes the input of a connection, so that it can be served. Returns `None` if the connection
    /// has been closed, if it is no longer queued, or if its replies are still being sent.
    fn member(&mut self, slot: Slot) -> Option<BurstMember> {
        let connection = self.table.get_mut(slot)?;
        if !std::mem::take(&mut connection.is_queued) {
            return None;
        }
        let io = &mut connection.io;
        if connection.unsent.is_some() || io.is_sending || io.is_closed {
            return None;
        }
        let input = match (io.arrived.take(), connection.held.is_empty()) {
            (Some(arrived), true) => Input::Buffer(arrived),
            (arrived, _) => {
                let mut held = std::mem::take(&mut connection.held);
                if let Some(arrived) = arrived {
                    held.append(self.receive_buffers.bytes(&arrived));
                    self.receive_buffers.give_back(arrived);
                }
                Input::HeldInput(held)
            }
        };
        Some(BurstMember {
            slot,
            input,
            reached_eof: io.reached_eof,
        })
    }

    /// Keeps the input that the session has not consumed in the connection, and gives the receive
    /// buffer back to the kernel. `consumed` is the number of consumed bytes.
    fn keep_unconsumed(&mut self, slot: Slot, input: Input, consumed: usize) {
        let connection = self.table.get_mut(slot);
        match (input, connection) {
            (Input::Buffer(arrived), connection) => {
                if let Some(connection) = connection
                    && consumed < arrived.len()
                {
                    let unconsumed = &self.receive_buffers.bytes(&arrived)[consumed..];
                    connection.held.append(unconsumed);
                }
                self.receive_buffers.give_back(arrived);
            }
            (Input::HeldInput(mut held), Some(connection)) => {
                held.consume(consumed);
                connection.held = held;
            }
            (Input::HeldInput(_), None) => {}
        }
    }

    /// Acts on what the session needs next: closes the connection, queues it for another turn, or
    /// starts a receive.
    fn handle_next(&mut self, slot: Slot, next: Next, reached_eof: bool) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.io.is_closed {
            // The connection was closed while another connection of the burst was handled, because
            // the worker's share of buffered bytes was exceeded.
            connection.held = HeldInput::default();
            return;
        }
        let is_blocked = connection.unsent.is_some() || connection.io.is_sending;
        let must_close = connection.record_next(next, reached_eof);
        if connection.io.waits_for_memory && next != Next::Memory {
            connection.io.waits_for_memory = false;
            // While the connection waited for memory, the peer could not be active. So this time
            // does not count as silence of the peer.
            connection.active_s = self.context.last_wake_s();
        }
        match (is_blocked, next) {
            // The output is not sent yet. The end of the send is an event, which makes the
            // connection continue.
            (true, next) => {
                let yields = u64::from(next == Next::Yield);
                self.context.counts.add(Traffic::Yields, yields);
            }
            (false, _) if must_close => self.close(slot),
            (false, Next::Yield | Next::OutputSpace) => {
                self.context.queue(connection, slot);
                self.context.counts.add(Traffic::Yields, 1);
            }
            (false, Next::Memory) => {
                connection.is_queued = true;
                self.context.waiting_for_memory.push(slot);
                // Count the wait once, even if the connection retries several times.
                if !std::mem::replace(&mut connection.io.waits_for_memory, true) {
                    self.context.counts.add(Traffic::MemoryWaits, 1);
                }
            }
            (false, Next::Input | Next::Upload | Next::Completion | Next::Close) => {}
        }
        self.limit_receiving(slot);
        if !is_blocked && !must_close {
            self.receive(slot);
            self.watch_hang_up(slot);
        }
    }
}

/// Sends the output of `context` to a connection. Returns false if the connection is lost.
///
/// The ring sends plain bytes, so that one system call submits the sends of a complete burst. It
/// owns the bytes until they are sent. Three kinds of output need a separate system call for each
/// connection:
///
/// - output with pinned values, because the ring cannot own them;
/// - output that a transform has to change;
/// - output with a part of a file, because the ring cannot send it without waiting for the disk.
fn send<S: service::Worker>(
    context: &mut WorkerContext<S>,
    ring: &mut Ring,
    unchecked_sends: &mut Vec<Slot>,
    connection: &mut Connection<S, RingIo>,
    slot: Slot,
    now_s: u32,
) -> bool {
    if context.output.is_empty() && !connection.io.transport.has_unsent() {
        return true;
    }
    if connection.io.transport.is_plain()
        && let Some(bytes) = context.take_bytes()
    {
        connection.io.is_sending = true;
        connection.io.send_capacity = bytes.capacity();
        if bytes.capacity() > BUFFERED_UNCOUNTED && !connection.io.is_send_unchecked {
            connection.io.is_send_unchecked = true;
            unchecked_sends.push(slot);
        }
        ring.send(&connection.io.transport, slot as u32, bytes);
        return true;
    }
    let is_kept = context.send(connection, slot, now_s);
    if connection.unsent.is_some() && !connection.waits_to_send {
        watch_writable(ring, connection, slot);
    }
    is_kept
}
