//! The inbox of a worker: its new connections, and the event that wakes it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use sys::poll::Waker;

use crate::limits::INBOX_MAX;
use crate::transport::SocketTransport;

/// New connections of a worker, and the event that wakes it.
#[derive(Debug)]
pub(crate) struct Inbox {
    accepted: Mutex<VecDeque<SocketTransport>>,
    pub(crate) waker: Waker,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            accepted: Mutex::default(),
            waker: Waker::new()?,
        })
    }

    /// Adds a connection, or returns it if the inbox is full. The caller wakes the worker.
    pub(crate) fn push(&self, transport: SocketTransport) -> Result<(), SocketTransport> {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if accepted.len() >= INBOX_MAX {
            return Err(transport);
        }
        accepted.push_back(transport);
        Ok(())
    }

    pub(crate) fn take(&self) -> Option<SocketTransport> {
        self.accepted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }
}

/// Results of tickets wake the worker by the same event as new connections.
impl Wake for Inbox {
    fn wake(self: Arc<Self>) {
        self.waker.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.waker.wake();
    }
}
