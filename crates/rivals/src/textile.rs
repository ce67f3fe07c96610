//! The caches of the multithreaded-cache study (A. Kosik and others, Reed College, 2016): the
//! published design, its unthreaded predecessor, and variants that differ from it in their locks.

mod design;
mod global;
pub mod limits;
mod locks;
mod recency;
mod small_cache;
mod table;
mod unthreaded;

pub use design::{CreateError, Created, Design, UnknownDesign};
pub use global::Global;
pub use locks::{LockWaits, Waits};
pub use small_cache::{SharedCache, SmallCache, Stored};
pub use unthreaded::Unthreaded;
