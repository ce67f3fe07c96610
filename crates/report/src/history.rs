//! How a metric developed over the runs of an experiment, and where its level changed.
//!
//! The runs become one whose first factor is the run ([`joined`]), in the order in which they
//! began. The value of a run is the median over the trials of a cell, because the trials of one run
//! share what the machine did meanwhile. The series of each cell is tested for changes of level
//! ([`measure::change_points`]), with a probability of a false report of 5 % for all cells
//! together. Terminal and page begin with the changes found.

mod circumstances;
mod page;
mod series;

use std::path::{Path, PathBuf};

use crate::compare::joined;
use crate::record::Metric;
use crate::render::replace;
use crate::run::run_folders;
use crate::terminal::{row, told_apart, wrapped};
use crate::{Error, Run, limits, units};

use self::series::{Change, Series, level_words};

/// Widths of the columns of the table of changes.
const CHANGE_WIDTHS: [usize; 6] = [32, 4, 11, 11, 24, 6];
/// Widths of the columns of the table of cells.
const SERIES_WIDTHS: [usize; 4] = [34, 6, 12, 12];

/// What [`history`] found and wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The page with the changes and the figure.
    pub page: PathBuf,
    /// The changes as a sentence and a table, and a table of the cells. Ends with a line break.
    pub text: String,
    /// The folders of runs that are left out, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// The runs of a history and what was found in them.
struct Findings<'a> {
    experiment: &'a str,
    quick: bool,
    metric: &'a Metric,
    /// In the order in which they began.
    runs: &'a [Run],
    /// The runs as one.
    joined: &'a Run,
    /// Of the cells that have a value in some run.
    series: Vec<Series>,
    /// Cells without.
    absent: usize,
    changes: Vec<Change>,
    left_out: &'a [(String, String)],
}

/// Reads the runs of an experiment in a folder of run folders, and writes a page with the changes
/// and a figure into that folder. `quick`: the runs of the short form, instead of the others. Runs
/// that cannot be compared with the latest one are left out.
///
/// # Errors
/// The folder cannot be read or written, has fewer than two such runs, or they have no such metric.
pub fn history(
    folder: &Path,
    experiment: &str,
    quick: bool,
    metric: &str,
) -> Result<History, Error> {
    let refused = |what: String| Error::History { what };
    let mut left_out = Vec::new();
    let mut runs = runs_of(folder, experiment, quick, &mut left_out)?;
    circumstances::leave_out(&mut runs, metric, &mut left_out);
    if runs.len() < 2 {
        return Err(refused(too_few(
            folder, experiment, quick, &runs, &left_out,
        )));
    }
    let joined = joined(&runs.iter().collect::<Vec<_>>()).map_err(refused)?;
    let Some(metric) = joined.plan.metric(metric) else {
        let known = joined.plan.metrics.iter().map(|it| it.name.as_str());
        return Err(refused(format!(
            "`{metric}` is no metric that all runs have; known: {}",
            known.collect::<Vec<_>>().join(", ")
        )));
    };
    let mut series = series::series(&joined, metric);
    let cells = series.len();
    series.retain(|it| !it.medians.is_empty());
    let findings = Findings {
        experiment,
        quick,
        metric,
        runs: &runs,
        joined: &joined,
        changes: series::changes(&series, joined.plan.seed),
        absent: cells - series.len(),
        series,
        left_out: &left_out,
    };
    let page = folder.join(format!("history-{experiment}-{}.html", metric.name));
    let text = findings.text();
    replace(&page, page::html(&findings)?.as_bytes())?;
    Ok(History {
        page,
        text,
        left_out,
    })
}

/// Why there is no history, and the runs that would make one.
fn too_few(
    folder: &Path,
    experiment: &str,
    quick: bool,
    runs: &[Run],
    left_out: &[(String, String)],
) -> String {
    let form = if quick { "the short form of " } else { "" };
    let count = units::plural(runs.len() as u64, "run");
    let mut what = format!(
        "{} has {count} of {form}`{experiment}`, and a history needs two",
        folder.display()
    );
    if let Some((name, reason)) = left_out.first() {
        let others = left_out.len();
        let those = units::plural(others as u64, "run");
        what.push_str(&format!("; left out: {those}, such as {name} ({reason})"));
    }
    what
}

/// The runs, in the order in which they began. Adds the folders that cannot be read to `left_out`.
fn runs_of(
    folder: &Path,
    experiment: &str,
    quick: bool,
    left_out: &mut Vec<(String, String)>,
) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for path in run_folders(folder)? {
        match Run::open(&path) {
            Ok(run) if run.plan.experiment == experiment && run.plan.quick == quick => {
                runs.push(run);
            }
            Ok(_) => {}
            Err(error) => left_out.push((path.display().to_string(), error.to_string())),
        }
    }
    // A run without a trial has no place in time.
    runs.retain(|run| run.started_unix_ns().is_some());
    runs.sort_by_key(Run::started_unix_ns);
    let excess = runs.len().saturating_sub(limits::HISTORY_RUNS);
    runs.drain(..excess);
    Ok(runs)
}

impl Findings<'_> {
    /// `wall time changed at 2 of 20 runs, in 6 of 6 cells.`, or that no change was found.
    fn sentence(&self) -> String {
        let runs = units::plural(self.runs.len() as u64, "run");
        let cells = self.series.len();
        let metric = units::shortened(&self.metric.title, limits::EXPERIMENT_CHARACTERS);
        let mut places: Vec<&str> = self.changes.iter().map(|it| it.place.as_str()).collect();
        places.dedup();
        let mut found: Vec<usize> = self.changes.iter().map(|it| it.run).collect();
        found.sort_unstable();
        found.dedup();
        let in_cells = |changed: usize| match cells {
            1 => String::new(),
            _ => format!(" in {changed} of {cells} cells"),
        };
        match found.as_slice() {
            [] => format!("No change found in {runs}: {metric}."),
            [run] => format!(
                "The {metric} changed{} at one of {runs}: {}.",
                in_cells(places.len()),
                self.run_name(*run)
            ),
            several => format!(
                "The {metric} changed{} at {} of {runs}.",
                in_cells(places.len()),
                several.len()
            ),
        }
    }

    /// How sure the sentence is.
    fn caveat(&self) -> String {
        let fewest = self.series.iter().map(|it| it.medians.len()).min();
        let mut words = "The value of a run is the median of its trials. Runs that do not differ \
                         have a change reported with a probability of at most 5\u{a0}% over all \
                         cells"
            .to_owned();
        if self.series.len() > 1 {
            let alpha = units::number(series::ALPHA / self.series.len() as f64);
            words.push_str(&format!(": p is at most {alpha} in each"));
        }
        words.push('.');
        if fewest.is_some_and(|fewest| fewest < FEWEST_RUNS) {
            words.push_str(" Fewer than eight runs are too few for a change to be found.");
        }
        words
    }

    /// The name of a run's folder.
    fn run_name(&self, at: usize) -> String {
        self.joined.plan.factors[0].values[at].to_string()
    }

    /// What else differs between the runs on both sides of a change.
    fn circumstances(&self, change: &Change) -> String {
        let (before, after) = (&self.runs[change.before_run], &self.runs[change.run]);
        circumstances::words(&circumstances::differences(before, after))
    }

    fn text(&self) -> String {
        let mut lines = vec![
            format!(
                "{} ({}) of {}",
                self.metric.title, self.metric.name, self.experiment
            ),
            String::new(),
            self.sentence(),
        ];
        if !self.changes.is_empty() {
            lines.push(String::new());
            lines.extend(self.change_lines());
        }
        lines.push(self.caveat());
        lines.push(String::new());
        lines.extend(self.series_lines());
        wrapped(&lines)
    }

    fn change_lines(&self) -> Vec<String> {
        let fields = |texts: [String; 6]| row(texts.iter().zip(CHANGE_WIDTHS));
        let heads = ["changes", "run", "before", "after", "effect [95 %]", "p"];
        let mut lines = vec![fields(heads.map(str::to_owned))];
        for change in self.changes.iter().take(limits::TERMINAL_ROWS) {
            let (effect, range) = change.effect(self.metric);
            lines.push(fields([
                units::shortened(&change.name(), CHANGE_WIDTHS[0]),
                (change.run + 1).to_string(),
                level_words(self.metric, change.before).0,
                level_words(self.metric, change.after).0,
                format!("{effect} {range}"),
                format!("{:.4}", change.p_value),
            ]));
            let counts = [change.before, change.after].map(|it| level_words(self.metric, it).1);
            let mut detail = format!(
                "  {} from {} on ({} before, {} after)",
                change.way(self.metric),
                self.run_name(change.run),
                counts[0],
                counts[1]
            );
            let circumstances = self.circumstances(change);
            if !circumstances.is_empty() {
                detail.push_str(&format!("; also new: {circumstances}"));
            }
            lines.push(detail);
        }
        lines.extend(rest(self.changes.len(), "more change"));
        lines.push(String::new());
        lines
    }

    fn series_lines(&self) -> Vec<String> {
        let fields = |texts: [String; 4]| row(texts.iter().zip(SERIES_WIDTHS));
        let mut lines = vec![fields(
            ["cells", "runs", "first", "last"].map(str::to_owned),
        )];
        let names: Vec<String> = self.series.iter().map(Series::name).collect();
        let names = told_apart(&names, SERIES_WIDTHS[0]);
        let shown = self.series.iter().zip(names).take(limits::TERMINAL_ROWS);
        lines.extend(shown.map(|(it, name)| {
            fields([
                name,
                it.medians.len().to_string(),
                self.value(it.medians.first()),
                self.value(it.medians.last()),
            ])
        }));
        lines.extend(rest(self.series.len(), "more cell"));
        lines.extend(self.absent_words());
        lines
    }

    /// The cells without a value, as a sentence. None: there are none.
    fn absent_words(&self) -> Option<String> {
        let cells = units::plural(self.absent as u64, "cell");
        let has = if self.absent == 1 { "has" } else { "have" };
        (self.absent > 0).then(|| format!("{cells} {has} no value that counts in any run."))
    }

    fn value(&self, value: Option<&(usize, f64)>) -> String {
        value.map_or_else(
            || "–".to_owned(),
            |(_, median)| self.metric.unit.words(*median),
        )
    }
}

/// Runs below which [`measure::change_points`] finds nothing.
const FEWEST_RUNS: usize = 8;

/// How many rows a table of the terminal lacks.
fn rest(count: usize, noun: &str) -> Option<String> {
    let rest = count.saturating_sub(limits::TERMINAL_ROWS);
    (rest > 0).then(|| format!("… {}", units::plural(rest as u64, noun)))
}
