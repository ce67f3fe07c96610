//! Documents over HTTP by a process for each connection, which blocks: the process servers of Ruan
//! and Pai, "Understanding and Addressing Blocking-Induced Network Server Latency", USENIX ATC
//! 2006.
//!
//! ```text
//! Apache:     processes ── accept ─▶ one connection: HTTP session ─▶ open, read (each may wait)
//! Flashpache: processes ── accept ─▶ one connection: HTTP session ─▶ read (may wait)
//!                                       │ name            ▲ descriptor
//!                                       ▼                 │
//!                 backend, one process: names that it remembers, or a thread that may wait
//! ```
//!
//! The HTTP session is that of `files::documents`, so the servers differ in processes only. All
//! processes are forked before the first connection. Apache 2 with its module `prefork` works like
//! this. The published backend is a Flash server, with an event loop and openers. Here it has a
//! thread for each process that it serves, so a slow lookup delays only that process too.

mod backend;
pub mod limits;
mod process;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use files::{FileSet, SystemDisk};
use sys::fork::Forked;
use sys::poll::{Events, Interest, Poll};
use sys::signals::{Signal, Signals};
use sys::socket::Listener;

use backend::{Backend, BackendDisk};

/// The configuration of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The folder with the documents.
    pub root: PathBuf,
    /// The number of processes that serve connections, at most [`limits::PROCESSES_MAX`].
    pub processes: usize,
    /// Whether a backend looks names up.
    pub has_backend: bool,
}

impl Config {
    /// The number of files that a process has to be able to open.
    #[must_use]
    pub fn open_files(&self) -> u64 {
        let names = if self.has_backend {
            limits::BACKEND_NAMES_MAX
        } else {
            0
        };
        (names + 2 * self.processes + limits::OPEN_FILES_RESERVE) as u64
    }
}

/// A running server. Dropping it kills its processes.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    processes: Vec<Forked>,
}

impl Server {
    /// Starts the processes.
    ///
    /// # Errors
    /// The address cannot be listened on, the folder cannot be opened, this process has more than
    /// one thread, or the limit of processes or descriptors is reached.
    pub fn start(config: &Config) -> io::Result<Self> {
        let listener = Listener::tcp(config.address, limits::BACKLOG)?;
        listener.set_blocking()?;
        let address = listener.address().ok_or(io::ErrorKind::InvalidData)?;
        let count = config.processes.clamp(1, limits::PROCESSES_MAX);
        let open_root = || SystemDisk::open(&config.root);
        // The documents must exist before the first process does.
        drop(open_root()?);
        let mut processes = Vec::new();
        if config.has_backend {
            let (backend, clients) = Backend::new(&config.root, count)?;
            let mut clients = Some(clients);
            processes.push(Forked::start(|| {
                // The backend keeps no end of a client, whose end would not be noticed then.
                clients = None;
                backend.run()
            })?);
            drop(backend);
            let mut clients = clients.unwrap_or_default();
            while let Some(client) = clients.pop() {
                let mut client = Some(client);
                let mut others = Some(&mut clients);
                processes.push(Forked::start(|| {
                    if let Some(others) = others.take() {
                        others.clear();
                    }
                    let disk = open_root().ok().zip(client.take());
                    disk.map_or(1, |(disk, client)| {
                        let files = FileSet::blocking(BackendDisk::new(disk, client));
                        process::run(&listener, files)
                    })
                })?);
            }
        } else {
            for _ in 0..count {
                processes.push(Forked::start(|| {
                    let disk = open_root();
                    disk.map_or(1, |disk| process::run(&listener, FileSet::blocking(disk)))
                })?);
            }
        }
        Ok(Self { address, processes })
    }

    /// The address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a signal to stop. `signals` was made before [`start`](Self::start).
    ///
    /// # Errors
    /// The signals cannot be waited for, or a process has ended.
    pub fn wait(&mut self, signals: &Signals) -> io::Result<()> {
        let poll = Poll::new()?;
        poll.add(signals, 0, Interest::Read)?;
        let mut events = Events::with_capacity(1);
        loop {
            poll.wait(&mut events, Some(limits::CHECK_INTERVAL_NS))?;
            if self.processes.iter_mut().any(Forked::has_ended) {
                return Err(io::Error::other("a process of the server has ended"));
            }
            while let Some(signal) = signals.take() {
                if signal == Signal::Stop {
                    return Ok(());
                }
            }
        }
    }
}
