//! Memory mapped from the kernel. Creating a mapping reserves its addresses; each page becomes
//! resident on first touch.
//!
//! When the store is built for the model checkers loom and shuttle, `Region` (the memory of the
//! index) and `Table` are the types of `double.rs`. Their words are atomics of the model checker,
//! which can then switch threads at each access. Items stay in plain memory ([`Mapping`]).

mod mapping;
mod nodes;
pub(crate) use mapping::Mapping;

#[cfg(not(any(loom, shuttle)))]
mod table;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use mapping::Mapping as Region;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use table::{Table, Zeroed};

#[cfg(any(loom, shuttle))]
mod double;
#[cfg(any(loom, shuttle))]
pub(crate) use double::{Region, Table, Zeroed};
