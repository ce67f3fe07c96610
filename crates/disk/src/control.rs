//! Commands for a disk that runs: lines over a Unix socket, one answer each.
//!
//! | command | effect |
//! |---|---|
//! | `delay on`, `delay off` | requests take the time of the law, or none; resets the counts |
//! | `errors on`, `errors off` | all reads and writes fail with EIO |
//! | `counts` | prints [`Counts`](crate::counts::Counts) as JSON |
//! | `reset` | sets all counts to 0 |

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::limits;

/// The name of the socket in the disk's folder.
pub(crate) const SOCKET: &str = "control";

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Delay(bool),
    Errors(bool),
    Counts,
    Reset,
}

impl Command {
    /// The command of a line.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        Ok(match line.trim() {
            "delay on" => Self::Delay(true),
            "delay off" => Self::Delay(false),
            "errors on" => Self::Errors(true),
            "errors off" => Self::Errors(false),
            "counts" => Self::Counts,
            "reset" => Self::Reset,
            other => {
                return Err(format!(
                    "`{other}` is no command: known are delay on|off, errors on|off, counts, reset"
                ));
            }
        })
    }
}

/// The socket of the disk of process `pid`, whose folder is `at`, as other processes reach it.
#[must_use]
pub fn socket_of(pid: u32, at: &Path) -> PathBuf {
    let inside = at.strip_prefix("/").unwrap_or(at);
    Path::new("/proc")
        .join(pid.to_string())
        .join("root")
        .join(inside)
        .join(SOCKET)
}

/// Sends a command to a disk, and returns its answer.
///
/// # Errors
/// There is no such disk, it does not answer in time, or it refuses the command.
pub fn tell(socket: &Path, command: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(limits::CONTROL_TIMEOUT))?;
    stream.write_all(format!("{command}\n").as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream
        .take(limits::ANSWER_LEN as u64)
        .read_to_string(&mut answer)?;
    match answer.trim_end() {
        "" => Err(io::ErrorKind::UnexpectedEof.into()),
        refused if refused.starts_with("error: ") => Err(io::Error::other(
            refused.trim_start_matches("error: ").to_owned(),
        )),
        answer => Ok(answer.to_owned()),
    }
}
