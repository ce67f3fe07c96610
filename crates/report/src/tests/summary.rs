//! The summary for a terminal.

use crate::tests::synthetic::Synthetic;
use crate::text_summary;

fn summary(run: &Synthetic) -> String {
    text_summary(&run.run()).unwrap()
}

#[test]
fn the_summary_of_a_ladder() {
    insta::assert_snapshot!(summary(&Synthetic::ladder(3)));
}

#[test]
fn lines_fit_the_terminal_and_names_contain_no_control_characters() {
    let mut ladder = Synthetic::ladder(3);
    ladder.plan.quick = true;
    ladder.rename(
        "curtail",
        &format!("\u{1b}[2J{}", "a name without an end ".repeat(9)),
    );
    ladder.plan.notes = vec![
        "x".repeat(350),
        "The machine has one processor.\u{7}".to_owned(),
    ];
    let text = summary(&ladder);
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    assert!(text.contains("Quick run"), "{text}");
}

#[test]
fn a_run_without_measurements_says_so() {
    let mut ladder = Synthetic::ladder(3);
    ladder.trials.clear();
    let text = summary(&ladder);
    assert!(text.contains("capacity not measured"), "{text}");
    assert!(text.contains("Missing: 250\u{20}trials"), "{text}");
}
