//! The designs by name.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use super::global::Global;
use super::per_entry::PerEntry;
use super::presized::Presized;
use super::small_cache::{SharedCache, SmallCache};
use super::store_cache::StoreCache;
use super::striped::Striped;
use super::unthreaded::Unthreaded;

/// A design of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Design {
    /// The published design: a lock per slot and global locks.
    PerEntry,
    /// The published design without doubling, as its authors propose.
    Presized,
    /// Several unthreaded tables, each behind a lock, with one memory limit.
    Striped,
    /// One unthreaded table behind one lock.
    Global,
    /// One table for one thread: the predecessor of the published design.
    Unthreaded,
    /// Curtail's own store. Maxmem limits all its memory, headers and index included, and is at
    /// least `store::limits::MEMORY_MIN`.
    Store,
}

/// A new cache.
pub enum Created {
    /// A cache for one thread.
    Single(Box<dyn SmallCache>),
    /// A cache for several threads.
    Shared(Arc<dyn SharedCache>),
}

/// Why a cache was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The store refused its memory limit.
    #[error(transparent)]
    Store(#[from] store::ConfigError),
}

/// A name that is not the name of a design.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown design \"{0}\": expected per-entry, presized, striped, global, unthreaded or store"
)]
pub struct UnknownDesign(pub String);

impl Design {
    /// All designs.
    pub const ALL: [Self; 6] = [
        Self::PerEntry,
        Self::Presized,
        Self::Striped,
        Self::Global,
        Self::Unthreaded,
        Self::Store,
    ];

    /// The name in commands and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerEntry => "per-entry",
            Self::Presized => "presized",
            Self::Striped => "striped",
            Self::Global => "global",
            Self::Unthreaded => "unthreaded",
            Self::Store => "store",
        }
    }

    /// An empty cache whose values take at most `maxmem` bytes.
    ///
    /// # Errors
    ///
    /// Only [`Design::Store`] fails: its memory limit is too large.
    pub fn create(self, maxmem: u64) -> Result<Created, CreateError> {
        Ok(match self {
            Self::PerEntry => Created::Shared(Arc::new(PerEntry::new(maxmem))),
            Self::Presized => Created::Shared(Arc::new(Presized::new(maxmem))),
            Self::Striped => Created::Shared(Arc::new(Striped::new(maxmem))),
            Self::Global => Created::Shared(Arc::new(Global::new(maxmem))),
            Self::Unthreaded => Created::Single(Box::new(Unthreaded::new(maxmem))),
            Self::Store => Created::Shared(Arc::new(StoreCache::new(maxmem)?)),
        })
    }
}

impl Display for Design {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Design {
    type Err = UnknownDesign;

    fn from_str(name: &str) -> Result<Self, UnknownDesign> {
        let design = Self::ALL.into_iter().find(|design| design.name() == name);
        design.ok_or_else(|| UnknownDesign(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_design_is_found_by_its_name() {
        for design in Design::ALL {
            assert_eq!(design.to_string().parse(), Ok(design));
        }
        assert!("textile".parse::<Design>().is_err());
    }
}
