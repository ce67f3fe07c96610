//! A middlebox that steers operations on chains of nodes to their tails: packets in, packets out.
//!
//! ```text
//! clients ═══▶ process ──▶ flows: what was done with each request
//!                 │ ▲        ├─▶ addresses ──▶ chains: where is the tail?
//!         rewrite │ │        └─▶ shared: slots of mapped queue pairs
//!                 ▼ └──────────────────────────── process ◀═══ memory nodes
//! ```
//!
//! Clients append to a chain by a compare-and-swap of the tail's `next` (see the crate `chain`).
//! The tail that a client knows is old when others append. The middlebox sees all of them, and so
//! knows a later one. There are five steps, each a switch: see [`Step`].
//!
//! Invariants:
//! - An operation is acknowledged to a client only after the memory node has acknowledged it.
//! - A failed compare-and-swap is answered as failed.
//! - A READ returns no node that is not linked.
//! - Losing everything that is known here loses time and connections, but no data.
//! - Memory is bounded by [`limits`] and [`Config`]; no input makes a function panic.
//!
//! The reasons are in `docs/decisions/022-steering.md`. Only [`port`] and [`process`] use sockets
//! and the clock; all else has time and frames as arguments. Several cores use several
//! middleboxes, each for a [`Shard`] of the chains.

#![forbid(unsafe_code)]

mod addresses;
mod answers;
mod chains;
mod config;
mod counters;
mod flows;
mod frames;
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
mod mapped;
mod middlebox;
mod plain;
pub mod port;
pub mod process;
mod setup;
mod shared;
mod shared_pairs;
mod steering;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, Faults, Keys, ReadLookup, Shard, Step, Switches};
pub use counters::Counters;
pub use middlebox::{Middlebox, Side, Sizes};
