//! A runtime that runs, and how it all ends: no new connections, then every conversation to its
//! end, then the threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use sys::poll::Waker;

use crate::connection_counts::ConnectionCounts;
use crate::inbox::Inbox;

/// A running set of workers. Dropped without [`Running::stop`], they go on.
#[derive(Debug)]
pub struct Running {
    /// Nobody is to be accepted any more.
    pub(crate) stopping: Arc<AtomicBool>,
    /// Nobody is accepted any more: workers may end.
    pub(crate) ending: Arc<AtomicBool>,
    pub(crate) accept_waker: Arc<Waker>,
    /// One for each worker.
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    accepting: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    counts: Arc<ConnectionCounts>,
}

/// A thread of the runtime panicked, or would have, had the panic not been contained: a connection
/// was closed, or a worker begun anew. All were stopped in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a worker thread panicked")]
pub struct Panicked;

impl Running {
    /// What so many workers share, before they run.
    pub(crate) fn new(workers: usize, counts: &Arc<ConnectionCounts>) -> io::Result<Self> {
        let inboxes = (0..workers).map(|_| Inbox::new().map(Arc::new));
        Ok(Self {
            stopping: Arc::default(),
            ending: Arc::default(),
            accept_waker: Arc::new(Waker::new()?),
            inboxes: inboxes.collect::<io::Result<_>>()?,
            accepting: None,
            workers: Vec::new(),
            counts: Arc::clone(counts),
        })
    }

    /// Starts a worker's thread.
    pub(crate) fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        self.workers
            .push(thread::Builder::new().name(name).spawn(run)?);
        Ok(())
    }

    /// Starts the thread that accepts.
    pub(crate) fn spawn_acceptor(&mut self, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let named = thread::Builder::new().name("accept".to_owned());
        self.accepting = Some(named.spawn(run)?);
        Ok(())
    }

    /// Stops accepting, lets conversations come to their end within a bounded time, and waits
    /// for the threads.
    ///
    /// # Errors
    /// Something panicked since the start.
    pub fn stop(self) -> Result<(), Panicked> {
        self.stopping.store(true, Ordering::Relaxed);
        self.accept_waker.wake();
        // Only when nobody accepts any more is an empty inbox the last one.
        let mut joined: Vec<_> = self.accepting.into_iter().map(JoinHandle::join).collect();
        self.ending.store(true, Ordering::Relaxed);
        for inbox in &self.inboxes {
            inbox.waker.wake();
        }
        joined.extend(self.workers.into_iter().map(JoinHandle::join));
        let snapshot = self.counts.snapshot();
        if joined.iter().any(Result::is_err) || snapshot.panics > 0 || snapshot.restarts > 0 {
            Err(Panicked)
        } else {
            Ok(())
        }
    }
}
