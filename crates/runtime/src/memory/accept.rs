//! How a connection is opened.

use service::Worker as _;

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
            self.connections.context.service.online();
            self.connections.accept(transport, now_ns);
            self.connections.context.service.offline();
        } else {
            // The pipe may not have space for all of it. The client finds the connection closed in
            // any case.
            let _ = transport.send_bytes(setup.rejection);
        }
        client
    }
}
