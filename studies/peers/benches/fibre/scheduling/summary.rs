//! The results of the suite: tables for people, and a CSV file for programs.

use std::path::Path;

use measure::{Estimate, median, median_of_trials, paired_ratio};

use crate::benchmark::{Benchmark, Line, RuntimeKind};
use crate::suite::{Case, Plan, Trial};

/// The confidence level of the confidence intervals.
const CONFIDENCE: f64 = 0.95;
/// The goal of the fair scheduler is that no *turn* is longer than this multiple of the median
/// turn. A turn is the time that a thread waits to run in *transfer* or *turns* (`rounds.rs`).
const TURN_LIMIT: f64 = 100.0;

/// Prints a table for each case.
pub(crate) fn print(plan: &Plan, cases: &[Case], trials: &[Trial]) {
    println!(
        "operations/s: median [least, greatest] of {} runs of {} s\n\
         scalability: processor time of an operation\n\
         × tokio, × go: median of the ratios within a repeat, with its {:.0} % interval (with few \
         repeats, the interval of the stated lower confidence)",
        plan.repeats,
        plan.duration.as_secs_f64(),
        CONFIDENCE * 100.0
    );
    for &case in cases {
        let of_case: Vec<&Trial> = trials.iter().filter(|trial| trial.case == case).collect();
        let line = of_case.iter().find_map(|trial| trial.line.as_ref().ok());
        let threads = line.map_or(0, |line| line.threads);
        println!(
            "\n{} {} ({threads} threads on {} processors)",
            case.benchmark.name(),
            case.per_processor,
            case.processors
        );
        println!(
            "  {:<7}{:>30}{:>13}{:>31}{:>31}",
            "", "operations/s", "scalability", "× tokio", "× go"
        );
        for runtime in RuntimeKind::OURS.into_iter().chain(RuntimeKind::THEIRS) {
            row(runtime, &of_case);
        }
        match case.benchmark {
            Benchmark::Transfer => turns(&of_case),
            Benchmark::Turns => turns_without_gaps(&of_case),
            _ => {}
        }
    }
}

/// Prints the row of a runtime in the table of a case. Prints nothing if the runtime was not run.
/// `of_case` are all runs of the case.
fn row(runtime: RuntimeKind, of_case: &[&Trial]) {
    let of_runtime = runs_of(runtime, of_case);
    if of_runtime.is_empty() {
        return;
    }
    let lines = finished(&of_runtime);
    let unfinished = of_runtime.len() - lines.len();
    let rates: Vec<f64> = lines.iter().map(|line| line.rate()).collect();
    let rates = rate(&rates).unwrap_or_else(|| "not finished".to_owned());
    let scalability: Vec<f64> = lines.iter().map(|line| line.scalability_ns()).collect();
    let scalability = median(&scalability).map_or(String::new(), time);
    let ratios = RuntimeKind::THEIRS.map(|other| {
        let is_compared = RuntimeKind::OURS.contains(&runtime);
        let pairs = pairs(&of_runtime, &runs_of(other, of_case));
        let estimate = paired_ratio(&pairs, CONFIDENCE).filter(|_| is_compared);
        estimate.as_ref().map_or(String::new(), ratio)
    });
    let line = format!(
        "  {:<7}{rates:>30}{scalability:>13}{:>31}{:>31}",
        runtime.name(),
        ratios[0],
        ratios[1]
    );
    println!("{}", line.trim_end());
    if unfinished > 0 && !lines.is_empty() {
        println!(
            "         {unfinished} of {} runs did not finish",
            of_runtime.len()
        );
    }
    let errors = of_runtime
        .iter()
        .filter_map(|trial| trial.line.as_ref().err());
    let mut errors: Vec<&String> = errors.collect();
    errors.dedup();
    for error in errors {
        println!("         {error}");
    }
}

/// Prints the turns of *transfer* for each runtime: how long a thread waited until it saw a round.
fn turns(of_case: &[&Trial]) {
    for runtime in RuntimeKind::OURS.into_iter().chain(RuntimeKind::THEIRS) {
        let lines = Lines::of(runtime, of_case);
        let typical = median(&lines.values(|line| Some(line.turn_p50_ns? as f64)));
        let longest = lines.greatest(|line| Some(line.turn_max_ns? as f64));
        // For each run, its longest turn divided by its median turn.
        let ratios = lines.values(Line::longest_turn);
        if let (Some(typical), Some(longest), Some(middle)) = (typical, longest, median(&ratios)) {
            println!(
                "  {:<7}turn: median {}, longest {} (longest turn of the median run: \
                 {middle:.0} × median turn)",
                runtime.name(),
                time(typical),
                time(longest),
            );
        }
    }
}

/// A runtime and empty loops both lose a share of their time to gaps. If the runtime's share is
/// more than this multiple of the loops' share, the runtime itself causes gaps. Then its result
/// must not be judged, because the subtraction of gaps hides waits that the runtime causes.
const GAPS_LIMIT: f64 = 1.5;

/// Prints the results of the benchmark *turns* for each runtime: the longest turn after gaps were
/// subtracted, compared with [`TURN_LIMIT`]. A *gap* is a time in which a kernel thread of the
/// runtime neither slept nor ran a thread of the benchmark (`gaps.rs`).
fn turns_without_gaps(of_case: &[&Trial]) {
    println!("  longest turn without gaps (times in which a kernel thread neither ran nor slept):");
    for runtime in RuntimeKind::OURS.into_iter().chain(RuntimeKind::THEIRS) {
        let lines = Lines::of(runtime, of_case);
        let typical = median(&lines.values(|line| Some(line.turn_p50_ns? as f64)));
        // `without_gaps` and `with_gaps` are multiples of the median turn.
        let without_gaps = lines.values(Line::longest_turn_without_gaps);
        let with_gaps = median(&lines.values(Line::longest_turn));
        let share = median(&lines.values(|line| line.gap_share));
        let loop_share = median(&lines.values(|line| line.gap_share_of_loops));
        let worst = without_gaps.iter().copied().reduce(f64::max);
        let middle = median(&without_gaps);
        if let (
            Some(typical),
            Some(with_gaps),
            Some(worst),
            Some(middle),
            Some(share),
            Some(loop_share),
        ) = (typical, with_gaps, worst, middle, share, loop_share)
        {
            let is_in_limit = |&&ratio: &&f64| ratio <= TURN_LIMIT;
            let in_limit = without_gaps.iter().filter(is_in_limit).count();
            let doubt = match share > loop_share * GAPS_LIMIT {
                true => ": not to be judged",
                false => "",
            };
            println!(
                "  {:<7}as a multiple of the median turn ({}): {middle:.0} ({}) in the median run, \
                 {worst:.0} in the worst, at most {TURN_LIMIT:.0} in {in_limit} of {}; with gaps \
                 {with_gaps:.0}; gaps {:.1} % of the time, {:.1} % in empty loops{doubt}",
                runtime.name(),
                time(typical),
                time(middle * typical),
                without_gaps.len(),
                share * 100.0,
                loop_share * 100.0
            );
        }
    }
}

/// The results of all runs of one runtime in a case; each run printed them as one line of JSON.
/// They include the results of runs that did not finish
/// ([`Outcome::is_finished`](crate::benchmark::Outcome::is_finished)), because these runs have the
/// longest turns.
struct Lines<'trials>(Vec<&'trials Line>);

impl<'trials> Lines<'trials> {
    fn of(runtime: RuntimeKind, of_case: &[&'trials Trial]) -> Self {
        let trials = runs_of(runtime, of_case);
        let lines = trials.iter().filter_map(|trial| trial.line.as_ref().ok());
        Self(lines.collect())
    }

    /// Calls `value` with the results of each run. Leaves out the runs without this value.
    fn values(&self, value: fn(&Line) -> Option<f64>) -> Vec<f64> {
        self.0.iter().filter_map(|line| value(line)).collect()
    }

    /// Returns the greatest of the [`values`](Self::values); `None` if there are none.
    fn greatest(&self, value: fn(&Line) -> Option<f64>) -> Option<f64> {
        self.values(value).into_iter().reduce(f64::max)
    }
}

/// Returns the runs of a runtime among the runs of a case.
pub(crate) fn runs_of<'trials>(
    runtime: RuntimeKind,
    of_case: &[&'trials Trial],
) -> Vec<&'trials Trial> {
    let is_of_runtime = |trial: &&&Trial| trial.runtime == runtime;
    of_case.iter().filter(is_of_runtime).copied().collect()
}

/// Returns the results of the runs that give a rate ([`Trial::finished`]).
pub(crate) fn finished<'trials>(trials: &[&'trials Trial]) -> Vec<&'trials Line> {
    trials.iter().filter_map(|trial| trial.finished()).collect()
}

/// Returns pairs of the rates of two runtimes in one case: a pair for each repeat in which the runs
/// of both runtimes give a rate.
fn pairs(ours: &[&Trial], theirs: &[&Trial]) -> Vec<(f64, f64)> {
    let pair = |our: &&Trial| {
        let their = theirs.iter().find(|their| their.repeat == our.repeat)?;
        Some((our.finished()?.rate(), their.finished()?.rate()))
    };
    ours.iter().filter_map(pair).collect()
}

/// Formats the median, the least and the greatest of some rates. `None` if there are no rates.
fn rate(rates: &[f64]) -> Option<String> {
    let least = rates.iter().copied().reduce(f64::min)?;
    let greatest = rates.iter().copied().reduce(f64::max)?;
    let middle = median_of_trials(rates, CONFIDENCE)?.value;
    let (unit, name) = match middle {
        ..1e3 => (1.0, ""),
        ..1e6 => (1e3, " k"),
        _ => (1e6, " M"),
    };
    Some(format!(
        "{:.2}{name} [{:.2}, {:.2}]",
        middle / unit,
        least / unit,
        greatest / unit
    ))
}

/// Formats a ratio with its confidence interval; without an interval if there is only one sample.
fn ratio(estimate: &Estimate) -> String {
    let interval = estimate.interval;
    if estimate.samples == 1 {
        return format!("{:.2}", estimate.value);
    }
    let digits = if estimate.value < 0.1 { 3 } else { 2 };
    let text = format!("{estimate:.digits$}");
    if interval.confidence < CONFIDENCE {
        return format!("{text} {:.0} %", interval.confidence * 100.0);
    }
    text
}

/// Formats a time.
fn time(ns: f64) -> String {
    match ns {
        ..1e3 => format!("{ns:.1} ns"),
        ..1e6 => format!("{:.1} µs", ns / 1e3),
        _ => format!("{:.1} ms", ns / 1e6),
    }
}

/// Writes a CSV file with a row for each run. A field is empty if the run has no such value.
pub(crate) fn write(path: &Path, trials: &[Trial]) -> Result<(), String> {
    let in_file = |error: csv::Error| format!("{}: {error}", path.display());
    let mut writer = csv::Writer::from_path(path).map_err(in_file)?;
    let head = [
        "repeat",
        "benchmark",
        "processors",
        "per_processor",
        "runtime",
        "threads",
        "operations",
        "seconds",
        "finished",
        "turn_p50_ns",
        "turn_max_ns",
        "round_p50_ns",
        "round_max_ns",
        "turn_without_gaps_max_ns",
        "gap_share",
        "gap_share_of_loops",
        "error",
    ];
    writer.write_record(head).map_err(in_file)?;
    for trial in trials {
        let text = |number: Option<u64>| number.map_or(String::new(), |it| it.to_string());
        let share = |number: Option<f64>| number.map_or(String::new(), |it| it.to_string());
        let line = trial.line.as_ref().ok();
        let of_line = |field: fn(&Line) -> String| line.map_or(String::new(), field);
        let record = [
            trial.repeat.to_string(),
            trial.case.benchmark.name().to_owned(),
            trial.case.processors.to_string(),
            trial.case.per_processor.to_string(),
            trial.runtime.name().to_owned(),
            of_line(|line| line.threads.to_string()),
            of_line(|line| line.operations.to_string()),
            of_line(|line| line.seconds.to_string()),
            line.is_some_and(|line| line.finished).to_string(),
            text(line.and_then(|line| line.turn_p50_ns)),
            text(line.and_then(|line| line.turn_max_ns)),
            text(line.and_then(|line| line.round_p50_ns)),
            text(line.and_then(|line| line.round_max_ns)),
            text(line.and_then(|line| line.turn_without_gaps_max_ns)),
            share(line.and_then(|line| line.gap_share)),
            share(line.and_then(|line| line.gap_share_of_loops)),
            trial.line.as_ref().err().cloned().unwrap_or_default(),
        ];
        writer.write_record(record).map_err(in_file)?;
    }
    writer
        .flush()
        .map_err(|error| format!("{}: {error}", path.display()))
}
