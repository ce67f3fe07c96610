//! Models: what threads share without locks, run in many orders by a scheduler that stands in for
//! the standard library's (`crates/fibre/src/sync.rs`,
//! `crates/store/src/sync.rs`).

use anyhow::Result;

use crate::tally::Tally;
use crate::{cargo, suite};

/// Crates with models, which are their unit tests called so.
const CRATES: [&str; 2] = ["fibre", "store"];

/// Runs the models of every crate that has some.
pub(crate) fn run() -> Result<()> {
    let target = cargo::target_apart("models");
    for name in CRATES {
        let mut command = cargo::command(&["test", "--package", name, "--lib", "--", "models"]);
        command.env("RUSTFLAGS", "--cfg shuttle");
        command.env("CARGO_TARGET_DIR", &target);
        suite::run(command, &format!("models-{name}"), &mut Tally::default())?;
    }
    Ok(())
}
