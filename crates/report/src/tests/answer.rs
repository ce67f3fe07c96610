//! The head of the page: one sentence and one table, that claim no more than the run shows.

use crate::cache::Vary;
use crate::cache::folder::{Outcome, Sweep};
use crate::tests::synthetic::{self, LEVELS, REPEATS, Synthetic};

/// The head as text: markup of characters and no-break spaces undone.
fn head(run: &Synthetic) -> String {
    let html = crate::page_of(&run.run()).unwrap();
    let (head, _) = html.split_once("</header>").unwrap();
    head.replace("&#39;", "'").replace('\u{a0}', " ")
}

fn sentence(run: &Synthetic) -> String {
    let head = head(run);
    let (_, rest) = head
        .split_once("<p class=\"answer\" id=\"answer\">")
        .unwrap();
    rest.split_once("</p>").unwrap().0.to_owned()
}

fn measurement(server: &str, cell: usize, repeat: u32) -> String {
    format!("s-{server}-{cell}-{repeat:02}")
}

/// Gives each trial of `to` in a cell the response times of the same repeat of `from`.
fn make_alike(ladder: &mut Synthetic, cell: usize, from: &str, to: &str) {
    for repeat in 0..REPEATS {
        let response = ladder
            .measurement(&measurement(from, cell, repeat))
            .response;
        ladder.measurement(&measurement(to, cell, repeat)).response = response;
    }
}

#[test]
fn the_page_begins_with_one_sentence_and_one_table_and_folds_the_rest() {
    let html = crate::page_of(&Synthetic::ladder(4).run()).unwrap();
    let (head, rest) = html.split_once("</header>").unwrap();
    assert_eq!(head.matches("class=\"answer\"").count(), 1);
    assert_eq!(head.matches("<table").count(), 1);
    assert_eq!(head.matches("<figure").count(), 0);
    assert_eq!(html.matches("<details class=\"part\">").count(), 6);
    assert_eq!(
        html.matches("<details").count(),
        6,
        "all folded, none nested"
    );
    let (_, main) = rest.split_once("<main>").unwrap();
    for part in main.split("<details").skip(1) {
        let (_, after) = part.split_once("</details>").unwrap();
        assert!(!after.contains("<p"), "nothing between the parts: {after}");
    }
}

#[test]
fn a_decided_ratio_is_the_answer_and_what_qualifies_it_follows() {
    let answer = sentence(&Synthetic::ladder(4));
    let start = "At load level 0.5 of each server's own capacity, curtail's p99 is 0.88 [";
    assert!(answer.starts_with(start), "{answer}");
    let rest = "] × memcached's; 2 of 16 cells have generator-limited trials; 3 of 250 trials are \
                missing; elder-cache was skipped.";
    assert!(answer.ends_with(rest), "{answer}");
}

#[test]
fn a_row_holds_capacity_percentiles_cost_and_marks() {
    let mut ladder = Synthetic::ladder(4);
    ladder.measurement("s-curtail-2-03").generator_limited = true;
    ladder.trials.retain(|trial| trial.id != "s-curtail-2-07");
    let head = head(&ladder);
    for column in [
        "Capacity",
        "Offered",
        "p50",
        "p99",
        "÷ memcached's",
        "p99.9",
        "per request",
    ] {
        assert!(head.contains(column), "{column}");
    }
    let (_, rest) = head.split_once("</svg>curtail</th>").unwrap();
    let (row, rest) = rest.split_once("</tr>").unwrap();
    for text in [
        "241 k/s",
        "121 k/s",
        "µs",
        "14 of 15",
        "1 generator-limited",
        "1 missing<",
    ] {
        assert!(row.contains(text), "{text}: {row}");
    }
    assert!(rest.contains("baseline"), "{rest}");
    assert!(rest.contains("skipped</span> not found on PATH"), "{rest}");
}

#[test]
fn a_ratio_whose_interval_holds_one_is_undecided() {
    let mut ladder = Synthetic::ladder(4);
    make_alike(&mut ladder, 2, "memcached", "curtail");
    let answer = sentence(&ladder);
    let undecided = "curtail's p99 against memcached's is undecided: the ratio is 1.00 [";
    assert!(answer.contains(undecided), "{answer}");
    assert!(head(&ladder).contains("<span class=\"badge\">undecided</span>"));
}

#[test]
fn too_few_trials_decide_nothing() {
    let mut ladder = Synthetic::ladder(4);
    ladder.plan.repeats = 3;
    ladder.trials.retain(|trial| trial.repeat < 3);
    for repeat in 0..3 {
        let id = measurement("curtail", 2, repeat);
        ladder.measurement(&id).response.as_mut().unwrap().p99 = 1_000;
    }
    let answer = sentence(&ladder);
    assert!(
        answer.contains("is undecided: the ratio is 0.00613"),
        "{answer}"
    );
    assert!(
        answer.contains(", from too few trials for a 95 % interval;"),
        "{answer}"
    );
}

#[test]
fn a_tail_that_the_generator_hides_has_no_ratio() {
    let mut ladder = Synthetic::ladder(4);
    for repeat in 0..8 {
        let id = measurement("curtail", 2, repeat);
        ladder.measurement(&id).generator_limited = true;
    }
    let answer = sentence(&ladder);
    let why = "curtail's p99 against memcached's is not known: the generator was the limit in 8 of \
               15 trials of curtail;";
    assert!(answer.contains(why), "{answer}");
    let head = head(&ladder);
    let (_, row) = head.split_once("</svg>curtail</th>").unwrap();
    let (row, _) = row.split_once("</tr>").unwrap();
    assert_eq!(
        row.matches("<td>–</td>").count(),
        4,
        "three percentiles and the ratio"
    );
}

#[test]
fn a_lower_bound_on_either_side_has_no_ratio() {
    let mut ladder = Synthetic::ladder(4);
    let measured = ladder.measurement("s-memcached-2-05");
    let count = measured.intended / 50;
    synthetic::censor(measured, count);
    let answer = sentence(&ladder);
    let why = "is not known: memcached's p99 is a lower bound in 1 of 15 trials, for requests were \
               never answered;";
    assert!(answer.contains(why), "{answer}");
}

#[test]
fn a_capacity_that_the_generator_limited_is_named_a_lower_bound() {
    let mut ladder = Synthetic::ladder(4);
    for repeat in 0..5 {
        let id = format!("c-curtail-0-{repeat:02}");
        ladder.measurement(&id).generator_limited = true;
    }
    let answer = sentence(&ladder);
    let caveat = "the capacity of curtail is a lower bound: the generator was the limit;";
    assert!(answer.contains(caveat), "{answer}");
    assert!(head(&ladder).contains("<td>≥24"));
}

#[test]
fn what_was_not_measured_is_not_known() {
    let mut ladder = Synthetic::ladder(4);
    ladder.trials.clear();
    let answer = sentence(&ladder);
    assert!(
        answer.contains("is not known: no trial of curtail was measured there"),
        "{answer}"
    );
    assert!(answer.contains("250 of 250 trials are missing"), "{answer}");
    let head = head(&ladder);
    assert_eq!(
        head.matches("<td>–</td>").count(),
        7 + 6,
        "missing is not zero"
    );
}

#[test]
fn one_server_is_compared_with_nothing() {
    let mut ladder = Synthetic::ladder(4);
    ladder.trials.retain(|trial| trial.server == "curtail");
    ladder.plan.servers.truncate(1);
    let answer = sentence(&ladder);
    assert!(
        answer.contains("own capacity, curtail's p99 is 1"),
        "{answer}"
    );
    assert!(
        answer.contains("no other server took part to compare it with"),
        "{answer}"
    );
    ladder.trials.clear();
    ladder.plan.servers[0].skipped = Some("not found".to_owned());
    let nothing = "No server took part: there is no answer; curtail was skipped.";
    assert_eq!(sentence(&ladder), nothing);
}

#[test]
fn several_servers_are_listed_by_what_is_known_of_them() {
    let mut ladder = Synthetic::ladder(4);
    ladder.plan.servers[2].skipped = None;
    let twins: Vec<_> = ladder
        .trials
        .iter()
        .filter(|trial| trial.server == "memcached")
        .map(|trial| {
            let mut twin = trial.clone();
            twin.id = trial.id.replace("memcached", "elder-cache");
            "elder-cache".clone_into(&mut twin.server);
            twin
        })
        .collect();
    ladder.trials.extend(twins);
    let answer = sentence(&ladder);
    let decided = "p99 as a multiple of elder-cache's is 0.88 [";
    assert!(answer.contains(decided), "{answer}");
    assert!(
        answer.contains("for curtail, undecided for memcached (1.00 ["),
        "{answer}"
    );
}

#[test]
fn rates_are_compared_at_half_of_the_baseline_s_capacity() {
    let mut ladder = Synthetic::ladder(4);
    let rates = LEVELS.map(|level| level * 212_000.0).to_vec();
    ladder.plan.sweep = Sweep::Rates(rates);
    for trial in &mut ladder.trials {
        trial.level = None;
    }
    let answer = sentence(&ladder);
    let start = "At 106 k/s offered (0.50 of memcached's capacity), curtail's p99 ";
    assert!(answer.starts_with(start), "{answer}");
}

#[test]
fn settings_are_compared_at_the_one_farthest_from_the_load_s_own() {
    let vary = || Vary::Connections(vec![16, 256, 15_360]);
    let rates = || Sweep::Rates(vec![40_000.0]);
    let mut run = Synthetic::varied(4, vary(), rates());
    let answer = sentence(&run);
    let start = "With 15 360 connections, at 40.0 k/s offered, curtail's p99 is ";
    assert!(answer.starts_with(start), "{answer}");
    assert!(head(&run).contains("Achieved"));
    run = Synthetic::varied_from(4, vary(), rates(), 2);
    assert!(sentence(&run).starts_with("With 16 connections, "));
    let levels = Sweep::LoadLevels(vec![0.2, 0.5, 0.9]);
    run = Synthetic::varied(4, Vary::Update(vec![0.03, 0.5]), levels);
    let answer = sentence(&run);
    assert!(
        answer.starts_with("With updates 50 %, at load level 0.5 of "),
        "{answer}"
    );
}

#[test]
fn a_check_that_fails_qualifies_the_answer() {
    let mut ladder = Synthetic::ladder(4);
    assert!(!sentence(&ladder).contains("Little"));
    ladder.measurement("s-curtail-2-02").outstanding_mean *= 1.5;
    let answer = sentence(&ladder);
    assert!(
        answer.contains("Little's law fails in 1 of 247 trials"),
        "{answer}"
    );
    for trial in &mut ladder.trials {
        if let Outcome::Measured(measured) = &mut trial.outcome {
            measured.generator_limited = false;
        }
    }
    assert!(!sentence(&ladder).contains("generator-limited"));
}
