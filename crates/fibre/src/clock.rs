//! The system's monotonic clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The present time of the system's monotonic clock, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// The time at which a wait with this timeout must end, in nanoseconds of the monotonic clock. A
/// time that does not fit in a `u64` becomes the largest `u64`, which the clock never reaches.
pub(crate) fn deadline_ns(timeout: Duration) -> u64 {
    let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    monotonic_ns().saturating_add(timeout_ns)
}
