//! Memory mapped from the kernel. Creating a mapping reserves its addresses; each page becomes
//! resident on first touch.
//!
//! In the models (`crate::sync`), `Region` and `Table` are replaced by the types of `double.rs`.
//! There the words of the index, and the values of tables, are atomics of the model's scheduler, so
//! that it can switch threads at each access. Items stay in plain memory ([`Mapping`]).

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
