//! Scenarios of the memory pool with faults, in virtual time.

use std::path::Path;
use std::process::Command;

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

/// Runs many with a program that is built.
pub(crate) fn run_with(program: &Path, first: u64, count: u64) -> Result<()> {
    let mut command = Command::new(program);
    command.args([first.to_string(), count.to_string()]);
    cargo::run_command(&mut command)
}
