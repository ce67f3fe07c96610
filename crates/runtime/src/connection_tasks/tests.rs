//! Unit test of the list of peers, and of its limit. Each task enters its peer in this list. So the
//! limit of the list is the limit on the number of tasks. The test itself starts no tasks.

use std::sync::Arc;

use sys::socket::Stream;

use super::{Peer, Peers};

#[test]
fn peer_above_the_limit_gets_no_entry_until_another_is_removed() {
    let peers = Peers::<()>::default();
    let new_peer = || {
        let (stream, _) = Stream::pair().unwrap();
        let now_s = 1;
        Arc::new(Peer::new(stream, now_s))
    };
    let (max, first_slot) = (1, 0);
    assert_eq!(peers.insert(new_peer(), max), Some(first_slot));
    assert_eq!(peers.insert(new_peer(), max), None);
    peers.remove(first_slot);
    assert_eq!(peers.insert(new_peer(), max), Some(first_slot));
}
