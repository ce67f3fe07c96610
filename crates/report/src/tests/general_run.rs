//! Synthetic runs of programs, which have no servers and rates: generated from a seed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Run;
use crate::figure::{Figure, FigureKind};
use crate::record::{
    Better, Factor, Factors, Fault, FaultClass, Flag, Host, Measured, Metric, Outcome, Plan,
    Record, Repeats, SCHEMA, Stage, Unit, Value,
};

/// Trials of a cell.
pub(crate) const REPEATS: u32 = 12;
/// Version, and the factor of its run time.
const VERSIONS: [(&str, f64); 3] = [("a", 1.0), ("b", 0.8), ("c", 1.0)];
const THREADS: [f64; 2] = [1.0, 4.0];

/// A run that a test modifies before it is written.
pub(crate) struct General {
    pub(crate) plan: Plan,
    pub(crate) records: Vec<Record>,
}

impl General {
    /// Three versions of a program with one and four threads. Version b takes 0.8 of the time of
    /// a, version c as much as a. The clock drift is around zero. One trial failed, one never
    /// ended, one was retried, and in one the clock was stepped.
    pub(crate) fn versions(seed: u64) -> Self {
        let mut random = SplitMix(seed);
        let plan = plan(seed);
        let mut records = Vec::new();
        for (cell, factors) in (0..).zip(&plan.stages[0].cells) {
            for repeat in 0..REPEATS {
                records.push(record(&mut random, cell, repeat, factors));
            }
        }
        records.retain(|record| record.id != "main-005-11");
        let mut run = Self { plan, records };
        run.record("main-001-03").outcome = Outcome::Failed("ended with signal 11".to_owned());
        run.record("main-002-00").retries = 2;
        run.record("main-002-01").notes = vec!["the log was cut".to_owned()];
        let measured = run.measured("main-003-04");
        let flags = &mut measured.flags;
        flags.insert("wall_ns".to_owned(), invalid("clock stepped"));
        run
    }

    /// [`General::versions`], where the trial in which the clock was stepped is invalid.
    pub(crate) fn faulty() -> Self {
        let mut run = Self::versions(7);
        run.measured("main-003-04").fault = Some(Fault {
            class: FaultClass::Invalid,
            reason: "clock stepped".to_owned(),
            spares: Vec::new(),
        });
        run
    }

    pub(crate) fn record(&mut self, id: &str) -> &mut Record {
        let found = self.records.iter_mut().find(|record| record.id == id);
        found.expect("a record")
    }

    pub(crate) fn measured(&mut self, id: &str) -> &mut Measured {
        match &mut self.record(id).outcome {
            Outcome::Measured(measured) => measured,
            Outcome::Failed(why) => panic!("{id} failed: {why}"),
        }
    }

    /// Keeps the cells with one thread.
    pub(crate) fn keep_one_thread(&mut self) {
        let cells = &mut self.plan.stages[0].cells;
        cells.retain(|cell| cell["threads"] == Value::from(1.0));
        self.records.retain(|record| record.cell % 2 == 0);
        for record in &mut self.records {
            record.cell /= 2;
        }
    }

    /// Changes what was measured in the trials whose names begin so.
    pub(crate) fn each(&mut self, prefix: &str, change: impl Fn(&mut Measured)) {
        for record in &mut self.records {
            if let (true, Outcome::Measured(measured)) =
                (record.id.starts_with(prefix), &mut record.outcome)
            {
                change(measured);
            }
        }
    }

    /// The page, as a person reads it.
    pub(crate) fn page(&self) -> String {
        let html = crate::page_of(&self.run()).expect("a page");
        html.replace('\u{a0}', " ").replace("&#39;", "'")
    }

    /// The first sentence of the page.
    pub(crate) fn sentence(&self) -> String {
        let html = self.page();
        let (_, rest) = html.split_once("id=\"answer\">").expect("an answer");
        rest.split_once("</p>").expect("an end").0.to_owned()
    }

    /// The run as it reads from its folder.
    pub(crate) fn run(&self) -> Run {
        let place = tempfile::tempdir().expect("a place");
        Run::open(self.write(place.path())).expect("a run")
    }

    /// Writes the folder.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        let folder = folder.join("run");
        fs::create_dir_all(&folder).expect("a folder");
        let plan = toml::to_string_pretty(&self.plan).expect("a plan is TOML");
        fs::write(folder.join("plan.toml"), plan).expect("plan.toml");
        let host = serde_json::to_string_pretty(&host()).expect("a host is JSON");
        fs::write(folder.join("host.json"), host).expect("host.json");
        fs::write(folder.join("trials.jsonl"), self.lines()).expect("trials.jsonl");
        folder
    }

    /// `trials.jsonl`.
    pub(crate) fn lines(&self) -> String {
        let line = |record| serde_json::to_string(record).expect("a record is JSON") + "\n";
        self.records.iter().map(line).collect()
    }
}

pub(crate) fn invalid(reason: &str) -> Flag {
    Flag {
        lower_bound: false,
        invalid: Some(reason.to_owned()),
    }
}

pub(crate) fn metric(name: &str, title: &str, unit: &str, better: Better) -> Metric {
    Metric::new(name, title, Unit::from(unit.to_owned()), better)
}

fn plan(seed: u64) -> Plan {
    let names = VERSIONS.map(|(name, _)| Value::from(name)).to_vec();
    let version = Factor::new("version", names);
    let threads = Factor {
        unit: Some(Unit::count()),
        phrase: Some("with {} threads".to_owned()),
        reference: Some(Value::from(1.0)),
        ..Factor::new("threads", THREADS.map(Value::from).to_vec())
    };
    let cells = VERSIONS.iter().flat_map(|(name, _)| {
        THREADS.iter().map(|&threads| {
            Factors::from([
                ("version".to_owned(), Value::from(*name)),
                ("threads".to_owned(), Value::from(threads)),
            ])
        })
    });
    let mut figure = Figure::new("time", FigureKind::Curve, "wall_ns");
    figure.only = BTreeMap::from([("version".to_owned(), Value::from("a"))]);
    figure.x = Some("threads".to_owned());
    figure.stage = Some("main".to_owned());
    Plan {
        schema: SCHEMA.to_owned(),
        experiment: "versions".to_owned(),
        question: "Which version of the program is faster?".to_owned(),
        kind: "program".to_owned(),
        quick: false,
        seed,
        retries: 0,
        takes_ns: None,
        notes: Vec::new(),
        settings: toml::Table::from_iter([("command".to_owned(), "./sort {version}".into())]),
        factors: vec![version, threads],
        metrics: vec![
            Metric {
                judged: Some("does not count if the clock was stepped".to_owned()),
                ..metric("wall_ns", "wall time", "ns", Better::Lower)
            },
            metric("drift_ns", "drift, of the clock", "ns", Better::Lower),
            metric("energy_j", "energy", "J", Better::Lower),
            metric("resident_bytes", "resident memory", "B", Better::Neither),
        ],
        stages: vec![Stage {
            name: "main".to_owned(),
            repeats: Repeats::fixed(REPEATS),
            cells: cells.collect(),
        }],
        answer: None,
        rerun: None,
        figures: vec![figure],
        published: Vec::new(),
        targets: Vec::new(),
    }
}

fn record(random: &mut SplitMix, cell: u32, repeat: u32, factors: &Factors) -> Record {
    let (name, factor) = VERSIONS[cell as usize / THREADS.len()];
    let threads = THREADS[cell as usize % THREADS.len()];
    let wall_ns = 2e9 / threads.sqrt() * factor * random.about(0.05);
    let mut metrics = BTreeMap::from([
        ("wall_ns".to_owned(), wall_ns),
        ("drift_ns".to_owned(), 500.0 * (random.about(1.0) - 1.0)),
        ("resident_bytes".to_owned(), 3e6),
    ]);
    // Version c cannot be measured.
    if name != "c" {
        metrics.insert("energy_j".to_owned(), 40.0 * factor * random.about(0.3));
    }
    let id = format!("main-{cell:03}-{repeat:02}");
    let log = BTreeMap::from([("output".to_owned(), format!("logs/{id}.out"))]);
    Record {
        stage: "main".to_owned(),
        cell,
        repeat,
        retries: 0,
        factors: factors.clone(),
        resolved: BTreeMap::new(),
        started_unix_ns: 1_795_223_563_000_000_000 + u64::from(cell * REPEATS + repeat),
        outcome: Outcome::Measured(Measured {
            metrics,
            artefacts: log,
            ..Measured::default()
        }),
        notes: Vec::new(),
        id,
    }
}

pub(crate) fn host() -> Host {
    Host {
        kernel: "Linux 6.12.0".to_owned(),
        cpu: "Example Processor 9000 @ 2.40GHz".to_owned(),
        processors: 2,
        memory_bytes: 8 << 30,
        virtualised: Some("kvm".to_owned()),
        clock: "tsc".to_owned(),
        governor: None,
        open_files: 1_048_576,
        curtail: "curtail 0.1.0 (release)".to_owned(),
    }
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 1 ± `share`.
    pub(crate) fn about(&mut self, share: f64) -> f64 {
        1.0 + share * (2.0 * (self.next() >> 11) as f64 / (1u64 << 53) as f64 - 1.0)
    }
}
