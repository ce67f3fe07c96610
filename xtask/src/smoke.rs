//! From a build to a report, by the shortest experiment there is.
//!
//! It proves that the pieces fit, not that anything is fast: the experiment is too short for a
//! conclusion, and nothing is concluded from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo;

const EXPERIMENT: &str = "experiments/smoke.toml";

/// Builds in release, runs, and looks at what was left behind.
pub(crate) fn run() -> Result<()> {
    cargo::run(&["build", "--release", "--package", "curtail"])?;
    run_with(&cargo::metadata()?.target_directory.join("release/curtail"))
}

/// The same with a program that is built.
pub(crate) fn run_with(program: &Path) -> Result<()> {
    let into = cargo::metadata()?.target_directory.join("smoke");
    if into.exists() {
        // What an earlier smoke left would answer for this one.
        fs::remove_dir_all(&into)
            .with_context(|| format!("failed to remove {}", into.display()))?;
    }
    let mut command = Command::new(program);
    command
        .current_dir(cargo::root())
        .args(["lab", "run", EXPERIMENT, "--into"])
        .arg(&into);
    cargo::run_command(&mut command)?;
    let found = inspect(&into)?;
    println!(
        "{}: {} measured, {} failed",
        found.report.display(),
        found.measured,
        found.failed
    );
    if found.failed > 0 {
        bail!(
            "{} of the trials failed; {} says why",
            found.failed,
            found.report.display()
        );
    }
    Ok(())
}

/// What a run left behind.
#[derive(Debug)]
struct Found {
    report: PathBuf,
    measured: usize,
    failed: usize,
}

/// Looks for one run folder, `into` itself or directly below it, with a report and a measured
/// trial.
fn inspect(into: &Path) -> Result<Found> {
    let mut folders = vec![into.to_path_buf()];
    let entries = fs::read_dir(into)
        .with_context(|| format!("failed to open the run folder {}", into.display()))?;
    for entry in entries {
        folders.push(entry.context("failed to list the run folder")?.path());
    }
    let Some(report) = folders
        .iter()
        .map(|folder| folder.join("report.html"))
        .find(|report| report.is_file())
    else {
        bail!("no report.html in {} or directly below", into.display());
    };
    let trials = report.with_file_name("trials.jsonl");
    let text = fs::read_to_string(&trials)
        .with_context(|| format!("failed to open {}", trials.display()))?;
    let (measured, failed) =
        count(&text).with_context(|| format!("failed to read {}", trials.display()))?;
    if measured == 0 {
        bail!("{} holds no measured trial", trials.display());
    }
    Ok(Found {
        report,
        measured,
        failed,
    })
}

/// Measured and failed trials of `trials.jsonl`.
fn count(trials: &str) -> Result<(usize, usize)> {
    let (mut measured, mut failed) = (0, 0);
    for line in trials.lines() {
        let trial: serde_json::Value = serde_json::from_str(line)?;
        if trial["outcome"].get("measured").is_some() {
            measured += 1;
        } else {
            failed += 1;
        }
    }
    Ok((measured, failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: &str = r#"{"id": "a", "outcome": {"measured": {"answered": 1}}}"#;
    const FAILED: &str = r#"{"id": "b", "outcome": {"failed": "the server did not start"}}"#;

    fn folder_with(trials: &str, report: bool) -> tempfile::TempDir {
        let into = tempfile::tempdir().unwrap();
        let run = into.path().join("smoke-1");
        fs::create_dir(&run).unwrap();
        fs::write(run.join("trials.jsonl"), trials).unwrap();
        if report {
            fs::write(run.join("report.html"), "<html>").unwrap();
        }
        into
    }

    #[test]
    fn a_report_with_a_measured_trial_is_found_below() {
        let into = folder_with(&format!("{MEASURED}\n{FAILED}\n"), true);
        let found = inspect(into.path()).unwrap();
        assert_eq!((found.measured, found.failed), (1, 1));
        assert!(found.report.ends_with("smoke-1/report.html"));
    }

    #[test]
    fn no_report_and_no_measured_trial_are_errors() {
        let without_report = folder_with(MEASURED, false);
        assert!(
            inspect(without_report.path())
                .unwrap_err()
                .to_string()
                .contains("report.html")
        );
        let all_failed = folder_with(FAILED, true);
        assert!(
            inspect(all_failed.path())
                .unwrap_err()
                .to_string()
                .contains("no measured trial")
        );
    }
}
