//! Daemons that report to their parent process whether they serve.
//!
//! [`detach`] forks. The child starts a session of its own and becomes the daemon. The parent is
//! called the starter. It waits until the daemon calls [`Ready::report`] or ends, and can exit with
//! a status that tells which of the two has happened. A starter that does not wait, such as
//! memcached's, exits with 0 even if the port is in use.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use crate::fork::fork;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, chdir, setsid, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

/// The byte that the daemon sends when it serves.
const READY: u8 = b'1';
/// The offset that is added to the number of a signal that has ended a daemon, to make an exit
/// status as shells do.
const BY_SIGNAL: i32 = 128;

/// The role of the process that returned from [`detach`].
#[derive(Debug)]
pub enum Role {
    /// The parent, which waits for the daemon.
    Starter(Starting),
    /// The daemon.
    Daemon(Ready),
}

/// A starting daemon, seen from its parent.
#[derive(Debug)]
pub struct Starting {
    pid: Pid,
    pipe: File,
}

/// The outcome of a daemon's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// The daemon serves. Its process id is given.
    Serving(u32),
    /// The daemon has ended before it served. Its exit status is given; it is 128 + N if signal N
    /// has ended the daemon.
    Ended(i32),
}

/// The daemon's end of the pipe to its starter. If it is dropped without a report, the starter
/// waits until the daemon ends.
#[derive(Debug)]
pub struct Ready {
    pipe: File,
}

/// Forks. Returns in both processes; the daemon has a session of its own and no terminal.
///
/// # Errors
/// The process has more than one thread, or a ring, or the limit of processes or descriptors is
/// reached.
pub fn detach() -> io::Result<Role> {
    let (reader, writer): (OwnedFd, OwnedFd) = pipe_with(PipeFlags::CLOEXEC)?;
    match fork()? {
        None => {
            drop(reader);
            setsid()?;
            Ok(Role::Daemon(Ready {
                pipe: File::from(writer),
            }))
        }
        Some(pid) => {
            drop(writer);
            Ok(Role::Starter(Starting {
                pid,
                pipe: File::from(reader),
            }))
        }
    }
}

impl Starting {
    /// Waits until the daemon serves or has ended.
    ///
    /// # Errors
    /// The daemon's exit status cannot be read.
    pub fn wait(mut self) -> io::Result<Started> {
        let mut byte = [0];
        // End of file means that the daemon has ended, which closed the pipe.
        if self.pipe.read_exact(&mut byte).is_ok() && byte[0] == READY {
            return Ok(Started::Serving(
                self.pid.as_raw_nonzero().get().unsigned_abs(),
            ));
        }
        let status = loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(Some((_, status))) => break status,
                Ok(None) => {}
            }
        };
        let by_signal = || status.terminating_signal().map(|signal| BY_SIGNAL + signal);
        let code = status.exit_status().or_else(by_signal);
        Ok(Started::Ended(code.unwrap_or(1)))
    }
}

impl Ready {
    /// Reports that the daemon serves. Before that it redirects the standard streams to
    /// `/dev/null`, unless `keeps_streams`, and changes the working directory to `/`, unless
    /// `keeps_folder` (core dumps are written there).
    ///
    /// # Errors
    /// `/dev/null` cannot be opened, or the directory cannot be changed.
    pub fn report(mut self, keeps_streams: bool, keeps_folder: bool) -> io::Result<()> {
        if !keeps_folder {
            chdir("/")?;
        }
        if !keeps_streams {
            let null = OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/null")?;
            dup2_stdin(&null)?;
            dup2_stdout(&null)?;
            dup2_stderr(&null)?;
        }
        // The daemon continues if the starter was killed.
        let _ = self.pipe.write_all(&[READY]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detach_fails_in_a_process_with_several_threads() {
        // The test harness usually runs tests on threads of their own. Start one more to be sure
        // that there are at least two.
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || wait.recv());
        let refused = detach().unwrap_err();
        assert!(refused.to_string().contains("threads"), "{refused}");
        drop(end);
        let _ = other.join();
    }
}
