//! Models: what threads share without locks, run by a scheduler that stands in for the standard
//! library's (`crates/fibre/src/sync.rs`, `crates/store/src/sync.rs`).
//!
//! Shuttle draws interleavings at random and runs large parts, but under sequential consistency: it
//! cannot see a missing fence or an `Ordering` that is too weak. Loom explores the weak orders too,
//! within bounds, and runs three small parts of the store.

use anyhow::Result;

use crate::cargo;
use crate::suite::{self, Tally};

/// A scheduler, crates and their models, which are their unit tests with this in their names.
struct Models {
    scheduler: &'static str,
    packages: &'static [&'static str],
    filter: &'static str,
}

const ALL: [Models; 2] = [
    Models {
        scheduler: "loom",
        packages: &["store"],
        filter: "weak_memory",
    },
    Models {
        scheduler: "shuttle",
        packages: &["fibre", "store"],
        filter: "models",
    },
];

/// Runs the models of every crate that has some.
pub(crate) fn run() -> Result<()> {
    for models in ALL {
        let Models {
            scheduler,
            packages,
            filter,
        } = models;
        let mut arguments = vec!["test", "--lib"];
        for package in packages {
            arguments.extend(["--package", package]);
        }
        arguments.extend(["--", filter]);
        let mut command = cargo::command(&arguments);
        command.env("RUSTFLAGS", format!("--cfg {scheduler}"));
        command.env(
            "CARGO_TARGET_DIR",
            cargo::target_apart("models").join(scheduler),
        );
        let log = format!("models-{scheduler}");
        suite::logged(command, &log, &mut Tally::default())?;
    }
    Ok(())
}
