//! Servers under callgrind (valgrind), which counts the instructions of their own code.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::process::memcached_command;

/// The command of a server under callgrind, which writes its messages to the file `log`.
#[must_use]
pub fn under_callgrind(server: &Command, log: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--log-file={}", log.display()))
        .arg(server.get_program())
        .args(server.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The instructions of a server from its start to its end, from its `log`.
///
/// # Errors
/// The log cannot be read, or contains no count.
pub fn instructions(log: &Path) -> Result<f64> {
    let text = fs::read_to_string(log).with_context(|| format!("read {}", log.display()))?;
    // ==123== Collected : 1234567
    let line = text.lines().find(|it| it.contains("Collected :"));
    let number = line.and_then(|it| it.rsplit_once(':')?.1.trim().parse().ok());
    number.context("callgrind has counted nothing")
}

/// The command of a memcached that can start under valgrind: with as many connections as files can
/// be open there. memcached sets the hard limit of open files to that number, and valgrind, which
/// keeps some files for itself, refuses to change the limit.
///
/// # Errors
/// valgrind does not start.
pub fn memcached_for_callgrind(path: &Path) -> Result<Command> {
    let mut limit = Command::new("valgrind");
    limit.args(["-q", "--tool=none", "sh", "-c", "ulimit -H -n"]);
    let output = limit.output().context("start valgrind")?;
    let mut command = memcached_command(path);
    command.args(["-c", String::from_utf8_lossy(&output.stdout).trim()]);
    Ok(command)
}
