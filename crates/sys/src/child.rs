//! Children that stay on their processors and die with their parent.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::fs::{Mode, OFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, kill_process, kill_process_group, pidfd_open,
    set_parent_process_death_signal, setpriority_process, setsid,
};
use rustix::thread::sched_setaffinity;

use crate::thread::{HIGHEST_PRIORITY, cpu_set};

/// What a child is bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The processors it may run on; empty: the parent's.
    pub cpus: Vec<usize>,
    /// It is killed when the *thread* that started it ends, however it ends.
    pub dies_with_parent: bool,
    /// It leads a session of its own, so that the terminal's Ctrl-C does not reach it.
    pub own_session: bool,
    /// It goes before whatever else wants its processors, where the parent may say so
    /// ([`crate::thread::may_go_first`]).
    pub goes_first: bool,
}

/// Binds the child that `command` will start. Signals that the parent blocks
/// ([`crate::signals::Signals::block`]) are let through again in the child: a mask outlives exec,
/// and a server started with SIGTERM blocked could only be killed.
///
/// # Errors
/// `bounds` names a processor number beyond what Linux has.
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
    let in_child = move || -> io::Result<()> {
        unblock_signals();
        if dies_with_parent {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the line above took effect.
            if getppid() != Some(parent) {
                return Err(io::Error::other("the parent is gone"));
            }
        }
        if own_session {
            setsid()?;
        }
        if goes_first {
            go_first(own_session);
        }
        if let Some(set) = &set {
            sched_setaffinity(None, set)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe work is allowed. The closure makes
    // a few direct system calls and neither allocates (the error path allocates only once the
    // parent, whose locks could matter, is gone) nor takes a lock.
    unsafe {
        command.pre_exec(in_child);
    }
    Ok(())
}

/// Asks a process to end.
///
/// # Errors
/// There is no such process, or it is not ours.
pub fn terminate(pid: u32) -> io::Result<()> {
    Ok(kill_process(checked(pid)?, Signal::TERM)?)
}

/// Kills every process of the group that `pid` leads: a child with a session of its own and what
/// it started in turn.
///
/// # Errors
/// There is no such group, or it is not ours.
pub fn kill_group(pid: u32) -> io::Result<()> {
    Ok(kill_process_group(checked(pid)?, Signal::KILL)?)
}

/// A descriptor that becomes readable when `child` has ended, for [`crate::poll::Poll`]. The
/// child must not have been waited for: its number could by then be another's.
///
/// # Errors
/// No descriptor left, or a kernel before 5.3.
pub fn ended(child: &Child) -> io::Result<OwnedFd> {
    Ok(pidfd_open(checked(child.id())?, PidfdFlags::empty())?)
}

fn checked(pid: u32) -> io::Result<Pid> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Sets the highest priority that is not real time: real time would starve the kernel's own
/// threads under a generator that polls. Where the kernel groups what it schedules by session
/// (sched(7), "The autogroup feature"), a priority counts within the session only and the session
/// has one of its own; one that was not opened for this child is left alone. Errors are ignored:
/// callers have checked [`crate::thread::may_go_first`].
fn go_first(own_session: bool) {
    let _ = setpriority_process(None, HIGHEST_PRIORITY);
    if own_session
        && let Ok(file) = rustix::fs::open(c"/proc/self/autogroup", OFlags::WRONLY, Mode::empty())
    {
        let _ = rustix::io::write(file, b"-20");
    }
}

fn unblock_signals() {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is writable; the call initialises it.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set is initialised by the line above; the old mask is not asked for. It cannot
    // fail with a valid `how`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    #[test]
    fn a_child_stays_on_its_cpu_and_ends_on_sigterm() {
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
    fn a_child_is_killed_when_the_thread_that_started_it_exits() {
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
    fn a_signal_blocked_by_the_parent_still_ends_the_child() {
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
    fn killing_a_group_ends_what_the_child_started() {
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
        // The pipe ends only when the grandchild, which holds it too, is gone.
        assert_eq!(output.read(&mut line).unwrap(), 0);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_child_goes_first_where_the_parent_may_say_so() {
        let bounds = Bounds {
            own_session: true,
            goes_first: true,
            ..Bounds::default()
        };
        let mut command = Command::new("sh");
        command.args(["-c", "nice"]);
        bind(&mut command, &bounds).unwrap();
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let here = rustix::process::getpriority_process(None).unwrap();
        let expected = if crate::thread::may_go_first() {
            -20
        } else {
            here
        };
        assert_eq!(said.trim(), expected.to_string());
        let after = rustix::process::getpriority_process(None).unwrap();
        assert_eq!(after, here, "the parent keeps its own");
    }
}
