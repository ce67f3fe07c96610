//! Stacks: parts as declared, from the bottom, and what is missing.

use roxmltree::{Document, Node};

use crate::figure::{self, Figure, FigureKind};
use crate::page_of;
use crate::record::{Better, Outcome};
use crate::tests::general_run::{General, invalid, metric};
use crate::tests::illustrated::{PARTS, drawn, figures, run};
use crate::tests::kinds::in_data;

/// A change of a declaration.
type Change<'a> = &'a dyn Fn(&mut Figure);

fn number(node: &Node, name: &str) -> f64 {
    node.attribute(name).unwrap().parse().unwrap()
}

fn hint<'a>(node: &Node<'a, 'a>) -> &'a str {
    let title = node.children().find(|node| node.has_tag_name("title"));
    title.and_then(|title| title.text()).unwrap_or_default()
}

/// The parts whose hint begins so, from the bottom.
fn parts<'a>(document: &'a Document, name: &str) -> Vec<Node<'a, 'a>> {
    let mut parts = in_data(document, "shade");
    parts.retain(|part| hint(part).starts_with(&format!("{name}: ")));
    parts
}

fn median(run: &General, cell: u32, metric: &str) -> f64 {
    let of_cell = run.records.iter().filter(|record| record.cell == cell);
    let values: Vec<f64> = of_cell.filter_map(|record| record.number(metric)).collect();
    measure::median(&values).unwrap()
}

/// The page, which has every note; a file has the first few.
fn page(run: &General) -> String {
    let html = page_of(&run.run()).unwrap();
    html.replace('\u{a0}', " ").replace("&#39;", "'")
}

fn stack() -> Figure {
    let mut figures = figures().into_iter();
    figures.find(|it| it.kind == FigureKind::Stack).unwrap()
}

#[test]
fn parts_are_medians_one_upon_another_in_the_order_of_the_file() {
    let run = run();
    let files = drawn(&run, "stack");
    for part in PARTS {
        let of_a = [
            ("curve", "a"),
            ("threads", "4"),
            ("part", part),
            ("row", "median"),
        ];
        assert_eq!(files.numbers("value", &of_a), [median(&run, 1, part)]);
    }
    let document = Document::parse(&files.svg).unwrap();
    let parts = parts(&document, "a, with 4 threads");
    let titles: Vec<&str> = parts.iter().map(|it| hint(it)).collect();
    assert_eq!(parts.len(), 3, "{titles:?}");
    for (title, begins) in titles.iter().zip(["user time", "system time", "idle time"]) {
        let begins = format!("a, with 4 threads: {begins} ");
        assert!(title.starts_with(&begins), "{title}");
        assert!(title.ends_with(", 11 trials"), "{title}");
    }
    let (bottom, middle) = (&parts[0], &parts[1]);
    let end = number(middle, "y") + number(middle, "height");
    assert!((end - number(bottom, "y")).abs() < 0.2, "{titles:?}");
    let ratio = number(bottom, "height") / number(middle, "height");
    assert!((ratio - 5.0 / 3.0).abs() < 0.02, "{ratio}");
    let said = "Parts are medians, from the bottom in the order of the legend";
    assert!(files.svg.contains(said), "{}", files.svg);
}

#[test]
fn a_legend_names_parts_and_labels_name_stacks_and_groups() {
    let files = drawn(&run(), "stack");
    for text in ["user time", "system time", "idle time"] {
        assert!(files.svg.contains(&format!(">{text}</text>")), "{text}");
    }
    let document = Document::parse(&files.svg).unwrap();
    let texts = document.descendants().filter(|it| it.has_tag_name("text"));
    let texts: Vec<&str> = texts.filter_map(|it| it.text().map(str::trim)).collect();
    for name in ["a", "b", "c"] {
        let count = texts.iter().filter(|text| **text == name).count();
        assert_eq!(count, 2, "{name} in each of two groups: {texts:?}");
    }
    assert!(texts.contains(&"version, by threads"), "{texts:?}");
}

#[test]
fn names_that_do_not_fit_stand_askew() {
    let mut run = run();
    let long = "a version with a name that is longer than its stack is wide";
    run.plan.factors[0]
        .labels
        .insert("b".to_owned(), long.to_owned());
    let files = drawn(&run, "stack");
    let cut = ">a version with a name tha…</text>";
    assert_eq!(files.svg.matches(cut).count(), 2, "{}", files.svg);
    assert!(files.svg.contains("rotate(-35"), "{}", files.svg);
}

#[test]
fn a_part_without_a_value_is_missing_and_not_zero() {
    let files = drawn(&run(), "stack");
    let of_b = [
        ("curve", "b"),
        ("threads", "1"),
        ("part", "idle_ns"),
        ("row", "median"),
    ];
    assert!(files.column("value", &of_b).is_empty());
    let document = Document::parse(&files.svg).unwrap();
    assert_eq!(parts(&document, "b, with 1 threads").len(), 2);
    let crosses = in_data(&document, "absent");
    let hints: Vec<&str> = crosses.iter().map(hint).collect();
    assert!(
        hints.contains(&"b, with 1 threads: no value of idle time"),
        "{hints:?}"
    );
    // Its missing trial is told at the same place.
    let both = "c, with 4 threads: 1 of 12 trials missing, no value of idle time";
    assert!(hints.contains(&both), "{hints:?}");
    let named = "idle time: No value: b, with 1 threads; b, with 4 threads; c, with 1 threads; c, \
                 with 4 threads.";
    let html = page(&run());
    assert!(html.contains(named), "{html}");
    assert!(files.svg.contains(">missing</text>"));
    assert!(
        !hints.iter().any(|hint| hint.starts_with("a, with 1")),
        "{hints:?}"
    );
}

#[test]
fn a_stack_without_its_first_part_is_drawn() {
    let mut run = run();
    for record in &mut run.records {
        if let Outcome::Measured(measured) = &mut record.outcome {
            measured.metrics.remove("user_ns");
        }
    }
    let files = drawn(&run, "stack");
    let document = Document::parse(&files.svg).unwrap();
    assert_eq!(parts(&document, "a, with 1 threads").len(), 2);
    let html = page(&run);
    assert!(
        html.contains("user time: No value: a, with 1 threads; "),
        "{html}"
    );
    // Of one stack, some trials have it.
    for repeat in 0..4 {
        let measured = run.measured(&format!("main-000-{repeat:02}"));
        measured.metrics.insert("user_ns".to_owned(), 1e9);
    }
    let html = page(&run);
    let partly = "user time: Not drawn: 66 trials without this measurement.";
    assert!(html.contains(partly), "{html}");
}

#[test]
fn values_that_do_not_count_and_lower_bounds_are_told_of_their_part() {
    let mut run = run();
    for repeat in 0..3 {
        let measured = run.measured(&format!("main-000-{repeat:02}"));
        measured
            .flags
            .insert("system_ns".to_owned(), invalid("overheated"));
        let flag = measured.flags.entry("user_ns".to_owned()).or_default();
        flag.lower_bound = true;
    }
    run.plan.figures.push(Figure {
        parts: vec!["drift_ns".to_owned(), "user_ns".to_owned()],
        ..Figure {
            name: "drifts".to_owned(),
            ..stack()
        }
    });
    for record in run.records.iter_mut().filter(|it| it.cell == 2) {
        if let Outcome::Measured(measured) = &mut record.outcome {
            measured.metrics.insert("drift_ns".to_owned(), -5.0);
        }
    }
    let html = page(&run);
    for note in [
        "Lower bounds: in 3 of 70 trials, the value is a lower bound (user time).",
        "Grey, do not count: 3 (overheated) of 70 trials.",
        "b, with 1 threads: no value of drift, of the clock",
    ] {
        assert!(html.contains(note), "{note}: {html}");
    }
}

#[test]
fn without_groups_each_value_of_x_has_a_stack() {
    let mut run = run();
    for figure in &mut run.plan.figures {
        if figure.kind == FigureKind::Stack {
            figure.by = None;
            figure.panel = Some("version".to_owned());
        }
    }
    let files = drawn(&run, "stack-a");
    let document = Document::parse(&files.svg).unwrap();
    assert_eq!(in_data(&document, "shade").len(), 6);
    assert_eq!(
        files.column("threads", &[("part", "idle_ns"), ("row", "median")]),
        ["1", "4"]
    );
}

#[test]
fn wrong_declarations_are_refused_with_the_key_and_what_is_known() {
    let mut run = run();
    let energy = metric("spent_j", "energy spent", "J", Better::Lower);
    run.plan.metrics.push(energy);
    let refused = |change: Change| {
        let mut figure = stack();
        change(&mut figure);
        figure::check(&figure, &run.plan).unwrap_err()
    };
    let cases: [(Change, &str); 8] = [
        (
            &|it| it.parts.truncate(1),
            "`parts` has 1 name; a stack needs 2 to 9",
        ),
        (
            &|it| it.parts[1] = "user_ns".to_owned(),
            "`parts` has `user_ns` twice",
        ),
        (
            &|it| it.parts[1] = "sytem_ns".to_owned(),
            "no metric is named `sytem_ns`; the nearest known: `system_ns`",
        ),
        (
            &|it| it.parts[1] = "spent_j".to_owned(),
            "`user_ns` is in `ns` and `spent_j` in `J`, which have no sum",
        ),
        (
            &|it| it.y = "wall_ns".to_owned(),
            "`y` has no effect on a stack",
        ),
        (
            &|it| it.scale = figure::Scale::Log,
            "`scale` has no effect on a stack",
        ),
        (&|it| it.kind = FigureKind::Bars, "a bars needs `y`"),
        (
            &|it| it.unit = Some("J".to_owned().into()),
            "`unit`: `user_ns` is in `ns`, not `J`",
        ),
    ];
    for (change, words) in cases {
        let told = refused(change);
        assert!(
            told.starts_with("figure `stack`: ") && told.contains(words),
            "{told}"
        );
    }
    let mut bars = Figure::new("bars", FigureKind::Bars, "wall_ns");
    bars.parts = stack().parts;
    let told = figure::check(&bars, &run.plan).unwrap_err();
    assert_eq!(told, "figure `bars`: `parts` has no effect on a bars");
}
