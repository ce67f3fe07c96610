//! A slow disk as a process (`curtail disk run`), for tests.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::curtail_path;

/// Whether this machine can have a slow disk; if not, prints why.
#[must_use]
#[expect(clippy::print_stderr, reason = "a test must report what it skips")]
pub fn can_run() -> bool {
    let lacking = if !rustix::process::geteuid().is_root() {
        "root"
    } else if let Some(absent) = ["/dev/fuse", "/dev/loop-control"]
        .into_iter()
        .find(|it| !Path::new(it).exists())
    {
        absent
    } else if Command::new("mkfs.ext4").arg("-V").output().is_err() {
        "mkfs.ext4"
    } else {
        return true;
    };
    eprintln!("skipped: a slow disk needs {lacking}");
    false
}

/// The command `curtail disk` with these arguments.
#[must_use]
pub fn disk(arguments: &[&str]) -> Command {
    let mut command = Command::new(curtail_path());
    command.arg("disk").args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command that must succeed. Returns its output.
///
/// # Errors
/// It fails.
pub fn succeeds(command: &mut Command) -> Result<String> {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output()?;
    if !status.success() {
        bail!("{status}: {}", String::from_utf8_lossy(&stderr));
    }
    Ok(String::from_utf8(stdout)?)
}

/// A disk that runs until this value is dropped. Its files are below `/mnt/files`, for processes
/// that enter it.
#[derive(Debug)]
pub struct DiskProcess {
    child: Child,
}

impl DiskProcess {
    /// Starts `curtail disk run` with these arguments, and waits until the disk is mounted.
    ///
    /// # Errors
    /// There is no such disk.
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let mut command = disk(&["run"]);
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("no output")?;
        let process = Self { child };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line != format!("disk {} at /mnt/files\n", process.pid()) {
            bail!("the disk printed '{line}'");
        }
        Ok(process)
    }

    /// The process id of the disk.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command to the disk, and returns its answer.
    ///
    /// # Errors
    /// The disk refuses it.
    pub fn tell(&self, command: &str) -> Result<String> {
        succeeds(&mut disk(&["tell", &self.pid().to_string(), command]))
    }

    /// The command that runs another one where the files of the disk are seen. The process becomes
    /// that of the other command.
    #[must_use]
    pub fn inside(&self) -> Command {
        disk(&["enter", &self.pid().to_string(), "--"])
    }

    /// Kills the disk (SIGKILL).
    ///
    /// # Errors
    /// It has ended already.
    pub fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill()?)
    }

    /// Waits for the end of the disk.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn wait(&mut self) -> Result<()> {
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for DiskProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
