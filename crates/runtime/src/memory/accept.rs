//! How a connection is opened.

use super::pipe::{Client, MemoryTransport};
use super::worker::Memory;
use crate::transform::Transform;

impl<S: service::Service> Memory<S> {
    /// Opens a connection whose pipe holds at most `capacity` bytes in each direction. Above the
    /// limit of connections, the server sends its rejection and closes it.
    pub fn connect(
        &mut self,
        capacity: usize,
        transform: Option<Box<dyn Transform>>,
        now_ns: u64,
    ) -> Client {
        let (transport, client) = MemoryTransport::open(capacity.max(1), transform);
        let setup = &self.connections.context.setup;
        if setup.counts.admit() {
            self.connections.accept(transport, now_ns);
        } else {
            // As much as fits: the client is told at least that the connection is closed.
            let _ = transport.send_bytes(setup.rejection);
        }
        client
    }
}
