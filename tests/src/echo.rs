//! Servers that only answer: what the kernel asks of any server of their kind.
//!
//! Both know two numbers: after every so many bytes of requests, so many of answers are due,
//! whatever is in them. One thread each, which sleeps when there is nothing to do. What a cache
//! server pays beyond them is its own doing.
//!
//! They do nothing but that: no limits, no statistics, and any error of the listener ends them.

mod events;
mod rings;

use std::io;
use std::net::SocketAddr;

use sys::poll::Waker;
use sys::ring::Ring;
use sys::socket::Listener;

/// Connections the kernel keeps waiting.
const BACKLOG: i32 = 1024;
/// Bytes sent at once, at most.
const SEND_LEN_MAX: usize = 64 << 10;
/// What answers are made of.
const FILLER: u8 = b'e';

/// What is answered to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Bytes of a request, at least one.
    pub request_len: usize,
    /// Bytes of its answer.
    pub answer_len: usize,
}

/// How a server learns of what its connections want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// epoll: a `recv` and a `send` for each connection that is ready.
    Events,
    /// io_uring: one system call for all that has come and all that goes.
    Rings,
}

impl Kind {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Events, Self::Rings];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Rings => "rings",
        }
    }

    /// Whether this machine has what it needs.
    ///
    /// # Errors
    /// What is missing.
    pub fn probe(self) -> io::Result<()> {
        match self {
            Self::Events => Ok(()),
            Self::Rings => Ring::probe().map(drop),
        }
    }
}

/// A place to listen for [`serve`].
///
/// # Errors
/// The address cannot be had.
pub fn listen(address: SocketAddr) -> io::Result<Listener> {
    Listener::tcp(address, BACKLOG)
}

/// Answers all who connect until `end` is set.
///
/// # Errors
/// The kernel's own: no descriptors, no io_uring.
pub fn serve(kind: Kind, listener: &Listener, exchange: Exchange, end: &Waker) -> io::Result<()> {
    match kind {
        Kind::Events => events::serve(listener, exchange, end),
        Kind::Rings => rings::serve(listener, exchange, end),
    }
}

/// What a connection still has to get.
#[derive(Debug, Default)]
struct PendingReplies {
    /// Bytes of a request that is not complete.
    partial_request_len: usize,
    /// Bytes of answers to those that are.
    unsent_len: usize,
}

impl PendingReplies {
    fn add(&mut self, received_len: usize, exchange: Exchange) {
        let len = self.partial_request_len + received_len;
        self.partial_request_len = len % exchange.request_len;
        self.unsent_len += len / exchange.request_len * exchange.answer_len;
    }
}

/// Things by number; a number is used again once its item is gone.
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
            Some(number) => {
                self.items[number as usize] = Some(item);
                number
            }
            None => {
                self.items.push(Some(item));
                self.items.len() as u32 - 1
            }
        }
    }

    fn find(&mut self, number: u32) -> Option<&mut T> {
        self.items.get_mut(number as usize)?.as_mut()
    }

    fn remove(&mut self, number: u32) {
        if self.items[number as usize].take().is_some() {
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests;
