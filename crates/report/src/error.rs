//! What can be wrong with a run folder, said so that it can be put right.

use std::io;
use std::path::{Path, PathBuf};

/// Why a run folder could not be read or its report not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("read {}: {source}; a run folder holds plan.toml, host.json and trials.jsonl", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("write {}: {source}; the folder must be writable and have room", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is larger than any run's.
    #[error("read {}: {bytes} bytes, more than the {limit} a run may have; is this a run folder?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The bound.
        limit: u64,
    },
    /// A file says something else than it must.
    #[error("read {} line {line}: {what}; {remedy}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// A figure could not be drawn.
    #[error(
        "draw figure {figure}: {what}; report.html and trials.csv do not need it, please report this"
    )]
    Draw {
        /// The figure's file stem.
        figure: String,
        /// What went wrong.
        what: String,
    },
    /// The page could not be written out.
    #[error("write the page: {0}; please report this")]
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
