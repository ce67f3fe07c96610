//! The kinds of trial of this program, each a module.

use crate::kind::Entry;

/// Declares the module of each kind, and lists them all. A module has a constant `ENTRY`.
macro_rules! kinds {
    ($($kind:ident),*) => {
        $(mod $kind;)*

        /// The kinds of this program.
        pub(crate) const SHIPPED: &[Entry] = &[$($kind::ENTRY),*];
    };
}

kinds!(measured, model);

pub(crate) use measured::{BUILD, NAME as DEFAULT};
pub use measured::{NeededServer, Needs, needs};
