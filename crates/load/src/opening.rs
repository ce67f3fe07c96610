//! Opens many connections without overflowing the server's listen queue.
//!
//! A connection that is established may still be in the listen queue, because the kernel completes
//! the TCP handshake before the server accepts the connection. Therefore a connection counts as
//! open only when the server has answered `version` on it. The number of connections that are
//! being opened at the same time is limited, so the queue does not overflow even if the server
//! accepts slowly.

mod probe;
mod start_queue;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::reply::TOO_MANY_CONNECTIONS;
use sys::clock::monotonic_ns;
use sys::limits::raise_open_files;
use sys::poll::{Events, Interest, Poll};
use sys::socket::Stream;

pub(crate) use probe::Probe;
use probe::{ProbeReader, Unexpected};
use start_queue::{NextStart, StartQueue};

use crate::config::Target;
use crate::error::Error;
use crate::limits::{
    EVENTS_MAX, OPEN_FILES_RESERVE, OPENING_ATTEMPTS_MAX, OPENING_BACKOFF_NS, OPENING_CHECK_NS,
    OPENING_TIMEOUT_NS,
};

/// Raises the process's limit of open files so that `connections` connections can be opened.
pub(crate) fn allow_files(connections: u32) -> Result<(), Error> {
    let needed = u64::from(connections) + OPEN_FILES_RESERVE;
    let limit = raise_open_files(needed);
    if limit >= needed {
        Ok(())
    } else {
        Err(Error::OpenFiles {
            connections,
            limit,
            needed,
        })
    }
}

/// Returns the target of a connection: connections are assigned to the targets round-robin.
pub(crate) fn target_of(targets: &[Target], connection: u32) -> &Target {
    &targets[connection as usize % targets.len()]
}

/// The share of a run's connections that one thread opens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// The number of the first connection.
    pub(crate) first: u32,
    /// The number of connections of the thread.
    pub(crate) count: u32,
    /// The number of connections of the run, over all threads.
    pub(crate) all: u32,
    /// Maximum number of connections that the thread opens concurrently.
    pub(crate) concurrent_max: usize,
}

/// Opens a share of the connections and registers each with `poll` for reading. The poll token of a
/// connection is its index in the share and in the result. The connections take their local
/// addresses from `sources` in turn. If `sources` is empty, the kernel chooses the address. `probe`
/// is the protocol of the request `version`, with which each connection is probed.
///
/// # Errors
/// A connection cannot be opened, or `stop` was set (noticed within a second).
pub(crate) fn open(
    targets: &[Target],
    sources: &[IpAddr],
    probe: Probe,
    poll: &Poll,
    share: Share,
    stop: &AtomicBool,
) -> Result<Vec<Stream>, Error> {
    let mut opener = Opener::new(targets, sources, probe, poll, share);
    let mut events = Events::with_capacity(EVENTS_MAX);
    while opener.open_count < share.count {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        opener.step(&mut events, monotonic_ns())?;
    }
    let streams = opener
        .openings
        .into_iter()
        .filter_map(|opening| match opening.stage {
            Stage::Open(stream) => Some(stream),
            _ => None,
        });
    Ok(streams.collect())
}

/// The progress of opening one connection.
#[derive(Default)]
struct Opening {
    stage: Stage,
    /// The number of attempts made so far.
    attempts: u32,
}

/// The stage of opening a connection. `started_ns` is the time, on [`Opener::running_ns`], at which
/// the current attempt started.
#[derive(Default)]
enum Stage {
    /// The connection is in `to_start`.
    #[default]
    ToStart,
    /// The connection is being established.
    Connecting { stream: Stream, started_ns: u64 },
    /// The connection is established, `version` was sent, and its answer has not arrived.
    AwaitingVersion {
        stream: Stream,
        reader: ProbeReader,
        started_ns: u64,
    },
    /// The server has answered `version`.
    Open(Stream),
}

/// The state of opening the connections of one share. In the methods of this type, `connection` is
/// the index of a connection in the share.
struct Opener<'a> {
    targets: &'a [Target],
    sources: &'a [IpAddr],
    probe: Probe,
    poll: &'a Poll,
    /// The number of the share's first connection in the run.
    first: u32,
    /// The number of connections of the run, for an error message.
    all: u32,
    /// Maximum number of connections that are opened concurrently.
    concurrent_max: usize,
    openings: Vec<Opening>,
    /// The connections in the stage `ToStart`.
    to_start: StartQueue,
    /// The number of connections in the stages `Connecting` and `AwaitingVersion`.
    in_progress: usize,
    /// The number of connections in the stage `Open`.
    open_count: u32,
    /// The time of the last step, on the monotonic clock.
    last_step_ns: u64,
    /// The clock of the deadlines. It advances with each step by the time since the last step, but
    /// by at most [`OPENING_CHECK_NS`]. A step waits for no longer, so if more time has passed,
    /// this process was stopped (a signal, a suspended machine). The server may have answered
    /// meanwhile, but the answers have not been read, so that time does not count.
    running_ns: u64,
    /// When to check next whether an attempt lasts too long, on `running_ns`.
    next_check_ns: u64,
}

impl<'a> Opener<'a> {
    fn new(
        targets: &'a [Target],
        sources: &'a [IpAddr],
        probe: Probe,
        poll: &'a Poll,
        share: Share,
    ) -> Self {
        Self {
            targets,
            sources,
            probe,
            poll,
            first: share.first,
            all: share.all,
            concurrent_max: share.concurrent_max,
            openings: (0..share.count).map(|_| Opening::default()).collect(),
            to_start: StartQueue::with_all_due(share.count),
            in_progress: 0,
            open_count: 0,
            last_step_ns: 0,
            running_ns: 0,
            next_check_ns: 0,
        }
    }

    /// Starts the attempts that are due at `now_ns`, waits for ready sockets, and takes the next
    /// step of each of them. Waits for at most [`OPENING_CHECK_NS`]. Fails if an attempt lasts too
    /// long.
    fn step(&mut self, events: &mut Events, now_ns: u64) -> Result<(), Error> {
        let elapsed_ns = now_ns.saturating_sub(self.last_step_ns);
        self.last_step_ns = now_ns;
        self.running_ns += elapsed_ns.min(OPENING_CHECK_NS);
        let pause_ns = self.start_due(now_ns)?;
        self.poll
            .wait(events, Some(pause_ns))
            .map_err(Error::system("wait for connections"))?;
        for event in events.iter() {
            self.advance(event.token as u32)?;
        }
        // Other connections may be ready at every wait, so the check does not depend on a wait that
        // times out.
        if self.running_ns >= self.next_check_ns {
            self.next_check_ns = self.running_ns + OPENING_CHECK_NS;
            self.check_deadlines()?;
        }
        Ok(())
    }

    /// Starts the attempts that are due, while fewer than `concurrent_max` connections are being
    /// opened. Returns a timeout in nanoseconds. The caller waits for a ready socket for at most
    /// this time, and then calls `start_due` again.
    fn start_due(&mut self, now_ns: u64) -> Result<u64, Error> {
        while self.in_progress < self.concurrent_max {
            match self.to_start.next(now_ns) {
                NextStart::Due(connection) => self.start(connection)?,
                NextStart::After(delay_ns) => return Ok(delay_ns.min(OPENING_CHECK_NS)),
                NextStart::None => break,
            }
        }
        Ok(OPENING_CHECK_NS)
    }

    /// Starts an attempt to open a connection.
    fn start(&mut self, connection: u32) -> Result<(), Error> {
        let number = self.first + connection;
        let index = (number as usize).checked_rem(self.sources.len());
        let source = index.map(|index| self.sources[index]);
        let connecting = match target_of(self.targets, number) {
            Target::Tcp(address) => Stream::connect_from(source, *address),
            Target::Unix(path) => Stream::connect_unix(path),
        };
        let opening = &mut self.openings[connection as usize];
        opening.attempts += 1;
        match connecting {
            Ok(stream) => {
                stream.set_nodelay();
                self.poll
                    .add(&stream, u64::from(connection), Interest::Write)
                    .map_err(Error::system("register a connection"))?;
                opening.stage = Stage::Connecting {
                    stream,
                    started_ns: self.running_ns,
                };
                self.in_progress += 1;
                Ok(())
            }
            Err(error) => self.retry_or_fail(connection, error),
        }
    }

    /// Takes the next step of opening a connection whose socket is ready: sends `version` when the
    /// connection is established, and reads the answer when it arrives.
    fn advance(&mut self, connection: u32) -> Result<(), Error> {
        let opening = &mut self.openings[connection as usize];
        match std::mem::take(&mut opening.stage) {
            Stage::Connecting { stream, started_ns } => {
                let mut request = Vec::new();
                self.probe.write(&mut request);
                let probe_sent = stream.take_error().and_then(|()| stream.send(&request));
                if let Err(error) = probe_sent {
                    self.in_progress -= 1;
                    return self.retry_or_fail(connection, error);
                }
                self.poll
                    .change(&stream, u64::from(connection), Interest::Read)
                    .map_err(Error::system("register a connection"))?;
                opening.stage = Stage::AwaitingVersion {
                    stream,
                    reader: self.probe.reader(),
                    started_ns,
                };
                Ok(())
            }
            Stage::AwaitingVersion {
                stream,
                reader,
                started_ns,
            } => self.read_version(connection, stream, reader, started_ns),
            stage => {
                opening.stage = stage;
                Ok(())
            }
        }
    }

    /// Reads the answer to `version`. The connection is open once the answer is complete.
    fn read_version(
        &mut self,
        connection: u32,
        stream: Stream,
        mut reader: ProbeReader,
        started_ns: u64,
    ) -> Result<(), Error> {
        let mut buffer = [0; 512];
        let received = match stream.recv(&mut buffer) {
            Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            received => received,
        };
        let stage = &mut self.openings[connection as usize].stage;
        let reply = match received {
            Ok(len) => &buffer[..len],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                *stage = Stage::AwaitingVersion {
                    stream,
                    reader,
                    started_ns,
                };
                return Ok(());
            }
            Err(error) => {
                self.in_progress -= 1;
                return self.retry_or_fail(connection, error);
            }
        };
        if reply.starts_with(TOO_MANY_CONNECTIONS) {
            return Err(self.too_many(connection));
        }
        match reader.advance(reply) {
            Ok(true) => {
                *stage = Stage::Open(stream);
                self.in_progress -= 1;
                self.open_count += 1;
                Ok(())
            }
            Ok(false) => {
                *stage = Stage::AwaitingVersion {
                    stream,
                    reader,
                    started_ns,
                };
                Ok(())
            }
            Err(Unexpected) => Err(Error::UnexpectedVersion {
                target: self.target(connection),
                answer: String::from_utf8_lossy(reply)
                    .trim_end()
                    .chars()
                    .take(80)
                    .collect(),
            }),
        }
    }

    /// Schedules the next attempt after `error`, with a delay that doubles with each attempt. Fails
    /// if `error` shows that the next attempt would fail too, or if [`OPENING_ATTEMPTS_MAX`]
    /// attempts have been made.
    fn retry_or_fail(&mut self, connection: u32, error: io::Error) -> Result<(), Error> {
        let opening = &mut self.openings[connection as usize];
        let target = target_of(self.targets, self.first + connection).clone();
        if error.kind() == io::ErrorKind::AddrNotAvailable {
            return Err(Error::Ports { target });
        }
        if sys::socket::is_exhaustion(&error) {
            return Err(Error::System {
                what: "open a socket",
                source: error,
            });
        }
        if opening.attempts >= OPENING_ATTEMPTS_MAX {
            return Err(Error::Connect {
                target,
                attempts: opening.attempts,
                source: error,
            });
        }
        opening.stage = Stage::ToStart;
        let delay_ns = OPENING_BACKOFF_NS << (opening.attempts - 1);
        self.to_start.push(connection, monotonic_ns() + delay_ns);
        Ok(())
    }

    /// Fails if an attempt in progress has lasted longer than [`OPENING_TIMEOUT_NS`].
    fn check_deadlines(&self) -> Result<(), Error> {
        for (connection, opening) in (0..).zip(&self.openings) {
            let is_overdue = |started_ns: u64| self.running_ns - started_ns > OPENING_TIMEOUT_NS;
            let target = || self.target(connection);
            match opening.stage {
                Stage::Connecting { started_ns, .. } if is_overdue(started_ns) => {
                    return Err(Error::Connect {
                        target: target(),
                        attempts: opening.attempts,
                        source: io::ErrorKind::TimedOut.into(),
                    });
                }
                Stage::AwaitingVersion { started_ns, .. } if is_overdue(started_ns) => {
                    let waited_s = OPENING_TIMEOUT_NS / 1_000_000_000;
                    return Err(Error::Silent {
                        target: target(),
                        waited_s,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the error for a server that has reached its connection limit.
    fn too_many(&self, connection: u32) -> Error {
        let wanted = self.all.div_ceil(self.targets.len() as u32);
        // The limit that the error recommends leaves 64 connections to other clients of the server,
        // such as those that monitor it.
        Error::TooManyConnections {
            target: self.target(connection),
            wanted,
            enough: wanted + 64,
        }
    }

    fn target(&self, connection: u32) -> Target {
        target_of(self.targets, self.first + connection).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    const IS_AWAITED: fn(&Opening) -> bool =
        |opening| matches!(opening.stage, Stage::AwaitingVersion { .. });

    /// A share of `count` connections that are opened at the same time.
    fn share(count: u32) -> Share {
        Share {
            first: 0,
            count,
            all: count,
            concurrent_max: count as usize,
        }
    }

    /// Regression test. Deadlines were checked only after a wait without events, so the events of
    /// one connection postponed the deadlines of all others.
    #[test]
    fn an_attempt_times_out_although_another_connection_has_events() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let targets = [Target::Tcp(server.local_addr().unwrap())];
        let poll = Poll::new().unwrap();
        let mut opener = Opener::new(&targets, &[], Probe::Text, &poll, share(2));
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !opener.openings.iter().all(IS_AWAITED) {
            opener.step(&mut events, 0).unwrap();
        }
        // The server never completes the answer on the first connection, and never answers on the
        // second.
        let (mut slow, _) = server.accept().unwrap();
        let _silent = server.accept().unwrap();
        let mut step_at = |now_ns| {
            slow.write_all(b"V").unwrap();
            let stepped = opener.step(&mut events, now_ns);
            assert!(!events.is_empty());
            stepped
        };
        for second in 1..=10 {
            step_at(second * 1_000_000_000).unwrap();
        }
        let overdue = step_at(OPENING_TIMEOUT_NS + OPENING_CHECK_NS);
        assert!(matches!(overdue, Err(Error::Silent { waited_s: 10, .. })));
    }

    /// Regression test. If the process was stopped for longer than the timeout while connections
    /// were being established, the attempts were overdue before the server could answer `version`.
    #[test]
    fn a_pause_of_the_process_does_not_count_towards_the_timeout() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let targets = [Target::Tcp(server.local_addr().unwrap())];
        let poll = Poll::new().unwrap();
        let mut opener = Opener::new(&targets, &[], Probe::Text, &poll, share(2));
        opener.start_due(0).unwrap();
        // The kernel establishes the connections during a pause before the first step.
        let mut now_ns = 10 * OPENING_TIMEOUT_NS;
        let mut events = Events::with_capacity(1);
        while !opener.openings.iter().all(IS_AWAITED) {
            opener.step(&mut events, now_ns).unwrap();
        }
        // Only one connection has an answer when the process continues after the next pause.
        let (mut quick, _) = server.accept().unwrap();
        let (mut slow, _) = server.accept().unwrap();
        quick.write_all(b"VERSION 0\r\n").unwrap();
        now_ns *= 2;
        while opener.open_count < 1 {
            opener.step(&mut events, now_ns).unwrap();
        }
        slow.write_all(b"VERSION 0\r\n").unwrap();
        while opener.open_count < 2 {
            opener.step(&mut events, now_ns).unwrap();
        }
    }
}
