//! What a rule says.

use std::fmt;

/// A rule that is broken somewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    /// From the root of the repository.
    pub(super) path: String,
    /// From 1.
    pub(super) line: usize,
    /// What is there.
    pub(super) what: String,
    /// What to do.
    pub(super) remedy: String,
}

impl Violation {
    /// A broken rule; a line of 0 counts as the first.
    pub(super) fn new(
        path: &str,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            line: line.max(1),
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}; {}",
            self.path, self.line, self.what, self.remedy
        )
    }
}
