//! Kills a server if the lab is killed, even if the server has changed its user.
//!
//! The kernel clears the parent-death signal when a process changes its user, as memcached does if
//! root starts it, and the signal does not reach processes that a wrapper script starts. Each
//! server therefore has a guard: a shell that reads from a pipe whose other end only the lab holds.
//! The first line is the process group to guard; its leader writes that line itself before it
//! executes anything. If the
//! shell then reads another line, the server was stopped in order. If the pipe closes without one,
//! the lab has been killed, and the guard kills the server's whole process group.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use sys::child::Bounds;

use crate::error::Error;

/// Reads a process group and another line; at end of file instead of that line, kills the group.
const SCRIPT: &str = "read -r group && { read -r word || kill -9 \"-$group\"; }";

/// A running guard. Dropping it releases the server from the guard: drop it only after the server
/// has been reaped, or just before.
#[derive(Debug)]
pub(crate) struct ProcessGuard {
    shell: Child,
}

impl ProcessGuard {
    /// Starts a guard that guards nothing yet.
    pub(crate) fn start() -> Result<Self, Error> {
        Self::spawn().map_err(Error::system("start /bin/sh"))
    }

    fn spawn() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "curtail-guard"])
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

    /// Where the process to guard announces itself, before it executes anything: from then on, no
    /// moment is without a guard.
    pub(super) fn pipe(&self) -> io::Result<Option<Arc<OwnedFd>>> {
        let pipe = self.shell.stdin.as_ref();
        pipe.map(|it| it.as_fd().try_clone_to_owned().map(Arc::new))
            .transpose()
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            // Two lines, because a guard that guards nothing reads the first as its group. This
            // fails only if the guard itself was killed.
            let _ = pipe.write_all(b"well\nwell\n");
        }
        let _ = self.shell.wait();
    }
}
#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    /// A process that leads a group, and a guard that was started before it.
    fn guarded() -> (Child, ProcessGuard) {
        let guard = ProcessGuard::start().unwrap();
        let mut command = Command::new("tail");
        command.args(["-f", "/dev/null"]);
        let bounds = Bounds {
            own_session: true,
            dies_with_parent: true,
            announces_to: guard.pipe().unwrap(),
            ..Bounds::default()
        };
        sys::child::bind(&mut command, &bounds).unwrap();
        let child = command.spawn().unwrap();
        (child, guard)
    }

    #[test]
    fn a_guard_whose_pipe_closes_kills_the_group() {
        let (mut child, mut guard) = guarded();
        drop(guard.shell.stdin.take());
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_guard_that_is_dropped_kills_nothing() {
        let (mut child, guard) = guarded();
        drop(guard);
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        let mut unused = ProcessGuard::start().unwrap();
        if let Some(pipe) = &mut unused.shell.stdin {
            pipe.write_all(b"well\nwell\n").unwrap();
        }
        assert!(unused.shell.wait().unwrap().success());
    }
}
