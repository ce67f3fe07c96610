//! Unit test of the limit on the number of tasks.

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
    let (max, first_slot) = (1, 0);
    assert_eq!(peers.insert(peer(), max), Some(first_slot));
    assert_eq!(peers.insert(peer(), max), None);
    peers.remove(first_slot);
    assert_eq!(peers.insert(peer(), max), Some(first_slot));
}
