//! The kinds of trial of the laboratory itself, each a module.

use crate::kind::Entry;

/// Declares the module of each kind, and lists them all. A module has a constant `ENTRY`.
macro_rules! kinds {
    ($($kind:ident),*) => {
        $(mod $kind;)*

        const OWN: &[Entry] = &[$($kind::ENTRY),*];
    };
}

kinds!(measured);

pub(crate) use measured::{BUILD, NAME as DEFAULT};
pub use measured::{NeededServer, Needs, needs};

/// The laboratory's own kinds, and `more`.
pub(crate) fn all(more: &'static [Entry]) -> impl Iterator<Item = &'static Entry> + Clone {
    OWN.iter().chain(more)
}
