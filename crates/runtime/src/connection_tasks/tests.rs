//! Unit test of the limit of simultaneous tasks.

use std::sync::Arc;

use sys::socket::Stream;

use super::{Peer, Peers};

#[test]
fn peer_above_the_limit_gets_no_entry_until_another_is_removed() {
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
