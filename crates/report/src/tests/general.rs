//! The page and the terminal summary of a run.

use std::fs;

use crate::record::{Better, FaultClass, Outcome};
use crate::tests::general_run::{General, invalid, metric};
use crate::tests::ladder::fault;
use crate::{Error, Run, page_of, render, text_summary};

/// The part of the page that a heading begins.
fn part<'a>(html: &'a str, id: &str) -> &'a str {
    let (_, rest) = html.split_once(&format!("<h2 id=\"{id}\">")).unwrap();
    rest.split_once("</details>").unwrap().0
}

#[test]
fn the_page_begins_with_one_sentence_one_table_and_the_figures_and_folds_the_rest() {
    let html = General::versions(7).page();
    let (head, main) = html.split_once("</header>").unwrap();
    assert_eq!(head.matches("class=\"answer\"").count(), 1);
    let order = ["class=\"question\"", "id=\"answer\"", "<svg", "<table"];
    let at = order.map(|it| head.find(it).unwrap());
    assert!(at.is_sorted(), "{at:?}");
    assert_eq!(
        (
            head.matches("<table").count(),
            head.matches("<figure").count()
        ),
        (1, 1)
    );
    assert_eq!(main.matches("<details class=\"part\"").count(), 5);
    assert_eq!(main.matches("<details class=\"part\" open>").count(), 0);
    for id in ["comparisons", "cells", "checks", "definitions", "again"] {
        assert!(!part(main, id).is_empty());
    }
    for foreign in ["http:", "https:", "src=", "@import", "NaN", "inf "] {
        assert!(!html.contains(foreign), "{foreign}");
    }
}

#[test]
fn missing_trials_are_shown_as_missing_never_as_zero() {
    let mut run = General::versions(7);
    run.records
        .retain(|record| record.cell != 1 || record.repeat == 3);
    let html = run.page();
    let checks = part(&html, "checks");
    assert!(checks.contains("13 trials of the plan have no measurement"));
    assert!(checks.contains("failed: ended with signal 11"), "{checks}");
    let cells = part(&html, "cells");
    let (_, row) = cells
        .split_once("<th scope=\"row\">a</th><td class=\"left\">4</td>")
        .unwrap();
    let (row, _) = row.split_once("</tr>").unwrap();
    assert_eq!(row, "<td>–</td><td>–</td><td>–</td><td>0 of 12</td>");
    run.records.clear();
    assert_eq!(run.sentence(), "No trial was measured: there is no answer.");
    assert!(run.page().contains("72 of 72 trials are missing: not run."));
    assert!(text_summary(&run.run()).contains("Missing: 72 trials"));
}

#[test]
fn retries_faults_flags_and_notes_are_listed() {
    let mut run = General::faulty();
    let flags = &mut run.measured("main-000-00").flags;
    flags.insert("wall_ns".to_owned(), invalid("hot"));
    let html = run.page();
    let checks = part(&html, "checks");
    for words in [
        "main-002-00</th><td class=\"words\">version b, with 1 threads</td><td>2</td>",
        "main-003-04</th><td class=\"words\">version b, with 4 threads</td><td class=\"left\">\
         invalid</td><td class=\"words\">clock stepped",
        "wall_ns</th><td class=\"words\">does not count: hot</td><td>1</td>",
        "the log was cut",
    ] {
        assert!(checks.contains(words), "{words}: {checks}");
    }
}

#[test]
fn definitions_plan_host_and_command_are_there() {
    let html = General::versions(7).page();
    let definitions = part(&html, "definitions");
    for words in [
        "does not count if the clock was stepped",
        "<td class=\"left\">J</td><td class=\"left\">lower</td><td>47</td>",
        "a, b, c",
    ] {
        assert!(definitions.contains(words), "{words}: {definitions}");
    }
    let again = part(&html, "again");
    for words in [
        "curtail lab run versions --seed 7",
        "Example Processor 9000",
        "command = &#34;./sort {version}&#34;",
        "[[stages.cells]]",
    ] {
        assert!(again.contains(words), "{words}: {again}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let mut run = General::versions(7);
    let hostile = r#"</script><script>alert("x")</script><img src=x onerror='alert(1)'>{{7*7}}"#;
    run.plan.question = hostile.to_owned();
    run.plan.experiment = hostile.to_owned();
    run.plan.kind = hostile.to_owned();
    run.plan.metrics[0].title = hostile.to_owned();
    run.plan.metrics[0].judged = Some(hostile.to_owned());
    run.plan.factors[0].title = hostile.to_owned();
    run.plan.factors[0].phrase = Some(hostile.to_owned());
    fault(run.measured("main-004-04"), FaultClass::Failing, hostile);
    fault(run.measured("main-004-05"), FaultClass::Invalid, hostile);
    fault(run.measured("main-004-06"), FaultClass::Instrument, hostile);
    run.record("main-001-03").outcome = Outcome::Failed(hostile.to_owned());
    run.record("main-002-01").notes = vec![hostile.to_owned()];
    let html = page_of(&run.run()).unwrap();
    assert_eq!(html.matches("<script").count(), 1);
    assert_eq!(html.matches("</script").count(), 1);
    assert!(!html.contains("<img"));
    assert!(!html.contains(r#"alert("x")"#) && !html.contains("onerror='"));
}

#[test]
fn headings_descend_by_one_and_tables_have_heads() {
    let html = page_of(&General::versions(7).run()).unwrap();
    assert_eq!(html.matches("<h1").count(), 1);
    let mut last = 0;
    for (at, _) in html.match_indices("<h") {
        let level = html.as_bytes()[at + 2];
        if level.is_ascii_digit() {
            assert!(level - b'0' <= last + 1, "h{level} after h{last}");
            last = level - b'0';
        }
    }
    assert_eq!(
        html.matches("<th ").count(),
        html.matches("<th scope=").count()
    );
    assert_eq!(html.matches("<th>").count(), 0);
}

#[test]
fn the_summary_fits_the_terminal() {
    let mut run = General::faulty();
    run.plan.quick = true;
    run.plan.notes = vec!["x".repeat(350), "One processor.\u{7}".to_owned()];
    let text = text_summary(&run.run());
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    run.plan.notes.clear();
    insta::assert_snapshot!(text_summary(&run.run()));
}

#[test]
fn cells_measured_until_an_interval_is_narrow_lack_none() {
    let mut run = General::versions(7);
    run.plan.stages[0].repeats.least = 5;
    run.records
        .retain(|record| record.cell != 0 || record.repeat < 6);
    let html = run.page();
    assert!(html.contains("1 of 65 trials is missing: "), "{html}");
    assert!(part(&html, "cells").contains("<td>6 of 6</td>"));
}

#[test]
fn a_folder_has_page_and_tables() {
    let place = tempfile::tempdir().unwrap();
    let folder = General::faulty().write(place.path());
    let rendered = render(&folder).unwrap();
    let html = fs::read_to_string(rendered.page).unwrap();
    assert!(html.contains("Which version of the program is faster?"));
    let table = fs::read_to_string(rendered.trials).unwrap();
    let head = "id,stage,cell,repeat,retries,started_unix_ns,failure,fault_class,\
                fault_reason,notes,version,threads,\
                wall_ns,wall_ns_flag,drift_ns,energy_j,resident_bytes";
    assert_eq!(table.lines().next(), Some(head));
    let faulty = table.lines().find(|line| line.starts_with("main-003-04"));
    assert!(
        faulty.unwrap().contains(",invalid,clock stepped,,b,4,"),
        "{faulty:?}"
    );
    let failed = table
        .lines()
        .find(|line| line.starts_with("main-001-03"))
        .unwrap();
    assert!(
        failed.ends_with(",ended with signal 11,,,,a,4,,,,,"),
        "{failed}"
    );
}

#[test]
fn names_that_are_columns_of_every_run_are_refused() {
    let refused = |run: &General| -> String {
        let place = tempfile::tempdir().unwrap();
        let error: Error = Run::open(run.write(place.path())).unwrap_err();
        error.to_string()
    };
    let mut run = General::versions(7);
    run.plan
        .metrics
        .push(metric("notes", "notes", "count", Better::Neither));
    let told = refused(&run);
    assert!(told.contains("`notes` is a column of every run"), "{told}");
    let mut run = General::versions(7);
    run.plan
        .metrics
        .push(metric("wall_ns_flag", "flag", "count", Better::Neither));
    let told = refused(&run);
    assert!(
        told.contains("`wall_ns_flag` is the column of flags of another"),
        "{told}"
    );
}
