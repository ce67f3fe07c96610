//! The tail at rates that are shares of memcached's capacity.

use anyhow::{Context, Result};
use measure::{Estimate, median};

use crate::offered::{self, Load, Tail, limited};
use crate::rounds::in_turns;
use crate::servers::{Cache, Role, Subject};
use crate::table::{self, ratio, shown, shown_whole, verdict};
use crate::{Progress, Settings};

pub(crate) const NAME: &str = "levels of memcached's capacity";
const LEVELS: [f64; 2] = [0.5, 0.9];
const CAPACITY_TRIALS: usize = 3;
/// Opening a connection takes about so long.
const OPEN_NS: u64 = 70_000;

pub(crate) fn expected_ns(settings: &Settings, caches: &[Cache]) -> u64 {
    let subjects = compared(caches).map_or(0, |(caches, _)| caches.len());
    if subjects == 0 {
        return 0;
    }
    let trials = CAPACITY_TRIALS + LEVELS.len() * settings.rounds * subjects;
    let opening_ns = u64::from(settings.ladder_connections) * OPEN_NS;
    let trial_ns = opening_ns + settings.offered_warm_ns + settings.offered_ns;
    trials as u64 * trial_ns + subjects as u64 * 4_000_000_000
}

/// The servers that are compared, and which of them is memcached; none: it is not there. A thread
/// for each of so many connections is another experiment.
fn compared(caches: &[Cache]) -> Option<(Vec<&Cache>, usize)> {
    let by_conversation = [runtime::Kind::Threads, runtime::Kind::Fibres].map(Some);
    let is_compared = |cache: &&Cache| !by_conversation.contains(&cache.kind);
    let caches: Vec<&Cache> = caches.iter().filter(is_compared).collect();
    let base = caches.iter().position(|it| it.role == Role::Memcached)?;
    Some((caches, base))
}

/// Prints the tables.
pub(crate) fn print(settings: &Settings, caches: &[Cache], progress: &Progress) -> Result<()> {
    let Some((caches, base)) = compared(caches) else {
        println!("\nskipped: {NAME}: no memcached is among the servers");
        return Ok(());
    };
    let connections = settings.ladder_connections;
    let mut asked = Load {
        connections,
        rate_rps: None,
        greedy: 0,
        greedy_depth: 1,
    };
    let subjects = caches
        .iter()
        .map(|cache| offered::start_filled(cache, &asked, settings))
        .collect::<Result<Vec<Subject>>>()?;
    let rates = (0..CAPACITY_TRIALS)
        .map(|_| Ok(offered::trial(&subjects[base], &asked, settings)?.achieved_rps))
        .collect::<Result<Vec<f64>>>()?;
    let capacity_rps = median(&rates).context("memcached's capacity")?;
    for level in LEVELS {
        let name = format!("{NAME}, {level}");
        asked.rate_rps = Some(level * capacity_rps);
        let mut trials: Vec<Vec<Tail>> = vec![Vec::new(); subjects.len()];
        in_turns(settings.rounds, subjects.len(), |round, at| {
            progress.say(&name, round);
            let summary = offered::trial(&subjects[at], &asked, settings)?;
            trials[at].push(Tail::of(&summary)?);
            Ok(())
        })?;
        progress.clear();
        println!(
            "\n{level} of memcached's capacity of {capacity_rps:.0}/s, {connections} connections, \
             trials of {} ms",
            settings.offered_ns / 1_000_000
        );
        print_level(&subjects, &trials, base);
    }
    Ok(())
}

fn print_level(subjects: &[Subject], trials: &[Vec<Tail>], base: usize) {
    println!(
        "  {:<19}{:>24}{:>24}{:>13}   {:<24}{:<24}target",
        "server", "p99, µs", "p99.9, µs", "gen.-limited", "p99, times", "p99.9, times"
    );
    for (at, (subject, own)) in subjects.iter().zip(trials).enumerate() {
        let beside = |of: fn(&Tail) -> f64| {
            let is_other = at != base;
            is_other.then(|| ratio(own, &trials[base], of)).flatten()
        };
        let (p99, p999) = (beside(|it| it.p99_us), beside(|it| it.p999_us));
        let target = match subject.role {
            Role::Curtail => judged(p99, p999),
            _ => String::new(),
        };
        let line = format!(
            "  {:<19}{:>24}{:>24}{:>13}   {:<24}{:<24}{target}",
            subject.name,
            shown_whole(table::median(own, |it| it.p99_us)),
            shown_whole(table::median(own, |it| it.p999_us)),
            limited(own),
            shown(p99),
            shown(p999),
        );
        println!("{}", line.trim_end());
    }
}

fn judged(p99: Option<Estimate>, p999: Option<Estimate>) -> String {
    let is_below = |it: Option<Estimate>| it.is_some_and(|it| it.interval.high < 1.0);
    verdict("below memcached", Some(is_below(p99) && is_below(p999)))
}
