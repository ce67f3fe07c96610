//! The first sentence, what is said before it, and what trials with a fault do to it.

use std::collections::BTreeMap;

use crate::answer::check;
use crate::compare::{Bound, compare};
use crate::published::Published;
use crate::record::{
    Answer, Factor, Factors, Fault, FaultClass, Measured, Outcome, Plan, Repeats, Value, names,
};
use crate::target::{self, Target, Verdict};
use crate::tests::general_run::{General, REPEATS, SplitMix, invalid};
use crate::tests::ladder::{LATE, fault, ladder};
use crate::{health, text_summary};

/// Of at most thirty words, and without names of keys.
fn is_short(sentence: &str) {
    assert!(sentence.split_whitespace().count() <= 30, "{sentence}");
    assert!(!sentence.contains('_'), "{sentence}");
}

/// Two versions with one thread.
fn two() -> General {
    let mut run = General::versions(7);
    run.keep_one_thread();
    run.plan.stages[0].cells.truncate(2);
    run.records.retain(|it| it.cell < 2);
    run
}

fn starts(run: &General, start: &str) -> String {
    let sentence = run.sentence();
    is_short(&sentence);
    assert!(sentence.starts_with(start), "{sentence}");
    sentence
}

fn ends(run: &General, end: &str) {
    let sentence = run.sentence();
    is_short(&sentence);
    assert!(sentence.ends_with(end), "{sentence}");
}

fn answer(metric: &str, baseline: &[(&str, Value)], cells: &[(&str, Value)]) -> Answer {
    let factors = |of: &[(&str, Value)]| -> Factors {
        let of = of
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()));
        of.collect()
    };
    Answer {
        metric: metric.to_owned(),
        baseline: factors(baseline),
        cells: factors(cells),
    }
}

#[test]
fn one_comparison_has_both_values_and_their_ratio() {
    let start = "The wall time is 1.60 s for version b and 2.00 s for version a: 0.80 times [0.";
    let sentence = starts(&two(), start);
    assert!(sentence.ends_with("]."), "{sentence}");
}

#[test]
fn what_an_interval_leaves_undecided_says_what_would_decide_it() {
    let mut run = two();
    let cells = [
        &run.plan.stages[0].cells,
        &General::versions(7).plan.stages[0].cells,
    ];
    let (mut own, all) = (cells[0].clone(), cells[1].clone());
    // Version c takes as much time as a.
    own[1] = all[4].clone();
    let of_c = General::versions(7)
        .records
        .into_iter()
        .filter(|it| it.cell == 4);
    run.records.retain(|it| it.cell == 0);
    run.records.extend(of_c.map(|mut it| {
        it.cell = 1;
        it
    }));
    run.plan.stages[0].cells = own;
    let start = "Whether the wall time differs between c and a is undecided: ";
    let sentence = starts(&run, start);
    assert!(sentence.contains(" repeats would show "), "{sentence}");
    let html = run.page();
    assert!(html.contains(">undecided: "), "{html}");
}

#[test]
fn few_trials_are_not_called_undecided_and_one_has_no_range() {
    let mut run = two();
    run.plan.stages[0].repeats = Repeats::fixed(3);
    run.records.retain(|record| record.repeat < 3);
    ends(&run, ", from too few trials to decide.");
    run.plan.stages[0].repeats = Repeats::fixed(1);
    run.records.retain(|record| record.repeat < 1);
    ends(&run, " times (one trial each).");
    let (head, _) = run
        .page()
        .split_once("</header>")
        .map(|(a, b)| (a.to_owned(), b.len()))
        .unwrap();
    let (_, table) = head.split_once("<table").unwrap();
    assert!(
        !head.contains("undecided") && !table.contains('['),
        "{table}"
    );
}

#[test]
fn a_model_without_chance_has_one_value_each() {
    let mut run = two();
    run.plan.kind = "model".to_owned();
    run.each("main-000", |it| *it = one_second(it, 1.0));
    run.each("main-002", |it| *it = one_second(it, 0.5));
    let sentence = run.sentence();
    let whole = "The wall time is 500 ms for version b and 1.00 s for version a: 0.50 times; one \
                 value each.";
    assert_eq!(sentence, whole);
    let html = run.page();
    let (head, _) = html.split_once("</header>").unwrap();
    assert!(
        head.contains("the model leaves nothing to chance"),
        "{head}"
    );
    assert!(html.contains("each cell has one value, and a ratio is that of two values."));
    assert!(!html.contains("rank-sum"));
    for word in ["interval", "undecided", "95 %"] {
        let (_, table) = head.split_once("id=\"verdicts\"").unwrap();
        assert!(!table.contains(word) && !sentence.contains(word), "{word}");
    }
}

fn one_second(of: &Measured, seconds: f64) -> Measured {
    let mut measured = of.clone();
    measured.metrics = BTreeMap::from([("wall_ns".to_owned(), seconds * 1e9)]);
    measured.fault = None;
    measured
}

#[test]
fn a_metric_around_zero_has_a_difference() {
    let mut run = two();
    run.plan.figures[0].y = "drift_ns".to_owned();
    run.each("main-002", |it| {
        *it.metrics.get_mut("drift_ns").unwrap() -= 3_000.0;
    });
    let sentence = starts(&run, "The drift (of the clock) is -");
    assert!(
        sentence.contains(" for version a: -2.99 µs [-3."),
        "{sentence}"
    );
    assert!(run.page().contains("− a</small>"));
}

#[test]
fn values_that_mostly_do_not_count_are_grey_with_the_reason_once_and_not_known() {
    let mut run = two();
    for repeat in 0..7 {
        let flags = &mut run.measured(&format!("main-002-{repeat:02}")).flags;
        flags.insert("wall_ns".to_owned(), invalid("the generator overheated"));
    }
    let unknown = "is not known: 7 of 12 values for version b do not count (the generator \
                   overheated).";
    ends(&run, unknown);
    let html = run.page();
    let (head, rest) = html.split_once("</header>").unwrap();
    assert!(
        head.contains("<td class=\"out\" title=\"the generator overheated\">1.6"),
        "{head}"
    );
    let grey = "Grey values are not compared: the generator overheated. Give the generator \
                processors of its own ([pins]), raise its priority (as root), or generate the load \
                on another host.";
    assert_eq!(head.matches(grey).count(), 1, "{head}");
    assert!(rest.contains("5 of 12 count"));
    let text = text_summary(&run.run());
    assert!(
        text.contains("(1.6") && text.contains("not compared, because the generator overheated")
    );
}

#[test]
fn what_invalid_trials_spare_is_told_where_nothing_else_counts() {
    let mut run = two();
    for repeat in 0..7 {
        run.measured(&format!("main-002-{repeat:02}")).fault = Some(Fault {
            class: FaultClass::Invalid,
            reason: "the generator was late".to_owned(),
            spares: vec!["drift_ns".to_owned()],
        });
    }
    let text = text_summary(&run.run());
    let first = text.lines().nth(1).unwrap();
    assert!(first.starts_with("Whether the drift"), "{text}");
    assert!(text.contains("wall time is not known."), "{text}");
    let html = run.page();
    let spared = "7 of 24 trials are invalid and do not count but for the server";
    assert!(
        html.contains(spared) && html.contains("7 count in part"),
        "{html}"
    );
    let (_, table) = html.split_once("<table").unwrap();
    let at = |head: &str| table.find(head).unwrap();
    assert!(at("Drift") < at("Wall time"), "{html}");
}

#[test]
fn lower_bounds_decide_only_what_higher_values_cannot_reverse() {
    let bounded = |cell: &str| {
        let mut run = two();
        for repeat in 0..3 {
            let measured = run.measured(&format!("{cell}-{repeat:02}"));
            measured
                .flags
                .entry("wall_ns".to_owned())
                .or_default()
                .lower_bound = true;
        }
        run
    };
    // Version b is faster: higher values of it could reverse that, higher ones of a could not.
    ends(&bounded("main-002"), ", but lower bounds could reverse it.");
    ends(&bounded("main-000"), "].");
}

/// Twenty versions that are all the same: without the correction, one in twenty intervals of
/// 95 % excludes 1.
#[test]
fn many_comparisons_of_equals_decide_nothing() {
    for seed in 0..8 {
        let mut run = two();
        let template = run.records[0].clone();
        let mut random = SplitMix(seed);
        let names = (0..21).map(|n| Value::from(format!("v{n}").as_str()));
        let names: Vec<Value> = names.collect();
        let cell = |name: &Value| {
            let mut cell = run.plan.stages[0].cells[0].clone();
            cell.insert("version".to_owned(), name.clone());
            cell
        };
        run.plan.stages[0].cells = names.iter().map(cell).collect();
        run.plan.factors[0].values = names;
        // It shows version a only, which is not there.
        run.plan.figures.clear();
        run.records.clear();
        for (cell, factors) in (0..).zip(run.plan.stages[0].cells.clone()) {
            for repeat in 0..REPEATS {
                let mut record = template.clone();
                record.id = format!("main-{cell:03}-{repeat:02}");
                (record.cell, record.repeat, record.factors) = (cell, repeat, factors.clone());
                let measured = Measured::default();
                let seconds = random.about(0.05);
                record.outcome = Outcome::Measured(one_second(&measured, seconds));
                run.records.push(record);
            }
        }
        let html = run.page();
        let (_, front) = html.split_once("id=\"verdicts\"").unwrap();
        assert!(
            !front.contains(">better<") && !front.contains(">worse<"),
            "{seed}"
        );
        let sentence = run.sentence();
        is_short(&sentence);
        let counts = "undecided in 20 of 20 comparisons";
        let open = sentence.contains(counts) || sentence.contains("open in ");
        assert!(open, "{seed}: {sentence}");
    }
}

/// A ladder whose servers are compared at half of their capacity.
#[test]
fn servers_are_compared_at_half_load() {
    let run = ladder(4);
    let start = "The response time (99th percentile) is ";
    let sentence = starts(&run, start);
    assert!(sentence.contains(", at load level 0.5: 1.1"), "{sentence}");
    let mut run = ladder(4);
    run.plan.answer = Some(answer(
        names::ACHIEVED_RPS,
        &[("server", Value::from("memcached"))],
        &[("level", Value::from(0.3))],
    ));
    let start = "The achieved rate is 72.";
    let sentence = starts(&run, start);
    let rest = " k/s for curtail and 63.";
    assert!(
        sentence.contains(rest) && sentence.contains("at load level 0.3: 1.1"),
        "{sentence}"
    );
    assert!(run.page().contains("<small>÷ memcached</small>"));
}

#[test]
fn published_ratios_stand_in_the_sentence_and_agreement_below_it() {
    let mut run = General::versions(7);
    run.plan.figures.clear();
    let only = |version: &str, threads: f64| {
        let of = [
            ("version", Value::from(version)),
            ("threads", Value::from(threads)),
        ];
        of.map(|(name, value)| (name.to_owned(), value)).into()
    };
    let published = |value: f64, version: &str, threads: f64| Published {
        metric: "wall_ns".to_owned(),
        value,
        unit: Some("s".to_owned().into()),
        only: only(version, threads),
        to: BTreeMap::new(),
        source: "Smith 2016, table 2".to_owned(),
    };
    run.plan.published = vec![
        published(2.0, "a", 1.0),
        published(1.4, "b", 1.0),
        published(1.0, "a", 4.0),
        published(5.0, "b", 4.0),
    ];
    run.plan.answer = Some(answer("wall_ns", &[("version", Value::from("a"))], &[]));
    run.plan.stages[0].cells.truncate(4);
    run.records.retain(|it| it.cell < 4);
    let start = "The wall time for version b is 0.80 [0.";
    let sentence = starts(&run, start);
    assert!(
        sentence.ends_with("; published 0.70 and 5.00."),
        "{sentence}"
    );
    let html = run.page();
    // The order of b with four threads is wrong with each of the others.
    let agreement = "2 of 4 published values within 10 %, 3 within 25 %, orders kept: 3 of 6.";
    assert!(html.contains(agreement), "{html}");
    assert!(text_summary(&run.run()).contains("orders kept: 3 of 6."));
}

#[test]
fn the_baseline_of_a_figure_is_its_first_value_that_has_a_partner() {
    let mut run = General::versions(7);
    // Version a has other numbers of threads than b and c.
    let cells = &mut run.plan.stages[0].cells;
    for (cell, threads) in cells.iter_mut().zip([8.0, 16.0]) {
        cell.insert("threads".to_owned(), Value::from(threads));
    }
    run.plan.factors[1].values = [8.0, 16.0, 1.0, 4.0].map(Value::from).into();
    for record in &mut run.records {
        record.factors = run.plan.stages[0].cells[record.cell as usize].clone();
    }
    run.plan.figures[0].by = Some("version".to_owned());
    run.plan.figures[0].only.clear();
    starts(&run, "The wall time for version c is 1.2");
    ends(&run, " times that for version b, with 1 and 4 threads.");
}

/// The rule for each class of faults, in a run in which one server answers errors to everything.
#[test]
fn a_server_that_fails_is_named_first_and_compared_with_nothing() {
    let errors = "all of 1000 requests were refused";
    let mut run = ladder(4);
    for level in 0..8 {
        for repeat in 0..15 {
            let id = format!("s-memcached-{level}-{repeat:02}");
            if !["s-memcached-4-03", "s-memcached-4-09"].contains(&id.as_str()) {
                fault(run.measured(&id), FaultClass::Failing, errors);
            }
        }
    }
    let html = run.page();
    let (first, _) = html.split_once("class=\"question\"").unwrap();
    let named = format!("memcached fails in 118 of 123 trials: {errors}.");
    assert!(first.contains(&named), "{first}");
    let (head, _) = html.split_once("</header>").unwrap();
    assert!(!head.contains(">better<"), "{head}");
    assert!(
        head.contains("≥") && head.contains(">no comparison<"),
        "{head}"
    );
    let sentence = run.sentence();
    is_short(&sentence);
    assert!(
        sentence.starts_with("Memcached fails in 15 trials ("),
        "{sentence}"
    );
    assert!(
        sentence.contains("the response time (99th percentile) is 1"),
        "{sentence}"
    );
    let text = text_summary(&run.run());
    assert!(
        text.starts_with("memcached fails in 118 of 123 trials"),
        "{text}"
    );
    assert!(text.contains("(fails)"), "{text}");
    let health = health(&run.run());
    assert_eq!((health.failing.trials, health.failing.cells), (118, 8));
    assert_eq!(health.failing.reasons[0].reason, errors);
}

#[test]
fn one_failing_trial_is_not_averaged_away() {
    let mut run = two();
    fault(
        run.measured("main-002-05"),
        FaultClass::Failing,
        "12 % errors",
    );
    let start = "B fails in 1 trial (12 % errors); the wall time is 2.00 s for version a.";
    starts(&run, start);
    assert!(!run.page().contains(">better<"));
}

#[test]
fn a_server_that_fails_misses_its_targets_and_exceeds_each_bound() {
    let failing = |name: &str| {
        let mut run = two();
        fault(run.measured(name), FaultClass::Failing, "12 % errors");
        run
    };
    let mut run = failing("main-002-05");
    run.plan.targets = vec![Target {
        name: "version b takes no year".to_owned(),
        metric: "wall_ns".to_owned(),
        of: [("version".to_owned(), Value::from("b"))].into(),
        to: BTreeMap::new(),
        unit: Some("s".to_owned().into()),
        at_most: Some(3e7),
        at_least: None,
        below: None,
        above: None,
    }];
    let judged = target::judged(&run.run()).remove(0);
    assert_eq!(judged.verdict, Verdict::Missed);
    assert!(
        judged
            .left_out
            .contains("1 of 12 trials fail (12 % errors)"),
        "{judged:?}"
    );
    let bound: Bound = "wall_ns > 9x".parse().unwrap();
    let exceeded = |run: &General| {
        compare(&run.run(), &[], std::slice::from_ref(&bound))
            .unwrap()
            .exceeded
    };
    let told = exceeded(&run).remove(0);
    assert!(told.contains("b fails in 1 trial (12 % errors)"), "{told}");
    assert!(
        exceeded(&failing("main-000-05")).is_empty(),
        "it failed before"
    );
}

#[test]
fn invalid_trials_do_not_count_and_a_broken_instrument_is_said_first() {
    let mut run = two();
    let law = "Little's law is violated by 40 %";
    fault(run.measured("main-002-05"), FaultClass::Instrument, law);
    for repeat in 0..8 {
        let measured = run.measured(&format!("main-000-{repeat:02}"));
        *measured.metrics.get_mut("wall_ns").unwrap() = 1.0;
        fault(measured, FaultClass::Invalid, LATE);
    }
    let html = run.page();
    let (first, rest) = html.split_once("class=\"question\"").unwrap();
    let broken =
        format!("The instrument contradicts itself in 1 of 24 trials, which do not count: {law}.");
    assert!(first.contains(&broken), "{first}");
    let invalid =
        format!("8 of 24 trials are invalid and do not count: {LATE}. Give the generator");
    assert!(rest.contains(&invalid), "{rest}");
    assert!(
        run.sentence()
            .contains("8 of 12 values for version a do not count")
    );
    let health = health(&run.run());
    assert_eq!((health.instrument.trials, health.invalid.trials), (1, 8));
    assert_eq!(
        (health.measured, health.planned, health.missing.trials),
        (24, 24, 0)
    );
}

#[test]
fn capacities_and_knees_are_findings_of_any_run_with_these_names() {
    let mut run = ladder(2);
    run.plan.kind = "measured".to_owned();
    for repeat in 0..3 {
        let id = format!("c-memcached-0-{repeat:02}");
        fault(run.measured(&id), FaultClass::Invalid, LATE);
    }
    fault(
        run.measured("s-curtail-7-02"),
        FaultClass::Failing,
        "lost connections",
    );
    let html = run.page();
    let (_, part) = html.split_once("id=\"findings\"").unwrap();
    let (part, _) = part.split_once("</details>").unwrap();
    assert!(
        part.contains("<th scope=\"row\">curtail</th><td>24"),
        "{part}"
    );
    assert!(part.contains("<td>≥21"), "{part}");
    assert!(
        part.contains(&format!("at least this much: {LATE}")),
        "{part}"
    );
    assert!(
        part.contains("193 k/s (load level 0.8); beyond it at 217 k/s"),
        "{part}"
    );
    assert!(
        part.contains("Little's law holds in 247 of 247 trials"),
        "{part}"
    );
    let text = text_summary(&run.run());
    assert!(
        text.contains("\ncapacities ") && text.contains("\nknees "),
        "{text}"
    );
    assert!(
        text.contains("Little's law holds in 247 of 247 trials"),
        "{text}"
    );
    // A count that contradicts the time stamps is said first, whatever the writer made of it.
    let metrics = &mut run.measured("s-curtail-0-02").metrics;
    metrics.insert(names::OUTSTANDING_MEAN.to_owned(), 1e6);
    let first = "Little's law, which checks the instrument, fails in 1 of 247 trials.";
    assert!(text_summary(&run.run()).starts_with(first));
}

#[test]
fn rows_of_the_terminal_that_would_read_the_same_are_told_apart() {
    let mut run = two();
    let long = |end: &str| Value::from(format!("{}{end}", "x".repeat(70)).as_str());
    let names = [("a", long("a")), ("b", long("b"))];
    let rename = |value: &mut Value| {
        for (from, to) in &names {
            if *value == Value::from(*from) {
                *value = to.clone();
            }
        }
    };
    run.plan.factors[0].values.iter_mut().for_each(rename);
    let cells = run.plan.stages[0].cells.iter_mut();
    for factors in cells.chain(run.records.iter_mut().map(|it| &mut it.factors)) {
        factors.values_mut().for_each(rename);
    }
    run.plan.figures.clear();
    let names = ["aa", "ab", "b"].map(|it| format!("{}{it}", "x".repeat(20)));
    assert_eq!(
        crate::terminal::told_apart(&names, 21),
        [&*names[0], &*names[1], &*names[2]]
    );
    let same = ["a", "a", "b"].map(str::to_owned);
    assert_eq!(crate::terminal::told_apart(&same, 5), ["a", "a (2)", "b"]);
    let text = text_summary(&run.run());
    let rows = text.lines().filter(|it| it.starts_with('x'));
    let rows: Vec<&str> = rows.collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert_ne!(
        rows[0].split(' ').next(),
        rows[1].split(' ').next(),
        "{text}"
    );
}

#[test]
fn the_page_links_what_lies_beside_it_and_says_how_to_repeat_the_run() {
    let run = General::versions(7);
    let place = tempfile::tempdir().unwrap();
    let folder = run.write(place.path());
    std::fs::create_dir(folder.join("logs")).unwrap();
    let html = std::fs::read_to_string(crate::render(&folder).unwrap().page).unwrap();
    let links = html.split("href=\"").skip(1);
    let links: Vec<&str> = links.filter_map(|it| Some(it.split_once('"')?.0)).collect();
    for wanted in [
        "trials.csv",
        "trials.jsonl",
        "logs/",
        "figures/time.svg",
        "figures/time.csv",
    ] {
        assert!(links.contains(&wanted), "{wanted}: {links:?}");
    }
    for link in links.iter().filter(|it| !it.starts_with("data:")) {
        assert!(folder.join(link).exists(), "{link}");
    }
    assert!(html.contains("curtail lab run versions --seed 7"));
    let mut run = run;
    run.plan.rerun = Some("curtail lab run ./versions.toml --quick --seed 9".to_owned());
    assert!(
        run.page()
            .contains("curtail lab run ./versions.toml --quick --seed 9")
    );
}

#[test]
fn a_wrong_answer_is_refused_with_its_key() {
    let mut run = General::versions(7);
    let b = || Value::from("b");
    let mut refused = |it: Answer| {
        run.plan.answer = Some(it);
        let plan: &Plan = &run.plan;
        check(plan).unwrap_err()
    };
    let (key, told) = refused(answer("wall_n", &[], &[]));
    assert!(key == "metric" && told.contains("`wall_ns`"), "{told}");
    let (key, told) = refused(answer("resident_bytes", &[], &[]));
    assert!(
        key == "metric" && told.contains("neither higher nor lower"),
        "{told}"
    );
    let (key, told) = refused(answer("wall_ns", &[("versoin", b())], &[]));
    assert!(key == "baseline" && told.contains("version"), "{told}");
    let (key, told) = refused(answer("wall_ns", &[("version", Value::from("z"))], &[]));
    assert!(key == "baseline" && told.contains('z'), "{told}");
    let (key, told) = refused(answer("wall_ns", &[("version", b())], &[("version", b())]));
    assert!(
        key == "cells" && told.contains("nothing to compare"),
        "{told}"
    );
    run.plan.answer = Some(answer("wall_ns", &[("version", b())], &[]));
    assert_eq!(check(&run.plan), Ok(()));
    assert!(
        run.plan
            .factors
            .iter()
            .any(|it: &Factor| it.name == "version")
    );
}
