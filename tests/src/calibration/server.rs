//! The server whose latency law is known.
//!
//! It knows `version` and `mg`, and answers every `mg` with a miss that bears its opaque token,
//! over TCP and, on the same port, over UDP.
//! Requests are served one at a time in the order of their arrival. A service time begins where
//! the last one *should* have ended, or with the request's arrival, so that what the server itself
//! takes to receive and send does not add up and the law is kept.

use std::collections::VecDeque;
use std::io::{self, BufWriter, Read, Write};
use std::net::{SocketAddr, UdpSocket};

use anyhow::Context;
use sys::clock::{monotonic_ns, unix_less_monotonic_ns};
use sys::poll::{Events, Interest, Poll};
use sys::socket::{Listener, Stream};
use workload::Purpose;

use super::law::Service;

const LISTENER: u64 = u64::MAX;
const INPUT: u64 = u64::MAX - 1;
const DATAGRAMS: u64 = u64::MAX - 2;
/// Bytes of a datagram's frame header.
const HEADER_LEN: usize = 8;
const BACKLOG: i32 = 1024;
/// A turn sees so many events, so that a burst of them does not put off an answer for long.
const EVENTS_MAX: usize = 8;
/// Requests logged at most.
const LOG_MAX: usize = 1 << 22;

/// The truth about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truth {
    /// Its token.
    pub opaque: u64,
    /// When it arrived, by the kernel's note, `CLOCK_MONOTONIC`.
    pub arrived_ns: u64,
    /// When its answer should have been sent by the law.
    pub due_ns: u64,
    /// Just before its answer was sent.
    pub left_ns: u64,
}

/// Serves on a free port, whose number is the first line of the output, until the input ends;
/// then writes the log, a line `OPAQUE ARRIVED DUE LEFT` a request.
///
/// # Errors
/// The operating system refuses.
pub fn serve(law: Service, seed: u64, cpu: Option<usize>) -> anyhow::Result<()> {
    if let Some(cpu) = cpu {
        sys::thread::pin(&[cpu]).with_context(|| format!("pin to processor {cpu}"))?;
    }
    let listener = Listener::tcp(([127, 0, 0, 1], 0).into(), BACKLOG)?;
    let port = listener.address().context("a port")?.port();
    let poll = Poll::new()?;
    poll.add(&listener, LISTENER, Interest::Read)?;
    poll.add(io::stdin(), INPUT, Interest::Read)?;
    let datagrams = UdpSocket::bind(("127.0.0.1", port))?;
    datagrams.set_nonblocking(true)?;
    poll.add(&datagrams, DATAGRAMS, Interest::Read)?;
    let mut out = io::stdout();
    writeln!(out, "{port}")?;
    out.flush()?;
    let mut server = Server {
        law,
        stream: workload::RandomStream::new(seed, Purpose::Other, 1),
        listener,
        datagrams,
        poll,
        clients: Vec::new(),
        queue: VecDeque::with_capacity(1 << 16),
        first_ns: None,
        free_ns: 0,
        log: touched_log(),
        unix_offset_ns: unix_less_monotonic_ns(),
    };
    server.run()?;
    let mut out = BufWriter::new(out);
    for Truth {
        opaque,
        arrived_ns,
        due_ns,
        left_ns,
    } in &server.log
    {
        writeln!(out, "{opaque} {arrived_ns} {due_ns} {left_ns}")?;
    }
    Ok(out.flush()?)
}

struct Client {
    stream: Stream,
    input: Vec<u8>,
}

/// Where an answer goes.
enum Asker {
    /// The connection of this number.
    Client(usize),
    /// The sender of a datagram, with the datagram's header.
    Datagram(SocketAddr, [u8; HEADER_LEN]),
}

struct Job {
    asker: Asker,
    opaque: u64,
    arrived_ns: u64,
    /// When it should be answered, once its service has begun.
    end_ns: Option<u64>,
}

struct Server {
    law: Service,
    stream: workload::RandomStream,
    listener: Listener,
    datagrams: UdpSocket,
    poll: Poll,
    clients: Vec<Option<Client>>,
    queue: VecDeque<Job>,
    /// When the first request arrived.
    first_ns: Option<u64>,
    /// When the last service should have ended.
    free_ns: u64,
    log: Vec<Truth>,
    /// Unix time less the thread's clock, to read the kernel's notes by.
    unix_offset_ns: u64,
}

impl Server {
    fn run(&mut self) -> anyhow::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut buffer = vec![0; 1 << 16];
        let mut ready = Vec::with_capacity(EVENTS_MAX);
        loop {
            self.poll.wait(&mut events, Some(0))?;
            if !events.is_empty() {
                ready.clear();
                ready.extend(events.iter().map(|event| event.token));
                for &token in &ready {
                    match token {
                        LISTENER => self.accept()?,
                        // Nothing is ever said there: it is the end.
                        INPUT if io::stdin().read(&mut [0; 1])? == 0 => return Ok(()),
                        INPUT => {}
                        DATAGRAMS => self.receive_datagrams(&mut buffer)?,
                        client => self.receive(client as usize, &mut buffer)?,
                    }
                }
            }
            self.answer()?;
        }
    }

    fn accept(&mut self) -> anyhow::Result<()> {
        while let Ok(stream) = self.listener.accept() {
            stream.set_nodelay();
            stream.stamp_receives()?;
            self.poll
                .add(&stream, self.clients.len() as u64, Interest::Read)?;
            self.clients.push(Some(Client {
                stream,
                input: Vec::new(),
            }));
        }
        Ok(())
    }

    /// Forgets a client and its requests: those of a trial must not delay the next one.
    fn close(&mut self, number: usize) {
        self.clients[number] = None;
        let is_its = |asker: &Asker| matches!(asker, Asker::Client(asker) if *asker == number);
        self.queue.retain(|job| !is_its(&job.asker));
    }

    fn receive(&mut self, number: usize, buffer: &mut [u8]) -> anyhow::Result<()> {
        let Some(client) = &mut self.clients[number] else {
            return Ok(());
        };
        let mut stamp_ns = None;
        match client.stream.recv_stamped(buffer) {
            Ok((len, stamp)) if len > 0 => {
                client.input.extend_from_slice(&buffer[..len]);
                stamp_ns = stamp;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => self.close(number),
        }
        // The wait in this server's socket is part of the residence: the kernel's note of the
        // arrival, which never is earlier than the request's own send. Without one, the time
        // after the recv: one taken before it would also be given to a request that came in
        // between, and make its residence longer than it was.
        let now_ns = stamp_ns.map_or_else(monotonic_ns, |unix_ns| {
            unix_ns
                .saturating_sub(self.unix_offset_ns)
                .min(monotonic_ns())
        });
        let Some(client) = &mut self.clients[number] else {
            return Ok(());
        };
        let mut from = 0;
        while let Some(len) = client.input[from..].iter().position(|&byte| byte == b'\n') {
            let line = std::str::from_utf8(&client.input[from..from + len])?.trim_end();
            from += len + 1;
            if line == "version" {
                client.stream.send(b"VERSION known-law\r\n")?;
                continue;
            }
            let opaque = line.split(' ').find_map(|word| word.strip_prefix('O'));
            let opaque = opaque.with_context(|| format!("no opaque token in `{line}`"))?;
            self.queue.push_back(Job {
                asker: Asker::Client(number),
                opaque: opaque.parse()?,
                arrived_ns: now_ns,
                end_ns: None,
            });
        }
        client.input.drain(..from);
        Ok(())
    }

    /// The kernel's note of an arrival is not read here: a datagram counts as arrived when it is
    /// received, up to a glance of the loop later.
    fn receive_datagrams(&mut self, buffer: &mut [u8]) -> anyhow::Result<()> {
        while let Ok((len, from)) = self.datagrams.recv_from(buffer) {
            let arrived_ns = monotonic_ns();
            let (header, request) = buffer[..len]
                .split_first_chunk::<HEADER_LEN>()
                .context("a datagram without a header")?;
            let line = std::str::from_utf8(request)?.trim_end();
            if line == "version" {
                let answer = [&header[..], b"VERSION known-law\r\n"].concat();
                self.datagrams.send_to(&answer, from)?;
                continue;
            }
            let opaque = line.split(' ').find_map(|word| word.strip_prefix('O'));
            let opaque = opaque.with_context(|| format!("no opaque token in `{line}`"))?;
            self.queue.push_back(Job {
                asker: Asker::Datagram(from, *header),
                opaque: opaque.parse()?,
                arrived_ns,
                end_ns: None,
            });
        }
        Ok(())
    }

    /// Answers the request whose turn it is, when its time has come.
    fn answer(&mut self) -> anyhow::Result<()> {
        let Some(job) = self.queue.front_mut() else {
            return Ok(());
        };
        let end_ns = *job.end_ns.get_or_insert_with(|| {
            let first_ns = *self.first_ns.get_or_insert(job.arrived_ns);
            let start_ns = job.arrived_ns.max(self.free_ns);
            // The kernel's notes of two clients need not come in order.
            let since_ns = start_ns.saturating_sub(first_ns);
            first_ns + self.law.end_ns(since_ns, &mut self.stream)
        });
        if monotonic_ns() < end_ns {
            return Ok(());
        }
        self.free_ns = end_ns;
        let Some(job) = self.queue.pop_front() else {
            return Ok(());
        };
        let answer = format!("EN O{}\r\n", job.opaque);
        let left_ns = monotonic_ns();
        match job.asker {
            Asker::Client(number) => {
                let Some(client) = &self.clients[number] else {
                    return Ok(());
                };
                if client.stream.send(answer.as_bytes()).is_err() {
                    self.close(number);
                    return Ok(());
                }
            }
            Asker::Datagram(to, header) => {
                let answer = [&header[..], answer.as_bytes()].concat();
                self.datagrams.send_to(&answer, to)?;
            }
        }
        if self.log.len() < LOG_MAX {
            self.log.push(Truth {
                opaque: job.opaque,
                arrived_ns: job.arrived_ns,
                due_ns: end_ns,
                left_ns,
            });
        }
        Ok(())
    }
}

/// An empty log in memory that has been written to once: a page met for the first time in the
/// middle of a measurement would be measured too.
fn touched_log() -> Vec<Truth> {
    let mut log = vec![
        Truth {
            opaque: 1,
            arrived_ns: 1,
            due_ns: 1,
            left_ns: 1,
        };
        LOG_MAX
    ];
    log.clear();
    log
}
