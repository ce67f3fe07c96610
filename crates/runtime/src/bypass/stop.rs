//! How a worker of `bypass` stops: the worker accepts no more connections, and closes its
//! connections as they become idle. The worker ends once the peers of all connections have
//! acknowledged everything, or once a deadline has passed ([`Setup::drain_ns`](crate::Setup)
//! after the worker has noticed that it has to stop). The worker's TCP/IP stack ends with the
//! worker. If the worker ended earlier, nothing would retransmit the frames that the network loses.

use super::worker::Worker;

impl<S: service::Worker> Worker<'_, S> {
    /// If the worker has to stop, stops accepting connections and closes those that are idle.
    /// Returns true if the worker has to stop and can end now (the module says when it can).
    pub(super) fn has_stopped(&mut self, now_ns: u64) -> bool {
        let connections = &mut self.server.connections;
        if !connections.context.must_stop(now_ns) {
            return false;
        }
        self.server.stack.borrow_mut().stop_listening();
        // `drain` closes the idle connections and says whether all are closed. `is_drained` says
        // whether the peers have acknowledged all that was sent.
        let is_done = connections.drain(now_ns) && self.server.stack.borrow().is_drained();
        is_done || connections.context.is_out_of_time(now_ns)
    }
}
