//! LiveBytes bytes of each segment: the bytes of blocks that the index refers to.
//!
//! A write adds to one segment and subtracts from another. With one counter per segment that would
//! be two locked instructions per write, on cache lines last used by other cores. Therefore every
//! worker has a column of its own with a cell per segment, and writes only there. The live bytes of
//! a segment are the sum of its row. A worker may subtract what another has added, so cells wrap;
//! only their sum modulo 2³² is meaningful.
//!
//! ```text
//!             segment 0    1    2  …
//! openings          ·      ·    ·      corrections: a row's sum is 0 when its segment is opened
//! shared            ·      ·    ·      workers without a column of their own, by locked additions
//! first owner       ·      ·    ·
//! …
//! ```
//!
//! When a worker is dropped, its column passes to the next one unchanged.

use std::io;

use super::SegmentNumber;
use crate::limits::COLUMNS_MAX;
use crate::region::Table;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Cells per cache line. Columns are padded to whole lines, so that no two share one.
const LINE_CELLS: usize = 16;
const CORRECTIONS: usize = 0;
const SHARED: usize = 1;
/// The first column that has an owner.
const FIRST_OWNED: usize = 2;

const _: () = assert!(COLUMNS_MAX < u64::BITS as usize);

/// The live bytes of all segments.
#[derive(Debug)]
pub(crate) struct LiveBytes {
    cells: Table<AtomicU32>,
    /// Number of cells in a column.
    column_cells: usize,
    /// Number of columns that can be owned.
    columns_max: u32,
    /// A bit for each column, set while the column has an owner.
    owned: AtomicU64,
    /// Number of columns that have ever had an owner. Sums skip the others.
    ever_owned: AtomicU32,
}

/// The column that a worker writes.
#[derive(Debug)]
pub(crate) struct Column {
    first_cell: usize,
    is_shared: bool,
}

// SAFETY: an atomic integer of zero bytes is 0, its default.
unsafe impl crate::region::Zeroed for AtomicU32 {}

impl LiveBytes {
    /// # Errors
    /// The address space is exhausted.
    pub(crate) fn reserve(segments: usize, workers: usize) -> io::Result<Self> {
        // One more than needed: a worker may be created before the one it replaces is dropped.
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

    /// Assigns a column to a worker.
    pub(crate) fn take_column(&self) -> Column {
        let first_free = |owned: u64| {
            let free = owned.trailing_ones();
            (free < self.columns_max).then(|| owned | 1 << free)
        };
        // Acquire: pairs with `release_column`: the writes of its last owner are visible.
        let before = self
            .owned
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, first_free);
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

    /// Returns the column of a dropped worker.
    pub(crate) fn release_column(&self, column: &Column) {
        if !column.is_shared {
            let index = column.first_cell / self.column_cells - FIRST_OWNED;
            // Release: pairs with `take_column`.
            self.owned.fetch_and(!(1 << index), Ordering::Release);
        }
    }

    /// Adds live bytes.
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

    /// Subtracts live bytes.
    #[inline]
    pub(crate) fn sub(&self, column: &Column, number: SegmentNumber, bytes: usize) {
        self.add(column, number, bytes.wrapping_neg());
    }

    /// The live bytes of a segment. While workers write, the sum may be off by their current
    /// changes.
    pub(crate) fn bytes(&self, number: SegmentNumber) -> u32 {
        // A subtraction seen before its addition can make the sum negative.
        (self.sum(number) as i32).max(0) as u32
    }

    /// Resets the sum of a segment to 0 when it is opened. No other worker uses the segment then.
    pub(crate) fn clear(&self, number: SegmentNumber) {
        let cell = &self.cells.all()[CORRECTIONS * self.column_cells + number as usize];
        let sum = cell.load(Ordering::Relaxed).wrapping_sub(self.sum(number));
        cell.store(sum, Ordering::Relaxed);
    }

    /// The wrapping sum.
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
    fn a_row_sums_the_columns_of_all_workers() {
        let live = LiveBytes::reserve(20, 1).unwrap();
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
        assert_eq!(live.bytes(18), 0, "a negative sum counts as 0");
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
