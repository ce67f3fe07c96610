//! The page and the terminal summary of runs that have no servers and rates.

use std::collections::BTreeMap;
use std::fs;

use crate::record::{Better, Factors, Outcome, Value};
use crate::tests::general_run::{General, REPEATS, SplitMix, invalid, metric};
use crate::{Error, Run, page_of, render, text_summary};

fn page(run: &General) -> String {
    let html = page_of(&run.run()).unwrap();
    html.replace('\u{a0}', " ").replace("&#39;", "'")
}

fn sentence(run: &General) -> String {
    let html = page(run);
    let (_, rest) = html.split_once("id=\"answer\">").unwrap();
    rest.split_once("</p>").unwrap().0.to_owned()
}

/// The part of the page that a heading begins.
fn part<'a>(html: &'a str, id: &str) -> &'a str {
    let (_, rest) = html.split_once(&format!("<h2 id=\"{id}\">")).unwrap();
    rest.split_once("</details>").unwrap().0
}

fn each(run: &mut General, prefix: &str, change: impl Fn(&mut crate::record::Measured)) {
    for record in &mut run.records {
        if let (true, Outcome::Measured(measured)) =
            (record.id.starts_with(prefix), &mut record.outcome)
        {
            change(measured);
        }
    }
}

/// Keeps the cells with one thread.
fn one_thread(run: &mut General) {
    let cells = &mut run.plan.stages[0].cells;
    cells.retain(|cell| cell["threads"] == Value::from(1.0));
    run.records.retain(|record| record.cell % 2 == 0);
    for record in &mut run.records {
        record.cell /= 2;
    }
}

#[test]
fn the_page_begins_with_one_sentence_one_table_and_the_figures_and_folds_the_rest() {
    let html = page(&General::versions(7));
    let (head, main) = html.split_once("</header>").unwrap();
    assert_eq!(head.matches("class=\"answer\"").count(), 1);
    assert_eq!(head.matches("<table").count(), 1);
    assert_eq!(main.matches("<details class=\"part\"").count(), 6);
    assert_eq!(main.matches("<details class=\"part\" open>").count(), 1);
    for id in [
        "comparisons",
        "figures",
        "cells",
        "checks",
        "definitions",
        "again",
    ] {
        assert!(!part(main, id).is_empty());
    }
    for foreign in ["http:", "https:", "src=", "@import", "NaN", "inf "] {
        assert!(!html.contains(foreign), "{foreign}");
    }
}

#[test]
fn few_comparisons_are_listed_with_their_intervals() {
    let mut run = General::versions(7);
    one_thread(&mut run);
    let answer = sentence(&run);
    let start = "The wall time for version b is 0.80 [0.";
    assert!(answer.starts_with(start), "{answer}");
    assert!(answer.contains("] times that for version a; "), "{answer}");
    let undecided = "whether the wall time for version c differs from that for version a is \
                     undecided: the ratio is ";
    assert!(answer.contains(undecided), "{answer}");
}

#[test]
fn many_comparisons_are_counted_and_what_is_missing_follows() {
    let answer = sentence(&General::versions(7));
    let start = "Against version a, the wall time is better in 2 of 4 comparisons (ratio 0.80";
    assert!(answer.starts_with(start), "{answer}");
    let rest = ") and undecided in 2; 1 of 70 trials is suspect (clock stepped); \
                2 of 72 trials are missing.";
    assert!(answer.ends_with(rest), "{answer}");
}

#[test]
fn a_metric_around_zero_has_a_difference() {
    let mut run = General::versions(7);
    one_thread(&mut run);
    run.plan.figures[0].y = "drift_ns".to_owned();
    each(&mut run, "main-002", |it| {
        *it.metrics.get_mut("drift_ns").unwrap() -= 3_000.0;
    });
    let answer = sentence(&run);
    let decided = "The drift (of the clock) for version b differs from that for version a by -";
    assert!(answer.starts_with(decided), "{answer}");
    assert!(answer.contains(" µs [-3."), "{answer}");
    let html = page(&run);
    assert!(part(&html, "comparisons").contains("− that for version a"));
}

#[test]
fn values_that_mostly_do_not_count_are_not_known() {
    let mut run = General::versions(7);
    one_thread(&mut run);
    for repeat in 0..7 {
        let measured = run.measured(&format!("main-002-{repeat:02}"));
        measured
            .flags
            .insert("wall_ns".to_owned(), invalid("overheated"));
    }
    let answer = sentence(&run);
    let unknown = "the wall time for version b differs from that for version a is not known: 7 of \
                   12 values for version b do not count (overheated)";
    assert!(answer.contains(unknown), "{answer}");
    let html = page(&run);
    let cells = part(&html, "cells");
    assert!(
        cells.contains("<td>–<span class=\"range\"> <small>5 of 12 count</small>"),
        "{cells}"
    );
    assert!(part(&html, "checks").contains("does not count: overheated</td><td>7</td>"));
}

#[test]
fn lower_bounds_decide_only_what_higher_values_cannot_reverse() {
    let bounded = |cell: &str| {
        let mut run = General::versions(7);
        one_thread(&mut run);
        for repeat in 0..3 {
            let measured = run.measured(&format!("{cell}-{repeat:02}"));
            let flag = measured.flags.entry("wall_ns".to_owned()).or_default();
            flag.lower_bound = true;
        }
        run
    };
    // Version b is faster: higher values of it could reverse that, higher ones of a could not.
    let answer = sentence(&bounded("main-002"));
    let undecided = "some values are lower bounds, and the true ones could reverse it";
    assert!(answer.contains(undecided), "{answer}");
    let answer = sentence(&bounded("main-000"));
    assert!(
        answer.starts_with("The wall time for version b is 0.8"),
        "{answer}"
    );
}

#[test]
fn too_few_trials_decide_nothing() {
    let mut run = General::versions(7);
    one_thread(&mut run);
    run.plan.stages[0].repeats.most = 3;
    run.plan.stages[0].repeats.least = 3;
    run.records.retain(|record| record.repeat < 3);
    let answer = sentence(&run);
    let undecided = "the ratio is 0.81 [0.80, 0.84";
    assert!(answer.contains(undecided), "{answer}");
    assert!(
        answer.contains("] (90 %), and there are too few trials for a 95 % interval"),
        "{answer}"
    );
}

/// Twenty versions that are all the same: without the correction, one in twenty intervals of
/// 95 % excludes 1.
#[test]
fn many_comparisons_of_equals_decide_nothing() {
    for seed in 0..8 {
        let mut run = General::versions(seed);
        one_thread(&mut run);
        let template = run.records[0].clone();
        let mut random = SplitMix(seed);
        let names: Vec<Value> = (0..21)
            .map(|n| Value::from(format!("v{n}").as_str()))
            .collect();
        let cells = names.iter().map(|name| {
            Factors::from([
                ("version".to_owned(), name.clone()),
                ("threads".to_owned(), Value::from(1.0)),
            ])
        });
        run.plan.stages[0].cells = cells.collect();
        run.plan.factors[0].values = names;
        // It shows version a only, which is not there.
        run.plan.figures.clear();
        run.records.clear();
        for (cell, factors) in (0..).zip(run.plan.stages[0].cells.clone()) {
            for repeat in 0..REPEATS {
                let mut record = template.clone();
                record.id = format!("main-{cell:03}-{repeat:02}");
                (record.cell, record.repeat, record.factors) = (cell, repeat, factors.clone());
                let wall_ns = 1e9 * random.about(0.05);
                if let Outcome::Measured(measured) = &mut record.outcome {
                    measured.metrics = BTreeMap::from([("wall_ns".to_owned(), wall_ns)]);
                }
                run.records.push(record);
            }
        }
        let answer = sentence(&run);
        assert!(
            answer.contains("is undecided in 20 of 20 comparisons"),
            "{seed}: {answer}"
        );
    }
}

#[test]
fn missing_trials_are_shown_as_missing_never_as_zero() {
    let mut run = General::versions(7);
    run.records
        .retain(|record| record.cell != 1 || record.repeat == 3);
    let html = page(&run);
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
    let answer = sentence(&run);
    let nothing = "No trial was measured: there is no answer; 72 of 72 trials are missing.";
    assert_eq!(answer, nothing);
    assert!(text_summary(&run.run()).contains("Missing: 72 trials"));
}

#[test]
fn retries_suspects_flags_and_notes_are_listed() {
    let html = page(&General::versions(7));
    let checks = part(&html, "checks");
    for words in [
        "main-002-00</th><td class=\"words\">version b, with 1 threads</td><td>2</td>",
        "main-003-04</th><td class=\"words\">version b, with 4 threads</td><td class=\"words\">\
         clock stepped",
        "wall_ns</th><td class=\"words\">does not count: clock stepped</td><td>1</td>",
        "the log was cut",
    ] {
        assert!(checks.contains(words), "{words}: {checks}");
    }
}

#[test]
fn definitions_plan_host_and_command_are_there() {
    let html = page(&General::versions(7));
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
    run.measured("main-004-04").suspect = Some(hostile.to_owned());
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
    let mut run = General::versions(7);
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
    let answer = sentence(&run);
    assert!(answer.ends_with("1 of 65 trials is missing."), "{answer}");
    let html = page(&run);
    assert!(part(&html, "cells").contains("<td>6 of 6</td>"));
}

#[test]
fn a_folder_has_page_and_tables() {
    let place = tempfile::tempdir().unwrap();
    let folder = General::versions(7).write(place.path());
    let rendered = render(&folder).unwrap();
    let html = fs::read_to_string(rendered.page).unwrap();
    assert!(html.contains("Which version of the program is faster?"));
    let table = fs::read_to_string(rendered.trials).unwrap();
    let head = "id,stage,cell,repeat,retries,started_unix_ns,failure,suspect,notes,version,threads,\
                wall_ns,wall_ns_flag,drift_ns,energy_j,resident_bytes";
    assert_eq!(table.lines().next(), Some(head));
    let suspect = table.lines().find(|line| line.starts_with("main-003-04"));
    assert!(
        suspect.unwrap().contains(",clock stepped,,b,4,"),
        "{suspect:?}"
    );
    let failed = table
        .lines()
        .find(|line| line.starts_with("main-001-03"))
        .unwrap();
    assert!(
        failed.ends_with(",ended with signal 11,,,a,4,,,,,"),
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
