//! `gallery.html`: one self-contained page over the run folders of a folder, with a search, and
//! with chosen runs side by side.

use std::path::{Path, PathBuf};

use askama::Template;

use crate::page::{STYLE, figure_part};
use crate::render::{drawings, replace};
use crate::run::run_folders;
use crate::{Error, Run, answer, health, limits, page, units};

const GALLERY_STYLE: &str = include_str!("../templates/gallery.css");
const GALLERY_SCRIPT: &str = include_str!("../templates/gallery.js");

/// What [`gallery`] wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gallery {
    /// The page.
    pub page: PathBuf,
    /// The runs on it.
    pub runs: usize,
    /// The folders that hold a plan and cannot be shown, with the reason.
    pub unreadable: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "gallery.html")]
struct Page {
    style: &'static str,
    gallery_style: &'static str,
    script: &'static str,
    folder: String,
    count: String,
    omitted: usize,
    cards: Vec<Card>,
    unreadable: Vec<(String, String)>,
}

/// A run.
struct Card {
    /// Name of its folder.
    name: String,
    experiment: String,
    question: String,
    /// What is wrong with the instrument or a server.
    faults: Vec<String>,
    sentence: String,
    started: String,
    started_ns: u64,
    about: String,
    machine: String,
    /// Relative to the page.
    report: Option<String>,
    /// Title and document of its first figure.
    figure: Option<(String, String)>,
}

/// Writes `gallery.html` into a folder whose subfolders are runs: the latest first, each with its
/// question, its answer, its first figure and a link to its report.
///
/// # Errors
/// The folder cannot be read or written.
pub fn gallery(folder: &Path) -> Result<Gallery, Error> {
    let (mut cards, mut unreadable) = (Vec::new(), Vec::new());
    for path in &run_folders(folder)? {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match Run::open(path).and_then(|run| card(&name, run)) {
            Ok(card) => cards.push(card),
            Err(error) => unreadable.push((name, error.to_string())),
        }
    }
    cards.sort_by(|a, b| {
        b.started_ns
            .cmp(&a.started_ns)
            .then_with(|| a.name.cmp(&b.name))
    });
    let omitted = cards.len().saturating_sub(limits::GALLERY_RUNS);
    cards.truncate(limits::GALLERY_RUNS);
    for (index, card) in cards.iter_mut().enumerate() {
        if let Some((_, figure)) = &mut card.figure {
            *figure = with_own_names(figure, index);
        }
    }
    let runs = cards.len();
    let content = Page {
        style: STYLE,
        gallery_style: GALLERY_STYLE,
        script: GALLERY_SCRIPT,
        folder: folder.display().to_string(),
        count: units::plural(runs as u64, "run"),
        omitted,
        cards,
        unreadable: unreadable.clone(),
    };
    let page = folder.join("gallery.html");
    replace(&page, content.render()?.as_bytes())?;
    Ok(Gallery {
        page,
        runs,
        unreadable,
    })
}

fn card(name: &str, mut run: Run) -> Result<Card, Error> {
    let (faults, sentence) = {
        let stages = answer::stages(&run);
        let alerts = health::alerts(&run, stages.last()).into_iter();
        let faults = alerts.filter(|(class, _)| *class == "fault");
        let faults: Vec<String> = faults.map(|(_, text)| text).collect();
        (faults, answer::sentence(&run, stages.last()))
    };
    // The answer depends on all figures.
    run.plan.figures.truncate(1);
    let figure = drawings(&run)?.first().map(|it| figure_part(it, false));
    let started_ns = run.started_unix_ns();
    let report = format!("{name}/report.html");
    Ok(Card {
        experiment: run.plan.experiment.clone(),
        question: run.plan.question.clone(),
        faults,
        sentence,
        started: started_ns.map(units::moment).unwrap_or_default(),
        started_ns: started_ns.unwrap_or_default(),
        about: page::about(&run),
        machine: format!(
            "{} · {} × {}",
            run.host.kernel, run.host.processors, run.host.cpu
        ),
        report: run.folder.join("report.html").is_file().then_some(report),
        figure: figure.map(|it| (it.title, it.svg)),
        name: name.to_owned(),
    })
}

/// A figure whose names within the page are its own.
fn with_own_names(svg: &str, index: usize) -> String {
    svg.replace(" id=\"", &format!(" id=\"r{index}-"))
        .replace("url(#", &format!("url(#r{index}-"))
}
