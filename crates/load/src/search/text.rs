//! The text output of a search: a line for each trial, and the result at the end.

use std::fmt::Write as _;
use std::time::Duration;

use measure::{Bounded, SearchEnd, Verdict};
use units::{duration_text, show_duration, show_rate, show_share};

use super::{JudgedLatency, Judgement, SearchResult, TrialResult};
use crate::text::show_bounded;

/// Returns the line of one trial. The search makes at most `trials_max` trials. `left_ns` is the
/// longest time that the rest of the search can take. 0: the line does not show this time.
#[must_use]
pub fn trial_line(trial: &TrialResult, trials_max: usize, left_ns: u64) -> String {
    let mut line = format!(
        "{:>3} of ≤ {trials_max} {:>8}/s  {:<9}",
        trial.number,
        show_rate(trial.rate_rps),
        verdict_text(trial.verdict),
    );
    let reasons = match (&trial.judgement, &trial.error) {
        (Some(judgement), _) => reasons_text(judgement),
        (None, Some(error)) => error.clone(),
        (None, None) => String::new(),
    };
    let left = match left_ns {
        0 => String::new(),
        _ => {
            let left = Duration::from_secs(left_ns.div_ceil(1_000_000_000));
            format!("  (≤ {} left)", duration_text(left))
        }
    };
    // Writing into a String cannot fail.
    let _ = write!(line, " {reasons}{left}");
    line
}

fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Kept => "kept",
        Verdict::Broken => "broken",
        Verdict::GeneratorLimited | Verdict::Failed => "invalid",
    }
}

/// Returns the reasons of a verdict: why the trial is invalid, each latency with its limit, and any
/// other broken criterion.
fn reasons_text(judgement: &Judgement) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(judgement.invalid_reason.clone());
    parts.extend(judgement.latencies.iter().map(latency_text));
    if judgement.achieved_share < judgement.achieved_share_min {
        let share = show_share(judgement.achieved_share);
        parts.push(format!("achieved {share} of the offered rate"));
    }
    if judgement.failures > judgement.failures_max {
        parts.push(format!("{} failures", show_share(judgement.failures)));
    }
    parts.join(", ")
}

fn latency_text(latency: &JudgedLatency) -> String {
    let JudgedLatency {
        figure,
        value_ns,
        limit_ns,
        is_lower_bound,
        is_kept,
    } = latency;
    let relation = match (is_kept, value_ns > limit_ns) {
        (true, _) => "≤",
        (false, true) => ">",
        (false, false) => "not known ≤",
    };
    let value = show_bounded(Bounded {
        value_ns: *value_ns,
        is_lower_bound: *is_lower_bound,
    });
    format!("{figure} {value} {relation} {}", show_duration(*limit_ns))
}

/// Returns the result of a search as text. It has a line for each of these: the sustained
/// throughput, the objective, the interval, the criterion that breaks first, the trials, and why
/// the search ended.
#[must_use]
pub fn result(searched: &SearchResult) -> String {
    let sustained = &searched.sustained;
    let mut text = String::new();
    let mut line = |name: &str, content: String| {
        let _ = writeln!(text, "{name:<10} {content}");
    };
    line("sustained", answer_text(searched));
    line("objective", objective_text(searched));
    let confidence = sustained.confidence;
    match (sustained.low_rps, sustained.high_rps) {
        (Some(low), Some(high)) if low < high => line(
            "interval",
            format!(
                "{}/s kept, {}/s broken, with {} confidence",
                show_rate(low),
                show_rate(high),
                show_share(confidence)
            ),
        ),
        (Some(_), None) | (None, Some(_)) => {
            // The probability of error is divided equally between the two ends of an interval. If
            // only one end is known, only half of this probability applies.
            let one_sided = f64::midpoint(1.0, confidence);
            line("confidence", show_share(one_sided));
        }
        _ => {}
    }
    if let Some(binding) = &searched.binding {
        line("binding", format!("{binding} breaks first"));
    }
    line("trials", trials_text(searched));
    line("ended", ended_text(searched));
    text
}

/// Returns the sustained throughput, or what the search has found out about it.
fn answer_text(searched: &SearchResult) -> String {
    let sustained = &searched.sustained;
    let rate = |rps: f64| format!("{}/s", show_rate(rps));
    match (
        sustained.low_rps,
        sustained.high_rps,
        sustained.estimate_rps,
    ) {
        _ if sustained.end == SearchEnd::Contradiction => "not one rate".to_owned(),
        (Some(_), Some(_), Some(estimate)) => rate(estimate),
        (Some(low), None, _) => format!("at least {}", rate(low)),
        (None, Some(high), _) => format!("less than {}", rate(high)),
        (_, _, Some(estimate)) => format!("not decided; near {}", rate(estimate)),
        (_, _, None) => "not known".to_owned(),
    }
}

fn objective_text(searched: &SearchResult) -> String {
    format!(
        "{}, failures ≤ {}, achieved = offered",
        searched.objectives.join(", "),
        show_share(searched.failures_max)
    )
}

fn trials_text(searched: &SearchResult) -> String {
    let count_of = |verdict| {
        let trials = searched.trials.iter();
        trials.filter(|trial| trial.verdict == verdict).count()
    };
    let mut text = format!(
        "{} of at most {}: {} kept, {} broken, {} generator-limited, {} failed",
        searched.trials.len(),
        searched.options.trials_max,
        count_of(Verdict::Kept),
        count_of(Verdict::Broken),
        count_of(Verdict::GeneratorLimited),
        count_of(Verdict::Failed),
    );
    let contradicting = searched.sustained.contradicting;
    if contradicting > 0 {
        let _ = write!(text, "; {contradicting} contradict any single threshold");
    }
    text
}

/// Returns why the search ended and what the user can do about it.
fn ended_text(searched: &SearchResult) -> String {
    let SearchEndText { why, remedy } = end_reason(searched);
    match remedy {
        "" => why,
        _ => format!("{why}; {remedy}"),
    }
}

/// The end of a search, as text.
struct SearchEndText {
    /// Why the search ended.
    why: String,
    /// What the user can do about it. Empty: there is nothing to do.
    remedy: &'static str,
}

fn end_reason(searched: &SearchResult) -> SearchEndText {
    let limit = searched.sustained.limit;
    let limit_text = || {
        limit.map_or_else(String::new, |limit| {
            let rate = show_rate(limit.rate_rps);
            match limit.verdict {
                Verdict::GeneratorLimited => format!("the generator was the limit from {rate}/s"),
                _ => format!("trials failed from {rate}/s"),
            }
        })
    };
    let floor = show_rate(searched.options.floor_rps);
    let (why, remedy) = match searched.sustained.end {
        SearchEnd::Running => ("not ended".to_owned(), ""),
        SearchEnd::Resolved => ("the interval is as narrow as wanted".to_owned(), ""),
        SearchEnd::Budget if limit.is_some() => (
            format!("the trials are used up; {}", limit_text()),
            "give more with --search-trials",
        ),
        SearchEnd::Budget => (
            "the trials are used up".to_owned(),
            "a longer --duration makes verdicts steadier, more --search-trials the interval narrower",
        ),
        SearchEnd::Limit => (
            limit_text(),
            "the server may sustain more; give the generator processors (--cpus) and threads (-T)",
        ),
        SearchEnd::AlwaysKept => (
            "kept at the highest rate that a search tries".to_owned(),
            "",
        ),
        SearchEnd::NeverKept => (
            format!("broken at {floor}/s, the lowest rate that trials of this length can judge"),
            "allow more time with --slo, or judge lower rates with a longer --duration",
        ),
        SearchEnd::Invalid => (
            "too many invalid trials in succession".to_owned(),
            "the reasons are in the lines above",
        ),
        SearchEnd::Contradiction => (
            "a rate is kept and a lower one is broken, both with confidence".to_owned(),
            "latency does not rise with the rate, or the server changed during the search",
        ),
    };
    SearchEndText { why, remedy }
}

#[cfg(test)]
mod tests {
    use measure::{Search, SearchOptions};

    use super::*;
    use crate::search::{SCHEMA, binding};

    /// Returns the result of a search with simulated trials ([`trial`]). Trials above `limit_rps`
    /// are generator-limited.
    fn searched(limit_rps: f64, trials_max: usize) -> SearchResult {
        let options = SearchOptions {
            start_rps: 5_000.0,
            floor_rps: 1_000.0,
            ceiling_rps: 1e6,
            resolution: 0.1,
            confidence: 0.95,
            trials_max,
        };
        let mut search = Search::new(options).unwrap();
        let mut trials = Vec::new();
        while let Some(rate_rps) = search.next_rps() {
            let trial = trial(trials.len() + 1, rate_rps, rate_rps > limit_rps);
            search.record(trial.verdict);
            trials.push(trial);
        }
        let sustained = search.sustained();
        SearchResult {
            schema: SCHEMA.to_owned(),
            objectives: vec!["p99 ≤ 500 µs".to_owned()],
            failures_max: 0.001,
            options,
            binding: binding(&trials, &sustained),
            sustained,
            resident: None,
            trials,
        }
    }

    /// Returns the result of a trial at a server whose 99th percentile is 20 s ÷ (60 000 − rate),
    /// which is 500 µs at 20 000/s. `is_limited`: the trial is generator-limited.
    fn trial(number: usize, rate_rps: f64, is_limited: bool) -> TrialResult {
        let value_ns = (20e9 / (60_000.0 - rate_rps).max(1.0)) as u64;
        let is_kept = value_ns <= 500_000;
        let verdict = match (is_limited, is_kept) {
            (true, _) => Verdict::GeneratorLimited,
            (false, true) => Verdict::Kept,
            (false, false) => Verdict::Broken,
        };
        let judgement = Judgement {
            verdict,
            invalid_reason: is_limited.then(|| "the generator was the limit".to_owned()),
            latencies: vec![JudgedLatency {
                figure: "p99".to_owned(),
                value_ns,
                is_lower_bound: value_ns > 1_000_000,
                limit_ns: 500_000,
                is_kept,
            }],
            achieved_share: 1.0,
            achieved_share_min: 0.99,
            failures: 0.0,
            failures_max: 0.001,
            worst: (!is_kept).then(|| "p99".to_owned()),
        };
        TrialResult {
            number,
            rate_rps,
            elapsed_ns: 6_000_000_000,
            verdict,
            judgement: Some(judgement),
            error: None,
            summary: None,
        }
    }

    #[test]
    fn trial_line_shows_reasons_and_time_left() {
        let line = |rate_rps, is_limited, left_s: u64| {
            trial_line(&trial(7, rate_rps, is_limited), 40, left_s * 1_000_000_000)
        };
        assert_eq!(
            line(10_000.0, false, 198),
            "  7 of ≤ 40   10.0 k/s  kept      p99 400 µs ≤ 500 µs  (≤ 3 min 18 s left)"
        );
        assert_eq!(
            line(50_000.0, false, 66),
            "  7 of ≤ 40   50.0 k/s  broken    p99 ≥2.00 ms > 500 µs  (≤ 1 min 6 s left)"
        );
        assert_eq!(
            line(10_000.0, true, 0),
            "  7 of ≤ 40   10.0 k/s  invalid   the generator was the limit, p99 400 µs ≤ 500 µs"
        );
        // The latency is only known to be at least 400 µs. This lower bound is below the limit, but
        // the latency may be above it.
        let mut undecided = trial(7, 10_000.0, false);
        if let Some(judgement) = &mut undecided.judgement {
            let latency = &mut judgement.latencies[0];
            (latency.is_lower_bound, latency.is_kept) = (true, false);
            (judgement.achieved_share, judgement.failures) = (0.97, 0.02);
        }
        assert_eq!(
            trial_line(&undecided, 40, 0),
            "  7 of ≤ 40   10.0 k/s  kept      p99 ≥400 µs not known ≤ 500 µs, achieved 97% of the \
             offered rate, 2% failures"
        );
    }

    /// `docs/guide/measure.md` shows this text.
    #[test]
    fn result_of_a_resolved_search_shows_its_interval_and_trials() {
        assert_eq!(
            result(&searched(1e6, 40)),
            "sustained  20.9 k/s\n\
             objective  p99 ≤ 500 µs, failures ≤ 0.1%, achieved = offered\n\
             interval   19.9 k/s kept, 21.6 k/s broken, with 95% confidence\n\
             binding    p99 breaks first\n\
             trials     24 of at most 40: 13 kept, 11 broken, 0 generator-limited, 0 failed\n\
             ended      the interval is as narrow as wanted\n"
        );
    }

    #[test]
    fn result_of_a_generator_limited_search_is_a_lower_bound() {
        let text = result(&searched(15_000.0, 40));
        assert!(text.starts_with("sustained  at least 14."), "{text}");
        assert!(text.contains("\nconfidence 97.5%\n"), "{text}");
        assert!(
            text.contains("ended      the generator was the limit from 1"),
            "{text}"
        );
    }

    #[test]
    fn result_is_not_decided_if_the_trials_are_too_few() {
        let text = result(&searched(1e6, 5));
        assert!(text.starts_with("sustained  not decided; near "), "{text}");
        assert!(
            text.contains("ended      the trials are used up; a longer --duration"),
            "{text}"
        );
    }
}
