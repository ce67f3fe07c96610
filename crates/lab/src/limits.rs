//! Every bound of the laboratory, named.

use std::time::Duration;

/// Bytes of an experiment file.
pub const EXPERIMENT_LEN: u64 = 64 << 10;
/// Servers of one experiment.
pub const SERVERS: usize = 8;
/// Arguments of one server's command.
pub const ARGUMENTS: usize = 128;
/// Offered rates of one sweep.
pub const CELLS: usize = 64;
/// Settings it is made under.
pub const SETTINGS: usize = 16;
/// Repeats of a cell, and capacity trials of a server.
pub const REPEATS: u32 = 1_000;
/// Shortest measured interval: below it a trial has too few requests to have a tail.
pub const TRIAL_MIN: Duration = Duration::from_millis(100);
/// Longest measured interval, and longest warm-up.
pub const TRIAL_MAX: Duration = Duration::from_secs(3_600);
/// Highest load level: beyond it nothing new is learned but how long a queue grows.
pub const LEVEL: f64 = 10.0;
/// Highest absolute rate, requests per second.
pub const RATE_RPS: f64 = 1e9;
/// Open files the laboratory's children need beside the generator's connections.
pub const OTHER_FILES: u64 = 512;
/// Failures of one server, one after another, that end its trials.
pub const CONSECUTIVE_FAILURES: u32 = 5;
/// Bytes of the generator's summary.
pub const SUMMARY_LEN: u64 = 32 << 20;
/// Bytes of `trials.jsonl`.
pub const TRIALS_LEN: u64 = 1 << 30;
/// Lines of a child's log that a failure quotes.
pub const QUOTED_LINES: usize = 4;
/// Bytes of a child's log that are looked at for them.
pub const QUOTED_LEN: u64 = 4 << 10;
/// Bytes of a server's answer to `version`.
pub const VERSION_LEN: usize = 256;
/// Run folders looked at for one to resume, newest first.
pub const FOLDERS: usize = 10_000;
/// Ports tried for a server before giving up.
pub const PORT_TRIES: u16 = 256;

/// How long the laboratory waits for others. Every wait has an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a started server to answer.
    pub start: Duration,
    /// For a server to end after SIGTERM; then it is killed.
    pub stop: Duration,
    /// For the generator, beyond its warm-up and trial: connecting, filling, draining.
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
