//! How a client opens an in-memory connection to a server of the same process.

use service::Worker as _;

use super::pipe::{Client, MemoryTransport};
use super::worker::Memory;
use crate::transform::Transform;

impl<S: service::Service> Memory<S> {
    /// Opens a connection whose pipe holds at most `capacity` bytes in each direction, and returns
    /// the client's end. The server's end applies `transform`, such as TLS, to all bytes. If the
    /// limit of connections is reached, the server sends its rejection message and closes the
    /// connection.
    pub fn connect(
        &mut self,
        capacity: usize,
        transform: Option<Box<dyn Transform>>,
        now_ns: u64,
    ) -> Client {
        let (transport, client) = MemoryTransport::open(capacity.max(1), transform);
        let setup = &self.connections.context.setup;
        if setup.counts.admit() {
            // Between these two calls the worker may hold references to shared memory.
            self.connections.context.service.online();
            self.connections.accept(transport, now_ns);
            self.connections.context.service.offline();
        } else {
            // The pipe may not have space for the complete message. Dropping `transport` closes the
            // connection in any case.
            let _ = transport.send_bytes(setup.rejection);
        }
        client
    }
}
