//! How the worker of the runtime `memory` stops.

use service::Worker as _;

use super::worker::Memory;

impl<S: service::Service> Memory<S> {
    /// Does one step of stopping: answers the input that has arrived, then closes the idle
    /// connections. Returns true if no connection is open any more. Otherwise the caller calls this
    /// again. There is no deadline.
    pub fn stop(&mut self, now_ns: u64) -> bool {
        self.run(now_ns);
        self.connections.context.service.online();
        let has_stopped = self.connections.drain(now_ns);
        self.connections.context.service.offline();
        has_stopped
    }
}
