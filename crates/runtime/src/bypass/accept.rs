//! How a worker of `bypass` (see `crate::bypass`) takes the connections that its TCP/IP stack has
//! accepted.

use super::server::Server;
use super::transport::StackTransport;

impl<S: service::Worker> Server<S> {
    /// Takes all connections that the stack has accepted since the last call. Each is either served
    /// from now on, or rejected if the limit of open connections is reached: a rejected connection
    /// gets the rejection message and is closed.
    pub(super) fn take_accepted(&mut self, now_ns: u64) {
        loop {
            let Some(transport) = StackTransport::accept(&self.stack) else {
                return;
            };
            let setup = &self.connections.context.setup;
            // Counts the connection as open, or as rejected.
            if setup.counts.admit() {
                self.connections.accept(transport, now_ns);
            } else {
                // The send buffer of a new connection has space for the whole message. The end of
                // this block drops `transport`, which closes the connection.
                let _ = transport.send_bytes(setup.rejection);
            }
        }
    }
}
