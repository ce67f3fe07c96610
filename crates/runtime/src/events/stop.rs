//! How a worker of `events` stops: it closes its connections as they become idle, until no
//! connection is open or the deadline has passed.

use super::worker::Worker;

impl<S: service::Worker> Worker<S> {
    /// If the worker has to stop, closes its idle connections. Returns true if it has to stop and
    /// either no connection is open or the deadline has passed.
    pub(super) fn has_stopped(&mut self, now_ns: u64) -> bool {
        let connections = &mut self.connections;
        // `drain` closes the idle connections and returns whether no connection is open.
        connections.context.must_stop(now_ns)
            && (connections.drain(now_ns) || connections.context.is_out_of_time(now_ns))
    }
}
