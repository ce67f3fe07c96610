//! The instrument against servers of known latency.

use anyhow::Result;

use crate::cargo;

/// Builds and runs the calibration in release, arguments passed through.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut line: Vec<&str> = vec![
        "run",
        "--release",
        "--package",
        "curtail-tests",
        "--bin",
        "calibrate",
        "--",
    ];
    line.extend(arguments.iter().map(String::as_str));
    cargo::run(&line)
}
