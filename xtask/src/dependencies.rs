//! What the workspace depends on.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::cargo;
use crate::limits::{self, Limits};

/// Versions, licences and sources (`deny.toml`), what is not used, and the size of the production
/// server.
pub(crate) fn check() -> Result<()> {
    let deny = ["--offline", "check", "--hide-inclusion-graph"];
    let deny = [&["deny"], &deny[..], &["bans", "licenses", "sources"]].concat();
    cargo::run_tool(&deny)?;
    cargo::run_tool(&["shear"])?;
    count_server()
}

/// What the database of RustSec says of them.
pub(crate) fn advisories() -> Result<()> {
    let advisories = ["check", "--hide-inclusion-graph", "advisories"];
    if cargo::has("deny")
        && cargo::command(&["deny", "fetch", "db"])
            .output()?
            .status
            .success()
    {
        return cargo::run_tool(&[&["deny"], &advisories[..]].concat());
    }
    println!("skipped: no database");
    Ok(())
}

/// Each package of the production server is code that runs beside other people's data, so one that
/// brings twenty more is noticed by whoever adds it.
fn count_server() -> Result<()> {
    let server = [
        "--package",
        "curtail",
        "--no-default-features",
        "--features",
        "serve",
    ];
    let list = ["--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let tree = cargo::output(&[&["tree"], &server[..], &list].concat())?;
    let packages: BTreeSet<&str> = tree
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .collect();
    let (count, bound) = (packages.len(), Limits::load()?.serve_crates);
    println!("{count} packages in the production server, at most {bound}");
    if count > bound {
        bail!(
            "leave the newest out, or raise serve_crates in {} and say why",
            limits::PATH
        );
    }
    Ok(())
}
