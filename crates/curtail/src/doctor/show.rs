//! Findings as text to read, and as JSON.

use std::fmt::Write;

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

/// The same for programs. By hand, because the production server brings no library for it, and all
/// there is are texts and numbers.
pub(super) fn json(findings: &[Finding]) -> String {
    let mut out = format!(
        "{{\n  \"schema\": {},\n  \"curtail\": {},\n  \"wrong\": {},\n  \"notes\": {},\n  \
         \"findings\": [",
        quoted(SCHEMA),
        quoted(env!("CARGO_PKG_VERSION")),
        count(findings, Mark::Wrong),
        count(findings, Mark::Note),
    );
    for (place, finding) in findings.iter().enumerate() {
        out.push_str(if place == 0 { "\n    " } else { ",\n    " });
        let optional = |text: Option<&str>| text.map_or_else(|| "null".to_owned(), quoted);
        // A number that JSON has not (none is expected) is none.
        let number = finding.number.filter(|(number, _)| number.is_finite());
        let fields = [
            ("group", quoted(finding.group.key())),
            ("name", quoted(finding.name)),
            ("mark", quoted(finding.mark.key())),
            ("value", quoted(&finding.value)),
            (
                "number",
                number.map_or_else(|| "null".to_owned(), |(number, _)| number.to_string()),
            ),
            ("unit", optional(number.map(|(_, unit)| unit))),
            ("means", optional(finding.means.as_deref())),
            ("remedy", optional(finding.remedy.as_deref())),
        ];
        let fields = fields.map(|(key, value)| format!("\"{key}\": {value}"));
        out.push('{');
        out.push_str(&fields.join(", "));
        out.push('}');
    }
    out.push_str("\n  ]\n}\n");
    out
}

/// A string of JSON (RFC 8259, section 7).
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter < ' ' => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_json_are_read_back_as_they_were() {
        for text in [
            "",
            "plain",
            "\"\\",
            "a\nb\t\u{1}",
            "µs — ½",
            "\u{7f}\u{10ffff}",
        ] {
            let back: String = serde_json::from_str(&quoted(text)).unwrap();
            assert_eq!(back, text);
        }
    }

    #[test]
    fn json_has_every_finding_with_every_key() {
        let findings = [
            Finding::fine(Group::Limits, "open files", "20000").number(20_000.0, "files"),
            Finding::fine(Group::Measuring, "clock", "hpet").wrong("slow", "say \"tsc\""),
            Finding::fine(Group::Measuring, "odd", "nan").number(f64::NAN, "ns"),
            Finding::not_shown(Group::Measuring, "governor"),
        ];
        let value: serde_json::Value = serde_json::from_str(&json(&findings)).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        assert_eq!((&value["wrong"], &value["notes"]), (&1.into(), &0.into()));
        let all = value["findings"].as_array().unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(all[0]["number"], 20_000);
        assert_eq!(all[0]["unit"], "files");
        assert!(all[0]["means"].is_null());
        assert_eq!(all[1]["mark"], "wrong");
        assert_eq!(all[1]["remedy"], "say \"tsc\"");
        assert!(all[2]["number"].is_null() && all[2]["unit"].is_null());
        assert_eq!(all[3]["mark"], "not-shown");
        let empty: serde_json::Value = serde_json::from_str(&json(&[])).unwrap();
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
