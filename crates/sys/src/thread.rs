//! The calling thread: its processors and the precision of its sleeps.

use std::io;
use std::num::NonZeroU64;

use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};

pub(crate) fn cpu_set(cpus: &[usize]) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("no processor {cpu}"),
            ));
        }
        set.set(cpu);
    }
    Ok(set)
}

/// Keeps the calling thread, and the threads it starts from now on, on `cpus`.
///
/// # Errors
/// None of them is on line.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    Ok(sched_setaffinity(None, &cpu_set(cpus)?)?)
}

/// The processors the calling thread may run on.
///
/// # Errors
/// The kernel's own.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// The "nice" value that goes first (setpriority(2)).
pub(crate) const HIGHEST_PRIORITY: i32 = -20;

/// Whether this process may give its children the highest priority.
#[must_use]
pub fn may_go_first() -> bool {
    // The priority is the thread's: this one ends with it.
    let attempt = || setpriority_process(None, HIGHEST_PRIORITY).is_ok();
    std::thread::spawn(attempt).join().unwrap_or(false)
}

/// Puts the calling thread into the real-time class (sched(7), `SCHED_FIFO`): it goes before every
/// thread that is not in it, and before those there with a lower priority.
///
/// # Errors
/// It may not: that is root's, or wants `CAP_SYS_NICE`; or there is no such priority.
pub fn go_real_time(priority: u8) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: libc::c_int::from(priority),
    };
    // SAFETY: the kernel reads one structure, which lives through the call, and changes nothing of
    // this process but how the calling thread (0) is scheduled.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the calling thread's sleeps end on time instead of up to 50 µs later.
pub fn sleep_precisely() {
    // Refused only by a kernel without timer slack, which has nothing to set.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_goes_before_others_where_it_may() {
        let tried = std::thread::spawn(|| {
            // SAFETY: it reads the policy of the calling thread.
            go_real_time(1).map(|()| unsafe { libc::sched_getscheduler(0) })
        });
        match tried.join().unwrap() {
            Ok(policy) => assert_eq!(policy, libc::SCHED_FIFO),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
        let no_priority = std::thread::spawn(|| go_real_time(100));
        assert!(no_priority.join().unwrap().is_err());
    }

    #[test]
    fn a_thread_can_be_pinned_to_one_of_its_processors() {
        std::thread::spawn(|| {
            let first = allowed_cpus().unwrap()[0];
            pin(&[first]).unwrap();
            assert_eq!(allowed_cpus().unwrap(), vec![first]);
            assert!(pin(&[100_000]).is_err());
        })
        .join()
        .unwrap();
    }
}
