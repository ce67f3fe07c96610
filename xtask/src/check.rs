//! What the compiler's own tools say.

use std::process::Command;

use anyhow::Result;

use crate::{cargo, peers};

/// Formatting, then lints.
pub(crate) fn all() -> Result<()> {
    format()?;
    lint()
}

/// Formatting, also of the fuzz targets and of `studies/peers`, which are workspaces of their own.
pub(crate) fn format() -> Result<()> {
    cargo::run(&["fmt", "--all", "--check"])?;
    for manifest in ["fuzz/Cargo.toml", peers::MANIFEST] {
        cargo::run(&["fmt", "--manifest-path", manifest, "--check"])?;
    }
    Ok(())
}

/// Lints of every target, warnings denied.
pub(crate) fn lint() -> Result<()> {
    cargo::run(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])
}

/// Lints of each feature alone: code that the laboratory keeps alive may be dead in the production
/// server.
pub(crate) fn features() -> Result<()> {
    let each = [
        "--each-feature",
        "--exclude-no-default-features",
        "--exclude-all-features",
        // Which the workspace is linted with.
        "--exclude-features",
        "default,lab",
    ];
    let packages = ["--package", "curtail", "--package", "fibre"];
    let clippy = ["hack", "clippy", "--quiet"];
    cargo::run_tool(&[&clippy[..], &each, &packages, &["--", "-D", "warnings"]].concat())
}

/// Words that are often misspelt.
pub(crate) fn spelling() -> Result<()> {
    let mut typos = Command::new("typos");
    match typos.arg("--version").output() {
        Ok(_) => cargo::run_command(Command::new("typos").current_dir(cargo::root())),
        Err(_) => {
            println!("skipped: typos not installed");
            Ok(())
        }
    }
}
