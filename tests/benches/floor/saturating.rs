//! What one saturating connection costs a thousand others: one with 512 requests outstanding all
//! the time.

use anyhow::Result;
use measure::{median, verdict};

use crate::hosts;
use crate::offered::{self, Load, P99, Tail};
use crate::rounds::in_turns;
use crate::servers::{Cache, Role, Subject};
use crate::table::{self, ratio, shown, shown_whole};
use crate::{Progress, Settings};

pub(crate) const NAME: &str = "one saturating connection";
const MEASURED: u32 = 1_000;
/// Requests per second of all measured connections together: a tenth of the server's capacity.
const MEASURED_RPS: f64 = 10_000.0;
const DEPTH: u32 = 512;
/// The greatest ratio of the measured connections' p99 with the saturating one to that without.
const TARGET_TIMES: f64 = 1.5;
const OPEN_NS: u64 = 100_000_000;

pub(crate) fn expected_ns(settings: &Settings, caches: &[Cache]) -> u64 {
    let trial_ns = OPEN_NS + settings.offered_warm_ns + settings.offered_ns;
    (2 * settings.rounds * caches.len()) as u64 * trial_ns
}

/// Prints the table.
pub(crate) fn print(settings: &Settings, caches: &[Cache], progress: &Progress) -> Result<()> {
    let mut asked = Load {
        connections: MEASURED,
        rate_rps: Some(MEASURED_RPS),
        saturating: 0,
        saturating_depth: DEPTH,
        detects_stalls: false,
    };
    let subjects = caches
        .iter()
        .map(|cache| offered::start_filled(cache, &[], &asked, settings))
        .collect::<Result<Vec<Subject>>>()?;
    // Without the saturating one, and with it.
    let mut trials: Vec<[Vec<Tail>; 2]> = vec![Default::default(); subjects.len()];
    in_turns(settings.rounds, 2 * subjects.len(), |round, at| {
        progress.say(NAME, round);
        let (at, saturating) = (at / 2, at % 2);
        asked.saturating = saturating as u32;
        let summary = offered::trial(&subjects[at], &asked, settings)?;
        trials[at][saturating].push(Tail::of(&summary)?);
        Ok(())
    })?;
    progress.clear();
    println!(
        "\n{NAME}: {MEASURED} measured connections, {MEASURED_RPS} requests/s together; one with {DEPTH} \
         outstanding; trials of {} ms{}",
        settings.offered_ns / 1_000_000,
        hosts::title(&settings.hosts)
    );
    println!(
        "  {:<27}{:>24}{:>24}{:>13}{:>24}   {:<24}{:<24}{:<24}{:<24}target",
        "server",
        "p99 alone, µs",
        "p99 with it, µs",
        "saturating/s",
        "generator late",
        "p50, times",
        "p95, times",
        "p99, times",
        "p99, in time"
    );
    for (subject, [alone, shared]) in subjects.iter().zip(&trials) {
        let times = P99.ratio_in_time(shared, alone);
        let target = match subject.role {
            Role::Curtail | Role::Fibres => verdict(
                &format!("≤ {TARGET_TIMES} times"),
                times.map(|times| times.interval.high <= TARGET_TIMES),
            ),
            _ => String::new(),
        };
        let rates: Vec<f64> = shared.iter().filter_map(|it| it.saturating_rps).collect();
        let line = format!(
            "  {:<27}{:>24}{:>24}{:>13}{:>24}   {:<24}{:<24}{:<24}{:<24}{target}",
            subject.name,
            shown_whole(table::median(alone, |it| it.p99_us)),
            shown_whole(table::median(shared, |it| it.p99_us)),
            median(&rates).map_or("-".to_owned(), |it| format!("{it:.0}")),
            format!(
                "{} and {} of {}",
                P99.late(alone),
                P99.late(shared),
                alone.len()
            ),
            shown(ratio(shared, alone, |it| it.p50_us)),
            shown(ratio(shared, alone, |it| it.p95_us)),
            shown(ratio(shared, alone, |it| it.p99_us)),
            shown(times),
        );
        println!("{}", line.trim_end());
    }
    if let Some(note) = offered::censored(trials.iter().flatten().flatten()) {
        println!("{note}");
    }
    Ok(())
}
