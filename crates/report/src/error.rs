//! Errors of reading a run folder and of writing its report.

use std::io;
use std::path::{Path, PathBuf};

/// Why a run folder could not be read, or its report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("read {}: {source}; a run folder holds plan.toml, host.json and trials.jsonl", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("write {}: {source}; the folder must be writable and its disk not full", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file exceeds its bound.
    #[error("read {}: {bytes} bytes, more than the limit of {limit}; is this a run folder?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The bound.
        limit: u64,
    },
    /// A file has invalid content.
    #[error("read {} line {line}: {what}; {remedy}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The problem.
        what: String,
        /// The remedy.
        remedy: String,
    },
    /// A figure could not be drawn.
    #[error("draw figure {figure}: {what}; please report this")]
    Draw {
        /// The figure's file stem.
        figure: String,
        /// The problem.
        what: String,
    },
    /// There is no history to show.
    #[error("{what}")]
    History {
        /// Why, as a sentence.
        what: String,
    },
    /// The page could not be rendered.
    #[error("render the page: {0}; please report this")]
    Page(#[from] askama::Error),
}

impl Error {
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn content(
        path: &Path,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Content {
            path: path.to_owned(),
            line,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}
