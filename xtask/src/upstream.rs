//! memcached's own tests, the `t/*.t` of its source tree, against this server.
//!
//! They are Perl programs that start `memcached-debug` of the tree they are in. A scratch tree has
//! copies of them, and a script of that name that starts `curtail`, with `--debug-time`.
//! `xtask/upstream.toml` says which files are of features that the server does not have, and which
//! fail, with the reasons; anything else that fails is an error, and so is a file that passes
//! although it is listed, unless chance decides.

mod expected;
mod tap;
mod tree;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo;
use expected::Expected;
use tap::Report;
use tree::Tree;

/// The exit status of coreutils' `timeout` after it has ended the command.
const TIMED_OUT: i32 = 124;

/// How long a file may take to remove its sockets and end its servers after a time-out.
const KILL_AFTER_S: u32 = 10;

/// Subtests named at most of one file.
const NAMES_SHOWN: usize = 3;

/// Characters shown at most of a subtest's name. Some contain a value.
const NAME_SHOWN: usize = 60;

/// What is run, and how.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The source tree of memcached
    dir: PathBuf,
    /// Only these files of its `t`, such as `touch.t`
    files: Vec<String>,
    /// Run the release build
    #[arg(long)]
    release: bool,
    /// How long a file may take
    #[arg(long, default_value_t = 120)]
    seconds: u32,
    /// Files that run at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// Runs the files and compares what fails with what is expected to.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Some(version) = perl_version() else {
        println!("skipped: Perl is not installed (on Debian: apt install perl)");
        return Ok(());
    };
    let files = chosen(options)?;
    let expected = Expected::load()?;
    let (applies, other): (Vec<_>, Vec<_>) = files
        .iter()
        .partition(|file| expected.why_not_applicable(file).is_none());

    let profile = if options.release { "release" } else { "debug" };
    let mut build = vec!["build", "--package", "curtail"];
    build.extend(options.release.then_some("--release"));
    cargo::run(&build)?;
    let target = cargo::metadata()?.target_directory;
    let program = target.join(profile).join("curtail");
    let tree = Tree::new(&options.dir, &program)?;
    let logs = cargo::target_apart("ci").join("upstream");
    fs::create_dir_all(&logs).with_context(|| format!("failed to create {}", logs.display()))?;
    println!(
        "{} files of {} with {version}; what they print: {}",
        applies.len(),
        options.dir.display(),
        logs.display()
    );

    let ends = run_all(&applies, &tree, &logs, options)?;
    let mut problems = Vec::new();
    let mut passed = 0;
    for (file, end) in &ends {
        let listed = expected.fails(file);
        passed += usize::from(end.report.has_passed());
        problems.extend(expected::problem(file, &end.report, listed));
        println!("{}", line(file, end, listed.map(|listed| &*listed.why)));
    }
    for (name, why, count) in expected.not_applicable(&other) {
        println!("{name:<28} not applicable, {count} files: {why}");
    }
    if options.files.is_empty() {
        problems.extend(expected.absent(&files));
    }
    println!("passed {passed} of {} that apply", ends.len());
    if !problems.is_empty() {
        bail!(
            "not as {} says:\n  {}",
            expected::PATH,
            problems.join("\n  ")
        );
    }
    Ok(())
}

/// The version of the installed Perl.
fn perl_version() -> Option<String> {
    let command = Command::new("perl")
        .args(["-e", "printf 'Perl %vd', $^V"])
        .output();
    let output = command.ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

/// The names of the test files, in order.
fn chosen(options: &Options) -> Result<Vec<String>> {
    let folder = options.dir.join("t");
    let entries = fs::read_dir(&folder).with_context(|| {
        format!(
            "failed to read {}: give the folder of memcached's sources",
            folder.display()
        )
    })?;
    let mut files = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".t") {
            files.push(name);
        }
    }
    files.sort();
    if let Some(absent) = options.files.iter().find(|file| !files.contains(file)) {
        bail!("there is no {absent} in {}", folder.display());
    }
    files.retain(|file| options.files.is_empty() || options.files.contains(file));
    Ok(files)
}

/// The end of one file.
struct End {
    report: Report,
    time: Duration,
}

/// Runs the files, several at a time. Returns them in order.
fn run_all<'a>(
    files: &[&'a String],
    tree: &Tree,
    logs: &Path,
    options: &Options,
) -> Result<Vec<(&'a str, End)>> {
    let queue: Mutex<VecDeque<&'a String>> = Mutex::new(files.iter().copied().collect());
    let take = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    };
    let work = || -> Result<Vec<(&'a str, End)>> {
        let mut ends = Vec::new();
        while let Some(file) = take() {
            let end = run_file(file, tree, logs, options.seconds)?;
            ends.push((file.as_str(), end));
        }
        Ok(ends)
    };
    let mut ends = thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs.max(1))
            .map(|_| scope.spawn(work))
            .collect();
        let ended = workers.into_iter().map(|worker| match worker.join() {
            Ok(ends) => ends,
            Err(_) => bail!("a thread that runs files has panicked"),
        });
        let ended: Result<Vec<Vec<_>>> = ended.collect();
        ended.map(|all| all.into_iter().flatten().collect::<Vec<_>>())
    })?;
    ends.sort_by_key(|(file, _)| *file);
    Ok(ends)
}

/// Runs one file.
fn run_file(file: &str, tree: &Tree, logs: &Path, seconds: u32) -> Result<End> {
    let (out, err) = (
        logs.join(format!("{file}.out")),
        logs.join(format!("{file}.err")),
    );
    let create = |path: &Path| {
        File::create(path).with_context(|| format!("failed to write {}", path.display()))
    };
    let start = Instant::now();
    let status = tree
        .perl(file, seconds, KILL_AFTER_S)
        .stdin(Stdio::null())
        .stdout(create(&out)?)
        .stderr(create(&err)?)
        .status()
        .context("failed to start perl by `timeout` of coreutils")?;
    // Some print bytes of binary replies.
    let said = fs::read(&out).with_context(|| format!("failed to read {}", out.display()))?;
    let mut report = tap::read(&String::from_utf8_lossy(&said));
    // The cause, in place of the missing subtests.
    if status.code() == Some(TIMED_OUT) || status.code().is_none() {
        report.stopped = Some(format!("does not end in {seconds} s"));
    } else if !status.success() && report.failed.is_empty() {
        report.stopped = Some(format!("ends with {status}"));
    }
    Ok(End {
        report,
        time: start.elapsed(),
    })
}

/// The line of a file in the table.
fn line(file: &str, end: &End, expected: Option<&str>) -> String {
    let seconds = end.time.as_secs_f64();
    let report = &end.report;
    if report.has_passed() {
        return format!("{file:<28} passed {:>5} {seconds:>6.1} s", report.passed);
    }
    if let Some(why) = &report.skipped {
        return format!("{file:<28} skips itself: {why}");
    }
    let mut told: Vec<String> = report.stopped.iter().cloned().collect();
    if !report.failed.is_empty() {
        let names = report.failed.iter().take(NAMES_SHOWN);
        let names = names.map(|name| name.chars().take(NAME_SHOWN).collect());
        let names: Vec<String> = names.collect();
        told.push(format!(
            "{} fail: {}",
            report.failed.len(),
            names.join("; ")
        ));
    }
    let mut line = format!(
        "{file:<28} FAILED {:>5} {seconds:>6.1} s  {}",
        report.passed,
        told.join(", ")
    );
    if let Some(why) = expected {
        line.push_str(&format!("\n{:<28} expected: {why}", ""));
    }
    line
}
