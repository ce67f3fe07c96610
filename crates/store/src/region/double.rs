//! Replacements for `Region` and `Table` in builds for the model checkers. They are allocated on
//! the heap, and their words are atomics of the model checker. Hints to the kernel do nothing.

use std::io;

use crate::sync::atomic::AtomicU64;

/// A region of words that are initially zero.
#[derive(Debug)]
pub(crate) struct Region(Box<[AtomicU64]>);

impl Region {
    pub(crate) fn reserve(bytes: usize) -> io::Result<Self> {
        let words = bytes.div_ceil(8).max(1);
        Ok(Self((0..words).map(|_| AtomicU64::new(0)).collect()))
    }

    pub(crate) fn advise_huge(&self) {}

    pub(crate) fn disable_huge(&self) {}

    pub(crate) fn populate(&self, _from_byte: usize, _to_byte: usize) {}

    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// A table of values that are initially `T::default()`.
#[derive(Debug)]
pub(crate) struct Table<T>(Box<[T]>);

/// A type that a table can hold.
///
/// # Safety
/// The requirements of the `Zeroed` in `table.rs`, so that both tables accept the same types. No
/// code in this file depends on them.
pub(crate) unsafe trait Zeroed: Default {}

impl<T: Zeroed> Table<T> {
    pub(crate) fn reserve(count: usize) -> io::Result<Self> {
        Ok(Self((0..count).map(|_| T::default()).collect()))
    }

    pub(crate) fn populate(&self, _at: usize) {}

    pub(crate) fn disable_huge(&self) {}

    pub(crate) fn all(&self) -> &[T] {
        &self.0
    }
}
