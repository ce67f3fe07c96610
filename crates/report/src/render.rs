//! Writes the report of a run folder into that folder.
//!
//! Every file is written under a temporary name and then renamed: a reader never sees half a file,
//! and a failed report leaves the previous one in place. The page is written last.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::chart::{self, Curve, Drawing, Panel};
use crate::findings::{self, CurveFindings};
use crate::sweep_axis::SweepAxis;
use crate::{Error, Run, figures, limits, notes, page, raster, trials_csv};

/// The files that [`render`] wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The page.
    pub page: PathBuf,
    /// The trials as a flat table.
    pub trials: PathBuf,
    /// The figures: an SVG and a PNG each.
    pub figures: Vec<PathBuf>,
}

/// A figure as an SVG document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// File stem, such as `tail`, or `tail-memcached` if each server has a figure.
    pub name: String,
    /// The document, styled for print: black on white, `sans-serif`.
    pub svg: String,
}

/// Writes `figures/*.svg`, `figures/*.png`, `trials.csv` and `report.html` into a run folder.
///
/// # Errors
/// The folder is not a readable run, a figure cannot be drawn, or a file cannot be written.
pub fn render(folder: &Path) -> Result<Rendered, Error> {
    let run = Run::open(folder)?;
    let curves = findings::of(&run);
    let drawings = draw(&run, &curves)?;

    let figures_folder = folder.join("figures");
    fs::create_dir_all(&figures_folder).map_err(|error| Error::write(&figures_folder, error))?;
    let mut figures = Vec::new();
    for drawing in &drawings {
        let svg = figures_folder.join(format!("{}.svg", drawing.stem));
        replace(&svg, drawing.file().as_bytes())?;
        let png = figures_folder.join(format!("{}.png", drawing.stem));
        replace(&png, &raster::png(drawing)?)?;
        figures.extend([svg, png]);
    }
    let trials = folder.join("trials.csv");
    let mut table = Vec::new();
    trials_csv::write_csv(&run.trials, &mut table).map_err(|e| Error::write(&trials, e))?;
    replace(&trials, &table)?;
    let page = folder.join("report.html");
    replace(&page, page::html(&run, &curves, &drawings)?.as_bytes())?;
    Ok(Rendered {
        page,
        trials,
        figures,
    })
}

/// Draws the figures of the plan, each once, without writing them.
///
/// # Errors
/// A figure could not be drawn.
pub fn figures_of(run: &Run) -> Result<Vec<Figure>, Error> {
    let drawings = draw(run, &findings::of(run))?;
    let figure = |drawing: &Drawing| Figure {
        name: drawing.stem.clone(),
        svg: drawing.file(),
    };
    Ok(drawings.iter().map(figure).collect())
}

/// Renders the page of a run without writing it.
///
/// # Errors
/// A figure could not be drawn, or the template could not be rendered.
pub fn page_of(run: &Run) -> Result<String, Error> {
    let curves = findings::of(run);
    let drawings = draw(run, &curves)?;
    page::html(run, &curves, &drawings)
}

fn draw(run: &Run, curves: &[CurveFindings]) -> Result<Vec<Drawing>, Error> {
    let about = notes::about(run);
    let panels = panels(run, curves);
    let mut drawings: Vec<Drawing> = Vec::new();
    for &kind in &run.plan.figures {
        let figure = figures::of(kind);
        if drawings.iter().any(|drawn| drawn.kind == kind) {
            continue;
        }
        for panel in &shown(&panels, figure.as_ref()) {
            let notes = notes::of_figure(run, panel, figure.as_ref());
            drawings.push(chart::draw(figure.as_ref(), panel, &about, notes)?);
        }
    }
    Ok(drawings)
}

/// One panel for all servers or, if each setting has a curve, one per server.
fn panels<'a>(run: &'a Run, curves: &'a [CurveFindings<'a>]) -> Vec<Panel<'a>> {
    let panel = |of: Option<&'a str>, suffix| Panel {
        of,
        suffix,
        axis: SweepAxis::of(&run.plan),
        curves: Vec::new(),
        lacking: Vec::new(),
    };
    let mut servers: Vec<&str> = curves
        .iter()
        .filter(|curve| curve.setting.is_some())
        .map(|curve| curve.server.name.as_str())
        .collect();
    servers.dedup();
    let suffixes = file_suffixes(&servers).into_iter();
    let mut panels: Vec<Panel> = servers
        .into_iter()
        .zip(suffixes)
        .map(|(server, suffix)| panel(Some(server), suffix))
        .collect();
    if panels.is_empty() {
        panels.push(panel(None, String::new()));
    }
    for curve in curves {
        let is_its = |panel: &&mut Panel| panel.of.is_none_or(|of| of == curve.server.name);
        if let Some(panel) = panels.iter_mut().find(is_its) {
            panel.curves.push(Curve {
                name: &curve.name,
                short: curve.condition.as_ref().unwrap_or(&curve.name),
                place: panel.curves.len(),
                style: curve.style,
                cells: curve.cells.clone(),
                knee_rps: curve.knee.map(|knee| knee.level),
            });
        }
    }
    panels
}

/// The panels in which `figure` has data. Curves without the quantity are left out. If no panel
/// remains, the first is kept, to note what is missing.
fn shown<'a>(panels: &[Panel<'a>], figure: &dyn figures::Figure) -> Vec<Panel<'a>> {
    let is_lacking = |curve: &Curve| {
        let measured = || curve.cells.iter().flat_map(|cell| &cell.measured);
        let mut values = measured().map(|(_, measured)| figure.value(measured));
        measured().next().is_some() && values.all(|value| value.is_none())
    };
    let is_shown = |panel: &&Panel| !panel.curves.iter().all(is_lacking);
    let mut shown: Vec<Panel> = panels.iter().filter(is_shown).cloned().collect();
    if shown.is_empty() {
        shown.extend(panels.first().cloned());
    }
    for panel in &mut shown {
        let (lacking, curves) = panel.curves.drain(..).partition(is_lacking);
        let lacking: Vec<Curve> = lacking;
        panel.lacking = lacking.into_iter().map(|curve| curve.name).collect();
        panel.curves = curves;
    }
    shown
}

/// The file name suffix of each server: its name or, if any server's name is unfit for a file name,
/// its number.
fn file_suffixes(servers: &[&str]) -> Vec<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_fit =
        |name: &&str| name.len() <= limits::FILE_NAME_CHARACTERS && name.chars().all(is_plain);
    let distinct: HashSet<&str> = servers.iter().copied().collect();
    let are_fit = distinct.len() == servers.len() && servers.iter().all(is_fit);
    let names = servers.iter().enumerate();
    names
        .map(|(index, name)| match are_fit {
            true => format!("-{name}"),
            false => format!("-{}", index + 1),
        })
        .collect()
}

/// Replaces the file at `path` by `content` atomically.
fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let written = File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        // Report the first error only; the temporary file must not remain.
        let _ = fs::remove_file(&temporary);
        Error::write(path, error)
    })
}
