//! Every bound of this room, in one place.

/// Size of `plan.toml` or `host.json`.
pub const DESCRIPTION_BYTES: u64 = 1 << 20;

/// Size of `trials.jsonl`.
pub const TRIALS_BYTES: u64 = 256 << 20;

/// Trials of a run.
pub const TRIALS: usize = 100_000;

/// Settings of a run.
pub const SETTINGS: u32 = 1_000;

/// Rates under each.
pub const RATES: u32 = 1_000;

/// Servers of a run: as many as colour and shape tell apart in a figure.
pub const SERVERS: usize = 49;

/// Characters of a server's name in a figure; the page has it whole.
pub const NAME_CHARACTERS: usize = 26;

/// Characters of a server's name in the name of a file.
pub const FILE_NAME_CHARACTERS: usize = 64;

/// Lines of notes under a figure; the page has them all.
pub const NOTE_LINES: usize = 6;

/// Widest line of the summary for a terminal.
pub const TERMINAL_COLUMNS: usize = 100;
