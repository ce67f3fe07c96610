//! The history of a metric over a folder of runs.

use std::fs;
use std::path::Path;

use crate::history;
use crate::record::Outcome;
use crate::tests::general_run::General;

const DAY_NS: u64 = 86_400_000_000_000;

/// A run of each day, whose wall times are multiplied by its factor.
fn folder(place: &Path, factors: &[f64]) {
    for (day, factor) in (0..).zip(factors) {
        let mut run = General::versions(100 + day);
        for record in &mut run.records {
            record.started_unix_ns += day * DAY_NS;
            if let Outcome::Measured(measured) = &mut record.outcome {
                let wall = measured.metrics.entry("wall_ns".to_owned());
                wall.and_modify(|it| *it *= factor);
            }
        }
        // The order of the names is not that of time.
        let name = format!("run-{}", 99 - day);
        fs::rename(run.write(place), place.join(name)).unwrap();
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_change_of_all_cells_is_told_with_its_run_and_its_size() {
    let place = tempfile::tempdir().unwrap();
    let mut factors = [1.0; 20];
    factors[12..].fill(1.2);
    folder(place.path(), &factors);
    let history = history(place.path(), "versions", false, "wall_ns").unwrap();
    // The thirteenth run, and a fifth more, in each of the six cells.
    let text = one_line(&history.text);
    assert!(
        text.contains("changed in 6 of 6 cells at one of 20 runs: run-87."),
        "{text}"
    );
    let each = "higher: worse from run-87 on (12 runs before, 8 runs after)";
    assert_eq!(text.matches(each).count(), 6, "{text}");
    assert!(
        history.text.lines().all(|it| it.chars().count() <= 100),
        "{}",
        history.text
    );
    let html = fs::read_to_string(&history.page).unwrap();
    let at = |what: &str| html.find(what).unwrap_or_else(|| panic!("{what}: {html}"));
    // The changes precede all else, and nothing is compared with the first run.
    assert!(at("at one of 20 runs") < at("higher: worse") && at("higher: worse") < at("<svg"));
    assert!(!html.contains("Holm"));
    // Its own page is no run.
    let again = crate::history(place.path(), "versions", false, "wall_ns").unwrap();
    assert_eq!(again, history);
}

#[test]
fn runs_without_the_metric_or_with_other_factors_are_left_out_and_named() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path(), &[1.0; 9]);
    let mut other = General::versions(1);
    other.plan.metrics.retain(|it| it.name != "wall_ns");
    other.plan.figures.clear();
    for record in &mut other.records {
        if let Outcome::Measured(measured) = &mut record.outcome {
            measured.metrics.remove("wall_ns");
            measured.flags.remove("wall_ns");
        }
    }
    fs::rename(other.write(place.path()), place.path().join("without")).unwrap();
    let mut other = General::versions(2);
    other.plan.factors.retain(|it| it.name != "threads");
    other.plan.figures.clear();
    for cell in &mut other.plan.stages[0].cells {
        cell.remove("threads");
    }
    for record in &mut other.records {
        record.factors.remove("threads");
    }
    fs::rename(other.write(place.path()), place.path().join("fewer")).unwrap();
    let history = history(place.path(), "versions", false, "wall_ns").unwrap();
    assert!(history.text.contains("in 9 runs"), "{}", history.text);
    let left_out: Vec<&str> = history.left_out.iter().map(|it| it.1.as_str()).collect();
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert!(
        left_out
            .iter()
            .any(|it| it.contains("does not have the metric")),
        "{left_out:?}"
    );
    assert!(
        left_out.iter().any(|it| it.contains("threads")),
        "{left_out:?}"
    );
}

#[test]
fn runs_at_one_level_have_no_change() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path(), &[1.0; 12]);
    let history = history(place.path(), "versions", false, "wall_ns").unwrap();
    let text = one_line(&history.text);
    assert!(
        text.contains("No change found in 12 runs: wall time."),
        "{text}"
    );
    let html = fs::read_to_string(&history.page).unwrap();
    assert!(html.contains("No change found in 12 runs") && !html.contains("From run"));
}

/// Changes a file of a run folder.
fn edit(folder: &Path, file: &str, from: &str, to: &str) {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn runs_of_another_machine_or_with_other_settings_are_left_out_with_the_difference() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path(), &[1.0; 10]);
    let run = |day: u32| place.path().join(format!("run-{}", 99 - day));
    edit(
        &run(2),
        "plan.toml",
        "./sort {version}",
        "./sort --all {version}",
    );
    let cpu = read_cpu(&run(4));
    edit(&run(4), "host.json", &cpu, "another processor");
    let history = history(place.path(), "versions", false, "wall_ns").unwrap();
    let left_out = |day: u32| {
        let name = run(day).display().to_string();
        let found = history.left_out.iter().find(|it| it.0 == name);
        found.map(|it| it.1.as_str()).unwrap_or_default()
    };
    assert_eq!(history.left_out.len(), 2, "{:?}", history.left_out);
    let settings = left_out(2);
    assert!(settings.contains("other settings: command"), "{settings}");
    assert!(settings.contains("./sort --all"), "{settings}");
    let machine = left_out(4);
    assert!(
        machine.contains("another machine: processor another processor"),
        "{machine}"
    );
    let html = fs::read_to_string(&history.page).unwrap();
    assert!(html.contains("another processor"));
    assert!(history.text.contains("in 8 runs"), "{}", history.text);
}

fn read_cpu(run: &Path) -> String {
    crate::Run::open(run).unwrap().host.cpu
}

#[test]
fn what_else_is_new_stands_beside_a_change() {
    let place = tempfile::tempdir().unwrap();
    let mut factors = [1.0; 16];
    factors[8..].fill(1.2);
    folder(place.path(), &factors);
    for day in 8..16 {
        let run = place.path().join(format!("run-{}", 99 - day));
        let kernel = crate::Run::open(&run).unwrap().host.kernel;
        edit(&run, "host.json", &kernel, "Linux 9.9");
        // A key that only later builds write is no other setting.
        let text = fs::read_to_string(run.join("plan.toml")).unwrap();
        let text = text.replace("[settings]", "[settings]\nfresh = true");
        fs::write(run.join("plan.toml"), text).unwrap();
    }
    let history = history(place.path(), "versions", false, "wall_ns").unwrap();
    assert_eq!(history.left_out, []);
    let text = one_line(&history.text);
    assert!(text.contains("→ Linux 9.9; fresh absent → true"), "{text}");
}

#[test]
fn what_has_no_history_is_refused_with_the_reason() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path(), &[1.0; 2]);
    let refused = |experiment: &str, quick, metric: &str| {
        let error = history(place.path(), experiment, quick, metric).unwrap_err();
        error.to_string()
    };
    let unknown = refused("versions", false, "speed");
    assert!(
        unknown.contains("`speed` is no metric") && unknown.contains("wall_ns"),
        "{unknown}"
    );
    let quick = refused("versions", true, "wall_ns");
    assert!(
        quick.contains("0 runs of the short form of `versions`"),
        "{quick}"
    );
    assert!(refused("other", false, "wall_ns").contains("0 runs of `other`"));
    assert!(history(&place.path().join("absent"), "versions", false, "wall_ns").is_err());
}
