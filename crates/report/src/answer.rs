//! The answer of a run in one sentence and one table, for any kind of trial.
//!
//! The answer is of the last stage and of one metric: the first that was measured and has a better
//! direction, where the metrics of the figures come before the others. Up to [`SENTENCES`]
//! comparisons are listed; of more, the sentence gives the numbers of each verdict.
//!
//! The table has a row for each cell. If there are more than [`limits::FRONT_ROWS`] cells, it shows
//! those at one point: where each factor that is equal in the cells compared has its reference or,
//! without one, the value in the middle of its list. The plan alone determines the point, so that
//! no result can influence it.

use std::collections::BTreeMap;

use crate::cell::{self, Cell};
use crate::comparison::{self, Comparison, Comparisons, Effect, Family, Scale, Verdict, words};
use crate::page::Shown;
use crate::record::{Better, Factor, Metric, Stage, Value};
use crate::{Run, limits, units};

/// With up to this many comparisons, the sentence lists them.
const SENTENCES: usize = 3;

/// The cells of a stage with their comparisons.
pub(crate) struct StageResults<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) cells: Vec<Cell<'a>>,
    /// The factors that have several values in the stage.
    pub(crate) varied: Vec<&'a Factor>,
    /// None: no factor has several values in the stage.
    pub(crate) comparisons: Option<Comparisons<'a>>,
}

impl<'a> StageResults<'a> {
    /// The varied factors that tell cells apart, without those that follow from them: what the
    /// compared factor implies, and what is equal wherever the others are.
    pub(crate) fn telling(&self) -> Vec<&'a Factor> {
        let is_telling = |factor: &&Factor| {
            let comparisons = self.comparisons.as_ref();
            comparisons.is_none_or(|it| it.tells(factor))
        };
        self.varied.iter().copied().filter(is_telling).collect()
    }
}

/// The cells of every stage, in the order of the plan.
pub(crate) fn stages(run: &Run) -> Vec<StageResults<'_>> {
    let stages = run.plan.stages.iter().map(|stage| {
        let cells = cell::of_stage(run, stage);
        let comparisons = comparison::of(run, stage, &cells);
        StageResults {
            stage,
            varied: cell::varied(&run.plan, stage),
            cells,
            comparisons,
        }
    });
    stages.collect()
}

/// The metric of the answer. None: none of the stage's metrics has a better direction.
pub(crate) fn metric<'a>(run: &'a Run, last: &StageResults) -> Option<&'a Metric> {
    let mut measured = cell::measured(&run.plan, &last.cells).into_iter();
    measured.find(|metric| metric.better != Better::Neither)
}

/// The metrics of a table of at most `most` columns: that of the answer and others that have a
/// better direction or, if none has, any.
pub(crate) fn columns<'a>(run: &'a Run, last: &StageResults, most: usize) -> Vec<&'a Metric> {
    let measured = cell::measured(&run.plan, &last.cells);
    let has_direction = |metric: &&Metric| metric.better != Better::Neither;
    let is_any = measured
        .iter()
        .all(|metric| metric.better == Better::Neither);
    let columns = measured.into_iter();
    let columns = columns.filter(|metric| is_any || has_direction(metric));
    columns.take(most).collect()
}

/// The sentence. Ends with a full stop.
pub(crate) fn sentence(run: &Run, last: Option<&StageResults>) -> String {
    let mut clauses = vec![lead(run, last)];
    clauses.extend(caveats(run));
    let sentence = clauses.join("; ");
    let mut letters = sentence.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

fn lead(run: &Run, last: Option<&StageResults>) -> String {
    let Some(last) = last else {
        return "the plan has no trials: there is no answer".to_owned();
    };
    if last.cells.iter().all(|cell| cell.measured.is_empty()) {
        return "no trial was measured: there is no answer".to_owned();
    }
    let Some(metric) = metric(run, last) else {
        return "no metric has a better direction, so nothing is compared".to_owned();
    };
    let family = last.comparisons.as_ref().and_then(|comparisons| {
        let mut families = comparisons.families.iter();
        let family = families.find(|family| family.metric.name == metric.name)?;
        (!family.comparisons.is_empty()).then_some((comparisons, family))
    });
    match family {
        None => alone(metric, last),
        Some((comparisons, family)) if family.comparisons.len() <= SENTENCES => {
            let listed = family.comparisons.iter();
            let listed = listed.map(|it| comparisons.sentence(family, it, &last.cells));
            listed.collect::<Vec<_>>().join("; ")
        }
        Some((comparisons, family)) => counted(comparisons, family, &last.cells),
    }
}

/// Nothing is compared.
fn alone(metric: &Metric, last: &StageResults) -> String {
    let title = words::title(metric);
    if let [cell] = last.cells.as_slice() {
        let values = cell.values(&metric.name);
        return match values.median() {
            Some(median) => {
                let value = Shown::of(metric, &median, &values).to_string();
                format!("the {title} is {value}, and there is no other cell to compare with")
            }
            None => format!("the {title} is not known: most of its values do not count"),
        };
    }
    let factor = last.comparisons.as_ref().map(|it| it.factor.title.as_str());
    let factor = factor.unwrap_or_default();
    format!("the {title} is compared with nothing: no two cells differ in {factor} alone")
}

/// Many comparisons, by verdict.
fn counted(comparisons: &Comparisons, family: &Family, cells: &[Cell]) -> String {
    let (mut better, mut worse, mut undecided, mut unknown) = (Vec::new(), Vec::new(), 0, 0);
    for comparison in &family.comparisons {
        match &comparison.verdict {
            Verdict::Decided(effect) if family.is_better(effect) => better.push(effect),
            Verdict::Decided(effect) => worse.push(effect),
            Verdict::Undecided(..) => undecided += 1,
            Verdict::Unknown(_) => unknown += 1,
        }
    }
    let all = units::plural(family.comparisons.len() as u64, "comparison");
    let mut parts = Vec::new();
    let of = match family.scale {
        Scale::Ratio => "ratio",
        Scale::Difference => "difference",
    };
    let mut add = |what: &str, count: usize, range: String| {
        if count > 0 {
            // The first number says of how many.
            let of = if parts.is_empty() {
                format!(" of {all}")
            } else {
                String::new()
            };
            parts.push(format!("{what} in {count}{of}{range}"));
        }
    };
    for (what, effects) in [("better", &better), ("worse", &worse)] {
        add(
            what,
            effects.len(),
            format!(" ({of}{})", range(family, effects)),
        );
    }
    add("undecided", undecided, String::new());
    add("not known", unknown, String::new());
    let subject = words::subject(comparisons.factor, comparisons.baseline);
    let base = match subject.strip_prefix("for ") {
        Some(name) => name.to_owned(),
        None => format!("the cells {subject}"),
    };
    let title = words::title(family.metric);
    let told = match comparisons.all_differences(family, cells) {
        told if told.is_empty() => told,
        told => format!(", {told}"),
    };
    let parts = units::listed(&parts);
    format!("against {base}, the {title} is {parts}{told}")
}

/// The least and the greatest effect: ` 0.71`, `s 0.71 to 0.93`.
fn range(family: &Family, effects: &[&Effect]) -> String {
    let values = || effects.iter().map(|effect| effect.estimate.value);
    let least = values().fold(f64::INFINITY, f64::min);
    let greatest = values().fold(f64::NEG_INFINITY, f64::max);
    let mut ends = [least, greatest]
        .map(|end| family.short_effect(end))
        .to_vec();
    ends.dedup();
    let plural = if ends.len() > 1 { "s" } else { "" };
    format!("{plural} {}", ends.join(" to "))
}

/// Clauses that qualify the answer, on the whole run.
fn caveats(run: &Run) -> Vec<String> {
    let mut caveats = Vec::new();
    let are = |count: u64| if count == 1 { "is" } else { "are" };
    let measured = run.records.iter().filter_map(|record| record.measured());
    let measured_count = measured.clone().count() as u64;
    let suspect: Vec<&str> = measured.filter_map(|it| it.suspect.as_deref()).collect();
    if let Some(first) = suspect.first() {
        let count = suspect.len() as u64;
        let reason = match suspect.iter().all(|reason| reason == first) {
            true => units::shortened(first, limits::REASON_CHARACTERS),
            false => "for several reasons".to_owned(),
        };
        caveats.push(format!(
            "{} of {} {} suspect ({reason})",
            units::count(count),
            units::plural(measured_count, "trial"),
            are(count),
        ));
    }
    let missing = run.missing().len() as u64;
    if missing > 0 {
        caveats.push(format!(
            "{} of {} {} missing",
            units::count(missing),
            units::plural(missing + measured_count, "trial"),
            are(missing),
        ));
    }
    caveats
}

/// The cells of the table: indices, and the words of the point that they share, if they are not
/// all.
pub(crate) fn shown(last: &StageResults) -> (Vec<usize>, Option<String>) {
    let all = (0..last.cells.len()).collect();
    if last.cells.len() <= limits::FRONT_ROWS {
        return (all, None);
    }
    let others = last.comparisons.as_ref().map(|it| it.equal.as_slice());
    let others = others.unwrap_or_default();
    let values = others.iter().filter_map(|factor| {
        let reference = factor.reference.as_ref();
        let middle = factor.values.get(factor.values.len() / 2);
        Some((factor.name.as_str(), reference.or(middle)?))
    });
    let point: BTreeMap<&str, &Value> = values.collect();
    let is_there = |cell: &Cell| {
        let mut point = point.iter();
        point.all(|(name, value)| cell.factors.get(*name) == Some(*value))
    };
    let cells = last.cells.iter().enumerate();
    let mut there: Vec<usize> = cells
        .filter(|(_, cell)| is_there(cell))
        .map(|(index, _)| index)
        .collect();
    if there.is_empty() {
        // The cells are not every combination of the values. Those shown then share no point.
        there = all;
        there.truncate(limits::FRONT_ROWS);
        return (there, None);
    }
    there.truncate(limits::FRONT_ROWS);
    let at = there
        .first()
        .map(|&first| words::place(others, &last.cells[first]));
    (there, at.filter(|at| !at.is_empty()))
}

/// The comparison of a cell. None: it is the baseline, or is compared with nothing.
pub(crate) fn comparison_of<'f, 'a>(
    family: &'f Family<'a>,
    cell: usize,
) -> Option<&'f Comparison<'a>> {
    family.comparisons.iter().find(|it| it.of == cell)
}
