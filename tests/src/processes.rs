//! Processes that a test did not start itself, and what they change.
// The helpers of tests may panic, as tests may.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How long an event may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Processes whose command line contains `text`. Its words are separated by NUL bytes.
#[must_use]
pub fn processes_with(text: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let line = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.filter(|pid| String::from_utf8_lossy(&line(pid)).contains(text))
        .collect()
}

/// Looks again until something holds. There is no event to wait for in the files of the kernel and
/// of other processes.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
