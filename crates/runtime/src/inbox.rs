//! The inbox of a worker. The acceptor puts new connections into the inbox. The inbox also contains
//! the waker by which any thread can wake the worker.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use sys::poll::Waker;

use crate::limits::INBOX_MAX;
use crate::transport::SocketTransport;

/// The new connections of a worker, and the waker of the worker.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// New connections that the worker has not taken, at most [`INBOX_MAX`].
    accepted: Mutex<VecDeque<SocketTransport>>,
    /// Wakes the worker, by an event (a descriptor) for which the worker waits by epoll or
    /// io_uring.
    pub(crate) waker: Waker,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            accepted: Mutex::default(),
            waker: Waker::new()?,
        })
    }

    /// Adds a connection, or returns it if the inbox is full. Does not wake the worker; the caller
    /// does so after it has added all new connections.
    pub(crate) fn push(&self, transport: SocketTransport) -> Result<(), SocketTransport> {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if accepted.len() >= INBOX_MAX {
            return Err(transport);
        }
        accepted.push_back(transport);
        Ok(())
    }

    /// Takes the oldest connection out of the inbox. Returns `None` if the inbox is empty.
    pub(crate) fn take(&self) -> Option<SocketTransport> {
        self.accepted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }
}

/// Makes the inbox usable as a waker of the standard library (`std::task::Waker`). When the result
/// of a ticket arrives in the worker's mailbox, the mailbox wakes the worker by this waker.
impl Wake for Inbox {
    fn wake(self: Arc<Self>) {
        self.waker.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.waker.wake();
    }
}
