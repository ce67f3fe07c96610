//! How a worker registers a connection dispatched to it.

use super::worker::{RingIo, Worker};
use crate::connection::Connection;
use crate::transport::SocketTransport;

impl<S: service::Worker> Worker<S> {
    pub(super) fn register(&mut self, transport: SocketTransport, now_s: u32) {
        let Some(session) = self.context.open() else {
            return;
        };
        let connection = Connection::new(RingIo::new(transport), session, now_s);
        let slot = self.table.add(connection);
        self.receive(slot);
    }
}
