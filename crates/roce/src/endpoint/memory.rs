//! The memory that a responder serves.

use std::ops::Range;

/// Memory with addresses. The responder checks keys, bounds and alignment before each call.
///
/// Numbers of atomic operations are values: how memory stores them is its own affair, and only on
/// the wire are they big-endian.
pub trait Memory {
    /// Copies memory to `bytes`.
    fn read(&self, address: u64, bytes: &mut [u8]);
    /// Copies `bytes` to memory.
    fn write(&mut self, address: u64, bytes: &[u8]);
    /// Stores `swap` if memory has `compare`; the original value in either case. The address is a
    /// multiple of eight.
    fn compare_swap(&mut self, address: u64, compare: u64, swap: u64) -> u64;
    /// Adds, modulo 2⁶⁴; the original value. The address is a multiple of eight.
    fn fetch_add(&mut self, address: u64, add: u64) -> u64;
}

/// A vector as memory, with numbers in little-endian order, as adapters of most hosts store them.
///
/// Bytes outside are read as zeros, and writes there are dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteMemory {
    /// Address of the first byte.
    pub start: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl ByteMemory {
    /// Where the bytes from `address` on lie in the vector: `len` of them, or fewer at its end.
    fn range(&self, address: u64, len: usize) -> Range<usize> {
        let offset = address
            .checked_sub(self.start)
            .and_then(|offset| usize::try_from(offset).ok());
        let start = offset.map_or(self.bytes.len(), |offset| offset.min(self.bytes.len()));
        start..start + len.min(self.bytes.len() - start)
    }

    fn number(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes);
        u64::from_le_bytes(bytes)
    }
}

impl Memory for ByteMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        let range = self.range(address, bytes.len());
        bytes[..range.len()].copy_from_slice(&self.bytes[range]);
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let range = self.range(address, bytes.len());
        let len = range.len();
        self.bytes[range].copy_from_slice(&bytes[..len]);
    }

    fn compare_swap(&mut self, address: u64, compare: u64, swap: u64) -> u64 {
        let original = self.number(address);
        if original == compare {
            self.write(address, &swap.to_le_bytes());
        }
        original
    }

    fn fetch_add(&mut self, address: u64, add: u64) -> u64 {
        let original = self.number(address);
        self.write(address, &original.wrapping_add(add).to_le_bytes());
        original
    }
}
