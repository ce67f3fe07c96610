//! The inbox of a worker: its new connections, and the event that wakes it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

use sys::poll::Waker;
use sys::socket::Stream;

use crate::limits::INBOX_MAX;

/// New connections of a worker, and the event that wakes it.
#[derive(Debug)]
pub(crate) struct Inbox {
    streams: Mutex<VecDeque<Stream>>,
    pub(crate) waker: Waker,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            streams: Mutex::default(),
            waker: Waker::new()?,
        })
    }

    /// Adds a connection, or returns it if the inbox is full. The caller wakes the worker.
    pub(crate) fn push(&self, stream: Stream) -> Result<(), Stream> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.len() >= INBOX_MAX {
            return Err(stream);
        }
        streams.push_back(stream);
        Ok(())
    }

    pub(crate) fn take(&self) -> Option<Stream> {
        self.streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }
}
