//! A burst: prepare the input of every connection, answer all, send once per connection.

use service::Next;
use sys::ring::{Arrived, Inputs, Ring};

use super::{RingIo, Worker, watch_room};
use crate::connection::{Connection, HeldInput};
use crate::connection_counts::Traffic;
use crate::connection_table::Slot;
use crate::limits::BUFFERED_UNCOUNTED;
use crate::setup::second;
use crate::transport::Transport as _;
use crate::worker_context::WorkerContext;

/// A connection in a burst.
pub(super) struct BurstMember {
    slot: Slot,
    input: Input,
    /// The peer has shut down its sending side.
    reached_eof: bool,
}

/// Where the input of a connection is during a burst.
enum Input {
    /// In a buffer selected by the kernel. The connection holds no earlier input.
    Arrived(Arrived),
    /// In the connection's own memory, behind any earlier input.
    HeldInput(HeldInput),
}

impl BurstMember {
    /// The slot and the input.
    fn input_of<'i>(&'i self, inputs: &'i Inputs) -> (Slot, &'i [u8]) {
        let input = match &self.input {
            Input::Arrived(arrived) => inputs.bytes(arrived),
            Input::HeldInput(held) => held.as_slice(),
        };
        (self.slot, input)
    }
}

impl<S: service::Worker> Worker<S> {
    /// Serves connections that have input.
    pub(super) fn serve(&mut self, slots: &[Slot], now_ns: u64) {
        let now_s = second(now_ns);
        let mut members = std::mem::take(&mut self.members);
        members.extend(slots.iter().filter_map(|&slot| self.member(slot)));
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let input_of = |member| BurstMember::input_of(member, &self.inputs);
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

    /// Makes a connection a member of the burst, with all its input. `None` if its replies are
    /// still being sent, or it has been served in this burst or closed.
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
        Some(BurstMember {
            slot,
            input,
            reached_eof: io.reached_eof,
        })
    }

    /// Keeps unconsumed input with the connection and gives the kernel's buffer back.
    fn keep_unconsumed(&mut self, slot: Slot, input: Input, consumed: usize) {
        let connection = self.table.get_mut(slot);
        match (input, connection) {
            (Input::Arrived(arrived), connection) => {
                if let Some(connection) = connection
                    && consumed < arrived.len()
                {
                    let unconsumed = &self.inputs.bytes(&arrived)[consumed..];
                    connection.held.append(unconsumed);
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

    /// Does what a connection needs next.
    fn handle_next(&mut self, slot: Slot, next: Next, reached_eof: bool) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.io.is_closed {
            // The connection was closed while another one of the burst was handled.
            connection.held = HeldInput::default();
            return;
        }
        let is_blocked = connection.unsent.is_some() || connection.io.is_sending;
        let must_close = connection.record_next(next, reached_eof);
        connection.io.waits_for_memory &= next == Next::Memory;
        match (is_blocked, next) {
            // The connection continues when its replies have been sent.
            (true, _) => {}
            (false, _) if must_close => self.close(slot),
            (false, Next::Yield | Next::OutputSpace) => {
                connection.is_queued = true;
                self.context.runnable.push(slot);
                self.context.counts.add(Traffic::Yields, 1);
            }
            (false, Next::Memory) => {
                connection.is_queued = true;
                self.context.waiting_for_memory.push(slot);
                // A failed retry is part of the same wait.
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

/// Sends a context's output to a connection: by the ring, together with the other sends of the
/// burst, or by a system call of its own if the output has pins, which a ring cannot own, or is
/// transformed. Returns false if the connection is lost.
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
    let is_kept = context.send(connection, now_s);
    if connection.unsent.is_some() {
        watch_room(ring, connection, slot);
    }
    is_kept
}
