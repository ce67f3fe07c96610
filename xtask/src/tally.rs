//! Counting tests.
//!
//! `cargo test` prints one result for each of the workspace's test programs and no sum.
//!
//! A test that cannot run on this machine (no memcached installed, say) prints a line
//! `skipped: WHY` and returns. The runner is asked to show what passing tests print, and such a
//! test is counted as skipped, not as passed.

use std::collections::BTreeMap;
use std::fmt;

/// How many tests ended how.
///
/// It reads the runner's output, which is for each program: names of tests with their ends, under
/// `successes:` what each passing test printed, `failures:` and the same, and the result.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Ran and held, as the runner reports it.
    passed: u64,
    /// Ran and did not hold.
    failed: u64,
    /// Marked `#[ignore]`.
    ignored: u64,
    /// Of the passed, those that said they could not run, by what they said first.
    declared: BTreeMap<String, u64>,
    /// Below `successes:`.
    output_of_passed: bool,
    /// The test whose output this is has said that it could not run.
    said: bool,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (why, tests) in &self.declared {
            writeln!(f, "skipped by {tests}: {why}")?;
        }
        let declared = self.declared.values().sum::<u64>();
        let passed = self.passed.saturating_sub(declared);
        let skipped = self.ignored + declared;
        write!(
            f,
            "{passed} passed, {} failed, {skipped} skipped",
            self.failed
        )
    }
}

impl Tally {
    /// Reads a line of the runner's output.
    pub(crate) fn take(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count_before(counts, " passed");
            self.failed += count_before(counts, " failed");
            self.ignored += count_before(counts, " ignored");
            self.output_of_passed = false;
        } else if line == "successes:" || line == "failures:" {
            self.output_of_passed = line == "successes:";
        } else if line.starts_with("---- ") && line.ends_with(" ----") {
            self.said = false;
        } else if self.output_of_passed
            && !self.said
            && let Some(why) = line.strip_prefix("skipped: ")
        {
            *self.declared.entry(why.to_owned()).or_default() += 1;
            self.said = true;
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

    fn tally_of(output: &str) -> String {
        let mut tally = Tally::default();
        for line in output.lines() {
            tally.take(line);
        }
        tally.to_string()
    }

    #[test]
    fn results_of_all_programs_are_added() {
        let output = "running 3 tests\n\
            test a ... ok\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(tally_of(output), "15 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn a_skipped_test_is_counted_as_skipped_with_its_reason() {
        let output = "skipped: outside any output, as a test's name might be\n\
            successes:\n\n---- original stdout ----\nskipped: no memcached on PATH\n\
            skipped: said twice\n\n---- other stdout ----\nskipped: needs root\n\n\
            ---- third stdout ----\nall of it ran\n\nsuccesses:\n    original\n\
            \nfailures:\n\n---- fourth stdout ----\nskipped: a line of a failure\n\
            test result: FAILED. 5 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(
            tally_of(output),
            "skipped by 1: needs root\nskipped by 1: no memcached on PATH\n\
             3 passed, 1 failed, 3 skipped"
        );
    }
}
