//! Kills a server if the lab is killed, even if the server has changed its user.
//!
//! The kernel clears the parent-death signal when a process changes its user, as memcached does if
//! root starts it, and the signal does not reach processes that a wrapper script starts. Each
//! server therefore has a guard: a shell that reads from a pipe whose other end only the lab holds.
//! If the shell reads a line, the server was stopped in order. If the pipe closes without a line,
//! the lab has been killed, and the guard kills the server's whole process group.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use sys::child::Bounds;

/// Reads a line; at end of file, kills the process group of its argument.
const SCRIPT: &str = "read -r word || kill -9 \"-$1\"";

/// A running guard. Dropping it releases the server from the guard: drop it only after the server
/// has been reaped, or just before.
#[derive(Debug)]
pub(super) struct ProcessGuard {
    shell: Child,
}

impl ProcessGuard {
    /// Guards the process group that `pid` leads.
    pub(super) fn over(pid: u32) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "curtail-guard", &pid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let bounds = Bounds {
            own_session: true,
            ..Bounds::default()
        };
        sys::child::bind(&mut command, &bounds)?;
        Ok(Self {
            shell: command.spawn()?,
        })
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            // This fails only if the guard itself was killed.
            let _ = pipe.write_all(b"well\n");
        }
        let _ = self.shell.wait();
    }
}
