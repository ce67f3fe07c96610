//! How it all ends: no new connections, then every conversation to its end, then the threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use sys::poll::Waker;

use super::wake::Inbox;

/// A running set of workers. Dropped without [`Running::stop`], they go on.
#[derive(Debug)]
pub struct Running {
    /// Nobody is to be accepted any more.
    stopping: Arc<AtomicBool>,
    /// Nobody is accepted any more: workers may end.
    ending: Arc<AtomicBool>,
    accept_waker: Arc<Waker>,
    accepting: JoinHandle<()>,
    inboxes: Vec<Arc<Inbox>>,
    workers: Vec<JoinHandle<()>>,
}

/// A thread of the runtime panicked; the others were stopped in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a worker thread panicked")]
pub struct Panicked;

impl Running {
    pub(super) fn new(
        stopping: Arc<AtomicBool>,
        ending: Arc<AtomicBool>,
        accept_waker: Arc<Waker>,
        accepting: JoinHandle<()>,
        inboxes: Vec<Arc<Inbox>>,
        workers: Vec<JoinHandle<()>>,
    ) -> Self {
        Self {
            stopping,
            ending,
            accept_waker,
            accepting,
            inboxes,
            workers,
        }
    }

    /// Stops accepting, lets conversations come to their end within a bounded time, and waits
    /// for the threads.
    ///
    /// # Errors
    /// A thread panicked.
    pub fn stop(self) -> Result<(), Panicked> {
        self.stopping.store(true, Ordering::Relaxed);
        self.accept_waker.wake();
        // Only when nobody accepts any more is an empty inbox the last one.
        let accepted = self.accepting.join();
        self.ending.store(true, Ordering::Relaxed);
        for inbox in &self.inboxes {
            inbox.waker.wake();
        }
        let mut joined = vec![accepted];
        joined.extend(self.workers.into_iter().map(JoinHandle::join));
        if joined.iter().any(Result::is_err) {
            Err(Panicked)
        } else {
            Ok(())
        }
    }
}
