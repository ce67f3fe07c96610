//! The head of the page: the answer in one sentence, and each server at the point compared.
//!
//! The plan determines the point compared, for rates together with the baseline's capacity, so that
//! no latency or cost can influence it. Of load levels it is the one nearest 0.5; of rates the one
//! nearest half of the baseline's capacity or, if that is not known, the middle one; of settings
//! the last (the first, if the last is the load's own). The baseline is the last server of the plan
//! that took part.
//!
//! A ratio is decided if its 95 % interval excludes 1. It is not known if more than half of the
//! trials of either server are generator-limited, or if the 99th percentile of any trial used is a
//! lower bound: the interval would then be too narrow by an unknown amount.

use measure::{Capacity, Estimate};

use crate::cache::Run;
use crate::cache::cells::{self, Cell};
use crate::cache::findings::{self, CurveFindings};
use crate::cache::folder::{Outcome, Sweep};
use crate::cache::sweep_axis::SweepAxis;
use crate::cache::verdict::{estimated, has_full_confidence};
use crate::limits;
use crate::units::{self, Quantity};

/// Load level, or share of the baseline's capacity, of the point compared.
const LEVEL_COMPARED: f64 = 0.5;

/// The head of the page.
pub(crate) struct Answer<'a> {
    /// Ends with a full stop.
    pub(crate) sentence: String,
    /// The point compared, such as `at load level 0.5 of each server's own capacity`.
    pub(crate) point: String,
    /// Name of the server that the others are compared with; none where fewer than two took part.
    pub(crate) baseline: Option<&'a str>,
    /// In the order of the plan.
    pub(crate) servers: Vec<ServerAtPoint<'a>>,
}

/// One server at the point compared.
pub(crate) struct ServerAtPoint<'a> {
    pub(crate) curve: &'a CurveFindings<'a>,
    pub(crate) cell: &'a Cell<'a>,
    /// Under the setting compared. None: not measured.
    pub(crate) capacity: Option<Capacity>,
    pub(crate) p99: Ratio,
}

/// A server's 99th percentile of response time ÷ the baseline's.
pub(crate) enum Ratio {
    /// The server is the baseline, or the only one.
    None,
    /// The 95 % interval excludes 1.
    Decided(Estimate),
    /// It does not, or there are too few trials for an interval of that confidence.
    Undecided(Estimate),
    /// Why there is no ratio, as a clause.
    Unknown(String),
}

/// The answer of a run.
pub(crate) fn of<'a>(run: &Run, all: &'a [CurveFindings<'a>]) -> Answer<'a> {
    let setting = setting_compared(run);
    let curves: Vec<&CurveFindings> = all
        .iter()
        .filter(|curve| curve.setting.is_none() || curve.setting == setting)
        .collect();
    let capacity_of = |curve: &CurveFindings| {
        // Capacity trials are numbered by setting.
        findings::capacity_under(run, &curve.server.name, setting)
    };
    let baseline = curves.last().copied();
    let baseline_capacity = baseline.and_then(capacity_of);
    let at = match baseline.map(|curve| curve.axis) {
        Some(SweepAxis::Setting(_)) => setting.unwrap_or_default() as usize,
        _ => rate_compared(&run.plan.sweep, baseline_capacity.as_ref()),
    };
    let baseline_cell = baseline.and_then(|curve| curve.cells.get(at));
    let servers: Vec<ServerAtPoint> = curves
        .iter()
        .filter_map(|&curve| {
            let cell = curve.cells.get(at)?;
            let is_baseline = baseline.is_some_and(|other| std::ptr::eq(other, curve));
            let p99 = match (baseline, baseline_cell) {
                (Some(other), Some(to)) if !is_baseline => ratio(curve, cell, other, to),
                _ => Ratio::None,
            };
            let capacity = capacity_of(curve);
            Some(ServerAtPoint {
                curve,
                cell,
                capacity,
                p99,
            })
        })
        .collect();
    let point = point(run, setting, at, baseline, baseline_capacity.as_ref());
    let baseline = baseline.filter(|_| servers.len() > 1);
    let baseline = baseline.map(|curve| curve.server.name.as_str());
    let mut clauses = vec![lead(&point, &servers, baseline)];
    clauses.extend(caveats(run, all, &servers));
    Answer {
        sentence: format!("{}.", capitalised(&clauses.join("; "))),
        point,
        baseline,
        servers,
    }
}

/// The setting compared. None: nothing is varied.
fn setting_compared(run: &Run) -> Option<u32> {
    run.plan.vary.as_ref()?;
    let last = run.plan.settings().saturating_sub(1);
    let is_own = run.plan.reference() == Some(last);
    Some(if is_own { 0 } else { last })
}

/// Index of the rate compared.
fn rate_compared(sweep: &Sweep, baseline: Option<&Capacity>) -> usize {
    let nearest = |points: &[f64], target: f64| {
        let distances = points.iter().map(|point| (point - target).abs());
        let nearest = distances
            .enumerate()
            .min_by(|(_, a), (_, b)| a.total_cmp(b));
        nearest.map_or(0, |(index, _)| index)
    };
    match (sweep, baseline.filter(|capacity| !capacity.at_least)) {
        (Sweep::LoadLevels(levels), _) => nearest(levels, LEVEL_COMPARED),
        (Sweep::Rates(rates), Some(capacity)) => {
            nearest(rates, LEVEL_COMPARED * capacity.rps.value)
        }
        (Sweep::Rates(rates), None) => rates.len() / 2,
    }
}

/// The point compared in words; it reads on after a comma or begins a sentence.
fn point(
    run: &Run,
    setting: Option<u32>,
    at: usize,
    baseline: Option<&CurveFindings>,
    capacity: Option<&Capacity>,
) -> String {
    let condition = setting.and_then(|setting| run.plan.condition(setting));
    let condition = condition.map_or_else(String::new, |with| format!("with {with}, "));
    let is_by_rate = matches!(SweepAxis::of(&run.plan), SweepAxis::Rate);
    let rate = if is_by_rate { at } else { 0 };
    match &run.plan.sweep {
        Sweep::LoadLevels(levels) => {
            let level = levels
                .get(rate)
                .copied()
                .map_or("–".to_owned(), units::level);
            format!("{condition}at load level {level} of each server's own capacity")
        }
        Sweep::Rates(rates) => {
            let rate_rps = rates.get(rate).copied().unwrap_or_default();
            let capacity = capacity.filter(|capacity| !capacity.at_least);
            let share = baseline.zip(capacity).map(|(curve, capacity)| {
                let share = Quantity::Factor.words(rate_rps / capacity.rps.value);
                format!(" ({share} of {}'s capacity)", short(curve))
            });
            let share = share.unwrap_or_default();
            format!("{condition}at {} offered{share}", units::rate(rate_rps))
        }
    }
}

fn ratio(of: &CurveFindings, cell: &Cell, to: &CurveFindings, to_cell: &Cell) -> Ratio {
    let unknown = [(of, cell), (to, to_cell)]
        .into_iter()
        .find_map(|(curve, cell)| unknown_p99(&short(curve), cell));
    if let Some(reason) = unknown {
        return Ratio::Unknown(reason);
    }
    match findings::p99_ratio(cell, to_cell) {
        Some(ratio) if !has_full_confidence(&ratio) || ratio.interval.contains(1.0) => {
            Ratio::Undecided(ratio)
        }
        Some(ratio) => Ratio::Decided(ratio),
        None => Ratio::Unknown("a 99th percentile is zero".to_owned()),
    }
}

/// Why nothing can be made of a cell's 99th percentile. None: something can.
fn unknown_p99(name: &str, cell: &Cell) -> Option<String> {
    let measured = cell.measured.len() as u64;
    if measured == 0 {
        return Some(format!("no trial of {name} was measured there"));
    }
    let of_all = |count: u64| match count {
        all if all == measured => format!("all {}", units::plural(all, "trial")),
        some => format!(
            "{} of {}",
            units::count(some),
            units::plural(measured, "trial")
        ),
    };
    if cell.mostly_limited() {
        let limited = of_all(u64::from(cell.limited()));
        return Some(format!(
            "the generator was the limit in {limited} of {name}"
        ));
    }
    if cell.unlimited(cells::p99_ns).is_empty() {
        return Some(format!("{name} has no response times there"));
    }
    let bounds =
        cell.unlimited(|measured| cells::is_lower_bound(measured, cells::P99).then_some(1.0));
    let bounds = bounds.len() as u64;
    (bounds > 0).then(|| {
        let bounds = of_all(bounds);
        format!("{name}'s p99 is a lower bound in {bounds}, for requests were never answered")
    })
}

/// The finding itself, without a full stop.
fn lead(point: &str, servers: &[ServerAtPoint], baseline: Option<&str>) -> String {
    let Some(baseline) = baseline.map(|name| units::shortened(name, limits::NAME_CHARACTERS))
    else {
        return match servers {
            [] => "no server took part: there is no answer".to_owned(),
            [only, ..] => alone(point, only),
        };
    };
    let compared: Vec<&ServerAtPoint> = servers
        .iter()
        .filter(|server| !matches!(server.p99, Ratio::None))
        .collect();
    if let [only] = compared.as_slice() {
        let name = short(only.curve);
        return match &only.p99 {
            Ratio::None => point.to_owned(),
            Ratio::Decided(ratio) => {
                let ratio = estimated(ratio, Quantity::Factor);
                format!("{point}, {name}'s p99 is {ratio} × {baseline}'s")
            }
            Ratio::Undecided(ratio) => format!(
                "{point}, {name}'s p99 against {baseline}'s is undecided: the ratio is {}{}",
                estimated(ratio, Quantity::Factor),
                few(ratio),
            ),
            Ratio::Unknown(why) => {
                format!("{point}, {name}'s p99 against {baseline}'s is not known: {why}")
            }
        };
    }
    let (mut decided, mut undecided, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for server in compared {
        let name = short(server.curve);
        match &server.p99 {
            Ratio::None => {}
            Ratio::Decided(ratio) => {
                decided.push(format!("{} for {name}", estimated(ratio, Quantity::Factor)));
            }
            Ratio::Undecided(ratio) => undecided.push(format!(
                "{name} ({}{})",
                estimated(ratio, Quantity::Factor),
                few(ratio)
            )),
            Ratio::Unknown(why) => unknown.push(format!("{name} ({why})")),
        }
    }
    let mut parts = Vec::new();
    for (what, list) in [
        ("", decided),
        ("undecided for ", undecided),
        ("not known for ", unknown),
    ] {
        if !list.is_empty() {
            parts.push(format!("{what}{}", units::listed(&list)));
        }
    }
    format!(
        "{point}, p99 as a multiple of {baseline}'s is {}",
        parts.join(", ")
    )
}

/// The only server that took part.
fn alone(point: &str, server: &ServerAtPoint) -> String {
    let name = short(server.curve);
    let p99 =
        measure::median_of_trials(&server.cell.unlimited(cells::p99_ns), findings::CONFIDENCE);
    let p99 = match (unknown_p99(&name, server.cell), p99) {
        (None, Some(p99)) => estimated(&p99, Quantity::Duration),
        (Some(why), _) => format!("not known ({why})"),
        (None, None) => "not known".to_owned(),
    };
    format!("{point}, {name}'s p99 is {p99}, and no other server took part to compare it with")
}

fn few(ratio: &Estimate) -> &'static str {
    match has_full_confidence(ratio) {
        true => "",
        false => ", from too few trials for a 95\u{a0}% interval",
    }
}

/// Clauses that qualify the finding, on the whole run.
fn caveats(run: &Run, curves: &[CurveFindings], servers: &[ServerAtPoint]) -> Vec<String> {
    let mut caveats = Vec::new();
    let bounded: Vec<String> = servers
        .iter()
        .filter(|server| server.capacity.is_some_and(|capacity| capacity.at_least))
        .map(|server| short(server.curve))
        .collect();
    if !bounded.is_empty() {
        let what = match bounded.len() {
            1 => "capacity of",
            _ => "capacities of",
        };
        let verb = match bounded.len() {
            1 => "is a lower bound",
            _ => "are lower bounds",
        };
        let names = units::listed(&bounded);
        caveats.push(format!(
            "the {what} {names} {verb}: the generator was the limit"
        ));
    }
    let (limited, cells) = limited_cells(run);
    if limited > 0 {
        let have = if limited == 1 { "has" } else { "have" };
        let cells = units::plural(cells, "cell");
        caveats.push(format!(
            "{} of {cells} {have} generator-limited trials",
            units::count(limited)
        ));
    }
    if let Some((failing, checked)) = failing_law(curves) {
        let trials = units::plural(checked, "trial");
        caveats.push(format!(
            "Little's law fails in {} of {trials}",
            units::count(failing)
        ));
    }
    let missing = run.missing().len() as u64;
    if missing > 0 {
        let is_measured =
            |trial: &&crate::cache::folder::Trial| matches!(trial.outcome, Outcome::Measured(_));
        let measured = run.trials.iter().filter(is_measured).count() as u64;
        let are = if missing == 1 { "is" } else { "are" };
        let all = units::plural(missing + measured, "trial");
        caveats.push(format!("{} of {all} {are} missing", units::count(missing)));
    }
    let skipped: Vec<String> = run
        .plan
        .servers
        .iter()
        .filter(|server| server.skipped.is_some())
        .map(|server| units::shortened(&server.name, limits::NAME_CHARACTERS))
        .collect();
    if !skipped.is_empty() {
        let were = if skipped.len() == 1 { "was" } else { "were" };
        caveats.push(format!("{} {were} skipped", units::listed(&skipped)));
    }
    caveats
}

/// (trials in which Little's law fails, trials checked). None: it holds in all.
fn failing_law(curves: &[CurveFindings]) -> Option<(u64, u64)> {
    let laws = curves.iter().filter_map(|curve| curve.littles_law);
    let (holding, checked) = laws.fold((0, 0), |(holding, checked), law| {
        (holding + law.holding as u64, checked + law.trials as u64)
    });
    (holding < checked).then(|| (checked - holding, checked))
}

/// (cells with a generator-limited trial, all cells of the servers that took part).
fn limited_cells(run: &Run) -> (u64, u64) {
    let servers = run.plan.servers.iter();
    let (mut limited, mut all) = (0, 0);
    for server in servers.filter(|server| server.skipped.is_none()) {
        for index in 0..run.plan.cells() {
            all += 1;
            limited += u64::from(Cell::of(run, &server.name, index).limited() > 0);
        }
    }
    (limited, all)
}

fn short(curve: &CurveFindings) -> String {
    units::shortened(&curve.server.name, limits::NAME_CHARACTERS)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
