//! How the worker stops.

use service::Worker as _;

use super::worker::Memory;

impl<S: service::Service> Memory<S> {
    /// Answers what has arrived and closes idle connections. Returns true once none is left.
    pub fn stop(&mut self, now_ns: u64) -> bool {
        self.run(now_ns);
        self.connections.context.service.online();
        let has_stopped = self.connections.drain(now_ns);
        self.connections.context.service.offline();
        has_stopped
    }
}
