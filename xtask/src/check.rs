//! What the compiler's own tools say.

use anyhow::Result;

use crate::cargo;

/// Formatting, then lints.
pub(crate) fn all() -> Result<()> {
    format()?;
    lint()
}

/// Formatting, of the fuzz targets too, which are a workspace of their own.
pub(crate) fn format() -> Result<()> {
    cargo::run(&["fmt", "--all", "--check"])?;
    if cargo::root().join("fuzz/Cargo.toml").exists() {
        cargo::run(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])?;
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

const SERVE_ONLY: [&str; 5] = [
    "-p",
    "curtail",
    "--no-default-features",
    "--features",
    "serve",
];

/// The production server alone, linted: code the laboratory keeps alive may be dead there.
pub(crate) fn serve_only_lint() -> Result<()> {
    cargo::run(&[&["clippy"], &SERVE_ONLY[..], &["--", "-D", "warnings"]].concat())
}

/// The same, and built.
pub(crate) fn serve_only() -> Result<()> {
    serve_only_lint()?;
    cargo::run(&[&["build"], &SERVE_ONLY[..]].concat())
}
