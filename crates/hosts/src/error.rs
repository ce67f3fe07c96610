//! Errors of hosts.

use std::io;

/// Why hosts could not be created or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value of the layout is outside its bounds.
    #[error("hosts: {key} = {value} is outside its bounds, {bounds}")]
    Bounds {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// The bounds.
        bounds: String,
    },
    /// The process lacks the capabilities for namespaces.
    #[error(
        "not permitted to create hosts as network namespaces: run as root (in a container: with \
         CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_NET_RAW), or use one host: {0}"
    )]
    NotPermitted(io::Error),
    /// `ip` is not on the path.
    #[error("hosts as network namespaces need the program `ip`: install iproute2, or use one host")]
    NoIp,
    /// `ip` rejected its commands.
    #[error("`ip` could not configure {host}: {printed}")]
    Ip {
        /// The host.
        host: String,
        /// Its error output.
        printed: String,
    },
    /// Another system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// An error of an operation that needs root.
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted(source),
            _ => Self::System { what, source },
        }
    }
}
