//! Searches against simulated servers whose sustained throughput is known.
//!
//! An M/M/1 server with service rate μ has exponential response times of rate μ − λ, so its mean is
//! 1 ÷ (μ − λ) and its 99th percentile ln 100 ÷ (μ − λ). A trial samples them: the figure of n
//! independent response times, or of n successive ones of the queue itself (Lindley's recursion).

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;

const OPTIONS: SearchOptions = SearchOptions {
    start_rps: 20_000.0,
    floor_rps: 100.0,
    ceiling_rps: 1e7,
    resolution: 0.1,
    confidence: 0.95,
    trials_max: 40,
};

/// What a simulated trial measures.
#[derive(Debug, Clone, Copy)]
enum Figure {
    /// The 99th percentile of independent response times.
    P99(usize),
    /// Their mean.
    Mean(usize),
    /// The 99th percentile of successive response times, which are correlated.
    QueueP99(usize),
    /// No noise, but a share of verdicts is the wrong one.
    Step(f64),
}

struct Server {
    figure: Figure,
    service_rps: f64,
    sustained_rps: f64,
    random: Xoshiro256PlusPlus,
}

impl Server {
    /// A server whose sustained throughput is a random share of its random service rate.
    fn random(figure: Figure, seed: u64) -> Self {
        let mut server = Self {
            figure,
            service_rps: 0.0,
            sustained_rps: 0.0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        };
        server.service_rps = 1e4 * (1.0 + 9.0 * server.unit());
        server.sustained_rps = server.service_rps * (0.3 + 0.65 * server.unit());
        server
    }

    fn unit(&mut self) -> f64 {
        ((self.random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// A trial at a rate.
    fn trial(&mut self, rate_rps: f64) -> Verdict {
        let objective_s = |times: f64| times / (self.service_rps - self.sustained_rps);
        let mean_s = 1.0 / (self.service_rps - rate_rps);
        let is_kept = match self.figure {
            Figure::Step(wrong) => (rate_rps <= self.sustained_rps) != (self.unit() < wrong),
            _ if mean_s <= 0.0 || mean_s.is_infinite() => false,
            Figure::Mean(count) => {
                let objective_s = objective_s(1.0);
                let sum: f64 = (0..count).map(|_| self.exponential()).sum();
                mean_s * sum / count as f64 <= objective_s
            }
            Figure::P99(count) => {
                // The k-th smallest of n exponential times: Rényi, 1953.
                let objective_s = objective_s(100_f64.ln());
                let rank = (count * 99).div_ceil(100);
                let part = |at: usize| self.exponential() / (count - at) as f64;
                mean_s * (0..rank).map(part).sum::<f64>() <= objective_s
            }
            Figure::QueueP99(count) => {
                let objective_s = objective_s(100_f64.ln());
                self.slow_responses(rate_rps, count, objective_s) * 100 <= count
            }
        };
        if is_kept {
            Verdict::Kept
        } else {
            Verdict::Broken
        }
    }

    /// How many of `count` successive response times exceed a time. The queue is in equilibrium.
    fn slow_responses(&mut self, rate_rps: f64, count: usize, above_s: f64) -> usize {
        let mut response_s = self.exponential() / (self.service_rps - rate_rps);
        let mut slow = 0;
        for _ in 0..count {
            slow += usize::from(response_s > above_s);
            let gap_s = self.exponential() / rate_rps;
            let service_s = self.exponential() / self.service_rps;
            response_s = (response_s - gap_s).max(0.0) + service_s;
        }
        slow
    }
}

/// Runs a search to its end.
fn searched(options: SearchOptions, mut trial: impl FnMut(f64) -> Verdict) -> (Search, Sustained) {
    let mut search = Search::new(options).unwrap();
    while let Some(rate_rps) = search.next_rps() {
        assert!(
            (options.floor_rps..=options.ceiling_rps).contains(&rate_rps),
            "{rate_rps}"
        );
        search.record(trial(rate_rps));
        assert!(search.trials().len() <= options.trials_max);
    }
    let sustained = search.sustained();
    assert_eq!(sustained.trials, search.trials().len());
    (search, sustained)
}

/// What many searches found.
#[derive(Debug, Default)]
struct Tally {
    searches: usize,
    /// Intervals that miss the truth.
    wrong: usize,
    /// Intervals with both ends.
    complete: usize,
    widths: Vec<f64>,
    errors: Vec<f64>,
}

impl Tally {
    fn of(figure: Figure, searches: usize) -> Self {
        let mut tally = Self {
            searches,
            ..Self::default()
        };
        for seed in 0..searches as u64 {
            let mut server = Server::random(figure, seed);
            // From an eighth to eight times the truth.
            let start_rps = server.sustained_rps * 8_f64.powf(2.0 * server.unit() - 1.0);
            let truth_rps = server.sustained_rps;
            let options = SearchOptions {
                start_rps,
                ..OPTIONS
            };
            let (_, found) = searched(options, |rate_rps| server.trial(rate_rps));
            let is_above = found.low_rps.is_some_and(|low| low > truth_rps);
            let is_below = found.high_rps.is_some_and(|high| high < truth_rps);
            tally.wrong += usize::from(is_above || is_below);
            if let (Some(low), Some(high)) = (found.low_rps, found.high_rps) {
                tally.complete += 1;
                tally.widths.push(high / low - 1.0);
            }
            let estimate = found.estimate_rps.map(|rps| (rps / truth_rps).ln().abs());
            tally.errors.extend(estimate);
        }
        tally.widths.sort_by(f64::total_cmp);
        tally.errors.sort_by(f64::total_cmp);
        tally
    }

    /// Holds the intervals to their confidence: the bound is that of 95 % plus three standard
    /// deviations, and the ends are there where the trials suffice.
    fn hold(&self, complete_share: f64, median_width: f64) {
        let count = self.searches as f64;
        let most = 0.05 * count + 3.0 * (0.05 * 0.95 * count).sqrt();
        let middle = |values: &[f64]| values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
        let line = format!(
            "{} of {} wrong, {} complete, width {:.3}, error {:.4}",
            self.wrong,
            self.searches,
            self.complete,
            middle(&self.widths),
            middle(&self.errors),
        );
        println!("{line}");
        assert!((self.wrong as f64) <= most, "{line}");
        assert!(self.complete as f64 >= complete_share * count, "{line}");
        assert!(middle(&self.widths) <= median_width, "{line}");
    }
}

#[test]
fn intervals_of_a_p99_cover_the_truth() {
    Tally::of(Figure::P99(300), 500).hold(0.85, 0.30);
    Tally::of(Figure::P99(3000), 300).hold(0.97, 0.15);
}

#[test]
fn intervals_of_a_mean_cover_the_truth() {
    Tally::of(Figure::Mean(100), 600).hold(0.85, 0.30);
    Tally::of(Figure::Mean(1000), 200).hold(0.97, 0.15);
}

/// Correlated response times are what a real trial has. They are noisier than independent ones.
#[test]
fn intervals_of_a_queue_cover_the_truth() {
    Tally::of(Figure::QueueP99(10_000), 100).hold(0.90, 0.35);
}

#[test]
fn without_noise_the_interval_is_as_narrow_as_wanted() {
    let tally = Tally::of(Figure::Step(0.0), 300);
    assert_eq!((tally.wrong, tally.complete), (0, 300));
    tally.hold(1.0, 0.11);
}

#[test]
fn one_wrong_verdict_in_thirty_is_survived() {
    Tally::of(Figure::Step(0.03), 600).hold(0.95, 0.15);
}

#[test]
fn a_server_that_never_keeps_it_is_answered_as_such() {
    let (_, found) = searched(OPTIONS, |_| Verdict::Broken);
    assert_eq!((found.end, found.low_rps), (SearchEnd::NeverKept, None));
    let high_rps = found.high_rps.unwrap();
    assert!((100.0..103.0).contains(&high_rps), "{high_rps}");
    assert!(found.trials <= 20, "{}", found.trials);
}

#[test]
fn a_server_that_always_keeps_it_is_answered_as_such() {
    let options = SearchOptions {
        ceiling_rps: 1e6,
        ..OPTIONS
    };
    let (_, found) = searched(options, |_| Verdict::Kept);
    assert_eq!((found.end, found.high_rps), (SearchEnd::AlwaysKept, None));
    let low_rps = found.low_rps.unwrap();
    assert!((9.8e5..=1e6).contains(&low_rps), "{low_rps}");
    assert!(found.trials <= 20, "{}", found.trials);
}

/// Above 200 000 requests/s the generator is the limit; the server could do more.
#[test]
fn a_limited_generator_gives_a_lower_bound() {
    for (limit_rps, verdict) in [
        (200_000.0, Verdict::GeneratorLimited),
        (200_000.0, Verdict::Failed),
        (9_000.0, Verdict::GeneratorLimited),
    ] {
        let trial = |rate_rps: f64| {
            if rate_rps > limit_rps {
                verdict
            } else {
                Verdict::Kept
            }
        };
        let (search, found) = searched(OPTIONS, trial);
        assert_eq!((found.end, found.high_rps), (SearchEnd::Limit, None));
        let low_rps = found.low_rps.unwrap();
        assert!(
            low_rps <= limit_rps && low_rps > limit_rps * 0.85,
            "{low_rps}"
        );
        let limit = found.limit.unwrap();
        assert!(limit.rate_rps > limit_rps && limit.verdict == verdict);
        let invalid = search.trials().iter().filter(|it| !it.verdict.is_valid());
        assert_eq!(found.invalid, invalid.count());
    }
}

#[test]
fn a_knee_below_the_limit_is_found() {
    let (_, found) = searched(OPTIONS, |rate_rps| match rate_rps {
        rate if rate > 200_000.0 => Verdict::GeneratorLimited,
        rate if rate > 150_000.0 => Verdict::Broken,
        _ => Verdict::Kept,
    });
    let (low_rps, high_rps) = (found.low_rps.unwrap(), found.high_rps.unwrap());
    assert!(
        low_rps <= 150_000.0 && high_rps > 150_000.0,
        "{low_rps} {high_rps}"
    );
}

/// Near the truth the generator is late, and only trials that it cannot have broken are valid. So
/// the valid trials are mostly kept ones, up to rates well above the truth.
#[test]
fn trials_that_are_invalid_because_of_their_figures_do_not_move_an_end_past_the_truth() {
    let mut complete = 0;
    for seed in 0..200 {
        let mut server = Server::random(Figure::P99(300), seed);
        let truth_rps = server.sustained_rps;
        let options = SearchOptions {
            start_rps: truth_rps * 0.4,
            ..OPTIONS
        };
        let (_, found) = searched(options, |rate_rps| match server.trial(rate_rps) {
            Verdict::Broken if rate_rps < truth_rps * 1.15 => Verdict::GeneratorLimited,
            verdict => verdict,
        });
        let low_rps = found.low_rps.unwrap_or(0.0);
        let high_rps = found.high_rps.unwrap_or(f64::INFINITY);
        assert!(
            low_rps <= truth_rps && high_rps >= truth_rps,
            "{seed}: {low_rps} to {high_rps}, in truth {truth_rps}"
        );
        complete += usize::from(found.low_rps.is_some());
    }
    assert!(complete > 150, "{complete}");
}

#[test]
fn a_single_invalid_trial_is_repeated_and_recorded() {
    let mut trials = 0;
    let (search, found) = searched(OPTIONS, |rate_rps| {
        trials += 1;
        match trials {
            2 | 9 => Verdict::Failed,
            _ if rate_rps > 50_000.0 => Verdict::Broken,
            _ => Verdict::Kept,
        }
    });
    assert_eq!((found.invalid, found.limit), (2, None));
    assert!(found.low_rps.unwrap() <= 50_000.0 && found.high_rps.unwrap() > 50_000.0);
    assert_eq!(search.trials()[1].rate_rps, search.trials()[2].rate_rps);
}

#[test]
fn trials_that_all_fail_end_the_search() {
    let (_, found) = searched(OPTIONS, |_| Verdict::Failed);
    assert_eq!(found.end, SearchEnd::Invalid);
    assert_eq!(
        (found.low_rps, found.high_rps, found.estimate_rps),
        (None, None, None)
    );
    assert!(found.trials <= 20 && found.invalid == found.trials);
}

#[test]
fn a_floor_that_is_no_round_number_is_reached_and_ends_the_search() {
    // 1000 requests in 5 s and in 7 s, 10 000 in 7 s, and a rate below 1. Grid steps are 1.7 %.
    for floor_rps in [
        199.999_999_999_999_83,
        1000.0 / 7.0,
        10_000.0 / 7.0,
        0.123_456,
    ] {
        let options = SearchOptions {
            floor_rps,
            start_rps: floor_rps * 100.0,
            ..OPTIONS
        };
        let (search, found) = searched(options, |_| Verdict::Broken);
        assert_eq!(found.end, SearchEnd::NeverKept, "{floor_rps}");
        let lowest_rps = search.trials().last().unwrap().rate_rps;
        assert!(
            (floor_rps..floor_rps * 1.02).contains(&lowest_rps),
            "{lowest_rps}"
        );
    }
}

#[test]
fn a_small_budget_gives_an_estimate_and_claims_nothing() {
    let options = SearchOptions {
        trials_max: 6,
        ..OPTIONS
    };
    let trial = |rate_rps| {
        if rate_rps > 50_000.0 {
            Verdict::Broken
        } else {
            Verdict::Kept
        }
    };
    let (_, found) = searched(options, trial);
    assert_eq!(
        (found.end, found.low_rps, found.high_rps),
        (SearchEnd::Budget, None, None)
    );
    assert!((35_000.0..70_000.0).contains(&found.estimate_rps.unwrap()));
}

/// The server slows down in the middle of the search: what was kept is now broken.
#[test]
fn contradicting_trials_are_counted() {
    let mut trials = 0;
    let (_, found) = searched(OPTIONS, |rate_rps| {
        trials += 1;
        let sustained_rps = if trials > 12 { 30_000.0 } else { 60_000.0 };
        if rate_rps > sustained_rps {
            Verdict::Broken
        } else {
            Verdict::Kept
        }
    });
    assert!(found.contradicting > 0, "{found:?}");
}

#[test]
fn settings_out_of_bounds_are_named() {
    let fault = |options| Search::new(options).unwrap_err().to_string();
    let cases = [
        (
            SearchOptions {
                floor_rps: 0.0,
                ..OPTIONS
            },
            "are not in order",
        ),
        (
            SearchOptions {
                start_rps: 1e9,
                ..OPTIONS
            },
            "are not in order",
        ),
        (
            SearchOptions {
                ceiling_rps: f64::NAN,
                ..OPTIONS
            },
            "are not in order",
        ),
        (
            SearchOptions {
                resolution: 0.0,
                ..OPTIONS
            },
            "give 0.005 to 1",
        ),
        (
            SearchOptions {
                confidence: 1.0,
                ..OPTIONS
            },
            "give 0.5 to 0.999",
        ),
        (
            SearchOptions {
                trials_max: 0,
                ..OPTIONS
            },
            "give 1 to 1000",
        ),
    ];
    for (options, message) in cases {
        assert!(fault(options).contains(message), "{}", fault(options));
    }
}

#[test]
fn rates_have_four_digits() {
    for (rate_rps, shown) in [
        (12_345.67, 12_350.0),
        (0.123_44, 0.1234),
        (9_999.9, 10_000.0),
    ] {
        assert!(
            (rounded(rate_rps) / shown - 1.0).abs() < 1e-12,
            "{}",
            rounded(rate_rps)
        );
    }
}
