//! A closed loop: each connection sends its next requests, in one write, when all answers to the
//! last have come. One thread, epoll.
//!
//! Answers are known by their length alone. One that is too long fails at once; one that is too
//! short, such as a miss, fails when nothing more comes.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll};
use sys::socket::Stream;

use crate::asks::Requests;

/// How long nothing may come while something is due.
const TIMEOUT_NS: u64 = 5_000_000_000;
const INPUT_LEN: usize = 64 << 10;

/// Connections to one server.
pub(crate) struct Client {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    requests: Requests,
    depth: usize,
    input: Vec<u8>,
}

struct Connection {
    stream: Stream,
    /// Bytes of answers still to come.
    due_len: usize,
}

/// When to ask no more.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// So long after the beginning.
    TimeNs(u64),
    /// So many requests.
    Asked(u64),
}

/// What a run came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// All of them answered.
    pub(crate) requests: u64,
    pub(crate) elapsed_ns: u64,
}

impl Client {
    /// Connects.
    pub(crate) fn new(
        address: SocketAddr,
        connections: usize,
        depth: usize,
        requests: Requests,
    ) -> Result<Self> {
        let poll = Poll::new()?;
        let connections = (0..connections)
            .map(|number| {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                let stream = Stream::from(OwnedFd::from(stream));
                poll.add(&stream, number as u64, Interest::Read)?;
                Ok(Connection { stream, due_len: 0 })
            })
            .collect::<Result<Vec<Connection>>>()
            .with_context(|| format!("connect to {address}"))?;
        Ok(Self {
            poll,
            events: Events::with_capacity(connections.len()),
            connections,
            requests,
            depth,
            input: vec![0; INPUT_LEN],
        })
    }

    /// Asks until it is time to end, and waits for what is due then: the server rests before and
    /// after.
    pub(crate) fn run(&mut self, until: Until) -> Result<Done> {
        let start_ns = monotonic_ns();
        let (mut asked, mut waiting) = (0, 0);
        for connection in &mut self.connections {
            if !until.is_over(asked, 0) {
                connection.send_requests(&mut self.requests, self.depth)?;
                asked += self.depth as u64;
                waiting += 1;
            }
        }
        let mut received_ns = start_ns;
        while waiting > 0 {
            self.poll.wait(&mut self.events, Some(TIMEOUT_NS))?;
            let now_ns = monotonic_ns();
            if self.events.is_empty() && now_ns - received_ns >= TIMEOUT_NS {
                bail!("{}", self.stalled());
            }
            received_ns = now_ns;
            for ready in self.events.iter() {
                let connection = &mut self.connections[ready.token as usize];
                if !connection.receive(&mut self.input)? {
                    continue;
                }
                if until.is_over(asked, now_ns - start_ns) {
                    waiting -= 1;
                } else {
                    connection.send_requests(&mut self.requests, self.depth)?;
                    asked += self.depth as u64;
                }
            }
        }
        Ok(Done {
            requests: asked,
            elapsed_ns: monotonic_ns() - start_ns,
        })
    }

    fn stalled(&self) -> String {
        let due = self.connections.iter().map(|connection| connection.due_len);
        let (count, most) = due
            .filter(|&len| len > 0)
            .fold((0, 0), |(count, most), len| (count + 1, most.max(len)));
        format!(
            "answers on {count} connections are short, one by {most} bytes, and nothing has come \
             for {} s: a miss, or a server that hangs",
            TIMEOUT_NS / 1_000_000_000
        )
    }
}

impl Until {
    fn is_over(self, asked: u64, elapsed_ns: u64) -> bool {
        match self {
            Self::TimeNs(ns) => elapsed_ns >= ns,
            Self::Asked(count) => asked >= count,
        }
    }
}

impl Connection {
    fn send_requests(&mut self, requests: &mut Requests, depth: usize) -> Result<()> {
        let (bytes, due_len) = requests.draw(depth);
        let sent_len = self.stream.send(bytes).context("send requests")?;
        // All before has been taken, so even the smallest buffer of a socket has room.
        if sent_len < bytes.len() {
            bail!("a socket took {sent_len} of {} bytes", bytes.len());
        }
        self.due_len = due_len;
        Ok(())
    }

    /// Takes what has come; true when that was all.
    fn receive(&mut self, input: &mut [u8]) -> Result<bool> {
        let len = match self.stream.recv(input).context("receive answers")? {
            0 => bail!("the server has closed a connection"),
            len => len,
        };
        let Some(due_len) = self.due_len.checked_sub(len) else {
            let text = String::from_utf8_lossy(&input[..len.min(80)]);
            bail!("{len} bytes came where {} were due: {text:?}", self.due_len);
        };
        self.due_len = due_len;
        Ok(due_len == 0)
    }
}
