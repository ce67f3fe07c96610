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
        let (now_s, slow) = self.desk.open_mail(&self.table, now_ns);
        slow.into_iter().for_each(|place| self.close(place));
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
}
