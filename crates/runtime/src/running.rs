//! A running runtime, and its end: first accepting stops, then connections finish, then threads
//! end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::{self, JoinHandle};

use sys::poll;

use crate::connection_counts::ConnectionCounts;
use crate::inbox::Inbox;
use crate::worker_context::WorkerHandles;

/// A set of running threads. They continue if this value is dropped without [`Running::stop`].
#[derive(Debug)]
pub struct Running {
    /// The acceptor has to stop.
    pub(crate) is_stopping: Arc<AtomicBool>,
    /// The acceptor has stopped, so workers may end.
    pub(crate) is_ending: Arc<AtomicBool>,
    pub(crate) accept_waker: Arc<poll::Waker>,
    /// One inbox per worker.
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    acceptor: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    counts: Arc<ConnectionCounts>,
}

/// A panic happened since the start. Its effect may have been limited by closing a connection or
/// restarting a worker. All threads were stopped in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a worker thread panicked")]
pub struct Panicked;

impl Running {
    /// Creates the state shared by `workers` workers, before they start.
    pub(crate) fn new(workers: usize, counts: &Arc<ConnectionCounts>) -> io::Result<Self> {
        let inboxes = (0..workers).map(|_| Inbox::new().map(Arc::new));
        Ok(Self {
            is_stopping: Arc::default(),
            is_ending: Arc::default(),
            accept_waker: Arc::new(poll::Waker::new()?),
            inboxes: inboxes.collect::<io::Result<_>>()?,
            acceptor: None,
            workers: Vec::new(),
            counts: Arc::clone(counts),
        })
    }

    /// How worker `number` is woken and told to end.
    pub(crate) fn handles(&self, number: usize) -> WorkerHandles {
        let waker = |inbox: &Arc<Inbox>| Waker::from(Arc::clone(inbox));
        WorkerHandles {
            waker: waker(&self.inboxes[number]),
            all_wakers: self.inboxes.iter().map(waker).collect(),
            is_ending: Arc::clone(&self.is_ending),
        }
    }

    /// Starts a worker thread.
    pub(crate) fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        self.workers
            .push(thread::Builder::new().name(name).spawn(run)?);
        Ok(())
    }

    /// Starts the acceptor thread.
    pub(crate) fn spawn_acceptor(&mut self, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let named = thread::Builder::new().name("accept".to_owned());
        self.acceptor = Some(named.spawn(run)?);
        Ok(())
    }

    /// Stops accepting, lets connections finish within a bounded time, and joins the threads.
    ///
    /// # Errors
    /// A panic happened since the start.
    pub fn stop(self) -> Result<(), Panicked> {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.accept_waker.wake();
        // An empty inbox stays empty only after the acceptor has ended.
        let mut joined: Vec<_> = self.acceptor.into_iter().map(JoinHandle::join).collect();
        self.is_ending.store(true, Ordering::Relaxed);
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
