//! All bounds of the lab.

use std::time::Duration;

/// Bytes of an experiment file.
pub const EXPERIMENT_LEN: u64 = 64 << 10;
/// Servers of one experiment.
pub const SERVERS: usize = 8;
/// Arguments of one server's command.
pub const ARGUMENTS: usize = 128;
/// Values of one factor.
pub const LEVELS: usize = 256;
/// Trials of which `lab plan` shows the order.
pub const ORDER_SHOWN: usize = 8;
/// Longest time between two readings of meters while a program runs. Counters of RAPL
/// have 32 bits: those in units of 15 µJ wrap around after 66 kJ, which is 3.6 minutes at 300 W.
pub const METER_GAP: Duration = Duration::from_secs(60);
/// Longest time that a program may take.
pub const PROGRAM_TIMEOUT: Duration = Duration::from_secs(86_400);
/// Time of a load from a script, which ends with the script.
pub const SCRIPT_TIMEOUT: Duration = Duration::from_secs(600);

/// Commands before a program.
pub const BEFORE: usize = 16;
/// Processes beside a program.
pub const BESIDE: usize = 16;
/// Numbers of one series of a trial.
pub const SERIES_LEN: usize = 10_000;
/// Time between two moves of the progress bar.
pub const BAR_GAP: Duration = Duration::from_millis(500);
/// Metrics of a pilot, where no figure says which are of interest.
pub const PILOT_METRICS: usize = 6;
/// Attempts of one trial after the first.
pub const RETRIES: u32 = 10;
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

/// Lateness of a relay, 99th percentile, above which a trial is invalid: as for the generator.
pub const RELAY_LATENESS_NS: u64 = measure::LATENESS_LIMIT_NS;
/// Time between two looks at whether a generator has begun to measure.
pub const INTERVAL_POLL: Duration = Duration::from_millis(5);
/// Stall of the server's processor above which the highest percentiles of a trial do not count.
pub const STALL_NS: u64 = 300_000;

/// Timeout of one attempt to connect to a process that may not listen yet: short, so that a request
/// to stop is noticed soon.
pub const CONNECT_ATTEMPT: Duration = Duration::from_millis(250);
/// Timeout of one attempt of a probe that is a command.
pub const COMMAND_ATTEMPT: Duration = Duration::from_secs(2);
/// Time between two attempts of a probe of a process beside a program.
pub const PROBE_GAP: Duration = Duration::from_millis(5);

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
