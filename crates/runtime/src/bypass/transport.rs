//! How the code shared with other runtimes uses a TCP/IP stack. A connection of the stack is a
//! [`Transport`], the byte stream to the peer. The stack is the [`Registry`], which reports the
//! events of the connections.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;

use service::{Output, Pin};
use sys::poll::Interest;
use tcpip::{ConnectionId, Stack};

use crate::connection_table::Slot;
use crate::readiness::Registry;
use crate::transport::{Sent, Transport};

/// A stack, shared by its owner, the registry and the transports of its connections. Each method in
/// this file borrows the stack, but not beyond its return.
pub(super) type SharedStack = Rc<RefCell<Stack>>;

/// The server's end of a connection. The connection is closed when this value is dropped.
pub(crate) struct StackTransport {
    stack: SharedStack,
    id: ConnectionId,
}

impl StackTransport {
    /// Takes the next connection that the stack has accepted. `None` if there is none.
    pub(super) fn accept(stack: &SharedStack) -> Option<Self> {
        let id = stack.borrow_mut().accept()?;
        let stack = Rc::clone(stack);
        Some(Self { stack, id })
    }

    /// Sends as many of the bytes as the connection's send buffer has space for. Returns their
    /// number.
    pub(super) fn send_bytes(&self, bytes: &[u8]) -> io::Result<usize> {
        self.stack.borrow_mut().send(self.id, bytes)
    }
}

impl Drop for StackTransport {
    fn drop(&mut self) {
        self.stack.borrow_mut().close(self.id);
    }
}

impl Transport for StackTransport {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stack.borrow_mut().recv(self.id, buffer)
    }

    fn peer(&self) -> Option<IpAddr> {
        let peer = self.stack.borrow().peer(self.id);
        peer.map(|(address, _)| address.into())
    }

    fn is_plain(&self) -> bool {
        // There is no transform (such as TLS): the bytes on the network are the session's bytes.
        true
    }

    fn transform(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        plain.extend_from_slice(wire);
        Ok(())
    }

    fn send<P: Pin>(
        &mut self,
        output: &Output<P>,
        first: usize,
        max_len: usize,
    ) -> io::Result<Sent> {
        let (mut position, end) = (first, output.len().min(first + max_len));
        let mut stack = self.stack.borrow_mut();
        let mut is_blocked = false;
        while position < end
            && let Some(slice) = output.slices(position).next()
        {
            match stack.send(self.id, &slice[..slice.len().min(end - position)]) {
                Ok(len) => position += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    is_blocked = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Sent {
            position,
            network_len: position - first,
            is_complete: position == output.len(),
            is_blocked,
            // This counts bytes of files, which this transport does not send.
            returned_len: 0,
        })
    }

    fn has_unsent(&self) -> bool {
        false
    }

    fn buffered(&self) -> usize {
        // The stack bounds the buffers of a connection, as the kernel bounds those of a socket. So
        // neither kind of buffer is counted.
        0
    }
}

/// The stack as the registry of the events that the worker waits for.
pub(crate) struct StackRegistry {
    stack: SharedStack,
}

impl StackRegistry {
    pub(super) fn new(stack: &SharedStack) -> Self {
        Self {
            stack: Rc::clone(stack),
        }
    }
}

impl Registry<StackTransport> for StackRegistry {
    fn add(&self, transport: &StackTransport, slot: Slot, interest: Interest) -> io::Result<()> {
        let interest = tcpip::Interest {
            readable: matches!(interest, Interest::Read | Interest::ReadWrite),
            writable: matches!(interest, Interest::Write | Interest::ReadWrite),
        };
        let mut stack = self.stack.borrow_mut();
        // The events of the connection carry its slot as their token.
        stack.watch(transport.id, slot as u64, interest);
        Ok(())
    }

    fn change(&self, transport: &StackTransport, slot: Slot, interest: Interest) -> io::Result<()> {
        self.add(transport, slot, interest)
    }
}
