//! Bounds of the study's caches.

/// Slots of an empty table, as in the original (`create_cache`).
pub const SLOTS_INITIAL: usize = 100;
/// Most slots of a table that doubles: a table of this size evicts instead. Only values count
/// against maxmem, so items with empty values would otherwise have no bound.
pub const SLOTS_MAX: usize = SLOTS_INITIAL << 20;

/// The average value length, in bytes, for which [`Presized`](super::Presized) has enough slots.
/// The study's load has a mean of 330 bytes: 1 + σ/(1 − k) of its Pareto distribution with σ =
/// 214.476 and k = 0.348238.
pub const PRESIZED_ITEM_LEN: u64 = 256;
/// Most slots of [`Presized`](super::Presized): about 1.2 GiB, enough for a maxmem of 2 GiB.
pub const PRESIZED_SLOTS_MAX: usize = 1 << 24;

/// Stripes of [`Striped`](super::Striped), a power of two.
pub const STRIPES: usize = 16;
/// Times that a set of [`Striped`](super::Striped) evicts from all stripes before it gives up.
pub const STRIPED_ROUNDS_MAX: usize = 1 << 10;

/// Times that a set yields while sets of other threads have reserved all memory or all slots.
pub const RESERVE_WAITS_MAX: usize = 1 << 20;
/// Times that a set doubles the table before it gives up: as often as the table can double at all.
pub const DOUBLINGS_MAX: usize = 21;

/// The largest item of [`Design::Store`](super::Design::Store) in bytes.
pub const STORE_ITEM_MAX: u64 = 1 << 30;
/// Threads that [`Design::Store`](super::Design::Store) expects to write concurrently; the study
/// has 4.
pub const STORE_WORKERS: usize = 4;

const _: () = assert!(STRIPES.is_power_of_two());
const _: () = assert!(SLOTS_MAX < u32::MAX as usize);
