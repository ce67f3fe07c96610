//! The folded parts of the page: paragraphs and tables, as text.

use std::collections::{BTreeMap, BTreeSet};

use super::Shown;
use super::front::{grey, head_of};
use crate::answer::{StageResults, capitalised};
use crate::cell::{self, Cell};
use crate::comparison::{Comparison, Comparisons, Family, Verdict, words};
use crate::health::NOT_RUN;
use crate::record::{Better, Factor, Metric, Outcome};
use crate::target_verdict::{self, Judged};
use crate::{Run, findings, limits, published, units};

/// A part of the page.
#[derive(Default)]
pub(super) struct Part {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What is told of it where it is folded.
    pub(super) summary: String,
    pub(super) about: Vec<String>,
    pub(super) tables: Vec<Table>,
}

/// A table, of which the page shows the first rows.
#[derive(Default)]
pub(super) struct Table {
    /// Its heading. Empty: it has none.
    pub(super) heading: &'static str,
    /// What stands in its place, if it has no row.
    pub(super) none: &'static str,
    pub(super) caption: String,
    pub(super) heads: Vec<Head>,
    /// The first entry of each is its head.
    pub(super) rows: Vec<Vec<Entry>>,
    /// On the rows that are not shown. Empty: all are.
    pub(super) remark: String,
}

/// The head of a column.
pub(super) struct Head {
    pub(super) text: String,
    pub(super) detail: String,
    pub(super) class: &'static str,
}

/// An entry of a table.
pub(super) struct Entry {
    pub(super) value: Shown,
    pub(super) class: &'static str,
}

impl Table {
    /// Rows of which the first [`limits::PAGE_ROWS`] are shown, without a caption.
    fn of(heads: Vec<Head>, rows: impl IntoIterator<Item = Vec<Entry>>) -> Self {
        Self::cut(heads, rows, limits::PAGE_ROWS)
    }

    fn cut(heads: Vec<Head>, rows: impl IntoIterator<Item = Vec<Entry>>, most: usize) -> Self {
        let mut rows: Vec<Vec<Entry>> = rows.into_iter().collect();
        let all = rows.len();
        rows.truncate(most);
        let counts = [rows.len(), all].map(|it| units::count(it as u64));
        let remark = match all == rows.len() {
            true => String::new(),
            false => format!(
                "The first {} of {} rows; trials.csv has all trials.",
                counts[0], counts[1]
            ),
        };
        Self {
            heads,
            rows,
            remark,
            ..Self::default()
        }
    }

    fn headed(self, heading: &'static str, none: &'static str) -> Self {
        Self {
            heading,
            none,
            ..self
        }
    }

    fn captioned(self, caption: impl Into<String>) -> Self {
        Self {
            caption: caption.into(),
            ..self
        }
    }
}

fn left(text: &str) -> Head {
    head(text, "", "left")
}

fn right(text: &str, detail: &str) -> Head {
    head(text, detail, "")
}

fn head(text: &str, detail: &str, class: &'static str) -> Head {
    Head {
        text: text.to_owned(),
        detail: detail.to_owned(),
        class,
    }
}

fn entry(value: Shown, class: &'static str) -> Entry {
    Entry { value, class }
}

/// A name.
fn name(text: impl AsRef<str>) -> Entry {
    entry(Shown::text(text.as_ref()), "left")
}

/// Words that are wrapped.
fn prose(text: impl AsRef<str>) -> Entry {
    entry(Shown::text(text.as_ref()), "words")
}

fn number(text: impl AsRef<str>) -> Entry {
    value(Shown::text(text.as_ref()))
}

fn value(value: Shown) -> Entry {
    entry(value, "")
}

fn of_factor(factor: &Factor, cell: &Cell) -> Entry {
    let value = cell.value(factor);
    name(value.map_or("–".to_owned(), |value| factor.value_text(value)))
}

fn title_of(factor: &Factor) -> Head {
    left(&capitalised(&factor.title))
}

fn spread(metric: &Metric, cell: &Cell) -> Entry {
    let values = cell.values(&metric.name);
    value(Shown::spread(metric, &values, cell.measured.len()))
}

fn measured(cell: &Cell) -> Entry {
    number(format!("{} of {}", cell.measured.len(), cell.planned))
}

/// The parts that a run has, in order.
pub(super) fn of(run: &Run, stages: &[StageResults], targets: &[Judged]) -> Vec<Part> {
    let optional = [
        targets_part(targets),
        findings_part(run),
        stages.last().and_then(|last| published_part(run, last)),
    ];
    let mut parts: Vec<Part> = optional.into_iter().flatten().collect();
    parts.extend([
        comparisons_part(run, stages),
        cells_part(run, stages),
        checks_part(run),
        definitions_part(run),
    ]);
    parts
}

fn targets_part(targets: &[Judged]) -> Option<Part> {
    let about = "Bounds that the experiment stated before the run. A target is go if the whole 95 % \
                 interval is within its bound, missed if the whole interval is beyond it or the \
                 server fails, and not decided otherwise. Of a ratio, the figure is the median of \
                 the ratios over all pairs of trials with the interval of the rank-sum test; of one \
                 cell, it is the median with the interval of its order statistics.";
    let rows = targets.iter().map(|it| {
        let reason = it.verdict.reason().map(|it| format!(": {it}"));
        let verdict = format!("{}{}", it.verdict.words(), reason.unwrap_or_default());
        vec![
            prose(&it.name),
            number(&it.figure),
            prose(verdict),
            prose(&it.left_out),
        ]
    });
    let heads = vec![
        left("Target"),
        right("Figure", ""),
        left("Verdict"),
        left("Left out"),
    ];
    (!targets.is_empty()).then(|| Part {
        id: "targets",
        title: "Targets",
        summary: verdicts(targets),
        about: vec![about.to_owned()],
        tables: vec![Table::of(heads, rows)],
    })
}

/// How many targets have each verdict: `2 go, 1 missed`.
fn verdicts(targets: &[Judged]) -> String {
    use target_verdict::Verdict::{Go, Missed, NotDecided};
    let words = [Go, Missed, NotDecided(String::new())].map(|it| it.words());
    let count = |word: &str| {
        targets
            .iter()
            .filter(|it| it.verdict.words() == word)
            .count()
    };
    let counts = words.map(|word| (count(word), word)).into_iter();
    let counts = counts.filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, word)| format!("{count} {word}"));
    counts.collect::<Vec<_>>().join(", ")
}

fn findings_part(run: &Run) -> Option<Part> {
    let findings = findings::of(run);
    let capacities = findings.capacities.iter().map(|it| {
        let rate = Shown {
            range: it.range.clone(),
            ..Shown::text(&it.rate)
        };
        vec![
            name(&it.name),
            value(rate),
            number(&it.trials),
            prose(&it.remark),
        ]
    });
    let heads = vec![
        left("Of"),
        right("Capacity", ""),
        right("Trials", "measured"),
        left("Remark"),
    ];
    let capacities = Table::of(heads, capacities).captioned(
        "Capacity: the rate achieved under infinite demand, the median of the trials and its 95 % \
         interval. ≥ marks a lower bound: most of the trials say how fast the generator was.",
    );
    let knees = findings.knees.iter();
    let knees = knees.map(|it| vec![name(&it.name), name(&it.words), number(&it.plateau)]);
    let heads = vec![
        left("Of"),
        left("Knee"),
        right("Plateau", "99th percentile"),
    ];
    let knees = Table::of(heads, knees).captioned(
        "Knee: the last offered rate at which the median of the 99th percentile is at most three \
         times its plateau, the median over the lowest third of the rates.",
    );
    let mut tables = vec![capacities, knees];
    tables.retain(|it| !it.rows.is_empty());
    let about: Vec<String> = findings.law.iter().map(findings::Law::words).collect();
    (!tables.is_empty() || !about.is_empty()).then_some(Part {
        id: "findings",
        title: "Capacities, knees and the check of the instrument",
        about,
        tables,
        ..Part::default()
    })
}

fn published_part(run: &Run, last: &StageResults) -> Option<Part> {
    let about = "Values that others have published, next to the medians of this run. Where the \
                 quotient of two values was published, that of the two medians stands next to it. \
                 The ratio is the measured value divided by the published one. It is no comparison: \
                 of the published trials, neither number nor spread is known.";
    let pairs = published::pairs(run, last);
    let rows = pairs.iter().map(|pair| {
        let (metric, cell) = (pair.metric, pair.cell);
        let mut row: Vec<Entry> = last.varied.iter().map(|it| of_factor(it, cell)).collect();
        let quotient = || pair.measured().map_or("–".to_owned(), |it| pair.text(it));
        row.extend([
            name(capitalised(&pair.words(&metric.title))),
            number(pair.published()),
            match pair.other {
                None => spread(metric, cell),
                Some(_) => number(quotient()),
            },
            number(pair.ratio()),
            prose(pair.source),
        ]);
        row
    });
    let mut heads: Vec<Head> = last.varied.iter().map(|it| title_of(it)).collect();
    heads.extend([
        left("Metric"),
        right("Published", ""),
        right("Measured", "median"),
        right("Ratio", ""),
        left("Source"),
    ]);
    (!pairs.is_empty()).then(|| Part {
        id: "published",
        title: "Published values",
        about: vec![about.to_owned()],
        tables: vec![Table::of(heads, rows)],
        ..Part::default()
    })
}

fn comparisons_part(run: &Run, stages: &[StageResults]) -> Part {
    let about = "A ratio is the median of the ratios over all pairs of trials (Hodges and Lehmann's \
                 estimator), with the 95 % interval of the rank-sum test, which is exact up to 2500 \
                 pairs without ties. A metric that has a value of zero or less in a stage has a \
                 difference instead. A comparison is decided if the interval excludes 1 (0 for a \
                 difference) and the test still rejects equality after Holm's correction for all \
                 comparisons of that metric. It is not known if more than half of the values of \
                 either side do not count or are lower bounds, and there is none with a cell in \
                 which the server fails. Few trials give an interval of less confidence, which is \
                 shown in parentheses and decides nothing.";
    let exact = stages.iter().flat_map(|stage| {
        let families = stage.comparisons.iter().flat_map(|it| &it.families);
        let compared = families.filter(|it| !it.comparisons.is_empty());
        compared.map(|it| stage.is_exact(it.metric))
    });
    let exact: Vec<bool> = exact.collect();
    let about = match exact.contains(&true) && !exact.contains(&false) {
        true => {
            "The model leaves nothing to chance: each cell has one value, and a ratio is that of \
                 two values."
        }
        false => about,
    };
    let mut part = Part {
        id: "comparisons",
        title: "Comparisons",
        about: vec![about.to_owned()],
        ..Part::default()
    };
    for stage in stages {
        let Some(comparisons) = &stage.comparisons else {
            continue;
        };
        part.about.push(about_stage(run, stage, comparisons));
        let families = comparisons.families.iter();
        let families = families.filter(|family| !family.comparisons.is_empty());
        part.tables
            .extend(families.map(|it| family(comparisons, it, &stage.cells)));
    }
    if part.about.len() == 1 {
        let nothing = "Nothing is compared: no factor has several values.";
        part.about.push(nothing.to_owned());
    }
    part
}

/// What is compared in a stage, as sentences.
fn about_stage(run: &Run, stage: &StageResults, comparisons: &Comparisons) -> String {
    let base = words::subject(comparisons.factor, comparisons.baseline);
    let mut about = match run.plan.stages.as_slice() {
        [_] => String::new(),
        _ => format!("Stage {}. ", stage.stage.name),
    };
    about.push_str(&format!(
        "Each cell is compared with the cell {base} whose other factors are equal"
    ));
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
        about.push_str(&format!(
            " Not compared, because there would be more than {} comparisons: {}.",
            units::count(limits::COMPARISONS as u64),
            units::listed(&names.collect::<Vec<String>>()),
        ));
    }
    about
}

/// The comparisons of one metric.
fn family(comparisons: &Comparisons, family: &Family, cells: &[Cell]) -> Table {
    let metric = family.metric;
    let factors = || comparisons.equal.iter().chain([&comparisons.factor]);
    let mut heads: Vec<Head> = factors().map(|it| title_of(it)).collect();
    let has_differences = !comparisons.dependent.is_empty();
    heads.extend(has_differences.then(|| left("Other differences")));
    let base = words::subject(comparisons.factor, comparisons.baseline);
    heads.extend([
        right("Median", ""),
        right(&capitalised(&base), ""),
        right(
            &family.effect_head(comparisons.factor, comparisons.baseline),
            "",
        ),
        right("p", "corrected"),
        left("Verdict"),
    ]);
    let row = |it: &Comparison| {
        let (of, to) = (&cells[it.of], &cells[it.to]);
        let mut row: Vec<Entry> = factors().map(|factor| of_factor(factor, of)).collect();
        row.extend(has_differences.then(|| prose(comparisons.differences(it, cells))));
        let (effect, p_value) = match &it.verdict {
            Verdict::Decided(effect) | Verdict::Undecided(effect, _) => {
                let p_value = match effect.p_value {
                    _ if effect.is_exact => "–".to_owned(),
                    p if p < 0.0001 => "<\u{a0}0.0001".to_owned(),
                    p => format!("{p:.4}"),
                };
                (family.effect(effect), p_value)
            }
            Verdict::Unknown(_) | Verdict::Fails(_) => ("–".to_owned(), "–".to_owned()),
        };
        let verdict = prose(family.verdict(it));
        row.extend([spread(metric, of), spread(metric, to)]);
        row.extend([number(effect), number(p_value), verdict]);
        row
    };
    let title = capitalised(&words::title(metric));
    Table::of(heads, family.comparisons.iter().map(row))
        .captioned(format!("{title} ({} is better)", better(metric.better)))
}

fn cells_part(run: &Run, stages: &[StageResults]) -> Part {
    let about = "Median over the trials whose value counts, and [minimum, maximum] below it in the \
                 same unit. If fewer values count than trials were measured, their number is given; \
                 if more than half do not count, or the server fails, the median is grey and not \
                 compared. ≥ marks a lower bound: the true value may be higher. – means that nothing \
                 was measured.";
    let tables: Vec<Table> = stages.iter().flat_map(|it| cells(run, it)).collect();
    let rows = tables.iter().flat_map(|it| it.rows.iter().flatten());
    let grey = grey(run, rows.map(|it| &it.value));
    let about = [about.to_owned(), grey].into_iter();
    Part {
        id: "cells",
        title: "Cells",
        about: about.filter(|it| !it.is_empty()).collect(),
        tables,
        ..Part::default()
    }
}

/// Two tables of a stage: the metrics that have a better direction, and those that have none.
fn cells(run: &Run, results: &StageResults) -> Vec<Table> {
    let measured = cell::measured(&run.plan, &results.cells).into_iter();
    let (neither, directed): (Vec<&Metric>, Vec<&Metric>) =
        measured.partition(|metric| metric.better == Better::Neither);
    let stage = match run.plan.stages.as_slice() {
        [_] => String::new(),
        _ => format!("stage {}: ", results.stage.name),
    };
    let groups = [
        (directed, "metrics that have a better direction"),
        (neither, "metrics that describe the trials"),
    ];
    let groups = groups.into_iter();
    let groups = groups.filter(|(metrics, _)| !metrics.is_empty());
    let mut tables: Vec<Table> = groups
        .map(|(metrics, what)| cell_table(results, &metrics, &format!("{stage}{what}")))
        .collect();
    if tables.is_empty() {
        let caption = format!("{stage}nothing was measured");
        tables.push(cell_table(results, &[], &caption));
    }
    tables
}

fn cell_table(results: &StageResults, metrics: &[&Metric], caption: &str) -> Table {
    let most = limits::PAGE_ROWS.min(limits::PAGE_VALUES / metrics.len().max(1));
    let rows = results.cells.iter().map(|cell| {
        let factors = results.varied.iter().map(|it| of_factor(it, cell));
        let values = metrics.iter().map(|metric| spread(metric, cell));
        factors.chain(values).chain([measured(cell)]).collect()
    });
    let mut heads: Vec<Head> = results.varied.iter().map(|it| title_of(it)).collect();
    heads.extend(metrics.iter().map(|metric| {
        let (text, detail) = head_of(metric);
        right(&text, &detail)
    }));
    heads.push(right("Trials", "measured"));
    let fixed = fixed(results);
    Table::cut(heads, rows, most).captioned(format!("{}{fixed}", capitalised(caption)))
}

/// The cell in words, if the stage has one only: no column tells its factors.
fn fixed(results: &StageResults) -> String {
    let [cell] = results.cells.as_slice() else {
        return String::new();
    };
    let values = cell.factors.iter();
    let values: Vec<String> = values
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    match values.is_empty() {
        true => String::new(),
        false => format!(", with {}", units::listed(&values)),
    }
}

/// A cell in words: `memcached at load level 0.8`, with its stage if the run has several.
pub(crate) fn place(run: &Run, stage: &str, cell: u32) -> String {
    let of_stage = match run.plan.stages.as_slice() {
        [_] => None,
        _ => Some(format!("stage {stage}")),
    };
    let factors = run.plan.stage(stage);
    let factors = factors.and_then(|it| it.cells.get(cell as usize));
    let values = run.plan.factors.iter();
    let values = values.filter_map(|it| Some(it.words(factors?.get(&it.name)?)));
    let words: Vec<String> = of_stage.into_iter().chain(values).collect();
    match words.is_empty() {
        true => format!("cell {cell}"),
        false => words.join(", "),
    }
}

fn checks_part(run: &Run) -> Part {
    let missing = run.missing();
    let rows = missing.iter().map(|it| {
        let why = match it.failure {
            Some(why) => format!("failed: {why}"),
            None => format!("{NOT_RUN}: the run was stopped, or has not finished"),
        };
        let repeat = (it.repeat + 1).to_string();
        vec![
            name(place(run, it.stage, it.cell)),
            number(repeat),
            prose(why),
        ]
    });
    let heads = vec![left("Where"), right("Trial", ""), left("Why")];
    let count = missing.len();
    let missing = Table::of(heads, rows).captioned(format!(
        "{count} trials of the plan have no measurement. They are excluded, not counted as zero."
    ));
    let place_of = |it: &crate::record::Record| prose(place(run, &it.stage, it.cell));
    let retried = run.records.iter().filter(|record| record.retries > 0);
    let retried = retried.map(|it| {
        let result = match it.outcome {
            Outcome::Measured(_) => "measured",
            Outcome::Failed(_) => "failed again",
        };
        vec![
            name(&it.id),
            place_of(it),
            number(it.retries.to_string()),
            name(result),
        ]
    });
    let heads = vec![
        left("Trial"),
        left("Where"),
        right("Retries", ""),
        left("Result"),
    ];
    let retried = Table::of(heads, retried);
    let faults = run.records.iter().filter_map(|it| {
        let fault = it.measured()?.fault.as_ref()?;
        let class = name(fault.class.words());
        Some(vec![
            name(&it.id),
            place_of(it),
            class,
            prose(&fault.reason),
        ])
    });
    let heads = ["Trial", "Where", "Class", "Why"].map(left).into();
    let faults = Table::of(heads, faults).captioned(
        "Instrument: what was counted contradicts what was timed. Invalid: the cause is outside the \
         server. No metric of these trials counts. Failing: the trial counts against the server; \
         its latencies are lower bounds, and its cell is compared with none.",
    );
    let noted = run.records.iter().filter(|record| !record.notes.is_empty());
    let noted = noted.map(|it| vec![name(&it.id), prose(it.notes.join("; "))]);
    let noted = Table::of(["Trial", "Notes"].map(left).into(), noted);
    let all_measured = "None: every trial of the plan was measured.";
    Part {
        id: "checks",
        title: "Missing, retried and faulty trials",
        tables: vec![
            missing.headed("Missing trials", all_measured),
            retried.headed("Retried trials", "None."),
            faults.headed("Faults", "None."),
            flags(run).headed("Flags", "None: every value counts as it is."),
            noted.headed("Notes on trials", "None."),
        ],
        ..Part::default()
    }
}

/// The values of a metric that have the same flag, by number.
fn flags(run: &Run) -> Table {
    let mut counts: BTreeMap<(&str, String), u64> = BTreeMap::new();
    let measured = run.records.iter().filter_map(|record| record.measured());
    for (name, flag) in measured.flat_map(|it| &it.flags) {
        let bound = flag.lower_bound.then(|| "lower bound".to_owned());
        let invalid = flag.invalid.as_ref();
        let invalid = invalid.map(|reason| format!("does not count: {reason}"));
        for words in bound.into_iter().chain(invalid) {
            *counts.entry((name, words)).or_default() += 1;
        }
    }
    let rows = counts.into_iter();
    let rows =
        rows.map(|((of, flag), count)| vec![name(of), prose(flag), number(units::count(count))]);
    Table::of(
        vec![left("Metric"), left("Flag"), right("Trials", "")],
        rows,
    )
}

fn definitions_part(run: &Run) -> Part {
    let about = "The names are those of the columns of trials.csv and of the fields of trials.jsonl, \
                 whose numbers are in these units.";
    let factors = run.plan.factors.iter().map(|factor| {
        let text = |value| factor.value_text(value);
        let values: Vec<String> = factor.values.iter().map(text).collect();
        let unit = factor.unit.as_ref();
        vec![
            name(&factor.name),
            name(&factor.title),
            name(unit.map_or("name".to_owned(), ToString::to_string)),
            prose(values.join(", ")),
            name(factor.reference.as_ref().map(text).unwrap_or_default()),
        ]
    });
    let heads = ["Name", "Title", "Unit", "Values", "Reference"];
    let factors = Table::of(heads.map(left).into(), factors);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for record in &run.records {
        let measured = record.measured().into_iter();
        let measured = measured.flat_map(|it| it.metrics.keys());
        let names: BTreeSet<&String> = measured.chain(record.resolved.keys()).collect();
        for name in names {
            *counts.entry(name).or_default() += 1;
        }
    }
    let metrics = run.plan.metrics.iter().map(|metric| {
        let count = counts.get(metric.name.as_str()).copied();
        let judged = metric.judged.as_deref().unwrap_or("every value counts");
        vec![
            name(&metric.name),
            name(&metric.title),
            name(metric.unit.to_string()),
            name(better(metric.better)),
            number(units::count(count.unwrap_or_default())),
            prose(judged),
        ]
    });
    let mut heads: Vec<Head> = ["Name", "Title", "Unit", "Better"].map(left).into();
    heads.extend([
        right("Trials", "that have it"),
        left("How a value is judged"),
    ]);
    Part {
        id: "definitions",
        title: "Definitions",
        about: vec![about.to_owned()],
        tables: vec![
            factors.captioned("Factors: what the experiment varies"),
            Table::of(heads, metrics).captioned("Metrics: what a trial measures"),
        ],
        ..Part::default()
    }
}

fn better(better: Better) -> &'static str {
    match better {
        Better::Lower => "lower",
        Better::Higher => "higher",
        Better::Neither => "neither",
    }
}
