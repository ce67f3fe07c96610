//! Whole runs of the model of a queue, compared with theory.

use std::fs;
use std::path::Path;

use lab::{Error, Experiment, Laboratory, LineReporter, Options};
use report::record::{Factors, Record, Value};

use crate::KIND;

/// Settings such as `rate = 200, series = rings`. A semicolon stands for a comma in a name.
pub(crate) fn factors(text: &str) -> Factors {
    let entry = |(name, value): (&str, &str)| {
        let value = match value.parse::<f64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::from(value.replace(';', ",").as_str()),
        };
        (name.to_owned(), value)
    };
    let entries = text.split(", ").filter_map(|it| it.split_once(" = "));
    entries.map(entry).collect()
}

const LABORATORY: Laboratory = Laboratory {
    kinds: &[KIND],
    shipped: &[],
};

fn experiment(tables: &str) -> Result<Experiment, Error> {
    let head =
        "kind = \"model\"\nmodel = \"queue\"\nquestion = \"How long is the queue?\"\nseed = 9\n";
    LABORATORY.parse("queue", "queue.toml", &format!("{head}{tables}"))
}

fn run(runs: &Path, seed: u64, tables: &str) -> Vec<Record> {
    let options = Options {
        runs: runs.to_owned(),
        fresh: true,
        seed: Some(seed),
        // It is read as a whole for the record of the host.
        curtail: "/bin/sh".into(),
        ..LABORATORY.options().unwrap()
    };
    let plan = experiment(tables).unwrap().plan(&options).unwrap();
    let outcome = lab::run(&plan, &options, &mut LineReporter::new(std::io::sink())).unwrap();
    assert_eq!(outcome.failed, 0);
    let records = fs::read_to_string(outcome.folder.join("trials.jsonl")).unwrap();
    let records = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let mut records: Vec<Record> = records.collect();
    records.sort_by(|a, b| a.id.cmp(&b.id));
    records
}

fn values(records: &[Record], service: &str, metric: &str) -> Vec<f64> {
    let of = records
        .iter()
        .filter(|it| it.factors["service"].to_string() == service);
    of.map(|it| it.measured().unwrap().metric(metric).unwrap())
        .collect()
}

const HALF: &str = "repeats = 15\n[settings]\nrate = \"5k\"\nrequests = 20_000\n\
                    [[factor]]\nname = \"service\"\nvalues = [\"exponential\", \"fixed\"]\n";

#[test]
fn the_mean_response_time_of_a_queue_is_within_the_interval() {
    let runs = tempfile::tempdir().unwrap();
    let records = run(runs.path(), 9, HALF);
    // A service time of 100 us and a wait of ρ ÷ (1 − ρ) = 1 of it in M/M/1, half in M/D/1
    // (Pollaczek and Khinchine).
    for (service, expected_ns) in [("exponential", 200_000.0), ("fixed", 150_000.0)] {
        let values = values(&records, service, "response_mean_ns");
        assert_eq!(values.len(), 15);
        // Of two intervals of 95 %, one would miss under a tenth of all seeds.
        let found = measure::median_of_trials(&values, 0.99).unwrap();
        let (low, high) = (found.interval.low, found.interval.high);
        assert!(
            (low..=high).contains(&expected_ns),
            "{service}: {low} to {high}"
        );
        assert!(high / low < 1.05, "{service}: {low} to {high}");
    }
    // Half of the requests find the server idle, and take as long as they are served.
    let least = values(&records, "fixed", "response_p50_ns");
    assert!(
        least.iter().all(|it| (99_000.0..=140_000.0).contains(it)),
        "{least:?}"
    );
    for record in &records {
        assert_eq!(record.measured().unwrap().metric("load"), Some(0.5));
        assert!(
            record
                .measured()
                .unwrap()
                .artefacts
                .contains_key("response")
        );
    }
}

#[test]
fn a_seed_gives_the_same_numbers_and_another_seed_others() {
    let runs = tempfile::tempdir().unwrap();
    let tables = HALF
        .replace("repeats = 15", "repeats = 2")
        .replace("20_000", "1_000");
    let outcomes = |seed| {
        let records = run(runs.path(), seed, &tables);
        records.into_iter().map(|it| it.outcome).collect::<Vec<_>>()
    };
    let first = outcomes(9);
    assert_eq!(outcomes(9), first);
    assert_ne!(outcomes(10), first);
    // The repeats differ.
    assert_ne!(first[0], first[1]);
}

#[test]
fn wrong_settings_of_a_model_are_refused() {
    let set = |settings: &str| format!("repeats = 1\n[settings]\n{settings}\n");
    #[rustfmt::skip]
    let table = [
        (set("requests = 100"), "`rate` is missing"),
        (set("rate = 0"), "`rate` is 0, not a number above 0"),
        (set("rate = 1\nservers = 1.5"), "`servers` is 1.5, not a whole number"),
        (set("rate = 1\nservers = 2000"), "`servers` is 2000, not 1 to 1024"),
        (set("rate = 1\nrequests = 3"), "`requests` is 3, not 10 to 100000000"),
        (set("rate = 1\nservice = \"slow\""), "`service` is `slow`, not one of exponential, fixed"),
        (set("rate = 1\nspeed = 1"), "`speed` is no setting of the model; known are rate"),
    ];
    for (tables, expected) in table {
        let refused = experiment(&tables).unwrap_err().to_string();
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
}
