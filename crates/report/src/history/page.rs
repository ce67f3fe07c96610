//! The page of a history: the changes, the figure, the cells, and the runs that are in it or not.

use askama::Template;

use super::series::{self, level_words};
use super::{Findings, circumstances};
use crate::compare::RUN;
use crate::figure::{Figure, FigureKind};
use crate::page::{FigurePart, SCRIPT, STYLE, figure_part};
use crate::record::Value;
use crate::render::drawings;
use crate::{Error, Run, units};

#[derive(Template)]
#[template(path = "history.html")]
struct Page {
    style: &'static str,
    script: &'static str,
    experiment: String,
    question: String,
    sentence: String,
    caveat: String,
    about: String,
    changes: Vec<ChangeRow>,
    figures: Vec<FigurePart>,
    cells: Vec<CellRow>,
    absent: String,
    runs: Vec<RunRow>,
    left_out: Vec<(String, String)>,
}

struct ChangeRow {
    cell: String,
    /// Its number, from 1.
    number: usize,
    run: String,
    started: String,
    /// Level, and of how many runs.
    before: (String, String),
    after: (String, String),
    /// Effect, and its interval.
    effect: (String, String),
    p_value: String,
    way: String,
    circumstances: String,
}

struct CellRow {
    cell: String,
    runs: usize,
    first: String,
    last: String,
}

struct RunRow {
    /// From 1.
    number: usize,
    name: String,
    started: String,
    kernel: String,
    build: String,
    /// What differs from the run before it.
    circumstances: String,
}

/// Renders the page.
///
/// # Errors
/// The figure cannot be drawn, or the template cannot be rendered.
pub(super) fn html(findings: &Findings) -> Result<String, Error> {
    let form = if findings.quick { ", short form" } else { "" };
    let page = Page {
        style: STYLE,
        script: SCRIPT,
        experiment: findings.experiment.to_owned(),
        question: findings.joined.plan.question.clone(),
        sentence: findings.sentence(),
        caveat: findings.caveat(),
        about: format!(
            "{} ({}) over {} of {}{form}, {} to {}",
            findings.metric.title,
            findings.metric.name,
            units::plural(findings.runs.len() as u64, "run"),
            findings.experiment,
            started(findings.runs.first()),
            started(findings.runs.last()),
        ),
        changes: changes(findings),
        figures: figures(findings)?,
        cells: cells(findings),
        absent: findings.absent_words().unwrap_or_default(),
        runs: runs(findings),
        left_out: findings.left_out.to_vec(),
    };
    Ok(page.render()?)
}

fn started(run: Option<&Run>) -> String {
    let started = run.and_then(Run::started_unix_ns);
    started.map(units::moment).unwrap_or_default()
}

fn changes(findings: &Findings) -> Vec<ChangeRow> {
    let metric = findings.metric;
    let rows = findings.changes.iter().map(|change| ChangeRow {
        cell: change.name(),
        number: change.run + 1,
        run: findings.run_name(change.run),
        started: started(findings.runs.get(change.run)),
        before: level_words(metric, change.before),
        after: level_words(metric, change.after),
        effect: change.effect(metric),
        p_value: format!("{:.4}", change.p_value),
        way: change.way(metric),
        circumstances: findings.circumstances(change),
    });
    rows.collect()
}

/// The metric over the runs.
fn figures(findings: &Findings) -> Result<Vec<FigurePart>, Error> {
    let mut run = numbered(findings.joined.clone());
    let mut figure = Figure::new("history", FigureKind::Curve, &findings.metric.name);
    figure.x = Some(RUN.to_owned());
    let mut others = series::others(&run).into_iter().map(|it| it.name.clone());
    (figure.by, figure.panel) = (others.next(), others.next());
    run.plan.figures = vec![figure];
    let drawings = drawings(&run)?;
    Ok(drawings.iter().map(|it| figure_part(it, false)).collect())
}

/// The runs by their numbers: below an axis, names would be cut to the same letters.
fn numbered(mut run: Run) -> Run {
    let names = run.plan.factors[0].values.clone();
    let number = |name: &mut Value| {
        let at = names.iter().position(|it| it == name);
        *name = Value::Text(at.map_or(0, |at| at + 1).to_string());
    };
    run.plan.factors[0].title = "run (numbers: part Runs)".to_owned();
    run.plan.factors[0].values.iter_mut().for_each(number);
    let cells = run.plan.stages.iter_mut().flat_map(|it| &mut it.cells);
    let of_records = run.records.iter_mut().map(|it| &mut it.factors);
    let factors = cells.chain(of_records);
    factors.filter_map(|it| it.get_mut(RUN)).for_each(number);
    run
}

fn cells(findings: &Findings) -> Vec<CellRow> {
    let rows = findings.series.iter().map(|it| CellRow {
        cell: it.name(),
        runs: it.medians.len(),
        first: findings.value(it.medians.first()),
        last: findings.value(it.medians.last()),
    });
    rows.collect()
}

fn runs(findings: &Findings) -> Vec<RunRow> {
    let runs = findings.runs;
    let rows = runs.iter().enumerate().map(|(at, run)| RunRow {
        number: at + 1,
        name: findings.run_name(at),
        started: started(Some(run)),
        kernel: run.host.kernel.clone(),
        build: run.host.curtail.clone(),
        circumstances: at
            .checked_sub(1)
            .map(|before| circumstances::differences(&runs[before], run))
            .map(|it| circumstances::words(&it))
            .unwrap_or_default(),
    });
    rows.collect()
}
