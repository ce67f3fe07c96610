//! Reading a run folder: strict, except for a torn last line.

use std::collections::HashMap;
use std::fs;

use crate::record::{Factors, FaultClass, Outcome, Value};
use crate::tests::general_run::General;
use crate::tests::ladder::{LATE, censor, fault, ladder};
use crate::{Error, Run, write_csv};

/// The error of reading a folder whose `trials.jsonl` is `lines`.
fn read_lines(lines: &[u8]) -> Result<Run, Error> {
    let place = tempfile::tempdir().unwrap();
    let folder = ladder(1).write(place.path());
    fs::write(folder.join("trials.jsonl"), lines).unwrap();
    Run::open(&folder)
}

fn refused(run: &General) -> String {
    read_lines(run.lines().as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_folder_reads_as_it_was_written() {
    let written = ladder(1);
    let run = written.run();
    assert_eq!(run.plan, written.plan);
    // To the last bit of every number.
    let mut pairs = run.records.iter().zip(&written.records);
    assert_eq!(pairs.find(|(read, wrote)| read != wrote), None);
    assert_eq!(run.records.len(), written.records.len());
    assert!(!run.torn);
}

#[test]
fn a_torn_last_line_costs_its_trial_and_nothing_else() {
    let ladder = ladder(1);
    let lines = ladder.lines();
    let whole = lines.trim_end();
    let before = ladder.records.len();
    let run = read_lines(&whole.as_bytes()[..whole.len() - 40]).unwrap();
    assert!(run.torn);
    assert_eq!(run.records.len(), before - 1);
    let lost = ladder.records.last().unwrap();
    let missing = run.missing();
    let is_lost = |it: &crate::MissingTrial| (it.cell, it.repeat) == (lost.cell, lost.repeat);
    assert!(missing.iter().any(|it| is_lost(it) && it.failure.is_none()));
    // Complete except for the line break: nothing is lost.
    let run = read_lines(whole.as_bytes()).unwrap();
    assert!(!run.torn);
    assert_eq!(run.records.len(), before);
}

#[test]
fn a_line_torn_within_a_character_is_torn_like_any() {
    let mut ladder = ladder(1);
    ladder.records.truncate(3);
    ladder.records[2].outcome = Outcome::Failed("µ".to_owned());
    let lines = ladder.lines();
    let cut = lines.find('µ').unwrap() + 1;
    let run = read_lines(&lines.as_bytes()[..cut]).unwrap();
    assert!(run.torn);
    assert_eq!(run.records.len(), 2);
}

#[test]
fn a_bad_line_is_an_error_that_names_file_line_and_remedy() {
    let lines = ladder(1).lines();
    let mut split: Vec<&str> = lines.lines().collect();
    split[2] = r#"{"id": "s-curtail-0-00", "stage": "sw"#;
    let broken = split.join("\n") + "\n";
    let error = read_lines(broken.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("trials.jsonl line 3: "), "{error}");
    assert!(error.contains("remove the line"), "{error}");
    // The last line is no exception once it is complete.
    let error = read_lines((lines.clone() + "{}\n").as_bytes()).unwrap_err();
    let line = format!("line {}: ", split.len() + 1);
    assert!(error.to_string().contains(&line), "{error}");
}

#[test]
fn trials_of_another_run_are_refused() {
    let mut run = ladder(1);
    run.records[0].factors = Factors::from([("server".to_owned(), Value::from("elsewhere"))]);
    let told = refused(&run);
    assert!(
        told.contains("line 1: factors that cell 0 does not have"),
        "{told}"
    );
    let mut run = ladder(1);
    run.records[0].cell = 8;
    let told = refused(&run);
    assert!(told.contains("cell 8 of a stage of 2"), "{told}");
    let mut run = ladder(1);
    let metrics = &mut run.measured("s-curtail-0-00").metrics;
    metrics.insert("elsewhere".to_owned(), 1.0);
    let told = refused(&run);
    assert!(
        told.contains("metric `elsewhere`, which the plan does not define"),
        "{told}"
    );
}

#[test]
fn a_trial_that_was_tried_again_counts_once() {
    let ladder = ladder(1);
    let measured = ladder.records[0].clone();
    let mut failed = measured.clone();
    failed.outcome = Outcome::Failed("no port was free".to_owned());
    let line = |trial| serde_json::to_string(trial).unwrap() + "\n";
    let run = read_lines((line(&failed) + &line(&measured)).as_bytes()).unwrap();
    assert_eq!(run.records, std::slice::from_ref(&measured));
    let error = read_lines((line(&measured) + &line(&measured)).as_bytes()).unwrap_err();
    assert!(error.to_string().contains("line 2: "), "{error}");
}

#[test]
fn a_plan_of_another_schema_is_refused() {
    let mut run = ladder(1);
    run.plan.schema = "curtail.run/9".to_owned();
    let place = tempfile::tempdir().unwrap();
    let error = Run::open(run.write(place.path())).unwrap_err().to_string();
    assert!(
        error.contains("plan.toml") && error.contains("curtail.run/9"),
        "{error}"
    );
    let error = Run::open(tempfile::tempdir().unwrap().path()).unwrap_err();
    let what = "a run folder holds plan.toml, host.json and trials.jsonl";
    assert!(error.to_string().contains(what), "{error}");
}

#[test]
fn missing_trials_are_failed_ones_and_those_that_never_ended() {
    let run = ladder(1).run();
    let missing = run.missing();
    let missing: Vec<_> = missing
        .iter()
        .map(|it| (it.stage, it.cell, it.repeat, it.failure.is_some()))
        .collect();
    let expected = [
        ("sweep", 7, 14, false),
        ("sweep", 12, 3, true),
        ("sweep", 12, 9, true),
    ];
    assert_eq!(missing, expected);
}

#[test]
fn the_flat_table_has_a_row_a_trial_with_its_fault_and_flags() {
    let mut ladder = ladder(1);
    censor(ladder.measured("s-curtail-2-00"));
    fault(
        ladder.measured("s-curtail-2-01"),
        FaultClass::Failing,
        "errors, 12 %",
    );
    let run = ladder.run();
    let mut table = Vec::new();
    write_csv(&run.plan, &run.records, &mut table).unwrap();
    let mut reader = csv::Reader::from_reader(table.as_slice());
    let rows: Vec<HashMap<String, String>> =
        reader.deserialize().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), ladder.records.len());
    for (row, record) in rows.iter().zip(&ladder.records) {
        assert_eq!(row["id"], record.id);
        for name in ["achieved_rps", "response_p99_ns", "offered_rps"] {
            assert_eq!(row[name].parse().ok(), record.number(name), "{name}");
        }
        assert_eq!(row["failure"], record.failure().unwrap_or_default());
    }
    let row = |id: &str| rows.iter().find(|it| it["id"] == id).unwrap();
    assert_eq!(row("s-curtail-2-00")["response_p99_ns_flag"], "lower bound");
    assert_eq!(row("s-curtail-2-01")["fault_class"], "failing");
    assert_eq!(row("s-curtail-2-01")["fault_reason"], "errors, 12 %");
    assert_eq!(row("s-curtail-7-00")["fault_reason"], LATE);
}
