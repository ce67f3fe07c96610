//! The end of connections with tasks, and their limit.

use std::sync::Arc;

use sys::poll::Interest;
use sys::socket::Stream;

use super::{Peer, Peers};
use crate::testing::{Fragile, Served, ask, wait};
use crate::{Kind, Scheduler};

#[test]
fn idle_connections_end_at_once_on_stop() {
    ends_at_once(Served::start(
        Kind::Threads,
        Scheduler::Fair,
        Fragile::default(),
    ));
    for scheduler in Scheduler::ALL {
        ends_at_once(Served::start(Kind::Fibres, scheduler, Fragile::default()));
    }
}

fn ends_at_once(served: Served) {
    let idle: Vec<Stream> = (0..8).map(|_| served.connect()).collect();
    for stream in &idle {
        assert_eq!(ask(stream, b"mn\r\n"), b"MN\r\n");
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

#[test]
fn tasks_are_bounded() {
    let peers = Peers::<()>::default();
    let peer = || {
        let (stream, _) = Stream::pair().unwrap();
        Arc::new(Peer::new(stream, 1))
    };
    assert_eq!(peers.insert(peer(), 1), Some(0));
    assert_eq!(peers.insert(peer(), 1), None);
    peers.remove(0);
    assert_eq!(peers.insert(peer(), 1), Some(0));
}
