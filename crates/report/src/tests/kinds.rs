//! The kinds of figures: each shows the numbers of the trials, and says what is missing.

use roxmltree::{Document, Node};

use crate::figure::{Figure, FigureKind, Scale};
use crate::page_of;
use crate::record::{Fault, FaultClass, Flag, Outcome, Value};
use crate::tests::general_run::{General, REPEATS, invalid};
use crate::tests::illustrated::{SECONDS, drawn, figures, run, sizes};

/// The values of a metric in the trials of a cell.
fn values(run: &General, cell: u32, metric: &str) -> Vec<f64> {
    let of_cell = run.records.iter().filter(|record| record.cell == cell);
    of_cell.filter_map(|record| record.number(metric)).collect()
}

fn median(run: &General, cell: u32, metric: &str) -> f64 {
    measure::median(&values(run, cell, metric)).unwrap()
}

/// The elements of the data with a class.
pub(crate) fn in_data<'a>(document: &'a Document, class: &str) -> Vec<Node<'a, 'a>> {
    let of_class = |node: &Node, class: &str| {
        let classes = node.attribute("class").unwrap_or_default();
        classes.split(' ').any(|name| name == class)
    };
    let mut nodes = document.descendants();
    let data = nodes.find(|node| of_class(node, "data")).expect("data");
    data.descendants()
        .filter(|node| of_class(node, class))
        .collect()
}

fn title<'a>(node: &Node<'a, 'a>) -> &'a str {
    let title = node.children().find(|node| node.has_tag_name("title"));
    title.and_then(|title| title.text()).unwrap_or_default()
}

/// The declaration of that name.
fn figure<'a>(run: &'a mut General, name: &str) -> &'a mut Figure {
    let mut figures = run.plan.figures.iter_mut();
    figures.find(|it| it.name == name).unwrap()
}

pub(crate) fn fault(class: FaultClass, reason: &str) -> Fault {
    let reason = reason.to_owned();
    Fault {
        class,
        reason,
        spares: Vec::new(),
    }
}

fn invalidate(run: &mut General, id: &str) {
    run.measured(id).fault = Some(fault(FaultClass::Invalid, "overheated"));
}

/// Removes the trials of a cell.
fn without_cell(run: &mut General, cell: u32) {
    run.records.retain(|record| record.cell != cell);
}

#[test]
fn bars_are_medians_with_intervals_and_trials() {
    let run = run();
    let bars = drawn(&run, "bars");
    let of_a = [("curve", "a"), ("threads", "1"), ("row", "median")];
    assert_eq!(bars.numbers("wall_ns", &of_a), [median(&run, 0, "wall_ns")]);
    let interval = measure::median_of_trials(&values(&run, 0, "wall_ns"), 0.95)
        .unwrap()
        .interval;
    let end = |column| bars.numbers(column, &of_a);
    assert_eq!(
        (end("low"), end("high")),
        (vec![interval.low], vec![interval.high])
    );
    let document = Document::parse(&bars.svg).unwrap();
    assert_eq!(in_data(&document, "bar").len(), 6);
    assert_eq!(in_data(&document, "interval").len(), 6);
    let dots = in_data(&document, "mark").len();
    assert_eq!(dots, 70, "a dot for each measured trial");
    assert_eq!(in_data(&document, "grey").len(), 1);
    assert!(bars.svg.contains("95 % interval of the median"));
    for note in [
        "Grey, do not count: 1 (clock stepped) of 70 trials.",
        "Missing: 2 trials: a, threads 4 (1) and c, threads 4 (1).",
    ] {
        assert!(bars.svg.contains(note), "{note}: {}", bars.svg);
    }
}

#[test]
fn a_bar_without_a_value_is_named_and_the_other_colours_stay() {
    let mut run = run();
    without_cell(&mut run, 1);
    for cell in [2, 3] {
        without_cell(&mut run, cell);
    }
    let bars = drawn(&run, "bars");
    assert!(
        bars.svg
            .contains("No value: a, with 4 threads; b, with 1 threads; b, with 4 threads."),
        "{}",
        bars.svg
    );
    let document = Document::parse(&bars.svg).unwrap();
    let series = in_data(&document, "series");
    let is_c = |it: &&Node| it.attribute("data-series") == Some("c");
    let last = series.iter().find(is_c).unwrap();
    assert_eq!(last.attribute("class"), Some("series s2"));
    assert_eq!(
        bars.column("flag", &[("curve", "b"), ("row", "missing")]),
        ["12 of 12"; 2]
    );
}

#[test]
fn bars_of_few_trials_show_their_range_and_say_so() {
    let mut run = run();
    run.plan.stages[0].repeats.least = 3;
    run.plan.stages[0].repeats.most = 3;
    run.records.retain(|record| record.repeat < 3);
    let bars = drawn(&run, "bars");
    assert!(bars.svg.contains("range of the trials"), "{}", bars.svg);
    assert!(
        bars.svg.contains("six give a 95 % interval"),
        "{}",
        bars.svg
    );
    let of_a = values(&run, 0, "wall_ns");
    let least = of_a.iter().copied().reduce(f64::min).unwrap();
    let of_a = [("curve", "a"), ("threads", "1"), ("row", "median")];
    let low = bars.numbers("low", &of_a);
    assert_eq!(low, [least]);
}

#[test]
fn bars_without_a_zero_are_markers() {
    let bars = drawn(&run(), "bars-log");
    let document = Document::parse(&bars.svg).unwrap();
    assert!(in_data(&document, "bar").is_empty());
    assert!(bars.svg.contains("Markers instead of bars"), "{}", bars.svg);
}

#[test]
fn bars_mark_lower_bounds() {
    let mut run = run();
    for record in run.records.iter_mut().filter(|record| record.cell == 0) {
        let Outcome::Measured(measured) = &mut record.outcome else {
            continue;
        };
        let flag = Flag {
            lower_bound: true,
            invalid: None,
        };
        measured.flags.insert("wall_ns".to_owned(), flag);
    }
    let bars = drawn(&run, "bars");
    let document = Document::parse(&bars.svg).unwrap();
    assert_eq!(in_data(&document, "bound").len(), 1);
    assert!(
        bars.svg.contains("Lower bounds: in 12 of 70 trials"),
        "{}",
        bars.svg
    );
    let of_a = [("curve", "a"), ("threads", "1"), ("row", "median")];
    assert_eq!(bars.column("flag", &of_a), ["lower bound"]);
}

#[test]
fn bars_without_x_have_a_place_for_each_cell() {
    let mut run = run();
    let bars = figure(&mut run, "bars");
    (bars.x, bars.by) = (None, None);
    let bars = drawn(&run, "bars");
    let document = Document::parse(&bars.svg).unwrap();
    assert_eq!(in_data(&document, "bar").len(), 6);
    assert!(
        bars.svg.contains(">version, threads</text>"),
        "{}",
        bars.svg
    );
}

#[test]
fn a_distribution_merges_the_histograms_of_a_cell() {
    let mut run = run();
    for id in ["main-000-00", "main-000-01"] {
        invalidate(&mut run, id);
    }
    let cdf = drawn(&run, "cdf");
    // Half of the values are at most 100 µs, to three digits of the histogram.
    let [half] = cdf.numbers("response", &[("curve", "a"), ("row", "p50")])[..] else {
        panic!("{:?}", cdf.rows);
    };
    assert!((half / 100_000.0 - 1.0).abs() < 2e-3, "{half}");
    let count = cdf.column("count", &[("curve", "a"), ("row", "p50")]);
    assert_eq!(count, [format!("{}", (REPEATS - 2) * 100)]);
    for curve in ["a", "b"] {
        let shares = cdf.numbers("share", &[("curve", curve), ("row", "point")]);
        assert!(
            shares.is_sorted() && shares.last() == Some(&1.0),
            "{shares:?}"
        );
    }
    for note in [
        "Not drawn: c, without this measurement.",
        "Grey, do not count: 2 (overheated) of 24 trials.",
    ] {
        assert!(cdf.svg.contains(note), "{note}: {}", cdf.svg);
    }
    assert!(cdf.svg.contains("p99 198 µs"), "{}", cdf.svg);
}

#[test]
fn a_histogram_that_cannot_be_read_is_said_to_be_missing() {
    let mut run = run();
    let wrong = [
        ("main-000-01", "../secret.hist#response"),
        ("main-000-02", "gone.hist"),
    ];
    for (id, path) in wrong {
        let artefacts = &mut run.measured(id).artefacts;
        artefacts.insert("response".to_owned(), path.to_owned());
    }
    let cdf = drawn(&run, "cdf");
    let note = "Not drawn: 2 trials without this histogram, or with one that cannot be read.";
    assert!(cdf.svg.contains(note), "{}", cdf.svg);
}

#[test]
fn a_distribution_of_a_metric_is_the_staircase_of_its_trials() {
    let mut run = run();
    let cdf = figure(&mut run, "cdf");
    cdf.y = "wall_ns".to_owned();
    let cdf = drawn(&run, "cdf");
    let mut expected = values(&run, 0, "wall_ns");
    expected.sort_by(f64::total_cmp);
    let points = [("curve", "a"), ("row", "point")];
    assert_eq!(cdf.numbers("wall_ns", &points), expected);
    let shares = cdf.numbers("share", &points);
    assert_eq!((shares[0], shares[11]), (1.0 / 12.0, 1.0));
}

#[test]
fn a_logarithmic_distribution_shows_the_share_above() {
    let mut run = run();
    let cdf = figure(&mut run, "cdf");
    cdf.scale = Scale::Log;
    assert!(
        drawn(&run, "cdf")
            .svg
            .contains("share of values above (log scale)")
    );
}

#[test]
fn the_shares_of_each_decile_sum_to_one() {
    let mut run = run();
    // Shares of another trial differ: the figure shows the mean.
    let other: Vec<f64> = sizes().chunks(2).flat_map(|row| [row[1], row[0]]).collect();
    for repeat in 0..REPEATS / 2 {
        let measured = run.measured(&format!("main-002-{repeat:02}"));
        measured.series.insert("sizes".to_owned(), other.clone());
    }
    for cell in [0, 1, 3] {
        without_cell(&mut run, cell);
    }
    let deciles = drawn(&run, "deciles-b");
    for decile in 1..=10 {
        let decile = decile.to_string();
        let shares = deciles.numbers("share", &[("decile", &decile)]);
        assert!(
            (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9,
            "{shares:?}"
        );
        assert!((shares[0] - 0.5).abs() < 1e-9, "{shares:?}");
    }
    let document = Document::parse(&deciles.svg).unwrap();
    assert_eq!(in_data(&document, "shade").len(), 20);
    for words in ["small", "large", "Shares are means over 12 trials."] {
        assert!(deciles.svg.contains(words), "{words}: {}", deciles.svg);
    }
}

#[test]
fn series_that_are_not_ten_rows_of_shares_are_left_out() {
    let mut run = run();
    run.measured("main-000-00")
        .series
        .insert("sizes".to_owned(), vec![0.5; 15]);
    run.measured("main-000-01")
        .series
        .insert("sizes".to_owned(), vec![0.2; 20]);
    run.measured("main-000-02").series.remove("sizes");
    let deciles = drawn(&run, "deciles-a");
    for note in [
        "Not drawn: 2 trials whose series is not ten rows of as many shares that sum to 1.",
        "Not drawn: 1 trial without this series.",
        "Merged: the trials differ in threads.",
    ] {
        assert!(deciles.svg.contains(note), "{note}: {}", deciles.svg);
    }
    let first = deciles.numbers("share", &[("decile", "1"), ("class", "small")]);
    assert!((first[0] - 0.9).abs() < 1e-9, "{first:?}");
}

#[test]
fn a_heat_map_has_the_median_at_each_time() {
    let mut run = run();
    for repeat in 6..REPEATS {
        let measured = run.measured(&format!("main-000-{repeat:02}"));
        measured
            .series
            .get_mut("rates")
            .unwrap()
            .truncate(SECONDS - 2);
    }
    without_cell(&mut run, 1);
    let heat = drawn(&run, "heat");
    let of_a = [("version", "a")];
    let times = heat.numbers("time_s", &of_a);
    assert_eq!((times[0], times[1], times.len()), (0.0, 0.5, SECONDS));
    // Twelve repeats begin at 1000 + repeat; the last two numbers are of the first six.
    let medians = heat.numbers("rates", &of_a);
    assert_eq!((medians[0], medians[SECONDS - 1]), (1005.5, 1112.5));
    for note in [
        "No value: c.",
        "Not drawn: 23 trials without this series.",
        "Series of different lengths, at whose end are fewer trials: a.",
        "rates: 1.01 k/s to 1.12 k/s",
        "blank: no number",
    ] {
        assert!(heat.svg.contains(note), "{note}: {}", heat.svg);
    }
    let document = Document::parse(&heat.svg).unwrap();
    assert_eq!(in_data(&document, "shade").len(), 2 * SECONDS);
    let html = page_of(&run.run()).unwrap();
    assert!(html.contains("<p>Each row combines all values of threads.</p>"));
}

#[test]
fn series_of_trials_that_do_not_count_are_pale() {
    let mut run = run();
    let ids: Vec<String> = run.records.iter().map(|it| it.id.clone()).collect();
    for id in ids.iter().filter(|it| *it != "main-001-03") {
        invalidate(&mut run, id);
    }
    for (name, opacity) in [("heat", "0.3"), ("deciles-a", "0.3")] {
        let files = drawn(&run, name);
        let document = Document::parse(&files.svg).unwrap();
        let shades = in_data(&document, "shade");
        let is_pale = |it: &Node| it.attribute("fill-opacity") == Some(opacity);
        assert!(!shades.is_empty() && shades.iter().all(is_pale), "{name}");
        assert!(files.svg.contains("Grey, do not count: "), "{name}");
    }
}

#[test]
fn a_scatter_has_a_marker_for_each_cell_and_marks_the_best() {
    let run = run();
    let scatter = drawn(&run, "scatter");
    // Its trial with a stepped clock does not count.
    let mut wall = values(&run, 3, "wall_ns");
    wall.remove(4);
    let rows = [("curve", "b")];
    assert_eq!(
        scatter.numbers("wall_ns", &rows)[1],
        measure::median(&wall).unwrap()
    );
    let energy = scatter.numbers("energy_j", &rows);
    assert_eq!(
        energy,
        [median(&run, 2, "energy_j"), median(&run, 3, "energy_j")]
    );
    let document = Document::parse(&scatter.svg).unwrap();
    let mut marks = in_data(&document, "mark");
    marks.retain(|it| !it.attribute("class").unwrap().contains("ring"));
    assert_eq!(marks.len(), 4, "version c has no energy");
    let absent = "No value: c, threads 1; c, threads 4.";
    assert!(scatter.svg.contains(absent), "{}", scatter.svg);
    // Version b with four threads is the fastest.
    let best = in_data(&document, "ring");
    let fastest = marks
        .iter()
        .find(|mark| title(mark).starts_with("b, threads 4:"))
        .unwrap();
    let at = best[0].attribute("transform").unwrap();
    assert!(
        fastest.attribute("transform").unwrap().starts_with(at),
        "{at}"
    );
    assert!(
        scatter
            .svg
            .contains("best wall time: b, threads 4 (797 ms)"),
        "{}",
        scatter.svg
    );
    assert!(
        scatter
            .svg
            .contains("Grey, do not count: 1 (clock stepped) of 70 trials."),
        "{}",
        scatter.svg
    );
    // The area shows the number of threads.
    for words in [
        "area: threads",
        ">1</text>",
        ">4</text>",
        "drift, of the clock: ",
    ] {
        assert!(scatter.svg.contains(words), "{words}: {}", scatter.svg);
    }
    assert!(fastest.attribute("class").unwrap().contains("shaded h"));
}

#[test]
fn a_cell_of_mostly_invalid_trials_is_grey() {
    let mut run = run();
    for repeat in 0..7 {
        invalidate(&mut run, &format!("main-000-{repeat:02}"));
    }
    for name in ["scatter", "pareto"] {
        let scatter = drawn(&run, name);
        let document = Document::parse(&scatter.svg).unwrap();
        let grey = in_data(&document, "grey");
        assert_eq!(grey.len(), 1, "{name}");
        let hint = title(&grey[0]);
        assert!(hint.starts_with("a, threads 1:"), "{hint}");
        assert!(hint.ends_with("does not count: overheated"), "{hint}");
        let note =
            "Grey, do not count: 1 (clock stepped), 7 (overheated) of 70 trials. A cell has no";
        assert!(scatter.svg.contains(note), "{}", scatter.svg);
    }
}

#[test]
fn cells_without_size_or_value_are_named() {
    let mut run = run();
    let scatter = figure(&mut run, "scatter");
    (scatter.x, scatter.size) = (Some("threads".to_owned()), Some("energy_j".to_owned()));
    without_cell(&mut run, 0);
    let scatter = drawn(&run, "scatter");
    for note in [
        "No value: a, with 1 threads.",
        "No energy, drawn at the least size: c, with 1 threads; c, with 4 threads.",
    ] {
        assert!(scatter.svg.contains(note), "{note}: {}", scatter.svg);
    }
}

#[test]
fn the_front_has_the_cells_that_no_other_beats() {
    let mut run = run();
    // Wall time and energy of each cell: c with one thread is beaten by b with four.
    let medians = [
        (8e8, 50.0),
        (6e8, 70.0),
        (9e8, 40.0),
        (7e8, 45.0),
        (8e8, 46.0),
        (9e8, 90.0),
    ];
    for record in &mut run.records {
        let (wall_ns, energy_j) = medians[record.cell as usize];
        let Outcome::Measured(measured) = &mut record.outcome else {
            continue;
        };
        measured.metrics.insert("wall_ns".to_owned(), wall_ns);
        measured.metrics.insert("energy_j".to_owned(), energy_j);
    }
    let pareto = drawn(&run, "pareto");
    let on_front: Vec<(f64, f64)> = pareto
        .numbers("wall_ns", &[("front", "front")])
        .into_iter()
        .zip(pareto.numbers("energy_j", &[("front", "front")]))
        .collect();
    assert_eq!(on_front, [(6e8, 70.0), (9e8, 40.0), (7e8, 45.0)]);
    let document = Document::parse(&pareto.svg).unwrap();
    let line = in_data(&document, "pareto")[0]
        .attribute("points")
        .unwrap()
        .to_owned();
    // Three cells and two corners between them.
    assert_eq!(line.split(' ').count(), 5, "{line}");
    let note = "Front: no other cell is at least as good in both and better in one.";
    assert!(pareto.svg.contains(note), "{}", pareto.svg);
}

#[test]
fn a_table_has_medians_and_intervals_and_says_what_is_missing() {
    let mut run = run();
    without_cell(&mut run, 1);
    run.measured("main-000-00")
        .flags
        .insert("wall_ns".to_owned(), invalid("overheated"));
    for record in run.records.iter_mut().filter(|record| record.cell == 4) {
        let Outcome::Measured(measured) = &mut record.outcome else {
            continue;
        };
        let flag = Flag {
            lower_bound: true,
            invalid: None,
        };
        measured.flags.insert("wall_ns".to_owned(), flag);
    }
    let table = drawn(&run, "table");
    let of_b = [("curve", "b"), ("threads", "1")];
    assert_eq!(
        table.numbers("wall_ns", &of_b),
        [median(&run, 2, "wall_ns")]
    );
    let of_a = [("curve", "a"), ("threads", "1")];
    assert_eq!(table.column("trials", &of_a), ["11"]);
    assert_eq!(table.column("flag", &of_a), [""]);
    for words in [
        "No value: a, with 4 threads.",
        "In brackets: 95 % interval of the median.",
        "Lower bounds: in 12 of",
        ">no value</text>",
        ">≥",
    ] {
        assert!(table.svg.contains(words), "{words}: {}", table.svg);
    }
    run.plan
        .figures
        .retain(|figure| figure.kind == FigureKind::Table);
    let html = page_of(&run.run()).unwrap().replace('\u{a0}', " ");
    let (_, html) = html
        .split_once("aria-label=\"Wall time against threads\"")
        .unwrap();
    let (html, _) = html.split_once("</table>").unwrap();
    assert!(
        html.contains("<th scope=\"row\">4</th><td class=\"grey\">no value</td>"),
        "{html}"
    );
    assert!(html.contains("<td>≥"), "{html}");
}

#[test]
fn nothing_measured_is_drawn_as_nothing() {
    let mut run = run();
    run.records.clear();
    let panels = |name: &str| {
        if name == "deciles" {
            "deciles-a".to_owned()
        } else {
            name.to_owned()
        }
    };
    for figure in figures() {
        let files = drawn(&run, &panels(&figure.name));
        Document::parse(&files.svg).unwrap();
        assert!(
            !files.svg.contains("NaN") && !files.svg.contains("inf"),
            "{}",
            figure.name
        );
        assert!(files.svg.contains("Missing: 72 trials"), "{}", figure.name);
    }
}

#[test]
fn hostile_names_stay_text_in_every_kind() {
    let mut run = run();
    let hostile = "<script>\"'&{{1}}";
    run.plan.factors[1].title = hostile.to_owned();
    run.plan.factors[1].phrase = Some(hostile.to_owned());
    run.plan.metrics[0].title = hostile.to_owned();
    run.measured("main-000-00").fault = Some(fault(FaultClass::Invalid, hostile));
    for figure in &mut run.plan.figures {
        figure.classes = figure.classes.iter().map(|_| hostile.to_owned()).collect();
        figure.y_title = Some(hostile.to_owned());
    }
    for figure in figures().iter().filter(|figure| figure.panel.is_none()) {
        let svg = drawn(&run, &figure.name).svg;
        Document::parse(&svg).unwrap();
        assert!(!svg.contains("<script"), "{}", figure.name);
    }
    let html = page_of(&run.run()).unwrap();
    assert_eq!(html.matches("<script").count(), 1);
}

#[test]
fn keys_without_effect_are_refused() {
    let run = run();
    let figures = figures();
    let heat = figures
        .iter()
        .find(|it| it.kind == FigureKind::HeatMap)
        .unwrap();
    let mut heat = heat.clone();
    heat.scale = Scale::Log;
    let refused = crate::figure::check(&heat, &run.plan).unwrap_err();
    assert_eq!(
        refused,
        "figure `heat`: `scale` has no effect on a heat-map"
    );
    heat.scale = Scale::Linear;
    heat.only = [("version".to_owned(), Value::from("z"))].into();
    assert!(crate::figure::check(&heat, &run.plan).is_err());
}
