//! Calls for which the kernel has no memory, and which errors of io_uring_enter(2) end a ring.

use std::io;
use std::time::Duration;

/// How long to wait before the next call if the kernel has no memory for one.
pub(crate) const BACK_OFF: Duration = Duration::from_millis(1);

/// Whether an error of waiting is one that later calls do not repair. Repaired are: a signal came,
/// the time has passed, completions have to be taken first, there is no memory.
pub(crate) fn is_serious(error: &io::Error) -> bool {
    let is_repaired = [libc::ETIME, libc::EINTR, libc::EBUSY]
        .map(Some)
        .contains(&error.raw_os_error());
    !is_repaired && !is_shortage(error)
}

/// Whether the kernel could not allocate memory, for example because the memory of the process's
/// group is used up (EAGAIN in io_uring_enter(2)). This may change.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    [libc::EAGAIN, libc::ENOMEM]
        .map(Some)
        .contains(&error.raw_os_error())
}
