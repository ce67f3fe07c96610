//! What a test file prints: the Test Anything Protocol, as Perl's `Test::More` writes it.

/// What a file printed, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Subtests that hold, those that are to be done or skipped not counted.
    pub(crate) passed: usize,
    /// Number and name of those that do not.
    pub(crate) failed: Vec<String>,
    /// Why the file runs nothing.
    pub(crate) skipped: Option<String>,
    /// Why it did not come to its end.
    pub(crate) stopped: Option<String>,
    /// Subtests announced.
    planned: Option<usize>,
}

impl Report {
    /// Whether all that was announced ran and holds.
    pub(crate) fn has_passed(&self) -> bool {
        self.failed.is_empty() && self.stopped.is_none() && self.skipped.is_none()
    }
}

/// Reads what a file printed to its standard output.
pub(crate) fn read(text: &str) -> Report {
    let mut report = Report::default();
    let mut seen = 0;
    for line in text.lines() {
        if let Some(plan) = line.strip_prefix("1..") {
            let (count, comment) = plan.split_once('#').unwrap_or((plan, ""));
            report.planned = count.trim().parse().ok();
            if let Some(why) = comment.trim().strip_prefix("SKIP") {
                report.skipped = Some(why.trim().to_owned());
            }
        } else if let Some(test) = line.strip_prefix("ok") {
            seen += 1;
            report.passed += usize::from(!is_excused(test));
        } else if let Some(test) = line.strip_prefix("not ok") {
            seen += 1;
            if !is_excused(test) {
                report.failed.push(test.trim().to_owned());
            }
        }
    }
    report.stopped = match report.planned {
        None => Some(format!("ends after {seen} subtests without a plan")),
        Some(planned) if planned != seen => {
            Some(format!("ends after {seen} of {planned} subtests"))
        }
        Some(_) => None,
    };
    report
}

/// Whether the author marked a subtest as skipped or as work to do.
fn is_excused(test: &str) -> bool {
    let (_, mark) = test.split_once(" # ").unwrap_or_default();
    let mark = mark.to_ascii_lowercase();
    mark.starts_with("skip") || mark.starts_with("todo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtests_are_counted_and_those_that_fail_are_named() {
        let report =
            read("1..4\nok 1 - a\nnot ok 2 - b\n    not ok 1 - within\nok 3 # skip c\nok 4\n");
        assert_eq!(
            (report.passed, &report.failed[..]),
            (2, &["2 - b".to_owned()][..])
        );
        assert_eq!(report.stopped, None);
        assert!(!report.has_passed());
    }

    #[test]
    fn file_that_passes_has_run_all_it_announced() {
        assert!(read("ok 1\nok 2\n1..2\n").has_passed());
        let early = read("1..2\nok 1\n");
        assert_eq!(early.stopped.unwrap(), "ends after 1 of 2 subtests");
        assert!(!read("ok 1\n").has_passed());
        assert!(!read("").has_passed());
    }

    #[test]
    fn file_that_skips_itself_says_why_and_has_not_passed() {
        let report = read("1..0 # SKIP Test is flaky\n");
        assert_eq!(report.skipped.as_deref(), Some("Test is flaky"));
        assert!(!report.has_passed());
    }

    #[test]
    fn failure_that_its_author_expects_is_none() {
        assert!(read("1..1\nnot ok 1 - a # TODO later\n").has_passed());
    }
}
