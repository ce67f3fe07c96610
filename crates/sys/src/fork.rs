//! Processes that run a function of this program. They execute no other program, so they share the
//! descriptors and the memory that exist at their start.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal,
    waitpid,
};

/// A process that runs a function. Dropping this value kills it and waits for its end.
#[derive(Debug)]
pub struct Forked {
    pid: Pid,
    /// The process has ended and was waited for, so the kernel may reuse its number.
    is_reaped: bool,
}

impl Forked {
    /// Starts a process that runs `run` and exits with its result, or with 101 if it panics. The
    /// kernel kills it when the calling thread ends.
    ///
    /// # Errors
    /// The process has more than one thread, or a ring, or the limit of processes is reached.
    pub fn start(run: impl FnOnce() -> i32) -> io::Result<Self> {
        let parent = getpid();
        if let Some(pid) = fork()? {
            return Ok(Self {
                pid,
                is_reaped: false,
            });
        }
        let bound = set_parent_process_death_signal(Some(Signal::KILL));
        let code = if bound.is_ok() && getppid() == Some(parent) {
            catch_unwind(AssertUnwindSafe(run)).unwrap_or(101)
        } else {
            // The parent has ended already.
            1
        };
        // SAFETY: the function ends the process at once, without the exit handlers of the parent.
        unsafe { libc::_exit(code) }
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        if !self.is_reaped {
            let ended = waitpid(Some(self.pid), WaitOptions::NOHANG);
            self.is_reaped = matches!(ended, Ok(Some(_)) | Err(Errno::CHILD));
        }
        self.is_reaped
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if self.is_reaped {
            return;
        }
        // A process that has ended already is only waited for.
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// The number of rings of the process.
static RINGS: AtomicUsize = AtomicUsize::new(0);

/// Part of a ring, which is memory that the kernel shares with one process. A child would use it
/// together with its parent; so while a ring exists, the process does not fork.
#[derive(Debug)]
pub(crate) struct OfOneProcess(());

impl OfOneProcess {
    pub(crate) fn new() -> Self {
        RINGS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for OfOneProcess {
    fn drop(&mut self) {
        RINGS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a process with this number of threads must not fork.
fn obstacle(threads: usize) -> Option<&'static str> {
    if threads != 1 {
        // Fork would copy the locks of the others, but not the threads.
        return Some("the process has started threads already");
    }
    let has_ring = RINGS.load(Ordering::Relaxed) > 0;
    has_ring.then_some("the process has a ring that it shares with the kernel")
}

/// Forks. Returns the number of the child, or `None` in the child.
///
/// # Errors
/// The process has more than one thread, or a ring, or the limit of processes is reached.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if let Some(obstacle) = obstacle(threads) {
        return Err(io::Error::other(obstacle));
    }
    // SAFETY: the process has one thread (checked above), so the child has every thread that may
    // hold a lock and may run any code.
    match unsafe { libc::fork() } {
        ..0 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_or_a_ring_does_not_fork() {
        assert!(obstacle(2).is_some_and(|why| why.contains("threads")));
        let _ring = OfOneProcess::new();
        assert!(obstacle(1).is_some_and(|why| why.contains("ring")));
    }
}
