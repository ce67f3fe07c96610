//! The summary of a run of any kind for a terminal: a table, the comparisons of the answer's
//! metric, and what is missing.

use crate::answer::{self, StageResults};
use crate::cell::Cell;
use crate::record::Metric;
use crate::target_verdict::Judged;
use crate::{Run, limits, page, published, units};

/// Width of a column of values.
const VALUE_WIDTH: usize = 14;
/// Width of the column of trials.
const TRIALS_WIDTH: usize = 9;
/// Width of the column that names a cell.
const NAME_WIDTH: usize = 34;
/// Widths of the columns of targets: name with bound, figure with interval, verdict.
const TARGET_WIDTHS: [usize; 3] = [limits::TERMINAL_COLUMNS - 26 - 11 - 4, 26, 11];

/// The run in at most [`limits::TERMINAL_COLUMNS`] columns: a line a cell of the last stage with
/// medians over the repeats, then what a reader must know besides it. Ends with a line break.
pub(crate) fn text_summary(run: &Run, judged: &[Judged]) -> String {
    let stages = answer::stages(run);
    let last = stages.last();
    let mut lines = vec![page::about(run), String::new()];
    if let Some(last) = last {
        lines.extend(table(run, last));
        lines.push(String::new());
        lines.extend(published(run, last));
    }
    lines.extend(targets(judged));
    lines.push(answer::sentence(run, last));
    lines.extend(remarks(run));
    wrapped(&lines)
}

/// Published values and targets, for a summary that has neither. Empty: there are none.
pub(crate) fn published_and_targets(run: &Run, judged: &[Judged]) -> String {
    let stages = answer::stages(run);
    let published = stages.last().map(|last| published(run, last));
    let mut lines = published.unwrap_or_default();
    lines.extend(targets(judged));
    // The empty line is before these lines here.
    if let Some(empty) = lines.pop() {
        lines.insert(0, empty);
    }
    wrapped(&lines)
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
    for it in judged {
        let figure = if it.figure.is_empty() {
            "–"
        } else {
            &it.figure
        };
        // A name ends with the bound, so it is not cut.
        let is_short = it.name.chars().count() <= TARGET_WIDTHS[0];
        let name = if is_short { it.name.as_str() } else { "" };
        lines.extend((!is_short).then(|| it.name.clone()));
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

/// The metrics that fit.
fn columns<'a>(run: &'a Run, last: &StageResults) -> Vec<&'a Metric> {
    let width = limits::TERMINAL_COLUMNS - NAME_WIDTH - TRIALS_WIDTH - 2;
    answer::columns(run, last, width / (VALUE_WIDTH + 2))
}

fn table(run: &Run, last: &StageResults) -> Vec<String> {
    let columns = columns(run, last);
    let titles = last.telling().into_iter();
    let titles: Vec<String> = titles.map(|factor| factor.title.clone()).collect();
    let mut heads = vec![units::shortened(&titles.join(" · "), NAME_WIDTH)];
    heads.extend(
        columns
            .iter()
            .map(|metric| units::shortened(&metric.name, VALUE_WIDTH)),
    );
    heads.push("trials".to_owned());
    let shown = last.cells.iter().take(limits::TERMINAL_ROWS);
    let mut lines = vec![row(heads.iter().zip(widths(heads.len())))];
    lines.extend(shown.map(|cell| {
        let mut fields = vec![name(last, cell)];
        fields.extend(columns.iter().map(|metric| value(metric, cell)));
        let suspect = cell.measured.iter().any(|(_, it)| it.suspect.is_some());
        let suspect = if suspect { "*" } else { "" };
        fields.push(format!("{}/{}{suspect}", cell.measured.len(), cell.planned));
        row(fields.iter().zip(widths(fields.len())))
    }));
    let others = last.cells.len().saturating_sub(limits::TERMINAL_ROWS);
    if others > 0 {
        let cells = units::plural(others as u64, "more cell");
        lines.push(format!("… {cells} in report.html and trials.csv"));
    }
    lines
}

/// The values of the factors that tell cells apart: `curtail · 16`.
fn name(last: &StageResults, cell: &Cell) -> String {
    let texts = last.telling().into_iter().filter_map(|factor| {
        let text = factor.value_text(cell.value(factor)?);
        Some(units::shortened(&text, limits::NAME_CHARACTERS))
    });
    let name = texts.collect::<Vec<_>>().join(" · ");
    match name.is_empty() {
        true => "the only cell".to_owned(),
        false => units::shortened(&name, NAME_WIDTH),
    }
}

fn value(metric: &Metric, cell: &Cell) -> String {
    let values = cell.values(&metric.name);
    let Some(spread) = values.spread() else {
        return "–".to_owned();
    };
    let bound = units::lower_bound(values.is_lower_bound());
    units::shortened(
        &format!("{bound}{}", metric.unit.words(spread.median)),
        VALUE_WIDTH,
    )
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

/// The width of each of `count` columns.
fn widths(count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |index| match index {
        0 => NAME_WIDTH,
        _ if index + 1 == count => TRIALS_WIDTH,
        _ => VALUE_WIDTH,
    })
}

/// The published values beside the measured ones, and an empty line. Empty: there are none.
fn published(run: &Run, last: &StageResults) -> Vec<String> {
    let pairs = published::pairs(run, last);
    if pairs.is_empty() {
        return Vec::new();
    }
    let text = |text: &str| units::shortened(text, VALUE_WIDTH);
    let row = |fields: [String; 5]| row(fields.iter().zip(widths(5)));
    let heads = [
        "published values",
        "metric",
        "published",
        "measured",
        "ratio",
    ];
    let mut lines = vec![row(heads.map(str::to_owned))];
    lines.extend(pairs.iter().take(limits::TERMINAL_ROWS).map(|pair| {
        row([
            units::shortened(&pair.words(&name(last, pair.cell)), NAME_WIDTH),
            text(&pair.metric.name),
            text(&pair.published()),
            match pair.other {
                None => value(pair.metric, pair.cell),
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
    let mut measured = run.records.iter().filter_map(|record| record.measured());
    if measured.any(|it| it.suspect.is_some()) {
        remarks.push("* some of these trials are suspect".to_owned());
    }
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
