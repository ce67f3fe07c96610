//! A table: a fixed number of values in a mapping. A page of the table becomes resident when one of
//! its values is first used.

use std::io;
use std::marker::PhantomData;
use std::slice;

use super::Mapping;

/// A type for which memory that consists of zero bytes is a valid value.
///
/// # Safety
/// A value that consists of zero bytes must be valid and equal to `default`. The type must need no
/// drop, and its alignment must be at most a page.
pub(crate) unsafe trait Zeroed: Default {}

/// A table of values whose bytes are initially zero.
#[derive(Debug)]
pub(crate) struct Table<T> {
    mapping: Mapping,
    count: usize,
    values: PhantomData<T>,
}

impl<T: Zeroed> Table<T> {
    /// Reserves address space for `count` values.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub(crate) fn reserve(count: usize) -> io::Result<Self> {
        let bytes = count.checked_mul(size_of::<T>());
        Ok(Self {
            mapping: Mapping::reserve(bytes.ok_or(io::ErrorKind::OutOfMemory)?)?,
            count,
            values: PhantomData,
        })
    }

    /// Stops requesting huge pages.
    pub(crate) fn disable_huge(&self) {
        self.mapping.disable_huge();
    }

    /// Makes the pages of the value with index `at` resident. Makes a system call.
    pub(crate) fn populate(&self, at: usize) {
        let from = at * size_of::<T>();
        self.mapping.populate(from, from + size_of::<T>());
    }

    /// All values of the table.
    #[inline]
    pub(crate) fn all(&self) -> &[T] {
        // SAFETY: the mapping has space for this many values, is aligned to a page, is initially
        // zero, which is a valid value (`Zeroed`), and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.mapping.start().cast().as_ptr(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A value that fills a cache line.
    #[derive(Default)]
    #[repr(align(64))]
    struct Line(AtomicU64);

    // SAFETY: the type contains only an atomic integer.
    unsafe impl Zeroed for Line {}

    /// Number of pages of the table.
    const PAGES: usize = 256;

    /// Returns the number of page faults of this thread so far.
    fn faults() -> u64 {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        // The count is field 10 (proc_pid_stat(5)). Fields 1 and 2 end with the bracket, so it is
        // the eighth field of the rest.
        rest.split_whitespace().nth(7).unwrap().parse().unwrap()
    }

    /// Returns the number of page faults while every page of a new table is written once, after
    /// `prepare`. The second argument of `prepare` is the number of values in a page.
    fn faults_after(prepare: impl FnOnce(&Table<Line>, usize)) -> u64 {
        let lines = rustix::param::page_size() / size_of::<Line>();
        let table = Table::reserve(PAGES * lines).unwrap();
        prepare(&table, lines);
        let before = faults();
        let written = table.all().iter().step_by(lines);
        written.for_each(|line| line.0.store(7, Ordering::Relaxed));
        faults() - before
    }

    #[test]
    fn more_values_than_there_are_addresses_are_refused() {
        for count in [usize::MAX, usize::MAX / size_of::<Line>()] {
            let error = Table::<Line>::reserve(count).err();
            let kind = error.map(|error| error.kind());
            assert_eq!(kind, Some(io::ErrorKind::OutOfMemory), "{count}");
        }
    }

    #[test]
    fn a_populated_page_does_not_fault_on_its_first_write() {
        // The first call of `faults` may cause page faults itself, so it is made before the
        // measurement. Later calls may cause some faults too, so `faults_max` is not 0.
        faults();
        let faults_max = PAGES as u64 / 8;
        let whole = faults_after(|table, _| table.mapping.populate(0, table.mapping.len()));
        if whole > faults_max {
            eprintln!("skipped: the kernel cannot populate pages in advance (Linux 5.14 can)");
            return;
        }
        let by_values = faults_after(|table, lines| {
            // Populate one value of each page: alternately the first and the last value of the
            // page.
            let values = (0..PAGES).map(|page| page * lines + page % 2 * (lines - 1));
            values.for_each(|at| table.populate(at));
        });
        assert!(by_values <= faults_max, "{by_values}");
        // A range that begins within a page includes that page.
        let from_within = faults_after(|table, _| table.mapping.populate(64, table.mapping.len()));
        assert!(from_within <= faults_max, "{from_within}");
    }
}
