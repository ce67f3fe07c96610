//! A connection in memory: a pair of byte queues, one for each direction.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use service::{Output, Pin};

use crate::transform::{Transform, Transformer};
use crate::transport::{Sent, Transport};

/// Both directions of a connection. The client's end and the server's end share them.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) to_server: Queue,
    pub(super) to_client: Queue,
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Queue {
    bytes: VecDeque<u8>,
    /// Maximum number of bytes in the queue.
    capacity: usize,
    /// Whether the sender has closed its end. The receiver then gets the end of the stream after
    /// the bytes in the queue.
    pub(super) is_sender_closed: bool,
    /// Whether the receiver has closed its end. The sender then gets an error.
    pub(super) is_receiver_closed: bool,
}

impl Queue {
    fn new(capacity: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            capacity,
            is_sender_closed: false,
            is_receiver_closed: false,
        }
    }

    /// Returns whether a receive would return bytes or the end of the stream.
    pub(super) fn is_readable(&self) -> bool {
        !self.bytes.is_empty() || self.is_sender_closed
    }

    /// Returns whether a send would take bytes, or fail because the receiver has closed its end.
    pub(super) fn is_writable(&self) -> bool {
        self.bytes.len() < self.capacity || self.is_receiver_closed
    }

    /// Appends as many of the bytes as there is space for. Returns the number of appended bytes.
    fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_receiver_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let len = bytes.len().min(self.capacity - self.bytes.len());
        if len == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.bytes.extend(&bytes[..len]);
        Ok(len)
    }

    /// Moves as many bytes to `buffer` as fit there. Returns their number; 0 is the end of the
    /// stream.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() && !self.is_sender_closed {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = buffer.len().min(self.bytes.len());
        for (to, from) in buffer.iter_mut().zip(self.bytes.drain(..len)) {
            *to = from;
        }
        Ok(len)
    }
}

/// The client's end of a connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct Client {
    pipe: Rc<RefCell<Pipe>>,
}

impl Client {
    /// Sends as many of the bytes as the pipe has space for. Returns the number of bytes sent.
    ///
    /// # Errors
    /// `WouldBlock`: the pipe has no space. `BrokenPipe`: the server has closed the connection.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.pipe.borrow_mut().to_server.put(bytes)
    }

    /// Receives bytes that have arrived, as many as fit into `buffer`. Returns their number; 0
    /// means that the server has closed the connection.
    ///
    /// # Errors
    /// `WouldBlock`: no bytes have arrived.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.pipe.borrow_mut().to_client.take(buffer)
    }

    /// Closes the client's sending side, like `shutdown` of a socket. The client can still receive
    /// replies.
    pub fn end(&self) {
        self.pipe.borrow_mut().to_server.is_sender_closed = true;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut pipe = self.pipe.borrow_mut();
        pipe.to_server.is_sender_closed = true;
        pipe.to_client.is_receiver_closed = true;
    }
}

/// The server's end of a connection. Dropping it closes the connection.
pub(super) struct MemoryTransport {
    pub(super) pipe: Rc<RefCell<Pipe>>,
    transformer: Option<Transformer>,
}

impl MemoryTransport {
    /// Creates a connection with at most `capacity` bytes in each direction. Returns both ends.
    pub(super) fn open(capacity: usize, transform: Option<Box<dyn Transform>>) -> (Self, Client) {
        let pipe = Rc::new(RefCell::new(Pipe {
            to_server: Queue::new(capacity),
            to_client: Queue::new(capacity),
        }));
        let client = Client {
            pipe: Rc::clone(&pipe),
        };
        let transformer = transform.map(Transformer::new);
        (Self { pipe, transformer }, client)
    }

    /// Sends as many of the bytes as the pipe has space for. Returns the number of bytes sent.
    pub(super) fn send_bytes(&self, bytes: &[u8]) -> io::Result<usize> {
        self.pipe.borrow_mut().to_client.put(bytes)
    }

    /// Sends as many of the transform's unsent wire bytes (the transformed output) as the pipe has
    /// space for. Returns the number of bytes sent.
    fn flush(&mut self) -> io::Result<usize> {
        let mut flushed = 0;
        let Some(transformer) = &mut self.transformer else {
            return Ok(0);
        };
        while !transformer.unsent().is_empty() {
            match self.pipe.borrow_mut().to_client.put(transformer.unsent()) {
                Ok(len) => {
                    transformer.advance(len);
                    flushed += len;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(flushed)
    }
}

impl Drop for MemoryTransport {
    fn drop(&mut self) {
        let mut pipe = self.pipe.borrow_mut();
        pipe.to_client.is_sender_closed = true;
        pipe.to_server.is_receiver_closed = true;
    }
}

impl Transport for MemoryTransport {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.pipe.borrow_mut().to_server.take(buffer)
    }

    fn is_plain(&self) -> bool {
        self.transformer.is_none()
    }

    fn transform(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.transformer {
            Some(transformer) => transformer.receive(wire, plain).inspect_err(|_| {
                // The transform may have left a message about the error for the peer. Send as much
                // of it as the pipe has space for.
                let _ = self.pipe.borrow_mut().to_client.put(transformer.unsent());
            }),
            None => {
                plain.extend_from_slice(wire);
                Ok(())
            }
        }
    }

    fn send<P: Pin>(
        &mut self,
        output: &Output<P>,
        first: usize,
        max_len: usize,
    ) -> io::Result<Sent> {
        let (mut position, mut network_len) = (first, 0);
        let end = output.len().min(first + max_len);
        let is_blocked = loop {
            network_len += self.flush()?;
            if self.has_unsent() {
                break true;
            }
            let next = output.slices(position).next();
            let Some(slice) = next.filter(|_| position < end) else {
                break false;
            };
            if let Some(transformer) = &mut self.transformer {
                position += transformer.load(output, position)?;
                continue;
            }
            match self.send_bytes(&slice[..slice.len().min(end - position)]) {
                Ok(len) => {
                    position += len;
                    network_len += len;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break true,
                Err(error) => return Err(error),
            }
        };
        Ok(Sent {
            position,
            network_len,
            is_complete: position == output.len() && !is_blocked,
            is_blocked,
            returned_len: 0,
        })
    }

    fn has_unsent(&self) -> bool {
        let transformer = self.transformer.as_ref();
        transformer.is_some_and(|transformer| !transformer.unsent().is_empty())
    }

    fn buffered(&self) -> usize {
        self.transformer.as_ref().map_or(0, Transformer::buffered)
    }
}
