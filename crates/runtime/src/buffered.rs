//! Memory that connections keep between bursts outside the store: incomplete requests (a line may
//! be 1 MiB long), and output that peers have not read. One bound limits the sum in the whole
//! process.
//!
//! In runtimes whose workers own connections, each worker has an equal share of the bound, so that
//! no cache line is written by two workers. A worker counts a connection after serving it, and only
//! if the amount changed. In runtimes with a task per connection, a task adds its bytes to one
//! shared sum before it sleeps (`connection_tasks/buffered.rs`).
//!
//! When the bound is reached, connections are closed until a part of it is free again. The order
//! is: connections that wait for their peers and have been inactive for more than a second, the
//! largest first; then other connections that wait for their peers, the largest first; then the
//! rest. Candidates are the connections of the worker whose share is exceeded, or all of them in
//! runtimes with tasks.

use service::Worker;

use crate::connection::{Connection, ConnectionIo};
use crate::connection_counts::ConnectionCounts;
use crate::connection_table::{ConnectionTable, Slot};
use crate::limits::{
    BUFFERED_FREED_PART, BUFFERED_MEMORY_PART, BUFFERED_MIN, BUFFERED_PER_CONNECTION,
    BUFFERED_PER_WORKER, BUFFERED_UNCOUNTED, SLOW_PEER_S,
};

/// The bound in bytes, for a server with this memory for items and these limits of connections and
/// workers.
///
/// The bound is the largest of: 64 MiB; an eighth of the memory, which is also the limit of
/// unfinished uploads inside the store; the size of a receive for each connection, which suffices
/// because connections keep more than that only briefly; and enough for each worker that one long
/// line does not exceed its share.
#[must_use]
pub fn buffered_max(memory_bytes: u64, connections: u32, workers: u32) -> u64 {
    (memory_bytes / BUFFERED_MEMORY_PART)
        .max(BUFFERED_MIN)
        .max(u64::from(connections) * BUFFERED_PER_CONNECTION)
        .max(u64::from(workers) * BUFFERED_PER_WORKER)
}

/// How many of the `bytes` of a connection count towards the bound: none if they are within the
/// allowance of every connection, else all of them.
#[inline]
pub(crate) fn counted(bytes: usize) -> u64 {
    if bytes <= BUFFERED_UNCOUNTED {
        0
    } else {
        bytes as u64
    }
}

/// Whether a connection has been inactive for long.
pub(crate) fn is_inactive(active_s: u32, now_s: u32) -> bool {
    now_s.saturating_sub(active_s) > SLOW_PEER_S
}

/// The low-water mark: once the bound has been exceeded, connections are closed until the sum is at
/// most this.
pub(crate) fn low_water_mark(max: u64) -> u64 {
    max - max / BUFFERED_FREED_PART
}

/// A worker's share of the bound, and the bytes of its connections.
#[derive(Debug)]
pub(crate) struct WorkerShare {
    max: u64,
    sum: u64,
}

impl WorkerShare {
    /// A share for one of `workers` workers.
    pub(crate) fn new(counts: &ConnectionCounts, workers: usize) -> Self {
        Self {
            max: counts.buffered_max() / workers.max(1) as u64,
            sum: 0,
        }
    }

    /// The bytes that the worker's connections keep.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// Whether the share is exceeded, so that connections have to be closed.
    #[inline]
    pub(crate) fn is_exceeded(&self) -> bool {
        self.sum > self.max
    }

    /// Whether `bytes` more would stay within half of the share.
    #[inline]
    pub(crate) fn has_space_for(&self, bytes: usize) -> bool {
        self.sum + bytes as u64 <= self.max / 2
    }

    /// Counts the bytes of a connection. Returns false if they have not changed.
    #[inline]
    pub(crate) fn count<S: Worker, I: ConnectionIo>(
        &mut self,
        connection: &mut Connection<S, I>,
    ) -> bool {
        let bytes = counted(connection.buffered());
        if bytes == connection.counted {
            return false;
        }
        self.sum = self.sum - connection.counted + bytes;
        connection.counted = bytes;
        true
    }

    /// Removes the bytes of a connection that is about to be closed.
    pub(crate) fn release<S: Worker, I>(&mut self, connection: &mut Connection<S, I>) -> bool {
        self.sum -= connection.counted;
        std::mem::take(&mut connection.counted) > 0
    }

    /// The connections to close.
    pub(crate) fn excess_connections<S: Worker, I>(
        &self,
        table: &ConnectionTable<S, I>,
        now_s: u32,
    ) -> Vec<Slot> {
        let rank = |slot| {
            let it = table.get(slot).filter(|it| it.counted > 0)?;
            let is_inactive = !it.waits_for_ticket && is_inactive(it.active_s, now_s);
            Some((!it.is_queued, is_inactive, it.counted, slot))
        };
        let mut all: Vec<_> = table.slots().filter_map(rank).collect();
        all.sort_unstable();
        let (mut sum, low) = (self.sum, low_water_mark(self.max));
        let enough = all.into_iter().rev().take_while(|&(_, _, bytes, _)| {
            let is_needed = sum > low;
            sum = sum.saturating_sub(bytes);
            is_needed
        });
        enough.map(|(_, _, _, slot)| slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NoIo, Silent, SilentSession};

    #[test]
    fn the_bound_grows_with_memory_connections_and_workers() {
        const MIB: u64 = 1 << 20;
        assert_eq!(buffered_max(64 * MIB, 1024, 4), 64 * MIB);
        assert_eq!(buffered_max(4096 * MIB, 1024, 4), 512 * MIB);
        assert_eq!(buffered_max(64 * MIB, 10_240, 4), 160 * MIB);
        assert_eq!(buffered_max(64 * MIB, 1024, 64), 256 * MIB);
    }

    #[test]
    fn inactive_connections_are_closed_first_and_larger_before_smaller() {
        let counts = ConnectionCounts::new(8, 200_000);
        let now_s = 10;
        let mut share = WorkerShare::new(&counts, 2);
        let mut table = ConnectionTable::new();
        for (bytes, queued) in [
            (30_000, false),
            (50_000, true),
            (100, false),
            (40_000, false),
        ] {
            let mut connection = Connection::<Silent, _>::new(NoIo, SilentSession, now_s);
            connection.held.append(&vec![0; bytes]);
            connection.is_queued = queued;
            assert_eq!(share.count(&mut connection), bytes > BUFFERED_UNCOUNTED);
            assert!(!share.count(&mut connection), "nothing has changed");
            table.add(connection);
        }
        assert_eq!(share.sum(), 120_000);
        assert!(share.is_exceeded());
        assert_eq!(share.excess_connections(&table, now_s), [3], "the largest");
        table.get_mut(0).unwrap().active_s = now_s - 2;
        assert_eq!(
            share.excess_connections(&table, now_s),
            [0],
            "it is inactive"
        );
        share.max = 40_000;
        assert_eq!(
            share.excess_connections(&table, now_s),
            [0, 3, 1],
            "the queued one comes last"
        );
        share.max = 100_000;
        for (slot, sum) in [(3, 80_000), (0, 50_000), (2, 50_000), (1, 0)] {
            share.release(table.get_mut(slot).unwrap());
            assert_eq!(share.sum(), sum);
        }
    }
}
