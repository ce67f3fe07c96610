//! All bounds of this crate.

/// Size of `host.json`.
pub const DESCRIPTION_BYTES: u64 = 1 << 20;

/// Size of `plan.toml`, which lists every cell.
pub const PLAN_BYTES: u64 = 16 << 20;

/// Factors of a run.
pub const FACTORS: usize = 16;

/// Metrics of a run.
pub const METRICS: usize = 256;

/// Cells of a run, over all stages.
pub const CELLS: usize = 20_000;

/// Figures of a run.
pub const FIGURES: usize = 64;

/// Size of `trials.jsonl`.
pub const TRIALS_BYTES: u64 = 256 << 20;

/// Trials of a run.
pub const TRIALS: usize = 100_000;

/// Servers of a run: the number of distinct combinations of colour and shape.
pub const SERVERS: usize = 49;

/// Characters of a server's name in a figure; the page's tables show it in full.
pub const NAME_CHARACTERS: usize = 26;

/// Characters of the name of a cell in a legend.
pub const CELL_CHARACTERS: usize = 60;

/// Curves that a legend names.
pub const LEGEND_ENTRIES: usize = 24;

/// Parts of a stack: the number of distinct shades.
pub const PARTS: usize = 9;

/// Columns of a heat map; a longer series is drawn in columns of several numbers.
pub const HEAT_MAP_COLUMNS: usize = 240;

/// Published values of a run.
pub const PUBLISHED: usize = 256;

/// Size of a file of histograms.
pub const HISTOGRAM_BYTES: u64 = 64 << 20;

/// Rows of a table in a figure's file; the page and the CSV show all.
pub const TABLE_ROWS: usize = 40;

/// Columns of a table in a figure's file; the page and the CSV show all.
pub const TABLE_COLUMNS: usize = 8;

/// Characters of a server's name in a file name.
pub const FILE_NAME_CHARACTERS: usize = 64;

/// Lines of notes in a figure's file; the page shows all.
pub const NOTE_LINES: usize = 6;

/// Cells that a note on missing trials names.
pub const PLACES: usize = 12;

/// Columns of the terminal summary.
pub const TERMINAL_COLUMNS: usize = 100;

/// Comparisons of a stage, over all metrics.
pub const COMPARISONS: usize = 20_000;

/// Rows of the table below the answer.
pub const FRONT_ROWS: usize = 12;

/// Metrics of the table below the answer.
pub const FRONT_METRICS: usize = 3;

/// Rows of a table of the page; `trials.csv` holds all trials.
pub const PAGE_ROWS: usize = 2_000;

/// Values in a table of cells of the page.
pub const PAGE_VALUES: usize = 50_000;

/// Characters of a plan that the page shows; `plan.toml` holds all of it.
pub const PLAN_CHARACTERS: usize = 100_000;

/// Characters of an experiment's name in a heading of a figure or of the terminal summary.
pub const EXPERIMENT_CHARACTERS: usize = 40;

/// Reasons that a sentence lists.
pub const REASONS: usize = 3;

/// Characters of a reason within a sentence; the page's tables show it in full.
pub const REASON_CHARACTERS: usize = 120;

/// Cells in the terminal summary.
pub const TERMINAL_ROWS: usize = 40;

/// Runs of a gallery: each has a figure within the page.
pub const GALLERY_RUNS: usize = 200;

/// Maximum number of runs in a history, the latest: the names of more are not readable below a
/// figure.
pub const HISTORY_RUNS: usize = 200;
