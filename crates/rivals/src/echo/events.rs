//! The server over level-triggered epoll. In each turn a connection makes one `recv` and one
//! `send`.

use std::io;

use sys::poll::{Events, Interest, Poll, Waker};
use sys::socket::{Listener, Stream};

use super::{Exchange, PendingReplies, Slots, accept_all};

/// The tokens of the listener and of the waker that ends the server. Connections use their index.
const LISTENER: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;
/// The maximum number of events that one wait returns.
const EVENTS_MAX: usize = 1024;
/// The maximum number of bytes in one receive. It exceeds the longest pipeline that is measured.
const RECEIVE_LEN_MAX: usize = 16 << 10;

struct Connection {
    stream: Stream,
    pending: PendingReplies,
    /// Whether the socket's send buffer is full. The connection then waits until it is writable,
    /// and receives nothing until all answers are sent.
    waits_for_space: bool,
}

pub(super) fn serve(listener: &Listener, exchange: &Exchange, end: &Waker) -> io::Result<()> {
    let poll = Poll::new()?;
    poll.add(listener, LISTENER, Interest::Read)?;
    poll.add(end, END, Interest::Read)?;
    let mut events = Events::with_capacity(EVENTS_MAX);
    let mut connections = Slots::new();
    let mut input = vec![0; RECEIVE_LEN_MAX];
    let answers = exchange.answers();
    loop {
        poll.wait(&mut events, None)?;
        for ready in events.iter() {
            match ready.token {
                LISTENER => {
                    accept_all(listener, |stream| accepted(stream, &poll, &mut connections))?;
                }
                END => return Ok(()),
                token => {
                    let index = token as u32;
                    let Some(connection) = connections.find(index) else {
                        continue;
                    };
                    let turn = connection.turn(&poll, token, exchange, &mut input, &answers);
                    match turn {
                        Ok(true) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Ok(false) | Err(_) => connections.remove(index),
                    }
                }
            }
        }
    }
}

fn accepted(stream: Stream, poll: &Poll, connections: &mut Slots<Connection>) -> io::Result<()> {
    let index = connections.add(Connection {
        stream,
        pending: PendingReplies::default(),
        waits_for_space: false,
    });
    match connections.find(index) {
        Some(connection) => poll.add(&connection.stream, u64::from(index), Interest::Read),
        None => Ok(()),
    }
}

impl Connection {
    /// Receives once, and sends pending answers once. Returns false if the peer has closed the
    /// connection.
    fn turn(
        &mut self,
        poll: &Poll,
        token: u64,
        exchange: &Exchange,
        input: &mut [u8],
        answers: &[u8],
    ) -> io::Result<bool> {
        if !self.waits_for_space {
            let len = self.stream.recv(input)?;
            if len == 0 {
                return Ok(false);
            }
            self.pending.add(&input[..len], exchange, &self.stream)?;
        }
        if self.pending.unsent_len > 0 {
            // The bytes of the first answer that are sent already.
            let answer_len = exchange.answer.len();
            let sent_len = (answer_len - self.pending.unsent_len % answer_len) % answer_len;
            let end = answers.len().min(sent_len + self.pending.unsent_len);
            match self.stream.send(&answers[sent_len..end]) {
                Ok(len) => self.pending.unsent_len -= len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        let waits_for_space = self.pending.unsent_len > 0;
        if waits_for_space != self.waits_for_space {
            self.waits_for_space = waits_for_space;
            let interest = match waits_for_space {
                true => Interest::Write,
                false => Interest::Read,
            };
            poll.change(&self.stream, token, interest)?;
        }
        Ok(true)
    }
}
