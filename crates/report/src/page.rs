//! `report.html` of a run of any kind: one self-contained file for screen (light and dark) and
//! print. [`crate::cache::page`] has the page of servers at several rates; both share the frame,
//! style and script.
//!
//! The head holds the answer and one table ([`crate::answer`]); all other parts are folded. The
//! template escapes every string. Only figures, style sheet and script are marked safe: this crate
//! generates them, and escapes the strings in the figures itself.

mod front;
mod shown;
mod tables;

use askama::Template;

pub(crate) use self::shown::Shown;
pub(crate) use self::tables::place;

use self::front::Front;
use self::tables::{
    CellTable, Cut, FactorRow, FamilyTable, FlagRow, MetricRow, MissingRow, PublishedTable,
    RetriedRow, SuspectRow,
};
use crate::answer::{self, StageResults};
use crate::chart::Drawing;
use crate::comparison::words;
use crate::record::Host;
use crate::target_verdict::Judged;
use crate::{Error, Run, limits, units};

pub(crate) const STYLE: &str = include_str!("../templates/report.css");
pub(crate) const SCRIPT: &str = include_str!("../templates/report.js");

/// A figure as the template takes it.
pub(crate) struct FigurePart {
    pub(crate) stem: String,
    pub(crate) title: String,
    pub(crate) svg: String,
    pub(crate) notes: Vec<String>,
}

#[derive(Template)]
#[template(path = "general.html")]
struct Page {
    style: &'static str,
    script: &'static str,
    experiment: String,
    question: String,
    sentence: String,
    front: Front,
    started: String,
    about: String,
    quick: Option<String>,
    plan_notes: Vec<String>,
    torn: bool,
    comparisons: Vec<StageComparisons>,
    figures: Vec<FigurePart>,
    published: Option<PublishedTable>,
    targets: Vec<Judged>,
    cells: Vec<CellTable>,
    missing: Cut<MissingRow>,
    retried: Cut<RetriedRow>,
    suspect: Cut<SuspectRow>,
    flags: Vec<FlagRow>,
    noted: Cut<(String, String)>,
    factors: Vec<FactorRow>,
    metrics: Vec<MetricRow>,
    host: Vec<(&'static str, String)>,
    plan: String,
    rerun: String,
}

/// The comparisons of a stage.
struct StageComparisons {
    /// Empty: the run has one stage.
    stage: String,
    /// What is compared, as sentences.
    about: String,
    families: Vec<FamilyTable>,
}

/// Renders the page of a run.
///
/// # Errors
/// Rendering the template failed.
pub(crate) fn html(run: &Run, drawings: &[Drawing], targets: Vec<Judged>) -> Result<String, Error> {
    let stages = answer::stages(run);
    let last = stages.last();
    let comparisons = stages.iter().filter_map(|it| stage_comparisons(run, it));
    let page = Page {
        style: STYLE,
        script: SCRIPT,
        experiment: run.plan.experiment.clone(),
        question: run.plan.question.clone(),
        sentence: answer::sentence(run, last),
        front: Front::of(run, last),
        started: run.started_unix_ns().map(units::moment).unwrap_or_default(),
        about: about(run),
        quick: run.plan.quick.then(|| quick().to_owned()),
        plan_notes: run.plan.notes.clone(),
        torn: run.torn,
        comparisons: comparisons.collect(),
        figures: drawings.iter().map(figure_part).collect(),
        published: last.and_then(|it| tables::published(run, it)),
        targets,
        cells: stages
            .iter()
            .flat_map(|it| tables::cells(run, it))
            .collect(),
        missing: tables::missing(run),
        retried: tables::retried(run),
        suspect: tables::suspect(run),
        flags: tables::flags(run),
        noted: tables::noted(run),
        factors: tables::factors(run),
        metrics: tables::metrics(run),
        host: host_rows(&run.host),
        plan: plan_text(&toml::to_string_pretty(&run.plan).unwrap_or_default()),
        rerun: rerun(&run.plan.experiment, run.plan.quick, run.plan.seed),
    };
    Ok(page.render()?)
}

pub(crate) fn figure_part(drawing: &Drawing) -> FigurePart {
    FigurePart {
        stem: drawing.stem.clone(),
        title: drawing.title.clone(),
        svg: drawing.inline(),
        notes: drawing.notes.clone(),
    }
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

fn stage_comparisons(run: &Run, results: &StageResults) -> Option<StageComparisons> {
    let comparisons = results.comparisons.as_ref()?;
    let base = words::subject(comparisons.factor, comparisons.baseline);
    let mut about =
        format!("Each cell is compared with the cell {base} whose other factors are equal");
    if !comparisons.dependent.is_empty() {
        let titles = comparisons.dependent.iter();
        let titles: Vec<String> = titles.map(|it| it.factor.title.clone()).collect();
        about.push_str(&format!(
            ", except those that change with it: {}",
            units::listed(&titles)
        ));
    }
    about.push('.');
    if comparisons.unmatched > 0 {
        let cells = units::plural(comparisons.unmatched, "cell");
        about.push_str(&format!(" No such cell exists for {cells}."));
    }
    if !comparisons.omitted.is_empty() {
        let names = comparisons.omitted.iter().map(|metric| metric.name.clone());
        let names: Vec<String> = names.collect();
        about.push_str(&format!(
            " Not compared, because there would be more than {} comparisons: {}.",
            units::count(limits::COMPARISONS as u64),
            units::listed(&names),
        ));
    }
    let families = comparisons.families.iter();
    let families: Vec<FamilyTable> = families
        .filter(|family| !family.comparisons.is_empty())
        .map(|family| tables::family(comparisons, family, &results.cells))
        .collect();
    Some(StageComparisons {
        stage: stage_name(run, results),
        about,
        families,
    })
}

/// The name of a stage. Empty: the run has no other.
fn stage_name(run: &Run, results: &StageResults) -> String {
    match run.plan.stages.as_slice() {
        [_] => String::new(),
        _ => results.stage.name.clone(),
    }
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
pub(crate) fn rerun(experiment: &str, quick: bool, seed: u64) -> String {
    let quick = if quick { " --quick" } else { "" };
    format!(
        "curtail lab run {}{quick} --seed {seed}",
        shell_word(experiment)
    )
}

/// `word` quoted as one word for a shell.
fn shell_word(word: &str) -> String {
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
