//! Whole runs of trials of any program: what their records hold, and what is left when a program,
//! a process beside it, or the laboratory is killed.

mod before;
mod beside;
mod clients;
mod output;

use std::fs;
use std::time::Duration;

use report::record::{Plan, Record};

use crate::limits::Timeouts;
use crate::tests::gate::Fixture;
use crate::tests::records::trials;
use crate::{Ending, Experiment, LineReporter, Options, RunOutcome};

fn experiment(tables: &str) -> Experiment {
    let head = "question = \"What does it do?\"\nseed = 5\n";
    Experiment::parse("any", "any.toml", &format!("{head}{tables}")).unwrap()
}

fn plan(options: &Options, tables: &str) -> Plan {
    experiment(tables).plan(options).unwrap()
}

fn run(options: &Options, tables: &str) -> (RunOutcome, Vec<Record>) {
    let plan = plan(options, tables);
    let outcome = crate::run(&plan, options, &mut LineReporter::new(std::io::sink())).unwrap();
    let records = trials(&outcome.folder);
    (outcome, records)
}

fn metric(record: &Record, name: &str) -> f64 {
    let measured = record.measured();
    let value = measured.and_then(|it| it.metric(name));
    value.unwrap_or_else(|| panic!("no {name} in {record:?}"))
}

fn shell(options: &Options, script: &str, tables: &str) -> Record {
    assert!(!script.contains('\''), "{script}");
    let command = format!(
        "repeats = 1\n[program]\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\ntimeout = \"60s\"\n"
    );
    let (outcome, mut records) = run(options, &(command + tables));
    assert_eq!((outcome.ending, records.len()), (Ending::Complete, 1));
    records.remove(0)
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children_and_its_input() {
    let fixture = Fixture::new();
    let tables = r#"
repeats = 1
[program]
input = ["{curtail}", "serve", "silent", "0"]
command = ["/bin/sh", "-c", "echo still adding >&2; '{curtail}' serve silent 0 & wait"]
timeout = "2s"
"#;
    let (outcome, records) = run(&fixture.options(), tables);
    assert_eq!((outcome.ending, outcome.failed), (Ending::Complete, 1));
    let reason = records[0].failure().unwrap();
    assert_eq!(
        reason,
        "the program did not exit within 2 s and was killed: still adding"
    );
    fixture.assert_no_processes_left();
}

#[test]
fn a_failing_program_is_recorded_with_its_reason_and_the_run_goes_on() {
    let fixture = Fixture::new();
    let tables = |success: &str| {
        format!(
            "repeats = 2\n[[factor]]\nname = \"code\"\nvalues = [0, 3]\n[program]\ncommand = [\
             \"/bin/sh\", \"-c\", \"echo it broke >&2; exit {{code}}\"]\ntimeout = \"60s\"\n{success}"
        )
    };
    let (outcome, records) = run(&fixture.options(), &tables(""));
    let counts = (outcome.measured, outcome.failed, outcome.exit_code());
    assert_eq!(counts, (2, 2, 0));
    for record in &records {
        let reason = (record.factors["code"].number() == Some(3.0))
            .then_some("the program exited with status 3: it broke");
        assert_eq!(record.failure(), reason);
    }
    let (outcome, records) = run(&fixture.options(), &tables("success = [0, 3]\n"));
    assert_eq!(outcome.measured, 4);
    for record in &records {
        assert_eq!(
            record.factors["code"].number(),
            Some(metric(record, "exit_status"))
        );
    }
}

#[test]
fn a_program_that_is_killed_or_not_installed_has_its_reason() {
    let fixture = Fixture::new();
    let killed = shell(&fixture.options(), "kill -SEGV $$", "");
    assert_eq!(killed.failure(), Some("the program was ended by signal 11"));
    let absent = "repeats = 1\n[program]\ncommand = [\"/nowhere/slap\"]\ntimeout = \"1s\"\n";
    let (_, records) = run(&fixture.options(), absent);
    let reason = records[0].failure().unwrap();
    assert!(
        reason.starts_with("`/nowhere/slap` could not be started: No such file"),
        "{reason}"
    );
}

#[test]
fn retries_are_counted_and_their_reasons_kept() {
    let fixture = Fixture::new();
    let tables = |retries: u32, counter: &str| {
        let counter = fixture.path(counter);
        let counter = counter.display();
        format!(
            "repeats = 1\nretries = {retries}\n[program]\ntimeout = \"60s\"\ncommand = [\"/bin/sh\", \
             \"-c\", \"echo x >> {counter}; n=$(wc -l < {counter}); echo attempt $n >&2; [ $n -ge 3 ]\"]\n"
        )
    };
    let (_, records) = run(&fixture.options(), &tables(2, "a"));
    let failed =
        |n: u32| format!("attempt {n} failed: the program exited with status 1: attempt {n}");
    assert!(records[0].measured().is_some(), "{records:?}");
    assert_eq!(
        (records[0].retries, &records[0].notes),
        (2, &vec![failed(1), failed(2)])
    );
    let (_, records) = run(&fixture.options(), &tables(1, "b"));
    assert_eq!(
        records[0].failure(),
        Some("the program exited with status 1: attempt 2")
    );
    assert_eq!(
        (records[0].retries, &records[0].notes),
        (1, &vec![failed(1)])
    );
}

#[test]
fn an_argument_of_a_nested_factor_is_left_out_of_the_other_cells() {
    let fixture = Fixture::new();
    let tables = r#"
repeats = 1
[[factor]]
name = "mode"
values = [1, 2]
[[factor]]
name = "depth"
values = [7, 8]
only = { mode = [2] }
[program]
command = ["/bin/sh", "-c", 'echo "arguments $# depth ${DEPTH:-0}"', "sh", "{mode}", "--depth={depth}"]
environment = { DEPTH = "{depth}" }
timeout = "60s"
[[metric]]
name = "arguments"
unit = "count"
regex = 'arguments ([0-9]+)'
[[metric]]
name = "variable"
unit = "count"
regex = 'depth ([0-9]+)'
"#;
    let (outcome, records) = run(&fixture.options(), tables);
    assert_eq!((outcome.measured, records.len()), (3, 3), "{records:?}");
    for record in &records {
        let depth = record
            .factors
            .get("depth")
            .and_then(report::record::Value::number);
        assert_eq!(
            metric(record, "arguments"),
            1.0 + f64::from(u8::from(depth.is_some()))
        );
        assert_eq!(metric(record, "variable"), depth.unwrap_or(0.0));
    }
}

#[test]
fn a_trial_that_times_out_is_not_retried() {
    let fixture = Fixture::new();
    let counter = fixture.path("counter");
    // A retry would end at once, and stand for the slow trial.
    let script = format!(
        "echo x >> {0}; [ $(wc -l < {0}) -ge 2 ] || exec tail -f /dev/null",
        counter.display()
    );
    let tables = format!(
        "repeats = 1\nretries = 3\n[program]\ncommand = [\"/bin/sh\", \"-c\", '{script}']\n\
         timeout = \"500ms\"\n"
    );
    let (_, records) = run(&fixture.options(), &tables);
    let reason = "the program did not exit within 500 ms and was killed";
    assert_eq!(
        (records[0].failure(), records[0].retries),
        (Some(reason), 0)
    );
    assert_eq!(fs::read_to_string(counter).unwrap(), "x\n");
}

/// The record of one trial of a pipeline of two shell scripts.
fn pipeline(options: &Options, input: &str, command: &str) -> Record {
    let tables = format!(
        "repeats = 1\n[program]\ninput = [\"/bin/sh\", \"-c\", '{input}']\n\
         command = [\"/bin/sh\", \"-c\", '{command}']\ntimeout = \"60s\"\n"
    );
    run(options, &tables).1.remove(0)
}

#[test]
fn a_trial_whose_input_fails_is_failed() {
    let fixture = Fixture::new();
    let record = pipeline(
        &fixture.options(),
        "echo 1; echo no disk >&2; exit 4",
        "cat",
    );
    let reason = "the program of the input ended with exit status: 4: no disk";
    assert_eq!(record.failure(), Some(reason));
}

#[test]
fn an_input_that_is_not_read_to_its_end_is_no_failure() {
    let fixture = Fixture::new();
    for input in ["exec yes", "yes; exit $?"] {
        let record = pipeline(&fixture.options(), input, "head -n 3 >/dev/null");
        assert!(record.measured().is_some(), "{record:?}");
        assert_eq!(record.notes, [""; 0]);
    }
    let options = Options {
        timeouts: Timeouts {
            stop: Duration::from_millis(50),
            ..Timeouts::default()
        },
        ..fixture.options()
    };
    let record = pipeline(&options, "exec sleep infinity", "true");
    assert!(record.measured().is_some(), "{record:?}");
    let note = "the laboratory killed the program of the input, which did not exit within 50 ms of \
                the program's end";
    assert_eq!(record.notes, [note]);
}
