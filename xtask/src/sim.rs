//! Scenarios of the memory pool with faults, in virtual time.

use anyhow::Result;

use crate::cargo;

const RUN: [&str; 5] = ["run", "--package", "sim", "--example", "scenarios"];

/// Runs one scenario and tells of it, or many.
pub(crate) fn run(seed: Option<u64>, first: u64, count: u64) -> Result<()> {
    let numbers = match seed {
        Some(seed) => vec![seed.to_string()],
        None => vec![first.to_string(), count.to_string()],
    };
    let mut line = RUN.to_vec();
    line.extend(["--release", "--"]);
    line.extend(numbers.iter().map(String::as_str));
    cargo::run(&line)
}

/// Runs a thousand scenarios with the program that the tests of the workspace have built, which is
/// sooner than to build a faster one.
pub(crate) fn thousand() -> Result<()> {
    cargo::run(&[&RUN[..], &["--", "0", "1000"]].concat())
}
