//! Two minimal servers, one over epoll and one over io_uring. They measure the cost that the kernel
//! causes for any server of the kind: a cache server cannot cost less.
//!
//! A server does not parse its input. For every `request_len` received bytes it sends
//! `answer_len` bytes. It has one thread, which sleeps when there is nothing to do. It has no
//! limits and no statistics, and any error of the listener ends it.

mod events;
mod rings;

use std::io;
use std::net::SocketAddr;

use sys::poll::Waker;
use sys::ring::Ring;
use sys::socket::Listener;

/// The maximum number of connections that wait in the kernel to be accepted.
const BACKLOG: i32 = 1024;
/// The maximum number of bytes in one send.
const SEND_LEN_MAX: usize = 64 << 10;
/// The byte of which all answers consist.
const FILLER: u8 = b'e';

/// The lengths of a request and of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The length of a request in bytes, at least 1.
    pub request_len: usize,
    /// The length of its answer in bytes.
    pub answer_len: usize,
}

/// The kernel interface through which a server serves its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// epoll: a `recv` and a `send` for each connection that is ready.
    Events,
    /// io_uring: one system call per burst receives all input and sends all answers.
    Rings,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Events, Self::Rings];

    /// The name of the kind on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Rings => "rings",
        }
    }

    /// Checks whether this machine supports the kind.
    ///
    /// # Errors
    /// The error says what is missing.
    pub fn probe(self) -> io::Result<()> {
        match self {
            Self::Events => Ok(()),
            Self::Rings => Ring::probe().map(drop),
        }
    }
}

/// Listens at `address`, for [`serve`].
///
/// # Errors
/// The address cannot be used.
pub fn listen(address: SocketAddr) -> io::Result<Listener> {
    Listener::tcp(address, BACKLOG)
}

/// Serves all connections until `end` is woken.
///
/// # Errors
/// Those of the kernel, for example if there are no more descriptors or no io_uring.
pub fn serve(kind: Kind, listener: &Listener, exchange: Exchange, end: &Waker) -> io::Result<()> {
    match kind {
        Kind::Events => events::serve(listener, exchange, end),
        Kind::Rings => rings::serve(listener, exchange, end),
    }
}

/// The requests of a connection that are not answered completely, as lengths.
#[derive(Debug, Default)]
struct PendingReplies {
    /// The number of received bytes of the incomplete request.
    partial_request_len: usize,
    /// The number of unsent bytes of the answers to complete requests.
    unsent_len: usize,
}

impl PendingReplies {
    /// Adds received bytes, and the answers to the requests that they complete.
    fn add(&mut self, received_len: usize, exchange: Exchange) {
        let len = self.partial_request_len + received_len;
        self.partial_request_len = len % exchange.request_len;
        self.unsent_len += len / exchange.request_len * exchange.answer_len;
    }
}

/// A table of items. The index of a removed item is used again.
#[derive(Debug)]
struct Slots<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    fn new() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }

    fn add(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.items[index as usize] = Some(item);
                index
            }
            None => {
                self.items.push(Some(item));
                self.items.len() as u32 - 1
            }
        }
    }

    fn find(&mut self, index: u32) -> Option<&mut T> {
        self.items.get_mut(index as usize)?.as_mut()
    }

    fn remove(&mut self, index: u32) {
        if self.items[index as usize].take().is_some() {
            self.free.push(index);
        }
    }
}

#[cfg(test)]
mod tests;
