//! What the compiler's own tools say.

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

/// The production server alone: linted, because code the laboratory keeps alive may be dead
/// there, and built, because only linking shows that it stands on its own.
pub(crate) fn serve_only() -> Result<()> {
    let features = [
        "-p",
        "curtail",
        "--no-default-features",
        "--features",
        "serve",
    ];
    let clippy = [&["clippy"], &features[..], &["--", "-D", "warnings"]].concat();
    cargo::run(&clippy)?;
    cargo::run(&[&["build"], &features[..]].concat())
}
