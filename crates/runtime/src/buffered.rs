//! What connections keep between bursts, outside the store's memory: input that is no whole
//! request yet (a line may be of 1 MiB), and output that peers have not taken. One bound holds for
//! both together, in the whole process.
//!
//! Where workers own their connections each has an equal share of it, so that nothing is written
//! that others write: a worker counts a connection when it has been served, and only where what it
//! keeps has changed. Where each connection has a task of its own, a task that is about to sleep
//! counts itself in one sum (`tasks/buffered.rs`).
//!
//! When the bound is reached, connections are closed until a part of it is free again: first those
//! that wait for their peers and have not moved a byte for more than a second, the one that keeps
//! most before the others; then, likewise, those that wait and have moved; then the rest. They are
//! those of the worker whose share it is, or with tasks those of all.

use crate::connection::Connection;
use crate::connection_counts::ConnectionCounts;
use crate::connection_table::{ConnectionTable, Slot};
use crate::limits::{
    BUFFERED_FREED_PART, BUFFERED_MEMORY_PART, BUFFERED_MIN, BUFFERED_PER_CONNECTION,
    BUFFERED_PER_WORKER, BUFFERED_UNCOUNTED, SLOW_PEER_S,
};

/// The bound, in bytes, of a server with so much memory for items and so many connections and
/// workers at most.
///
/// 64 MiB at least, and an eighth of the memory: as much as large values on their way may hold
/// inside it. Enough for each connection to keep what one receive brings: those that send many
/// requests at once do so for a moment. And enough for each worker that one long line is no
/// overflow.
#[must_use]
pub fn buffered_max(memory_bytes: u64, connections: u32, workers: u32) -> u64 {
    (memory_bytes / BUFFERED_MEMORY_PART)
        .max(BUFFERED_MIN)
        .max(u64::from(connections) * BUFFERED_PER_CONNECTION)
        .max(u64::from(workers) * BUFFERED_PER_WORKER)
}

/// What is counted of so many bytes: nothing below what every connection may keep.
#[inline]
pub(crate) fn counted(bytes: usize) -> u64 {
    if bytes <= BUFFERED_UNCOUNTED {
        0
    } else {
        bytes as u64
    }
}

/// Whether a connection has not moved a byte for long.
pub(crate) fn is_inactive(active_s: u32, now_s: u32) -> bool {
    now_s.saturating_sub(active_s) > SLOW_PEER_S
}

/// How far a sum has to fall once it was above the bound.
pub(crate) fn low(max: u64) -> u64 {
    max - max / BUFFERED_FREED_PART
}

/// A worker's share of the bound, and what its connections keep.
#[derive(Debug)]
pub(crate) struct WorkerShare {
    max: u64,
    sum: u64,
}

impl WorkerShare {
    /// Of so many workers.
    pub(crate) fn new(counts: &ConnectionCounts, workers: usize) -> Self {
        Self {
            max: counts.buffered_max() / workers.max(1) as u64,
            sum: 0,
        }
    }

    /// What its connections keep.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// Whether it keeps more than it may: connections have to be closed.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.sum > self.max
    }

    /// Whether so much more would leave half of it to others.
    #[inline]
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.sum + bytes as u64 <= self.max / 2
    }

    /// Counts what a connection keeps now; false: that has not changed.
    #[inline]
    pub(crate) fn count<W>(&mut self, connection: &mut Connection<W>) -> bool {
        let bytes = counted(connection.buffered());
        if bytes == connection.counted {
            return false;
        }
        self.sum = self.sum - connection.counted + bytes;
        connection.counted = bytes;
        true
    }

    /// A connection that is about to be closed keeps nothing.
    pub(crate) fn release<W>(&mut self, connection: &mut Connection<W>) -> bool {
        self.sum -= connection.counted;
        std::mem::take(&mut connection.counted) > 0
    }

    /// Which connections have to be closed.
    pub(crate) fn overflow<W>(&self, table: &ConnectionTable<W>, now_s: u32) -> Vec<Slot> {
        let rank = |slot| {
            let it = table.get(slot).filter(|it| it.counted > 0)?;
            let is_inactive = is_inactive(it.active_s, now_s);
            Some((!it.queued, is_inactive, it.counted, slot))
        };
        let mut all: Vec<_> = table.slots().filter_map(rank).collect();
        all.sort_unstable();
        let (mut sum, low) = (self.sum, low(self.max));
        let enough = all.into_iter().rev().take_while(|&(_, _, bytes, _)| {
            let goes_on = sum > low;
            sum = sum.saturating_sub(bytes);
            goes_on
        });
        enough.map(|(_, _, _, slot)| slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Transport;
    use sys::socket::Stream;

    #[test]
    fn the_bound_grows_with_memory_connections_and_workers() {
        const MIB: u64 = 1 << 20;
        assert_eq!(buffered_max(64 * MIB, 1024, 4), 64 * MIB);
        assert_eq!(buffered_max(4096 * MIB, 1024, 4), 512 * MIB);
        assert_eq!(buffered_max(64 * MIB, 10_240, 4), 160 * MIB);
        assert_eq!(buffered_max(64 * MIB, 1024, 64), 256 * MIB);
    }

    #[test]
    fn those_that_wait_and_do_not_move_are_closed_first_the_largest_before_others() {
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
            let (stream, _) = Stream::pair().unwrap();
            let mut connection = Connection::new(Transport::Plain(stream), (), now_s);
            connection.held.append(&vec![0; bytes]);
            connection.queued = queued;
            assert_eq!(share.count(&mut connection), bytes > BUFFERED_UNCOUNTED);
            assert!(!share.count(&mut connection), "nothing has changed");
            table.add(connection);
        }
        assert_eq!(share.sum(), 120_000);
        assert!(share.is_over());
        assert_eq!(share.overflow(&table, now_s), [3], "the largest");
        table.get_mut(0).unwrap().active_s = now_s - 2;
        assert_eq!(share.overflow(&table, now_s), [0], "it has not moved");
        share.max = 40_000;
        assert_eq!(
            share.overflow(&table, now_s),
            [0, 3, 1],
            "the last is at work"
        );
        share.max = 100_000;
        for (slot, sum) in [(3, 80_000), (0, 50_000), (2, 50_000), (1, 0)] {
            share.release(table.get_mut(slot).unwrap());
            assert_eq!(share.sum(), sum);
        }
    }
}
