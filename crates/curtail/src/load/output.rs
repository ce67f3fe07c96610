//! What `curtail load` prints besides its tables: the line that names the load, and JSON.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use ::load::{Config, Rate};
use anyhow::Context;

/// The load in words.
pub(super) fn demand_line(config: &Config) -> String {
    match config.rate {
        Rate::PerSecond(rate) => {
            let rate = units::show_rate(rate);
            format!(
                "open loop: {rate} requests/s over {} connections",
                config.connections
            )
        }
        Rate::Max => format!(
            "closed loop: {} connections × depth {}; latency hides the cost of a stall",
            config.connections, config.depth
        ),
    }
}

/// Writes JSON: one line to standard output, indented to a file.
pub(super) fn write_json(
    path: &Path,
    to_text: impl Fn(bool) -> serde_json::Result<String>,
) -> anyhow::Result<()> {
    if path.as_os_str() == "-" {
        let text = to_text(false).context("--json -: standard output")?;
        return writeln!(io::stdout().lock(), "{text}").context("--json -: standard output");
    }
    let context = || format!("--json {}", path.display());
    let mut file = File::create(path).with_context(context)?;
    let text = to_text(true).with_context(context)?;
    writeln!(file, "{text}").with_context(context)
}
