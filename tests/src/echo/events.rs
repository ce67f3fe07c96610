//! By readiness: level-triggered epoll, one `recv` and one `send` for each connection a turn.

use std::io;

use sys::poll::{Events, Interest, Poll, Waker};
use sys::socket::{Listener, Stream};

use super::{Exchange, FILLER, PendingReplies, SEND_LEN_MAX, Slots};

const LISTENER: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;
/// Connections served between two looks at which are ready.
const EVENTS_MAX: usize = 1024;
/// Bytes received at once, at most: more than the deepest pipeline that is measured.
const RECEIVE_LEN_MAX: usize = 16 << 10;

struct Connection {
    stream: Stream,
    pending: PendingReplies,
    /// It waits for room, and is not read meanwhile.
    waits_for_room: bool,
}

pub(super) fn serve(listener: &Listener, exchange: Exchange, end: &Waker) -> io::Result<()> {
    let poll = Poll::new()?;
    poll.add(listener, LISTENER, Interest::Read)?;
    poll.add(end, END, Interest::Read)?;
    let mut events = Events::with_capacity(EVENTS_MAX);
    let mut connections = Slots::new();
    let mut input = vec![0; RECEIVE_LEN_MAX];
    let answers = vec![FILLER; SEND_LEN_MAX];
    loop {
        poll.wait(&mut events, None)?;
        for ready in events.iter() {
            match ready.token {
                LISTENER => accept(listener, &poll, &mut connections)?,
                END => return Ok(()),
                token => {
                    let number = token as u32;
                    let Some(connection) = connections.find(number) else {
                        continue;
                    };
                    let turn = connection.turn(&poll, token, exchange, &mut input, &answers);
                    match turn {
                        Ok(true) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Ok(false) | Err(_) => connections.remove(number),
                    }
                }
            }
        }
    }
}

fn accept(listener: &Listener, poll: &Poll, connections: &mut Slots<Connection>) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nodelay();
        let number = connections.add(Connection {
            stream,
            pending: PendingReplies::default(),
            waits_for_room: false,
        });
        if let Some(connection) = connections.find(number) {
            poll.add(&connection.stream, u64::from(number), Interest::Read)?;
        }
    }
}

impl Connection {
    /// Receives, and sends what is due. False: the peer has ended.
    fn turn(
        &mut self,
        poll: &Poll,
        token: u64,
        exchange: Exchange,
        input: &mut [u8],
        answers: &[u8],
    ) -> io::Result<bool> {
        if !self.waits_for_room {
            let len = self.stream.recv(input)?;
            if len == 0 {
                return Ok(false);
            }
            self.pending.add(len, exchange);
        }
        if self.pending.unsent_len > 0 {
            let len = self.pending.unsent_len.min(answers.len());
            match self.stream.send(&answers[..len]) {
                Ok(len) => self.pending.unsent_len -= len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        let waits_for_room = self.pending.unsent_len > 0;
        if waits_for_room != self.waits_for_room {
            self.waits_for_room = waits_for_room;
            let interest = match waits_for_room {
                true => Interest::Write,
                false => Interest::Read,
            };
            poll.change(&self.stream, token, interest)?;
        }
        Ok(true)
    }
}
