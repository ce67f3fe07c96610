//! Clocks. Reading one makes no system call if the kernel provides a vDSO for it.

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

const NS_PER_S: u64 = 1_000_000_000;

fn read_ns(clock: ClockId) -> u64 {
    nanoseconds(clock_gettime(clock))
}

fn nanoseconds(time: Timespec) -> u64 {
    // Neither part is negative for the clocks read here.
    time.tv_sec.unsigned_abs() * NS_PER_S + time.tv_nsec.unsigned_abs()
}

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds. All processes of a machine share this
/// clock.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Returns the resolution of `CLOCK_MONOTONIC` and of its timers, in nanoseconds. It is 1 if the
/// kernel has high-resolution timers, and otherwise the time between two of the kernel's ticks.
#[must_use]
pub fn resolution_ns() -> u64 {
    nanoseconds(clock_getres(ClockId::Monotonic))
}

/// Sleeps until [`monotonic_ns`] is at least `time_ns`. It may sleep longer by the thread's timer
/// slack ([`crate::thread::sleep_precisely`]).
pub fn sleep_until_ns(time_ns: u64) {
    let time = Timespec {
        tv_sec: (time_ns / NS_PER_S).cast_signed(),
        tv_nsec: (time_ns % NS_PER_S).cast_signed(),
    };
    // A signal ends the sleep early, so repeat it.
    while monotonic_ns() < time_ns
        && clock_nanosleep_absolute(ClockId::Monotonic, &time) == Err(Errno::INTR)
    {}
}

/// Returns the unix time: nanoseconds since 1970-01-01 00:00 UTC.
#[must_use]
pub fn unix_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

/// Returns the difference of unix time minus monotonic time, in nanoseconds. It changes slowly
/// while the system's clock is being corrected.
///
/// The unix clock is read between two readings of the monotonic clock, and is taken to belong to
/// the middle of the two. Of eight such attempts, the one with the shortest interval is returned,
/// because its error is at most half of the interval.
#[must_use]
pub fn unix_less_monotonic_ns() -> u64 {
    let reading = || {
        let before_ns = monotonic_ns();
        let unix_ns = unix_ns();
        let after_ns = monotonic_ns();
        let width_ns = after_ns - before_ns;
        (width_ns, unix_ns - (before_ns + width_ns / 2))
    };
    (0..8)
        .map(|_| reading())
        .min()
        .map_or(0, |(_, offset_ns)| offset_ns)
}

/// Returns the processor time of the calling thread in nanoseconds, user and system time together.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// Returns the processor time of the calling process in nanoseconds, user and system time together.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    read_ns(ClockId::ProcessCPUTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_does_not_decrease_and_clocks_have_plausible_values() {
        let first = monotonic_ns();
        assert!(monotonic_ns() >= first);
        assert!(unix_ns() > 1_600_000_000 * NS_PER_S);
        assert!((1..NS_PER_S).contains(&resolution_ns()));
    }

    #[test]
    fn monotonic_time_plus_the_offset_is_unix_time() {
        let offset_ns = unix_less_monotonic_ns();
        let difference_ns = unix_ns().abs_diff(monotonic_ns() + offset_ns);
        assert!(difference_ns < 50_000_000, "{difference_ns}");
    }

    #[test]
    fn processor_time_increases_while_a_thread_is_busy() {
        let before = thread_cpu_ns();
        let deadline_ns = monotonic_ns() + 2_000_000;
        while monotonic_ns() < deadline_ns {}
        assert!(thread_cpu_ns() > before);
        assert!(process_cpu_ns() >= thread_cpu_ns() / 2);
    }
}
