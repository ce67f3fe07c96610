//! What came out, for people (tables) and for programs (CSV).

use std::path::Path;

use measure::{Estimate, median, median_of_trials, paired_ratio};

use crate::benchmark::{Benchmark, Line, RuntimeKind};
use crate::suite::{Case, Plan, Trial};

const CONFIDENCE: f64 = 0.95;
/// Nobody waits longer than so many medians of a turn: what the fair scheduler has to keep.
const TURN_LIMIT: f64 = 100.0;

/// Prints a table for each case.
pub(crate) fn print(plan: &Plan, cases: &[Case], trials: &[Trial]) {
    println!(
        "operations a second: median [least, greatest] of {} runs of {} s\n\
         scalability: nanoseconds of a processor for an operation\n\
         × tokio, × go: median of the ratios of the same repeat, its {:.0} % interval (or what \
         so few repeats allow)",
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
            Benchmark::Turns => own_turns(&of_case),
            _ => {}
        }
    }
}

/// A runtime in a case; nothing where it did not take part.
fn row(runtime: RuntimeKind, of_case: &[&Trial]) {
    let of_runtime = of(runtime, of_case);
    if of_runtime.is_empty() {
        return;
    }
    let lines = finished(&of_runtime);
    let unfinished = of_runtime.len() - lines.len();
    let rates: Vec<f64> = lines.iter().map(|line| line.rate()).collect();
    let figures = rate(&rates).unwrap_or_else(|| "not finished".to_owned());
    let scalability: Vec<f64> = lines.iter().map(|line| line.scalability_ns()).collect();
    let scalability = median(&scalability).map_or(String::new(), time);
    let ratios = RuntimeKind::THEIRS.map(|other| {
        let is_compared = RuntimeKind::OURS.contains(&runtime);
        let pairs = pairs(&of_runtime, &of(other, of_case));
        let estimate = paired_ratio(&pairs, CONFIDENCE).filter(|_| is_compared);
        estimate.as_ref().map_or(String::new(), ratio)
    });
    let line = format!(
        "  {:<7}{figures:>30}{scalability:>13}{:>31}{:>31}",
        runtime.name(),
        ratios[0],
        ratios[1]
    );
    println!("{}", line.trim_end());
    if unfinished > 0 && !lines.is_empty() {
        println!(
            "         not finished in {unfinished} of {}",
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

/// How long threads waited for their turn.
fn turns(of_case: &[&Trial]) {
    for runtime in RuntimeKind::OURS.into_iter().chain(RuntimeKind::THEIRS) {
        let lines = Lines::of(runtime, of_case);
        let typical = median(&lines.figures(|line| Some(line.turn_p50_ns? as f64)));
        let longest = lines.greatest(|line| Some(line.turn_max_ns? as f64));
        let ratios = lines.figures(Line::longest_turn);
        if let (Some(typical), Some(longest), Some(middle)) = (typical, longest, median(&ratios)) {
            println!(
                "  {:<7}turn: median {}, longest {} (in the middle run {middle:.0} medians)",
                runtime.name(),
                time(typical),
                time(longest),
            );
        }
    }
}

/// A runtime that loses more of its time to gaps than so many times what empty loops lose has gaps
/// of its own.
const GAPS_LIMIT: f64 = 1.5;

/// How long they waited less the time in which some kernel thread neither ran nor slept, and how
/// that compares with the limit.
fn own_turns(of_case: &[&Trial]) {
    println!("  longest of the turns, less the time in which some kernel thread did not run:");
    for runtime in RuntimeKind::OURS.into_iter().chain(RuntimeKind::THEIRS) {
        let lines = Lines::of(runtime, of_case);
        let typical = median(&lines.figures(|line| Some(line.turn_p50_ns? as f64)));
        let own = lines.figures(Line::longest_own_turn);
        let raw = median(&lines.figures(Line::longest_turn));
        let taken = median(&lines.figures(|line| line.taken_share));
        let of_loops = median(&lines.figures(|line| line.taken_share_of_loops));
        let worst = own.iter().copied().reduce(f64::max);
        if let (Some(typical), Some(raw), Some(worst), Some(middle), Some(taken), Some(of_loops)) =
            (typical, raw, worst, median(&own), taken, of_loops)
        {
            let kept = own.iter().filter(|&&ratio| ratio <= TURN_LIMIT).count();
            let doubt = match taken > of_loops * GAPS_LIMIT {
                true => ": not to be judged",
                false => "",
            };
            println!(
                "  {:<7}medians of {}: {middle:.0} ({}) in the middle run, {worst:.0} in the worst, \
                 at most {TURN_LIMIT:.0} in {kept} of {}; nothing taken off {raw:.0}; gaps {:.1} % \
                 of the time, of empty loops' {:.1} %{doubt}",
                runtime.name(),
                time(typical),
                time(middle * typical),
                own.len(),
                taken * 100.0,
                of_loops * 100.0
            );
        }
    }
}

/// What a runtime's runs of a case printed. Those that did not finish are among them: they have the
/// longest turns of all.
struct Lines<'trials>(Vec<&'trials Line>);

impl<'trials> Lines<'trials> {
    fn of(runtime: RuntimeKind, of_case: &[&'trials Trial]) -> Self {
        let trials = of(runtime, of_case);
        let lines = trials.iter().filter_map(|trial| trial.line.as_ref().ok());
        Self(lines.collect())
    }

    fn figures(&self, of: fn(&Line) -> Option<f64>) -> Vec<f64> {
        self.0.iter().filter_map(|line| of(line)).collect()
    }

    fn greatest(&self, of: fn(&Line) -> Option<f64>) -> Option<f64> {
        self.figures(of).into_iter().reduce(f64::max)
    }
}

/// The runs of a runtime.
pub(crate) fn of<'trials>(runtime: RuntimeKind, of_case: &[&'trials Trial]) -> Vec<&'trials Trial> {
    let is_its = |trial: &&&Trial| trial.runtime == runtime;
    of_case.iter().filter(is_its).copied().collect()
}

/// What those printed that finished.
pub(crate) fn finished<'trials>(trials: &[&'trials Trial]) -> Vec<&'trials Line> {
    trials.iter().filter_map(|trial| trial.finished()).collect()
}

/// Rates of the same repeat, where both finished.
fn pairs(ours: &[&Trial], theirs: &[&Trial]) -> Vec<(f64, f64)> {
    let pair = |mine: &&Trial| {
        let other = theirs.iter().find(|other| other.repeat == mine.repeat)?;
        Some((mine.finished()?.rate(), other.finished()?.rate()))
    };
    ours.iter().filter_map(pair).collect()
}

/// None where there are none.
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

fn time(ns: f64) -> String {
    match ns {
        ..1e3 => format!("{ns:.1} ns"),
        ..1e6 => format!("{:.1} µs", ns / 1e3),
        _ => format!("{:.1} ms", ns / 1e6),
    }
}

/// Writes a row for each run. What a run has not is empty, never zero.
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
        "turn_own_max_ns",
        "taken_share",
        "taken_share_of_loops",
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
            text(line.and_then(|line| line.turn_own_max_ns)),
            share(line.and_then(|line| line.taken_share)),
            share(line.and_then(|line| line.taken_share_of_loops)),
            trial.line.as_ref().err().cloned().unwrap_or_default(),
        ];
        writer.write_record(record).map_err(in_file)?;
    }
    writer
        .flush()
        .map_err(|error| format!("{}: {error}", path.display()))
}
