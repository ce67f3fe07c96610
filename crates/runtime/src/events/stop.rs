//! How a worker stops: it closes idle connections until none is left, or the time is over.

use super::worker::Worker;

impl<S: service::Worker> Worker<S> {
    /// Whether the worker is to stop, and has.
    pub(super) fn has_stopped(&mut self, now_ns: u64) -> bool {
        let connections = &mut self.connections;
        connections.context.is_ending(now_ns)
            && (connections.drain(now_ns) || connections.context.is_out_of_time(now_ns))
    }
}
