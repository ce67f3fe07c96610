//! How a worker registers a connection dispatched to it.

use sys::socket::Stream;

use super::worker::{RingState, Worker};
use crate::connection::Connection;
use crate::transport::Transport;

impl Worker {
    pub(super) fn take_runnable(&mut self, stream: Stream, now_s: u32) {
        let connection = Connection::new(Transport::Plain(stream), RingState::default(), now_s);
        let slot = self.table.add(connection);
        self.receive(slot);
    }
}
