//! How a metric developed over the runs of an experiment, and where its level changed.
//!
//! The runs become one whose first factor is the run ([`joined`]), in the order in which they
//! began. The value of a run is the median over the trials of a cell, because the trials of one run
//! share what the machine did meanwhile. The series of each cell is tested for changes of level
//! ([`change_points`]), with a probability of a false report of 5 % for all cells together.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use measure::{RankTest, change_points};

use crate::cell::{self, CONFIDENCE};
use crate::compare::{RUN, check_comparable, joined};
use crate::comparison::has_full_confidence;
use crate::figure::{Figure, FigureKind};
use crate::record::{Factor, Metric, Value};
use crate::render::{page_of, replace};
use crate::run::run_folders;
use crate::terminal::{row, wrapped};
use crate::{Error, Run, limits, units};

/// Probability of a false report of a change, over all cells.
const ALPHA: f64 = 0.05;
/// Widths of the columns of the table.
const PLACE_WIDTH: usize = 34;
const VALUE_WIDTH: usize = 12;

/// What [`history`] found and wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The page with the figure.
    pub page: PathBuf,
    /// A table, and a sentence for each change. Ends with a line break.
    pub text: String,
    /// The folders of runs that are left out, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// The values of one cell of the last stage, by run.
struct Series {
    /// What names the cell; empty if there is only one.
    place: String,
    /// The run's place in the order, and its median.
    medians: Vec<(usize, f64)>,
}

/// Reads the runs of an experiment in a folder of run folders, and writes a page with the figure
/// into that folder. `quick`: those of the short form, instead of the others.
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
    leave_out_others(&mut runs, metric, &mut left_out);
    if runs.len() < 2 {
        let form = if quick { "the short form of " } else { "" };
        return Err(refused(format!(
            "{} has {} of {form}`{experiment}`, and a history needs two",
            folder.display(),
            units::plural(runs.len() as u64, "run")
        )));
    }
    let mut run = joined(&runs.iter().collect::<Vec<_>>()).map_err(refused)?;
    let Some(metric) = run.plan.metric(metric).cloned() else {
        let known: Vec<&str> = run.plan.metrics.iter().map(|it| it.name.as_str()).collect();
        return Err(refused(format!(
            "`{metric}` is no metric that all runs have; known: {}",
            known.join(", ")
        )));
    };
    let series = series(&run, &metric);
    let mut sentences = changes(&run, &metric, &series);
    sentences.extend(origins(&runs));
    let mut lines = vec![
        format!(
            "{} ({}) over {} of {experiment}",
            metric.title,
            metric.name,
            units::plural(runs.len() as u64, "run")
        ),
        String::new(),
    ];
    lines.extend(table(&metric, &series));
    lines.push(String::new());
    lines.extend(sentences.iter().cloned());

    run.plan.question = format!("How did the {} develop over the runs?", metric.title);
    run.plan.notes = sentences;
    let mut figure = Figure::new("history", FigureKind::Curve, &metric.name);
    figure.x = Some(RUN.to_owned());
    let mut others = others(&run).into_iter().map(|it| it.name.clone());
    (figure.by, figure.panel) = (others.next(), others.next());
    run.plan.figures = vec![figure];
    let page = folder.join(format!("history-{experiment}-{}.html", metric.name));
    replace(&page, page_of(&run)?.as_bytes())?;
    Ok(History {
        page,
        text: wrapped(&lines),
        left_out,
    })
}

/// Leaves out runs that are no longer of the experiment as the latest run has it.
fn leave_out_others(runs: &mut Vec<Run>, metric: &str, left_out: &mut Vec<(String, String)>) {
    let Some(latest) = runs.last().map(|it| it.plan.clone()) else {
        return;
    };
    let metric = latest.metric(metric);
    runs.retain(|run| {
        let others = metric.map(|it| (it, run.plan.metric(&it.name)));
        let reason = match (check_comparable(&latest, &run.plan), others) {
            (Err(reason), _) => reason,
            (_, Some((_, None))) => "it does not have the metric".to_owned(),
            (_, Some((own, Some(other)))) if own.unit != other.unit => {
                "its metric has another unit".to_owned()
            }
            _ => return true,
        };
        left_out.push((run.folder.display().to_string(), reason));
        false
    });
}

/// How many machines and builds the runs are of, if there are several.
fn origins(runs: &[Run]) -> Option<String> {
    let machines: HashSet<_> = runs
        .iter()
        .map(|it| (&it.host.cpu, &it.host.kernel))
        .collect();
    let builds: HashSet<_> = runs.iter().map(|it| &it.host.curtail).collect();
    (machines.len() > 1 || builds.len() > 1).then(|| {
        format!(
            "The runs are of {} (by processor and kernel) and of {} of the laboratory.",
            units::plural(machines.len() as u64, "machine"),
            units::plural(builds.len() as u64, "build")
        )
    })
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

/// The factors that vary, without the run.
fn others(run: &Run) -> Vec<&Factor> {
    let last = run.plan.stages.last();
    let varied = last.map(|stage| cell::varied(&run.plan, stage));
    let varied = varied.unwrap_or_default().into_iter();
    varied.filter(|factor| factor.name != RUN).collect()
}

/// The series of each cell, in the order of the first run that has it.
fn series(run: &Run, metric: &Metric) -> Vec<Series> {
    let Some(stage) = run.plan.stages.last() else {
        return Vec::new();
    };
    let others = others(run);
    let names = &run.plan.factors[0].values;
    let mut all: Vec<Series> = Vec::new();
    for cell in cell::of_stage(run, stage) {
        let labels = others
            .iter()
            .filter_map(|it| Some(it.label(cell.value(it)?)));
        let place = labels.collect::<Vec<_>>().join(" · ");
        let of_run = |value: &Value| names.iter().position(|name| name == value);
        let Some(at) = cell.factors.get(RUN).and_then(of_run) else {
            continue;
        };
        let index = all.iter().position(|it| it.place == place);
        let index = index.unwrap_or_else(|| {
            all.push(Series {
                place,
                medians: Vec::new(),
            });
            all.len() - 1
        });
        if let Some(spread) = cell.values(&metric.name).spread() {
            all[index].medians.push((at, spread.median));
        }
    }
    all
}

fn table(metric: &Metric, series: &[Series]) -> Vec<String> {
    let fields =
        |texts: [String; 4]| row(texts.iter().zip([PLACE_WIDTH, 6, VALUE_WIDTH, VALUE_WIDTH]));
    let mut lines = vec![fields(["", "runs", "first", "last"].map(str::to_owned))];
    lines.extend(series.iter().take(limits::TERMINAL_ROWS).map(|it| {
        let shown = |value: Option<&(usize, f64)>| match value {
            Some((_, median)) => metric.unit.words(*median),
            None => "–".to_owned(),
        };
        fields([
            units::shortened(&name_of(it), PLACE_WIDTH),
            it.medians.len().to_string(),
            shown(it.medians.first()),
            shown(it.medians.last()),
        ])
    }));
    let rest = series.len().saturating_sub(limits::TERMINAL_ROWS);
    if rest > 0 {
        lines.push(format!("… {}", units::plural(rest as u64, "more cell")));
    }
    lines
}

fn name_of(series: &Series) -> String {
    match series.place.is_empty() {
        true => "the only cell".to_owned(),
        false => series.place.clone(),
    }
}

/// A sentence for each change of level, or one that there is none.
fn changes(run: &Run, metric: &Metric, series: &[Series]) -> Vec<String> {
    let alpha = ALPHA / series.len().max(1) as f64;
    let names = &run.plan.factors[0].values;
    let mut sentences = Vec::new();
    for it in series {
        let values: Vec<f64> = it.medians.iter().map(|(_, median)| *median).collect();
        let found = change_points(&values, alpha, run.plan.seed).unwrap_or_default();
        let ends = found.iter().map(|change| change.at).chain([values.len()]);
        let ends: Vec<usize> = ends.collect();
        let mut start = 0;
        for (nth, change) in found.iter().enumerate() {
            let (before, after) = (&values[start..change.at], &values[change.at..ends[nth + 1]]);
            sentences.push(format!(
                "{}: from {} on {}, compared with the {} before (p\u{a0}=\u{a0}{:.4}).",
                name_of(it),
                names[it.medians[change.at].0],
                level(metric, before, after),
                units::plural(before.len() as u64, "run"),
                change.p_value
            ));
            start = change.at;
        }
    }
    if sentences.is_empty() {
        let cells = units::plural(series.len() as u64, "cell");
        sentences.push(format!(
            "The level of the {} changed in none of {cells}, as far as so many runs can tell (a \
             false report: 5\u{a0}% over all).",
            metric.title
        ));
    }
    sentences
}

/// `it is higher, 1.081 × [1.050, 1.110]`.
fn level(metric: &Metric, before: &[f64], after: &[f64]) -> String {
    let Some(test) = RankTest::of(after, before, CONFIDENCE) else {
        return "it is another".to_owned();
    };
    let (way, effect) = match test.ratio {
        Some(ratio) => {
            let [value, low, high] =
                [ratio.value, ratio.interval.low, ratio.interval.high].map(|it| format!("{it:.3}"));
            (ratio.value > 1.0, format!("{value}\u{a0}× [{low}, {high}]"))
        }
        None => {
            let shift = test.shift;
            let [value, low, high] = [shift.value, shift.interval.low, shift.interval.high]
                .map(|it| metric.unit.words(it));
            (shift.value > 0.0, format!("by {value} [{low}, {high}]"))
        }
    };
    let way = if way { "higher" } else { "lower" };
    let confidence = test.shift.interval.confidence;
    let sure = match has_full_confidence(&test.shift) {
        true => String::new(),
        false => format!(" with {:.0}\u{a0}%", confidence * 100.0),
    };
    format!("it is {way}, {effect}{sure}")
}
