//! `studies/peers`: benchmarks next to other caches and schedulers, a workspace of its own.
//!
//! What it depends on is built only if it, or a crate that it measures with, has changed.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::cargo;

/// Its manifest.
pub(crate) const MANIFEST: &str = "studies/peers/Cargo.toml";

/// Where a change may break it.
const PLACES: [&str; 6] = [
    "crates/fibre",
    "crates/measure",
    "crates/store",
    "crates/sys",
    "crates/workload",
    "studies/peers",
];

/// Lints, warnings denied, and tests.
pub(crate) fn run() -> Result<()> {
    let of = ["--manifest-path", MANIFEST];
    let lint = ["--all-targets", "--", "-D", "warnings"];
    cargo::run(&[&["clippy"], &of[..], &lint].concat())?;
    cargo::run(&[&["test"], &of[..]].concat())
}

/// The same if one of [`PLACES`] differs from where the branch left `main`; on `main`, from the
/// commit before.
pub(crate) fn run_if_changed() -> Result<()> {
    match has_changed() {
        Some(true) => run(),
        Some(false) => {
            println!("skipped: no change in {}", PLACES.join(", "));
            Ok(())
        }
        None => {
            println!("skipped: git does not know an earlier commit");
            Ok(())
        }
    }
}

fn has_changed() -> Option<bool> {
    let read = |arguments: &[&str]| -> Option<String> {
        let output = git(arguments).output().ok()?;
        output.status.success().then_some(())?;
        String::from_utf8(output.stdout).ok()
    };
    let head = read(&["rev-parse", "HEAD"])?;
    let base = read(&["merge-base", "HEAD", "main"])
        .filter(|base| *base != head)
        .or_else(|| read(&["rev-parse", "HEAD~1"]))?;
    let differ = [&["diff", "--quiet", base.trim(), "--"], &PLACES[..]].concat();
    match git(&differ).status().ok()?.code()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn git(arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .args(["-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(cargo::root())
        .stderr(Stdio::null());
    command
}
