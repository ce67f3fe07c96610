//! A table in a mapping: what is not used of it costs nothing.

use std::io;
use std::marker::PhantomData;
use std::slice;

use super::Mapping;

/// # Safety
/// A value whose bytes are all zero is as good as one made by `default`; it needs no drop and an
/// alignment of at most a page.
pub(crate) unsafe trait Zeroed: Default {}

/// Values that begin as zeroes.
#[derive(Debug)]
pub(crate) struct Table<T> {
    mapping: Mapping,
    count: usize,
    holds: PhantomData<T>,
}

impl<T: Zeroed> Table<T> {
    /// # Errors
    /// The kernel has no room in the address space.
    pub(crate) fn reserve(count: usize) -> io::Result<Self> {
        Ok(Self {
            mapping: Mapping::reserve(count * size_of::<T>())?,
            count,
            holds: PhantomData,
        })
    }

    /// Has the kernel find the pages that value `at` lies in. It calls the kernel.
    pub(crate) fn populate(&self, at: usize) {
        let from = at * size_of::<T>();
        self.mapping.populate(from, from + size_of::<T>());
    }

    /// All of them.
    #[inline]
    pub(crate) fn all(&self) -> &[T] {
        // SAFETY: the mapping has room for so many, is aligned to a page, begins as zeroes, which
        // are values (`Zeroed`), and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.mapping.start().cast().as_ptr(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    #[repr(align(64))]
    struct Line(AtomicU64);

    // SAFETY: an atomic only.
    unsafe impl Zeroed for Line {}

    const PAGES: usize = 256;

    /// Page faults of this thread so far.
    fn faults() -> u64 {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        // Field 10 of proc_pid_stat(5), of which two stand before the bracket.
        rest.split_whitespace().nth(7).unwrap().parse().unwrap()
    }

    /// Page faults of writing to every page, after what `prepare` does.
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
    fn a_page_is_there_before_who_writes_comes() {
        faults();
        // Reading the count may take some.
        let few = PAGES as u64 / 8;
        let whole = faults_after(|table, _| table.mapping.populate(0, table.mapping.len()));
        if whole > few {
            eprintln!("skipped: the kernel finds no pages in advance (Linux 5.14 does)");
            return;
        }
        let by_values = faults_after(|table, lines| {
            // The first and the last of a page are as good, the last of all too.
            let values = (0..PAGES).map(|page| page * lines + page % 2 * (lines - 1));
            values.for_each(|at| table.populate(at));
        });
        assert!(by_values <= few, "{by_values}");
        let from_within = faults_after(|table, _| table.mapping.populate(64, table.mapping.len()));
        assert!(from_within <= few, "{from_within}");
    }
}
