//! Child processes with a processor affinity, a priority and a session, which are killed when their
//! parent ends.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, kill_process, kill_process_group, pidfd_open,
    set_parent_process_death_signal, setpriority_process, setsid,
};
use rustix::thread::sched_setaffinity;

use crate::thread::{HIGHEST_PRIORITY, cpu_set};

/// The attributes that a child process gets between fork and exec.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// The processors on which the child may run. If empty, the child may run on those of its
    /// parent.
    pub cpus: Vec<usize>,
    /// The kernel kills the child when the *thread* that has started it ends, for whatever reason.
    pub dies_with_parent: bool,
    /// The child leads a session of its own, so that it gets no SIGINT from Ctrl-C in the terminal.
    pub own_session: bool,
    /// The child has the highest priority that is not real-time, if the parent is allowed to set it
    /// ([`crate::thread::may_go_first`]).
    pub goes_first: bool,
    /// Before it executes anything, the child writes the line of its process identity there.
    pub announces_to: Option<Arc<OwnedFd>>,
}

/// Gives the attributes `bounds` to the child that `command` will start.
///
/// Also unblocks all signals in the child. The parent may have blocked some
/// ([`crate::signals::Signals::block`]), and a child inherits the mask across exec. A server that
/// starts with SIGTERM blocked could be ended only by SIGKILL.
///
/// # Errors
/// `bounds` contains a processor number above the maximum of Linux.
pub fn bind(command: &mut Command, bounds: &Bounds) -> io::Result<()> {
    let set = (!bounds.cpus.is_empty())
        .then(|| cpu_set(&bounds.cpus))
        .transpose()?;
    let parent = rustix::process::getpid();
    let Bounds {
        dies_with_parent,
        own_session,
        goes_first,
        ..
    } = *bounds;
    let announces_to = bounds.announces_to.clone();
    let in_child = move || -> io::Result<()> {
        unblock_signals();
        if dies_with_parent {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // If the parent has died before this call, the kernel will not kill the child.
            if getppid() != Some(parent) {
                return Err(io::Error::other("the parent is gone"));
            }
        }
        if own_session {
            setsid()?;
        }
        if let Some(pipe) = &announces_to {
            announce(pipe)?;
        }
        if goes_first {
            go_first(own_session);
        }
        if let Some(set) = &set {
            sched_setaffinity(None, set)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called. The closure
    // makes direct system calls and takes no lock. It allocates only to report that the parent is
    // gone.
    unsafe {
        command.pre_exec(in_child);
    }
    Ok(())
}

/// Writes this process's identity, as a line. Allocates nothing.
fn announce(pipe: &OwnedFd) -> io::Result<()> {
    let mut line = [b'\n'; 12];
    let mut at = line.len() - 1;
    let mut rest = rustix::process::getpid().as_raw_nonzero().get();
    while rest > 0 {
        at -= 1;
        line[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    rustix::io::write(pipe, &line[at..])?;
    Ok(())
}

/// Sends SIGTERM to a process.
///
/// # Errors
/// There is no such process, or this process is not allowed to signal it.
pub fn terminate(pid: u32) -> io::Result<()> {
    Ok(kill_process(checked(pid)?, Signal::TERM)?)
}

/// Kills a process (SIGKILL).
///
/// # Errors
/// There is no such process, or this process is not allowed to signal it.
pub fn kill(pid: u32) -> io::Result<()> {
    Ok(kill_process(checked(pid)?, Signal::KILL)?)
}

/// Kills every process of the process group that `pid` leads. For a child with a session of its
/// own, these are the child and the processes that it has started.
///
/// # Errors
/// There is no such group, or this process is not allowed to signal it.
pub fn kill_group(pid: u32) -> io::Result<()> {
    Ok(kill_process_group(checked(pid)?, Signal::KILL)?)
}

/// Returns a descriptor (pidfd) that becomes readable when `child` has ended, for
/// [`crate::poll::Poll`]. The caller must not have waited for the child before, because its process
/// number could then belong to another process.
///
/// # Errors
/// The limit of descriptors is reached, or the kernel is older than 5.3.
pub fn ended(child: &Child) -> io::Result<OwnedFd> {
    Ok(pidfd_open(checked(child.id())?, PidfdFlags::empty())?)
}

/// The resources that a child process has used, including those of the children that it has waited
/// for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in the kernel.
    pub system_ns: u64,
    /// The greatest resident memory of one of these processes.
    pub resident_bytes: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// Waits for the end of a child, and returns its status and the resources it has used (wait4(2)).
/// The child must not have been waited for before; afterwards, it must not be waited for or killed.
///
/// # Errors
/// The child has been waited for before.
pub fn reap(child: &Child) -> io::Result<(ExitStatus, Usage)> {
    let pid = checked(child.id())?.as_raw_nonzero().get();
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to writable memory of the right type, which lives for the call.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if reaped == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: the structure consists of integers, for which zero is a value, and the call has
    // filled it.
    let usage = unsafe { usage.assume_init() };
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or_default();
    let time = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        seconds * 1_000_000_000 + u64::try_from(time.tv_usec).unwrap_or_default() * 1_000
    };
    Ok((
        ExitStatus::from_raw(status),
        Usage {
            user_ns: time(usage.ru_utime),
            system_ns: time(usage.ru_stime),
            resident_bytes: count(usage.ru_maxrss) * 1024,
            voluntary_switches: count(usage.ru_nvcsw),
            involuntary_switches: count(usage.ru_nivcsw),
        },
    ))
}

/// Converts a process number to a [`Pid`]. Fails for 0 and for numbers above `i32::MAX`.
fn checked(pid: u32) -> io::Result<Pid> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Sets the highest priority ("nice" value) that is not real-time for the calling process. With a
/// real-time priority, a load generator that polls would starve the kernel's own threads.
///
/// If the kernel groups processes by session (sched(7), "The autogroup feature"), the nice value
/// counts only within the session, and the session has a nice value of its own. This function sets
/// both, but the second only if the session was created for this child (`own_session`).
///
/// Errors are ignored, because callers have checked [`crate::thread::may_go_first`].
fn go_first(own_session: bool) {
    let _ = setpriority_process(None, HIGHEST_PRIORITY);
    if own_session
        && let Ok(file) = rustix::fs::open(c"/proc/self/autogroup", OFlags::WRONLY, Mode::empty())
    {
        let _ = rustix::io::write(file, b"-20");
    }
}

/// Unblocks all signals in the calling thread.
fn unblock_signals() {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is writable, and the call initialises it.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set has been initialised. The null pointer means that the old mask is not
    // returned. The call fails only for an invalid first argument.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    #[test]
    #[expect(clippy::zombie_processes, reason = "`reap` waits for it")]
    fn a_reaped_child_has_used_processor_time() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3";
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let (status, usage) = reap(&child).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(usage.user_ns + usage.system_ns > 1_000_000, "{usage:?}");
        assert!(usage.resident_bytes > 100_000, "{usage:?}");
        assert!(reap(&child).is_err());
    }

    #[test]
    fn child_runs_on_its_processor_and_ends_on_sigterm() {
        let cpu = crate::thread::allowed_cpus().unwrap()[0];
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                "grep Cpus_allowed_list /proc/self/status; exec sleep 60",
            ])
            .stdout(Stdio::piped());
        let bounds = Bounds {
            cpus: vec![cpu],
            dies_with_parent: true,
            own_session: true,
            goes_first: false,
            announces_to: None,
        };
        bind(&mut command, &bounds).unwrap();
        let mut child = command.spawn().unwrap();
        let mut line = [0; 64];
        let len = child.stdout.as_mut().unwrap().read(&mut line).unwrap();
        let text = String::from_utf8_lossy(&line[..len]).into_owned();
        assert_eq!(
            text.split_whitespace().last(),
            Some(cpu.to_string().as_str()),
            "{text}"
        );
        terminate(child.id()).unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn child_is_killed_when_the_thread_that_started_it_ends() {
        let mut child = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("60");
            let bounds = Bounds {
                dies_with_parent: true,
                ..Bounds::default()
            };
            bind(&mut command, &bounds).unwrap();
            command.spawn().unwrap()
        })
        .join()
        .unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn signal_blocked_in_the_parent_still_ends_the_child() {
        std::thread::spawn(|| {
            use crate::poll::{Events, Interest, Poll};
            let _signals = crate::signals::Signals::block().unwrap();
            let mut command = Command::new("sleep");
            command.arg("60");
            bind(&mut command, &Bounds::default()).unwrap();
            let mut child = command.spawn().unwrap();
            let poll = Poll::new().unwrap();
            let ended = ended(&child).unwrap();
            poll.add(&ended, 0, Interest::Read).unwrap();
            terminate(child.id()).unwrap();
            let mut events = Events::with_capacity(1);
            poll.wait(&mut events, Some(30_000_000_000)).unwrap();
            assert_eq!(events.len(), 1, "the child did not end");
            child.wait().unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn killing_a_group_ends_the_processes_that_the_child_has_started() {
        let mut command = Command::new("sh");
        command
            .args(["-c", "sleep 60 & echo started; wait"])
            .stdout(Stdio::piped());
        let bounds = Bounds {
            own_session: true,
            ..Bounds::default()
        };
        bind(&mut command, &bounds).unwrap();
        let mut child = command.spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let mut line = [0; 8];
        output.read_exact(&mut line).unwrap();
        kill_group(child.id()).unwrap();
        // The grandchild has the pipe's writing end too. So the end of the stream shows that the
        // grandchild has ended.
        assert_eq!(output.read(&mut line).unwrap(), 0);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn child_gets_the_highest_priority_if_the_parent_may_set_it() {
        let bounds = Bounds {
            own_session: true,
            goes_first: true,
            ..Bounds::default()
        };
        let mut command = Command::new("sh");
        command.args(["-c", "nice"]);
        bind(&mut command, &bounds).unwrap();
        let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let own_priority = rustix::process::getpriority_process(None).unwrap();
        let expected = if crate::thread::may_go_first() {
            -20
        } else {
            own_priority
        };
        assert_eq!(printed.trim(), expected.to_string());
        let after = rustix::process::getpriority_process(None).unwrap();
        assert_eq!(after, own_priority, "the parent's priority has changed");
    }
}
