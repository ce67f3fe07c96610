//! What kills a server when the laboratory is killed, though the server gave up its user.
//!
//! The kernel's own "die with the parent" is forgotten when a process changes its user, as
//! memcached started by root does, and it does not reach what a wrapper script starts. So each
//! server has a keeper: a shell that reads from a pipe whose other end only the laboratory
//! holds. A line read: all is well. The pipe's end without one: the laboratory is gone, and the
//! keeper kills the server's whole group.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use sys::child::Bounds;

/// Reads a line, or kills the group of its argument.
const SCRIPT: &str = "read -r word || kill -9 \"-$1\"";

/// A running keeper. Dropped, it is dismissed: drop it only after the server has been reaped or
/// is about to be.
#[derive(Debug)]
pub(super) struct ProcessGuard {
    shell: Child,
}

impl ProcessGuard {
    /// Watches over the group that `pid` leads.
    pub(super) fn over(pid: u32) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "curtail-keeper", &pid.to_string()])
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
            // It fails only where the keeper itself was killed.
            let _ = pipe.write_all(b"well\n");
        }
        let _ = self.shell.wait();
    }
}
