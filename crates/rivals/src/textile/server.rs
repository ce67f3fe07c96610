//! The cache of the study as a server: its protocol over TCP and UDP, in four ways.
//!
//! ```text
//! one-thread   poll ─▶ accept, receive, answer, close             one thread, as published
//! queue-poll   poll ─▶ accept ─▶ queue ─▶ receive, answer, close  workers poll, as published
//! queue-sleep  the same                                           workers sleep
//! rings        acceptor ─▶ io_uring per worker                    Curtail's runtime
//! ```
//!
//! [`wire`](crate::textile::wire) is the protocol, `handler` turns requests into answers, and
//! `listen`, `queue`, `exchange` and `rings` have the sockets and threads.
//!
//! Invariants:
//! - A peer that sends nothing, or takes nothing, holds a worker for at most
//!   [`EXCHANGE_NS`](limits::EXCHANGE_NS) in each direction.
//! - Every queue and buffer is bounded; what is dropped is counted.
//!
//! The workers of `rings` and the accepting thread of the queues share one set of counters each.

mod control;
mod counters;
mod exchange;
mod handler;
pub mod limits;
mod listen;
mod one_thread;
mod queue;
mod rings;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sys::poll::{Events, Interest, Poll};
use sys::signals::{Signal, Signals};
use sys::socket::Listener;

use crate::textile::{CreateError, Created, Design, SharedCache};
use control::Control;
pub use counters::Counters;
use handler::Handler;
use limits::{BACKLOG, STOP_CHECK_NS, WORKERS_MAX};
use listen::Sockets;
use queue::{Producer, Queue, Waiting};
use rings::TextileService;

/// How requests reach the threads that answer them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// One thread does everything.
    OneThread,
    /// Workers take requests from one queue, and poll it while it is empty, as published.
    QueuePoll,
    /// The same, but workers sleep while the queue is empty.
    QueueSleep,
    /// Curtail's runtime `rings`.
    Rings,
}

impl Pool {
    /// All pools.
    pub const ALL: [Self; 4] = [
        Self::OneThread,
        Self::QueuePoll,
        Self::QueueSleep,
        Self::Rings,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OneThread => "one-thread",
            Self::QueuePoll => "queue-poll",
            Self::QueueSleep => "queue-sleep",
            Self::Rings => "rings",
        }
    }
}

impl std::str::FromStr for Pool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = Self::ALL.into_iter();
        let found = all.clone().find(|it| it.name() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = all.map(Self::name).collect();
            format!("`{text}` is no pool; give one of {}", names.join(", "))
        })
    }
}

/// The settings of a server.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The cache.
    pub design: Design,
    /// The most memory of its values, in bytes.
    pub maxmem: u64,
    /// The threads.
    pub pool: Pool,
    /// Worker threads. One for [`Pool::OneThread`].
    pub workers: usize,
    /// The address for connections.
    pub tcp: SocketAddr,
    /// The address for datagrams.
    pub udp: SocketAddr,
    /// Whether `POST /shutdown` ends the server.
    pub allows_shutdown: bool,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The number of workers is not allowed.
    #[error("{0} workers: give 1 to {WORKERS_MAX}")]
    Workers(usize),
    /// An unthreaded cache under several threads.
    #[error("the cache `{0}` is for one thread; give --pool one-thread, or another cache")]
    NotShared(&'static str),
    /// The cache cannot be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// An address cannot be used.
    #[error("failed to listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// A thread or descriptor is not available.
    #[error("failed to start: {0}")]
    Start(#[from] io::Error),
    /// A thread has panicked.
    #[error("a thread panicked")]
    Panicked,
}

/// A running server.
pub struct Server {
    control: Arc<Control>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    queue: Option<Arc<Queue>>,
    running: Option<runtime::Running>,
    tcp: SocketAddr,
    udp: SocketAddr,
}

impl Server {
    /// Starts the threads.
    ///
    /// # Errors
    /// The settings contradict each other, an address is in use, or a resource is exhausted.
    pub fn start(config: &Config) -> Result<Self, Error> {
        if !(1..=WORKERS_MAX).contains(&config.workers) {
            return Err(Error::Workers(config.workers));
        }
        let workers = match config.pool {
            Pool::OneThread => 1,
            _ => config.workers,
        };
        let cache = config.design.create(config.maxmem)?;
        let sockets = bind(config)?;
        let (tcp, udp) = (sockets.tcp.address(), sockets.udp.local_addr()?);
        let shared = match &cache {
            Created::Single(_) => None,
            Created::Shared(shared) => Some(Arc::clone(shared)),
        };
        // Beside those of the workers, the counters of the accepting thread.
        let control = Control::new(workers + 1, config.allows_shutdown, shared)?;
        let mut server = Self {
            control: Arc::new(control),
            threads: Vec::new(),
            queue: None,
            running: None,
            tcp: tcp.unwrap_or(config.tcp),
            udp,
        };
        let started = match (config.pool, cache) {
            (Pool::OneThread, Created::Single(cache)) => server.start_one(cache, sockets),
            (Pool::OneThread, Created::Shared(cache)) => server.start_one(cache.handle(), sockets),
            (_, Created::Single(_)) => return Err(Error::NotShared(config.design.name())),
            (Pool::QueuePoll, Created::Shared(cache)) => {
                server.start_queue(Waiting::Poll, &*cache, sockets, workers)
            }
            (Pool::QueueSleep, Created::Shared(cache)) => {
                server.start_queue(Waiting::Sleep, &*cache, sockets, workers)
            }
            (Pool::Rings, Created::Shared(cache)) => server.start_rings(cache, sockets, workers),
        };
        match started {
            Ok(()) => Ok(server),
            Err(error) => {
                let _ = server.stop();
                Err(error.into())
            }
        }
    }

    /// The address for connections.
    #[must_use]
    pub fn tcp(&self) -> SocketAddr {
        self.tcp
    }

    /// The address for datagrams.
    #[must_use]
    pub fn udp(&self) -> SocketAddr {
        self.udp
    }

    /// Waits for the signal to stop, or for `POST /shutdown`.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn wait(&self, signals: &Signals) -> io::Result<()> {
        let poll = Poll::new()?;
        poll.add(signals, 0, Interest::Read)?;
        poll.add(&self.control.waker, 1, Interest::Read)?;
        let mut events = Events::with_capacity(2);
        loop {
            poll.wait(&mut events, None)?;
            while let Some(signal) = signals.take() {
                if signal == Signal::Stop {
                    return Ok(());
                }
            }
            if self.control.is_stopping() {
                return Ok(());
            }
        }
    }

    /// Stops the threads; returns the counters since the last reset.
    ///
    /// # Errors
    /// A thread has failed or panicked since the start.
    pub fn stop(self) -> Result<Counters, Error> {
        let counters = self.control.counters();
        self.control.stop();
        if let Some(queue) = &self.queue {
            queue.wake_all();
        }
        let stopped = self.running.map_or(Ok(()), runtime::Running::stop);
        for thread in self.threads {
            thread.join().map_err(|_| Error::Panicked)??;
        }
        stopped.map_err(|_| Error::Panicked)?;
        Ok(counters)
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        self.threads.push(thread);
        Ok(())
    }

    fn start_one(
        &mut self,
        cache: Box<dyn crate::textile::SmallCache>,
        sockets: Sockets,
    ) -> io::Result<()> {
        let control = Arc::clone(&self.control);
        let counters = Arc::clone(&control.workers[0]);
        let handler = Handler::new(cache, counters, Arc::clone(&control));
        self.spawn("serve", move || {
            one_thread::run(&sockets, &control, handler)
        })
    }

    fn start_queue(
        &mut self,
        waiting: Waiting,
        cache: &dyn SharedCache,
        sockets: Sockets,
        workers: usize,
    ) -> io::Result<()> {
        let queue = Arc::new(Queue::new(waiting));
        self.queue = Some(Arc::clone(&queue));
        for number in 0..workers {
            let (queue, control) = (Arc::clone(&queue), Arc::clone(&self.control));
            let udp = Arc::clone(&sockets.udp);
            let counters = Arc::clone(&control.workers[number]);
            let mut handler = Handler::new(cache.handle(), counters, Arc::clone(&control));
            self.spawn("worker", move || {
                queue.work(&udp, &control, &mut handler);
                Ok(())
            })?;
        }
        let control = Arc::clone(&self.control);
        self.spawn("accept", move || {
            let counters = Arc::clone(&control.workers[workers]);
            let mut sink = Producer {
                queue: &queue,
                counters,
            };
            listen::run(&sockets, &control, &mut sink)
        })
    }

    fn start_rings(
        &mut self,
        cache: Arc<dyn SharedCache>,
        sockets: Sockets,
        workers: usize,
    ) -> io::Result<()> {
        let udp = Arc::clone(&sockets.udp);
        udp.set_nonblocking(false)?;
        udp.set_read_timeout(Some(Duration::from_nanos(STOP_CHECK_NS)))?;
        let service = TextileService {
            cache,
            control: Arc::clone(&self.control),
            counters: Arc::clone(&self.control.workers[workers]),
        };
        for number in 0..workers {
            let (udp, mut service) = (Arc::clone(&udp), service.clone());
            service.counters = Arc::clone(&self.control.workers[number]);
            self.spawn("datagrams", move || {
                rings::serve_datagrams(&udp, &service);
                Ok(())
            })?;
        }
        self.running = Some(rings::start(&service, sockets, workers)?);
        Ok(())
    }
}

fn bind(config: &Config) -> Result<Sockets, Error> {
    let tcp = Listener::tcp(config.tcp, BACKLOG);
    let tcp = tcp.map_err(|error| Error::Listen(config.tcp, error))?;
    let udp = UdpSocket::bind(config.udp).and_then(|socket| {
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    let udp = udp.map_err(|error| Error::Listen(config.udp, error))?;
    Ok(Sockets {
        tcp,
        udp: Arc::new(udp),
    })
}

#[cfg(test)]
mod tests;
