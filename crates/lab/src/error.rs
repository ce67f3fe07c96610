//! Errors outside trials. An error *in* a trial is a recorded result.

use std::io;
use std::path::{Path, PathBuf};

/// Why the lab could not plan or run an experiment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment file is invalid.
    #[error("{place}: {problem}")]
    Experiment {
        /// File, and line where known.
        place: String,
        /// The problem and the remedy.
        problem: String,
    },
    /// The name is neither a shipped experiment nor a file.
    #[error(
        "no experiment `{name}`: it is neither a file nor shipped ({shipped}){}",
        did_you_mean(suggestion.as_deref())
    )]
    NoSuchExperiment {
        /// The name given.
        name: String,
        /// The shipped names.
        shipped: String,
        /// The most similar of them.
        suggestion: Option<String>,
    },
    /// An option contradicts the experiment.
    #[error("{option}: {problem}")]
    Option {
        /// The option as written on the command line.
        option: String,
        /// The problem and the remedy.
        problem: String,
    },
    /// Every server is skipped.
    #[error("no server can take part: {reasons}")]
    NoServers {
        /// Each server with its reason.
        reasons: String,
    },
    /// The machine allows too few open files.
    #[error(
        "{connections} connections need {needed} open files and the limit here is {limit}: raise \
         it (`ulimit -n {needed}`, or LimitNOFILE= of the service) or use fewer connections"
    )]
    OpenFiles {
        /// Connections of the plan.
        connections: u32,
        /// Open files needed.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// Another lab is running in the folder.
    #[error(
        "{} is in use by another lab{}: wait for it, stop it, or name another folder",
        folder.display(),
        process.as_deref().map_or_else(String::new, |pid| format!(" (process {pid})"))
    )]
    Busy {
        /// The run folder.
        folder: PathBuf,
        /// Process id of the other lab, from the lock file.
        process: Option<String>,
    },
    /// The folder cannot be used for this run.
    #[error("{} {problem}", folder.display())]
    Folder {
        /// The run folder.
        folder: PathBuf,
        /// The problem and the remedy.
        problem: String,
    },
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
    /// A record could not be serialised, which is a bug.
    #[error("cannot write {what}: {problem}")]
    Encode {
        /// Which record.
        what: &'static str,
        /// The encoder's error.
        problem: String,
    },
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

    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// `; did you mean …?`, or nothing.
pub(crate) fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// The candidate most similar to `word`, if any is similar enough to suggest.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|&(likeness, _)| likeness > 0.75)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
