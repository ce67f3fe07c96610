//! Several clients that run a program at the same time.

use std::path::Path;

use report::record::Record;

use super::{metric, run};
use crate::tests::gate::Fixture;

/// A trial of `clients` clients over loopback that run a script of the shell.
fn clients(fixture: &Fixture, clients: u8, script: &str, tables: &str) -> (Record, String) {
    let head = format!(
        "repeats = 1\nretries = 0\n[hosts]\nclients = {clients}\n[program]\n\
         command = [\"/bin/sh\", \"-c\", '''{script}''']\nenvironment = {{ CLIENT = \"{{client}}\", \
         FOLDER = \"{}\" }}\ntimeout = \"60s\"\n",
        fixture.path("").display()
    );
    let (outcome, mut records) = run(&fixture.options(), &(head + tables));
    assert_eq!(records.len(), 1);
    let record = records.remove(0);
    let log = |name: &str| outcome.folder.join(format!("logs/{}.{name}", record.id));
    let logs = (0..clients).map(|it| std::fs::read_to_string(log(&format!("stdout-{it}"))));
    let logs: Vec<String> = logs.map(Result::unwrap_or_default).collect();
    (record, logs.join("|"))
}

fn across(name: &str, across: &str, regex: &str) -> String {
    format!("[[metric]]\nname = \"{name}\"\nunit = \"count\"\nregex = '{regex}'\n{across}\n")
}

/// Each client waits until all three have begun.
const TOGETHER: &str = ": > $FOLDER/began-$CLIENT; for other in 0 1 2; do \
                        while [ ! -e $FOLDER/began-$other ]; do :; done; done; ";

#[test]
fn clients_run_together_and_their_metrics_are_combined() {
    let fixture = Fixture::new();
    let expected = [
        ("mean", 4.0),
        ("median", 3.0),
        ("sum", 12.0),
        ("min", 1.0),
        ("max", 8.0),
    ];
    let mut tables = across("default", "", "v ([0-9]+)");
    for (name, _) in expected {
        tables += &across(name, &format!("across = \"{name}\""), "v ([0-9]+)");
    }
    // Of clients 0, 1 and 2: 3, 8 and 1. Each prints another value before.
    let script = "set -- 3 8 1; shift $CLIENT; echo v 99; echo v $1";
    let (record, logs) = clients(&fixture, 3, &format!("{TOGETHER}{script}"), &tables);
    for (name, value) in expected {
        assert_eq!(metric(&record, name), value, "{name}");
    }
    assert_eq!(metric(&record, "default"), 4.0);
    assert_eq!(logs, "v 99\nv 3\n|v 99\nv 8\n|v 99\nv 1\n");
    let artefacts = &record.measured().unwrap().artefacts;
    let names: Vec<&str> = artefacts.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "stderr-0", "stderr-1", "stderr-2", "stdout-0", "stdout-1", "stdout-2"
        ]
    );
}

#[test]
fn each_client_has_an_input_of_its_own() {
    let fixture = Fixture::new();
    let tables = across("least", "across = \"min\"", "sum ([0-9]+)")
        + &across("greatest", "across = \"max\"", "sum ([0-9]+)");
    let head = "repeats = 1\n[[factor]]\nname = \"host.clients\"\nvalues = [1, 3]\n[program]\n\
                input = [\"seq\", \"{client}\", \"10\"]\ntimeout = \"60s\"\n\
                command = [\"awk\", '{ s += $1 } END { print \"sum\", s }']\n";
    let (outcome, records) = run(&fixture.options(), &(head.to_owned() + &tables));
    assert_eq!((outcome.measured, records.len()), (2, 2), "{records:?}");
    for record in &records {
        let several = record.factors["host.clients"].number() == Some(3.0);
        assert_eq!(metric(record, "greatest"), 55.0);
        assert_eq!(metric(record, "least"), if several { 54.0 } else { 55.0 });
    }
}

/// Client 0 stays, and leaves its process id; client 1 does `then` once it is there.
fn one_stays(then: &str) -> String {
    format!(
        "if [ $CLIENT = 0 ]; then echo $$ > $FOLDER/new; mv $FOLDER/new $FOLDER/pid; \
         exec tail -f /dev/null; fi; while [ ! -e $FOLDER/pid ]; do :; done; {then}"
    )
}

#[test]
fn a_client_that_fails_is_named_and_the_others_are_killed() {
    let fixture = Fixture::new();
    let script = one_stays("echo it broke >&2; exit 3");
    let (record, _) = clients(&fixture, 2, &script, "");
    let reason = "client 1: the program exited with status 3: it broke";
    assert_eq!(record.failure(), Some(reason));
    let pid = std::fs::read_to_string(fixture.path("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists());
}

#[test]
fn a_client_without_a_metric_fails_the_trial_or_leaves_it_without_a_value() {
    let fixture = Fixture::new();
    let script = "[ $CLIENT = 1 ] || echo v 5";
    let (record, _) = clients(&fixture, 2, script, &across("v", "", "v ([0-9]+)"));
    let reason = "client 1: no value of metric `v` in the output";
    assert_eq!(record.failure(), Some(reason));
    let optional = across("v", "optional = true\nacross = \"sum\"", "v ([0-9]+)");
    let (record, _) = clients(&fixture, 2, script, &optional);
    assert_eq!(record.measured().unwrap().metric("v"), None);
    let note = "metric `v` has no value, because only 1 of 2 clients have one";
    assert_eq!(record.notes, [note]);
}

#[test]
fn the_first_exit_status_that_is_not_0_and_the_longest_time_are_those_of_the_trial() {
    let fixture = Fixture::new();
    let script = "[ $CLIENT != 1 ] || sleep 0.3; exit $((4 * (CLIENT > 0) + CLIENT))";
    let tables = "success = [0, 5, 6]\n";
    let (record, _) = clients(&fixture, 3, script, tables);
    assert_eq!(metric(&record, "exit_status"), 5.0);
    assert!(metric(&record, "elapsed_ns") >= 0.3e9);
}

/// Skipped by name where this process may not create network namespaces.
#[test]
fn clients_in_namespaces_run_on_hosts_of_their_own() {
    let fixture = Fixture::new();
    let address = "inet 198.51.100.([0-9]+)";
    let tables = "repeats = 1\n[hosts]\nkind = \"namespaces\"\nclients = 2\n[program]\n\
                  command = [\"ip\", \"-4\", \"addr\"]\ntimeout = \"60s\"\n"
        .to_owned()
        + &across("least", "across = \"min\"", address)
        + &across("greatest", "across = \"max\"", address);
    let plan = super::plan(&fixture.options(), &tables);
    let mut reporter = super::LineReporter::new(std::io::sink());
    let outcome = match crate::run(&plan, &fixture.options(), &mut reporter) {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("skipped: {error}");
            return;
        }
    };
    let record = super::trials(&outcome.folder).remove(0);
    let numbers = ["least", "greatest"].map(|it| metric(&record, it));
    assert_eq!(numbers, [2.0, 6.0]);
}
