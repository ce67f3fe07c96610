//! How many bytes of each segment are alive: those of blocks that the index leads to.
//!
//! A write adds to one segment and takes from another. Were that a counter a segment, it would be
//! two locked instructions a write, on lines that another worker's core had last. So every worker
//! has a column of its own, with a cell a segment, and alone writes there; what is alive in a
//! segment is the sum of its row. One worker may take from a segment what another added: cells
//! count round and round, and only their sum means something.
//!
//! ```text
//!             segment 0    1    2  …
//! openings          ·      ·    ·      what makes a row's sum 0 when its segment is opened
//! shared            ·      ·    ·      workers that found no column, by locked additions
//! first owner       ·      ·    ·
//! …
//! ```
//!
//! A column is handed on as it is when its worker is gone.

use std::io;

use super::Number;
use crate::limits::COLUMNS_MAX;
use crate::region::Table;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Cells of a line of the processor's caches: no two columns share one.
const LINE_CELLS: usize = 16;
const OPENINGS: usize = 0;
const SHARED: usize = 1;
/// The first column that has an owner.
const OWNED: usize = 2;

const _: () = assert!(COLUMNS_MAX < u64::BITS as usize);

/// The bytes alive in all segments.
#[derive(Debug)]
pub(crate) struct Live {
    cells: Table<AtomicU32>,
    /// Cells of a column.
    column_cells: usize,
    /// Columns to be owned.
    columns: u32,
    /// Those that are, a bit each.
    allocation: AtomicU64,
    /// Those that ever were: the rest is not looked at.
    ever_taken: AtomicU32,
}

/// Where a worker adds and takes.
#[derive(Debug)]
pub(crate) struct Column {
    first_cell: usize,
    is_shared: bool,
}

// SAFETY: an atomic integer.
unsafe impl crate::region::Zeroed for AtomicU32 {}

impl Live {
    /// # Errors
    /// The kernel has no room in the address space.
    pub(crate) fn reserve(segments: usize, workers: usize) -> io::Result<Self> {
        // One more: a worker may come before the one whose place it takes is gone.
        let columns = (workers + 1).min(COLUMNS_MAX);
        let column_cells = segments.next_multiple_of(LINE_CELLS);
        Ok(Self {
            cells: Table::reserve((OWNED + columns) * column_cells)?,
            column_cells,
            columns: columns as u32,
            allocation: AtomicU64::new(0),
            ever_taken: AtomicU32::new(0),
        })
    }

    /// A column for a worker.
    pub(crate) fn take_column(&self) -> Column {
        let first_free = |allocation: u64| {
            let free = allocation.trailing_ones();
            (free < self.columns).then(|| allocation | 1 << free)
        };
        // Acquire: pairs with `give_back`: what its last owner wrote is there.
        let before = self
            .allocation
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, first_free);
        let number = match before {
            Ok(before) => {
                let position = before.trailing_ones();
                self.ever_taken.fetch_max(position + 1, Ordering::Relaxed);
                OWNED + position as usize
            }
            Err(_) => SHARED,
        };
        Column {
            first_cell: number * self.column_cells,
            is_shared: number == SHARED,
        }
    }

    /// The worker is gone.
    pub(crate) fn give_back(&self, column: &Column) {
        if !column.is_shared {
            let position = column.first_cell / self.column_cells - OWNED;
            // Release: pairs with `take_column`.
            self.allocation
                .fetch_and(!(1 << position), Ordering::Release);
        }
    }

    /// So many bytes more are alive.
    #[inline]
    pub(crate) fn add(&self, column: &Column, number: Number, bytes: usize) {
        let cell = &self.cells.all()[column.first_cell + number as usize];
        if column.is_shared {
            cell.fetch_add(bytes as u32, Ordering::Relaxed);
        } else {
            let sum = cell.load(Ordering::Relaxed).wrapping_add(bytes as u32);
            cell.store(sum, Ordering::Relaxed);
        }
    }

    /// So many fewer are.
    #[inline]
    pub(crate) fn sub(&self, column: &Column, number: Number, bytes: usize) {
        self.add(column, number, bytes.wrapping_neg());
    }

    /// How many are, in a segment. While workers write it may be off by what they are at.
    pub(crate) fn of(&self, number: Number) -> u32 {
        // One that was taken from before what it had was seen is below nothing.
        (self.sum(number) as i32).max(0) as u32
    }

    /// None are: a segment that nobody looks at any more is opened. Its opener alone may.
    pub(crate) fn clear(&self, number: Number) {
        let cell = &self.cells.all()[OPENINGS * self.column_cells + number as usize];
        let sum = cell.load(Ordering::Relaxed).wrapping_sub(self.sum(number));
        cell.store(sum, Ordering::Relaxed);
    }

    /// The same, round and round.
    pub(crate) fn sum(&self, number: Number) -> u32 {
        let columns = OWNED + self.ever_taken.load(Ordering::Relaxed) as usize;
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
    fn a_row_is_summed_whoever_added_and_whoever_took() {
        let live = Live::reserve(20, 1).unwrap();
        let columns = [(); 3].map(|()| live.take_column());
        assert_eq!(
            columns.each_ref().map(|it| it.is_shared),
            [false, false, true]
        );
        live.add(&columns[0], 19, 1000);
        live.sub(&columns[1], 19, 300);
        live.add(&columns[2], 19, 7);
        live.add(&columns[1], 18, 5);
        assert_eq!((live.of(19), live.of(18), live.of(0)), (707, 5, 0));
        live.sub(&columns[2], 18, 6);
        assert_eq!(live.of(18), 0, "never below nothing");
        live.clear(19);
        live.add(&columns[1], 19, 40);
        assert_eq!(live.of(19), 40);
    }

    #[test]
    fn a_column_is_handed_on_with_what_is_in_it() {
        let live = Live::reserve(4, 1).unwrap();
        let available = live.take_column();
        let first = live.take_column();
        live.add(&first, 3, 100);
        live.give_back(&first);
        let second = live.take_column();
        assert!(!available.is_shared && !second.is_shared);
        assert!(live.take_column().is_shared);
        live.sub(&second, 3, 60);
        assert_eq!(live.of(3), 40);
    }

    /// Some own a column, some share one, and they come and go.
    #[test]
    fn nothing_is_lost_between_threads() {
        let live = Live::reserve(64, 1).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..1000_u32 {
                        let column = live.take_column();
                        for number in 0..64 {
                            live.add(&column, number, 8 + (round & 3) as usize * 4);
                            live.sub(&column, 63 - number, 4 + (round & 3) as usize * 4);
                        }
                        live.give_back(&column);
                    }
                });
            }
        });
        assert!((0..64).all(|number| live.of(number) == 16_000));
    }
}
