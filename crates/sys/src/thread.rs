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

/// Lets the calling thread's sleeps end on time instead of up to 50 µs later.
pub fn sleep_precisely() {
    // Refused only by a kernel without timer slack, which has nothing to set.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

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
