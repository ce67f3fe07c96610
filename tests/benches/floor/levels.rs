//! The tail at rates that are shares of memcached's capacity.

use std::process::Command;

use anyhow::{Context, Result, bail};
use measure::{Estimate, median, verdict};

use crate::hosts;
use crate::offered::{self, Figure, Load, P99, P999, Tail};
use crate::rounds::in_turns;
use crate::servers::{Cache, Role, Subject};
use crate::table::{self, ratio, shown, shown_whole};
use crate::{Progress, Settings};

/// Two tables: each has servers and a capacity of its own, and may be asked for alone.
pub(crate) const NAMES: [&str; 2] = [
    "levels of memcached's capacity, 0.5",
    "levels of memcached's capacity, 0.9",
];
const LEVELS: [f64; 2] = [0.5, 0.9];
/// Where p99.9 is a target: at half of the capacity both servers wait for the same machine there.
const JUDGED_AT_P999: [bool; 2] = [false, true];
const CAPACITY_TRIALS: usize = 3;
/// Runs a program in the real-time class (chrt(1)), where other programs do not have its processor
/// but while it sleeps. One that never sleeps is stopped for 50 ms of each second (sched(7)).
const REAL_TIME: &[&str] = &["chrt", "--fifo", "1"];
/// Opening a connection takes about so long.
const OPEN_NS: u64 = 70_000;

pub(crate) fn expected_ns(settings: &Settings, caches: &[Cache]) -> u64 {
    let subjects = compared(caches).map_or(0, |(caches, _)| caches.len());
    if subjects == 0 {
        return 0;
    }
    let trials = CAPACITY_TRIALS + settings.rounds * subjects;
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

/// Whether servers can be started in the real-time class.
pub(crate) fn check_real_time() -> Result<()> {
    let (program, arguments) = REAL_TIME.split_first().context("a program")?;
    let tried = Command::new(program).args(arguments).arg("true").output();
    let tried = tried.with_context(|| format!("--real-time wants {program}, of util-linux"))?;
    if !tried.status.success() {
        let said = String::from_utf8_lossy(&tried.stderr);
        bail!(
            "--real-time is root's, or wants CAP_SYS_NICE: {}",
            said.trim()
        );
    }
    Ok(())
}

/// Prints the table of level `NUMBER`.
pub(crate) fn print<const NUMBER: usize>(
    settings: &Settings,
    caches: &[Cache],
    progress: &Progress,
) -> Result<()> {
    let (name, level) = (NAMES[NUMBER], LEVELS[NUMBER]);
    let Some((caches, base)) = compared(caches) else {
        println!("\nskipped: {name}: no memcached is among the servers");
        return Ok(());
    };
    let connections = settings.ladder_connections;
    let under: &[&str] = if settings.real_time { REAL_TIME } else { &[] };
    let mut asked = Load {
        connections,
        rate_rps: None,
        saturating: 0,
        saturating_depth: 1,
        detects_stalls: settings.real_time,
    };
    let subjects = caches
        .iter()
        .map(|cache| offered::start_filled(cache, under, &asked, settings))
        .collect::<Result<Vec<Subject>>>()?;
    let rates = (0..CAPACITY_TRIALS)
        .map(|_| Ok(offered::trial(&subjects[base], &asked, settings)?.achieved_rps))
        .collect::<Result<Vec<f64>>>()?;
    let capacity_rps = median(&rates).context("memcached's capacity")?;
    asked.rate_rps = Some(level * capacity_rps);
    let mut trials: Vec<Vec<Tail>> = vec![Vec::new(); subjects.len()];
    in_turns(settings.rounds, subjects.len(), |round, at| {
        progress.say(name, round);
        let summary = offered::trial(&subjects[at], &asked, settings)?;
        trials[at].push(Tail::of(&summary)?);
        Ok(())
    })?;
    progress.clear();
    println!(
        "\n{level} of memcached's capacity of {capacity_rps:.0}/s, {connections} connections, \
         trials of {} ms{}{}",
        settings.offered_ns / 1_000_000,
        match settings.real_time {
            true => ", servers in the real-time class",
            false => "",
        },
        hosts::title(&settings.hosts)
    );
    print_level::<NUMBER>(settings, &subjects, &trials, base);
    if let Some(note) = offered::censored(trials.iter().flatten()) {
        println!("{note}");
    }
    Ok(())
}

fn print_level<const NUMBER: usize>(
    settings: &Settings,
    subjects: &[Subject],
    trials: &[Vec<Tail>],
    base: usize,
) {
    println!(
        "  {:<27}{:>24}{:>24}{:>20}{:>10}   {:<24}{:<24}{:<24}{:<24}target",
        "server",
        "p99, µs",
        "p99.9, µs",
        "generator late",
        "stalled",
        "p99, times",
        "p99.9, times",
        "p99, in time",
        "p99.9, in time"
    );
    for (at, (subject, own)) in subjects.iter().zip(trials).enumerate() {
        let other = (at != base).then_some(&trials[base]);
        let all = |of: fn(&Tail) -> f64| other.and_then(|base| ratio(own, base, of));
        let in_time = |it: Figure| other.and_then(|base| it.ratio_in_time(own, base));
        let (p99, p999) = (in_time(P99), in_time(P999));
        let target = match subject.role {
            Role::Curtail => judged(p99, JUDGED_AT_P999[NUMBER].then_some(p999)),
            _ => String::new(),
        };
        let line = format!(
            "  {:<27}{:>24}{:>24}{:>20}{:>10}   {:<24}{:<24}{:<24}{:<24}{target}",
            subject.name,
            shown_whole(table::median(own, P99.of)),
            shown_whole(table::median(own, P999.of)),
            format!("{} and {} of {}", P99.late(own), P999.late(own), own.len()),
            stalled(settings, own),
            shown(all(P99.of)),
            shown(all(P999.of)),
            shown(p99),
            shown(p999),
        );
        println!("{}", line.trim_end());
    }
}

/// In how many of them the machine held up the server's processor: seen where servers are in the
/// real-time class.
fn stalled(settings: &Settings, trials: &[Tail]) -> String {
    match settings.real_time {
        true => P999.stalled(trials).to_string(),
        false => "-".to_owned(),
    }
}

/// By p99, and by p99.9 where that is a target.
fn judged(p99: Option<Estimate>, p999: Option<Option<Estimate>>) -> String {
    let is_below = |it: Estimate| it.interval.high < 1.0;
    let p99 = p99.map(is_below);
    match p999.map(|p999| p999.map(is_below)) {
        None => verdict("p99 below memcached", p99),
        Some(p999) => verdict(
            "p99 and p99.9 below memcached",
            p99.zip(p999).map(|(p99, p999)| p99 && p999),
        ),
    }
}
