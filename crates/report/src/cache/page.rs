//! `report.html`: one self-contained file for screen (light and dark) and print.
//!
//! The head holds the answer and one table ([`crate::cache::answer`]); all other parts are folded.
//! The template escapes every string. Only figures, style sheet and script are marked safe: this
//! crate generates them, and escapes the strings in the figures itself.

mod front;
mod tables;

use askama::Template;

use self::front::Front;
use self::tables::{CellRow, LawRow, MissingRow, OptionalColumns, TrialRow};
use crate::cache::findings::CurveFindings;
use crate::cache::sweep_axis::SweepAxis;
use crate::cache::{Run, answer, notes, verdict};
use crate::chart::Drawing;
use crate::page::{self, FigurePart, SCRIPT, STYLE};
use crate::target_verdict::Judged;
use crate::units::Quantity;
use crate::{Error, units};

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    style: &'static str,
    script: &'static str,
    experiment: String,
    question: String,
    front: Front,
    started: String,
    about: String,
    quick: Option<String>,
    plan_notes: Vec<String>,
    targets: Vec<Judged>,
    torn: bool,
    brackets: &'static str,
    servers: Vec<ServerPart>,
    has_settings: bool,
    heads: Vec<(&'static str, &'static str)>,
    figures: Vec<FigurePart>,
    laws: Vec<LawRow>,
    law_tolerance: String,
    lateness_limit: String,
    busy_limit: String,
    missing: Vec<MissingRow>,
    skipped: Vec<(String, String)>,
    trials: Vec<TrialRow>,
    host: Vec<(&'static str, String)>,
    plan: String,
    rerun: String,
}

struct ServerPart {
    name: String,
    version: String,
    class: &'static str,
    shape: &'static str,
    verdict: String,
    cells: Vec<CellRow>,
    has_settings: bool,
    has_levels: bool,
}

/// Renders the page of a run.
///
/// # Errors
/// Rendering the template failed.
pub(crate) fn html(
    run: &Run,
    curves: &[CurveFindings],
    drawings: &[Drawing],
    targets: Vec<Judged>,
) -> Result<String, Error> {
    let started = run.trials.iter().map(|trial| trial.started_unix_ns).min();
    let skipped = run.plan.servers.iter().filter_map(|server| {
        server
            .skipped
            .as_ref()
            .map(|why| (server.name.clone(), why.clone()))
    });
    let more = OptionalColumns::of(run);
    let page = Page {
        style: STYLE,
        script: SCRIPT,
        experiment: run.plan.experiment.clone(),
        question: run.plan.question.clone(),
        front: Front::of(run, answer::of(run, curves)),
        started: started.map(units::moment).unwrap_or_default(),
        about: notes::about(run),
        quick: run.plan.quick.then(|| notes::quick(run)),
        plan_notes: run.plan.notes.clone(),
        targets,
        torn: run.torn,
        brackets: verdict::BRACKETS,
        servers: curves
            .iter()
            .map(|curve| server_part(run, curve, more))
            .collect(),
        has_settings: run.plan.vary.is_some(),
        heads: tables::heads(more),
        figures: drawings.iter().map(page::figure_part).collect(),
        laws: tables::laws(curves),
        law_tolerance: units::percent(measure::LITTLES_LAW_TOLERANCE),
        lateness_limit: Quantity::Duration.exact(measure::LATENESS_LIMIT_NS as f64),
        busy_limit: units::percent(measure::BUSY_LIMIT),
        missing: tables::missing(run),
        skipped: skipped.collect(),
        trials: tables::trials(run),
        host: tables::host(run),
        plan: toml::to_string_pretty(&run.plan).unwrap_or_default(),
        rerun: page::rerun(&run.plan.experiment, run.plan.quick, run.plan.seed),
    };
    Ok(page.render()?)
}

fn server_part(run: &Run, curve: &CurveFindings, more: OptionalColumns) -> ServerPart {
    ServerPart {
        name: curve.name.clone(),
        version: curve.server.version.clone().unwrap_or_default(),
        class: curve.style.class,
        shape: curve.style.shape,
        verdict: verdict::sentences(run, curve).join(" "),
        cells: curve
            .cells
            .iter()
            .map(|cell| CellRow::of(curve, cell, more))
            .collect(),
        has_settings: matches!(curve.axis, SweepAxis::Setting(_)),
        has_levels: curve.cells.iter().any(|cell| cell.level.is_some()),
    }
}
