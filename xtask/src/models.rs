//! Models: what threads share without locks, run in many orders by a scheduler that stands in for
//! the standard library's (`crates/store/src/sync.rs`).

use std::path::PathBuf;

use anyhow::Result;

use crate::cargo;

/// Crates with models, which are their unit tests called so.
const CRATES: [&str; 1] = ["store"];

/// Runs the models of every crate that has some.
pub(crate) fn run() -> Result<()> {
    // A build of its own: the flag changes every crate, and would throw the usual build away.
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| cargo::root().join("target"), PathBuf::from)
        .join("models");
    for name in CRATES {
        let mut command = cargo::command(&["test", "--package", name, "--lib", "--", "models"]);
        command.env("RUSTFLAGS", "--cfg shuttle");
        command.env("CARGO_TARGET_DIR", &target);
        cargo::run_command(&mut command)?;
    }
    Ok(())
}
