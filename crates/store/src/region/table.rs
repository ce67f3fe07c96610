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

    /// All of them.
    #[inline]
    pub(crate) fn all(&self) -> &[T] {
        // SAFETY: the mapping has room for so many, is aligned to a page, begins as zeroes, which
        // are values (`Zeroed`), and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.mapping.start().cast().as_ptr(), self.count) }
    }
}
