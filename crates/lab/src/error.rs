//! Errors outside trials. An error *in* a trial is a recorded result.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Why the lab could not plan or run an experiment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is asked for cannot be done: where, the problem and the remedy.
    #[error("{0}")]
    Refused(String),
    /// A file could not be read or written.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The hosts cannot be created or used.
    #[error(transparent)]
    Hosts(#[from] hosts::Error),
    /// Another system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The user stopped the run before its folder was open.
    #[error("stopped before the first trial")]
    StoppedEarly,
}

impl Error {
    /// The exit code: 130 if the user stopped the run, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::StoppedEarly => 130,
            _ => 1,
        }
    }

    /// A problem of a place: of a file or a line of it, of a folder, of an option.
    pub(crate) fn at(place: impl Display, problem: impl Display) -> Self {
        Self::Refused(format!("{place}: {problem}"))
    }

    /// A bug: something has no form in a file.
    pub(crate) fn encode(what: &str, problem: impl Display) -> Self {
        Self::Refused(format!("cannot write {what}: {problem}"))
    }

    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// `; did you mean …?` with the candidate most similar to `word`, if any is similar enough.
pub(crate) fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let likeness = |it: &'a str| (strsim::jaro_winkler(word, it), it);
    let candidates = candidates
        .into_iter()
        .map(likeness)
        .filter(|(likeness, _)| *likeness > 0.75);
    let nearest = candidates.max_by(|(a, _), (b, _)| a.total_cmp(b));
    nearest.map_or_else(String::new, |(_, it)| format!("; did you mean `{it}`?"))
}

/// As [`suggestion`]; all candidates if none is similar.
pub(crate) fn remedy<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    match suggestion(word, candidates.iter().copied()) {
        none if none.is_empty() => format!("; known are {}", candidates.join(", ")),
        near => near,
    }
}
