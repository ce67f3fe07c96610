//! How a worker is roused: an event of its inbox says that there are new connections, or that
//! somebody wants memory.

use sys::poll::Interest;
use sys::socket::Stream;

use super::worker::Worker;
use crate::connection::Connection;
use crate::transport::Transport;

impl Worker {
    /// Takes up what has come to the inbox.
    pub(super) fn take_mail(&mut self, now_ns: u64) {
        self.desk.inbox.waker.clear();
        let now_s = self.desk.setup.clock.at(now_ns).elapsed_s;
        if self.desk.setup.census.is_memory_wanted(now_s) {
            self.close_slow_holders(now_s);
        }
        while let Some(stream) = self.desk.inbox.take() {
            self.add(stream, now_s);
        }
    }

    fn add(&mut self, stream: Stream, now_s: u32) {
        let connection = Connection::new(Transport::Plain(stream), Interest::Read, now_s);
        let place = self.table.add(connection);
        if let Some(connection) = self.table.get(place)
            && self
                .poll
                .add(&connection.transport, place as u64, Interest::Read)
                .is_err()
        {
            self.close(place);
        }
    }

    /// Closes every peer that holds memory and has not moved for long.
    fn close_slow_holders(&mut self, now_s: u32) {
        for place in self.table.places() {
            let connection = self.table.get(place);
            if connection.is_some_and(|connection| connection.is_slow_holder(now_s)) {
                self.desk.setup.census.close_slow();
                self.close(place);
            }
        }
    }
}
