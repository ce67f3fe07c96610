//! How often `curtail lab ab` reports a difference of instructions: between a build and a build
//! that takes some more for each request, and between a build and itself.
//!
//! `cargo bench -p curtail-tests --bench comparison -- [BASELINE CHANGED]`, with git and valgrind.
//! Without the paths of two programs it builds HEAD, and HEAD with three loops of [`TURNS`] turns
//! in the session's answers, which are about 3 % of the instructions of a request. Then it makes 10
//! comparisons of the two and 20 of the first with itself, half a minute each. The experiment
//! counts instructions, so other programs may run meanwhile.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use curtail_tests::process::{curtail_path, installed, target_folder};
use tempfile::TempDir;

/// Of a loop. Unrolled, they are 30 instructions; a request has some 2 870.
const TURNS: u32 = 24;

const CHANGED: usize = 10;
const FOUND_LEAST: usize = 8;
const SAME: usize = 20;
const REPORTED_MOST: usize = 3;

/// What the loop is put before.
const ANCHOR: &str = "            let step = execute::request(";
const SESSION: &str = "crates/session/src/session.rs";

fn main() -> Result<()> {
    if installed("valgrind", "VALGRIND").is_none() {
        println!("skipped: valgrind is not installed");
        return Ok(());
    }
    let scratch = TempDir::new().context("make a folder")?;
    let given: Vec<PathBuf> = env::args()
        .skip(1)
        .filter(|it| !it.starts_with("--"))
        .map(PathBuf::from)
        .collect();
    let [baseline, changed] = match given.as_slice() {
        [] => build(scratch.path())?,
        [baseline, changed] => [baseline.clone(), changed.clone()],
        _ => bail!("give the paths of two programs, or none"),
    };
    let found = count(&baseline, &changed, CHANGED, scratch.path())?;
    let reported = count(&baseline, &baseline, SAME, scratch.path())?;
    let verdict = |held| if held { "reached" } else { "not reached" };
    println!(
        "builds that differ: {found} of {CHANGED} found, at least {FOUND_LEAST}: {}",
        verdict(found >= FOUND_LEAST)
    );
    println!(
        "one build twice: {reported} of {SAME} reported as different, at most {REPORTED_MOST}: {}",
        verdict(reported <= REPORTED_MOST)
    );
    Ok(())
}

/// How many of `runs` comparisons report a difference.
fn count(baseline: &Path, other: &Path, runs: usize, scratch: &Path) -> Result<usize> {
    let mut reported = 0;
    for run in 0..runs {
        let folder = scratch.join("run");
        let output = Command::new(curtail_path())
            .args(["lab", "ab"])
            .args([baseline, other])
            .args([
                "instructions",
                "--quick",
                "--metric",
                "instructions",
                "--seed",
            ])
            .arg((run + 1).to_string())
            .args([
                "--fail-if",
                "instructions > 1x",
                "--fail-if",
                "instructions < 1x",
                "--into",
            ])
            .arg(&folder)
            .output()
            .context("start curtail lab ab")?;
        let text = String::from_utf8_lossy(&output.stdout);
        // The row below the heads of the table.
        let mut table = text.lines().skip_while(|it| !it.contains("ratio [95 %]"));
        let Some(row) = table.nth(1) else {
            let problem = String::from_utf8_lossy(&output.stderr);
            bail!("curtail lab ab: {}\n{text}\n{problem}", output.status);
        };
        reported += usize::from(text.contains("\nexceeded: "));
        println!("{}/{runs}  {}", run + 1, row.trim());
        fs::remove_dir_all(&folder).context("remove the run")?;
    }
    Ok(reported)
}

/// Builds HEAD, and HEAD with the loop.
fn build(scratch: &Path) -> Result<[PathBuf; 2]> {
    let tree = scratch.join("tree");
    let tree_text = tree.to_string_lossy();
    run(Command::new("git").args(["worktree", "add", "--detach", &tree_text, "HEAD"]))?;
    let built = build_both(&tree, scratch);
    run(Command::new("git").args(["worktree", "remove", "--force", &tree_text]))?;
    built
}

fn build_both(tree: &Path, scratch: &Path) -> Result<[PathBuf; 2]> {
    let programs = [scratch.join("baseline"), scratch.join("changed")];
    build_one(tree, &programs[0])?;
    let session = tree.join(SESSION);
    let text = fs::read_to_string(&session).with_context(|| session.display().to_string())?;
    if text.matches(ANCHOR).count() != 1 {
        bail!(
            "{SESSION} has not one line `{}`: adapt this benchmark",
            ANCHOR.trim()
        );
    }
    let turns = format!("for turn in 0..{TURNS}_u32 {{ std::hint::black_box(turn); }}\n").repeat(3);
    fs::write(&session, text.replace(ANCHOR, &(turns + ANCHOR))).context("write the session")?;
    build_one(tree, &programs[1])?;
    Ok(programs)
}

fn build_one(tree: &Path, program: &Path) -> Result<()> {
    let target = target_folder()?.join("ab");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    run(cargo
        .args([
            "build",
            "--profile",
            "dist",
            "--package",
            "curtail",
            "--target-dir",
        ])
        .arg(&target)
        .current_dir(tree))?;
    fs::copy(target.join("dist/curtail"), program).context("copy the program")?;
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    match status.success() {
        true => Ok(()),
        false => bail!("{command:?}: {status}"),
    }
}
