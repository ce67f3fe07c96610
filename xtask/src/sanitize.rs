//! The store and fibres under the address sanitizer, which sees what is read or written where
//! nothing is, or where something was. It needs a nightly compiler; without one it says so and
//! passes.

use std::process::Stdio;

use anyhow::{Context, Result};

use crate::cargo;
use crate::suite::{self, Tally};

/// The tests of what the store does with memory: its own, and those that hold it against the model.
const TESTS: [&str; 8] = [
    "--package",
    "store",
    "--lib",
    "--",
    "tests::bounds",
    "tests::torn",
    "tests::against_model",
    "tests::contention",
];

/// The tests of what fibres do with stacks; the sanitizer is told of every switch between them.
/// Those in documents are left out: they are not linked with it.
const FIBRES: [&str; 5] = [
    "--package",
    "fibre",
    "--features",
    "fibre/sanitizer",
    "--lib",
];

/// Runs them, the search for torn reads for so many seconds.
pub(crate) fn run(seconds: u32) -> Result<()> {
    let Some(host) = nightly_host() else {
        println!("sanitizer skipped: a nightly compiler is not installed");
        return Ok(());
    };
    run_under(&host, "fibres", &FIBRES, seconds)?;
    run_under(&host, "store", &TESTS, seconds)
}

fn run_under(host: &str, name: &str, tests: &[&str], seconds: u32) -> Result<()> {
    let arguments = [&["+nightly", "test", "--target", host], tests].concat();
    let mut command = cargo::command(&arguments);
    command.env("RUSTFLAGS", "-Zsanitizer=address");
    command.env("CARGO_TARGET_DIR", cargo::target_apart("sanitize"));
    command.env("CURTAIL_TORN_SECONDS", seconds.to_string());
    suite::logged(command, &format!("sanitize-{name}"), &mut Tally::default())
        .context("failed under the address sanitizer")
}

/// The platform a nightly compiler builds for; none: there is no such compiler.
fn nightly_host() -> Option<String> {
    let output = cargo::command(&["+nightly", "-vV"])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    host(&text).filter(|_| output.status.success())
}

/// The platform in what a compiler says of itself.
fn host(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_says_for_what_it_builds() {
        let text = "rustc 1.97.0-nightly (0 2026-11-01)\nbinary: rustc\nhost: riscv64-unknown\n";
        assert_eq!(host(text).as_deref(), Some("riscv64-unknown"));
        assert_eq!(host("no such thing"), None);
    }
}
