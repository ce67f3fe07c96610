//! Running the tests while counting them.
//!
//! `cargo test` prints one result for each of the workspace's test programs and no sum. Its
//! output passes through here unchanged, and the sum is the last line.
//!
//! A test that cannot run on this machine (no memcached installed, say) prints a line
//! `skipped: WHY` and returns. The runner is asked to show what passing tests print, and such a
//! test is counted as skipped, not as passed.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::cargo;

/// How many tests ended how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Ran and held, as the runner reports it.
    passed: u64,
    /// Ran and did not hold.
    failed: u64,
    /// Marked `#[ignore]`.
    ignored: u64,
    /// Of the passed, those that said they could not run.
    declared: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.passed.saturating_sub(self.declared);
        let skipped = self.ignored + self.declared;
        write!(
            f,
            "{passed} passed, {} failed, {skipped} skipped",
            self.failed
        )
    }
}

/// Runs the tests, all of the workspace's unless `arguments` choose, and prints the sum.
pub(crate) fn run_and_print(arguments: &[String]) -> Result<()> {
    let mut tally = Tally::default();
    let outcome = run(arguments, &mut tally);
    println!("{tally}");
    outcome
}

/// Runs the tests, counting into `tally`; an error unless all of them held.
pub(crate) fn run(arguments: &[String], tally: &mut Tally) -> Result<()> {
    let mut line = vec!["test"];
    if arguments.is_empty() {
        // Every program runs, so that the sum is of all of them.
        line.extend(["--workspace", "--no-fail-fast", "--", "--show-output"]);
    }
    line.extend(arguments.iter().map(String::as_str));
    let mut command = cargo::command(&line);
    let spoken = cargo::spoken(&command);
    println!("$ {spoken}");
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("failed to start `{spoken}`"))?;
    if let Some(output) = child.stdout.take() {
        pass_through(BufReader::new(output), io::stdout().lock(), tally)?;
    }
    let status = child.wait().context("failed to wait for cargo")?;
    if !status.success() {
        bail!("`{spoken}` ended with {status}");
    }
    Ok(())
}

fn pass_through(mut from: impl BufRead, mut to: impl Write, tally: &mut Tally) -> Result<()> {
    let mut reader = Reader {
        tally,
        output_of_passed: false,
        declared: false,
    };
    let mut line = Vec::new();
    while from
        .read_until(b'\n', &mut line)
        .context("failed to read the tests' output")?
        > 0
    {
        reader.take(String::from_utf8_lossy(&line).trim_end());
        to.write_all(&line)
            .and_then(|()| to.flush())
            .context("failed to pass output on")?;
        line.clear();
    }
    Ok(())
}

/// Reads the runner's output, which is for each program: names of tests with their ends, under
/// `successes:` what each passing test printed, `failures:` and the same, and the result.
struct Reader<'a> {
    tally: &'a mut Tally,
    /// Below `successes:`.
    output_of_passed: bool,
    /// The test whose output this is has said that it could not run.
    declared: bool,
}

impl Reader<'_> {
    fn take(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.tally.passed += count_before(counts, " passed");
            self.tally.failed += count_before(counts, " failed");
            self.tally.ignored += count_before(counts, " ignored");
            self.output_of_passed = false;
        } else if line == "successes:" || line == "failures:" {
            self.output_of_passed = line == "successes:";
        } else if line.starts_with("---- ") && line.ends_with(" ----") {
            self.declared = false;
        } else if self.output_of_passed && !self.declared && line.starts_with("skipped: ") {
            self.tally.declared += 1;
            self.declared = true;
        }
    }
}

/// The number that stands before `word`; 0 where there is none.
fn count_before(text: &str, word: &str) -> u64 {
    let before = text
        .split(word)
        .next()
        .filter(|before| before.len() < text.len());
    before
        .and_then(|before| before.rsplit(' ').next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of(output: &str) -> (Tally, String) {
        let mut tally = Tally::default();
        let mut copy = Vec::new();
        pass_through(output.as_bytes(), &mut copy, &mut tally).unwrap();
        (tally, String::from_utf8(copy).unwrap())
    }

    #[test]
    fn results_of_all_programs_are_added_and_output_passes_unchanged() {
        let output = "running 3 tests\n\
            test a ... ok\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let (tally, copy) = tally_of(output);
        assert_eq!(tally.to_string(), "15 passed, 2 failed, 1 skipped");
        assert_eq!(copy, output);
    }

    #[test]
    fn a_test_that_says_it_could_not_run_is_not_counted_as_passed() {
        let output = "skipped: outside any output, as a test's name might be\n\
            successes:\n\n---- original stdout ----\nskipped: no memcached on PATH\n\
            skipped: said twice\n\n---- other stdout ----\nskipped: needs root\n\n\
            ---- third stdout ----\nall of it ran\n\nsuccesses:\n    original\n\
            \nfailures:\n\n---- fourth stdout ----\nskipped: a line of a failure\n\
            test result: FAILED. 5 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(
            tally_of(output).0.to_string(),
            "3 passed, 1 failed, 3 skipped"
        );
    }

    #[test]
    fn output_that_is_not_text_is_passed_on() {
        let mut tally = Tally::default();
        let mut copy = Vec::new();
        pass_through(&b"\xff\xfe\nno newline"[..], &mut copy, &mut tally).unwrap();
        assert_eq!(copy, b"\xff\xfe\nno newline");
        assert_eq!(tally, Tally::default());
    }
}
