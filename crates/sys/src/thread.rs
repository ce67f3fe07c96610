//! Attributes of the calling thread: its processors, its priority, the precision of its sleeps, and
//! how long it waited for a processor.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};

/// Converts processor numbers to the set that the kernel expects. Fails for a number above the
/// maximum of Linux.
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

/// Restricts the calling thread, and all threads that it starts later, to the processors `cpus`.
///
/// # Errors
/// None of these processors is online.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    Ok(sched_setaffinity(None, &cpu_set(cpus)?)?)
}

/// Returns the numbers of the processors on which the calling thread may run.
///
/// # Errors
/// The kernel reports an error. This does not happen in a correct program.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// The "nice" value of the highest priority that is not real-time (setpriority(2)).
pub(crate) const HIGHEST_PRIORITY: i32 = -20;

/// Returns whether this process is allowed to set the highest priority ([`HIGHEST_PRIORITY`]), for
/// example for its children.
#[must_use]
pub fn may_go_first() -> bool {
    // On Linux the priority belongs to a thread. So try to set it on a new thread, which then ends;
    // the calling thread keeps its priority.
    let attempt = || setpriority_process(None, HIGHEST_PRIORITY).is_ok();
    std::thread::spawn(attempt).join().unwrap_or(false)
}

/// Gives the calling thread the real-time scheduling policy `SCHED_FIFO` (sched(7)) and a priority
/// from 1 to 99. The thread then runs before all threads without a real-time policy, and before
/// real-time threads with a lower priority.
///
/// # Errors
/// The process is not allowed to do this (it needs root or `CAP_SYS_NICE`), or the priority is not
/// in the range.
pub fn go_real_time(priority: u8) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: libc::c_int::from(priority),
    };
    // SAFETY: the kernel reads `parameters`, which outlives the call. The call only changes the
    // scheduling of the calling thread (0).
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the sleeps of the calling thread end on time, by reducing its timer slack to 1 ns. With
/// the default slack, a sleep may end up to 50 µs late.
pub fn sleep_precisely() {
    // This fails only on a kernel without timer slack, where it is not needed.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// The run delay of a thread: how long it was ready to run, but had no processor, since it began
/// (`schedstat` in proc(5)). Reading it takes about half a microsecond.
#[derive(Debug)]
pub struct RunDelay(File);

impl RunDelay {
    /// Opens the run delay of the calling thread.
    ///
    /// # Errors
    /// `/proc` is not mounted, or the kernel was built without `CONFIG_SCHED_INFO`.
    pub fn open() -> io::Result<Self> {
        File::open("/proc/thread-self/schedstat").map(Self)
    }

    /// Nanoseconds. None: the kernel's text has another form.
    #[must_use]
    pub fn total_ns(&self) -> Option<u64> {
        // Three numbers of at most 20 digits each: time run, time ready, times run.
        let mut text = [0; 64];
        let len = self.0.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..len]).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn run_delay_grows_while_two_threads_share_a_processor() {
        let cpu = allowed_cpus().unwrap()[0];
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let rival = || {
                pin(&[cpu]).unwrap();
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            scope.spawn(rival);
            scope.spawn(|| {
                pin(&[cpu]).unwrap();
                let delay = RunDelay::open().unwrap();
                let before_ns = delay.total_ns().unwrap();
                while delay.total_ns().unwrap() < before_ns + 1_000_000 {}
                ended.store(true, Ordering::Relaxed);
            });
        });
    }

    #[test]
    fn go_real_time_sets_the_policy_or_reports_missing_permission() {
        let tried = std::thread::spawn(|| {
            // SAFETY: the call only reads the policy of the calling thread.
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
    fn pinned_thread_is_allowed_only_on_its_processor() {
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
