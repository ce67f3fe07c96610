//! What a reader sees in figures of any kind: what counts, fails or is missing, what others
//! published, titles, legends, and the same bytes from the same run.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use roxmltree::{Document, Node};

use crate::figure::Figure;
use crate::published::Published;
use crate::record::{
    Better, Factor, Factors, FaultClass, Measured, Outcome, Plan, Record, Repeats, Stage, Unit,
    Value,
};
use crate::tests::general_run::{General, metric};
use crate::tests::illustrated::{self, Files, drawn};
use crate::tests::kinds::{fault, in_data};
use crate::{Run, page_of};

const RATES: [f64; 4] = [10_000.0, 20_000.0, 40_000.0, 80_000.0];
const REPEATS: u32 = 3;
const SOURCE: &str = "Smith 2016, figure 3";
const LATE: &str = "the generator was late";
const ERRORS: &str = "1.2 % of the requests failed";

/// A figure of each kind that shows published values.
const FIGURES: &str = r#"
    [[figure]]
    name = "curve"
    kind = "curve"
    x = "rate"
    y = "response_p99_ns"
    by = "server"
    scale = "log"
    knee = "response_p99_ns"
    [[figure]]
    name = "bars"
    kind = "bars"
    x = "rate"
    y = "response_p99_ns"
    by = "server"
    [[figure]]
    name = "cdf"
    kind = "cdf"
    y = "response"
    by = "server"
    only = { rate = 10000 }
    [[figure]]
    name = "scatter"
    kind = "scatter"
    x = "user_ns"
    y = "response_p99_ns"
    by = "server"
    size = "rate"
    marks = ["user_ns"]
    [[figure]]
    name = "stack"
    kind = "stack"
    x = "rate"
    parts = ["user_ns", "system_ns"]
    by = "server"
    [[figure]]
    name = "ratios"
    kind = "ratios"
    [[figure]]
    name = "table"
    kind = "table"
    x = "rate"
    y = "response_p99_ns"
    by = "server"
"#;

/// Servers at four rates. The first trial of b at 40 k/s was late, and c fails at 80 k/s.
fn ladder(servers: &[&str]) -> General {
    let mut figures: BTreeMap<String, Vec<Figure>> = toml::from_str(FIGURES).unwrap();
    let names: Vec<Value> = servers.iter().map(|it| Value::from(*it)).collect();
    let rate = Factor {
        unit: Some(Unit::per_second()),
        phrase: Some("at {}".to_owned()),
        ..Factor::new("rate", RATES.map(Value::from).to_vec())
    };
    let cell = |server: &Value, rate: f64| {
        let rate = Value::from(rate);
        Factors::from([
            ("server".to_owned(), server.clone()),
            ("rate".to_owned(), rate),
        ])
    };
    let rows = names
        .iter()
        .flat_map(|server| RATES.map(|rate| cell(server, rate)));
    let stage = Stage {
        name: "main".to_owned(),
        repeats: Repeats::fixed(REPEATS),
        cells: rows.collect(),
    };
    let time = |name: &str, title: &str| metric(name, title, "ns", Better::Lower);
    let mut run = General {
        plan: Plan {
            experiment: "ladder".to_owned(),
            metrics: vec![
                time("response_p99_ns", "response time, 99th percentile"),
                time("user_ns", "user time"),
                time("system_ns", "system time"),
            ],
            figures: figures.remove("figure").unwrap(),
            published: published(servers[0]),
            factors: vec![Factor::new("server", names), rate],
            stages: vec![stage],
            ..General::versions(7).plan
        },
        records: Vec::new(),
    };
    for (index, factors) in (0..).zip(&run.plan.stages[0].cells) {
        for repeat in 0..REPEATS {
            run.records.push(record(index, repeat, factors));
        }
    }
    if let Some(cell) = servers.iter().position(|it| *it == "b") {
        let id = format!("main-{:03}-00", 4 * cell + 2);
        run.measured(&id).fault = Some(fault(FaultClass::Invalid, LATE));
    }
    if let Some(cell) = servers.iter().position(|it| *it == "c") {
        for repeat in 0..REPEATS {
            let id = format!("main-{:03}-{repeat:02}", 4 * cell + 3);
            run.measured(&id).fault = Some(fault(FaultClass::Failing, ERRORS));
        }
    }
    run
}

fn record(cell: u32, repeat: u32, factors: &Factors) -> Record {
    let (server, step) = (f64::from(cell / 4), f64::from(cell % 4));
    let about = 1.0 + 0.03 * f64::from(repeat);
    let metrics = [
        (
            "response_p99_ns",
            150_000.0 * (1.0 + server / 3.0) * step.exp(),
        ),
        ("user_ns", 900.0 + 250.0 * server + 100.0 * step),
        ("system_ns", 2_100.0 - 150.0 * server),
    ];
    let id = format!("main-{cell:03}-{repeat:02}");
    let path = format!("histograms/{id}.hist#response");
    Record {
        stage: "main".to_owned(),
        cell,
        repeat,
        retries: 0,
        factors: factors.clone(),
        resolved: BTreeMap::new(),
        started_unix_ns: 1_795_223_563_000_000_000 + u64::from(cell * REPEATS + repeat),
        outcome: Outcome::Measured(Measured {
            metrics: metrics
                .map(|(name, value)| (name.to_owned(), value * about))
                .into(),
            artefacts: [("response".to_owned(), path)].into(),
            ..Measured::default()
        }),
        notes: Vec::new(),
        id,
    }
}

/// Of the first server at the first two rates, and a ratio of the two.
fn published(server: &str) -> Vec<Published> {
    let at = |rate: f64| {
        let server = ("server".to_owned(), Value::from(server));
        BTreeMap::from([server, ("rate".to_owned(), Value::from(rate))])
    };
    let value = |metric: &str, value: f64, only: BTreeMap<String, Value>| Published {
        metric: metric.to_owned(),
        value,
        unit: None,
        only,
        to: BTreeMap::new(),
        source: SOURCE.to_owned(),
    };
    vec![
        value("response_p99_ns", 180_000.0, at(10_000.0)),
        value("response_p99_ns", 340_000.0, at(20_000.0)),
        value("user_ns", 1_100.0, at(10_000.0)),
        value("system_ns", 1_800.0, at(10_000.0)),
        Published {
            to: at(10_000.0),
            ..value("response_p99_ns", 2.0, at(20_000.0))
        },
    ]
}

fn hint<'a>(node: &Node<'a, 'a>) -> &'a str {
    let title = node.children().find(|node| node.has_tag_name("title"));
    title.and_then(|title| title.text()).unwrap_or_default()
}

fn class<'a>(node: &Node<'a, 'a>) -> &'a str {
    node.attribute("class").unwrap_or_default()
}

/// The texts of the legend.
fn legend(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let mut nodes = document.descendants();
    let legend = nodes.find(|it| class(it) == "legend").unwrap();
    let texts = legend.descendants().filter(|it| it.has_tag_name("text"));
    texts
        .filter_map(|it| it.text().map(str::to_owned))
        .collect()
}

/// What trials of two classes of fault look like in a figure.
fn faults(files: &Files) -> (usize, usize) {
    let document = Document::parse(&files.svg).unwrap();
    let of = |class: &str| in_data(&document, class);
    for (class, reason) in [("grey", LATE), ("failing", ERRORS)] {
        let hints = of(class);
        let hints = hints.iter().map(hint).filter(|it| !it.is_empty());
        assert!(hints.into_iter().all(|it| it.ends_with(reason)), "{class}");
    }
    (of("grey").len(), of("failing").len())
}

#[test]
fn what_does_not_count_is_grey_and_outside_the_median_and_its_reason_is_said_once() {
    let run = ladder(&["a", "b"]);
    let curve = drawn(&run, "curve");
    assert_eq!(faults(&curve), (1, 0));
    let own = [("curve", "b"), ("rate", "40000")];
    let of = |row: &str| curve.numbers("response_p99_ns", &[own[0], own[1], ("row", row)]);
    let trials = of("trial");
    assert_eq!(of("median"), [(trials[1] + trials[2]) / 2.0]);
    let note = "Grey, do not count: 1 (the generator was late) of 24 trials.";
    assert_eq!(curve.svg.matches(note).count(), 1, "{}", curve.svg);
    assert!(legend(&curve.svg).contains(&"does not count".to_owned()));
    // Two of three trials: the value is shown, but counts no more.
    let mut run = run;
    run.measured("main-006-01").fault = Some(fault(FaultClass::Instrument, LATE));
    let bars = drawn(&run, "bars");
    let document = Document::parse(&bars.svg).unwrap();
    let bar = in_data(&document, "bar");
    assert_eq!(
        bar.iter()
            .filter(|it| class(it) == "bar hollow grey")
            .count(),
        1
    );
    let table = drawn(&run, "table");
    assert_eq!(table.svg.matches("font-style=\"italic\"").count(), 1);
    assert_eq!(table.column("flag", &own), [LATE]);
}

#[test]
fn a_server_that_fails_has_a_mark_of_its_own_and_no_median() {
    let run = ladder(&["a", "b", "c"]);
    let curve = drawn(&run, "curve");
    assert_eq!(
        faults(&curve).1,
        REPEATS as usize + 1,
        "each trial, and the cell"
    );
    let cell = [("curve", "c"), ("rate", "80000"), ("row", "median")];
    let flag = format!("lower bound; fails here: {ERRORS}");
    assert_eq!(curve.column("flag", &cell), [flag]);
    for words in ["fails here", "lower bound"] {
        assert!(legend(&curve.svg).contains(&words.to_owned()), "{words}");
    }
    let note = "Fails here: 3 (1.2 % of the requests failed) of 36 trials.";
    assert!(curve.svg.contains(note), "{}", curve.svg);
    // The line of c ends before the rate at which it fails.
    let document = Document::parse(&curve.svg).unwrap();
    let lines = in_data(&document, "median");
    let lengths = lines
        .iter()
        .filter(|it| it.attribute("stroke-width") == Some("2"));
    let lengths = lengths.map(|it| it.attribute("points").unwrap().split(' ').count());
    assert_eq!(lengths.collect::<Vec<_>>(), [4, 4, 3]);
    for name in ["bars", "scatter", "stack"] {
        assert!(faults(&drawn(&run, name)).1 > 0, "{name}");
    }
    let table = drawn(&run, "table");
    assert!(
        table.svg.contains(">fails here<") && table.svg.contains(">≥"),
        "{}",
        table.svg
    );
}

#[test]
fn every_kind_shows_what_others_published() {
    let run = ladder(&["a", "b"]);
    for (name, diamonds, lines) in [
        ("curve", 2, 1),
        ("cdf", 1, 0),
        ("bars", 2, 0),
        ("scatter", 2, 1),
        ("stack", 2, 0),
    ] {
        let files = drawn(&run, name);
        let document = Document::parse(&files.svg).unwrap();
        let marks = in_data(&document, "published");
        assert_eq!(marks.len(), diamonds, "{name}");
        assert!(marks.iter().all(|it| hint(it).ends_with(SOURCE)), "{name}");
        let dashed = |it: &&Node| it.attribute("stroke-dasharray") == Some("3 3");
        let medians = in_data(&document, "median");
        assert_eq!(medians.iter().filter(dashed).count(), lines, "{name}");
        assert!(
            legend(&files.svg).contains(&"published".to_owned()),
            "{name}"
        );
        assert!(
            files.svg.contains(&format!("Published: {SOURCE}.")),
            "{name}"
        );
        assert_eq!(
            files.column("flag", &[("row", "published")]).len(),
            diamonds
        );
    }
    assert!(drawn(&run, "table").svg.contains("published 180 µs"));
}

#[test]
fn a_figure_of_ratios_has_a_row_for_each_published_value() {
    let run = ladder(&["a", "b"]);
    let ratios = drawn(&run, "ratios");
    let of_p99 = ratios.numbers("ratio", &[("metric", "response_p99_ns")]);
    let measured = 150_000.0 * 1.03;
    let expected = [
        measured / 180_000.0,
        measured * 1f64.exp() / 340_000.0,
        1f64.exp() / 2.0,
    ];
    assert_eq!(of_p99.len(), 3);
    for (ratio, expected) in of_p99.iter().zip(expected) {
        assert!((ratio / expected - 1.0).abs() < 1e-9, "{ratio} {expected}");
    }
    let document = Document::parse(&ratios.svg).unwrap();
    assert_eq!(in_data(&document, "mark").len(), 5);
    assert_eq!(in_data(&document, "guide").len(), 1, "a rule at 1");
    for words in ["÷ rate 10 k/s", "within 25 %", "as published"] {
        assert!(ratios.svg.contains(words), "{words}: {}", ratios.svg);
    }
    let mut none = run.plan.clone();
    none.published.clear();
    let ratios = none.figures.iter().find(|it| it.name == "ratios").unwrap();
    let told = crate::figure::check(ratios, &none).unwrap_err();
    assert!(told.contains("needs published values"), "{told}");
    none.quick = true;
    let ratios = none.figures.iter().find(|it| it.name == "ratios").unwrap();
    assert_eq!(crate::figure::check(ratios, &none), Ok(()));
    let mut run = run;
    (run.plan, run.records) = (none, Vec::new());
    assert!(drawn(&run, "ratios").svg.contains("No measurement."));
}

#[test]
fn nine_series_have_nine_looks_without_colour_too_and_each_entry_is_drawn() {
    let servers = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let run = ladder(&servers);
    for name in ["curve", "bars", "scatter"] {
        let svg = drawn(&run, name).svg;
        let document = Document::parse(&svg).unwrap();
        let mut looks: HashSet<(String, String, String)> = HashSet::new();
        let mut grey: HashSet<(String, String)> = HashSet::new();
        for series in in_data(&document, "series") {
            let marker = if name == "bars" { "foot" } else { "mark" };
            let is_marker = |it: &Node| class(it) == marker;
            let Some(mark) = series.descendants().find(is_marker) else {
                continue;
            };
            let line = in_data(&document, "series").into_iter().find(|it| {
                let own = it.attribute("data-series") == series.attribute("data-series");
                own && it.descendants().any(|it| class(&it) == "median")
            });
            let line = line.and_then(|it| it.descendants().find(|it| class(it) == "median"));
            let dashes = line.and_then(|it| it.attribute("stroke-dasharray"));
            let dashes = dashes.unwrap_or_default().to_owned();
            let shape = mark.attribute("d").unwrap().to_owned();
            let stroke = mark.attribute("stroke").unwrap().to_owned();
            looks.insert((shape.clone(), stroke, dashes.clone()));
            grey.insert((shape, dashes));
        }
        assert_eq!(looks.len(), 9, "{name}");
        assert!(name != "curve" || grey.len() == 9, "{grey:?}");
        let legend = legend(&svg);
        for server in servers {
            let entries = legend
                .iter()
                .filter(|it| *it == server || it.starts_with(&format!("{server} (knee")));
            assert_eq!(entries.count(), 1, "{name} {server}: {legend:?}");
        }
    }
    // Nothing is published of them, nothing fails: no entry says so.
    let mut alone = ladder(&["a", "d"]);
    alone.plan.published.clear();
    for word in [
        "published",
        "fails here",
        "does not count",
        "missing",
        "lower bound",
    ] {
        assert!(
            !legend(&drawn(&alone, "curve").svg)
                .iter()
                .any(|it| it == word),
            "{word}"
        );
    }
}

#[test]
fn two_figures_never_share_a_title() {
    let mut run = ladder(&["a", "b"]);
    let curve = run.plan.figures[0].clone();
    let only = |rate: f64| [("rate".to_owned(), Value::from(rate))].into();
    let panel = Some("server".to_owned());
    for (name, figure) in [
        (
            "first",
            Figure {
                only: only(10_000.0),
                ..curve.clone()
            },
        ),
        (
            "second",
            Figure {
                only: only(20_000.0),
                ..curve.clone()
            },
        ),
        ("again", curve.clone()),
        (
            "apart",
            Figure {
                panel,
                by: None,
                ..curve.clone()
            },
        ),
    ] {
        run.plan.figures.push(Figure {
            name: name.to_owned(),
            ..figure
        });
    }
    let html = page_of(&run.run()).unwrap().replace('\u{a0}', " ");
    let titles = html
        .split("-title\">")
        .skip(1)
        .filter_map(|it| it.split_once("</h"));
    let titles: Vec<&str> = titles.map(|it| it.0).collect();
    let distinct: HashSet<&&str> = titles.iter().collect();
    assert_eq!((titles.len(), distinct.len()), (12, 12), "{titles:#?}");
    for end in [
        "rate (rate 10 k/s)",
        "against rate: a",
        "against rate: b",
        "rate (again)",
        "rate (table)",
    ] {
        assert!(
            titles.iter().any(|it| it.ends_with(end)),
            "{end}: {titles:#?}"
        );
    }
}

#[test]
fn one_value_a_cell_has_no_words_of_intervals() {
    let mut run = ladder(&["a", "b"]);
    run.plan.kind = "model".to_owned();
    run.plan.stages[0].repeats = Repeats::fixed(1);
    run.records.retain(|it| it.repeat == 0);
    run.measured("main-006-00").fault = None;
    for figure in run.plan.figures.clone() {
        let svg = drawn(&run, &figure.name).svg;
        let about = "ladder · 1 trial per cell";
        let svg = svg.replace(about, "").replace("medians", "");
        for word in ["interval", "range of", "trial", "median of", " ["] {
            let is_class = word == "interval" && svg.contains("class=\"interval\"");
            assert!(
                !svg.contains(word) && !is_class,
                "{} {word}: {svg}",
                figure.name
            );
        }
    }
}

#[test]
fn what_is_missing_is_said_and_interrupts_lines() {
    let mut run = ladder(&["a", "b"]);
    run.records
        .retain(|it| it.cell != 1 && it.id != "main-004-02");
    let curve = drawn(&run, "curve");
    let document = Document::parse(&curve.svg).unwrap();
    let absent = in_data(&document, "absent");
    let hints: Vec<&str> = absent.iter().map(hint).collect();
    assert_eq!(
        hints,
        [
            "a, at 20 k/s: 3 of 3 trials missing",
            "b, at 10 k/s: 1 of 3 trials missing"
        ]
    );
    let lines = in_data(&document, "median");
    let lengths = lines
        .iter()
        .map(|it| it.attribute("points").unwrap().split(' ').count());
    // Of a, two points are left; the published line is whole.
    assert_eq!(lengths.collect::<Vec<_>>(), [2, 2, 4]);
    for note in ["No value: a, at 20 k/s.", "Missing: 4 trials: "] {
        assert!(curve.svg.contains(note), "{note}: {}", curve.svg);
    }
}

#[test]
fn the_knee_is_ringed_and_named_and_the_diagonal_is_asked_for() {
    let mut run = ladder(&["a", "b"]);
    let svg = drawn(&run, "curve").svg;
    let document = Document::parse(&svg).unwrap();
    assert_eq!(in_data(&document, "ring").len(), 2);
    assert!(
        legend(&svg).contains(&"a (knee 20 k/s)".to_owned()),
        "{:?}",
        legend(&svg)
    );
    assert!(in_data(&document, "guide").is_empty());
    run.plan.figures[0].diagonal = true;
    let svg = drawn(&run, "curve").svg;
    let document = Document::parse(&svg).unwrap();
    assert_eq!(in_data(&document, "guide").len(), 1);
}

#[test]
fn all_data_lies_within_the_frame_and_the_legend_without() {
    let run = ladder(&["a", "b", "c"]);
    for name in ["curve", "bars", "cdf", "scatter", "stack", "ratios"] {
        let svg = drawn(&run, name).svg;
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        let document = Document::parse(&svg).unwrap();
        let plot = in_data(&document, "data")[0]
            .attribute("data-plot")
            .unwrap();
        let sides: Vec<f64> = plot.split(' ').map(|it| it.parse().unwrap()).collect();
        let (left, top) = (sides[0], sides[1]);
        let (right, bottom) = (left + sides[2], top + sides[3]);
        for mark in in_data(&document, "mark") {
            let at = mark.attribute("transform").unwrap();
            let at = at
                .trim_start_matches("translate(")
                .split(')')
                .next()
                .unwrap();
            let (x, y) = at.split_once(' ').unwrap();
            let [x, y] = [x, y].map(|it| it.parse::<f64>().unwrap());
            assert!(
                left <= x && x <= right && top <= y && y <= bottom,
                "{name}: {x} {y}"
            );
        }
        let mut nodes = document.descendants();
        let legend = nodes.find(|it| class(it) == "legend").unwrap();
        for text in legend.descendants().filter(|it| it.has_tag_name("text")) {
            let y: f64 = text.attribute("y").unwrap().parse().unwrap();
            assert!(y < top - 5.0, "{name}: {text:?}");
        }
    }
}

#[test]
fn runs_with_little_or_hostile_in_them_still_draw() {
    let full = || ladder(&["a", "b", "c"]);
    let (mut empty, mut one, mut zero, mut hostile) = (full(), full(), full(), full());
    empty.records.clear();
    one.records.truncate(1);
    for record in &mut zero.records {
        let Outcome::Measured(measured) = &mut record.outcome else {
            continue;
        };
        measured.metrics.values_mut().for_each(|it| *it = 0.0);
    }
    let script = "</title><script>\"'&";
    hostile.plan.published[0].source = script.to_owned();
    hostile.plan.factors[0].title = script.to_owned();
    hostile.measured("main-004-01").fault = Some(fault(FaultClass::Failing, script));
    for (name, run) in [
        ("empty", empty),
        ("one", one),
        ("zero", zero),
        ("hostile", hostile),
    ] {
        for figure in &run.plan.figures {
            let svg = drawn(&run, &figure.name).svg;
            let is_number = !svg.contains("NaN") && !svg.contains("inf");
            assert!(
                is_number && !svg.contains("<script"),
                "{name} {}",
                figure.name
            );
            assert!(svg.contains(r##"fill="#FFFFFF""##), "white paper");
            Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn the_description_has_the_values_of_each_series() {
    let run = ladder(&["a", "c"]);
    let svg = drawn(&run, "curve").svg;
    let document = Document::parse(&svg).unwrap();
    let mut nodes = document.descendants();
    let text = nodes
        .find(|it| it.has_tag_name("desc"))
        .unwrap()
        .text()
        .unwrap();
    for words in [
        "at 10 k/s 155 µs [150, 159], 3 trials;",
        "fails here",
        "published 180 µs",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Six kinds, byte for byte. To accept changes, run with `GOLDEN=write` and look at the files.
#[test]
fn figures_of_six_kinds_are_as_they_were() {
    let run = ladder(&["a", "b", "c"]);
    let place = tempfile::tempdir().unwrap();
    let folder = illustrated::written(&run, place.path());
    let figures = crate::figures_of(&Run::open(&folder).unwrap()).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/golden");
    for name in ["curve", "bars", "cdf", "scatter", "stack", "ratios"] {
        let drawn = figures.iter().find(|it| it.name == name).unwrap();
        let path = golden.join(format!("{name}.svg"));
        if std::env::var_os("GOLDEN").is_some_and(|it| it == "write") {
            fs::write(&path, &drawn.svg).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert!(expected == drawn.svg, "{} differs", path.display());
    }
}

#[test]
fn only_requested_figures_are_drawn_each_once() {
    let place = tempfile::tempdir().unwrap();
    let mut run = ladder(&["a", "b"]);
    run.plan.figures.truncate(1);
    run.plan.figures.push(run.plan.figures[0].clone());
    let folder = run.write(place.path());
    let rendered = crate::render(&folder).unwrap();
    let files = ["figures/curve.svg", "figures/curve.csv"];
    let expected: Vec<PathBuf> = files.map(|name| folder.join(name)).into();
    assert_eq!(rendered.figures, expected);
    // Nothing half-written stays behind.
    let entries = fs::read_dir(folder.join("figures")).unwrap();
    assert_eq!(entries.count(), 2);
}
