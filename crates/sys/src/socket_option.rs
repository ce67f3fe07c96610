//! Options of sockets that rustix does not have.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Sets an option that is an integer used as a flag to 1.
pub(crate) fn switch_on(fd: &OwnedFd, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    set_int(fd, level, option, 1)
}

/// Sets an option that is an integer.
pub(crate) fn set_int(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and the size are those of an integer that outlives the call.
    let failed = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
