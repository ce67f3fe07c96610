//! The server over one io_uring. Receives are multishot, so the kernel repeats them without a new
//! request. The server enters the ring once per burst, which also submits all sends of the burst.

use std::io;

use sys::poll::Waker;
use sys::ring::{Event, ReceiveBuffers, ReceiveEnd, Ring, RingConfig};
use sys::socket::{Listener, Stream};

use super::{Exchange, PendingReplies, Slots, accept_all};

const CONFIG: RingConfig = RingConfig {
    entries: 1024,
    buffers: 1024,
    // The length exceeds the longest pipeline that is measured. It is an odd number of cache lines,
    // so that the beginnings of the buffers lie in all sets of the processor's caches. Small
    // requests touch only these beginnings, which would otherwise share a few sets.
    buffer_len: 4096 + 64,
};
/// The tokens of the listener and of the waker that ends the server, among watched descriptors.
const LISTENER: u32 = 0;
const END: u32 = 1;

struct Connection {
    stream: Stream,
    pending: PendingReplies,
    is_sending: bool,
    /// Whether the connection is in [`Server::marked`].
    is_marked: bool,
    /// Whether receiving has ended. The connection is removed once all answers have been sent.
    has_ended: bool,
}

pub(super) fn serve(listener: &Listener, exchange: &Exchange, end: &Waker) -> io::Result<()> {
    #[expect(
        unsafe_code,
        reason = "the one contract that the compiler cannot check here"
    )]
    // SAFETY: a connection is removed only when it neither sends nor receives any more, and the
    // others are closed with the server, whose first field is the ring. The listener and the waker
    // are borrowed for longer.
    let (ring, receive_buffers) = unsafe { Ring::new(CONFIG) }?;
    let mut server = Server {
        ring,
        receive_buffers,
        exchange,
        answers: exchange.answers(),
        connections: Slots::new(),
        marked: Vec::new(),
        spare: Vec::new(),
    };
    server.ring.watch_readable(listener, LISTENER);
    server.ring.watch_readable(end, END);
    loop {
        server.ring.wait(None)?;
        while let Some(event) = server.ring.next_event() {
            match event {
                Event::Ready {
                    token: LISTENER,
                    stays_active,
                } => {
                    accept_all(listener, |stream| {
                        server.accepted(stream);
                        Ok(())
                    })?;
                    if !stays_active {
                        server.ring.watch_readable(listener, LISTENER);
                    }
                }
                Event::Ready { .. } | Event::HungUp { .. } => return Ok(()),
                event => server.handle_event(event),
            }
        }
        server.send_all();
    }
}

struct Server<'a> {
    /// This field precedes `connections`, whose sockets must be closed after the ring is dropped.
    ring: Ring,
    receive_buffers: ReceiveBuffers,
    exchange: &'a Exchange,
    /// Many answers in a row.
    answers: Vec<u8>,
    connections: Slots<Connection>,
    /// Connections to look at when the burst ends: they have something to send, or have ended.
    marked: Vec<u32>,
    /// Buffers from which answers were sent, for reuse.
    spare: Vec<Vec<u8>>,
}

impl Server<'_> {
    fn accepted(&mut self, stream: Stream) {
        let index = self.connections.add(Connection {
            stream,
            pending: PendingReplies::default(),
            is_sending: false,
            is_marked: false,
            has_ended: false,
        });
        if let Some(connection) = self.connections.find(index) {
            self.ring.receive(&connection.stream, index);
        }
    }

    /// Handles the event of a connection.
    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Received {
                token,
                bytes,
                stays_active,
            } => {
                let Some(connection) = self.connections.find(token) else {
                    self.receive_buffers.give_back(bytes);
                    return;
                };
                let Connection {
                    stream, pending, ..
                } = connection;
                let received = self.receive_buffers.bytes(&bytes);
                if pending.add(received, self.exchange, stream).is_err() {
                    // The ring reports then that receiving has ended.
                    stream.shut();
                }
                self.receive_buffers.give_back(bytes);
                if !stays_active {
                    self.ring.receive(&connection.stream, token);
                }
                self.mark(token);
            }
            Event::ReceiveEnded { token, how } => {
                let Some(connection) = self.connections.find(token) else {
                    return;
                };
                // The kernel had no buffer left. The buffers of all handled events have been given
                // back, so receiving can start again.
                if matches!(how, ReceiveEnd::NoBuffer) {
                    self.ring.receive(&connection.stream, token);
                    return;
                }
                connection.has_ended = true;
                if matches!(how, ReceiveEnd::Lost(_)) {
                    connection.pending = PendingReplies::default();
                }
                self.mark(token);
            }
            Event::Sent {
                token,
                bytes,
                result,
            } => {
                self.spare.push(bytes);
                let Some(connection) = self.connections.find(token) else {
                    return;
                };
                connection.is_sending = false;
                if result.is_err() {
                    // After the shutdown the ring reports that receiving has ended.
                    connection.pending = PendingReplies::default();
                    connection.stream.shut();
                }
                if connection.pending.unsent_len > 0 || connection.has_ended {
                    self.mark(token);
                }
            }
            Event::Ready { .. } | Event::HungUp { .. } => {}
        }
    }

    /// Adds a connection to those to look at when the burst ends.
    fn mark(&mut self, index: u32) {
        if let Some(connection) = self.connections.find(index)
            && !connection.is_marked
        {
            connection.is_marked = true;
            self.marked.push(index);
        }
    }

    /// Starts the sends of all marked connections, and removes those that have ended.
    fn send_all(&mut self) {
        let Self {
            ring,
            answers,
            connections,
            marked,
            spare,
            ..
        } = self;
        for index in marked.drain(..) {
            let Some(connection) = connections.find(index) else {
                continue;
            };
            connection.is_marked = false;
            if connection.is_sending {
                continue;
            }
            // Each send begins with a whole answer, since the ring sends all of its bytes.
            let len = connection.pending.unsent_len.min(answers.len());
            if len == 0 {
                if connection.has_ended {
                    connections.remove(index);
                }
                continue;
            }
            // A reused buffer contains answers already, so this writes only beyond its old length.
            let mut bytes = spare.pop().unwrap_or_default();
            bytes.truncate(len);
            bytes.extend_from_slice(&answers[bytes.len()..len]);
            connection.pending.unsent_len -= len;
            connection.is_sending = true;
            ring.send(&connection.stream, index, bytes);
        }
    }
}
