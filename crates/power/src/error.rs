//! What goes wrong with knobs and meters.

use std::io;
use std::path::PathBuf;

/// Reads after *failed to*.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The guard.
    #[error("run the guard that restores the knobs: {0}")]
    Guard(#[source] io::Error),
    /// It was killed.
    #[error("restore the knobs: the guard was killed; `curtail power restore` reads {path}", path = .0.display())]
    GuardKilled(PathBuf),
    /// Another session, or what one has left.
    #[error(
        "set knobs: {path} exists, so another session runs, or was killed together with its guard; \
         then `curtail power restore` restores what it has set", path = .0.display()
    )]
    Busy(PathBuf),
    /// A value.
    #[error("set {name}: {problem}")]
    Value {
        /// The knob.
        name: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A place.
    #[error("set {name} at {place}: {source}")]
    Place {
        /// The knob.
        name: &'static str,
        /// Where.
        place: String,
        /// What the kernel said.
        source: io::Error,
    },
}
