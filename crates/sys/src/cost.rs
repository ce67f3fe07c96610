//! What a process has paid so far: processor time, memory, context switches, read from `/proc`.

use std::fs;
use std::io;
use std::mem::MaybeUninit;

/// A reading. Differences of two readings are what an interval cost; `resident_bytes` is a
/// level, not a sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in the kernel.
    pub system_ns: u64,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Voluntary context switches of all threads alive.
    pub voluntary_switches: u64,
    /// Involuntary context switches of all threads alive.
    pub involuntary_switches: u64,
}

impl Cost {
    /// What was paid from `earlier` to `self`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            resident_bytes: self.resident_bytes,
            voluntary_switches: self
                .voluntary_switches
                .saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
        }
    }
}

/// Reads what process `pid` has paid. The sum of user and system time is exact to the
/// nanosecond for the threads alive (`schedstat`); its division follows the kernel's own ticks
/// of 10 ms.
///
/// # Errors
/// There is no such process, or `/proc` is not mounted.
pub fn of_process(pid: u32) -> io::Result<Cost> {
    let (user_ticks, system_ticks) = ticks(&fs::read_to_string(format!("/proc/{pid}/stat"))?)?;
    let mut cost = Cost::default();
    let mut run_ns = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = task?.path();
        // A thread may end between the listing and the reading; what it paid is then in the
        // ticks of the process alone.
        let Ok(status) = fs::read_to_string(path.join("status")) else {
            continue;
        };
        cost.voluntary_switches += field(&status, "voluntary_ctxt_switches:");
        cost.involuntary_switches += field(&status, "nonvoluntary_ctxt_switches:");
        cost.resident_bytes = field(&status, "VmRSS:") * 1024;
        if let Ok(schedstat) = fs::read_to_string(path.join("schedstat")) {
            run_ns += first_number(&schedstat);
        }
    }
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    let ticks = user_ticks + system_ticks;
    let total_ns = if run_ns == 0 { ticks * tick_ns } else { run_ns };
    let user_share = if ticks == 0 {
        1.0
    } else {
        user_ticks as f64 / ticks as f64
    };
    cost.user_ns = (total_ns as f64 * user_share) as u64;
    cost.system_ns = total_ns - cost.user_ns.min(total_ns);
    Ok(cost)
}

/// Processor time the calling process has used: user, system, in nanoseconds.
#[must_use]
pub fn own_times_ns() -> (u64, u64) {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is writable; for RUSAGE_SELF the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    // SAFETY: zeroed, then filled by the kernel; every bit pattern is valid.
    let usage = unsafe { usage.assume_init() };
    let ns = |time: libc::timeval| {
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_usec.unsigned_abs() * 1_000
    };
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// User and system time from `/proc/PID/stat`, whose second field may hold spaces and brackets.
fn ticks(stat: &str) -> io::Result<(u64, u64)> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "malformed /proc/PID/stat");
    let (_, rest) = stat.rsplit_once(')').ok_or_else(malformed)?;
    let mut fields = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    match (fields.next(), fields.next()) {
        (Some(Ok(user)), Some(Ok(system))) => Ok((user, system)),
        _ => Err(malformed()),
    }
}

fn field(status: &str, name: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map_or(0, first_number)
}

fn first_number(text: &str) -> u64 {
    text.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_interval_costs_its_length() {
        let pid = std::process::id();
        let before = of_process(pid).unwrap();
        let before_cpu_ns = crate::clock::process_cpu_ns();
        let deadline_ns = crate::clock::monotonic_ns() + 30_000_000;
        while crate::clock::monotonic_ns() < deadline_ns {}
        let spent = of_process(pid).unwrap().since(&before);
        let spent_cpu_ns = crate::clock::process_cpu_ns() - before_cpu_ns;
        let total_ns = spent.user_ns + spent.system_ns;
        assert!(total_ns > spent_cpu_ns / 2, "{total_ns} of {spent_cpu_ns}");
        assert!(spent.resident_bytes > 100_000);
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 10 0 0 0 12 34 0 0 20 0 1 0 5 0 0";
        assert_eq!(ticks(stat).unwrap(), (12, 34));
        assert!(ticks("7 nothing").is_err());
    }

    #[test]
    fn no_process_is_an_error() {
        assert!(of_process(u32::MAX).is_err());
    }
}
