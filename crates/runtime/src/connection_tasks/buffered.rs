//! The bound on the memory that tasks keep while they sleep (`crate::buffered`). A task is the
//! thread or fibre of a connection. All tasks share one sum behind a lock. Most tasks never change
//! the sum: only a task that keeps a long incomplete line, or output that its peer does not read,
//! has bytes to add.

use std::cmp::Reverse;
use std::sync::PoisonError;

use sys::clock::monotonic_ns;

use super::{ConnectionTasks, Peer, TaskRuntime};
use crate::buffered::{counted, low_water_mark};
use crate::setup::second;

impl<C: TaskRuntime> ConnectionTasks<C> {
    /// Records that the task of `peer` is about to sleep and keeps `bytes` bytes. If the sum then
    /// exceeds the bound, closes connections. Returns false if the task's own connection is closed.
    pub(super) fn count_buffered(&self, peer: &Peer, bytes: usize) -> bool {
        let bytes = counted(bytes);
        bytes == peer.buffered() || self.update_sum(peer, bytes)
    }

    /// Changes the sum by the difference between `bytes` and the bytes counted for `peer` so far.
    /// Continues as [`count_buffered`](Self::count_buffered) says.
    #[cold]
    fn update_sum(&self, peer: &Peer, bytes: u64) -> bool {
        let counts = &self.setup.counts;
        // No code panics while the sum is inconsistent.
        let mut sum = self.buffered.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes > 0 && peer.is_shut() {
            return false;
        }
        *sum = *sum - peer.set_buffered(bytes) + bytes;
        let mut to_close = Vec::new();
        if *sum > counts.buffered_max() {
            let now_s = second(monotonic_ns());
            to_close = self.peers.peers(|peer| peer.buffered() > 0);
            to_close.sort_by_key(|peer| Reverse((peer.is_inactive(now_s), peer.buffered())));
            let mut count = 0;
            while *sum > low_water_mark(counts.buffered_max()) && count < to_close.len() {
                // Its memory is no longer counted: `shut` below wakes the task, which then ends.
                *sum -= to_close[count].set_buffered(0);
                count += 1;
            }
            to_close.truncate(count);
        }
        counts.set_buffered(*sum);
        drop(sum);
        // `shut` makes system calls, so it is called after the lock has been released.
        for peer in &to_close {
            counts.count_closed_by_bound();
            peer.shut();
        }
        !peer.is_shut()
    }
}
