//! All bounds of nodes and links.

/// Bits of a link that are the address; the others are the generation.
pub const ADDRESS_BITS: u32 = 40;
/// Largest address, in bytes. All are multiples of eight.
pub const ADDRESS_MAX: u64 = (1 << ADDRESS_BITS) - 8;
/// Most nodes that one slot holds one after the other. Then it is never used again, so that no
/// generation returns.
pub const GENERATION_MAX: u32 = (1 << 24) - 1;

/// Length of a node before its key, in bytes.
pub const HEADER_LEN: usize = 48;
/// Length of the part of the header that says which node this is: next, own link, chain.
pub const PREFIX_LEN: usize = 24;
/// Longest key, in bytes (that of memcached).
pub const KEY_LEN_MAX: usize = 250;
/// Longest node, in bytes: header, key and value. The longest message of an RDMA operation here.
pub const NODE_LEN_MAX: usize = 1 << 20;
