//! Runs that vary a parameter in addition to the rate: with several rates, one figure per server;
//! with a single rate, one curve over the settings.

use crate::cache::Vary;
use crate::cache::folder::{Bursts, FigureKind, Outcome, Phase, Sweep};
use crate::tests::synthetic::{REPEATS, Synthetic};
use crate::{page_of, text_summary, write_csv};

/// Four shares of updates, two levels.
fn updates() -> Synthetic {
    let updates = Vary::Update(vec![0.03, 0.05, 0.1, 0.5]);
    Synthetic::varied(5, updates, Sweep::LoadLevels(vec![0.5, 0.9]))
}

/// None, one and four saturating connections at one rate.
fn saturating() -> Synthetic {
    let saturating = Vary::Saturating(vec![0, 1, 4]);
    Synthetic::varied(5, saturating, Sweep::Rates(vec![10_000.0]))
}

fn names(run: &Synthetic) -> Vec<String> {
    let figures = crate::figures_of(&run.run()).unwrap();
    figures.into_iter().map(|figure| figure.name).collect()
}

fn figure(run: &Synthetic, name: &str) -> String {
    let figures = crate::figures_of(&run.run()).unwrap();
    let found = figures.into_iter().find(|figure| figure.name == name);
    found.unwrap_or_else(|| panic!("no {name}")).svg
}

/// The page's text between two headings, without tags.
fn part(run: &Synthetic, from: &str, to: &str) -> String {
    let page = page_of(&run.run()).unwrap();
    let (_, rest) = page.split_once(from).unwrap();
    let (part, _) = rest.split_once(to).unwrap();
    let mut text = String::new();
    for piece in part.split('<') {
        text.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
    }
    text.replace('\u{a0}', " ").replace("&#39;", "'")
}

#[test]
fn several_rates_give_one_figure_per_server_and_one_curve_per_setting() {
    let run = updates();
    assert_eq!(names(&run), ["tail-curtail", "tail-memcached"]);
    let svg = figure(&run, "tail-memcached");
    assert!(svg.contains("against offered rate: memcached"));
    for curve in ["3", "5", "10", "50"] {
        let name = format!("data-series=\"memcached, updates\u{a0}{curve}\u{a0}%\"");
        assert!(svg.contains(&name), "{name}");
    }
    assert!(!svg.contains("data-series=\"curtail"));
    let marks = svg.matches("class=\"mark\"").count();
    // Four stand in the legend.
    assert_eq!(marks, 4 + 4 * 2 * REPEATS as usize);
}

#[test]
fn a_single_rate_gives_one_curve_per_server_over_the_settings() {
    let mut run = saturating();
    run.plan.figures.push(FigureKind::Throughput);
    assert_eq!(names(&run), ["tail", "throughput"]);
    let svg = figure(&run, "tail");
    assert!(svg.contains("against saturating connections"));
    assert!(svg.contains("data-x=\"linear 0 ") && svg.contains(" count\""));
    assert!(svg.contains("with 4 saturating connections"), "no hint");
    assert!(svg.contains("with no saturating connection"), "no hint");
    // The diagonal belongs to achieved against offered rate only.
    assert!(!figure(&run, "throughput").contains("class=\"guide\""));
}

#[test]
fn a_wide_range_of_settings_is_logarithmic_with_every_setting_labelled() {
    let connections = Vary::Connections(vec![16, 1_024, 15_360]);
    let run = Synthetic::varied(5, connections, Sweep::Rates(vec![40_000.0]));
    let svg = figure(&run, "tail");
    assert!(svg.contains("data-x=\"log "));
    for label in ["16", "1\u{a0}024", "15\u{a0}360"] {
        assert!(svg.contains(&format!(">{label}</text>")), "{label}");
    }
}

#[test]
fn findings_compare_with_the_other_server_and_with_the_reference_setting() {
    let verdict = part(&saturating(), "id=\"verdict\">", "id=\"figures\">");
    let (curtail, memcached) = verdict.split_once("memcached 1.6.45").unwrap();
    for words in [
        "with no saturating connection (",
        "times memcached's)",
        "times its own with no saturating connection",
    ] {
        assert!(curtail.contains(words), "{words}: {curtail}");
    }
    // The tail doubles with every setting, in which the truth lies.
    let doubled = "2.11 [1.92, 2.33] times its own with no saturating connection";
    assert!(curtail.contains(doubled), "{curtail}");
    assert!(memcached.contains("times curtail's"), "{memcached}");
    assert!(!verdict.contains("knee"), "{verdict}");

    let verdict = part(&updates(), "id=\"verdict\">", "id=\"figures\">");
    for words in [
        "curtail, updates 50 %",
        "The capacity of curtail, updates 50 %",
        "at load level 0.9 (",
        "times its own with updates 3 %",
    ] {
        assert!(verdict.contains(words), "{words}: {verdict}");
    }
    let own = verdict.split_once("curtail, updates 3 %").unwrap().1;
    let own = own.split_once("curtail, updates 5 %").unwrap().0;
    assert!(!own.contains("its own with"), "{own}");
}

#[test]
fn tables_and_summaries_name_the_setting() {
    let run = saturating();
    let cells = part(&run, "id=\"cells\">", "id=\"checks\">");
    assert!(cells.contains("4 saturating connections"), "{cells}");
    assert!(cells.contains("Saturating"), "{cells}");
    let text = text_summary(&run.run()).unwrap();
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let text = text.replace('\u{a0}', " ").replace("\n  ", " ");
    for words in [
        "0 to 4 saturating",
        "curtail · 4",
        "p99 ",
        "with 4 saturating connections",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let text = text_summary(&updates().run())
        .unwrap()
        .replace('\u{a0}', " ");
    assert!(text.contains("memcached · 50 %"), "{text}");

    let mut table = Vec::new();
    let read = run.run();
    write_csv(&read.plan, &read.records, &mut table).unwrap();
    let mut reader = csv::Reader::from_reader(table.as_slice());
    let at = |reader: &mut csv::Reader<_>, name| {
        let heads = reader.headers().unwrap();
        heads.iter().position(|head| head == name).unwrap()
    };
    let (setting, saturating_rps) = (
        at(&mut reader, "saturating"),
        at(&mut reader, "saturating_rps"),
    );
    for (row, trial) in reader.records().zip(&run.trials) {
        let row = row.unwrap();
        assert_eq!(row[setting].parse().ok(), trial.setting);
        let Outcome::Measured(measured) = &trial.outcome else {
            panic!("all are measured");
        };
        assert_eq!(row[saturating_rps].parse().ok(), measured.saturating_rps);
    }
}

#[test]
fn missing_trials_are_named_with_their_setting() {
    let mut run = updates();
    run.trials.retain(|trial| {
        let is_capacity = trial.phase == Phase::Capacity;
        !(trial.server == "curtail" && trial.setting == Some(0.5) && is_capacity)
    });
    let lost = run.trials.iter().position(|trial| {
        trial.server == "memcached" && trial.setting == Some(0.05) && trial.level == Some(0.9)
    });
    run.trials.remove(lost.unwrap());
    let missing = run.classic().missing();
    assert_eq!(missing.len(), run.plan.capacity_trials as usize + 1);
    let page = page_of(&run.run()).unwrap().replace('\u{a0}', " ");
    assert!(page.contains("curtail, capacity with updates 50 %"));
    assert!(page.contains("memcached at level 0.9 with updates 5 %"));
    assert!(page.contains("The capacity of curtail, updates 50 % was not measured"));
}

#[test]
fn the_reference_may_be_any_setting() {
    let connections = Vary::Connections(vec![16, 1_024, 15_360]);
    let run = Synthetic::varied_from(5, connections, Sweep::Rates(vec![40_000.0]), 1);
    let verdict = part(&run, "id=\"verdict\">", "id=\"figures\">");
    let (curtail, _) = verdict.split_once("memcached 1.6.45").unwrap();
    let own = "times its own with 1 024 connections";
    let (_, few) = curtail.split_once("with 16 connections").unwrap();
    // Half and twice the tail of the one in the middle.
    assert!(
        few.starts_with(" (0.87") && few.contains(&format!("0.47 [0.43, 0.52] {own}")),
        "{few}"
    );
    assert_eq!(curtail.matches(own).count(), 4, "{curtail}");
}

#[test]
fn capacities_are_compared_with_their_own_under_the_reference() {
    let verdict = part(&updates(), "id=\"verdict\">", "id=\"figures\">");
    let (_, fifty) = verdict.split_once("curtail, updates 50 % curtail").unwrap();
    let (capacity, _) = fifty.split_once(" Its p99").unwrap_or((fifty, ""));
    assert!(capacity.contains("times memcached's, 1."), "{capacity}");
    assert!(
        capacity.contains("times its own with updates 3 %"),
        "{capacity}"
    );
}

#[test]
fn a_single_level_is_of_each_setting_s_own_capacity() {
    let depths = Vary::Depth(vec![1, 16]);
    let run = Synthetic::varied(5, depths, Sweep::LoadLevels(vec![0.9]));
    let page = page_of(&run.run()).unwrap().replace('\u{a0}', " ");
    assert!(page.contains("load level 0.9 of each server&#39;s own capacity under each setting"));
    let verdict = part(&run, "id=\"verdict\">", "id=\"figures\">");
    assert!(
        verdict.contains("capacity of curtail is 240 k/s"),
        "{verdict}"
    );
    assert!(verdict.contains("with depth 16."), "{verdict}");
}

#[test]
fn a_server_without_burst_counts_is_named_and_not_drawn() {
    let mut run = saturating();
    run.plan.figures = vec![FigureKind::Bursts];
    for trial in &mut run.trials {
        if let Outcome::Measured(measured) = &mut trial.outcome {
            measured.bursts = (trial.server == "curtail").then(|| Bursts {
                counts: vec![10, 5],
                mean: 1.5,
            });
        }
    }
    let svg = figure(&run, "bursts");
    assert!(svg.contains("data-series=\"curtail\""));
    assert!(!svg.contains("data-series=\"memcached\""));
    assert!(svg.contains("Not drawn: memcached, without this measurement."));
}

#[test]
fn servers_with_names_unfit_for_files_are_numbered() {
    let mut run = updates();
    run.rename("memcached", "mem/../cached");
    assert_eq!(names(&run), ["tail-1", "tail-2"]);
}

#[test]
fn trials_that_contradict_the_plan_are_refused() {
    let refused = |change: &dyn Fn(&mut Synthetic)| {
        let mut run = saturating();
        change(&mut run);
        let place = tempfile::tempdir().unwrap();
        crate::Run::open(run.write(place.path()))
            .unwrap_err()
            .to_string()
    };
    let told = refused(&|run| run.trials[0].cell = 3);
    assert!(told.contains("cell 3 of a sweep of 3"), "{told}");
    let told = refused(&|run| run.trials[0].setting = Some(2.0));
    assert!(told.contains("setting Some(2.0) of cell 0"), "{told}");
    let told = refused(&|run| {
        let trial = &mut run.trials[0];
        (trial.phase, trial.cell, trial.setting) = (Phase::Capacity, 3, None);
    });
    assert!(
        told.contains("cell 3 of capacities under 3 settings"),
        "{told}"
    );
    let told = refused(&|run| {
        run.trials.clear();
        run.plan.vary = Some(Vary::Depth((1..=1_001).collect()));
    });
    assert!(told.contains("1001 settings, at most 1000"), "{told}");
    let told = refused(&|run| {
        run.trials.clear();
        (run.plan.repeats, run.plan.capacity_trials) = (u32::MAX, u32::MAX);
    });
    assert!(told.contains("trials planned, at most 100000"), "{told}");
}
