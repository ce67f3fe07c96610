//! A run with series and histograms, and a figure of each kind.

use std::fs;
use std::path::Path;

use measure::Histogram;

use crate::figure::{Figure, FigureKind, Scale};
use crate::record::{Better, Outcome, Value};
use crate::render;
use crate::tests::general_run::{General, metric};

/// The parts of the stack.
pub(crate) const PARTS: [&str; 3] = ["user_ns", "system_ns", "idle_ns"];

/// Numbers of the series of rates.
pub(crate) const SECONDS: usize = 12;

/// [`General::versions`] with, for each trial, a series of rates, the sizes by decile, and a
/// histogram; version c has none of them. The parts of the wall time are a half, three tenths and a
/// fifth of it; in versions b and c, the last is not measured.
pub(crate) fn run() -> General {
    let mut run = General::versions(7);
    run.plan.figures = figures();
    for (name, title) in PARTS
        .into_iter()
        .zip(["user time", "system time", "idle time"])
    {
        let part = metric(name, title, "ns", Better::Lower);
        run.plan.metrics.push(part);
    }
    for record in &mut run.records {
        let id = record.id.clone();
        let is_c = record.factors["version"] == Value::from("c");
        let Outcome::Measured(measured) = &mut record.outcome else {
            continue;
        };
        let wall_ns = measured.metrics["wall_ns"];
        for (name, share) in PARTS.into_iter().zip([0.5, 0.3, 0.2]) {
            if name != "idle_ns" || record.factors["version"] == Value::from("a") {
                measured.metrics.insert(name.to_owned(), share * wall_ns);
            }
        }
        if is_c {
            continue;
        }
        let repeat = f64::from(record.repeat);
        let rates = (0..SECONDS).map(|second| 1_000.0 + 10.0 * second as f64 + repeat);
        measured.series.insert("rates".to_owned(), rates.collect());
        measured.series.insert("sizes".to_owned(), sizes());
        let path = format!("histograms/{id}.hist#response");
        measured.artefacts.insert("response".to_owned(), path);
    }
    run
}

/// Two classes: the share of the first falls from 0.9 in the fastest decile to 0 in the slowest.
pub(crate) fn sizes() -> Vec<f64> {
    let row = |decile: u32| [0.9 - 0.1 * f64::from(decile), 0.1 + 0.1 * f64::from(decile)];
    (0..10).flat_map(row).collect()
}

/// A figure of each kind.
pub(crate) fn figures() -> Vec<Figure> {
    let by_version = |kind, name: &str, y: &str| Figure {
        x: Some("threads".to_owned()),
        by: Some("version".to_owned()),
        ..Figure::new(name, kind, y)
    };
    let plane = |kind, name: &str| Figure {
        x: Some("energy_j".to_owned()),
        by: Some("version".to_owned()),
        ..Figure::new(name, kind, "wall_ns")
    };
    vec![
        by_version(FigureKind::Curve, "curve", "wall_ns"),
        Figure {
            by: Some("version".to_owned()),
            only: [("threads".to_owned(), Value::from(1.0))].into(),
            ..Figure::new("cdf", FigureKind::Cdf, "response")
        },
        by_version(FigureKind::Bars, "bars", "wall_ns"),
        Figure {
            panel: Some("version".to_owned()),
            classes: ["small", "large"].map(str::to_owned).to_vec(),
            ..Figure::new("deciles", FigureKind::Deciles, "sizes")
        },
        Figure {
            size: Some("threads".to_owned()),
            shade: Some("drift_ns".to_owned()),
            marks: vec!["wall_ns".to_owned(), "energy_j".to_owned()],
            ..plane(FigureKind::Scatter, "scatter")
        },
        Figure {
            x: Some("version".to_owned()),
            step_s: Some(0.5),
            unit: Some("/s".to_owned().into()),
            ..Figure::new("heat", FigureKind::HeatMap, "rates")
        },
        plane(FigureKind::Pareto, "pareto"),
        by_version(FigureKind::Table, "table", "wall_ns"),
        Figure {
            scale: Scale::Log,
            ..by_version(FigureKind::Bars, "bars-log", "wall_ns")
        },
        Figure {
            parts: PARTS.map(str::to_owned).to_vec(),
            ..by_version(FigureKind::Stack, "stack", "")
        },
    ]
}

/// A figure as its files have it.
pub(crate) struct Files {
    pub(crate) svg: String,
    /// The cells of the CSV, its header first.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Draws one figure of a run.
pub(crate) fn drawn(run: &General, name: &str) -> Files {
    let mut run = General {
        plan: run.plan.clone(),
        records: run.records.clone(),
    };
    let stem = name;
    let is_of = |figure: &Figure| {
        let rest = stem.strip_prefix(&figure.name);
        rest.is_some_and(|rest| {
            rest.is_empty() || (figure.panel.is_some() && rest.starts_with('-'))
        })
    };
    run.plan.figures.retain(is_of);
    let place = tempfile::tempdir().unwrap();
    let folder = written(&run, place.path());
    render(&folder).unwrap();
    let read = |ending: &str| {
        let path = folder.join("figures").join(format!("{stem}.{ending}"));
        fs::read_to_string(path).unwrap()
    };
    let csv = read("csv");
    let mut csv = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(csv.as_bytes());
    let rows = csv
        .records()
        .map(|row| row.unwrap().iter().map(str::to_owned).collect());
    Files {
        svg: read("svg").replace('\u{a0}', " ").replace("&#39;", "'"),
        rows: rows.collect(),
    }
}

/// Writes the folder, with the histograms: of each trial a hundred values, from 1 to 100 µs in
/// even repeats and from 101 to 200 µs in odd ones.
pub(crate) fn written(run: &General, place: &Path) -> std::path::PathBuf {
    let folder = run.write(place);
    fs::create_dir_all(folder.join("histograms")).unwrap();
    for record in &run.records {
        let mut histogram = Histogram::new();
        let start = u64::from(record.repeat % 2) * 100;
        for microseconds in start + 1..=start + 100 {
            histogram.record(microseconds * 1_000);
        }
        let entries = serde_json::json!({ "response": histogram.to_base64() });
        let path = folder
            .join("histograms")
            .join(format!("{}.hist", record.id));
        fs::write(path, entries.to_string()).unwrap();
    }
    folder
}

impl Files {
    /// The column of that name in the rows that have these cells.
    pub(crate) fn column(&self, name: &str, with: &[(&str, &str)]) -> Vec<String> {
        let index = |name: &str| self.rows[0].iter().position(|head| head == name).unwrap();
        let is_of =
            |row: &&Vec<String>| with.iter().all(|&(name, value)| row[index(name)] == value);
        let rows = self.rows[1..].iter().filter(is_of);
        rows.map(|row| row[index(name)].clone()).collect()
    }

    /// [`Files::column`] as numbers.
    pub(crate) fn numbers(&self, name: &str, with: &[(&str, &str)]) -> Vec<f64> {
        let column = self.column(name, with);
        column.iter().map(|cell| cell.parse().unwrap()).collect()
    }
}
