//! A running runtime, and how it stops. The acceptor stops first. Then the workers let their
//! connections finish, and finally the worker threads end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::{self, JoinHandle};

use sys::poll;

use crate::connection_counts::ConnectionCounts;
use crate::inbox::Inbox;
use crate::worker_context::WorkerHandles;

/// The threads of a running runtime. They continue to run if this value is dropped without a call
/// of [`Running::stop`].
#[derive(Debug)]
pub struct Running {
    /// Whether the acceptor has to stop.
    pub(crate) stops_acceptor: Arc<AtomicBool>,
    /// Whether the workers have to stop. Set after the acceptor has ended.
    pub(crate) stops_workers: Arc<AtomicBool>,
    /// Wakes the acceptor.
    pub(crate) accept_waker: Arc<poll::Waker>,
    /// One inbox per worker. In the runtimes with a task (thread or fibre) per connection, only one
    /// inbox, for the supervisor, which is the thread that joins the tasks.
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    acceptor: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    counts: Arc<ConnectionCounts>,
}

/// The error that at least one worker has panicked since the start. A panic closes one connection,
/// restarts the worker, or ends the worker's thread. The error is also returned if a worker was
/// restarted because its wait for events failed. All threads have been stopped and joined
/// nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a worker panicked")]
pub struct Panicked;

impl Running {
    /// Creates the state that the threads share, with `inbox_count` inboxes. Called before the
    /// threads are started.
    pub(crate) fn new(inbox_count: usize, counts: &Arc<ConnectionCounts>) -> io::Result<Self> {
        let inboxes = (0..inbox_count).map(|_| Inbox::new().map(Arc::new));
        Ok(Self {
            stops_acceptor: Arc::default(),
            stops_workers: Arc::default(),
            accept_waker: Arc::new(poll::Waker::new()?),
            inboxes: inboxes.collect::<io::Result<_>>()?,
            acceptor: None,
            workers: Vec::new(),
            counts: Arc::clone(counts),
        })
    }

    /// Returns the handles with which other threads wake the worker with inbox `number`, and tell
    /// it to stop.
    pub(crate) fn handles(&self, number: usize) -> WorkerHandles {
        let waker = |inbox: &Arc<Inbox>| Waker::from(Arc::clone(inbox));
        WorkerHandles {
            waker: waker(&self.inboxes[number]),
            all_wakers: self.inboxes.iter().map(waker).collect(),
            stops_workers: Arc::clone(&self.stops_workers),
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
    /// A worker has panicked or was restarted since the start.
    pub fn stop(self) -> Result<(), Panicked> {
        self.stops_acceptor.store(true, Ordering::Relaxed);
        self.accept_waker.wake();
        // Join the acceptor before the workers are told to stop. Otherwise it could pass a
        // connection to a worker that has already found its inbox empty and ended.
        let mut joined: Vec<_> = self.acceptor.into_iter().map(JoinHandle::join).collect();
        self.stops_workers.store(true, Ordering::Relaxed);
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
