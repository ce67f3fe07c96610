//! Sending the replies of a burst, and the unsent output of earlier bursts (for which a socket had
//! no space).

use std::io;

use service::{Session as _, Worker};

use super::{Flushed, WorkerContext};
use crate::connection::{Connection, ConnectionIo, Unsent};
use crate::connection_counts::Traffic;
use crate::transform;
use crate::transport::Sent;

impl<S: Worker> WorkerContext<S> {
    /// Sends `self.output` to a connection, and empties it. Output for which the transport has no
    /// space moves to the connection's `unsent`. Returns false if sending failed; the caller then
    /// closes the connection.
    pub(crate) fn send<I: ConnectionIo>(
        &mut self,
        connection: &mut Connection<S, I>,
        now_s: u32,
    ) -> bool {
        if self.output.is_empty() && !connection.io.has_unsent() {
            return true;
        }
        let is_kept = match connection.io.send(&self.output, 0) {
            Ok(sent) => {
                if !sent.is_complete {
                    let (output, sent) = self.output.take_unsent(sent.position);
                    connection.unsent = Some(Box::new(Unsent { output, sent }));
                }
                self.count_sent(connection, &sent, now_s);
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

    /// Sends as much of the unsent output of an earlier burst as the transport has space for.
    /// Returns `None` if there is no such output.
    pub(crate) fn send_unsent<I: ConnectionIo>(
        &mut self,
        connection: &mut Connection<S, I>,
        now_s: u32,
    ) -> Option<Flushed> {
        let mut unsent = connection.unsent.take()?;
        let sent = match connection.io.send(&unsent.output, unsent.sent) {
            Ok(sent) => sent,
            Err(error) => {
                self.count_if_panic(&error);
                return Some(Flushed::Lost);
            }
        };
        self.count_sent(connection, &sent, now_s);
        if sent.is_complete {
            return Some(Flushed::Complete);
        }
        (unsent.output, unsent.sent) = unsent.output.take_unsent(sent.position);
        connection.unsent = Some(unsent);
        Some(Flushed::Partial)
    }

    /// Counts sent bytes. If there are any, records that the connection was active in second
    /// `now_s`. If bytes of a file could not be sent, because they are not in memory, lets the
    /// session take them back. Such a session gets another turn in any case, because it has said
    /// that it continues after its output.
    fn count_sent<I>(&mut self, connection: &mut Connection<S, I>, sent: &Sent, now_s: u32) {
        if sent.network_len > 0 {
            connection.active_s = now_s;
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
