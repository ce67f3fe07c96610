//! All bounds of the lab.

use std::time::Duration;

/// Bytes of an experiment file.
pub const EXPERIMENT_LEN: u64 = 64 << 10;
/// Servers of one experiment.
pub const SERVERS: usize = 8;
/// Arguments of one server's command.
pub const ARGUMENTS: usize = 128;
/// Offered rates of one sweep.
pub const CELLS: usize = 64;
/// Settings of one experiment.
pub const SETTINGS: usize = 16;
/// Repeats of a cell, and capacity trials of a server.
pub const REPEATS: u32 = 1_000;
/// Shortest measured interval: a shorter trial has too few requests for a tail.
pub const TRIAL_MIN: Duration = Duration::from_millis(100);
/// Longest measured interval, and longest warm-up.
pub const TRIAL_MAX: Duration = Duration::from_secs(3_600);
/// Highest load level: above it, only the length of the queue changes.
pub const LEVEL: f64 = 10.0;
/// Highest absolute rate, requests per second.
pub const RATE_RPS: f64 = 1e9;
/// Open files that the lab's children need in addition to the generator's connections.
pub const OTHER_FILES: u64 = 512;
/// Consecutive failures of a server after which its remaining trials are not tried.
pub const CONSECUTIVE_FAILURES: u32 = 5;
/// Bytes of the generator's summary.
pub const SUMMARY_LEN: u64 = 32 << 20;
/// Bytes of `trials.jsonl`.
pub const TRIALS_LEN: u64 = 1 << 30;
/// Last lines of a child's log that a failure quotes.
pub const QUOTED_LINES: usize = 4;
/// Last bytes of a child's log that are searched for them.
pub const QUOTED_LEN: u64 = 4 << 10;
/// Bytes of a server's answer to `version`.
pub const VERSION_LEN: usize = 256;
/// Run folders searched for one to resume, newest first.
pub const FOLDERS: usize = 10_000;
/// Ports tried for a server before giving up.
pub const PORT_TRIES: u16 = 256;

/// Timeouts of the lab's waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of a server to its first reply.
    pub start: Duration,
    /// From SIGTERM to the exit of a server, which is then killed.
    pub stop: Duration,
    /// Of the generator, in addition to warm-up and trial: connect, prefill, drain.
    pub generator: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(10),
            stop: Duration::from_secs(10),
            generator: Duration::from_secs(90),
        }
    }
}
