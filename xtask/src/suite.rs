//! Running tests: by cargo-nextest where it is installed, as `.config/nextest.toml` says, and by
//! `cargo test` where it is not.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::cargo;

/// Lines shown at most of a run that failed, the last ones.
const LINES_SHOWN: usize = 300;

/// Every test of the workspace, or those that `arguments` choose, and their sum.
pub(crate) fn run_and_print(arguments: &[String]) -> Result<()> {
    let mut tally = Tally::default();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match (arguments.is_empty(), cargo::has("nextest")) {
        (true, _) => all(&mut tally),
        (false, true) => by_nextest(&arguments, &mut tally),
        (false, false) => by_cargo(&arguments, &mut tally),
    };
    println!("{tally}");
    outcome
}

/// Every test of the workspace; an error unless all of them held.
pub(crate) fn all(tally: &mut Tally) -> Result<()> {
    if !cargo::has("nextest") {
        println!("cargo-nextest is not installed: `cargo test` runs the programs one by one");
        return by_cargo(&["--workspace", "--no-fail-fast"], tally);
    }
    let outcome = by_nextest(&["--workspace"], tally);
    // Those in documents are not programs of their own, so it does not see them.
    let documents = cargo::command(&["test", "--doc", "--workspace", "--no-fail-fast"]);
    outcome.and(logged(documents, "documents", tally))
}

/// A program as the tests of the workspace build it. To build it alone would build its
/// dependencies again, with other features.
pub(crate) fn built(name: &str) -> Result<PathBuf> {
    Ok(cargo::metadata()?.target_directory.join("debug").join(name))
}

fn by_nextest(arguments: &[&str], tally: &mut Tally) -> Result<()> {
    let mut command = cargo::command(&["nextest", "run", "--profile", "ci", "--color", "never"]);
    // Half of the time of the tests of servers is waiting.
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    command.args(["--test-threads", &(2 * processors).to_string()]);
    command.args(arguments);
    with_program(&mut command)?;
    let report = cargo::root().join(REPORT);
    // That of an earlier run would answer for this one.
    let _ = fs::remove_file(&report);
    let line = cargo::spoken(&command);
    println!("$ {line}");
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("failed to start `{line}`"))?;
    let stderr = child.stderr.take().context("stderr is not piped")?;
    for text in BufReader::new(stderr).split(b'\n') {
        let text = text.context("failed to read what nextest says")?;
        let text = String::from_utf8_lossy(&text);
        eprintln!("{text}");
        tally.take(&text);
    }
    let status = child.wait().context("failed to wait for nextest")?;
    if let Ok(text) = fs::read_to_string(&report) {
        tally.take_skipped(&text, "<testcase ");
    }
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// What nextest writes of every test, below the root.
const REPORT: &str = "target/nextest/ci/junit.xml";

fn by_cargo(arguments: &[&str], tally: &mut Tally) -> Result<()> {
    let mut command = cargo::command(&["test"]);
    command.args(arguments);
    if !arguments.contains(&"--") {
        command.args(["--", "--show-output"]);
    }
    with_program(&mut command)?;
    logged(command, "test", tally)
}

/// Tells tests of the program, which is built with all of them. Where only some packages are
/// chosen, it may be missing or old: then it is built before those that need it.
fn with_program(command: &mut Command) -> Result<()> {
    let chooses = |word: &str| command.get_args().any(|it| it == word);
    let all = chooses("--workspace");
    if std::env::var_os("CURTAIL").is_some() || !(all || chooses("curtail-tests")) {
        return Ok(());
    }
    if !all {
        cargo::run(&["build", "--package", "curtail"])?;
    }
    command.env("CURTAIL", built("curtail")?);
    Ok(())
}

/// Runs a `cargo test` and counts into `tally`. All it prints goes into a log, from which failures
/// are shown: most of it are panics and messages of servers that tests provoke.
pub(crate) fn logged(mut command: Command, name: &str, tally: &mut Tally) -> Result<()> {
    let line = cargo::spoken(&command);
    let folder = cargo::target_apart("ci");
    fs::create_dir_all(&folder)
        .with_context(|| format!("failed to create {}", folder.display()))?;
    let path = folder.join(format!("{name}.log"));
    println!("$ {line}\n  all it prints: {}", path.display());
    let log = File::create(&path).and_then(|log| Ok((log.try_clone()?, log)));
    let (stdout, stderr) = log.with_context(|| format!("failed to write {}", path.display()))?;
    let status = command
        .stdout(stdout)
        .stderr(stderr)
        .env("CARGO_TERM_COLOR", "never")
        .status()
        .with_context(|| format!("failed to start `{line}`"))?;
    let text = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let text = String::from_utf8_lossy(&text);
    let mut own = Tally::default();
    text.lines().for_each(|line| own.take(line));
    own.take_skipped(&text, "\n---- ");
    println!("{own}");
    tally.add(own);
    if !status.success() {
        println!("{}", of_failures(&text));
        bail!(
            "`{line}` ended with {status}; all it printed is in {}",
            path.display()
        );
    }
    Ok(())
}

/// What `cargo test` says of failed tests; of what did not compile, its last lines.
fn of_failures(text: &str) -> String {
    let mut within = false;
    let mut lines: Vec<&str> = text
        .lines()
        .filter(|line| {
            within = (within || *line == "failures:") && !line.starts_with("test result: ");
            within || line.starts_with("error: ")
        })
        .collect();
    if !lines.contains(&"failures:") {
        lines = text.lines().collect();
    }
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

/// How many tests ended how.
///
/// A test that cannot run on this machine (no memcached installed, say) prints a line
/// `skipped: WHY` and returns. It is counted as skipped, not as passed.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// Of the skipped, those that said why.
    reasons: BTreeMap<String, u64>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (why, tests) in &self.reasons {
            writeln!(f, "skipped by {tests}: {why}")?;
        }
        let Self {
            passed,
            failed,
            skipped,
            ..
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

impl Tally {
    /// Reads a line of a runner's output: a sum of nextest, or of one program by `cargo test`.
    fn take(&mut self, line: &str) {
        if let Some(counts) = line.trim_start().strip_prefix("Summary [") {
            let run = count_before(counts, " test run:") + count_before(counts, " tests run:");
            let passed = count_before(counts, " passed");
            self.passed += passed;
            self.failed += run.saturating_sub(passed);
            self.skipped += count_before(counts, " skipped");
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count_before(counts, " passed");
            self.failed += count_before(counts, " failed");
            self.skipped += count_before(counts, " ignored");
        }
    }

    /// Moves the tests that said why from the passed to the skipped. `text` is the output of each
    /// test behind a separator.
    fn take_skipped(&mut self, text: &str, separator: &str) {
        for test in text.split(separator).skip(1) {
            if let Some(why) = test.lines().find_map(reason) {
                *self.reasons.entry(why.to_owned()).or_default() += 1;
                self.passed = self.passed.saturating_sub(1);
                self.skipped += 1;
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        for (why, tests) in other.reasons {
            *self.reasons.entry(why).or_default() += tests;
        }
    }
}

/// The reason in a line `skipped: WHY`. The name of the test may stand before it, or a tag.
fn reason(line: &str) -> Option<&str> {
    let (before, why) = line.split_once("skipped: ")?;
    (before.is_empty() || before.ends_with("... ") || before.ends_with('>')).then_some(why)
}

/// The number that stands before `word`, of `7/12` the first; 0 where there is none.
fn count_before(text: &str, word: &str) -> u64 {
    let number = text
        .split_once(word)
        .and_then(|(before, _)| before.rsplit(' ').next()?.split('/').next()?.parse().ok());
    number.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.take(line));
        tally
    }

    #[test]
    fn the_sums_of_both_runners_are_read() {
        let cargo = "running 3 tests\ntest a ... ok\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(
            tally_of(cargo).to_string(),
            "15 passed, 2 failed, 1 skipped"
        );
        let nextest = "        PASS [   0.004s] store one\n     Summary [  61.003s] 9/12 tests run: \
            6 passed (1 slow), 1 failed, 2 timed out, 4 skipped\n";
        assert_eq!(
            tally_of(nextest).to_string(),
            "6 passed, 3 failed, 4 skipped"
        );
        let one = "     Summary [   0.003s] 1 test run: 1 passed, 0 skipped";
        assert_eq!(tally_of(one).to_string(), "1 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn a_test_that_cannot_run_is_skipped_with_its_reason() {
        let mut tally = tally_of("Summary [ 1.0s] 5 tests run: 5 passed, 1 skipped");
        let report = "<testsuites>\n<testcase name=\"a\">\n<system-out>\nrunning 1 test\n\
            skipped: no memcached\nskipped: said twice\n</system-out>\n\
            <testcase name=\"b\">\n<system-err>skipped: needs root\n</system-err>\n\
            <testcase name=\"c\"><system-out>test c ... skipped: needs root\n\
            <testcase name=\"d\"><system-out>it was not skipped: all of it ran\n";
        tally.take_skipped(report, "<testcase ");
        assert_eq!(
            tally.to_string(),
            "skipped by 2: needs root\nskipped by 1: no memcached\n2 passed, 0 failed, 4 skipped"
        );
    }

    #[test]
    fn of_a_log_the_failures_are_shown_or_what_did_not_compile() {
        let failed = "chatter\nfailures:\n\n---- slow stdout ----\nleft: 1\n\nfailures:\n    slow\n\n\
            test result: FAILED. 0 passed; 1 failed\nchatter\nerror: test failed, to rerun pass `-p a`";
        let shown = of_failures(failed);
        assert!(
            shown.contains("left: 1") && !shown.contains("chatter"),
            "{shown}"
        );
        assert!(shown.ends_with("to rerun pass `-p a`"), "{shown}");
        let broken = "error[E0308]: first\nnote: second\nerror: could not compile `a`";
        assert_eq!(of_failures(broken), broken);
    }
}
