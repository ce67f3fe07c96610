//! How a worker takes up a connection that was dealt to it.

use sys::socket::Stream;

use super::worker::{Wire, Worker};
use crate::connection::Connection;
use crate::transport::Transport;

impl Worker {
    pub(super) fn take_up(&mut self, stream: Stream, now_s: u32) {
        let connection = Connection::new(Transport::Plain(stream), Wire::default(), now_s);
        let place = self.table.add(connection);
        self.receive(place);
    }
}
