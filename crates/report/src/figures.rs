//! The figures of a run, from their declarations and the records of its trials.
//!
//! ```text
//! declaration + plan ──► Panel (its curves and cells) ──► Scene (one function a kind) ──► Drawing
//!             records ──►                                 a table of marks
//! ```
//!
//! A kind of figure is a function from the cells of a panel to marks. Nothing here knows what was
//! measured.

mod bars;
mod cdf;
mod curve;
mod deciles;
mod dimension;
mod heat_map;
mod marks;
mod notes;
mod panel;
mod point;
mod ratios;
mod scatter;
mod stack;
mod table;

use std::path::Path;

use self::panel::Panel;
use crate::Error;
use crate::chart::mark::Scene;
use crate::chart::{self, Drawing};
use crate::figure::{self, Figure, FigureKind};
use crate::record::{Plan, Record};

pub(crate) use self::notes::{Context, SEQUENTIAL};

/// Draws the figures of a plan, each once.
///
/// # Errors
/// A declaration is at odds with the plan.
pub(crate) fn draw(
    plan: &Plan,
    records: &[Record],
    folder: &Path,
    context: &Context,
) -> Result<Vec<Drawing>, Error> {
    let mut figures: Vec<&Figure> = Vec::new();
    let mut scenes: Vec<(&str, String, Scene)> = Vec::new();
    let mut declared: Vec<&Figure> = plan.figures.iter().collect();
    declared.sort_by_key(|it| context.told.as_ref() != Some(&it.y));
    for figure in declared {
        if figures.iter().any(|it| it.name == figure.name) {
            continue;
        }
        figure::check(figure, plan).map_err(|what| Error::Draw {
            figure: figure.name.clone(),
            what,
        })?;
        figures.push(figure);
        for panel in Panel::all(figure, plan, records, folder) {
            let stem = format!("{}{}", figure.name, panel.suffix);
            scenes.push((figure.kind.name(), stem, scene(&panel, context)));
        }
    }
    // Two figures of one title differ in their kinds, or else in what no title names.
    let titles = scenes.iter().map(|it| (it.2.title.clone(), it.0));
    let titles: Vec<(String, &str)> = titles.collect();
    for (kind, stem, scene) in &mut scenes {
        let same = titles.iter().filter(|it| it.0 == scene.title);
        let of_kind = same.clone().filter(|it| it.1 == *kind);
        match (same.count(), of_kind.count()) {
            (1, _) => {}
            (_, 1) => scene.title.push_str(&format!(" ({kind})")),
            _ => scene.title.push_str(&format!(" ({stem})")),
        }
    }
    let scenes = scenes.into_iter();
    let drawings = scenes.map(|(_, stem, scene)| chart::draw(stem, &context.about, scene));
    Ok(drawings.collect())
}

/// The marks of a panel, with a whole title and all notes.
fn scene(panel: &Panel, context: &Context) -> Scene {
    let (mut scene, what) = match panel.figure.kind {
        FigureKind::Curve => (curve::scene(panel), "point"),
        FigureKind::Cdf => (cdf::scene(panel), "line"),
        FigureKind::Bars => (bars::scene(panel), "bar"),
        FigureKind::Deciles => (deciles::scene(panel), "share"),
        FigureKind::Scatter | FigureKind::Pareto => (scatter::scene(panel), "marker"),
        FigureKind::HeatMap => (heat_map::scene(panel), "row"),
        FigureKind::Table => (table::scene(panel), "value"),
        FigureKind::Stack => (stack::scene(panel), "stack"),
        FigureKind::Ratios => (ratios::scene(panel), "value"),
    };
    scene.title = title(panel, &scene.title);
    let mut notes = notes::faults(panel);
    notes.extend(context.notes.iter().cloned());
    notes.extend(notes::lacking(panel));
    notes.append(&mut scene.notes);
    notes.extend(notes::merged(panel, what));
    notes.extend(scene.remarks());
    notes.extend(notes::omitted(panel));
    scene.notes = notes;
    scene
}

/// The title of the declaration or the composed one, with what is drawn of the run: the value of
/// the panel and those of `only`.
fn title(panel: &Panel, composed: &str) -> String {
    let figure = panel.figure;
    let declared = figure.title.clone();
    let mut title = declared.unwrap_or_else(|| capitalised(composed));
    if let Some(of) = &panel.of {
        title.push_str(&format!(": {of}"));
    }
    let only = figure.only.iter().filter_map(|(name, value)| {
        let factor = panel.plan.factor(name)?;
        let is_telling = factor.values.len() > 1 && figure.title.is_none();
        is_telling.then(|| factor.label(value))
    });
    let only: Vec<String> = only.collect();
    match only.is_empty() {
        true => title,
        false => format!("{title} ({})", only.join(", ")),
    }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|it| it.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}
