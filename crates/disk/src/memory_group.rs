//! A memory control group (cgroups(7), version 1 or 2), which bounds the memory of some processes
//! together with the page cache that they fill.
//!
//! The kernel keeps an empty group until it is removed. The group of a disk is named after its
//! process, and the groups of processes that are gone are removed when the next one is made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::limits;

const PREFIX: &str = "curtail-disk-";

/// A group that this process has made. Dropping it removes it, if no process is left in it.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
}

/// Where groups are made, and the name of the file with their bound.
fn hierarchy() -> io::Result<(PathBuf, &'static str)> {
    let first = Path::new("/sys/fs/cgroup/memory");
    if first.join("memory.limit_in_bytes").exists() {
        return Ok((first.to_owned(), "memory.limit_in_bytes"));
    }
    let second = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_to_string(second.join("cgroup.controllers")).unwrap_or_default();
    if controllers.split_whitespace().any(|it| it == "memory") {
        // Fails if it is enabled already, in a container for example.
        let _ = fs::write(second.join("cgroup.subtree_control"), "+memory");
        return Ok((second.to_owned(), "memory.max"));
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this machine has no memory control groups below /sys/fs/cgroup; leave out the bound of \
         memory, and use files that are larger than the memory",
    ))
}

fn folder_of(pid: u32) -> io::Result<PathBuf> {
    Ok(hierarchy()?.0.join(format!("{PREFIX}{pid}")))
}

impl MemoryGroup {
    /// Makes the group of this process, for at most `bytes`. The process is not in it.
    ///
    /// # Errors
    /// The machine has no such groups, or this process may not make one.
    pub fn create(bytes: u64) -> io::Result<Self> {
        let (parent, bound) = hierarchy()?;
        remove_stale(&parent);
        let folder = folder_of(std::process::id())?;
        fs::create_dir(&folder)?;
        let group = Self { folder };
        fs::write(group.folder.join(bound), bytes.to_string())?;
        Ok(group)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Moves this process into the group of process `pid`, if that has one.
///
/// # Errors
/// The process may not be moved.
pub fn join(pid: u32) -> io::Result<()> {
    let Ok(folder) = folder_of(pid) else {
        return Ok(());
    };
    match fs::write(folder.join("cgroup.procs"), "0") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Removes the groups of processes that are gone. One with processes is kept by the kernel.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .take(limits::STALE_GROUPS)
    {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|it| it.strip_prefix(PREFIX));
        let is_gone = |pid: &str| !Path::new("/proc").join(pid).exists();
        if pid.is_some_and(is_gone) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
