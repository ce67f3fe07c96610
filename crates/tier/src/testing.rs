//! Shared parts of the tests and benchmarks of the tier.

mod cache;
mod random;

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::Device;

pub use cache::{Hits, TieredCache};
pub use random::{Random, Zipf};

/// A device in memory, which begins with zeros.
#[derive(Debug)]
pub struct MemoryDevice(Mutex<Vec<u8>>);

impl MemoryDevice {
    /// A device of `len` bytes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self(Mutex::new(vec![0; len]))
    }
}

impl Device for MemoryDevice {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let offset = offset as usize;
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.copy_from_slice(&bytes[offset..offset + buffer.len()]);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = offset as usize;
        let mut device = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        device[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
