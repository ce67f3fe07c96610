//! Clocks. Reading one takes no system call where the kernel has a vDSO.

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

/// Nanoseconds of `CLOCK_MONOTONIC`: the same zero for every process of one machine.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// The step of `CLOCK_MONOTONIC` and of its timers: 1 ns where the kernel has timers of high
/// resolution, else the time between two ticks.
#[must_use]
pub fn resolution_ns() -> u64 {
    nanoseconds(clock_getres(ClockId::Monotonic))
}

/// Sleeps until [`monotonic_ns`] is that. It may sleep longer by the thread's timer slack
/// ([`crate::thread::sleep_precisely`]).
pub fn sleep_until_ns(time_ns: u64) {
    let time = Timespec {
        tv_sec: (time_ns / NS_PER_S).cast_signed(),
        tv_nsec: (time_ns % NS_PER_S).cast_signed(),
    };
    // A signal may end it early.
    while monotonic_ns() < time_ns
        && clock_nanosleep_absolute(ClockId::Monotonic, &time) == Err(Errno::INTR)
    {}
}

/// Nanoseconds since 1970.
#[must_use]
pub fn unix_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

/// Unix time less monotonic time, in nanoseconds: the narrowest of a few readings of one between
/// two of the other. It drifts where the system's clock is being corrected.
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

/// Processor time of the calling thread in nanoseconds, user and system.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// Processor time of the calling process in nanoseconds, user and system.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    read_ns(ClockId::ProcessCPUTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_does_not_go_back() {
        let first = monotonic_ns();
        assert!(monotonic_ns() >= first);
        assert!(unix_ns() > 1_600_000_000 * NS_PER_S);
        assert!((1..NS_PER_S).contains(&resolution_ns()));
    }

    #[test]
    fn the_offset_of_the_clocks_turns_one_into_the_other() {
        let offset_ns = unix_less_monotonic_ns();
        let difference_ns = unix_ns().abs_diff(monotonic_ns() + offset_ns);
        assert!(difference_ns < 50_000_000, "{difference_ns}");
    }

    #[test]
    fn work_costs_processor_time() {
        let before = thread_cpu_ns();
        let deadline_ns = monotonic_ns() + 2_000_000;
        while monotonic_ns() < deadline_ns {}
        assert!(thread_cpu_ns() > before);
        assert!(process_cpu_ns() >= thread_cpu_ns() / 2);
    }
}
