//! Findings as text to read, and as JSON.

use serde::Serialize;
use serde_json::Number;

use super::finding::{Finding, Group, Mark};

/// The version of the JSON.
const SCHEMA: &str = "curtail.doctor/1";
/// Columns of text.
const WIDTH: usize = 100;
/// Before the name: two spaces, a mark, a space.
const MARK_WIDTH: usize = 8;

/// A line for each finding under its group's heading, and below those that are not fine what that
/// means and what to do.
pub(super) fn text(findings: &[Finding]) -> String {
    let mut out = format!("curtail {}\n", env!("CARGO_PKG_VERSION"));
    let names = findings.iter().map(|finding| finding.name.chars().count());
    let name_width = names.max().unwrap_or(0) + 2;
    for group in Group::ALL {
        let mut own = findings.iter().filter(|finding| finding.group == group);
        let Some(first) = own.next() else { continue };
        out.push('\n');
        out.push_str(group.title());
        out.push('\n');
        for finding in std::iter::once(first).chain(own) {
            one(&mut out, finding, name_width);
        }
    }
    out.push('\n');
    out.push_str(&sum(findings));
    out.push('\n');
    out
}

fn one(out: &mut String, finding: &Finding, name_width: usize) {
    let margin = MARK_WIDTH + name_width;
    let sign = finding.mark.sign();
    let name = finding.name;
    let lead = format!("  {sign:<5} {name:<name_width$}");
    wrap(out, &lead, &finding.value, margin);
    let blank = " ".repeat(margin);
    if let Some(means) = &finding.means {
        wrap(out, &blank, means, margin);
    }
    if let Some(remedy) = &finding.remedy {
        wrap(out, &format!("{blank}do: "), remedy, margin + 4);
    }
}

/// Fills lines from `margin` on; what is quoted with backticks, a command or a setting, stays
/// whole, so that it can be copied.
fn wrap(out: &mut String, lead: &str, text: &str, margin: usize) {
    let mut line = lead.to_owned();
    let mut is_empty = true;
    for word in words(text) {
        let len = line.chars().count() + 1 + word.chars().count();
        if !is_empty && len > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(margin);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Parts between spaces that are not within backticks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |letter| {
        is_quoted ^= letter == '`';
        letter == ' ' && !is_quoted
    })
    .filter(|word| !word.is_empty())
}

fn sum(findings: &[Finding]) -> String {
    let wrong = count(findings, Mark::Wrong);
    let notes = count(findings, Mark::Note);
    let wrong = match wrong {
        0 => "Nothing is wrong".to_owned(),
        1 => "One thing is wrong".to_owned(),
        wrong => format!("{wrong} things are wrong"),
    };
    match notes {
        0 => format!("{wrong}."),
        1 => format!("{wrong}; one is worth knowing."),
        notes => format!("{wrong}; {notes} are worth knowing."),
    }
}

fn count(findings: &[Finding], mark: Mark) -> usize {
    let marked = findings.iter().filter(|finding| finding.mark == mark);
    marked.count()
}

/// The same for programs.
pub(super) fn json(findings: &[Finding]) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(&Report {
        schema: SCHEMA,
        curtail: env!("CARGO_PKG_VERSION"),
        wrong: count(findings, Mark::Wrong),
        notes: count(findings, Mark::Note),
        findings: findings.iter().map(Row::of).collect(),
    })?;
    text.push('\n');
    Ok(text)
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    curtail: &'static str,
    wrong: usize,
    notes: usize,
    findings: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    group: Group,
    name: &'static str,
    mark: Mark,
    value: &'a str,
    number: Option<Number>,
    unit: Option<&'static str>,
    means: Option<&'a str>,
    remedy: Option<&'a str>,
}

impl<'a> Row<'a> {
    fn of(finding: &'a Finding) -> Self {
        let number = finding.number;
        let number = number.and_then(|(number, unit)| Some((json_number(number)?, unit)));
        Self {
            group: finding.group,
            name: finding.name,
            mark: finding.mark,
            value: &finding.value,
            unit: number.as_ref().map(|(_, unit)| *unit),
            number: number.map(|(number, _)| number),
            means: finding.means.as_deref(),
            remedy: finding.remedy.as_deref(),
        }
    }
}

/// A whole number without a fraction. None: JSON has no such number (none is expected).
fn json_number(number: f64) -> Option<Number> {
    match number.fract() == 0.0 && number.abs() < 1e15 {
        true => Some((number as i64).into()),
        false => Number::from_f64(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_every_finding_with_every_key() {
        let findings = [
            Finding::fine(Group::Limits, "open files", "20000").number(20_000.0, "files"),
            Finding::fine(Group::Measuring, "clock", "hpet").wrong("slow", "say \"tsc\"\n½\u{1}"),
            Finding::fine(Group::Measuring, "odd", "nan").number(f64::NAN, "ns"),
            Finding::not_shown(Group::Measuring, "governor"),
        ];
        let value: serde_json::Value = serde_json::from_str(&json(&findings).unwrap()).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        assert_eq!((&value["wrong"], &value["notes"]), (&1.into(), &0.into()));
        let all = value["findings"].as_array().unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(all[0]["number"], 20_000);
        assert_eq!(all[0]["unit"], "files");
        assert!(all[0]["means"].is_null());
        assert_eq!(all[1]["mark"], "wrong");
        assert_eq!(all[1]["remedy"], "say \"tsc\"\n½\u{1}");
        assert!(all[2]["number"].is_null() && all[2]["unit"].is_null());
        assert_eq!(all[3]["mark"], "not-shown");
        let empty: serde_json::Value = serde_json::from_str(&json(&[]).unwrap()).unwrap();
        assert_eq!(empty["findings"], serde_json::json!([]));
    }

    #[test]
    fn lines_are_filled_and_commands_stay_whole() {
        let mut out = String::new();
        let command = format!("`set {}`", "x".repeat(84));
        wrap(
            &mut out,
            "    ",
            &format!("first do {command} and then more"),
            4,
        );
        assert_eq!(
            out,
            format!("    first do\n    {command} and\n    then more\n")
        );
    }

    #[test]
    fn the_last_line_is_the_sum() {
        let fine = || Finding::fine(Group::Limits, "a", "b");
        let said = |findings: &[Finding]| sum(findings);
        assert_eq!(said(&[fine()]), "Nothing is wrong.");
        assert_eq!(
            said(&[fine().note("", ""), fine().wrong("", "")]),
            "One thing is wrong; one is worth knowing."
        );
    }
}
