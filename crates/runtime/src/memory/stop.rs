//! How the worker of `memory` stops.

use service::Worker as _;

use super::worker::Memory;

impl<S: service::Service> Memory<S> {
    /// Answers the input that has arrived, then closes the idle connections. Returns true once no
    /// connection is open. There is no deadline; the caller decides how often to call this.
    pub fn stop(&mut self, now_ns: u64) -> bool {
        self.run(now_ns);
        self.connections.context.service.online();
        let has_stopped = self.connections.drain(now_ns);
        self.connections.context.service.offline();
        has_stopped
    }
}
