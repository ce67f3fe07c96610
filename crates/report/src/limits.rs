//! All bounds of this crate.

/// Size of `plan.toml` or `host.json`.
pub const DESCRIPTION_BYTES: u64 = 1 << 20;

/// Size of `trials.jsonl`.
pub const TRIALS_BYTES: u64 = 256 << 20;

/// Trials of a run.
pub const TRIALS: usize = 100_000;

/// Settings of a run.
pub const SETTINGS: u32 = 1_000;

/// Rates per setting.
pub const RATES: u32 = 1_000;

/// Servers of a run: the number of distinct combinations of colour and shape.
pub const SERVERS: usize = 49;

/// Characters of a server's name in a figure; the page's tables show it in full.
pub const NAME_CHARACTERS: usize = 26;

/// Characters of a server's name in a file name.
pub const FILE_NAME_CHARACTERS: usize = 64;

/// Lines of notes in a figure's file; the page shows all.
pub const NOTE_LINES: usize = 6;

/// Columns of the terminal summary.
pub const TERMINAL_COLUMNS: usize = 100;
