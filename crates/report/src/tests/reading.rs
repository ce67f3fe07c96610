//! Reading a run folder: strict, except for a torn last line.

use std::collections::HashMap;
use std::fs;

use crate::cache::folder::{Outcome, Phase, Sweep};
use crate::tests::synthetic::{self, Synthetic};
use crate::{Error, Run, write_csv};

/// The error of reading a folder whose `trials.jsonl` is `lines`.
fn read_lines(lines: &[u8]) -> Result<Run, Error> {
    let place = tempfile::tempdir().unwrap();
    let folder = Synthetic::ladder(1).write(place.path());
    fs::write(folder.join("trials.jsonl"), lines).unwrap();
    Run::open(&folder)
}

#[test]
fn a_folder_reads_as_it_was_written() {
    let written = Synthetic::ladder(1);
    let run = written.classic();
    assert_eq!(run.plan, written.plan);
    assert_eq!(run.host, written.host);
    // To the last bit of every number.
    let differ = run
        .trials
        .iter()
        .zip(&written.trials)
        .find(|(read, wrote)| read != wrote);
    assert_eq!(differ, None);
    assert_eq!(run.trials.len(), written.trials.len());
    assert!(!run.torn);
}

#[test]
fn a_torn_last_line_costs_its_trial_and_nothing_else() {
    let ladder = Synthetic::ladder(1);
    let lines = ladder.lines();
    let whole = lines.trim_end();
    let before = ladder.trials.len();
    let run = read_lines(&whole.as_bytes()[..whole.len() - 40]).unwrap();
    assert!(run.torn);
    assert_eq!(run.records.len(), before - 1);
    let lost = ladder.trials.last().unwrap();
    let missing = synthetic::classic(&run).missing();
    assert!(
        missing.iter().any(|m| m.server == lost.server
            && m.cell == lost.cell
            && m.repeat == lost.repeat
            && m.failure.is_none()),
        "{missing:?}"
    );
    // Complete except for the line break: nothing is lost.
    let run = read_lines(whole.as_bytes()).unwrap();
    assert!(!run.torn);
    assert_eq!(run.records.len(), before);
}

#[test]
fn a_line_torn_within_a_character_is_torn_like_any() {
    let mut ladder = Synthetic::ladder(1);
    ladder.trials.truncate(3);
    ladder.trials[2].outcome = Outcome::Failed("µ".to_owned());
    let lines = ladder.lines();
    let cut = lines.find('µ').unwrap() + 1;
    let run = read_lines(&lines.as_bytes()[..cut]).unwrap();
    assert!(run.torn);
    assert_eq!(run.records.len(), 2);
}

#[test]
fn a_bad_line_is_an_error_that_names_file_line_and_remedy() {
    let lines = Synthetic::ladder(1).lines();
    let mut split: Vec<&str> = lines.lines().collect();
    split[2] = r#"{"id": "s-curtail-0-00", "phase": "sw"#;
    let error = read_lines((split.join("\n") + "\n").as_bytes())
        .unwrap_err()
        .to_string();
    assert!(error.contains("trials.jsonl line 3: "), "{error}");
    assert!(error.contains("remove the line"), "{error}");
    // The last line is no exception once it is complete.
    let error = read_lines((lines.clone() + "{}\n").as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!("line {}: ", split.len() + 1)),
        "{error}"
    );
}

#[test]
fn trials_of_another_run_are_refused() {
    let mut ladder = Synthetic::ladder(1);
    ladder.trials[0].server = "elsewhere".to_owned();
    let error = read_lines(ladder.lines().as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("line 1: server \"elsewhere\" is not in the plan"),
        "{error}"
    );

    let mut ladder = Synthetic::ladder(1);
    let place = ladder
        .trials
        .iter()
        .position(|trial| trial.phase == Phase::Sweep)
        .unwrap();
    ladder.trials[place].cell = 8;
    let error = read_lines(ladder.lines().as_bytes())
        .unwrap_err()
        .to_string();
    assert!(error.contains("cell 8 of a sweep of 8"), "{error}");
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    for (id, change) in [
        (
            "s-curtail-0-00",
            (|m| m.achieved_rps = -1.0) as fn(&mut crate::cache::folder::Measurement),
        ),
        ("s-curtail-0-00", |m| m.outstanding_mean = f64::MAX * 10.0),
    ] {
        let mut ladder = Synthetic::ladder(1);
        change(ladder.measurement(id));
        let error = read_lines(ladder.lines().as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains("trials.jsonl line "), "{error}");
    }
}

#[test]
fn a_trial_that_was_tried_again_counts_once() {
    let ladder = Synthetic::ladder(1);
    let measured = ladder.trials[0].clone();
    let mut failed = measured.clone();
    failed.outcome = Outcome::Failed("no port was free".to_owned());
    let line = |trial| serde_json::to_string(trial).unwrap() + "\n";

    let run = read_lines((line(&failed) + &line(&measured)).as_bytes()).unwrap();
    assert_eq!(
        synthetic::classic(&run).trials,
        std::slice::from_ref(&measured)
    );
    let error = read_lines((line(&measured) + &line(&measured)).as_bytes()).unwrap_err();
    assert!(error.to_string().contains("line 2: "), "{error}");
}

#[test]
fn a_plan_of_another_schema_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let mut ladder = Synthetic::ladder(1);
    ladder.plan.schema = "curtail.run/9".to_owned();
    let error = Run::open(ladder.write(place.path()))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("plan.toml") && error.contains("curtail.run/9"),
        "{error}"
    );
}

#[test]
fn what_is_no_run_folder_says_what_one_holds() {
    let place = tempfile::tempdir().unwrap();
    let error = Run::open(place.path()).unwrap_err().to_string();
    assert!(
        error.contains("plan.toml") && error.contains("trials.jsonl"),
        "{error}"
    );
}

#[test]
fn missing_trials_are_failed_ones_and_those_that_never_ended() {
    let run = Synthetic::ladder(1).classic();
    let missing: Vec<_> = run
        .missing()
        .into_iter()
        .map(|m| (m.server, m.cell, m.repeat, m.failure.is_some()))
        .collect();
    assert_eq!(
        missing,
        [
            ("curtail".to_owned(), 7, 14, false),
            ("memcached".to_owned(), 4, 3, true),
            ("memcached".to_owned(), 4, 9, true),
        ]
    );
}

#[test]
fn capacity_trials_are_missed_where_the_plan_has_them() {
    let mut ladder = Synthetic::ladder(1);
    ladder.trials.retain(|trial| trial.id != "c-memcached-0-03");
    let run = ladder.classic();
    assert!(
        run.missing()
            .iter()
            .any(|m| m.phase == Phase::Capacity && m.repeat == 3)
    );

    ladder.trials.retain(|trial| trial.phase == Phase::Sweep);
    (ladder.plan.capacity_trials, ladder.plan.sweep) = (0, Sweep::Rates(vec![1e4; 8]));
    let run = ladder.classic();
    assert!(run.missing().iter().all(|m| m.phase == Phase::Sweep));
}

#[test]
fn the_flat_table_has_a_row_a_trial_and_units_in_its_heads() {
    let ladder = Synthetic::ladder(1);
    let mut table = Vec::new();
    let run = ladder.run();
    write_csv(&run.plan, &run.records, &mut table).unwrap();
    let mut reader = csv::Reader::from_reader(table.as_slice());
    let rows: Vec<HashMap<String, String>> =
        reader.deserialize().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), ladder.trials.len());
    for (row, trial) in rows.iter().zip(&ladder.trials) {
        assert_eq!(row["id"], trial.id);
        match &trial.outcome {
            Outcome::Measured(measured) => {
                assert_eq!(row["achieved_rps"].parse(), Ok(measured.achieved_rps));
                assert_eq!(row["service_p99_ns"].parse(), Ok(measured.service.p99));
                let response = measured.response.map(|of| of.p99.to_string());
                assert_eq!(row["response_p99_ns"], response.unwrap_or_default());
                let flag = &row["response_p99_ns_flag"];
                let is_bound = measured.response_bounds().p99;
                assert_eq!(flag.contains("lower bound"), is_bound);
                let is_limited = measured.generator_limited;
                assert_eq!(flag.contains("generator-limited"), is_limited);
                assert_eq!(row["suspect"] == "generator-limited", is_limited);
                let cost = measured.cost.unwrap();
                assert_eq!(
                    row["server_cpu_ns_per_request"].parse(),
                    Ok(cost.cpu_ns_per_request)
                );
                assert_eq!(row["failure"], "");
            }
            Outcome::Failed(why) => {
                assert_eq!(&row["failure"], why);
                assert_eq!(row["achieved_rps"], "");
            }
        }
    }
}

/// Older builds named saturating connections `greedy`.
#[test]
fn the_old_names_of_saturating_connections_are_read() {
    let saturating = crate::cache::Vary::Saturating(vec![0, 1]);
    let rates = Sweep::Rates(vec![10_000.0]);
    let mut run = Synthetic::varied(4, saturating, rates);
    run.plan.load.saturating_depth = 77;
    let place = tempfile::tempdir().unwrap();
    let folder = run.write(place.path());
    let expected = Run::open(&folder).unwrap();
    for file in ["plan.toml", "trials.jsonl"] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.contains("saturating"), "{file}");
        fs::write(folder.join(file), text.replace("saturating", "greedy")).unwrap();
    }
    assert_eq!(Run::open(&folder).unwrap(), expected);
}
