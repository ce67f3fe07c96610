//! Why a run could not be made.

use std::io;

use crate::config::{ConfigError, Target};

/// Why a run, or a prefill, could not be made. Reads after "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The limit of open files is too low.
    #[error(
        "open {connections} connections: the limit of open files is {limit}; raise it with \
         `ulimit -n {needed}` (or LimitNOFILE= of the service), or ask for fewer connections"
    )]
    OpenFiles {
        /// Connections wanted.
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
        /// What the kernel says.
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
        /// Times it was tried.
        attempts: u32,
        /// What the last ended in.
        source: io::Error,
    },
    /// No local port is left.
    #[error(
        "connect to {target}: no local port is left; widen net.ipv4.ip_local_port_range, give \
         several targets, or wait a minute for closed connections to be forgotten"
    )]
    Ports {
        /// The server.
        target: Target,
    },
    /// A server takes connections but says nothing.
    #[error(
        "open connections to {target}: no answer to `version` overlap_ns {waited_s} s; is it a \
         memcached-compatible server, and is it stalled?"
    )]
    Silent {
        /// The server.
        target: Target,
        /// How long it was waited.
        waited_s: u64,
    },
    /// A server greets with something else than a version.
    #[error("open connections to {target}: it answered `version` with `{answer}`")]
    Greeting {
        /// The server.
        target: Target,
        /// What it said.
        answer: String,
    },
    /// A server has no room for so many connections.
    #[error(
        "open {wanted} connections to {target}: it answers `ERROR Too many open connections`; \
         start it with `-c {enough}` or more, or ask for fewer"
    )]
    TooManyConnections {
        /// The server.
        target: Target,
        /// Connections wanted of it.
        wanted: u32,
        /// What `-c` should be.
        enough: u32,
    },
    /// Every connection was lost while running.
    #[error("keep any of {connections} connections: all were lost, the last with: {last}")]
    AllLost {
        /// Connections opened.
        connections: u32,
        /// What the last was lost to.
        last: String,
    },
    /// A prefill lost a connection or waited in vain.
    #[error("fill {target}: {fault} after {stored} records")]
    Prefill {
        /// The server.
        target: Target,
        /// What happened.
        fault: String,
        /// Records stored by then.
        stored: u64,
    },
    /// The process to watch is not there.
    #[error("read what process {pid} costs: {source}; is it the server's process number?")]
    Watch {
        /// The process.
        pid: u32,
        /// Why not.
        source: io::Error,
    },
    /// A thread cannot stay on its processor.
    #[error("pin a thread to processor {cpu}: {source}; name one that is on line")]
    Pin {
        /// The processor.
        cpu: usize,
        /// Why not.
        source: io::Error,
    },
    /// The operating system refused something else.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A thread of the generator ended in a panic: a defect of the generator.
    #[error("run a generator thread: it panicked; this is a defect of curtail")]
    Panicked,
}

impl Error {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
