//! Memory mapped from the kernel. Creating a mapping reserves its addresses; each page becomes
//! resident on first touch.
//!
//! In models (`crate::sync`) the words of the index are atomics of the model's scheduler, and not
//! plain memory. Items are always in plain memory.

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
