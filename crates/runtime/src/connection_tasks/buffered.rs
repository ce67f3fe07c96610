//! How tasks observe the bound of `crate::buffered`: the bound on the bytes of input and output
//! that all connections together keep while their tasks sleep. The tasks share one sum of these
//! bytes, behind a lock. If a connection keeps only a few bytes, they count as 0 in the sum. The
//! part of a receive buffer above its initial length always counts, although the buffer is empty
//! while its task sleeps.
//!
//! A task changes the sum, and takes the lock, only if its counted bytes have changed since the
//! task last slept. This is the case when the task begins or ends to keep a long incomplete line or
//! output that the peer does not read, and when its receive buffer becomes long or short. As long
//! as all requests of a connection are short, or all are long but arrive whole in the long receive
//! buffer, its task does not change the sum.

use std::cmp::Reverse;
use std::sync::{Arc, PoisonError};

use sys::clock::monotonic_ns;

use super::{ConnectionTasks, Peer, TaskRuntime};
use crate::buffered::{counted, low_water_mark};
use crate::setup::second;

impl<C: TaskRuntime> ConnectionTasks<C> {
    /// Records that the task of `peer` is about to sleep and keeps `bytes` bytes of input and
    /// output, and a receive buffer that is `spare_len` bytes longer than initially. If the sum
    /// then exceeds the bound, closes connections.
    ///
    /// Returns false if the connection of this task has been closed. The task then has to end. This
    /// is checked only if the counted bytes have changed.
    pub(super) fn count_buffered(&self, peer: &Peer, bytes: usize, spare_len: usize) -> bool {
        // `counted` returns 0 if `bytes` is too small to count towards the bound. So a short rest
        // of input does not change the sum, whatever the length of the receive buffer is.
        let bytes = counted(bytes) + spare_len as u64;
        bytes == peer.buffered() || self.update_sum(peer, bytes)
    }

    /// Changes the sum by the difference between `bytes` and the bytes counted for `peer` so far.
    /// If the sum then exceeds the bound, closes connections. Returns false if the connection of
    /// `peer` has been closed.
    #[cold]
    fn update_sum(&self, peer: &Peer, bytes: u64) -> bool {
        let counts = &self.setup.counts;
        // A poisoned lock can be used: the code below does not panic between its changes of the sum
        // and of the bytes counted for peers.
        let mut sum = self.buffered.lock().unwrap_or_else(PoisonError::into_inner);
        // The bytes of a closed connection were subtracted from the sum. Do not add them again.
        if bytes > 0 && peer.is_shut() {
            return false;
        }
        *sum = *sum - peer.set_buffered(bytes) + bytes;
        let mut to_close = Vec::new();
        if *sum > counts.buffered_max() {
            let now_s = second(monotonic_ns());
            to_close = self.peers.select(|peer| peer.buffered() > 0);
            sort_in_closing_order(&mut to_close, now_s);
            let mut count = 0;
            while *sum > low_water_mark(counts.buffered_max()) && count < to_close.len() {
                // These bytes no longer count, because the task soon frees them.
                *sum -= to_close[count].set_buffered(0);
                count += 1;
            }
            to_close.truncate(count);
            // Under the lock, so that no task counts its bytes again.
            to_close.retain(|peer| peer.begin_shut());
        }
        counts.set_buffered(*sum);
        drop(sum);
        // The tasks end when their sockets are shut down. That takes a system call each, so the
        // lock has been released.
        for peer in &to_close {
            counts.count_closed_by_bound();
            peer.stream.shut();
        }
        !peer.is_shut()
    }
}

/// Sorts peers in the order in which their connections are closed: first those that are inactive
/// ([`Peer::has_inactive_peer`]), and within each group those with the most bytes.
fn sort_in_closing_order(peers: &mut [Arc<Peer>], now_s: u32) {
    // The key of each peer is computed only once. Running tasks change the values from which
    // `has_inactive_peer` is computed. If a key changed during the sort, the order of the keys
    // could be inconsistent, and the sort could panic.
    peers.sort_by_cached_key(|peer| Reverse((peer.has_inactive_peer(now_s), peer.buffered())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SLOW_PEER_S;
    use sys::socket::Stream;

    /// Regression: a connection that waited for more than a second for the result of a ticket, such
    /// as a read of a slow disk, counted as inactive and was closed first.
    #[test]
    fn connection_that_waits_for_its_peer_is_closed_before_one_that_waits_for_a_ticket() {
        let active_s = 1;
        let new_peer = |bytes| {
            let (stream, _) = Stream::pair().unwrap();
            let peer = Arc::new(Peer::new(stream, active_s));
            peer.set_buffered(bytes);
            peer
        };
        let [small, large, waits_for_ticket] = [10_000, 20_000, 30_000].map(new_peer);
        waits_for_ticket.set_waiting_elsewhere(true);
        let bytes_in_closing_order = |now_s| {
            let mut peers = [&small, &waits_for_ticket, &large].map(Arc::clone);
            sort_in_closing_order(&mut peers, now_s);
            peers.map(|peer| peer.buffered())
        };
        let inactive_s = active_s + SLOW_PEER_S + 1;
        assert_eq!(bytes_in_closing_order(inactive_s), [20_000, 10_000, 30_000]);
        // No connection is inactive, so only the bytes count.
        assert_eq!(bytes_in_closing_order(active_s), [30_000, 20_000, 10_000]);
    }
}
