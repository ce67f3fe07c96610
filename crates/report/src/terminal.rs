//! The summary of a run for a terminal: what is wrong, the answer, a table, and what is missing.

use std::collections::{HashMap, HashSet};

use crate::answer::{self, StageResults};
use crate::cell::{Cell, Values};
use crate::published::Pair;
use crate::record::{Factor, Metric};
use crate::target_verdict::Judged;
use crate::{Run, findings, health, limits, page, published, units};

/// Width of a column of values.
const VALUE_WIDTH: usize = 14;
/// Width of a column of published or of measured values next to them.
const PUBLISHED_WIDTH: usize = 12;
/// Width of a column of names of metrics, at most.
const METRIC_WIDTH: usize = 24;
/// Width of the column of trials.
const TRIALS_WIDTH: usize = 9;
/// Width of the column that names a cell.
const NAME_WIDTH: usize = 30;
/// Width of that column at most, where names are longer.
const WIDEST_NAME: usize = 56;
/// Widths of the columns of targets: name with bound, figure with interval, verdict.
const TARGET_WIDTHS: [usize; 3] = [limits::TERMINAL_COLUMNS - 26 - 11 - 4, 26, 11];

/// The run in at most [`limits::TERMINAL_COLUMNS`] columns: what is wrong, the answer, a line a
/// cell of the last stage with medians over the repeats, then what a reader must know besides it.
/// Ends with a line break.
pub(crate) fn text_summary(run: &Run, judged: &[Judged]) -> String {
    let stages = answer::stages(run);
    let last = stages.last();
    let alerts = health::alerts(run, last).into_iter();
    let (faults, notices): (Vec<_>, Vec<_>) = alerts.partition(|(class, _)| *class == "fault");
    let mut lines: Vec<String> = faults.into_iter().map(|(_, text)| text).collect();
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push(page::about(run));
    lines.push(answer::sentence(run, last));
    if let Some(last) = last {
        lines.extend(published::agreement(&published::pairs(run, last)));
        lines.push(String::new());
        lines.extend(table(run, last));
        lines.push(String::new());
        lines.extend(findings(run));
        lines.extend(published(run, last));
    }
    lines.extend(targets(judged));
    // Missing trials are in the remarks, with their cells.
    let notices = notices.into_iter().filter(|(class, _)| *class == "notice");
    lines.extend(notices.map(|(_, text)| text));
    lines.extend(remarks(run));
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    wrapped(&lines)
}

/// Capacities and knees, a table each, the check of the instrument, and an empty line. Empty: there
/// are none.
fn findings(run: &Run) -> Vec<String> {
    let findings = findings::of(run);
    let capacities = findings.capacities.into_iter();
    let capacities = capacities.map(|it| [it.name, it.rate, it.range, it.remark]);
    let knees = findings.knees.into_iter();
    let knees = knees.map(|it| [it.name, it.plateau, String::new(), it.words]);
    let mut lines = small_table(["capacities", "rate", "95 %", ""], capacities.collect());
    lines.extend(small_table(
        ["knees", "plateau", "", "knee"],
        knees.collect(),
    ));
    if let Some(law) = findings.law {
        lines.extend([law.words(), String::new()]);
    }
    lines
}

/// A table and an empty line. Empty: it has no row.
fn small_table(heads: [&str; 4], rows: Vec<[String; 4]>) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = rows.iter().map(|it| it[0].clone()).collect();
    let names = told_apart(&names, NAME_WIDTH);
    let rows = rows.into_iter().zip(names);
    let rows = rows.map(|([_, a, b, c], name)| [name, a, b, c]);
    let all = [heads.map(str::to_owned)].into_iter().chain(rows);
    let all: Vec<[String; 4]> = all.take(limits::TERMINAL_ROWS + 1).collect();
    // Words are behind the numbers, and left-aligned.
    let widest = all.iter().map(|it| it[2].chars().count()).max();
    let widths = [NAME_WIDTH, VALUE_WIDTH, widest.unwrap_or(0), 0];
    let mut lines: Vec<String> = all.iter().map(|it| row(it.iter().zip(widths))).collect();
    lines.push(String::new());
    lines
}

/// The targets with their verdicts, and an empty line. Empty: there are none.
fn targets(judged: &[Judged]) -> Vec<String> {
    let mut lines = target_lines(judged);
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// The targets with their verdicts. Empty: there are none.
pub(crate) fn target_text(judged: &[Judged]) -> String {
    wrapped(&target_lines(judged))
}

fn target_lines(judged: &[Judged]) -> Vec<String> {
    if judged.is_empty() {
        return Vec::new();
    }
    let row = |fields: [&str; 3]| row(fields.map(str::to_owned).iter().zip(TARGET_WIDTHS));
    let mut lines = vec![row(["targets", "figure [95 %]", "verdict"])];
    let names: Vec<String> = judged.iter().map(|it| it.name.clone()).collect();
    for (it, name) in judged.iter().zip(told_apart(&names, usize::MAX)) {
        let figure = if it.figure.is_empty() {
            "–"
        } else {
            &it.figure
        };
        // A name ends with the bound, so it is not cut.
        let is_short = name.chars().count() <= TARGET_WIDTHS[0];
        lines.extend((!is_short).then(|| name.clone()));
        let name = if is_short { name.as_str() } else { "" };
        lines.push(row([name, figure, it.verdict.words()]));
        if let Some(reason) = it.verdict.reason() {
            lines.push(format!("  {reason}"));
        }
        if !it.left_out.is_empty() {
            lines.push(format!("  {}", it.left_out));
        }
    }
    lines
}

/// The metrics that fit next to names of that width, with the widths of their columns; at least
/// one.
fn columns<'a>(
    run: &'a Run,
    last: &StageResults<'a>,
    name_width: usize,
) -> Vec<(&'a Metric, usize)> {
    let mut rest = limits::TERMINAL_COLUMNS.saturating_sub(name_width + TRIALS_WIDTH + 2);
    let mut columns = Vec::new();
    for metric in answer::columns(run, last, limits::TERMINAL_COLUMNS) {
        let width = metric.name.chars().count().clamp(VALUE_WIDTH, METRIC_WIDTH);
        match rest.checked_sub(width + 2) {
            Some(left) => rest = left,
            None if columns.is_empty() => rest = 0,
            None => break,
        }
        columns.push((metric, width));
    }
    columns
}

fn table(run: &Run, last: &StageResults) -> Vec<String> {
    let (titles, names) = names(last);
    let longest = names.iter().take(limits::TERMINAL_ROWS);
    let longest = longest.map(|it| it.chars().count()).max().unwrap_or(0);
    let width = longest.clamp(NAME_WIDTH, WIDEST_NAME);
    let columns = columns(run, last, width);
    let widths = || {
        let values = columns.iter().map(|(_, width)| *width);
        [width].into_iter().chain(values).chain([TRIALS_WIDTH])
    };
    let mut heads = vec![units::shortened(&titles, width)];
    heads.extend(
        columns
            .iter()
            .map(|(metric, width)| units::shortened(&metric.name, *width)),
    );
    heads.push("trials".to_owned());
    let mut lines = vec![row(heads.iter().zip(widths()))];
    let mut reasons: Vec<String> = Vec::new();
    let names = told_apart(&names, width);
    for (cell, name) in last.cells.iter().zip(names).take(limits::TERMINAL_ROWS) {
        let mut fields = vec![name];
        for (metric, _) in &columns {
            let values = cell.values(&metric.name);
            fields.push(value(metric, &values));
            let fails = values.failing.as_ref();
            let fails = fails.map(|(_, why)| format!("the server fails: {why}"));
            let aside = values.set_aside().is_some();
            let reason = fails.or(values.reason.filter(|_| aside));
            reasons.extend(reason.filter(|it| !reasons.contains(it)));
        }
        fields.push(format!("{}/{}", cell.measured.len(), cell.planned));
        lines.push(row(fields.iter().zip(widths())));
    }
    let others = last.cells.len().saturating_sub(limits::TERMINAL_ROWS);
    if others > 0 {
        let cells = units::plural(others as u64, "more cell");
        lines.push(format!("… {cells} in report.html and trials.csv"));
    }
    if !reasons.is_empty() {
        let more = reasons.len().saturating_sub(limits::REASONS) as u64;
        reasons.truncate(limits::REASONS);
        reasons.extend((more > 0).then(|| units::plural(more, "other reason")));
        lines.push(format!(
            "(in parentheses: not compared, because {})",
            reasons.join("; ")
        ));
    }
    lines
}

/// The titles of the factors that tell cells apart, and the values of each cell: `curtail · 16`.
/// Further factors are added if two cells would read the same.
fn names(last: &StageResults) -> (String, Vec<String>) {
    let of = |factors: &[&Factor]| -> Vec<String> {
        last.cells.iter().map(|cell| name(factors, cell)).collect()
    };
    let mut factors = last.telling();
    let mut names = of(&factors);
    if are_distinct(&names) {
        return (titles(&factors), names);
    }
    factors.clone_from(&last.varied);
    names = of(&factors);
    (titles(&factors), names)
}

fn titles(factors: &[&Factor]) -> String {
    let titles = factors.iter().map(|factor| factor.title.as_str());
    titles.collect::<Vec<_>>().join(" · ")
}

fn are_distinct(names: &[String]) -> bool {
    let distinct: HashSet<&String> = names.iter().collect();
    distinct.len() == names.len()
}

fn name(factors: &[&Factor], cell: &Cell) -> String {
    let texts = factors.iter().filter_map(|factor| {
        let value = cell.value(factor)?;
        Some(units::shortened(
            &factor.value_text(value),
            limits::REASON_CHARACTERS,
        ))
    });
    match texts.collect::<Vec<_>>().join(" · ") {
        name if name.is_empty() => "the only cell".to_owned(),
        name => name,
    }
}

/// Names cut to a width, except where two would then read the same: those are in full, and the
/// second of two that are the same in full is numbered.
pub(crate) fn told_apart(names: &[String], width: usize) -> Vec<String> {
    let short: Vec<String> = names.iter().map(|it| units::shortened(it, width)).collect();
    let mut seen: HashMap<&String, usize> = HashMap::new();
    for it in &short {
        *seen.entry(it).or_default() += 1;
    }
    let mut used: HashMap<&String, usize> = HashMap::new();
    let told = names.iter().zip(&short).map(|(name, short)| {
        if seen[short] == 1 {
            return short.clone();
        }
        let nth = used.entry(name).or_default();
        *nth += 1;
        match *nth {
            1 => name.clone(),
            nth => format!("{name} ({nth})"),
        }
    });
    told.collect()
}

/// A median; in parentheses, if it is not compared.
fn value(metric: &Metric, values: &Values) -> String {
    let text = match (values.spread(), values.set_aside()) {
        (Some(spread), _) => {
            let bound = units::lower_bound(values.is_lower_bound());
            format!("{bound}{}", metric.unit.words(spread.median))
        }
        (None, Some(_)) if values.failing.is_some() => "(fails)".to_owned(),
        (None, Some(aside)) => format!("({})", metric.unit.words(aside)),
        (None, None) => "–".to_owned(),
    };
    units::shortened(&text, VALUE_WIDTH)
}

/// A row of a table, of fields with their widths: the first column left-aligned, the others
/// right-aligned.
pub(crate) fn row<'a>(fields: impl IntoIterator<Item = (&'a String, usize)>) -> String {
    let mut line = String::new();
    for (index, (field, width)) in fields.into_iter().enumerate() {
        let padding = " ".repeat(width.saturating_sub(field.chars().count()));
        if index == 0 {
            line.push_str(field);
            line.push_str(&padding);
        } else {
            line.push_str("  ");
            line.push_str(&padding);
            line.push_str(field);
        }
    }
    line
}

/// The published values beside the measured ones, and an empty line. Empty: there are none.
fn published(run: &Run, last: &StageResults) -> Vec<String> {
    let pairs = published::pairs(run, last);
    if pairs.is_empty() {
        return Vec::new();
    }
    let text = |text: &str| units::shortened(text, PUBLISHED_WIDTH);
    let (_, of_cells) = names(last);
    let name = |pair: &Pair| {
        let mut cells = last.cells.iter();
        let at = cells.position(|it| it.factors == pair.cell.factors);
        pair.words(&at.map(|at| of_cells[at].clone()).unwrap_or_default())
    };
    let shown = || pairs.iter().take(limits::TERMINAL_ROWS);
    let longest = |of: &dyn Fn(&Pair) -> String| {
        let lengths = shown().map(|it| of(it).chars().count());
        lengths.max().unwrap_or(0)
    };
    let metric_width = longest(&|it| it.metric.name.clone()).clamp(VALUE_WIDTH, METRIC_WIDTH);
    let name_width = longest(&name).clamp(VALUE_WIDTH, NAME_WIDTH);
    let widths = [
        name_width,
        metric_width,
        PUBLISHED_WIDTH,
        PUBLISHED_WIDTH,
        TRIALS_WIDTH,
    ];
    let row = |fields: [String; 5]| row(fields.iter().zip(widths));
    let heads = [
        "published values",
        "metric",
        "published",
        "measured",
        "ratio",
    ];
    let mut lines = vec![row(heads.map(str::to_owned))];
    // A row is of a cell and a metric: either may be cut, unless two rows then read the same.
    let whole = |pair: &Pair| [name(pair), pair.metric.name.clone()];
    let cut = |[name, metric]: [String; 2]| {
        [
            units::shortened(&name, name_width),
            units::shortened(&metric, metric_width),
        ]
    };
    let short: Vec<[String; 2]> = shown().map(|it| cut(whole(it))).collect();
    lines.extend(shown().zip(&short).map(|(pair, own)| {
        let is_alone = short.iter().filter(|it| *it == own).count() == 1;
        let [name, metric] = if is_alone { own.clone() } else { whole(pair) };
        row([
            name,
            metric,
            text(&pair.published()),
            match pair.other {
                None => value(pair.metric, &pair.cell.values(&pair.metric.name)),
                Some(_) => pair.measured().map_or("–".to_owned(), |it| pair.text(it)),
            },
            pair.ratio(),
        ])
    }));
    let others = pairs.len().saturating_sub(limits::TERMINAL_ROWS);
    if others > 0 {
        let values = units::plural(others as u64, "more published value");
        lines.push(format!("… {values} in report.html"));
    }
    let sources = published::sources(&pairs);
    let sources = sources
        .iter()
        .map(|it| units::shortened(it, limits::REASON_CHARACTERS));
    let sources = units::listed(&sources.collect::<Vec<String>>());
    lines.push(format!(
        "Ratio: measured ÷ published. Published: {sources}."
    ));
    lines.push(String::new());
    lines
}

fn remarks(run: &Run) -> Vec<String> {
    let mut remarks = Vec::new();
    if run.plan.quick {
        remarks.push(page::quick().to_owned());
    }
    remarks.extend(missing(run));
    remarks.extend(run.plan.notes.iter().cloned());
    remarks
}

/// The number and the places of missing trials.
fn missing(run: &Run) -> Option<String> {
    let missing = run.missing();
    let mut places: Vec<(String, u32)> = Vec::new();
    for trial in &missing {
        let place = page::place(run, trial.stage, trial.cell);
        match places.last_mut().filter(|(last, _)| *last == place) {
            Some((_, count)) => *count += 1,
            None => places.push((place, 1)),
        }
    }
    let others = places.len().saturating_sub(limits::TERMINAL_ROWS);
    let shown = places.into_iter().take(limits::TERMINAL_ROWS);
    let mut words: Vec<String> = shown
        .map(|(place, count)| format!("{place} ({count})"))
        .collect();
    if others > 0 {
        words.push(units::plural(others as u64, "other cell"));
    }
    (!missing.is_empty()).then(|| {
        format!(
            "Missing: {}: {}.",
            units::plural(missing.len() as u64, "trial"),
            words.join("; ")
        )
    })
}

/// Lines as text for a terminal: without control characters and no-break spaces, and wrapped to
/// its width.
pub(crate) fn wrapped(lines: &[String]) -> String {
    let mut text = String::new();
    for line in lines {
        for piece in folded(&plain(line)) {
            text.push_str(piece.trim_end());
            text.push('\n');
        }
    }
    text
}

/// The line without control characters and no-break spaces.
fn plain(line: &str) -> String {
    line.chars()
        .map(|c| match c {
            '\u{a0}' => ' ',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// A line wrapped to the terminal's width, at spaces where possible.
fn folded(line: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest: Vec<char> = line.chars().collect();
    while rest.len() > limits::TERMINAL_COLUMNS {
        let head = &rest[..limits::TERMINAL_COLUMNS];
        let cut = head.iter().rposition(|&c| c == ' ').filter(|&at| at > 2);
        let tail = rest.split_off(cut.unwrap_or(limits::TERMINAL_COLUMNS));
        pieces.push(rest.into_iter().collect());
        let tail = tail.into_iter().skip_while(|&c| c == ' ');
        rest = [' ', ' '].into_iter().chain(tail).collect();
    }
    pieces.push(rest.into_iter().collect());
    pieces
}
