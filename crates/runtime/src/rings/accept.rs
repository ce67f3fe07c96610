//! How a worker registers a connection dispatched to it.

use super::worker::{RingIo, Worker};
use crate::connection::Connection;
use crate::transport::SocketTransport;

impl<S: service::Worker> Worker<S> {
    pub(super) fn take_accepted(&mut self, transport: SocketTransport, now_s: u32) {
        let session = self.context.service.open();
        let connection = Connection::new(RingIo::new(transport), session, now_s);
        let slot = self.table.add(connection);
        self.receive(slot);
    }
}
