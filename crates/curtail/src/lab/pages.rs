//! The page of every shipped experiment, of records that are drawn at random.

use std::collections::BTreeMap;

use report::Run;
use report::record::{Host, Measured, Outcome, Plan, Record};

use super::LABORATORY;

/// The plan of a shipped experiment, short if it has that form, with memcached if it asks for it.
fn plan(name: &str) -> Plan {
    let experiment = LABORATORY.load(name).unwrap();
    let mut options = LABORATORY.options().unwrap();
    options.quick = experiment.has_quick();
    let without = experiment.plan(&options);
    options.servers = vec![("memcached".to_owned(), "/bin/sh".into())];
    experiment.plan(&options).or(without).unwrap()
}

/// A measured trial of every repeat of every cell, with a value of every metric.
fn records(plan: &Plan) -> Vec<Record> {
    let mut state = 7u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        1.0 + (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let mut records = Vec::new();
    for stage in &plan.stages {
        for (cell, factors) in (0..).zip(&stage.cells) {
            for repeat in 0..stage.repeats.least {
                let names = plan.metrics.iter().map(|it| it.name.clone());
                records.push(Record {
                    id: format!("{}-{cell}-{repeat}", stage.name),
                    stage: stage.name.clone(),
                    cell,
                    repeat,
                    retries: 0,
                    factors: factors.clone(),
                    resolved: BTreeMap::new(),
                    started_unix_ns: 0,
                    outcome: Outcome::Measured(Measured {
                        metrics: names.map(|name| (name, 1e3 * random())).collect(),
                        ..Measured::default()
                    }),
                    notes: Vec::new(),
                });
            }
        }
    }
    records
}

#[test]
fn every_page_opens_with_a_short_sentence_that_names_no_key() {
    let host = Host {
        kernel: String::new(),
        cpu: String::new(),
        processors: 2,
        memory_bytes: 0,
        virtualised: None,
        clock: String::new(),
        governor: None,
        open_files: 0,
        curtail: String::new(),
    };
    for name in LABORATORY.shipped.iter().map(|it| it.name) {
        let plan = plan(name);
        let run = Run {
            folder: "nowhere".into(),
            records: records(&plan),
            plan,
            host: host.clone(),
            torn: false,
        };
        let html = report::page_of(&run).unwrap();
        let (_, sentence) = html.split_once("id=\"answer\">").unwrap();
        let (sentence, _) = sentence.split_once("</p>").unwrap();
        println!("{name}: {sentence}");
        let words = sentence.split_whitespace().count();
        assert!((5..=30).contains(&words), "{name}: {sentence}");
        assert!(
            !sentence.contains('_') && !sentence.ends_with('…'),
            "{name}: {sentence}"
        );
    }
}
