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
    /// Voluntary context switches of all threads alive. None: there are more than
    /// [`SWITCHES_THREADS_MAX`].
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches, likewise.
    pub involuntary_switches: Option<u64>,
}

/// Threads of a process beyond which their context switches are not counted: each is a file to
/// read, and with thousands the reading itself would distort the measurement.
pub const SWITCHES_THREADS_MAX: u64 = 256;

impl Cost {
    /// What was paid from `earlier` to `self`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let switches = |now: Option<u64>, before: Option<u64>| {
            now.zip(before)
                .map(|(now, before)| now.saturating_sub(before))
        };
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            resident_bytes: self.resident_bytes,
            voluntary_switches: switches(self.voluntary_switches, earlier.voluntary_switches),
            involuntary_switches: switches(self.involuntary_switches, earlier.involuntary_switches),
        }
    }
}

/// Reads what process `pid` has paid. The sum of user and system time is the kernel's clock of the
/// process, to the nanosecond, threads that have ended included; its division follows the kernel's
/// own ticks of 10 ms.
///
/// # Errors
/// There is no such process, or `/proc` is not mounted.
pub fn of_process(pid: u32) -> io::Result<Cost> {
    // First: what else is read takes its time.
    let total_ns = cpu_ns(pid)?;
    let stat = Stat::read(&fs::read_to_string(format!("/proc/{pid}/stat"))?)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let ticks = stat.user_ticks + stat.system_ticks;
    let user_share = if ticks == 0 {
        1.0
    } else {
        stat.user_ticks as f64 / ticks as f64
    };
    let user_ns = (total_ns as f64 * user_share) as u64;
    let switches = match stat.threads <= SWITCHES_THREADS_MAX {
        true => Some(switches(pid)?),
        false => None,
    };
    Ok(Cost {
        user_ns,
        system_ns: total_ns - user_ns.min(total_ns),
        resident_bytes: field(&status, "VmRSS:") * 1024,
        voluntary_switches: switches.map(|(voluntary, _)| voluntary),
        involuntary_switches: switches.map(|(_, involuntary)| involuntary),
    })
}

/// Processor time of all threads a process has or had.
fn cpu_ns(pid: u32) -> io::Result<u64> {
    let missing = || io::Error::from_raw_os_error(libc::ESRCH);
    let pid = libc::pid_t::try_from(pid).map_err(|_| missing())?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the number is writable for the length of the call.
    let code = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is writable for the length of the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        // It ended meanwhile.
        return Err(missing());
    }
    Ok(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// Context switches of all threads alive: (voluntary, involuntary).
fn switches(pid: u32) -> io::Result<(u64, u64)> {
    let mut sum = (0, 0);
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading.
        let Ok(status) = fs::read_to_string(task?.path().join("status")) else {
            continue;
        };
        sum.0 += field(&status, "voluntary_ctxt_switches:");
        sum.1 += field(&status, "nonvoluntary_ctxt_switches:");
    }
    Ok(sum)
}

/// Processor time the calling process has used: user, system, in nanoseconds.
#[must_use]
pub fn own_times_ns() -> (u64, u64) {
    times_ns(&usage(libc::RUSAGE_SELF))
}

/// Processor time, user and system, of the child processes that have ended and were waited for, in
/// nanoseconds.
#[must_use]
pub fn ended_children_ns() -> u64 {
    let (user_ns, system_ns) = times_ns(&usage(libc::RUSAGE_CHILDREN));
    user_ns + system_ns
}

/// Processor time: user, system.
fn times_ns(usage: &libc::rusage) -> (u64, u64) {
    let ns = |time: libc::timeval| {
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_usec.unsigned_abs() * 1_000
    };
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// Page faults of the calling thread that needed no disk.
#[must_use]
pub fn thread_faults() -> u64 {
    usage(libc::RUSAGE_THREAD).ru_minflt.unsigned_abs()
}

/// What the calling process (`RUSAGE_SELF`), its ended children (`RUSAGE_CHILDREN`) or the calling
/// thread (`RUSAGE_THREAD`) has used.
fn usage(whose: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is writable; with these three arguments the call cannot fail.
    unsafe { libc::getrusage(whose, usage.as_mut_ptr()) };
    // SAFETY: zeroed, then filled by the kernel; every bit pattern is valid.
    unsafe { usage.assume_init() }
}

/// Of `/proc/PID/stat`, whose second field may hold spaces and brackets.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    user_ticks: u64,
    system_ticks: u64,
    threads: u64,
}

impl Stat {
    fn read(stat: &str) -> io::Result<Self> {
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "malformed /proc/PID/stat");
        let (_, rest) = stat.rsplit_once(')').ok_or_else(malformed)?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        // Fields 14, 15 and 20 of proc_pid_stat(5), of which two stand before the bracket.
        match (number(11), number(12), number(17)) {
            (Some(user_ticks), Some(system_ticks), Some(threads)) => Ok(Self {
                user_ticks,
                system_ticks,
                threads,
            }),
            _ => Err(malformed()),
        }
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
        let read = Stat {
            user_ticks: 12,
            system_ticks: 34,
            threads: 1,
        };
        assert_eq!(Stat::read(stat).unwrap(), read);
        assert!(Stat::read("7 nothing").is_err());
    }

    #[test]
    fn what_a_thread_has_paid_stays_when_it_has_ended() {
        let pid = std::process::id();
        let before = of_process(pid).unwrap();
        let busy = std::thread::spawn(|| {
            let start_ns = crate::clock::thread_cpu_ns();
            while crate::clock::thread_cpu_ns() < start_ns + 20_000_000 {}
        });
        busy.join().unwrap();
        let spent = of_process(pid).unwrap().since(&before);
        assert!(spent.user_ns + spent.system_ns >= 20_000_000, "{spent:?}");
        assert!(spent.voluntary_switches.is_some_and(|count| count > 0));
    }

    #[test]
    fn a_page_fault_is_counted_for_the_thread_that_touches_the_page() {
        let bytes = 64 << 20;
        let before = thread_faults();
        // The kernel hands out so much at once as pages that are not there yet.
        let zeroes = std::hint::black_box(vec![0_u8; bytes]);
        let untouched = thread_faults() - before;
        let sum: u64 = zeroes.iter().step_by(4096).copied().map(u64::from).sum();
        assert_eq!(std::hint::black_box(sum), 0);
        // Huge pages are as good.
        let touched = thread_faults() - before;
        assert!(touched >= untouched + 32, "{touched}, {untouched}");
        let of_another = std::thread::spawn(thread_faults).join().unwrap();
        assert!(of_another < touched, "{of_another}");
    }

    #[test]
    fn no_process_is_an_error() {
        assert!(of_process(u32::MAX).is_err());
    }
}
