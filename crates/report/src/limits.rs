//! Every bound of this room, in one place.

/// Size of `plan.toml` or `host.json`.
pub const DESCRIPTION_BYTES: u64 = 1 << 20;

/// Size of `trials.jsonl`.
pub const TRIALS_BYTES: u64 = 256 << 20;

/// Trials of a run.
pub const TRIALS: usize = 100_000;

/// Servers of a run: as many as colour and shape tell apart in a figure.
pub const SERVERS: usize = 49;

/// Characters of a server's name in a figure; the page has it whole.
pub const NAME_CHARACTERS: usize = 26;

/// Characters of a server's name and the setting of its curve, in a summary.
pub const CURVE_CHARACTERS: usize = 48;

/// Lines of notes under a figure; the page has them all.
pub const NOTE_LINES: usize = 6;

/// Widest line of the summary for a terminal.
pub const TERMINAL_COLUMNS: usize = 100;
