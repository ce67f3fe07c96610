//! The resource limits of the calling process: open files, locked memory, core dumps, memory
//! mappings.

use std::io;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

/// Raises the soft limit of open files to at least `wanted`. If `wanted` exceeds the hard limit,
/// tries to raise the hard limit too; if the process is not allowed to, raises the soft limit to
/// the hard limit. Returns the resulting soft limit.
pub fn raise_open_files(wanted: u64) -> u64 {
    let current = getrlimit(Resource::Nofile);
    let soft = current.current.unwrap_or(u64::MAX);
    if soft >= wanted {
        return soft;
    }
    let hard = current.maximum.unwrap_or(u64::MAX);
    let both = Rlimit {
        current: Some(wanted),
        maximum: Some(hard.max(wanted)),
    };
    if setrlimit(Resource::Nofile, both).is_ok() {
        return wanted;
    }
    let within = Rlimit {
        current: Some(hard.min(wanted)),
        maximum: current.maximum,
    };
    if setrlimit(Resource::Nofile, within).is_ok() {
        hard.min(wanted)
    } else {
        soft
    }
}

/// Returns the soft limit of open files, which is in force.
#[must_use]
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns the hard limit of open files, up to which an unprivileged process may raise its soft
/// limit.
#[must_use]
pub fn open_files_hard() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Raises the limit of locked memory as far as the process is allowed to. Returns the resulting
/// limit in bytes. Processes with the privilege `CAP_IPC_LOCK` are not subject to this limit.
pub fn raise_locked_memory() -> u64 {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        let maximum = getrlimit(Resource::Memlock).maximum;
        let within = Rlimit {
            current: maximum,
            maximum,
        };
        // Any process may raise its soft limit to the hard limit, so this does not fail.
        let _ = setrlimit(Resource::Memlock, within);
    }
    getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX)
}

/// Locks all present and future memory of the process, so that it is not swapped out. A page is
/// locked when it is first touched.
///
/// # Errors
/// The limit of locked memory is too low (`ulimit -l`).
pub fn lock_memory() -> io::Result<()> {
    Ok(mlockall(
        MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT,
    )?)
}

/// Raises the size limit of core dumps: to unlimited if the process is allowed to, and otherwise to
/// the hard limit.
///
/// # Errors
/// The hard limit is zero and could not be raised, so that no core dump is written.
pub fn raise_core_dumps() -> io::Result<()> {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    if setrlimit(Resource::Core, unlimited).is_err() {
        let maximum = getrlimit(Resource::Core).maximum;
        let within = Rlimit {
            current: maximum,
            maximum,
        };
        setrlimit(Resource::Core, within)?;
    }
    match getrlimit(Resource::Core).current {
        Some(0) => Err(io::ErrorKind::PermissionDenied.into()),
        _ => Ok(()),
    }
}

/// Enables core dumps again after the process has changed its user, which disables them.
///
/// # Errors
/// The kernel reports an error.
pub fn allow_core_dumps() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// Returns the maximum number of memory mappings of a process (`vm.max_map_count`). Returns the
/// kernel's default if the value cannot be read.
#[must_use]
pub fn memory_areas() -> u64 {
    const DEFAULT: u64 = 65_530;
    std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(DEFAULT)
}

/// Bytes that the kernel takes of a connection before it can send them. A value of some hundred KiB
/// still fits, so that a client that reads costs no further wake-up.
pub(crate) const UNSENT_MAX: libc::c_int = 512 << 10;
/// Bytes of one datagram of netlink: the kernel makes none above 32 KiB.
pub(crate) const NETLINK_BUFFER: usize = 32_768;
/// Datagrams of one answer.
pub(crate) const NETLINK_ANSWERS: usize = 4_096;
/// The kernel answers at once; a driver may take a while to change a device.
pub(crate) const NETLINK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_of_memory_mappings_is_plausible() {
        assert!(memory_areas() > 1_000);
    }

    #[test]
    fn raising_open_files_to_a_lower_value_changes_nothing() {
        let before = open_files();
        assert_eq!(raise_open_files(1), before);
        assert_eq!(open_files(), before);
        assert!(open_files_hard() >= before);
    }
}
