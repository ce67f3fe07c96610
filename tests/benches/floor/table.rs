//! A case as it is printed: estimates with their intervals, and whether ours meet the target.

use measure::{Estimate, median_of_trials, paired_ratio, verdict};

use crate::cases::{Case, Target};
use crate::rounds::Trial;
use crate::servers::{EVENTS, Role, Subject, name_before};

pub(crate) const CONFIDENCE: f64 = 0.95;

/// Prints the trials of a case.
pub(crate) fn print(case: &Case, subjects: &[&Subject], trials: &[Vec<Trial>]) {
    let base_role = match case.target {
        Target::BelowMemcached(_) => Role::Memcached,
        Target::TimesFloor(_) => Role::Floor,
    };
    let base = subjects.iter().position(|it| it.role == base_role);
    let beside = base.map_or("-", |at| subjects[at].name.as_str());
    let events = subjects.iter().position(|it| it.name == EVENTS);
    let rows: Vec<Row> = trials
        .iter()
        .enumerate()
        .map(|(at, own)| Row {
            cpu_us: median(own, |trial| trial.cpu_us),
            rate_rps: median(own, |trial| trial.rate_rps),
            busy: median(own, |trial| trial.busy),
            ratio: base
                .filter(|&base| base != at)
                .and_then(|base| ratio(own, &trials[base], |trial| trial.cpu_us)),
            beside_events: events.and_then(|at| ratio(own, &trials[at], |trial| trial.cpu_us)),
            beside_before: before(subjects, at)
                .and_then(|at| ratio(own, &trials[at], |trial| trial.cpu_us)),
        })
        .collect();
    // Order statistics have a confidence of their own, the same for all with as many rounds.
    let confidence = rows.iter().find_map(|row| row.cpu_us);
    let percent = confidence.map_or(0.0, |it| (it.interval.confidence * 100.0).floor());
    println!("\n{}", case.name());
    println!(
        "  {:<27}{:>21}{:>12}{:>8}   {:<26}target",
        "server",
        format!("CPU µs/request [{percent} %]"),
        "requests/s",
        "busy",
        format!("times {beside}"),
    );
    for (subject, row) in subjects.iter().zip(&rows) {
        let target = match subject.role {
            Role::Curtail => judged(case.target, row),
            Role::Fibres => judged_beside_events(case, row),
            _ => String::new(),
        };
        let target = match row.beside_before {
            Some(ratio) => format!("{}  {} times before", target, shown(Some(ratio))),
            None => target,
        };
        let line = format!(
            "  {:<27}{:>22}{:>12}{:>8}   {:<26}{target}",
            subject.name,
            shown(row.cpu_us),
            row.rate_rps
                .map_or("-".to_owned(), |it| format!("{:.0}", it.value)),
            row.busy
                .map_or("-".to_owned(), |it| format!("{:.0} %", it.value * 100.0)),
            shown(row.ratio),
        );
        println!("{}", line.trim_end());
    }
}

/// The older build of a server.
fn before(subjects: &[&Subject], at: usize) -> Option<usize> {
    let name = name_before(&subjects[at].name);
    subjects.iter().position(|it| it.name == name)
}

/// What a server came to.
struct Row {
    cpu_us: Option<Estimate>,
    rate_rps: Option<Estimate>,
    busy: Option<Estimate>,
    /// Of processor time, to that of the one it is compared with.
    ratio: Option<Estimate>,
    /// Of processor time, to that of our event loops.
    beside_events: Option<Estimate>,
    /// Of processor time, to that of an older build.
    beside_before: Option<Estimate>,
}

/// What a fibre for each connection costs beside a loop for all; memcached pays 1.25 times for the
/// same (Karsten and Barghi, 2020).
fn judged_beside_events(case: &Case, row: &Row) -> String {
    let shown = format!("{} times events", shown(row.beside_events));
    let most = match case.depth {
        1 => 1.15,
        16 => 1.3,
        _ => return shown,
    };
    let reached = row.beside_events.map(|it| it.interval.high <= most);
    format!("{shown}, {}", verdict(&format!("≤ {most}"), reached))
}

fn judged(target: Target, row: &Row) -> String {
    let (text, reached) = match target {
        Target::TimesFloor(most) => (
            format!("≤ {most} times"),
            row.ratio.map(|ratio| ratio.interval.high <= most),
        ),
        Target::BelowMemcached(times) => (
            format!("< {times:.2} times"),
            row.ratio.map(|ratio| ratio.interval.high < times),
        ),
    };
    verdict(&text, reached)
}

/// Of one figure of each trial.
pub(crate) fn median<T>(trials: &[T], of: impl Fn(&T) -> f64) -> Option<Estimate> {
    let values: Vec<f64> = trials.iter().map(of).collect();
    median_of_trials(&values, CONFIDENCE)
}

/// Of one figure, within the rounds, so that what a round's trials share cancels.
pub(crate) fn ratio<T>(trials: &[T], base: &[T], of: impl Fn(&T) -> f64) -> Option<Estimate> {
    let pairs = trials.iter().zip(base);
    let pairs: Vec<(f64, f64)> = pairs.map(|(one, other)| (of(one), of(other))).collect();
    paired_ratio(&pairs, CONFIDENCE)
}

/// A value and its interval, to hundredths.
pub(crate) fn shown(estimate: Option<Estimate>) -> String {
    shown_to(2, estimate)
}

/// A value and its interval, as whole numbers.
pub(crate) fn shown_whole(estimate: Option<Estimate>) -> String {
    shown_to(0, estimate)
}

fn shown_to(digits: usize, estimate: Option<Estimate>) -> String {
    estimate.map_or("-".to_owned(), |estimate| format!("{estimate:.digits$}"))
}
