//! The live bytes of each segment: the total length of those blocks in it that belong to an item in
//! the index.
//!
//! A write adds the length of the new block to one segment, and subtracts the length of the old
//! block from another. With one counter per segment, each write would need two atomic
//! read-modify-write instructions, on cache lines that other cores have just written. Therefore the
//! counters form a matrix with a column for each worker and a row for each segment. A worker writes
//! only the cells of its own column. The live bytes of a segment are the sum of its row.
//!
//! A worker may subtract the length of a block that another worker added, so a cell may become
//! negative and wrap. Only the sum of a row modulo 2³² is meaningful. The diagram shows the matrix
//! on its side: each line is a column.
//!
//! ```text
//!              segment 0   1    2  …
//! corrections        ·     ·    ·      make the sum of a row 0 when its segment is opened
//! shared             ·     ·    ·      for all workers without a column, by atomic additions
//! first worker       ·     ·    ·
//! …
//! ```
//!
//! When a worker is dropped, its column keeps its content and passes to a worker created later.

use std::io;

use super::location::SegmentNumber;
use crate::limits::COLUMNS_MAX;
use crate::region::Table;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of cells in a cache line. Columns are padded to a multiple of it, so that no cache line
/// belongs to two columns.
const LINE_CELLS: usize = 16;
/// Number of the column of corrections.
const CORRECTIONS: usize = 0;
/// Number of the column for workers without a column of their own.
const SHARED: usize = 1;
/// Number of the first column that one worker can own.
const FIRST_OWNED: usize = 2;

const _: () = assert!(COLUMNS_MAX < u64::BITS as usize);

/// The live bytes of all segments.
#[derive(Debug)]
pub(crate) struct LiveBytes {
    cells: Table<AtomicU32>,
    /// Number of cells in a column.
    column_cells: usize,
    /// Number of columns that workers can own, at most one each.
    columns_max: u32,
    /// A bit for each column that workers can own, set while a worker owns the column.
    owned: AtomicU64,
    /// Number of columns that a worker has owned at some time. The other columns are 0, so sums
    /// skip them.
    ever_owned: AtomicU32,
}

/// The column in which a worker counts.
#[derive(Debug)]
pub(crate) struct Column {
    /// Index of the column's first cell.
    first_cell: usize,
    /// Whether other workers write this column too.
    is_shared: bool,
}

// SAFETY: an atomic integer of zero bytes is 0, its default.
unsafe impl crate::region::Zeroed for AtomicU32 {}

impl LiveBytes {
    /// Reserves counters for this many segments and workers.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub(crate) fn reserve(segments: usize, workers: usize) -> io::Result<Self> {
        // There is one column more than workers, because a worker may be created before the worker
        // that it replaces is dropped.
        let columns = (workers + 1).min(COLUMNS_MAX);
        let column_cells = segments.next_multiple_of(LINE_CELLS);
        Ok(Self {
            cells: Table::reserve((FIRST_OWNED + columns) * column_cells)?,
            column_cells,
            columns_max: columns as u32,
            owned: AtomicU64::new(0),
            ever_owned: AtomicU32::new(0),
        })
    }

    /// Assigns a column to a new worker: a free column, or the shared one if no column is free.
    pub(crate) fn take_column(&self) -> Column {
        let with_first_free = |owned: u64| {
            let free = owned.trailing_ones();
            (free < self.columns_max).then(|| owned | 1 << free)
        };
        // Acquire: pairs with `release_column`. The new owner sees what the last owner has written.
        let before = self
            .owned
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, with_first_free);
        let number = match before {
            Ok(before) => {
                let index = before.trailing_ones();
                self.ever_owned.fetch_max(index + 1, Ordering::Relaxed);
                FIRST_OWNED + index as usize
            }
            Err(_) => SHARED,
        };
        Column {
            first_cell: number * self.column_cells,
            is_shared: number == SHARED,
        }
    }

    /// Makes the column of a dropped worker free for another worker.
    pub(crate) fn release_column(&self, column: &Column) {
        if !column.is_shared {
            let index = column.first_cell / self.column_cells - FIRST_OWNED;
            // Release: pairs with `take_column`, after the writes of this owner.
            self.owned.fetch_and(!(1 << index), Ordering::Release);
        }
    }

    /// Adds live bytes to a segment.
    #[inline]
    pub(crate) fn add(&self, column: &Column, number: SegmentNumber, bytes: usize) {
        let cell = &self.cells.all()[column.first_cell + number as usize];
        if column.is_shared {
            cell.fetch_add(bytes as u32, Ordering::Relaxed);
        } else {
            let sum = cell.load(Ordering::Relaxed).wrapping_add(bytes as u32);
            cell.store(sum, Ordering::Relaxed);
        }
    }

    /// Subtracts live bytes from a segment.
    #[inline]
    pub(crate) fn sub(&self, column: &Column, number: SegmentNumber, bytes: usize) {
        self.add(column, number, bytes.wrapping_neg());
    }

    /// Returns the live bytes of a segment. While workers write, the sum may lack some of the
    /// changes that they are making.
    pub(crate) fn bytes(&self, number: SegmentNumber) -> u32 {
        // The sum is negative if it contains the subtraction of a block but not its addition.
        (self.sum(number) as i32).max(0) as u32
    }

    /// Makes the sum of a segment 0, through the column of corrections. Called when the segment is
    /// opened, while no other worker uses the segment.
    pub(crate) fn clear(&self, number: SegmentNumber) {
        let cell = &self.cells.all()[CORRECTIONS * self.column_cells + number as usize];
        let sum = cell.load(Ordering::Relaxed).wrapping_sub(self.sum(number));
        cell.store(sum, Ordering::Relaxed);
    }

    /// Returns the sum of a segment's cells modulo 2³².
    pub(crate) fn sum(&self, number: SegmentNumber) -> u32 {
        let columns = FIRST_OWNED + self.ever_owned.load(Ordering::Relaxed) as usize;
        let cells = self.cells.all()[number as usize..].iter();
        let row = cells.step_by(self.column_cells).take(columns);
        row.fold(0, |sum, cell| {
            sum.wrapping_add(cell.load(Ordering::Relaxed))
        })
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_live_bytes_of_a_segment_are_the_sum_over_all_workers() {
        let (segments, workers) = (20, 1);
        let live = LiveBytes::reserve(segments, workers).unwrap();
        // For one worker, there are two columns that workers can own. A third worker shares one.
        let columns = [(); 3].map(|()| live.take_column());
        assert_eq!(
            columns.each_ref().map(|it| it.is_shared),
            [false, false, true]
        );
        live.add(&columns[0], 19, 1000);
        live.sub(&columns[1], 19, 300);
        live.add(&columns[2], 19, 7);
        live.add(&columns[1], 18, 5);
        assert_eq!((live.bytes(19), live.bytes(18), live.bytes(0)), (707, 5, 0));
        live.sub(&columns[2], 18, 6);
        assert_eq!(live.bytes(18), 0, "a negative sum is returned as 0");
        live.clear(19);
        live.add(&columns[1], 19, 40);
        assert_eq!(live.bytes(19), 40);
    }

    #[test]
    fn a_released_column_keeps_its_content() {
        let live = LiveBytes::reserve(4, 1).unwrap();
        let spare = live.take_column();
        let first = live.take_column();
        live.add(&first, 3, 100);
        live.release_column(&first);
        let second = live.take_column();
        assert!(!spare.is_shared && !second.is_shared);
        assert!(live.take_column().is_shared);
        live.sub(&second, 3, 60);
        assert_eq!(live.bytes(3), 40);
    }

    /// Workers with a column of their own and workers that share one add and subtract concurrently.
    /// Each round adds four bytes to each segment on balance.
    #[test]
    fn concurrent_additions_are_not_lost() {
        let live = LiveBytes::reserve(64, 1).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..1000_u32 {
                        let column = live.take_column();
                        for number in 0..64 {
                            live.add(&column, number, 8 + (round & 3) as usize * 4);
                            live.sub(&column, 63 - number, 4 + (round & 3) as usize * 4);
                        }
                        live.release_column(&column);
                    }
                });
            }
        });
        assert!((0..64).all(|number| live.bytes(number) == 16_000));
    }
}
