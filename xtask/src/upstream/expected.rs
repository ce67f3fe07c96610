//! `xtask/upstream.toml`: the files that do not apply, and those that fail, with the reasons.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::tap::Report;

/// Where it is written.
pub(super) const PATH: &str = "xtask/upstream.toml";

/// What is expected of the files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    /// Files that test what the server does not have, or not the server; the reason. A name that
    /// ends in `*` is of all files that begin so.
    not_applicable: BTreeMap<String, String>,
    /// Files that fail.
    fails: BTreeMap<String, Failure>,
}

/// A file that fails.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    /// Subtests that pass, at least: fewer are a regression.
    pub(super) passes: usize,
    /// Whether chance decides: some runs of it pass.
    #[serde(default)]
    pub(super) may_pass: bool,
    /// Why it fails, as `docs/guide/migrate.md` has it.
    pub(super) why: String,
}

impl Expected {
    /// Reads the repository's file.
    pub(super) fn load() -> Result<Self> {
        let path = crate::cargo::root().join(PATH);
        let text =
            std::fs::read_to_string(path).with_context(|| format!("failed to open {PATH}"))?;
        toml::from_str(&text).with_context(|| format!("failed to read {PATH}"))
    }

    /// Why a file does not apply.
    pub(super) fn why_not_applicable(&self, file: &str) -> Option<&str> {
        let mut entries = self.not_applicable.iter();
        let matching = entries.find(|(name, _)| names(name, file));
        matching.map(|(_, why)| why.as_str())
    }

    /// The entries of those of `files` that do not apply: name, reason, and number of files.
    pub(super) fn not_applicable(&self, files: &[&String]) -> Vec<(&str, &str, usize)> {
        let entries = self.not_applicable.iter().map(|(name, why)| {
            let count = files.iter().filter(|file| names(name, file)).count();
            (name.as_str(), why.as_str(), count)
        });
        entries.filter(|(.., count)| *count > 0).collect()
    }

    /// How a file is expected to fail.
    pub(super) fn fails(&self, file: &str) -> Option<&Failure> {
        self.fails.get(file)
    }

    /// A problem for each listed file that is not among `files`.
    pub(super) fn absent(&self, files: &[String]) -> Vec<String> {
        let listed = self.fails.keys();
        listed
            .filter(|listed| !files.contains(listed))
            .map(|listed| format!("{listed}: listed, but not in the tree"))
            .collect()
    }
}

/// Whether the name of an entry is that of `file`, or its beginning and `*`.
fn names(name: &str, file: &str) -> bool {
    name.strip_suffix('*')
        .map_or(name == file, |start| file.starts_with(start))
}

/// What is not as expected of a file.
pub(super) fn problem(file: &str, report: &Report, listed: Option<&Failure>) -> Option<String> {
    if let Some(why) = &report.skipped {
        return Some(format!(
            "{file}: skips itself ({why}): list it as not applicable"
        ));
    }
    match (listed, report.has_passed()) {
        (None, true) | (Some(Failure { may_pass: true, .. }), true) => None,
        (None, false) => Some(format!("{file}: fails")),
        (Some(_), true) => Some(format!("{file}: passes: remove it from the list")),
        (Some(listed), false) if report.passed < listed.passes => Some(format!(
            "{file}: only {} of the {} subtests that passed pass",
            report.passed, listed.passes
        )),
        (Some(_), false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tap;
    use super::*;

    const LISTED: &str = "[not_applicable]\n\"proxy*\" = \"no proxy\"\n\"a.t\" = \"flaky\"\n\
                          [fails]\n\"b.t\" = { passes = 1, why = \"no slabs\" }\n\
                          \"d.t\" = { passes = 1, may_pass = true, why = \"chance\" }\n";

    #[test]
    fn files_that_do_not_apply_are_named_whole_or_by_their_beginning() {
        let expected: Expected = toml::from_str(LISTED).unwrap();
        assert_eq!(
            expected.why_not_applicable("proxyunits.t"),
            Some("no proxy")
        );
        assert_eq!(expected.why_not_applicable("a.t"), Some("flaky"));
        assert_eq!(expected.why_not_applicable("aa.t"), None);
        assert_eq!(expected.why_not_applicable("b.t"), None);
    }

    #[test]
    fn end_that_is_not_listed_is_a_problem() {
        let expected: Expected = toml::from_str(LISTED).unwrap();
        let listed = expected.fails("b.t");
        let good = tap::read("1..1\nok 1\n");
        let partly = tap::read("1..2\nok 1\nnot ok 2\n");
        let worse = tap::read("1..2\nnot ok 1\nnot ok 2\n");
        assert_eq!(problem("b.t", &partly, listed), None);
        assert_eq!(problem("c.t", &good, None), None);
        for (report, listed) in [(&worse, listed), (&good, listed), (&partly, None)] {
            assert!(problem("b.t", report, listed).is_some(), "{report:?}");
        }
        for report in [&good, &partly] {
            assert_eq!(problem("d.t", report, expected.fails("d.t")), None);
        }
        assert!(problem("d.t", &worse, expected.fails("d.t")).is_some());
        let skipped = tap::read("1..0 # SKIP no\n");
        assert!(problem("c.t", &skipped, None).is_some());
        let both = ["b.t", "d.t"].map(str::to_owned);
        assert_eq!(expected.absent(&both), Vec::<String>::new());
        assert_eq!(expected.absent(&both[1..]).len(), 1);
    }

    #[test]
    fn guide_has_the_reason_of_each_file_that_fails_and_of_no_other() {
        let guide = crate::cargo::root().join("docs/guide/migrate.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        let (_, section) = guide.split_once("\n## memcached's own tests\n").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows: Vec<&str> = section
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        let expected = Expected::load().unwrap();
        let listed = expected.fails.iter();
        let listed: Vec<String> = listed
            .map(|(file, failure)| format!("| `{file}` | {} |", failure.why))
            .collect();
        assert_eq!(rows, listed);
    }
}
