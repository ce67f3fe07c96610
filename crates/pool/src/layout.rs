//! What lies where in the memory of a node.
//!
//! ```text
//! START  superblock 64 │ slab table, 16 a slab │ …4096 │ slab │ slab │ … │ guard, one slab long
//! ```
//!
//! The memory node writes the superblock once. The metadata service writes the numbers in it that
//! grow, and the table. A slab is divided into slots of one length, and belongs to one client,
//! which alone writes new nodes there. The guard is there because readers may read beyond a node.
//!
//! Everything that must survive is in this memory: the metadata service has no other.

use roce::endpoint::{Memory, Region};

use crate::limits::{SLAB_LEN_MAX, SLAB_LEN_MIN, SLOT_LEN_MIN};

/// Key (rkey) of the whole memory for operations that a middlebox may redirect.
pub const STEERABLE: u32 = 0x5354;
/// Key of the whole memory for operations that must be executed where they say.
pub const EXACT: u32 = 0x4558;
/// Address of the first byte.
pub const START: u64 = 4096;
/// The owner of slabs with anchors. Clients have higher numbers; 0 is none.
pub const METADATA: u64 = 1;
/// Number of the first client.
pub const FIRST_CLIENT: u64 = 16;

const MAGIC: u64 = 0x6c6f_6f70_2e63_7274;
const FORMAT: u32 = 1;
const SUPERBLOCK_LEN: u64 = 64;
const ENTRY_LEN: u64 = 16;
const PAGE_LEN: u64 = 4096;

/// Address of the numbers of the next chain and the next client that were never given.
pub(crate) const NEXT_NUMBERS: u64 = START + 24;
/// Address of the number of the present metadata service.
pub(crate) const SERVICE: u64 = START + 40;

/// How the memory of a node is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Length of a slab in bytes, a multiple of 4096.
    pub slab_len: u32,
    /// Number of slabs.
    pub slabs: u32,
}

/// The first bytes of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// How the rest is divided.
    pub layout: Layout,
    /// The next chain; those before may exist.
    pub next_chain: u64,
    /// The next client.
    pub next_client: u64,
    /// The present metadata service ([`service_after`]); 0 before the first one.
    pub service: u64,
}

/// The number of the service that begins to use a memory after `service`. The upper half counts the
/// services. The lower half is of the memory: the first service draws it from `random`. So a
/// service of a memory whose content was lost has no number of the memory that is there instead.
pub(crate) fn service_after(service: u64, random: u32) -> u64 {
    let memory = match memory_of(service) {
        0 => random.max(1),
        memory => memory,
    };
    (((service >> 32) + 1) << 32) | u64::from(memory)
}

/// The part of a service's number that is of its memory; 0 of no service.
pub(crate) fn memory_of(service: u64) -> u32 {
    service as u32
}

/// An entry of the slab table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlabEntry {
    /// Length of its slots in bytes; 0 if it was never used.
    pub slot_len: u32,
    /// The client that writes there; 0 if none does.
    pub owner: u64,
}

impl Layout {
    /// Divides `memory_len` bytes into slabs; nothing if not even one has space.
    pub fn of_memory(memory_len: u64, slab_len: u32) -> Option<Self> {
        if !is_slab_len(slab_len) {
            return None;
        }
        let slab = u64::from(slab_len);
        // The guard, the superblock, and the rest of the page in which the table ends.
        let left = memory_len.checked_sub(slab + SUPERBLOCK_LEN + PAGE_LEN)?;
        let slabs = u32::try_from(left / (slab + ENTRY_LEN)).ok()?;
        (slabs > 0).then_some(Self { slab_len, slabs })
    }

    /// Address of the entry of a slab in the table.
    pub(crate) fn entry(&self, slab: u32) -> u64 {
        START + SUPERBLOCK_LEN + u64::from(slab) * ENTRY_LEN
    }

    /// Address of a slab.
    pub fn slab(&self, slab: u32) -> u64 {
        let table_end = SUPERBLOCK_LEN + u64::from(self.slabs) * ENTRY_LEN;
        START + table_end.next_multiple_of(PAGE_LEN) + u64::from(slab) * u64::from(self.slab_len)
    }

    /// The slab in which an address lies.
    pub fn slab_of(&self, address: u64) -> Option<u32> {
        let offset = address.checked_sub(self.slab(0))?;
        let slab = u32::try_from(offset / u64::from(self.slab_len)).ok()?;
        (slab < self.slabs).then_some(slab)
    }
}

impl Superblock {
    /// Length in bytes of the part that is read.
    pub(crate) const LEN: u32 = SUPERBLOCK_LEN as u32;

    /// Reads the first bytes of the memory; nothing if they have another format.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..SUPERBLOCK_LEN as usize)?;
        let is_known = number(bytes, 0, 8) == MAGIC && number(bytes, 8, 4) == u64::from(FORMAT);
        is_known.then(|| Self {
            layout: Layout {
                slab_len: number(bytes, 12, 4) as u32,
                slabs: number(bytes, 16, 4) as u32,
            },
            next_chain: number(bytes, 24, 8),
            next_client: number(bytes, 32, 8),
            service: number(bytes, 40, 8),
        })
    }

    /// The bytes.
    pub fn emit(&self) -> [u8; SUPERBLOCK_LEN as usize] {
        let mut bytes = [0; SUPERBLOCK_LEN as usize];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.layout.slab_len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.layout.slabs.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.next_chain.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.next_client.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.service.to_le_bytes());
        bytes
    }
}

impl SlabEntry {
    pub(crate) const LEN: usize = ENTRY_LEN as usize;

    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self {
            slot_len: number(bytes, 0, 4) as u32,
            owner: number(bytes, 8, 8),
        }
    }

    pub(crate) fn emit(&self) -> [u8; ENTRY_LEN as usize] {
        let mut bytes = [0; ENTRY_LEN as usize];
        bytes[..4].copy_from_slice(&self.slot_len.to_le_bytes());
        bytes[8..].copy_from_slice(&self.owner.to_le_bytes());
        bytes
    }
}

/// Whether a slab can have this length in bytes: a multiple of 4 KiB within the limits.
pub fn is_slab_len(len: u32) -> bool {
    (SLAB_LEN_MIN..=SLAB_LEN_MAX).contains(&len) && u64::from(len).is_multiple_of(PAGE_LEN)
}

/// Writes the superblock, unless the memory has one. Returns how the memory is divided; nothing if
/// it is too small, or has another content. Memory that was never used is zeros.
pub fn format(memory: &mut impl Memory, memory_len: u64, slab_len: u32) -> Option<Layout> {
    let mut bytes = [0; SUPERBLOCK_LEN as usize];
    memory.read(START, &mut bytes);
    if bytes != [0; SUPERBLOCK_LEN as usize] {
        let layout = Superblock::parse(&bytes)?.layout;
        let end = layout.slab(layout.slabs) + u64::from(layout.slab_len);
        return (end <= START + memory_len).then_some(layout);
    }
    let layout = Layout::of_memory(memory_len, slab_len)?;
    let superblock = Superblock {
        layout,
        next_chain: 1,
        next_client: FIRST_CLIENT,
        service: 0,
    };
    memory.write(START, &superblock.emit());
    Some(layout)
}

/// The two regions, both of the whole memory.
pub(crate) fn regions(memory_len: u64) -> [Region; 2] {
    [STEERABLE, EXACT].map(|key| Region {
        key,
        start: START,
        len: memory_len,
        may_read: true,
        may_write: true,
        may_change_atomically: true,
    })
}

/// The length of the slots for nodes of `len` bytes: 64, 80, 96, 112 times powers of two, but at
/// most `slab_len`. Nothing if the node is longer.
pub fn slot_len(len: usize, slab_len: u32) -> Option<u32> {
    let len = u32::try_from(len).ok()?.max(SLOT_LEN_MIN);
    let step = (len.next_power_of_two() / 8).max(16);
    let rounded = len.next_multiple_of(step);
    (len <= slab_len).then_some(rounded.min(slab_len))
}

/// The little-endian number of at most eight bytes at an offset, all within `bytes`.
pub(crate) fn number(bytes: &[u8], offset: usize, len: usize) -> u64 {
    let mut number = [0; 8];
    number[..len].copy_from_slice(&bytes[offset..offset + len]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce::endpoint::ByteMemory;

    #[test]
    fn slabs_and_their_guard_lie_within_the_memory() {
        for (memory_len, slab_len) in [(40_000, 4096), (1 << 20, 65_536), (1 << 30, 1 << 20)] {
            let layout = Layout::of_memory(memory_len, slab_len).unwrap();
            let end = layout.slab(layout.slabs) + u64::from(slab_len);
            assert!(end <= START + memory_len);
            assert!(layout.entry(layout.slabs) <= layout.slab(0));
            assert_eq!(layout.slab_of(layout.slab(0)), Some(0));
            let last = layout.slab(layout.slabs) - 1;
            assert_eq!(layout.slab_of(last), Some(layout.slabs - 1));
            assert_eq!(layout.slab_of(last + 1), None);
            assert_eq!(layout.slab_of(layout.slab(0) - 1), None);
        }
        assert_eq!(Layout::of_memory(12_000, 4096), None);
        assert_eq!(Layout::of_memory(1 << 20, 5000), None);
    }

    #[test]
    fn slots_are_little_longer_than_their_nodes() {
        for len in 1..20_000 {
            let slot = slot_len(len, 32_768).unwrap() as usize;
            assert!(slot >= len && slot.is_multiple_of(8), "{len}: {slot}");
            assert!(len <= 128 || slot * 4 <= len * 5, "{len}: {slot}");
        }
        assert_eq!(slot_len(4097, 4096), None);
        assert_eq!(slot_len(4000, 4096), Some(4096));
    }

    #[test]
    fn memory_is_formatted_once() {
        let mut memory = ByteMemory {
            start: START,
            bytes: vec![0; 1 << 20],
        };
        let layout = format(&mut memory, 1 << 20, 65_536);
        assert!(layout.is_some());
        assert_eq!(
            format(&mut memory, 1 << 20, 4096),
            layout,
            "it has a layout"
        );
        assert_eq!(format(&mut memory, 1 << 18, 4096), None, "it is smaller");
        memory.write(START, b"something");
        assert_eq!(format(&mut memory, 1 << 20, 4096), None);
    }
}
