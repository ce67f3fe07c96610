//! The bound on the memory that connections keep between bursts. This memory contains incomplete
//! requests (of a line up to 64 KiB) and output that peers have not read. The items of the cache
//! are in other memory, the *store*. The bound holds for the sum over all connections of the
//! process.
//!
//! Most runtimes have a fixed number of workers. Each worker then has an equal share of the bound
//! and a sum of its own, so that no two workers write the same cache line. After a worker has
//! served a connection, the worker updates its sum if the number of bytes that the connection keeps
//! has changed. The runtimes `threads` and `fibres` have a task per connection. There, all tasks
//! share one sum, to which a task adds its bytes before it sleeps (`connection_tasks/buffered.rs`).
//!
//! When a worker's sum exceeds its share, connections of this worker are closed until the sum is at
//! or below a low-water mark. The groups are closed in the order below. Within a group, the
//! connection that keeps the most bytes is closed first.
//!
//! 1. Connections that wait for their peers and have been inactive for more than a second. A
//!    connection is *active* when a byte is received from or sent to its peer.
//! 2. Other connections that are not queued, to be served or to send unsent output. For example,
//!    they wait for the result of a ticket.
//! 3. Connections that are queued and have been inactive for more than a second.
//! 4. Other connections that are queued.
//!
//! In `threads` and `fibres`, connections of the whole process are closed when the shared sum
//! exceeds the bound. There are two groups. The first contains the connections that have been
//! inactive for more than a second, except those that wait for something other than their peers.
//! The second contains all others.

use service::Worker;

use crate::connection::{Connection, ConnectionIo};
use crate::connection_counts::ConnectionCounts;
use crate::connection_table::{ConnectionTable, Slot};
use crate::limits::{
    BUFFERED_FREED_PART, BUFFERED_MEMORY_PART, BUFFERED_MIN, BUFFERED_PER_CONNECTION,
    BUFFERED_PER_WORKER, BUFFERED_UNCOUNTED, SLOW_PEER_S,
};

/// Returns the bound in bytes, for a server whose items may occupy `memory_bytes`, with at most
/// `connections` connections, and with `workers` workers.
///
/// The bound is the largest of four values:
///
/// - 64 MiB;
/// - an eighth of `memory_bytes`; the store has a separate limit of the same size for memory held
///   by pins and unfinished uploads, which is not counted here;
/// - 16 KiB for each connection; this is the size of one receive, and of the buffer that a task
///   of `threads` or `fibres` keeps while its requests are long; connections rarely keep more;
/// - 4 MiB for each worker, so that a long value or line does not exceed a worker's share.
#[must_use]
pub fn buffered_max(memory_bytes: u64, connections: u32, workers: u32) -> u64 {
    // A constant `…_PART` is the N of a fraction 1/N.
    (memory_bytes / BUFFERED_MEMORY_PART)
        .max(BUFFERED_MIN)
        .max(u64::from(connections) * BUFFERED_PER_CONNECTION)
        .max(u64::from(workers) * BUFFERED_PER_WORKER)
}

/// Returns the number of bytes that are added to the sum for a connection that keeps `bytes` bytes:
/// 0 if `bytes` is at most [`BUFFERED_UNCOUNTED`], otherwise `bytes`. Most connections never
/// keep more than that, so serving them never changes a sum.
#[inline]
pub(crate) fn counted(bytes: usize) -> u64 {
    if bytes <= BUFFERED_UNCOUNTED {
        0
    } else {
        bytes as u64
    }
}

/// Returns whether a connection has been inactive for more than [`SLOW_PEER_S`] seconds. `active_s`
/// is the second in which a byte was last received from or sent to its peer, and `now_s` is the
/// current second.
pub(crate) fn is_inactive(active_s: u32, now_s: u32) -> bool {
    now_s.saturating_sub(active_s) > SLOW_PEER_S
}

/// Returns the low-water mark in bytes, for a bound of `max` bytes. Once a sum exceeds the bound,
/// connections are closed until the sum is at or below this mark. The search for these connections
/// is expensive, and the gap between bound and mark makes it rare.
pub(crate) fn low_water_mark(max: u64) -> u64 {
    max - max / BUFFERED_FREED_PART
}

/// A worker's share of the bound, and the sum of the bytes that its connections keep.
#[derive(Debug)]
pub(crate) struct WorkerShare {
    /// The share in bytes.
    max: u64,
    /// The sum of the fields [`Connection::counted`] of the worker's connections. The field is 0
    /// for a connection that keeps at most [`BUFFERED_UNCOUNTED`] bytes.
    sum: u64,
}

impl WorkerShare {
    /// Creates a worker's share, with a sum of 0. The bound is divided among `workers` workers.
    pub(crate) fn new(counts: &ConnectionCounts, workers: usize) -> Self {
        Self {
            max: counts.buffered_max() / workers.max(1) as u64,
            sum: 0,
        }
    }

    /// Returns the sum of the worker's connections, in bytes.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns whether the share is exceeded, so that connections have to be closed.
    #[inline]
    pub(crate) fn is_exceeded(&self) -> bool {
        self.sum > self.max
    }

    /// Returns whether the worker may delay `bytes` bytes of replies of a connection, to send them
    /// together with later replies. The sum plus `bytes` must be at most half of the share. If
    /// delayed replies could fill the whole share, they would cause connections to be closed.
    #[inline]
    pub(crate) fn has_space_for(&self, bytes: usize) -> bool {
        self.sum + bytes as u64 <= self.max / 2
    }

    /// Updates the sum for a connection. The field [`Connection::counted`] is the number of bytes
    /// that the last call added for the connection. This call subtracts that number. Then it adds
    /// the result of the function [`counted`] for the bytes that the connection keeps now, and
    /// stores the result in the field. Returns whether the field has changed.
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

    /// Subtracts from the sum what was added for a connection that is about to be closed. Returns
    /// whether the sum has changed.
    pub(crate) fn release<S: Worker, I>(&mut self, connection: &mut Connection<S, I>) -> bool {
        self.sum -= connection.counted;
        std::mem::take(&mut connection.counted) > 0
    }

    /// Returns the slots of the connections that have to be closed to reduce the sum to the
    /// low-water mark or less, in the order of closing. (A slot is an index in `table`.)
    pub(crate) fn excess_connections<S: Worker, I>(
        &self,
        table: &ConnectionTable<S, I>,
        now_s: u32,
    ) -> Vec<Slot> {
        // The connection with the greatest rank is closed first.
        let rank = |slot| {
            let found = table.get(slot).filter(|found| found.counted > 0)?;
            let has_inactive_peer = !found.waits_for_ticket && is_inactive(found.active_s, now_s);
            let is_queued = found.waits_for_worker();
            Some((!is_queued, has_inactive_peer, found.counted, slot))
        };
        let mut all: Vec<_> = table.slots().filter_map(rank).collect();
        all.sort_unstable();
        let (mut sum, low) = (self.sum, low_water_mark(self.max));
        let excess = all.into_iter().rev().take_while(|&(_, _, bytes, _)| {
            let is_excess = sum > low;
            sum = sum.saturating_sub(bytes);
            is_excess
        });
        excess.map(|(_, _, _, slot)| slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NoIo, Silent, SilentSession};

    #[test]
    fn the_bound_is_the_largest_of_memory_connection_and_worker_bounds() {
        const MIB: u64 = 1 << 20;
        let (memory_bytes, connections, workers) = (64 * MIB, 1024, 4);
        let max = buffered_max(memory_bytes, connections, workers);
        assert_eq!(max, 64 * MIB);
        let max_of_memory = buffered_max(4096 * MIB, connections, workers);
        assert_eq!(max_of_memory, 512 * MIB);
        let max_of_connections = buffered_max(memory_bytes, 10_240, workers);
        assert_eq!(max_of_connections, 160 * MIB);
        let max_of_workers = buffered_max(memory_bytes, connections, 64);
        assert_eq!(max_of_workers, 256 * MIB);
    }

    #[test]
    fn excess_is_closed_inactive_first_and_queued_last_and_release_reduces_the_sum() {
        let (connections_max, bound_bytes, workers) = (8, 200_000, 2);
        let counts = ConnectionCounts::new(connections_max, bound_bytes);
        let now_s = 10;
        let mut share = WorkerShare::new(&counts, workers);
        let mut table = ConnectionTable::new();
        // The connections get the slots 0 to 3. The 100 bytes in slot 2 are too few to be counted.
        for (bytes, is_queued) in [
            (30_000, false),
            (50_000, true),
            (100, false),
            (40_000, false),
        ] {
            let mut connection = Connection::<Silent, _>::new(NoIo, SilentSession, now_s);
            connection.held.append(&vec![0; bytes]);
            connection.is_queued = is_queued;
            assert_eq!(share.count(&mut connection), bytes > BUFFERED_UNCOUNTED);
            assert!(!share.count(&mut connection), "nothing has changed");
            table.add(connection);
        }
        assert_eq!(share.sum(), 120_000);
        assert!(share.is_exceeded());
        assert_eq!(
            share.excess_connections(&table, now_s),
            [3],
            "the largest that is not queued comes first"
        );
        let inactive_since_s = now_s - SLOW_PEER_S - 1;
        table.get_mut(0).unwrap().active_s = inactive_since_s;
        assert_eq!(
            share.excess_connections(&table, now_s),
            [0],
            "the inactive one comes first"
        );
        // A smaller share, so that all three counted connections have to be closed.
        share.max = 40_000;
        assert_eq!(
            share.excess_connections(&table, now_s),
            [0, 3, 1],
            "the queued one comes last"
        );
        // `release` reduces the sum, whatever the share is. For slot 2 the sum stays the same,
        // because the bytes of slot 2 were not counted.
        share.max = 100_000;
        for (slot, sum) in [(3, 80_000), (0, 50_000), (2, 50_000), (1, 0)] {
            share.release(table.get_mut(slot).unwrap());
            assert_eq!(share.sum(), sum);
        }
    }
}
