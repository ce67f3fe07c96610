//! Bounds of the study's caches.

/// Slots of an empty table, as in the original (`create_cache`).
pub const SLOTS_INITIAL: usize = 100;
/// Most slots of a table that doubles: a table of this size evicts instead. Only values count
/// against maxmem, so items with empty values would otherwise have no bound.
pub const SLOTS_MAX: usize = SLOTS_INITIAL << 20;

const _: () = assert!(SLOTS_MAX < u32::MAX as usize);
