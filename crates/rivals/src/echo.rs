//! Two minimal servers, one over epoll and one over io_uring. They measure the cost that the kernel
//! causes for any server of gets: a cache server cannot cost less.
//!
//! A server does not parse gets. For every [`Exchange::request_len`] received bytes it sends one
//! answer, which is the same for all requests: every key is found, and keys and values consist of
//! one letter. So a load generator for caches can load it, if all of its gets have that length. Of
//! other requests, it answers those that such a generator and the laboratory need: `version`, and
//! `stats` with nothing.
//!
//! A server has one thread, which sleeps when there is nothing to do. It has no limits and no
//! statistics, and any error of the listener ends it.

mod events;
mod rings;

use std::io;
use std::net::SocketAddr;

use sys::poll::Waker;
use sys::ring::Ring;
use sys::socket::{Listener, Stream};

/// The maximum number of connections that wait in the kernel to be accepted.
const BACKLOG: i32 = 1024;
/// The maximum number of bytes in one send, unless one answer is longer.
const SEND_LEN_MAX: usize = 64 << 10;
/// The byte of which keys and values in answers consist.
const FILLER: u8 = b'e';
/// The first byte of a get.
const GET: u8 = b'g';

/// The form of all requests and answers of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The length of a request in bytes.
    pub request_len: usize,
    /// Its answer.
    pub answer: Vec<u8>,
}

impl Exchange {
    /// Gets in the text protocol: of `keys` keys each, at least one, of `key_len` bytes, and of
    /// which each has a value of `value_len` bytes.
    #[must_use]
    pub fn gets(keys: usize, key_len: usize, value_len: usize) -> Self {
        let filler = |len| vec![FILLER; len];
        let mut answer = Vec::new();
        for _ in 0..keys {
            answer.extend_from_slice(b"VALUE ");
            answer.extend(filler(key_len));
            answer.extend_from_slice(format!(" 0 {value_len}\r\n").as_bytes());
            answer.extend(filler(value_len));
            answer.extend_from_slice(b"\r\n");
        }
        answer.extend_from_slice(b"END\r\n");
        Self {
            request_len: "get".len() + keys * (" ".len() + key_len) + "\r\n".len(),
            answer,
        }
    }

    /// Many answers in a row, as many as one send may have.
    fn answers(&self) -> Vec<u8> {
        let count = (SEND_LEN_MAX / self.answer.len()).max(1);
        self.answer.repeat(count)
    }
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

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| format!("`{name}` is not events or rings"))
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
pub fn serve(kind: Kind, listener: &Listener, exchange: &Exchange, end: &Waker) -> io::Result<()> {
    match kind {
        Kind::Events => events::serve(listener, exchange, end),
        Kind::Rings => rings::serve(listener, exchange, end),
    }
}

/// Accepts all waiting connections and hands each to `add`.
fn accept_all(
    listener: &Listener,
    mut add: impl FnMut(Stream) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok(stream) => {
                stream.set_nodelay();
                add(stream)?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
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
    /// Adds received bytes, and the answers to the requests that they complete. A request that is
    /// no get is answered at once.
    ///
    /// # Errors
    /// Such a request is not known, or the socket does not take the answer. The connection is to be
    /// closed.
    fn add(&mut self, received: &[u8], exchange: &Exchange, stream: &Stream) -> io::Result<()> {
        if self.partial_request_len == 0 && received.first() != Some(&GET) {
            let answer = answer_to_other(received)?;
            return match stream.send(answer)? == answer.len() {
                true => Ok(()),
                false => Err(io::ErrorKind::WriteZero.into()),
            };
        }
        let len = self.partial_request_len + received.len();
        self.partial_request_len = len % exchange.request_len;
        self.unsent_len += len / exchange.request_len * exchange.answer.len();
        Ok(())
    }
}

/// The answer to a request that is no get.
fn answer_to_other(request: &[u8]) -> io::Result<&'static [u8]> {
    match request {
        b"version\r\n" => Ok(b"VERSION echo\r\n"),
        b"stats\r\n" | b"stats curtail\r\n" => Ok(b"END\r\n"),
        _ => Err(io::ErrorKind::InvalidData.into()),
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
