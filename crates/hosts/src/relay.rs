//! The relay of links: a thread that receives every frame at one device, and sends it at another
//! when it is due.
//!
//! A frame is due a delay after the kernel received it, by the kernel's own time stamp, so that the
//! time until the relay's thread runs is part of the delay. What the relay adds to the delay is the
//! time from due to sent, which it records as its lateness. If the lateness is not small, a figure
//! measures the relay.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use measure::Histogram;
use sys::clock::{monotonic_ns, unix_less_monotonic_ns};
use sys::packet::{FRAME_MAX, PacketSocket};
use sys::poll::{Events, Interest, Poll, Waker};

use super::Link;
use super::error::Error;
use crate::limits;

mod queue;

use queue::{Fate, LinkQueue};

/// The real-time priority of the relay's thread, the lowest: before all that is not real-time.
const PRIORITY: u8 = 1;
/// How long an offset between the unix clock and the monotonic clock is used. At the kernel's
/// greatest correction, 500 ppm, the offset changes by 5 µs in this time.
const OFFSET_NS: u64 = 10_000_000;
/// The token of the waker. Sockets have their index.
const STOP: u64 = u64::MAX;

/// What a relay did in an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct RelayRecord {
    /// Frames from clients to the server.
    pub to_server: DirectionCounts,
    /// Frames from the server to clients.
    pub to_clients: DirectionCounts,
    /// From the time at which each frame was due until it was sent, in nanoseconds.
    pub lateness: Histogram,
}

/// Frames of one direction. Their sum is the number that arrived, but for those still under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectionCounts {
    /// Passed to the device on the other side, which discards them if its host is cut off.
    pub forwarded: u64,
    /// Lost as the link's loss demands.
    pub lost: u64,
    /// Lost because a queue was full: one of the relay, or the backlog of received frames of the
    /// host to which they were sent (`net.core.netdev_max_backlog`).
    pub dropped: u64,
}

impl RelayRecord {
    fn new() -> Self {
        Self {
            to_server: DirectionCounts::default(),
            to_clients: DirectionCounts::default(),
            lateness: Histogram::new(),
        }
    }

    /// Adds what the relay did in another interval.
    pub fn merge(&mut self, other: &Self) {
        for (to, from) in [
            (&mut self.to_server, other.to_server),
            (&mut self.to_clients, other.to_clients),
        ] {
            to.forwarded += from.forwarded;
            to.lost += from.lost;
            to.dropped += from.dropped;
        }
        self.lateness.merge(&other.lateness);
    }
}

impl fmt::Display for RelayRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [server, clients] = [&self.to_server, &self.to_clients];
        let us = |percentile| self.lateness.percentile(percentile) as f64 / 1e3;
        write!(
            formatter,
            "relay: {} frames forwarded to the server and {} to clients, {} and {} lost by the \
             seed, {} and {} dropped; late by {:.1} µs at p99, {:.1} µs at most",
            server.forwarded,
            clients.forwarded,
            server.lost,
            clients.lost,
            server.dropped,
            clients.dropped,
            us(99.0),
            us(100.0)
        )
    }
}

/// A running relay. Dropping it stops its thread; frames under way are lost.
#[derive(Debug)]
pub(super) struct Relay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    waker: Waker,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    record: RelayRecord,
    failure: Option<io::Error>,
}

impl Shared {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Relay {
    /// Starts a relay on the processors `cpus`, or on any if there are none. Each element of
    /// `sockets` is a link's socket towards the server and its socket towards the client.
    pub(super) fn start(
        sockets: Vec<[PacketSocket; 2]>,
        link: &Link,
        cpus: Vec<usize>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            waker: Waker::new()?,
            progress: Mutex::new(Progress {
                record: RelayRecord::new(),
                failure: None,
            }),
        });
        let mut forwarder = Forwarder::new(sockets, link, &shared.waker)?;
        let thread_shared = Arc::clone(&shared);
        let run = move || {
            let ended = schedule_promptly(&cpus).and_then(|()| forwarder.run(&thread_shared));
            if let Err(error) = ended {
                thread_shared.progress().failure = Some(error);
            }
        };
        let thread = thread::Builder::new().name("relay".to_owned()).spawn(run)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// What the relay has done since the last call.
    pub(super) fn take_record(&self) -> Result<RelayRecord, Error> {
        let mut progress = self.shared.progress();
        if let Some(error) = &progress.failure {
            let source = io::Error::new(error.kind(), error.to_string());
            return Err(Error::System {
                what: "relay frames between hosts",
                source,
            });
        }
        Ok(std::mem::replace(&mut progress.record, RelayRecord::new()))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has no further consequence here.
            let _ = thread.join();
        }
    }
}

/// Makes the calling thread run as soon as a frame arrives or is due, on `cpus`. Without the
/// permission for a real-time priority it runs later, which its lateness shows.
fn schedule_promptly(cpus: &[usize]) -> io::Result<()> {
    if !cpus.is_empty() {
        sys::thread::pin(cpus)?;
    }
    sys::thread::sleep_precisely();
    let _ = sys::thread::go_real_time(PRIORITY);
    Ok(())
}

/// The thread's state. Queue `i` holds what was received from socket `i`, and is sent to its twin,
/// socket `i ^ 1`. Even sockets are towards the server.
struct Forwarder {
    sockets: Vec<PacketSocket>,
    queues: Vec<LinkQueue>,
    poll: Poll,
    buffer: Vec<u8>,
    /// Unix time less monotonic time, and until when it is used.
    offset_ns: u64,
    offset_until_ns: u64,
}

impl Forwarder {
    fn new(sockets: Vec<[PacketSocket; 2]>, link: &Link, waker: &Waker) -> io::Result<Self> {
        let sockets: Vec<PacketSocket> = sockets.into_iter().flatten().collect();
        let poll = Poll::new()?;
        poll.add(waker, STOP, Interest::Read)?;
        for (token, socket) in (0..).zip(&sockets) {
            poll.add(socket, token, Interest::Read)?;
        }
        let queue = |stream| LinkQueue::new(link, stream, limits::RELAY_QUEUE_BYTES);
        Ok(Self {
            queues: (0..sockets.len()).map(queue).collect(),
            sockets,
            poll,
            buffer: vec![0; FRAME_MAX],
            offset_ns: 0,
            offset_until_ns: 0,
        })
    }

    /// Forwards frames until the relay is dropped.
    fn run(&mut self, shared: &Shared) -> io::Result<()> {
        let mut events = Events::with_capacity(self.sockets.len() + 1);
        loop {
            let due_ns = self.queues.iter().filter_map(LinkQueue::next_due_ns).min();
            let timeout_ns = due_ns.map(|due_ns| due_ns.saturating_sub(monotonic_ns()));
            self.poll.wait(&mut events, timeout_ns)?;
            if shared.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let mut progress = shared.progress();
            for ready in events.iter().filter(|ready| ready.token != STOP) {
                // A token is an index.
                self.receive(ready.token as usize, &mut progress.record)?;
            }
            self.send_due(&mut progress.record)?;
        }
    }

    /// Receives frames from socket `index`.
    fn receive(&mut self, index: usize, record: &mut RelayRecord) -> io::Result<()> {
        let now_ns = monotonic_ns();
        if now_ns >= self.offset_until_ns {
            self.offset_ns = unix_less_monotonic_ns();
            self.offset_until_ns = now_ns + OFFSET_NS;
        }
        let counts = counts_from(index, record);
        let socket = &self.sockets[index];
        for _ in 0..limits::RELAY_BATCH {
            let (len, arrived_ns) = match socket.recv_stamped(&mut self.buffer) {
                Ok(received) => received,
                Err(error) if is_empty(&error) => break,
                Err(error) => return Err(error),
            };
            // Never in the future: the clock may have been corrected since.
            let arrived_ns = arrived_ns.map_or(now_ns, |it| it.saturating_sub(self.offset_ns));
            let arrived_ns = arrived_ns.min(monotonic_ns());
            match self.queues[index].push(arrived_ns, &self.buffer[..len]) {
                Fate::Queued => {}
                Fate::Lost => counts.lost += 1,
                Fate::Dropped => counts.dropped += 1,
            }
        }
        counts.dropped += u64::from(socket.take_discarded()?);
        Ok(())
    }

    /// Sends all frames that are due.
    fn send_due(&mut self, record: &mut RelayRecord) -> io::Result<()> {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            let target = &self.sockets[index ^ 1];
            while let Some(delayed) = queue.pop_due(monotonic_ns()) {
                let was_sent = target.send(&delayed.frame)?;
                let late_ns = monotonic_ns().saturating_sub(delayed.due_ns);
                let counts = counts_from(index, record);
                if was_sent {
                    counts.forwarded += 1;
                    record.lateness.record(late_ns);
                } else {
                    counts.dropped += 1;
                }
            }
        }
        Ok(())
    }
}

/// The counts of what was received from socket `index`.
fn counts_from(index: usize, record: &mut RelayRecord) -> &mut DirectionCounts {
    match index % 2 {
        0 => &mut record.to_clients,
        _ => &mut record.to_server,
    }
}

/// Whether there is no frame to receive: none has arrived, or the device has been set down, after
/// which none arrives until it is up again.
fn is_empty(error: &io::Error) -> bool {
    use io::ErrorKind::{NetworkDown, WouldBlock};
    matches!(error.kind(), WouldBlock | NetworkDown)
}
