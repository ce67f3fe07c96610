//! Clocks. Reading one takes no system call where the kernel has a vDSO.

use rustix::time::{ClockId, clock_gettime};

const NS_PER_S: u64 = 1_000_000_000;

fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither part is negative for the clocks read here.
    time.tv_sec.unsigned_abs() * NS_PER_S + time.tv_nsec.unsigned_abs()
}

/// Nanoseconds of `CLOCK_MONOTONIC`: the same zero for every process of one machine.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Nanoseconds since 1970.
#[must_use]
pub fn unix_ns() -> u64 {
    read_ns(ClockId::Realtime)
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
