//! How a worker registers a connection dispatched to it.

use sys::poll::Interest;
use sys::socket::Stream;

use super::worker::Worker;
use crate::connection::Connection;
use crate::transport::Transport;

impl Worker {
    pub(super) fn take_runnable(&mut self, stream: Stream, now_s: u32) {
        let connection = Connection::new(Transport::Plain(stream), Interest::Read, now_s);
        let slot = self.table.add(connection);
        if let Some(connection) = self.table.get(slot)
            && self
                .poll
                .add(&connection.transport, slot as u64, Interest::Read)
                .is_err()
        {
            self.close(slot);
        }
    }
}
