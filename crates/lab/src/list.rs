//! The experiments of a laboratory as text, by study.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::error::Error;
use crate::experiment::Experiment;
use crate::laboratory::Laboratory;
use crate::plan::estimate::Total;

const WIDTH: usize = 100;
/// Columns before the question.
const INDENT: usize = 47;

impl Laboratory {
    /// Lists the experiments: in groups by study, with the time of the long and of the short form,
    /// whether they need root, the question, and what they repeat.
    ///
    /// # Errors
    /// An experiment is invalid, which is a bug.
    pub fn list(&self) -> Result<String, Error> {
        let mut studies: BTreeMap<String, String> = BTreeMap::new();
        for shipped in self.shipped {
            let experiment = self.load(shipped.name)?;
            let study = experiment.content(false)?.general.study;
            let lines = studies.entry(study.unwrap_or_else(|| "other".to_owned()));
            lines.or_default().push_str(&entry(&experiment)?);
        }
        let mut text = format!("{:23}{:>7}{:>9}\n", "", "time", "--quick");
        for (study, lines) in studies {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{study}\n{lines}");
        }
        Ok(text)
    }
}

fn entry(experiment: &Experiment) -> Result<String, Error> {
    let time = |quick| -> Result<String, Error> {
        let content = experiment.content(quick)?;
        let plan = content.plan();
        let plan = plan.map_err(|violation| experiment.explain(&violation, quick))?;
        Ok(coarse(Total::of(&plan, &*content.kind).likely))
    };
    let quick = match experiment.has_quick() {
        true => time(true)?,
        false => String::new(),
    };
    let content = experiment.content(false)?;
    let root = match content.kind.needs_root() {
        true => "root",
        false => "",
    };
    let time = time(false)?;
    let name = &experiment.name;
    let mut lines = format!("  {name:21}{time:>7}{quick:>9}  {root:6}");
    let after = content.general.after.map(|it| format!("repeats {it}"));
    let told = [Some(content.general.question), after]
        .into_iter()
        .flatten();
    for line in told.flat_map(|it| wrapped(&it, WIDTH - INDENT)) {
        let used = lines.len() - lines.rfind('\n').map_or(0, |at| at + 1);
        lines.push_str(&" ".repeat(INDENT.saturating_sub(used)));
        lines.push_str(&line);
        lines.push('\n');
    }
    Ok(lines)
}

/// A duration to about two digits: `40 s`, `28 min`, `6.6 h`.
fn coarse(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        ..90.0 => format!("{} s", seconds.round().max(1.0)),
        ..5_370.0 => format!("{} min", (seconds / 60.0).round()),
        _ => format!("{:.1} h", seconds / 3_600.0),
    }
}

/// A text in lines of at most `width` characters, unless a word is longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_has;
    use crate::tests::{model, repository};

    #[test]
    fn experiments_stand_under_their_study_with_time_root_and_source() {
        let line = "kind = \"model\"\nmodel = \"line\"\nquestion = \"Is it long?\"\nseed = 1\n\
                    repeats = 2\nafter = \"Smith 2016, table 2\"\n";
        let shipped = vec![
            crate::Shipped {
                name: "textile-table",
                text: Box::leak(repository::text_of("textile-table").into_boxed_str()),
            },
            crate::Shipped {
                name: "line",
                text: line,
            },
        ];
        let laboratory = Laboratory {
            kinds: model::KINDS,
            shipped: Box::leak(shipped.into_boxed_slice()),
        };
        let text = laboratory.list().unwrap();
        for part in [
            "\nother\n  line                     1 s                 Is it long?\n",
            "repeats Smith 2016, table 2\n",
            "\ntextile\n  textile-table         24 min     11 s  root  Is a",
        ] {
            assert_has(&text, part);
        }
        assert!(text.lines().all(|it| it.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn times_have_two_digits() {
        for (seconds, expected) in [
            (0.2, "1 s"),
            (89.0, "89 s"),
            (90.0, "2 min"),
            (5_369.0, "89 min"),
            (5_400.0, "1.5 h"),
        ] {
            assert_eq!(coarse(Duration::from_secs_f64(seconds)), expected);
        }
    }

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("memcached, µs", 4), ["memcached,", "µs"]);
    }
}
