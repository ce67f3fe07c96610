//! The machine as it was seen. What is none was not shown.

use std::io;

use sys::ring::Features;

/// What is wanted of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) memory_bytes: u64,
    pub(super) connections: u32,
    pub(super) workers: u32,
    pub(super) backlog: u32,
    /// The laboratory is part of this program.
    pub(super) lab: bool,
}

/// All that was seen.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) is_root: bool,
    pub(super) runtimes: Runtimes,
    pub(super) limits: Limits,
    pub(super) control: Control,
    pub(super) memory: Memory,
    pub(super) processors: Processors,
    pub(super) clock: Clock,
    pub(super) peers: Peers,
}

/// What the server's runtimes stand on.
#[derive(Debug, Clone)]
pub(super) struct Runtimes {
    pub(super) kernel: Option<String>,
    pub(super) rings: Result<Features, NoRings>,
    /// `kernel.io_uring_disabled`: 0 for nobody, 1 for most, 2 for all.
    pub(super) io_uring_disabled: Option<u64>,
    /// `kernel.io_uring_group`: whom 1 does not mean; -1: none.
    pub(super) io_uring_group: Option<i64>,
    /// The group of the user that a server started as root becomes.
    pub(super) server_group: Option<u32>,
    /// System calls of this process pass a filter.
    pub(super) is_filtered: Option<bool>,
    /// What `--runtime auto` takes.
    pub(super) chosen: &'static str,
    /// What the server says of it.
    pub(super) said: Vec<String>,
}

/// Why there are no rings.
#[derive(Debug, Clone)]
pub(super) struct NoRings {
    pub(super) kind: io::ErrorKind,
    /// The kernel refused; otherwise it agreed, and did not do what was asked.
    pub(super) is_refused: bool,
    pub(super) words: String,
}

/// What a process, its kernel and its network may have.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    pub(super) open_files_soft: u64,
    pub(super) open_files_hard: u64,
    /// What a process of this user can raise its own to.
    pub(super) open_files: u64,
    /// `fs.nr_open`: the most one process may be given.
    pub(super) open_files_process: Option<u64>,
    /// `fs.file-nr`: open now, and the most there may be, in all.
    pub(super) open_files_all: Option<(u64, u64)>,
    /// Bytes that may be locked.
    pub(super) locked_bytes: u64,
    pub(super) backlog_max: Option<u64>,
    /// First and last.
    pub(super) local_ports: Option<(u64, u64)>,
    /// `net.ipv4.tcp_tw_reuse`: 0 never, 1 always, 2 on the loopback.
    pub(super) reuses_ports: Option<u64>,
    /// `vm.max_map_count`.
    pub(super) memory_areas: Option<u64>,
    /// A page can be guarded without an area of its own.
    pub(super) has_lightweight_guard_pages: bool,
}

/// A bound, or that there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound<T> {
    None,
    At(T),
}

/// What the control group gives.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Control {
    pub(super) memory_bytes: Option<Bound<u64>>,
    /// Processors' worth of time.
    pub(super) processors: Option<Bound<f64>>,
}

/// Memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pub(super) total_bytes: Option<u64>,
    pub(super) available_bytes: Option<u64>,
    pub(super) swap_bytes: Option<u64>,
    pub(super) swappiness: Option<u64>,
    /// `vm.overcommit_memory`: 0 guesses, 1 always, 2 never more than there is.
    pub(super) overcommit: Option<u64>,
    /// Of `always`, `madvise`, `never`.
    pub(super) huge_pages: Option<String>,
}

/// Processors.
#[derive(Debug, Clone, Default)]
pub(super) struct Processors {
    pub(super) allowed: Vec<usize>,
    pub(super) online: Option<Vec<usize>>,
    /// Those that share a core, for each core of the allowed ones; none: the machine does not say.
    pub(super) cores: Option<Vec<Vec<usize>>>,
    pub(super) is_virtual: Option<bool>,
    pub(super) hypervisor: Option<String>,
    /// The share of processor time that the host has taken since the machine began.
    pub(super) stolen: Option<f64>,
    pub(super) governor: Option<String>,
    pub(super) turbo: Option<Turbo>,
}

/// Whether processors go beyond their nominal frequency, and where that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turbo {
    pub(super) is_on: bool,
    pub(super) off: &'static str,
}

/// Clocks and timers.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    pub(super) source: Option<String>,
    pub(super) sources: Vec<String>,
    pub(super) reading_ns: f64,
    pub(super) resolution_ns: u64,
    /// How much longer than asked short sleeps took: median, and 99 of a hundred.
    pub(super) late_ns: (u64, u64),
    /// What the kernel may add to sleeps of threads that do not ask for precision.
    pub(super) slack_ns: Option<u64>,
    pub(super) may_go_first: bool,
}

/// What the laboratory's experiments find.
#[derive(Debug, Clone, Default)]
pub(super) struct Peers {
    pub(super) servers: Vec<Peer>,
    /// What its largest experiment wants.
    pub(super) connections: u32,
    pub(super) open_files: u64,
}

/// A server to compare with.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) name: String,
    /// Its program and what that calls itself, or why it takes no part.
    pub(super) found: Result<(String, Option<String>), String>,
}
