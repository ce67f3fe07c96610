//! Kills a server if the lab is killed, even if the server has changed its user.
//!
//! The kernel clears the parent-death signal when a process changes its user, as memcached does if
//! root starts it, and the signal does not reach processes that a wrapper script starts. Each
//! server therefore has a guard: a shell that reads from a pipe whose other end only the lab holds.
//! The first line is the process group to guard, so that the guard can be started before it. If the
//! shell then reads another line, the server was stopped in order. If the pipe closes without one,
//! the lab has been killed, and the guard kills the server's whole process group.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use sys::child::Bounds;

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
    pub(super) fn start() -> io::Result<Self> {
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

    /// Guards the process group that `pid` leads. To be called once.
    pub(super) fn watch(&mut self, pid: u32) -> io::Result<()> {
        match &mut self.shell.stdin {
            Some(pipe) => pipe.write_all(format!("{pid}\n").as_bytes()),
            None => Ok(()),
        }
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
        let mut guard = ProcessGuard::start().unwrap();
        let mut command = Command::new("tail");
        command.args(["-f", "/dev/null"]);
        let bounds = Bounds {
            own_session: true,
            dies_with_parent: true,
            ..Bounds::default()
        };
        sys::child::bind(&mut command, &bounds).unwrap();
        let child = command.spawn().unwrap();
        guard.watch(child.id()).unwrap();
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
