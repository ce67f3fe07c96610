//! A kind of trial that only this file knows: its settings, metric, series, artefact and figure are
//! planned, run, resumed and drawn without a change of the laboratory or the report.

use std::fs;
use std::path::Path;
use std::time::Duration;

use report::figure::{Figure, FigureKind};
use report::record::{Better, Factor, Factors, Measured, Metric, Unit};
use serde::{Deserialize, Serialize};

use crate::kind::{Context, Entry, Estimate, Kind, Performed, Trial, TrialError, settings_of};
use crate::tests::assert_has;
use crate::tests::records::{only_run, trials};
use crate::{Ending, Error, Experiment, LineReporter, Options, RunOutcome, plan_text};

/// Throws of dice.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Dice {
    #[serde(default)]
    throws: u64,
}

pub(crate) const DICE: Entry = Entry::of::<Dice>("dice");

impl Kind for Dice {
    fn metrics(&self) -> Vec<Metric> {
        let unit = Unit::from("pips".to_owned());
        vec![Metric::new(
            "pips",
            "sum of the throws",
            unit,
            Better::Higher,
        )]
    }

    fn settings(&self) -> Result<toml::Table, Error> {
        settings_of(self)
    }

    fn estimate(&self, _: &Factors) -> Estimate {
        Estimate::about(Duration::from_micros(1))
    }

    fn figures(&self, _: &[Factor]) -> Vec<Figure> {
        let mut bars = Figure::new("sums", FigureKind::Bars, "pips");
        bars.x = Some("sides".to_owned());
        vec![bars]
    }

    fn perform(&self, trial: &Trial<'_>, context: &Context<'_>) -> Result<Performed, TrialError> {
        if context.options.runs.join(trial.id).exists() {
            return Err(TrialError::StopRequested);
        }
        let sides = trial.factors["sides"].number().unwrap() as u64;
        let throws: Vec<f64> = (0..self.throws)
            .map(|nth| 1.0 + (trial.seed.rotate_left(nth as u32 * 7) % sides) as f64)
            .collect();
        let path = format!("histograms/{}.dice", trial.id);
        let path = context.write(&path, format!("{throws:?}").as_bytes())?;
        let measured = Measured {
            metrics: [("pips".to_owned(), throws.iter().sum())].into(),
            series: [("throws".to_owned(), throws)].into(),
            artefacts: [("dice".to_owned(), path)].into(),
            ..Measured::default()
        };
        let notes = vec!["the dice are loaded".to_owned()];
        Ok(Performed { measured, notes })
    }
}

pub(crate) const FILE: &str = r#"
kind = "dice"
question = "Which dice show more?"
seed = 2
repeats = 6
figures = ["sums"]
throws = 4
[[factor]]
name = "sides"
values = [6, 20]
[[figure]]
name = "over-time"
kind = "heat-map"
x = "sides"
y = "throws"
"#;

fn options(runs: &Path) -> Options {
    Options {
        runs: runs.to_owned(),
        kinds: &[DICE],
        // It is read as a whole for the record of the host.
        curtail: "/bin/sh".into(),
        ..Options::new().unwrap()
    }
}

fn run(options: &Options) -> RunOutcome {
    let experiment = Experiment::parse_of(&[DICE], "dice", "dice.toml", FILE).unwrap();
    let plan = experiment.plan(options).unwrap();
    let text = plan_text(&plan, options).unwrap();
    assert_has(&text, "factor   sides: 6, 20");
    assert_has(&text, "12 trials of about");
    crate::run(&plan, options, &mut LineReporter::new(std::io::sink())).unwrap()
}

#[test]
fn a_kind_of_one_file_is_run_resumed_and_drawn() {
    let runs = tempfile::tempdir().unwrap();
    let options = options(runs.path());
    let stop = runs.path().join("sweep-001-02");
    fs::write(&stop, "").unwrap();
    let outcome = run(&options);
    assert_eq!(outcome.ending, Ending::Interrupted);
    fs::remove_file(stop).unwrap();
    let folder = only_run(&options);
    let before = trials(&folder);
    assert!((4..6).contains(&before.len()), "{}", before.len());

    let outcome = run(&options);
    assert_eq!(
        (&outcome.folder, outcome.ending),
        (&folder, Ending::Complete)
    );
    assert_eq!((outcome.kept, outcome.measured), (before.len(), 12));
    let records = trials(&folder);
    assert_eq!(records[..before.len()], before[..]);
    for record in &records {
        let measured = record.measured().unwrap();
        let throws = &measured.series["throws"];
        assert_eq!(
            (throws.len(), measured.metric("pips")),
            (4, Some(throws.iter().sum()))
        );
        let kept = fs::read_to_string(folder.join(&measured.artefacts["dice"])).unwrap();
        assert_eq!(kept, format!("{throws:?}"));
        assert_eq!(record.notes, ["the dice are loaded"]);
    }

    report::render(&folder).unwrap();
    let table = fs::read_to_string(folder.join("trials.csv")).unwrap();
    let mut lines = table.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| columns.iter().position(|it| *it == name).unwrap();
    for (line, record) in lines.zip(&records) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields[at("id")], record.id);
        assert_eq!(fields[at("sides")], record.factors["sides"].to_string());
        let pips = record.measured().unwrap().metric("pips");
        assert_eq!(fields[at("pips")].parse().ok(), pips);
    }
    for figure in ["sums", "over-time"] {
        let svg = fs::read_to_string(folder.join(format!("figures/{figure}.svg"))).unwrap();
        assert_has(&svg, "sides");
    }
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("Which dice show more?") && page.contains("sum of the throws"));
    let summary = report::text_summary(&report::Run::open(&folder).unwrap());
    let rows = summary.lines().filter(|it| it.contains("6/6"));
    let rows: Vec<&str> = rows.filter_map(|it| it.split_whitespace().next()).collect();
    assert_eq!(rows, ["6", "20"], "{summary}");
}

#[test]
fn a_kind_that_is_not_listed_is_unknown() {
    let refused = Experiment::parse("dice", "dice.toml", FILE).unwrap_err();
    let expected = "dice.toml:2: `kind` is no kind of trial; known are measured";
    assert_eq!(refused.to_string(), expected);
    let misspelt = FILE.replace("throws = 4", "throw = 4");
    let refused = Experiment::parse_of(&[DICE], "dice", "dice.toml", &misspelt).unwrap_err();
    let expected = "dice.toml:7: unknown key `throw`; did you mean `throws`?";
    assert_eq!(refused.to_string(), expected);
}
