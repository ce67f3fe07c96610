//! Comparisons of cells in which several factors change together.

use std::collections::BTreeMap;

use crate::record::{
    Better, Factor, Factors, Measured, Outcome, Record, Repeats, Stage, Unit, Value,
};
use crate::tests::general_run::{General, REPEATS, SplitMix, metric};
use crate::{page_of, text_summary};

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

fn page(run: &General) -> String {
    let html = page_of(&run.run()).unwrap();
    html.replace('\u{a0}', " ").replace("&#39;", "'")
}

fn sentence(run: &General) -> String {
    let html = page(run);
    let (_, rest) = html.split_once("id=\"answer\">").unwrap();
    rest.split_once("</p>").unwrap().0.to_owned()
}

#[test]
fn servers_are_compared_although_their_caches_and_pools_differ_too() {
    let cells: Vec<Cell> = TABLE
        .into_iter()
        .map(|(server, cache, pool, operation, .., ms)| {
            (server, cache, pool, operation, 4.0, 25.0, ms)
        })
        .collect();
    let answer = sentence(&run(&cells));
    // The difference may be that of the caches or of the pools.
    let start = "For operation GET, the response time for server threaded, with cache locks \
                 instead of plain and pool queue instead of one, is 0.5";
    assert!(answer.starts_with(start), "{answer}");
    assert!(
        answer.contains("] times that for server unthreaded; "),
        "{answer}"
    );
    let html = page(&run(&cells));
    let about = "Each cell is compared with the cell for server unthreaded whose other factors are \
                 equal, except those that change with it: cache and pool.";
    assert!(html.contains(about), "{html}");
    assert!(html.contains("÷ that for server unthreaded"));
    assert!(html.contains("Other differences"));
    // Columns that follow from the server are in the part on cells only.
    let (front, _) = html.split_once("</header>").unwrap();
    assert!(front.contains("The part Cells has the factors that follow from those shown."));
    let text = text_summary(&run(&cells).run());
    assert!(text.contains("\nserver · operation "), "{text}");
    assert!(text.contains("\nthreaded · SET "), "{text}");
}

#[test]
fn numbers_that_differ_too_are_told_in_the_sentence_and_in_the_table() {
    let run = run(&TABLE);
    let answer = sentence(&run);
    let caches = "the response time for server threaded, with cache locks instead of plain, pool \
                  queue instead of one";
    let of_get =
        format!("{caches}, requests 25 instead of 100 and 4 client hosts instead of 5, is");
    assert!(answer.contains(&of_get), "{answer}");
    let of_set = format!("{caches} and 4 client hosts instead of 5, is 0.5");
    assert!(answer.contains(&of_set), "{answer}");
    let html = page(&run);
    assert!(html.contains("Other differences</th>"));
    assert!(
        html.contains("pool queue instead of one and 4 client hosts instead of 5</td>"),
        "{html}"
    );
    assert!(text_summary(&run.run()).contains("instead of 5"));
}

#[test]
fn a_count_of_comparisons_says_in_how_many_what_differs_too() {
    let mut cells = TABLE.to_vec();
    cells.extend([
        ("polling", "locks", "queue-poll", "GET", 4.0, 10.0, 2.0),
        ("polling", "locks", "queue-poll", "SET", 4.0, 10.0, 2.0),
    ]);
    let answer = sentence(&run(&cells));
    let start = "Against server unthreaded, the response time is better in 2 of 4 comparisons ";
    assert!(answer.starts_with(start), "{answer}");
    let rest = ", with cache locks instead of plain, with other values of pool, with other values \
                of requests in 3 of 4 and with 4 client hosts instead of 5.";
    assert!(answer.ends_with(rest), "{answer}");
}
