//! Memory that sleeping tasks keep (`crate::buffered`): one sum for all, written only by tasks that
//! keep an incomplete line or output that their peers do not take.

use std::cmp::Reverse;
use std::sync::PoisonError;

use sys::clock::monotonic_ns;

use super::{ConnectionTasks, Peer, TaskRuntime};
use crate::buffered::{counted, low_water_mark};
use crate::setup::second;

impl<C: TaskRuntime> ConnectionTasks<C> {
    /// Counts the bytes that a task keeps before it sleeps. If the bound is exceeded, connections
    /// are closed. Returns false if the task's connection is one of them.
    pub(super) fn count_buffered(&self, peer: &Peer, bytes: usize) -> bool {
        let bytes = counted(bytes);
        bytes == peer.buffered() || self.update_sum(peer, bytes)
    }

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
                // The task frees its memory when it wakes up, and closing wakes it.
                *sum -= to_close[count].set_buffered(0);
                count += 1;
            }
            to_close.truncate(count);
        }
        counts.set_buffered(*sum);
        drop(sum);
        // After the lock is released, because these are system calls.
        for peer in &to_close {
            counts.count_closed_by_bound();
            peer.shut();
        }
        !peer.is_shut()
    }
}
