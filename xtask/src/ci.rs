//! All that decides whether a change may enter.
//!
//! Cheapest first, and it stops at the first failure with the command that repeats it alone. The
//! last line is the sum of the tests, whatever happened after them.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::suite::{self, Tally};
use crate::{check, dependencies, models, peers, sanitize, sim, smoke, tidy};

/// One thing to decide.
struct Step {
    name: &'static str,
    /// The command that repeats it alone.
    alone: &'static str,
    run: fn(&mut Option<Tally>) -> Result<()>,
}

const STEPS: [Step; 12] = [
    Step {
        name: "tidy",
        alone: "cargo xtask tidy",
        run: |_| tidy::run(),
    },
    Step {
        name: "dependencies",
        alone: "cargo xtask dependencies",
        run: |_| dependencies::check(),
    },
    Step {
        name: "spelling",
        alone: "typos",
        run: |_| check::spelling(),
    },
    Step {
        name: "format",
        alone: "cargo xtask check",
        run: |_| check::format(),
    },
    Step {
        name: "lint",
        alone: "cargo xtask check",
        run: |_| check::lint(),
    },
    Step {
        name: "features",
        alone: "cargo xtask features",
        run: |_| check::features(),
    },
    Step {
        name: "test",
        alone: "cargo xtask test",
        run: |tally| suite::all(tally.get_or_insert_default()),
    },
    Step {
        name: "smoke",
        alone: "cargo xtask smoke",
        run: |_| smoke::run_with(&suite::built("curtail")?),
    },
    Step {
        name: "peers",
        alone: "cargo xtask peers",
        run: |_| peers::run_if_changed(),
    },
    Step {
        name: "models",
        alone: "cargo xtask models",
        run: |_| models::run(),
    },
    Step {
        name: "sanitize",
        alone: "cargo xtask sanitize --seconds 5",
        run: |_| sanitize::run(5),
    },
    Step {
        name: "sim",
        alone: "cargo xtask sim",
        run: |_| sim::run_with(&suite::built("examples/scenarios")?, 0, 1000),
    },
];

/// Runs every step until one fails.
pub(crate) fn run() -> ExitCode {
    let (report, tally, held) = walk(&STEPS);
    println!("\n{report}");
    if let Some(tally) = tally {
        println!("{tally}");
    }
    if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The closing report, the sum of the tests if they ran, and whether all held.
fn walk(steps: &[Step]) -> (String, Option<Tally>, bool) {
    let start = Instant::now();
    let mut tally = None;
    let mut report = String::new();
    let mut failure = None;
    for step in steps {
        println!("\n── {}", step.name);
        let step_start = Instant::now();
        let outcome = (step.run)(&mut tally);
        let verdict = if outcome.is_ok() { "" } else { "  failed" };
        report.push_str(&timed(step.name, step_start.elapsed(), verdict));
        if let Err(error) = outcome {
            failure = Some((step, error));
            break;
        }
    }
    report.push_str(&timed("total", start.elapsed(), ""));
    if let Some((step, error)) = &failure {
        report.push_str(&format!(
            "{}: {error:#}\nalone: {}\n",
            step.name, step.alone
        ));
    }
    (report, tally, failure.is_none())
}

fn timed(name: &str, time: Duration, verdict: &str) -> String {
    format!("{name:<13}{:>8.1} s{verdict}\n", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_ends_it_and_says_how_to_repeat_it() {
        let steps = [
            Step {
                name: "holds",
                alone: "a",
                run: |_| Ok(()),
            },
            Step {
                name: "breaks",
                alone: "cargo b",
                run: |_| anyhow::bail!("two of three"),
            },
            Step {
                name: "after",
                alone: "c",
                run: |_| unreachable!("runs after a failure"),
            },
        ];
        let (report, tally, held) = walk(&steps);
        assert!(!held);
        assert!(tally.is_none(), "no tests ran");
        assert!(report.contains("breaks") && report.contains("two of three"));
        assert!(report.contains("alone: cargo b"));
        assert!(!report.contains("after"));
    }

    #[test]
    fn the_tests_are_remembered_over_a_later_failure() {
        let steps = [
            Step {
                name: "test",
                alone: "a",
                run: |tally| {
                    *tally = Some(Tally::default());
                    Ok(())
                },
            },
            Step {
                name: "smoke",
                alone: "b",
                run: |_| anyhow::bail!("no report"),
            },
        ];
        let (_, tally, held) = walk(&steps);
        assert!(!held);
        assert_eq!(tally.unwrap().to_string(), "0 passed, 0 failed, 0 skipped");
    }
}
