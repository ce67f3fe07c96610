//! Processes that run beside a program.

use std::time::Duration;

use super::{metric, run};
use crate::limits::Timeouts;
use crate::tests::assert_has;
use crate::tests::gate::Fixture;
use crate::{Experiment, Options};

fn script(name: &str, script: &str, ready: &str) -> String {
    format!(
        "[[beside]]\nname = \"{name}\"\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\n\
         environment = {{ FOLDER = \"{{folder}}\" }}\nready = {{ {ready} }}\n"
    )
}

/// Works for a moment, leaves a mark, prints a line, and stays.
const SLOW: &str = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; : > $FOLDER/$0; echo ready; \
                    exec tail -f /dev/null";

#[test]
fn a_program_starts_once_every_probe_has_succeeded() {
    let fixture = Fixture::new();
    let folder = fixture.path("");
    let folder = folder.to_str().unwrap();
    // The name of the mark, `$0`, is the word after the script.
    let slow = |name: &str, ready: &str| {
        let table = script(name, SLOW, ready).replace("{folder}", folder);
        table.replace("''']", &format!("''', \"{name}\"]"))
    };
    let server = "[[beside]]\nname = \"server\"\n\
                  command = [\"{curtail}\", \"serve\", \"well\", \"{port}\"]\n\
                  ready = { connect = \"127.0.0.1:{port}\" }\n";
    let program = format!(
        "repeats = 2\n[program]\ntimeout = \"60s\"\ncommand = [\"/bin/sh\", \"-c\", \
         \"ls {folder}first {folder}second >&2 && exec '{{curtail}}' program ask 127.0.0.1:{{port}}\"]\n\
         [[metric]]\nname = \"version\"\nunit = \"count\"\nregex = 'VERSION ([0-9.]+)-fake'\n"
    );
    let mark = format!("command = [\"test\", \"-e\", \"{folder}second\"]");
    let first = slow("first", "line = '^rea.y$'");
    let tables = program + server + &first + &slow("second", &mark);
    let (outcome, records) = run(&fixture.options(), &tables);
    assert_eq!((outcome.measured, outcome.failed), (2, 0), "{records:?}");
    for record in &records {
        assert_eq!(metric(record, "version"), 9.9);
        assert_eq!(record.notes, [""; 0]);
        assert!(
            outcome
                .folder
                .join(format!("logs/{}.first", record.id))
                .exists()
        );
    }
    fixture.assert_no_processes_left();
}

#[test]
fn a_process_that_never_becomes_ready_is_named_with_probe_and_time() {
    let fixture = Fixture::new();
    let options = Options {
        timeouts: Timeouts {
            start: Duration::from_millis(100),
            ..Timeouts::default()
        },
        ..fixture.options()
    };
    #[rustfmt::skip]
    let table = [
        ("connect = \"127.0.0.1:1\"", "(no connection to 127.0.0.1:1)"),
        ("line = 'listening'", "(no line matches `listening`)"),
        ("command = [\"test\", \"-e\", \"/nowhere\"]", "(`test -e /nowhere` did not exit with 0)"),
        ("command = [\"/nowhere/probe\"]", "(`/nowhere/probe`: No such file"),
    ];
    for (ready, expected) in table {
        let waits = script("aside", "echo waking; exec tail -f /dev/null", ready);
        let waits = waits.replace("{folder}", "");
        let program = "repeats = 1\n[program]\ncommand = [\"true\"]\ntimeout = \"1s\"\n";
        let (outcome, records) = run(&options, &format!("{program}{waits}"));
        assert_eq!(outcome.failed, 1);
        let reason = records[0].failure().unwrap();
        assert!(
            reason.starts_with("aside was not ready within 100 ms "),
            "{reason}"
        );
        assert_has(reason, expected);
    }
}

#[test]
fn a_probe_that_takes_half_a_second_succeeds() {
    let fixture = Fixture::new();
    let tables = "repeats = 1\n[program]\ncommand = [\"true\"]\ntimeout = \"60s\"\n\
                  [[beside]]\nname = \"server\"\ncommand = [\"tail\", \"-f\", \"/dev/null\"]\n\
                  ready = { command = [\"sleep\", \"0.5\"] }\n";
    let (_, records) = run(&fixture.options(), tables);
    assert!(records[0].measured().is_some(), "{records:?}");
}

#[test]
fn a_process_that_exits_during_a_probe_is_not_waited_for() {
    let fixture = Fixture::new();
    let tables = "repeats = 1\n[program]\ncommand = [\"true\"]\ntimeout = \"60s\"\n\
                  [[beside]]\nname = \"server\"\ncommand = [\"sh\", \"-c\", \"sleep 0.1; exit 3\"]\n\
                  ready = { command = [\"tail\", \"-f\", \"/dev/null\"] }\n";
    let (_, records) = run(&fixture.options(), tables);
    let reason = "server exited before it was ready (exit status: 3)";
    assert_eq!(records[0].failure(), Some(reason));
}

#[test]
fn a_process_that_dies_ends_a_program_that_would_go_on() {
    let fixture = Fixture::new();
    // Reached only if the death is noticed at the program's end.
    let tables = "repeats = 1\nretries = 1\n[program]\ntimeout = \"60s\"\n\
                  command = [\"tail\", \"-f\", \"/dev/null\"]\n[[beside]]\nname = \"server\"\n\
                  command = [\"/bin/sh\", \"-c\", \"sleep 0.2; echo no memory; exit 3\"]\n";
    let began = std::time::Instant::now();
    let (_, records) = run(&fixture.options(), tables);
    let reason = "server exited during the trial (exit status: 3): no memory";
    assert_eq!(
        (records[0].failure(), records[0].retries),
        (Some(reason), 1)
    );
    assert!(began.elapsed() < Duration::from_secs(60));
}

const COUNTING: &str =
    "trap \"echo served 42; exit\" TERM; echo ready; while :; do sleep 0.02; done";

#[test]
fn a_metric_is_read_from_what_a_process_prints_at_its_end() {
    let fixture = Fixture::new();
    let served = "[[metric]]\nname = \"served\"\nunit = \"count\"\nregex = 'served ([0-9]+)'\n";
    let tables = |from: &str| {
        let program =
            "repeats = 1\n[program]\ncommand = [\"echo\", \"served 7\"]\ntimeout = \"60s\"\n";
        let server = script("server", COUNTING, "line = '^ready$'").replace("{folder}", "");
        format!("{program}{server}{served}{from}")
    };
    let (_, records) = run(&fixture.options(), &tables("from = \"server\"\n"));
    assert_eq!(metric(&records[0], "served"), 42.0, "{records:?}");
    let fixture = Fixture::new();
    let (_, records) = run(&fixture.options(), &tables(""));
    assert_eq!(metric(&records[0], "served"), 7.0, "{records:?}");
    let head = "question = \"What does it do?\"\nseed = 5\n";
    let text = format!("{head}{}", tables("from = \"sever\"\n"));
    let error = Experiment::parse("any", "any.toml", &text)
        .unwrap_err()
        .to_string();
    assert_has(&error, "no [[beside]] process; did you mean `server`?");
}

/// Skipped by name where one of the programs is not installed.
#[test]
fn memcslap_measures_memcached_under_two_factors() {
    let fixture = Fixture::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    for program in ["memcslap", "memcached"] {
        if !std::env::split_paths(&path).any(|it| it.join(program).is_file()) {
            eprintln!("skipped: {program} is not installed");
            return;
        }
    }
    let tables = r#"
repeats = 1
[[factor]]
name = "concurrency"
values = [1, 4]
[[factor]]
name = "test"
values = ["get", "set"]
[program]
command = ["memcslap", "--servers=127.0.0.1:{port}", "--concurrency={concurrency}",
           "--execute-number=50", "--initial-load=50", "--test={test}"]
timeout = "60s"
[[beside]]
name = "memcached"
command = ["memcached", "-l", "127.0.0.1", "-p", "{port}", "-u", "nobody"]
ready = { connect = "127.0.0.1:{port}" }
[[metric]]
name = "total"
unit = "s"
better = "lower"
regex = 'Time total: +([0-9.]+) seconds'
"#;
    let (outcome, records) = run(&fixture.options(), tables);
    assert_eq!((outcome.measured, outcome.failed), (4, 0), "{records:?}");
    for record in &records {
        assert!(metric(record, "total") > 0.0);
        assert!(metric(record, "total") * 1e9 <= metric(record, "elapsed_ns"));
    }
}
