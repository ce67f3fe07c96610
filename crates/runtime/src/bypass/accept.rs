//! How a worker of `bypass` takes the connections that its stack has accepted.

use super::server::Server;
use super::transport::StackTransport;

impl<S: service::Worker> Server<S> {
    /// Takes all established connections. Those over the limit of connections get the rejection
    /// message and are closed.
    pub(super) fn take_accepted(&mut self, now_ns: u64) {
        loop {
            let Some(transport) = StackTransport::accept(&self.stack) else {
                return;
            };
            let setup = &self.connections.context.setup;
            if setup.counts.admit() {
                self.connections.accept(transport, now_ns);
            } else {
                // The send buffer of a new connection has space for the message. Dropping
                // `transport` closes the connection.
                let _ = transport.send_bytes(setup.rejection);
            }
        }
    }
}
