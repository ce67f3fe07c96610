//! Writes the report of a run folder into that folder.
//!
//! Every file is written under a temporary name and then renamed: a reader never sees half a file,
//! and a failed report leaves the previous one in place. The page is written last.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::chart::Drawing;
use crate::figures::{self, Context};
use crate::{Error, Run, page, target, terminal, trials_csv};

/// The files that [`render`] wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The page.
    pub page: PathBuf,
    /// The trials as a flat table.
    pub trials: PathBuf,
    /// The figures: an SVG and a CSV each.
    pub figures: Vec<PathBuf>,
}

/// A figure as an SVG document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SvgFigure {
    /// File stem, such as `tail`, or `tail-memcached` if each server has a figure.
    pub name: String,
    /// The document, styled for print: black on white, `sans-serif`.
    pub svg: String,
}

/// Writes `figures/*.svg`, `figures/*.csv`, `trials.csv` and `report.html` into a run folder.
///
/// # Errors
/// The folder is not a readable run, a figure cannot be drawn, or a file cannot be written.
pub fn render(folder: &Path) -> Result<Rendered, Error> {
    let run = Run::open(folder)?;
    let drawings = drawings(&run)?;

    let figures_folder = folder.join("figures");
    fs::create_dir_all(&figures_folder).map_err(|error| Error::write(&figures_folder, error))?;
    let mut figures = Vec::new();
    for drawing in &drawings {
        let svg = figures_folder.join(format!("{}.svg", drawing.stem));
        replace(&svg, drawing.file().as_bytes())?;
        let csv = figures_folder.join(format!("{}.csv", drawing.stem));
        replace(&csv, &drawing.rows.csv())?;
        figures.extend([svg, csv]);
    }
    let trials = folder.join("trials.csv");
    let mut table = Vec::new();
    trials_csv::write_csv(&run.plan, &run.records, &mut table)
        .map_err(|error| Error::write(&trials, error))?;
    replace(&trials, &table)?;
    let page = folder.join("report.html");
    let html = page::html(&run, &drawings, &target::judged(&run))?;
    replace(&page, html.as_bytes())?;
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
pub fn figures_of(run: &Run) -> Result<Vec<SvgFigure>, Error> {
    let drawings = drawings(run)?;
    let figure = |drawing: &Drawing| SvgFigure {
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
    let drawings = drawings(run)?;
    page::html(run, &drawings, &target::judged(run))
}

/// The run in at most [`crate::limits::TERMINAL_COLUMNS`] columns, as text. Ends with a line break.
#[must_use]
pub fn text_summary(run: &Run) -> String {
    terminal::text_summary(run, &target::judged(run))
}

/// The targets of a run with their results, as lines for a terminal. Empty: it has none.
#[must_use]
pub fn target_text(run: &Run) -> String {
    terminal::target_text(&target::judged(run))
}

/// The figures of the plan.
pub(crate) fn drawings(run: &Run) -> Result<Vec<Drawing>, Error> {
    figures::draw(&run.plan, &run.records, &run.folder, &Context::of(run))
}

/// Replaces the file at `path` by `content` atomically.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
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
