//! The process's own limits: open files, locked memory, areas of memory.

use std::io;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

/// Raises the soft limit of open files to `wanted` or, if that is more than the hard limit, to
/// the hard limit (which is itself raised where the process may). Returns the limit in force.
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

/// The soft limit of open files.
#[must_use]
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The hard limit of open files: how far a process without privilege may raise its own.
#[must_use]
pub fn open_files_hard() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Raises the limit of locked memory as far as the process may. Returns the limit in force, in
/// bytes. It applies to processes without the privilege to lock any amount.
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
        // Raising to the hard limit is always allowed.
        let _ = setrlimit(Resource::Memlock, within);
    }
    getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX)
}

/// Keeps all of the process's memory, present and future, from being swapped, from the moment a
/// page of it is used.
///
/// # Errors
/// The limit of locked memory is too low (`ulimit -l`).
pub fn lock_memory() -> io::Result<()> {
    Ok(mlockall(
        MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT,
    )?)
}

/// Raises the limit of core dumps: to unlimited with the privilege for that, otherwise to the hard
/// limit.
///
/// # Errors
/// The limit stays zero.
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

/// Allows core dumps again after a change of the user, which disables them.
///
/// # Errors
/// The kernel refuses.
pub fn allow_core_dumps() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// Maximum number of memory areas the kernel keeps for a process (`vm.max_map_count`); the kernel's
/// default where it does not say.
#[must_use]
pub fn memory_areas() -> u64 {
    const DEFAULT: u64 = 65_530;
    std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_have_areas_of_memory() {
        assert!(memory_areas() > 1_000);
    }

    #[test]
    fn asking_for_what_is_there_changes_nothing() {
        let before = open_files();
        assert_eq!(raise_open_files(1), before);
        assert_eq!(open_files(), before);
        assert!(open_files_hard() >= before);
    }
}
