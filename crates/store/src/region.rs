//! Memory straight from the kernel: reserved at once, paid for page by page as it is touched.
//!
//! For models (`crate::sync`) the words of the index are those of the scheduler, which are no plain
//! memory; items always lie in plain memory.

mod mapping;
mod nodes;
pub(crate) use mapping::Mapping;

#[cfg(not(shuttle))]
mod table;
#[cfg(not(shuttle))]
pub(crate) use mapping::Mapping as Region;
#[cfg(not(shuttle))]
pub(crate) use table::{Table, Zeroed};

#[cfg(shuttle)]
mod double;
#[cfg(shuttle)]
pub(crate) use double::{Region, Table, Zeroed};
