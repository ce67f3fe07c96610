//! The unthreaded server: one thread accepts and answers, one request after another.

use std::io;
use std::net::SocketAddr;

use sys::socket::Stream;

use super::control::Control;
use super::exchange::{Buffers, serve_datagram, serve_stream};
use super::handler::Handler;
use super::listen::{self, Sink, Sockets};

struct Answering<'a> {
    sockets: &'a Sockets,
    handler: Handler,
    buffers: Buffers,
}

impl Sink for Answering<'_> {
    fn datagram(&mut self, request: &[u8], from: SocketAddr) {
        let socket = &self.sockets.udp;
        serve_datagram(socket, request, from, &mut self.handler, &mut self.buffers);
    }

    fn stream(&mut self, stream: Stream) {
        serve_stream(&stream, &mut self.handler, &mut self.buffers);
    }
}

/// Serves until the server stops.
pub(crate) fn run(sockets: &Sockets, control: &Control, handler: Handler) -> io::Result<()> {
    let mut sink = Answering {
        sockets,
        handler,
        buffers: Buffers::default(),
    };
    listen::run(sockets, control, &mut sink)
}
