//! The errors of a run.

use std::io;
use std::net::{IpAddr, SocketAddr};

use units::show_duration;

use crate::agents::AgentError;
use crate::config::{ConfigError, Target};
use crate::merge::MergeError;

/// The reason why a run or a prefill failed. The error text is written to follow "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The limit of open files is too low.
    #[error(
        "open {connections} connections: the limit of open files is {limit}; raise it with \
         `ulimit -n {needed}` (or LimitNOFILE= of the service), or open fewer connections"
    )]
    OpenFiles {
        /// The number of connections to open.
        connections: u32,
        /// The limit, after it was raised as far as possible.
        limit: u64,
        /// The limit that is needed.
        needed: u64,
    },
    /// The kernel does not permit the stall detector to run at real-time priority.
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
        /// The number of attempts made.
        attempts: u32,
        /// The error of the last attempt.
        source: io::Error,
    },
    /// The kernel has no free local port for a connection to the server.
    #[error(
        "connect to {target}: no local port is left; widen net.ipv4.ip_local_port_range, give \
         several targets or --source addresses, or wait a minute until closed connections leave \
         TIME_WAIT"
    )]
    Ports {
        /// The server.
        target: Target,
    },
    /// A server accepts connections but does not answer `version`.
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
    /// A server does not answer `version` over UDP.
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
    /// A server of the protocol textile does not answer.
    #[error(
        "reach {address} over {transport}: {source}; does a server of the protocol textile listen \
         there (--udp-port)?"
    )]
    Unanswered {
        /// `TCP` or `UDP`.
        transport: &'static str,
        /// The address of the server.
        address: SocketAddr,
        /// The error of the last attempt.
        source: io::Error,
    },
    /// A web server does not answer.
    #[error("reach {target} over HTTP: {source}; does a web server listen there?")]
    NoWebServer {
        /// The server.
        target: Target,
        /// The error of the last attempt.
        source: io::Error,
    },
    /// A local address of `--source` cannot be used.
    #[error("send from --source {address}: {source}; give addresses of this host")]
    Source {
        /// The address.
        address: IpAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// A server answers `version` with something other than its version.
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
        /// The number of connections to open to the server.
        wanted: u32,
        /// A value of the server's `-c` that is sufficient.
        enough: u32,
    },
    /// Every measured connection (whose latencies are recorded) was lost during the run.
    #[error("keep any of {connections} connections: all were lost, the last with: {last}")]
    AllLost {
        /// The number of measured connections.
        connections: u32,
        /// The error of the connection that was lost last.
        last: String,
    },
    /// A prefill lost a connection, or its server stopped answering.
    #[error("fill {target}: {fault} after {stored} records")]
    Prefill {
        /// The server.
        target: Target,
        /// The error of the connection, or that no answer came.
        fault: String,
        /// The number of records stored before the fault.
        stored: u64,
    },
    /// The process to watch does not exist, or cannot be read.
    #[error(
        "read the processor time of process {pid}: {source}; is it the server's process number?"
    )]
    Watch {
        /// The number of the process.
        pid: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// A thread cannot be pinned to its processor.
    #[error("pin a thread to processor {cpu}: {source}; name a processor that is online")]
    Pin {
        /// The number of the processor.
        cpu: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// A script cannot be opened.
    #[error("read --script {path}: {source}; name a file with one operation a line, or `-`")]
    Script {
        /// The path of the file.
        path: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// An agent does not take part in the run.
    #[error("run agent {agent}: {source}")]
    Agent {
        /// The address of the agent.
        agent: String,
        /// Why it does not take part.
        source: AgentError,
    },
    /// The shares of all agents are missing, because each agent has failed or lagged.
    #[error("run any of {agents} agents: all are missing, the first, {agent}, because {reason}")]
    AgentsMissing {
        /// The number of agents.
        agents: usize,
        /// The address of the first agent.
        agent: String,
        /// Why the share of the first agent is missing.
        reason: String,
    },
    /// The message with the agreed start time reached the agent too late.
    #[error("start at the agreed time: it was {} late", show_duration(*.late_ns))]
    LateStart {
        /// How much earlier the message should have arrived. The agent needs a short time between
        /// the message and the start of the run, to start its threads.
        late_ns: u64,
    },
    /// The agents' summaries do not fit together.
    #[error("merge the agents' parts: {0}")]
    Merge(#[from] MergeError),
    /// The run was stopped before its end. A coordinator can stop the runs of its agents. A load
    /// that fails stops the measuring client that runs at the same time.
    #[error("end the run: it was stopped")]
    Stopped,
    /// A thread of the generator panicked, which is a defect of the generator.
    #[error("run a generator thread: it panicked; this is a defect of curtail")]
    Panicked,
}

impl Error {
    /// Returns a function that turns the error of a system call into [`Error::System`].
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
