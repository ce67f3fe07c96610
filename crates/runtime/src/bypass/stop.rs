//! How a worker of `bypass` stops: it accepts no more connections, and closes its connections as
//! they become idle. It ends once their peers have received everything, or once the deadline has
//! passed. It must not end before, because its TCP/IP stack ends with it, and nothing would then
//! retransmit the frames that the network loses.

use super::worker::Worker;

impl<S: service::Worker> Worker<'_, S> {
    /// If the worker has to stop, closes its idle connections. Returns true if it has to stop and
    /// is done.
    pub(super) fn has_stopped(&mut self, now_ns: u64) -> bool {
        let connections = &mut self.server.connections;
        if !connections.context.must_stop(now_ns) {
            return false;
        }
        self.server.stack.borrow_mut().stop_listening();
        let is_done = connections.drain(now_ns) && self.server.stack.borrow().is_drained();
        is_done || connections.context.is_out_of_time(now_ns)
    }
}
