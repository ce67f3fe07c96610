//! Comparisons of cells in which several factors change together.

use std::collections::BTreeMap;

use crate::record::{
    Better, Factor, Factors, Measured, Outcome, Record, Repeats, Stage, Unit, Value,
};
use crate::tests::general_run::{General, REPEATS, SplitMix, metric};
use crate::text_summary;

/// Server, cache, pool, operation, client hosts, requests, and the response time in milliseconds.
type Cell = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    f64,
    f64,
    f64,
);

const TABLE: [Cell; 4] = [
    ("unthreaded", "plain", "one", "GET", 5.0, 100.0, 1.0),
    ("unthreaded", "plain", "one", "SET", 5.0, 25.0, 1.0),
    ("threaded", "locks", "queue", "GET", 4.0, 25.0, 0.5),
    ("threaded", "locks", "queue", "SET", 4.0, 25.0, 0.5),
];

/// A run of these cells.
fn run(cells: &[Cell]) -> General {
    let mut run = General::versions(7);
    run.records.clear();
    run.plan.figures.clear();
    run.plan.metrics = vec![metric("response_ns", "response time", "ns", Better::Lower)];
    let mut stage = Stage {
        name: "main".to_owned(),
        repeats: Repeats::fixed(REPEATS),
        cells: Vec::new(),
    };
    let mut random = SplitMix(7);
    for (index, (server, cache, pool, operation, clients, requests, ms)) in (0..).zip(cells) {
        let names = [
            ("server", server),
            ("cache", cache),
            ("pool", pool),
            ("operation", operation),
        ];
        let numbers = [("host.clients", *clients), ("requests", *requests)];
        let names = names.map(|(name, text)| (name.to_owned(), Value::from(*text)));
        let numbers = numbers.map(|(name, number)| (name.to_owned(), Value::from(number)));
        let factors = Factors::from_iter(names.into_iter().chain(numbers));
        stage.cells.push(factors.clone());
        for repeat in 0..REPEATS {
            let response_ns = ms * 1e6 * random.about(0.02);
            run.records.push(Record {
                id: format!("main-{index:03}-{repeat:02}"),
                stage: "main".to_owned(),
                cell: index,
                repeat,
                retries: 0,
                factors: factors.clone(),
                resolved: BTreeMap::new(),
                started_unix_ns: 1_795_223_563_000_000_000,
                outcome: Outcome::Measured(Measured {
                    metrics: BTreeMap::from([("response_ns".to_owned(), response_ns)]),
                    ..Measured::default()
                }),
                notes: Vec::new(),
            });
        }
    }
    let order = [
        "server",
        "operation",
        "cache",
        "pool",
        "requests",
        "host.clients",
    ];
    run.plan.factors = order.map(|name| factor(name, &stage.cells)).to_vec();
    run.plan.stages = vec![stage];
    run
}

fn factor(name: &str, cells: &[Factors]) -> Factor {
    let mut values: Vec<Value> = Vec::new();
    for value in cells.iter().filter_map(|cell| cell.get(name)) {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    let mut factor = Factor::new(name, values);
    if name == "host.clients" {
        factor.title = "client hosts".to_owned();
        factor.unit = Some(Unit::count());
        factor.phrase = Some("with {} client hosts".to_owned());
    }
    factor
}

#[test]
fn servers_are_compared_although_their_caches_and_pools_differ_too() {
    let cells: Vec<Cell> = TABLE
        .into_iter()
        .map(|(server, cache, pool, operation, .., ms)| {
            (server, cache, pool, operation, 4.0, 25.0, ms)
        })
        .collect();
    let answer = run(&cells).sentence();
    let start = "The response time for server threaded is 0.5";
    assert!(answer.starts_with(start), "{answer}");
    let end = " times that for server unthreaded, for operation GET and SET.";
    assert!(answer.ends_with(end), "{answer}");
    let html = run(&cells).page();
    let about = "Each cell is compared with the cell for server unthreaded whose other factors are \
                 equal, except those that change with it: cache and pool.";
    assert!(html.contains(about), "{html}");
    assert!(html.contains("÷ unthreaded"));
    assert!(html.contains("Other differences"));
    // Columns that follow from the server are in the part on cells only.
    let (front, _) = html.split_once("</header>").unwrap();
    assert!(front.contains("The part Cells has the factors that follow from those shown."));
    // The difference may be that of the caches or of the pools.
    let also = "Also different from what they are compared with: with cache locks instead of plain \
                and with pool queue instead of one.";
    assert!(front.contains(also), "{front}");
    let text = text_summary(&run(&cells).run());
    assert!(text.contains("\nserver · operation "), "{text}");
    assert!(text.contains("\nthreaded · SET "), "{text}");
}

#[test]
fn numbers_that_differ_too_are_told_in_the_tables() {
    let run = run(&TABLE);
    let html = run.page();
    assert!(html.contains("Other differences</th>"));
    assert!(
        html.contains("pool queue instead of one and 4 client hosts instead of 5</td>"),
        "{html}"
    );
}

#[test]
fn a_count_of_comparisons_says_in_how_many_what_differs_too() {
    let mut cells = TABLE.to_vec();
    cells.extend([
        ("polling", "locks", "queue-poll", "GET", 4.0, 10.0, 2.0),
        ("polling", "locks", "queue-poll", "SET", 4.0, 10.0, 2.0),
    ]);
    let run = run(&cells);
    let start = "Compared with unthreaded, the response time is 0.50 (threaded, SET) to 2.0";
    let answer = run.sentence();
    assert!(answer.starts_with(start), "{answer}");
    assert!(
        answer.ends_with(": better in 2 and worse in 2 of 4 comparisons."),
        "{answer}"
    );
    let rest = ": with cache locks instead of plain, with other values of pool, with other values \
                of requests in 3 of 4 and with 4 client hosts instead of 5.";
    assert!(run.page().contains(rest));
}
