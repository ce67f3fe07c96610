//! Children that stay on their processors and die with their parent.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{
    Pid, Signal, getppid, kill_process, set_parent_process_death_signal, setsid,
};
use rustix::thread::sched_setaffinity;

use crate::thread::cpu_set;

/// What a child is bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The processors it may run on; empty: the parent's.
    pub cpus: Vec<usize>,
    /// It is killed when the *thread* that started it ends, however it ends.
    pub dies_with_parent: bool,
    /// It leads a session of its own, so that the terminal's Ctrl-C does not reach it.
    pub own_session: bool,
}

/// Binds the child that `command` will start.
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
        ..
    } = *bounds;
    let in_child = move || -> io::Result<()> {
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
        if let Some(set) = &set {
            sched_setaffinity(None, set)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe work is allowed. The closure makes
    // four direct system calls and neither allocates (the error path allocates only once the
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
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(kill_process(pid, Signal::TERM)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    #[test]
    fn a_child_stays_on_its_processor_and_ends_when_told() {
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
    fn a_child_dies_with_the_thread_that_started_it() {
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
}
