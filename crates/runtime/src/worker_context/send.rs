//! Sending the replies of a burst, and unsent output (for which a socket had no space, or which is
//! sent over several rounds).

use std::io;
use std::mem;

use service::{Session as _, Worker};

use super::{Flushed, WorkerContext};
use crate::connection::{Connection, ConnectionIo, Unsent};
use crate::connection_counts::Traffic;
use crate::connection_table::Slot;
use crate::limits::SEND_PER_ROUND;
use crate::transform;
use crate::transport::{Sent, Transport as _};

impl<S: Worker> WorkerContext<S> {
    /// Sends `self.output` to a connection, and empties it. Output for which the transport has no
    /// space moves to the connection's `unsent`. So does output that a later round has to send;
    /// then the connection waits to send ([`Connection::waits_to_send`]). Returns false if sending
    /// failed; the caller then closes the connection.
    pub(crate) fn send<I: ConnectionIo>(
        &mut self,
        connection: &mut Connection<S, I>,
        slot: Slot,
        now_s: u32,
    ) -> bool {
        if self.output.is_empty() && !connection.io.transport().has_unsent() {
            return true;
        }
        let is_long = self.output.has_pins() || self.output.has_file();
        let max_len = match is_long {
            true => self.long_sends.first_part_max(),
            false => SEND_PER_ROUND,
        };
        let is_kept = match connection.io.transport_mut().send(&self.output, 0, max_len) {
            Ok(sent) => {
                if !sent.is_complete {
                    let (output, sent) = self.output.take_unsent(sent.position);
                    connection.unsent = Some(Box::new(Unsent { output, sent }));
                }
                if is_long {
                    self.long_sends.count(sent.network_len);
                }
                self.count_sent(connection, slot, &sent, now_s);
                true
            }
            Err(error) => {
                self.count_if_panic(&error);
                false
            }
        };
        self.output.clear();
        is_kept
    }

    /// Takes the next connection that waits to send, for a caller that then calls
    /// [`send_unsent`](Self::send_unsent). Returns `None` if there is none, or if no more may be
    /// sent in this round.
    pub(crate) fn next_to_send(&mut self) -> Option<Slot> {
        self.long_sends.pop()
    }

    /// Makes a connection with unsent output wait to send, because its transport has space.
    pub(crate) fn wait_to_send<I>(&mut self, connection: &mut Connection<S, I>, slot: Slot) {
        if !mem::replace(&mut connection.waits_to_send, true) {
            self.long_sends.push(slot);
        }
    }

    /// Sends the next part of the unsent output of a connection, or as much of it as the transport
    /// has space for. If only the part ends, the connection waits to send again. Returns `None` if
    /// there is no unsent output.
    pub(crate) fn send_unsent<I: ConnectionIo>(
        &mut self,
        connection: &mut Connection<S, I>,
        slot: Slot,
        now_s: u32,
    ) -> Option<Flushed> {
        connection.waits_to_send = false;
        let mut unsent = connection.unsent.take()?;
        let transport = connection.io.transport_mut();
        let sent = match transport.send(&unsent.output, unsent.sent, SEND_PER_ROUND) {
            Ok(sent) => sent,
            Err(error) => {
                self.count_if_panic(&error);
                return Some(Flushed::Lost);
            }
        };
        self.long_sends.count(sent.network_len);
        self.count_sent(connection, slot, &sent, now_s);
        if sent.is_complete {
            return Some(Flushed::Complete);
        }
        (unsent.output, unsent.sent) = unsent.output.take_unsent(sent.position);
        connection.unsent = Some(unsent);
        match sent.is_blocked {
            true => Some(Flushed::Blocked),
            false => Some(Flushed::Partial),
        }
    }

    /// Counts sent bytes. If there are any, records that the connection was active in second
    /// `now_s`. If output is left for which the transport has space, the connection waits to send.
    /// If bytes of a file could not be sent, because they are not in memory, lets the session take
    /// them back. Such a session gets another turn in any case, because it has said that it
    /// continues after its output.
    fn count_sent<I>(
        &mut self,
        connection: &mut Connection<S, I>,
        slot: Slot,
        sent: &Sent,
        now_s: u32,
    ) {
        if !sent.is_complete && !sent.is_blocked {
            self.wait_to_send(connection, slot);
        }
        if sent.network_len > 0 {
            connection.active_s = now_s;
            connection.transfer.add(sent.network_len);
        }
        if sent.returned_len > 0 {
            connection.session.take_back(sent.returned_len);
        }
        let len = sent.network_len as u64;
        self.counts.add(Traffic::BytesWritten, len);
    }

    /// Counts a panic if `error` is the panic of a transform. The caller closes the connection.
    pub(crate) fn count_if_panic(&self, error: &io::Error) {
        if transform::is_panic(error) {
            self.setup.counts.count_panics(1);
        }
    }
}
