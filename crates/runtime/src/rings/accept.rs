//! How a worker of `rings` takes a connection that the acceptor has passed to it.

use super::worker::{RingIo, Worker};
use crate::connection::Connection;
use crate::setup::second;
use crate::transport::SocketTransport;

impl<S: service::Worker> Worker<S> {
    /// Adds a new connection to the table and starts its receive operation.
    pub(super) fn register(&mut self, transport: SocketTransport, now_ns: u64) {
        let Some(session) = self.context.open(&transport, now_ns) else {
            return;
        };
        let connection = Connection::new(RingIo::new(transport), session, second(now_ns));
        let slot = self.table.add(connection);
        self.receive(slot);
    }
}
