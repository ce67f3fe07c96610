//! The end of idle connections.

use std::sync::Arc;

use curtail_tests::in_process::{Fragile, Served, everywhere, request, wait};
use sys::poll::Interest;
use sys::socket::Stream;

#[test]
fn idle_connections_end_at_once_on_stop() {
    everywhere(|start| ends_at_once(start(Fragile::default())));
}

fn ends_at_once(served: Served) {
    let idle: Vec<Stream> = (0..8).map(|_| served.connect()).collect();
    for stream in &idle {
        assert_eq!(request(stream, b"mn\r\n"), b"MN\r\n");
    }
    let since_ns = sys::clock::monotonic_ns();
    let counts = Arc::clone(&served.counts);
    served.sockets.running.stop().unwrap();
    assert!(sys::clock::monotonic_ns() - since_ns < 2_000_000_000);
    assert_eq!(counts.snapshot().current, 0);
    for stream in &idle {
        wait(stream, Interest::Read);
        assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 0);
    }
}
