//! The resources that a process has used: processor time, memory and context switches. They are
//! read from the kernel's clock of the process and from `/proc`.

use std::fs;
use std::io;
use std::mem::MaybeUninit;

/// The resources that a process has used since its start. [`Cost::since`] returns the use in an
/// interval. `resident_bytes` is the present value, not a sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Processor time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// Processor time in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Voluntary context switches of all threads that exist now. `None` if there are more than
    /// [`SWITCHES_THREADS_MAX`] threads.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches of all threads that exist now. `None` if there are more than
    /// [`SWITCHES_THREADS_MAX`] threads.
    pub involuntary_switches: Option<u64>,
}

/// Maximum number of threads of a process whose context switches are counted. Counting reads one
/// file per thread. With thousands of threads, that would distort the measurement.
pub const SWITCHES_THREADS_MAX: u64 = 256;

impl Cost {
    /// Returns the use between the readings `earlier` and `self`.
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

/// Reads the resources that process `pid` has used.
///
/// The sum of user and system time is the kernel's clock of the process. It is exact to the
/// nanosecond and includes threads that have ended. The sum is divided into user and system time in
/// the proportion that the kernel counts in `/proc/PID/stat`, in ticks of 10 ms.
///
/// # Errors
/// There is no such process, or `/proc` is not mounted.
pub fn of_process(pid: u32) -> io::Result<Cost> {
    // Read the clock first. Reading the files takes a time that would otherwise be included.
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

/// Returns the processor time of all threads of a process, ended threads included, in nanoseconds.
fn cpu_ns(pid: u32) -> io::Result<u64> {
    let missing = || io::Error::from_raw_os_error(libc::ESRCH);
    let pid = libc::pid_t::try_from(pid).map_err(|_| missing())?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is writable during the call.
    let code = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable during the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        // The process has ended after the last call.
        return Err(missing());
    }
    Ok(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// Returns the voluntary and the involuntary context switches of all threads that exist now.
fn switches(pid: u32) -> io::Result<(u64, u64)> {
    let mut sum = (0, 0);
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // Skip a thread that has ended after the folder was listed.
        let Ok(status) = fs::read_to_string(task?.path().join("status")) else {
            continue;
        };
        sum.0 += field(&status, "voluntary_ctxt_switches:");
        sum.1 += field(&status, "nonvoluntary_ctxt_switches:");
    }
    Ok(sum)
}

/// Returns the user and the system time that the calling process has used, in nanoseconds.
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

/// Returns the number of minor page faults of the calling thread, which needed no disk access.
#[must_use]
pub fn thread_faults() -> u64 {
    usage(libc::RUSAGE_THREAD).ru_minflt.unsigned_abs()
}

/// Returns how often the calling thread has gone to sleep: its voluntary context switches.
#[must_use]
pub fn thread_sleeps() -> u64 {
    usage(libc::RUSAGE_THREAD).ru_nvcsw.unsigned_abs()
}

/// Returns the resource usage of the calling process (`RUSAGE_SELF`), of its ended children
/// (`RUSAGE_CHILDREN`) or of the calling thread (`RUSAGE_THREAD`).
fn usage(whose: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is writable during the call. The call cannot fail for these three values.
    unsafe { libc::getrusage(whose, usage.as_mut_ptr()) };
    // SAFETY: `usage` was zeroed and then filled by the kernel. Every bit pattern is valid.
    unsafe { usage.assume_init() }
}

/// Some fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    user_ticks: u64,
    system_ticks: u64,
    threads: u64,
}

impl Stat {
    /// Parses the text of the file. Its second field is the name of the program in brackets, which
    /// may itself contain spaces and brackets, so parsing starts after the last bracket.
    fn read(stat: &str) -> io::Result<Self> {
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "malformed /proc/PID/stat");
        let (_, rest) = stat.rsplit_once(')').ok_or_else(malformed)?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        // Fields 14 (utime), 15 (stime) and 20 (num_threads) of proc_pid_stat(5). `fields` starts
        // at field 3.
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

/// Returns the number in the line of `/proc/PID/status` that starts with `name`, or 0 without such
/// a line.
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
    fn processor_time_of_a_busy_interval_is_measured() {
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
    fn stat_with_brackets_in_the_program_name_is_parsed() {
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
    fn processor_time_of_an_ended_thread_is_included() {
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
        // For an allocation of this size the kernel only reserves addresses. A page is allocated
        // when it is first touched.
        let zeroes = std::hint::black_box(vec![0_u8; bytes]);
        let untouched = thread_faults() - before;
        let sum: u64 = zeroes.iter().step_by(4096).copied().map(u64::from).sum();
        assert_eq!(std::hint::black_box(sum), 0);
        // 64 MiB are at least 32 pages, even if the kernel uses huge pages of 2 MiB.
        let touched = thread_faults() - before;
        assert!(touched >= untouched + 32, "{touched}, {untouched}");
        let of_another = std::thread::spawn(thread_faults).join().unwrap();
        assert!(of_another < touched, "{of_another}");
    }

    #[test]
    fn cost_of_an_unknown_process_is_an_error() {
        assert!(of_process(u32::MAX).is_err());
    }
}
