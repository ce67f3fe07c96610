//! The page below its head: complete, self-contained, and safe for any names.

use crate::cache::folder::{LowerBounds, Outcome, Sweep};
use crate::tests::synthetic::{self, LEVELS, Synthetic};

fn page(run: &Synthetic) -> String {
    crate::page_of(&run.run()).unwrap()
}

/// The page below its head, which shows some cells a second time.
fn below_the_head(html: &str) -> &str {
    html.split_once("</header>").unwrap().1
}

#[test]
fn the_page_needs_no_network() {
    let html = page(&Synthetic::ladder(4));
    for foreign in [
        "http:", "https:", "src=", "@import", "<iframe", "<object", "<form", "fetch(",
    ] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    for (at, _) in html.match_indices("url(") {
        assert!(
            html[at..].starts_with("url(#clip-"),
            "{}",
            &html[at..at + 40]
        );
    }
    for (at, _) in html.match_indices("href=") {
        assert!(
            html[at..].starts_with("href=\"data:,\""),
            "{}",
            &html[at..at + 40]
        );
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn the_page_contains_findings_checks_and_plan() {
    let html = page(&Synthetic::ladder(4));
    for words in [
        "Up to what offered rate does each server keep up",
        "in closed loop",
        "the knee",
        "at load level 0.5",
        "at load level 0.9",
        "of CPU time",
        "times memcached&#39;s",
        "Little's law",
        "124 of 124",
        "generator-limited",
        "memcached at level 0.7",
        "server ended with signal 9",
        "<strong>elder-cache</strong> was skipped",
        "curtail lab run rate-ladder --seed 4",
        "Example Processor 9000",
        "load-levels = [",
        "s-memcached-4-03",
        "prefers-color-scheme: dark",
        "@media print",
    ] {
        let found = html.to_lowercase().contains(&words.to_lowercase());
        assert!(found, "{words}");
    }
    assert!(!html.contains("Quick run"));
}

#[test]
fn a_quick_run_is_marked_and_its_command_repeats_it() {
    let mut ladder = Synthetic::ladder(4);
    ladder.plan.quick = true;
    ladder.plan.notes = vec!["One processor: nothing is pinned.".to_owned()];
    let html = page(&ladder);
    assert!(html.contains("Quick run"));
    assert!(html.contains("curtail lab run rate-ladder --quick --seed 4"));
    assert!(html.contains("One processor: nothing is pinned."));
}

#[test]
fn hostile_names_stay_text() {
    let mut ladder = Synthetic::ladder(4);
    let hostile =
        r#"</script><script>alert("x")</script><img src=x onerror='alert(1)'>&amp;{{7*7}}"#;
    ladder.rename("curtail", hostile);
    ladder.plan.question = hostile.to_owned();
    ladder.plan.experiment = hostile.to_owned();
    ladder.plan.notes = vec![hostile.to_owned()];
    ladder.host.cpu = hostile.to_owned();
    ladder.plan.servers[2].skipped = Some(hostile.to_owned());
    ladder.plan.servers[1].version = Some(hostile.to_owned());
    ladder.trials[20].outcome = Outcome::Failed(hostile.to_owned());
    ladder.trials[21].notes = vec![hostile.to_owned()];
    let html = page(&ladder);
    assert_eq!(html.matches("<script").count(), 1);
    assert_eq!(html.matches("</script").count(), 1);
    assert!(!html.contains("<img"));
    // A quote within a tag would end an attribute.
    assert!(!html.contains(r#"alert("x")"#) && !html.contains("onerror='"));
}

#[test]
fn headings_descend_by_one_and_tables_have_heads() {
    let html = page(&Synthetic::ladder(4));
    assert_eq!(html.matches("<h1").count(), 1);
    let levels = html.match_indices("<h").filter_map(|(at, _)| {
        html.as_bytes()
            .get(at + 2)
            .filter(|byte| byte.is_ascii_digit())
            .map(|byte| byte - b'0')
    });
    let mut last = 0;
    for level in levels {
        assert!(level <= last + 1, "h{level} after h{last}");
        last = level;
    }
    assert_eq!(
        html.matches("<th ").count(),
        html.matches("<th scope=").count()
    );
    assert_eq!(html.matches("<th>").count(), 0);
    assert_eq!(html.matches("role=\"img\" aria-label=\"").count(), 3);
}

#[test]
fn few_trials_show_their_lower_confidence() {
    let mut ladder = Synthetic::ladder(4);
    (ladder.plan.repeats, ladder.plan.capacity_trials) = (3, 3);
    ladder.trials.retain(|trial| trial.repeat < 3);
    let html = page(&ladder);
    assert!(
        html.contains("(75\u{a0}%)"),
        "the confidence of three trials"
    );
}

#[test]
fn a_generator_that_was_always_the_limit_makes_a_lower_bound() {
    let mut ladder = Synthetic::ladder(4);
    for repeat in 0..5 {
        ladder
            .measurement(&format!("c-curtail-0-{repeat:02}"))
            .generator_limited = true;
    }
    let html = page(&ladder);
    assert!(html.contains("The capacity of curtail is at least "));
    assert!(html.contains("so the capacity itself is not known"));
    assert!(
        html.contains("in closed loop)."),
        "no ratio to what is not known"
    );
}

#[test]
fn one_unlimited_trial_does_not_determine_a_capacity() {
    let mut ladder = Synthetic::ladder(4);
    for repeat in 0..4 {
        ladder
            .measurement(&format!("c-curtail-0-{repeat:02}"))
            .generator_limited = true;
    }
    ladder.measurement("c-curtail-0-04").achieved_rps = 999_000.0;
    let html = page(&ladder);
    assert!(
        html.contains("The capacity of curtail is at least 24"),
        "the median of all"
    );
    assert!(html.contains("median of 5 trials"));
    assert!(html.contains("the generator was the limit in 4 of them"));
    assert!(!html.contains("capacity of curtail is 999"));
}

/// Marks the first `limited` repeats of curtail's cell as limited by the generator.
fn limit(ladder: &mut Synthetic, cell: usize, limited: u32) {
    for trial in &mut ladder.trials {
        let here = trial.id.starts_with(&format!("s-curtail-{cell}-"));
        if let (true, Outcome::Measured(measured)) = (here, &mut trial.outcome) {
            measured.generator_limited = trial.repeat < limited;
        }
    }
}

#[test]
fn a_knee_that_the_generator_hides_is_not_called_the_most_that_was_offered() {
    let mut ladder = Synthetic::ladder(4);
    for cell in 4..8 {
        limit(&mut ladder, cell, 8);
    }
    let html = page(&ladder);
    assert!(
        html.contains("up to load level 0.6"),
        "0.7 and above hidden"
    );
    assert!(
        html.contains("the highest level that the generator did not limit: at 4 levels above it")
    );
    assert!(!html.contains("the highest rate offered"));
    limit(&mut ladder, 4, 7);
    let html = page(&ladder);
    assert!(html.contains("up to load level 0.7"), "8 of 15 are enough");
}

#[test]
fn a_knee_next_to_a_level_that_the_generator_limited_lies_between() {
    let mut ladder = Synthetic::ladder(4);
    limit(&mut ladder, 6, 12);
    let html = page(&ladder);
    assert!(html.contains("the knee lies between, where the generator was the limit at one level"));
}

#[test]
fn a_knee_hidden_by_the_generator_is_explained() {
    let mut ladder = Synthetic::ladder(4);
    for cell in 2..8 {
        limit(&mut ladder, cell, 15);
    }
    let html = page(&ladder);
    assert!(html.contains("the generator was the limit in most trials of 6 of 8 levels"));
}

#[test]
fn a_tail_hidden_by_the_generator_is_not_known_with_a_reason() {
    let mut ladder = Synthetic::ladder(4);
    limit(&mut ladder, 2, 8);
    limit(&mut ladder, 6, 15);
    let html = page(&ladder);
    let unknown = "is not known at load level 0.5 (the generator was the limit in 8 of 15 trials) \
                   and at load level 0.9 (the generator was the limit in all 15 trials).";
    assert!(html.contains(unknown), "{unknown}");
    // CPU time per request is known, and so is its ratio to the other server.
    let (_, cost) = html.split_once("A request costs the server").unwrap();
    let (cost, _) = cost.split_once("</p>").unwrap_or((cost, ""));
    let cost: String = cost.chars().take(400).collect();
    assert!(cost.contains("at load level 0.9"), "{cost}");
    assert!(cost.contains("times memcached&#39;s"), "{cost}");
    assert!(
        cost.contains("generator-limited trials count here"),
        "{cost}"
    );
}

#[test]
fn cpu_per_request_covers_every_trial() {
    let mut ladder = Synthetic::ladder(4);
    limit(&mut ladder, 6, 14);
    for repeat in 0..15 {
        let measured = ladder.measurement(&format!("s-curtail-6-{repeat:02}"));
        let cost = measured.cost.as_mut().unwrap();
        cost.cpu_ns_per_request = if repeat == 14 { 9e6 } else { 5_000.0 };
    }
    assert!(
        page(&ladder).contains("A request costs the server 5.00\u{a0}µs"),
        "not only the unlimited trial"
    );
}

#[test]
fn the_findings_give_the_tail_at_the_level_nearest_to_half() {
    let mut ladder = Synthetic::ladder(4);
    let mut levels = LEVELS.to_vec();
    (levels[1], levels[2]) = (0.2, 0.4);
    ladder.plan.sweep = Sweep::LoadLevels(levels);
    let html = page(&ladder);
    assert!(
        html.contains("at load level 0.4 ("),
        "nearer than 0.6, or as near and lower"
    );
}

/// Censors a share of the requests of every trial of curtail's cell.
fn censor(ladder: &mut Synthetic, cell: usize, share: f64) {
    for trial in &mut ladder.trials {
        let here = trial.id.starts_with(&format!("s-curtail-{cell}-"));
        if let (true, Outcome::Measured(measured)) = (here, &mut trial.outcome) {
            let count = (measured.intended as f64 * share) as u64;
            synthetic::censor(measured, count);
        }
    }
}

#[test]
fn a_percentile_among_requests_never_answered_is_a_lower_bound() {
    let mut ladder = Synthetic::ladder(4);
    // Remove the censored requests of the overload.
    for cell in 0..8 {
        censor(&mut ladder, cell, 0.0);
    }
    ladder.trials.retain(|trial| trial.server == "curtail");
    ladder.plan.servers.truncate(1);
    let calm = page(&ladder);
    assert!(!calm.contains("≥1") && !calm.contains("Lower bounds:"));
    // 2 %: the 99th and 99.9th percentiles are among them, the median is not.
    censor(&mut ladder, 2, 0.02);
    let html = page(&ladder);
    assert_eq!(
        below_the_head(&html).matches("<td>≥").count(),
        2 + 15,
        "p99, p99.9; p99 of 15 trials"
    );
    assert!(html.contains("Lower bounds: in 15 of "));
    assert!(html.contains("response time is ≥"));
    assert_eq!(html.matches("curtail: ≥").count(), 15, "under the pointer");
    // 0.5 %: the 99.9th alone.
    censor(&mut ladder, 2, 0.005);
    let html = page(&ladder);
    assert_eq!(below_the_head(&html).matches("<td>≥").count(), 1);
    assert!(!html.contains("Lower bounds:"));
}

/// Requests of a lost connection are censored early, so even a few may lie above the median. A
/// trial of a build that did not record their position makes every percentile a lower bound.
#[test]
fn requests_censored_early_make_every_percentile_a_lower_bound() {
    let mut ladder = Synthetic::ladder(4);
    for cell in 0..8 {
        censor(&mut ladder, cell, 0.0);
    }
    ladder.trials.retain(|trial| trial.server == "curtail");
    ladder.plan.servers.truncate(1);
    for repeat in 0..15 {
        let measured = ladder.measurement(&format!("s-curtail-2-{repeat:02}"));
        measured.censored = 3;
        measured.response.as_mut().unwrap().lower_bounds = Some(LowerBounds {
            p50: true,
            p90: true,
            p95: true,
            p99: true,
            p999: true,
        });
    }
    let html = page(&ladder);
    assert_eq!(below_the_head(&html).matches("<td>≥").count(), 3 + 15);
    assert!(html.contains("Lower bounds: in 15 of "));
    let terminal = crate::text_summary(&ladder.run()).unwrap();
    let row = terminal.lines().find(|line| line.contains('≥')).unwrap();
    assert_eq!(row.matches('≥').count(), 3, "{row}");
    for repeat in 0..15 {
        let measured = ladder.measurement(&format!("s-curtail-2-{repeat:02}"));
        measured.response.as_mut().unwrap().lower_bounds = None;
    }
    assert_eq!(page(&ladder), html, "a run of an older build");
}

#[test]
fn a_median_below_all_lower_bounds_holds() {
    let mut ladder = Synthetic::ladder(4);
    ladder.trials.retain(|trial| trial.server == "curtail");
    ladder.plan.servers.truncate(1);
    for cell in 0..8 {
        censor(&mut ladder, cell, 0.0);
    }
    for repeat in 0..7 {
        let measured = ladder.measurement(&format!("s-curtail-2-{repeat:02}"));
        synthetic::censor(measured, measured.intended / 50);
        measured.response.as_mut().unwrap().p99 = 9_000_000;
    }
    // The median is the eighth of fifteen, so seven lower bounds above it do not affect it.
    let html = page(&ladder);
    let one_each = html.matches("<td>≥9.00\u{a0}ms</td>").count();
    assert_eq!(one_each, 7, "the trials themselves");
    assert!(html.contains(", ≥9000]"), "the greatest of the cell");
    assert!(!html.contains("response time is ≥"));
    // Of eight lower bounds, one is the median.
    let measured = ladder.measurement("s-curtail-2-07");
    synthetic::censor(measured, measured.intended / 50);
    measured.response.as_mut().unwrap().p99 = 9_000_000;
    assert!(page(&ladder).contains("response time is ≥9.00\u{a0}ms"));
}

#[test]
fn a_run_of_an_older_build_omits_what_it_did_not_record() {
    let mut ladder = Synthetic::ladder(4);
    for trial in &mut ladder.trials {
        if let Outcome::Measured(measured) = &mut trial.outcome {
            (measured.generator_busy, measured.lost_connections) = (None, None);
            measured.stolen = None;
        }
    }
    let html = page(&ladder);
    for absent in ["Steal time:", "The generator was busy", "lost, in"] {
        assert!(!html.contains(absent), "{absent}");
    }
}

#[test]
fn steal_time_and_lost_connections_are_reported() {
    let mut ladder = Synthetic::ladder(4);
    let measured = ladder.measurement("s-curtail-2-02");
    measured.lost_connections = Some(14);
    measured.stolen.as_mut().unwrap().server = 0.25;
    let html = page(&ladder);
    let taken = "Steal time: 1.2 % (at most 25.0 %) on the server";
    assert!(html.contains(&taken.replace(" %", "\u{a0}%")), "{taken}");
    assert!(html.contains("14 connections lost, in 1 trial."));
    assert!(html.contains("<td class=\"words\">14 connections lost</td>"));
}

#[test]
fn little_s_law_is_reported_where_it_fails() {
    let mut ladder = Synthetic::ladder(4);
    ladder.measurement("s-curtail-2-02").outstanding_mean *= 1.5;
    let html = page(&ladder);
    assert!(html.contains("123 of 124"));
    assert!(html.contains("does not hold in every trial"));
}

#[test]
fn a_busy_generator_is_named_with_the_capacity() {
    let mut ladder = Synthetic::ladder(4);
    assert!(!page(&ladder).contains("the server&#39;s own capacity may be higher"));
    for repeat in 0..5 {
        ladder
            .measurement(&format!("c-memcached-0-{repeat:02}"))
            .generator_busy = Some(0.97);
    }
    let found = "was busy 97.0\u{a0}% of the time in the capacity trials: the server&#39;s own capacity may be higher";
    assert!(page(&ladder).contains(found));
}
