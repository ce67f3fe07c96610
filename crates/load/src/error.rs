//! The errors of a run.

use std::io;

use crate::agents::AgentError;
use crate::config::{ConfigError, Target};
use crate::merge::MergeError;
use crate::units::show_duration;

/// Why a run or a prefill failed. Messages read after "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid setting.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The limit of open files is too low.
    #[error(
        "open {connections} connections: the limit of open files is {limit}; raise it with \
         `ulimit -n {needed}` (or LimitNOFILE= of the service), or open fewer connections"
    )]
    OpenFiles {
        /// Connections to open.
        connections: u32,
        /// The limit in force.
        limit: u64,
        /// The limit needed.
        needed: u64,
    },
    /// The stall detector may not run at real-time priority.
    #[error(
        "run the stall detector at real-time priority: {source}; --detect-stalls needs root or \
         CAP_SYS_NICE"
    )]
    StallDetector {
        /// The kernel's error.
        source: io::Error,
    },
    /// A server cannot be reached.
    #[error(
        "connect to {target}: {source} ({attempts} attempts); is the server running and the \
         address right?"
    )]
    Connect {
        /// The server.
        target: Target,
        /// Attempts made.
        attempts: u32,
        /// The error of the last attempt.
        source: io::Error,
    },
    /// No local port is left.
    #[error(
        "connect to {target}: no local port is left; widen net.ipv4.ip_local_port_range, give \
         several targets, or wait a minute until closed connections leave TIME_WAIT"
    )]
    Ports {
        /// The server.
        target: Target,
    },
    /// A server accepts connections but does not answer.
    #[error(
        "open connections to {target}: no answer to `version` within {waited_s} s; is it a \
         memcached-compatible server, and is it stalled?"
    )]
    Silent {
        /// The server.
        target: Target,
        /// How long the generator waited for an answer.
        waited_s: u64,
    },
    /// A server does not answer over UDP.
    #[error(
        "reach {target} over UDP: no answer to `version` within {waited_ms} ms; does the server \
         listen on UDP (memcached: `-U PORT`)?"
    )]
    SilentUdp {
        /// The server.
        target: Target,
        /// How long the generator waited for an answer.
        waited_ms: u64,
    },
    /// A server answers `version` with something else.
    #[error("open connections to {target}: it answered `version` with `{answer}`")]
    UnexpectedVersion {
        /// The server.
        target: Target,
        /// The answer.
        answer: String,
    },
    /// The server's connection limit is too low.
    #[error(
        "open {wanted} connections to {target}: it answers `ERROR Too many open connections`; \
         start it with `-c {enough}` or more, or open fewer"
    )]
    TooManyConnections {
        /// The server.
        target: Target,
        /// Connections to open to it.
        wanted: u32,
        /// A sufficient value of `-c`.
        enough: u32,
    },
    /// Every connection was lost while running.
    #[error("keep any of {connections} connections: all were lost, the last with: {last}")]
    AllLost {
        /// Connections opened.
        connections: u32,
        /// Why the last was lost.
        last: String,
    },
    /// A prefill lost a connection, or its server stopped answering.
    #[error("fill {target}: {fault} after {stored} records")]
    Prefill {
        /// The server.
        target: Target,
        /// What happened.
        fault: String,
        /// Records stored before the fault.
        stored: u64,
    },
    /// The process to watch does not exist, or cannot be read.
    #[error(
        "read the processor time of process {pid}: {source}; is it the server's process number?"
    )]
    Watch {
        /// The process.
        pid: u32,
        /// The system's error.
        source: io::Error,
    },
    /// A thread cannot be pinned to its processor.
    #[error("pin a thread to processor {cpu}: {source}; name one that is on line")]
    Pin {
        /// The processor.
        cpu: usize,
        /// The system's error.
        source: io::Error,
    },
    /// A script cannot be opened.
    #[error("read --script {path}: {source}; name a file with one operation a line, or `-`")]
    Script {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// Another system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// An agent does not take part in the run.
    #[error("run agent {agent}: {source}")]
    Agent {
        /// Its address.
        agent: String,
        /// Why not.
        source: AgentError,
    },
    /// Every agent has failed or lagged.
    #[error("run any of {agents} agents: all are missing, the first, {agent}, because {reason}")]
    AgentsMissing {
        /// How many there were.
        agents: usize,
        /// The first one.
        agent: String,
        /// Why it is missing.
        reason: String,
    },
    /// The agreed start had passed when it came.
    #[error("start at the agreed time: it was {} late", show_duration(*.late_ns))]
    LateStart {
        /// How late the start came, with the time that a start needs.
        late_ns: u64,
    },
    /// The agents' summaries do not fit together.
    #[error("merge the agents' parts: {0}")]
    Merge(#[from] MergeError),
    /// The run was ended before its time, as its coordinator wanted.
    #[error("end the run: it was stopped")]
    Stopped,
    /// A thread of the generator ended in a panic: a defect of the generator.
    #[error("run a generator thread: it panicked; this is a defect of curtail")]
    Panicked,
}

impl Error {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
