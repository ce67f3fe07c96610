//! What can go wrong before or beside a trial. What goes wrong *in* a trial is a recorded result.

use std::io;
use std::path::{Path, PathBuf};

/// Why the laboratory could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment file is wrong: where, what, and the remedy.
    #[error("{place}: {problem}")]
    Experiment {
        /// File, and line where known.
        place: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// Neither a shipped experiment nor a file.
    #[error(
        "no experiment `{name}`: it is neither a file nor shipped ({shipped}){}",
        did_you_mean(suggestion.as_deref())
    )]
    NoSuchExperiment {
        /// What was asked for.
        name: String,
        /// The shipped names.
        shipped: String,
        /// The nearest of them.
        suggestion: Option<String>,
    },
    /// An option contradicts the experiment.
    #[error("{option}: {problem}")]
    Option {
        /// The option as written on the command line.
        option: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// No server is left to measure.
    #[error("no server of `{experiment}` can take part: {reasons}")]
    NoServers {
        /// The experiment.
        experiment: String,
        /// Every server with the reason.
        reasons: String,
    },
    /// The machine allows too few open files.
    #[error(
        "{connections} connections need {needed} open files and the limit here is {limit}: raise \
         it (`ulimit -n {needed}`, or LimitNOFILE= of the service) or ask for fewer connections"
    )]
    OpenFiles {
        /// Connections of the plan.
        connections: u32,
        /// What they need.
        needed: u64,
        /// What there is.
        limit: u64,
    },
    /// Another laboratory is at work in the folder.
    #[error(
        "{} is being run by another lab{}: wait for it, stop it, or start a new run with --fresh",
        folder.display(),
        process.as_deref().map_or_else(String::new, |pid| format!(" (process {pid})"))
    )]
    Busy {
        /// The run folder.
        folder: PathBuf,
        /// The other's process number, as it wrote it down.
        process: Option<String>,
    },
    /// The folder holds something else.
    #[error("{} {problem}", folder.display())]
    Folder {
        /// The run folder.
        folder: PathBuf,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// A file could not be read or written.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused something else.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The user stopped the run before its folder was open.
    #[error("stopped before the first trial")]
    StoppedEarly,
    /// A record could not be put into words. It would be a bug.
    #[error("cannot write {what}: {problem}")]
    Encode {
        /// Which record.
        what: &'static str,
        /// The encoder's reason.
        problem: String,
    },
}

impl Error {
    /// The exit code for it: 130 where the user stopped the run, 1 otherwise.
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

/// The candidate nearest to `word`, if any is near enough to have been meant.
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
