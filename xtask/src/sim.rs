//! Scenarios of the memory pool with faults, in virtual time.

use anyhow::Result;

use crate::cargo;

/// Runs one scenario and tells of it, or many.
pub(crate) fn run(seed: Option<u64>, first: u64, count: u64) -> Result<()> {
    let mut line: Vec<String> = [
        "run",
        "--release",
        "--package",
        "sim",
        "--example",
        "scenarios",
        "--",
    ]
    .map(str::to_owned)
    .to_vec();
    match seed {
        Some(seed) => line.push(seed.to_string()),
        None => line.extend([first.to_string(), count.to_string()]),
    }
    cargo::run(&line)
}
