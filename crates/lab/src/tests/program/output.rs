//! Metrics of a program's output, and of the program itself.

use report::record::Record;

use super::{metric, run, shell};
use crate::tests::assert_has;
use crate::tests::gate::Fixture;

fn table(name: &str, source: &str, more: &str) -> String {
    format!("[[metric]]\nname = \"{name}\"\nunit = \"count\"\n{source}\n{more}\n")
}

#[test]
fn environment_and_commands_have_the_values_of_the_trial() {
    let fixture = Fixture::new();
    let tables = r#"
repeats = 2
[[factor]]
name = "n"
values = [4, 7]
[program]
command = ["/bin/sh", "-c", 'echo n $N seed $SEED trial {trial} from "{curtail}"']
environment = { N = "{n}", SEED = "{seed}" }
timeout = "60s"
"#;
    let tables = tables.to_owned()
        + &table("printed-n", "regex = 'n ([0-9]+) '", "")
        + &table("printed-seed", "regex = 'seed ([0-9]+) '", "");
    let options = fixture.options();
    let (outcome, records) = run(&options, &tables);
    assert_eq!(outcome.measured, 4);
    for record in &records {
        assert_eq!(
            record.factors["n"].number(),
            Some(metric(record, "printed-n"))
        );
        let printed = outcome
            .folder
            .join(&record.measured().unwrap().artefacts["stdout"]);
        let printed = std::fs::read_to_string(printed).unwrap();
        let expected = format!("trial {} from {}", record.id, options.curtail.display());
        assert_has(&printed, &expected);
    }
    // Trials of one repeat have one seed, so that cells are measured under equal conditions.
    let seeds = |repeat| {
        let of = records
            .iter()
            .filter(move |it: &&Record| it.repeat == repeat);
        of.map(|it| metric(it, "printed-seed")).collect::<Vec<_>>()
    };
    assert_eq!(seeds(0)[0], seeds(0)[1]);
    assert_ne!(seeds(0)[0], seeds(1)[0]);
}

#[test]
fn the_resources_of_a_program_and_its_children_are_measured() {
    let fixture = Fixture::new();
    // The child works; the shell waits for it.
    let work = r#"awk "BEGIN { while (i < 2000000) i++ }"; true"#;
    let record = shell(&fixture.options(), work, "");
    for name in [
        "elapsed_ns",
        "user_ns",
        "resident_bytes",
        "voluntary_switches",
    ] {
        assert!(metric(&record, name) > 0.0, "{name}: {record:?}");
    }
    assert!(metric(&record, "user_ns") > 1e7, "{record:?}");
    assert!(
        metric(&record, "user_ns") < 1.1 * metric(&record, "elapsed_ns"),
        "{record:?}"
    );
    let switches = ["voluntary_switches", "involuntary_switches"].map(|it| metric(&record, it));
    assert!(switches.iter().all(|it| it.fract() == 0.0));
}

#[test]
fn energy_or_its_proxies_are_in_every_record_and_given_for_each_request() {
    let fixture = Fixture::new();
    // It reads the files of the machine on which it runs: with RAPL there is energy as well.
    let script = r#"awk "BEGIN { while (i < 2000000) i++ }"; echo 100 answers"#;
    let answers = "[[metric]]\nname = \"answers\"\nunit = \"count\"\nregex = '([0-9]+) answers'\n";
    let requests = format!("requests = \"answers\"\n{answers}");
    for (tables, of_requests) in [(answers, false), (&requests, true)] {
        let record = shell(&fixture.options(), script, tables);
        let total = metric(&record, "proxy_processor_time_ns");
        assert!(
            metric(&record, "proxy_context_switches") > 0.0,
            "{record:?}"
        );
        let each = record.measured().unwrap();
        let each = each.metric("proxy_processor_time_per_request_ns");
        assert_eq!(each, of_requests.then_some(total / 100.0), "{record:?}");
    }
}
