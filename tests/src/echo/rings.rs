//! By completion: one io_uring that goes on receiving by itself and is entered once a burst, with
//! all that the burst has to send.

use std::io;

use sys::poll::Waker;
use sys::ring::{Event, ReceiveBuffers, ReceiveEnd, Ring, RingConfig};
use sys::socket::{Listener, Stream};

use super::{Debt, Exchange, FILLER, SEND_LEN_MAX, Slots};

const CONFIG: RingConfig = RingConfig {
    entries: 1024,
    buffers: 1024,
    // An odd number of cache lines: the beginnings of buffers, all that small requests touch, then
    // lie in all sets of the caches instead of in a few. More than the deepest pipeline measured.
    buffer_len: 4096 + 64,
};
const LISTENER: u32 = 0;
const END: u32 = 1;

struct Connection {
    stream: Stream,
    debt: Debt,
    is_sending: bool,
    /// It is among those that have something to send at the end of the burst.
    is_marked: bool,
    /// Nothing is received any more; it goes once all that is due has been sent.
    has_ended: bool,
}

pub(super) fn serve(listener: &Listener, exchange: Exchange, end: &Waker) -> io::Result<()> {
    let (ring, receive_buffers) = Ring::new(CONFIG)?;
    let mut server = Server {
        ring,
        receive_buffers,
        exchange,
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
                    while let Ok(stream) = listener.accept() {
                        server.accepted(stream);
                    }
                    if !stays_active {
                        server.ring.watch_readable(listener, LISTENER);
                    }
                }
                Event::Ready { .. } | Event::HungUp { .. } => return Ok(()),
                of_connection => server.of_connection(of_connection),
            }
        }
        server.send_all();
    }
}

struct Server {
    ring: Ring,
    receive_buffers: ReceiveBuffers,
    exchange: Exchange,
    connections: Slots<Connection>,
    /// Connections with something to send.
    marked: Vec<u32>,
    /// Memory that answers were sent from.
    spare: Vec<Vec<u8>>,
}

impl Server {
    fn accepted(&mut self, stream: Stream) {
        stream.set_nodelay();
        let number = self.connections.add(Connection {
            stream,
            debt: Debt::default(),
            is_sending: false,
            is_marked: false,
            has_ended: false,
        });
        if let Some(connection) = self.connections.find(number) {
            self.ring.receive(&connection.stream, number);
        }
    }

    fn of_connection(&mut self, event: Event) {
        match event {
            Event::Received {
                token,
                bytes,
                stays_active,
            } => {
                let len = bytes.len();
                self.receive_buffers.give_back(bytes);
                let Some(connection) = self.connections.find(token) else {
                    return;
                };
                connection.debt.add(len, self.exchange);
                if !stays_active {
                    self.ring.receive(&connection.stream, token);
                }
                self.mark(token);
            }
            Event::ReceiveEnded { token, how } => {
                let Some(connection) = self.connections.find(token) else {
                    return;
                };
                // All buffers have been given back already.
                if matches!(how, ReceiveEnd::NoBuffer) {
                    self.ring.receive(&connection.stream, token);
                    return;
                }
                connection.has_ended = true;
                if matches!(how, ReceiveEnd::Lost(_)) {
                    connection.debt = Debt::default();
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
                    // That receiving has ended follows.
                    connection.debt = Debt::default();
                    connection.stream.shut();
                }
                if connection.debt.owed_len > 0 || connection.has_ended {
                    self.mark(token);
                }
            }
            Event::Ready { .. } | Event::HungUp { .. } => {}
        }
    }

    fn mark(&mut self, number: u32) {
        if let Some(connection) = self.connections.find(number)
            && !connection.is_marked
        {
            connection.is_marked = true;
            self.marked.push(number);
        }
    }

    /// Hands over what the burst's connections have to send, and lets go of those that have ended.
    fn send_all(&mut self) {
        let Self {
            ring,
            connections,
            marked,
            spare,
            ..
        } = self;
        for number in marked.drain(..) {
            let Some(connection) = connections.find(number) else {
                continue;
            };
            connection.is_marked = false;
            if connection.is_sending {
                continue;
            }
            let len = connection.debt.owed_len.min(SEND_LEN_MAX);
            if len == 0 {
                if connection.has_ended {
                    connections.remove(number);
                }
                continue;
            }
            // Where answers are all of one length, this writes nothing once all memory has it.
            let mut bytes = spare.pop().unwrap_or_default();
            bytes.resize(len, FILLER);
            connection.debt.owed_len -= len;
            connection.is_sending = true;
            ring.send(&connection.stream, number, bytes);
        }
    }
}
