//! Memory straight from the kernel: reserved at once, paid for page by page as it is touched.
//!
//! For models (`crate::sync`) the words of the index are those of the scheduler, which are no plain
//! memory; items always lie in plain memory.

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
