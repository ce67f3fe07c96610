//! What is fine, what is worth knowing, what is wrong: a function of what was seen and what is
//! wanted. *Wrong* is what would keep the server or the laboratory from working as documented.

mod limits;
mod measuring;
mod memory;
mod runtimes;

use super::finding::Finding;
use super::machine::{Machine, Wanted};

/// All findings, in the order they are shown.
pub(super) fn findings(machine: &Machine, wanted: &Wanted) -> Vec<Finding> {
    [
        runtimes::findings(machine),
        limits::findings(machine, wanted),
        memory::findings(machine, wanted),
        measuring::findings(machine, wanted),
    ]
    .concat()
}
