//! `report.html`: one self-contained file for screen (light and dark) and print.
//!
//! The head holds what is wrong with the instrument or a server, the question, the answer in one
//! sentence ([`crate::answer`]), the first figure and one table. Of all other parts, only that of
//! the figures is unfolded. The template escapes every string. Only figures, style sheet and script
//! are marked safe: this crate generates them, and escapes the strings in the figures itself.

mod front;
mod parts;
mod shown;

use askama::Template;

pub(crate) use self::parts::place;
pub(crate) use self::shown::Shown;

use self::front::Front;
use self::parts::Part;
use crate::answer;
use crate::chart::Drawing;
use crate::record::Host;
use crate::target_verdict::Judged;
use crate::{Error, Run, health, limits, published, units};

pub(crate) const STYLE: &str = include_str!("../templates/report.css");
pub(crate) const SCRIPT: &str = include_str!("../templates/report.js");

/// A figure as the template takes it.
pub(crate) struct FigurePart {
    pub(crate) stem: String,
    pub(crate) title: String,
    pub(crate) svg: String,
    pub(crate) notes: Vec<String>,
    /// The level of its heading.
    pub(crate) level: u8,
    /// Whether its SVG and CSV lie in the run folder.
    pub(crate) has_files: bool,
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    style: &'static str,
    script: &'static str,
    experiment: String,
    question: String,
    alerts: Vec<(&'static str, String)>,
    sentence: String,
    agreement: Option<String>,
    first: Option<FigurePart>,
    front: Front,
    files: Vec<(&'static str, &'static str)>,
    started: String,
    about: String,
    quick: Option<String>,
    plan_notes: Vec<String>,
    torn: bool,
    figures: Vec<FigurePart>,
    parts: Vec<Part>,
    host: Vec<(&'static str, String)>,
    plan: String,
    rerun: String,
}

/// Renders the page of a run.
///
/// # Errors
/// Rendering the template failed.
pub(crate) fn html(run: &Run, drawings: &[Drawing], targets: &[Judged]) -> Result<String, Error> {
    let stages = answer::stages(run);
    let last = stages.last();
    let agreement = last.and_then(|it| published::agreement(&published::pairs(run, it)));
    let mut figures = drawings.iter().map(|it| figure_part(it, true));
    let first = figures.next().map(|it| FigurePart { level: 2, ..it });
    let page = Page {
        style: STYLE,
        script: SCRIPT,
        experiment: run.plan.experiment.clone(),
        question: run.plan.question.clone(),
        alerts: health::alerts(run, last),
        sentence: answer::sentence(run, last),
        agreement,
        files: files(run),
        front: Front::of(run, last),
        started: run.started_unix_ns().map(units::moment).unwrap_or_default(),
        about: about(run),
        quick: run.plan.quick.then(|| quick().to_owned()),
        plan_notes: run.plan.notes.clone(),
        torn: run.torn,
        first,
        figures: figures.collect(),
        parts: parts::of(run, &stages, targets),
        host: host_rows(&run.host),
        plan: plan_text(&toml::to_string_pretty(&run.plan).unwrap_or_default()),
        rerun: rerun(run),
    };
    Ok(page.render()?)
}

/// `has_files`: whether its SVG and CSV lie in the run folder.
pub(crate) fn figure_part(drawing: &Drawing, has_files: bool) -> FigurePart {
    FigurePart {
        stem: drawing.stem.clone(),
        title: drawing.title.clone(),
        svg: drawing.inline(),
        notes: drawing.notes.clone(),
        level: 3,
        has_files,
    }
}

/// The files of the run folder that a reader may want: path and name.
fn files(run: &Run) -> Vec<(&'static str, &'static str)> {
    let mut files = vec![
        ("trials.csv", "trials.csv"),
        ("trials.jsonl", "trials.jsonl"),
        ("plan.toml", "plan.toml"),
        ("host.json", "host.json"),
    ];
    let folders = [("logs/", "logs"), ("histograms/", "histograms")];
    let folders = folders.into_iter();
    files.extend(folders.filter(|(path, _)| run.folder.join(path).is_dir()));
    files
}

/// One line on what was measured.
pub(crate) fn about(run: &Run) -> String {
    let plan = &run.plan;
    let cells: usize = plan.stages.iter().map(|stage| stage.cells.len()).sum();
    let measured = run.records.iter().filter(|it| it.measured().is_some());
    format!(
        "{}{} · trials of kind {} · {} · {} measured",
        units::shortened(&plan.experiment, limits::EXPERIMENT_CHARACTERS),
        if plan.quick { " (quick)" } else { "" },
        units::shortened(&plan.kind, limits::NAME_CHARACTERS),
        units::plural(cells as u64, "cell"),
        units::plural(measured.count() as u64, "trial"),
    )
}

/// The warning on a `--quick` run.
pub(crate) fn quick() -> &'static str {
    "Quick run: the short form of the experiment. Sufficient to see the shape, not to quote."
}

/// The text of a plan, cut to [`limits::PLAN_CHARACTERS`].
fn plan_text(plan: &str) -> String {
    match plan.char_indices().nth(limits::PLAN_CHARACTERS) {
        Some((cut, _)) => format!("{}\n… continued in plan.toml", &plan[..cut]),
        None => plan.to_owned(),
    }
}

/// The description of the machine.
pub(crate) fn host_rows(host: &Host) -> Vec<(&'static str, String)> {
    let unknown = || "not shown".to_owned();
    vec![
        ("Kernel", host.kernel.clone()),
        (
            "Processor",
            format!("{}, {} online", host.cpu, host.processors),
        ),
        ("Memory", units::bytes(host.memory_bytes as f64)),
        (
            "Virtualised",
            host.virtualised.clone().unwrap_or_else(unknown),
        ),
        ("Clock source", host.clock.clone()),
        (
            "Frequency governor",
            host.governor.clone().unwrap_or_else(unknown),
        ),
        ("Open files", units::count(host.open_files)),
        ("Curtail", host.curtail.clone()),
    ]
}

/// The command that repeats a run with the same seed.
fn rerun(run: &Run) -> String {
    let plan = &run.plan;
    let quick = if plan.quick { " --quick" } else { "" };
    let (name, seed) = (shell_word(&plan.experiment), plan.seed);
    let composed = || format!("curtail lab run {name}{quick} --seed {seed}");
    plan.rerun.clone().unwrap_or_else(composed)
}

/// `word` quoted as one word for a shell.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::{plan_text, shell_word};
    use crate::limits;

    #[test]
    fn a_hostile_name_is_one_word_to_a_shell() {
        assert_eq!(shell_word("rate-ladder"), "rate-ladder");
        assert_eq!(shell_word("a; rm -rf 'b'"), r"'a; rm -rf '\''b'\'''");
    }

    #[test]
    fn a_long_plan_is_cut_and_says_so() {
        let plan = "µ".repeat(limits::PLAN_CHARACTERS);
        assert_eq!(plan_text(&plan), plan);
        let cut = plan_text(&format!("{plan}µ"));
        assert_eq!(cut, format!("{plan}\n… continued in plan.toml"));
    }
}
