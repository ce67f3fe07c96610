//! The memory that a responder serves.

use std::ops::Range;

/// Memory with addresses. The responder checks keys, bounds and alignment before each call.
///
/// Numbers of atomic operations are values: how memory stores them is its own affair, and only on
/// the wire are they big-endian. As given here, memory stores them in little-endian order, as
/// adapters of most hosts do.
pub trait Memory {
    /// Copies memory to `bytes`.
    fn read(&self, address: u64, bytes: &mut [u8]);
    /// Copies `bytes` to memory.
    fn write(&mut self, address: u64, bytes: &[u8]);
    /// Stores `swap` if memory has `compare`; the original value in either case. The address is a
    /// multiple of eight.
    fn compare_swap(&mut self, address: u64, compare: u64, swap: u64) -> u64 {
        let original = little_endian(self, address);
        if original == compare {
            self.write(address, &swap.to_le_bytes());
        }
        original
    }
    /// Adds, modulo 2⁶⁴; the original value. The address is a multiple of eight.
    fn fetch_add(&mut self, address: u64, add: u64) -> u64 {
        let original = little_endian(self, address);
        self.write(address, &original.wrapping_add(add).to_le_bytes());
        original
    }
}

/// The number that memory has at an address, in little-endian order.
fn little_endian(memory: &(impl Memory + ?Sized), address: u64) -> u64 {
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes);
    u64::from_le_bytes(bytes)
}

/// A vector as memory.
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
}
