//! Converts plans of cache trials: the first version to the present one, and the present one to
//! servers, settings and rates.

use std::collections::BTreeMap;

use super::encode::{GENERATOR_LIMITED, OFFERED_RPS};
use super::folder::{self, FigureKind, Settings, Sweep};
use super::metrics::metrics;
use super::settings::Vary;
use crate::figure::{self, Figure};
use crate::record::{Factor, Factors, Plan, Repeats, SCHEMA, Stage, Unit, Value};
use crate::units::{self, Quantity};

/// The factor whose values are servers.
pub const SERVER: &str = "server";
/// The factor that is a share of the capacity measured before.
pub const LEVEL: &str = "level";
/// The factor that is an offered rate.
pub const RATE: &str = "rate";
/// The stage whose trials measure capacities.
pub const CAPACITY: &str = "capacity";
/// The stage of the offered rates.
pub const SWEEP: &str = "sweep";

/// The words for a known factor of cache trials: title, title of an axis, phrase, label, unit.
type FactorWords = (
    &'static str,
    Option<&'static str>,
    &'static str,
    Option<&'static str>,
    Option<Unit>,
);

fn words(name: &str) -> Option<FactorWords> {
    let count = || Some(Unit::count());
    let with = "with {label}";
    Some(match name {
        SERVER => ("server", None, "{}", None, None),
        LEVEL => (
            "load level",
            None,
            "at load level {}",
            Some("level {}"),
            None,
        ),
        RATE => (
            "offered rate",
            Some("offered rate (requests/s)"),
            "at {} offered",
            None,
            Some(Unit::per_second()),
        ),
        "connections" => ("connections", None, with, Some("{} connections"), count()),
        "depth" => (
            "depth",
            Some("outstanding requests per connection"),
            with,
            Some("depth\u{a0}{}"),
            count(),
        ),
        "update" => (
            "share of updates",
            None,
            with,
            Some("updates\u{a0}{}"),
            Some(Unit::share()),
        ),
        "saturating" => (
            "saturating connections",
            Some("saturating connections, in addition to the measured ones"),
            with,
            Some("{} saturating connections"),
            count(),
        ),
        _ => return None,
    })
}

/// A factor of cache trials with these values. Any name may be a factor; the known ones have titles
/// and units.
#[must_use]
pub fn factor(name: &str, values: Vec<Value>, reference: Option<Value>) -> Factor {
    let known = words(name);
    let (title, axis_title, phrase, label, unit) = match known {
        Some((title, axis_title, phrase, label, unit)) => {
            (title, axis_title, Some(phrase), label, unit)
        }
        None => (name, None, None, None, None),
    };
    let mut factor = Factor {
        name: name.to_owned(),
        title: title.to_owned(),
        axis_title: axis_title.map(str::to_owned),
        phrase: phrase.map(str::to_owned),
        label: label.map(str::to_owned),
        labels: BTreeMap::new(),
        styles: Vec::new(),
        unit,
        reference,
        values,
    };
    let unlike: Vec<(String, String)> = (factor.values.iter())
        .filter_map(|value| Some((value.to_string(), condition(name, value.number()?)?, value)))
        .filter(|(_, words, value)| *words != factor.label(value))
        .map(|(value, words, _)| (value, words))
        .collect();
    factor.labels.extend(unlike);
    factor
}

/// The label of a value: `1 connection`, `no saturating connection`, `level 1.0`.
fn condition(name: &str, value: f64) -> Option<String> {
    if name == LEVEL {
        return Some(format!("level {}", units::level(value)));
    }
    Vary::of(name, vec![value]).map(|vary| vary.condition(value))
}

/// A figure that cache trials have by name: `throughput`, `tail`, `cpu` or `bursts`. It is against
/// the offered rate or, if there is one rate and one other factor but the servers, against that
/// factor.
#[must_use]
pub fn figure(kind: FigureKind, factors: &[Factor]) -> Figure {
    let is_rate = |it: &&Factor| it.name == LEVEL || it.name == RATE;
    let rates = factors.iter().find(is_rate).map_or(0, |it| it.values.len());
    let varied = factors
        .iter()
        .find(|it| it.name != SERVER && !is_rate(it))
        .map(|it| it.name.clone());
    let is_over_setting = rates <= 1 && varied.is_some();
    let against = match &varied {
        Some(varied) if is_over_setting => words(varied)
            .map_or(varied.as_str(), |(title, ..)| title)
            .to_owned(),
        _ => "offered rate".to_owned(),
    };
    let (x, by, panel) = match varied {
        Some(varied) if is_over_setting => (varied, SERVER.to_owned(), None),
        Some(varied) => (OFFERED_RPS.to_owned(), varied, Some(SERVER.to_owned())),
        None => (OFFERED_RPS.to_owned(), SERVER.to_owned(), None),
    };
    let (name, y, title, y_title, unit, scale) = match kind {
        FigureKind::Throughput => (
            "throughput",
            "achieved_rps",
            "Achieved rate",
            "achieved rate (requests/s)",
            None,
            figure::Scale::Linear,
        ),
        FigureKind::Tail => (
            "tail",
            "response_p99_ns",
            "99th percentile of response time",
            "response time, 99th percentile (log scale)",
            None,
            figure::Scale::Log,
        ),
        FigureKind::Cpu => (
            "cpu",
            "server_cpu_ns_per_request",
            "Server processor time per request",
            "processor time per request, user + system (µs)",
            Some(Unit::from("us".to_owned())),
            figure::Scale::Linear,
        ),
        FigureKind::Bursts => (
            "bursts",
            "burst_mean",
            "Connections served per wake-up",
            "ready connections per wake-up, mean (log scale)",
            None,
            figure::Scale::Log,
        ),
    };
    let is_diagonal = kind == FigureKind::Throughput && !is_over_setting;
    Figure {
        title: Some(format!("{title} against {against}")),
        x: Some(x),
        by: Some(by),
        panel,
        y_title: Some(y_title.to_owned()),
        unit,
        scale,
        knee: (!is_over_setting).then(|| "response_p99_ns".to_owned()),
        diagonal: is_diagonal,
        diagonal_title: is_diagonal.then(|| "achieved = offered".to_owned()),
        ..Figure::new(name, figure::FigureKind::Curve, y)
    }
}

/// What the reasons for which cache trials are suspect mean: [`Plan::suspects`].
#[must_use]
pub fn suspects() -> BTreeMap<String, String> {
    let meaning = format!(
        "(the generator's own lateness exceeds {} at the 99th percentile); they do not count for \
         tail and knee",
        Quantity::Duration.exact(measure::LATENESS_LIMIT_NS as f64),
    );
    BTreeMap::from([(GENERATOR_LIMITED.to_owned(), meaning)])
}

/// The kind of a figure that cache trials have by name. None: it is declared otherwise.
fn kind_of(figure: &Figure) -> Option<FigureKind> {
    Some(match figure.name.as_str() {
        "throughput" => FigureKind::Throughput,
        "tail" => FigureKind::Tail,
        "cpu" => FigureKind::Cpu,
        "bursts" => FigureKind::Bursts,
        _ => return None,
    })
}

/// A plan of the first version.
pub(super) fn general(first: &folder::Plan) -> Plan {
    let taking_part = || {
        let servers = first.servers.iter();
        servers.filter(|server| server.skipped.is_none())
    };
    let names = taking_part().map(|it| Value::from(it.name.as_str()));
    let mut server = factor(SERVER, names.collect(), None);
    // A server has its colour and marker even if one before it was skipped.
    let numbered = (0u32..).zip(&first.servers);
    let numbers = numbered.filter(|(_, server)| server.skipped.is_none());
    server.styles = numbers.map(|(number, _)| number).collect();
    let mut factors = vec![server];
    if let Some(vary) = &first.vary {
        let values = vary.values().into_iter().map(Value::from).collect();
        let reference = Value::from(vary.own(&first.load));
        factors.push(factor(vary.key(), values, Some(reference)));
    }
    let (name, rates) = match &first.sweep {
        Sweep::LoadLevels(levels) => (LEVEL, levels),
        Sweep::Rates(rates) => (RATE, rates),
    };
    let rates = rates.iter().copied().map(Value::from).collect();
    factors.push(factor(name, rates, None));

    let cells = |count: u32, of: fn(&folder::Plan, &str, u32) -> Factors| {
        let of_server = |it: &folder::Server| {
            let cell = |cell| of(first, &it.name, cell);
            (0..count).map(cell).collect::<Vec<_>>()
        };
        taking_part().flat_map(of_server).collect::<Vec<_>>()
    };
    let mut stages = Vec::new();
    if first.capacity_trials > 0 || matches!(first.sweep, Sweep::LoadLevels(_)) {
        stages.push(Stage {
            name: CAPACITY.to_owned(),
            // A load level requires a capacity, so at least one trial is expected.
            repeats: Repeats::fixed(first.capacity_trials.max(1)),
            cells: cells(first.settings(), setting_factors),
        });
    }
    stages.push(Stage {
        name: SWEEP.to_owned(),
        repeats: Repeats::fixed(first.repeats),
        cells: cells(first.cells(), cell_factors),
    });
    let settings = Settings {
        trial_ns: first.trial_ns,
        warmup_ns: first.warmup_ns,
        server_cpus: first.server_cpus.clone(),
        load_cpus: first.load_cpus.clone(),
        goes_first: first.goes_first,
        load: first.load.clone(),
        servers: first.servers.clone(),
        hosts: first.hosts.clone(),
    };
    Plan {
        schema: SCHEMA.to_owned(),
        experiment: first.experiment.clone(),
        question: first.question.clone(),
        kind: super::KIND.to_owned(),
        quick: first.quick,
        seed: first.seed,
        retries: 0,
        takes_ns: None,
        notes: first.notes.clone(),
        // Every value of these settings has a form in TOML.
        settings: toml::Table::try_from(settings).unwrap_or_default(),
        published: Vec::new(),
        targets: Vec::new(),
        figures: first
            .figures
            .iter()
            .map(|&kind| figure(kind, &factors))
            .collect(),
        factors,
        metrics: metrics(),
        suspects: suspects(),
        stages,
    }
}

/// The factors of a capacity trial of the first version.
pub(super) fn setting_factors(first: &folder::Plan, server: &str, setting: u32) -> Factors {
    let mut factors = Factors::from([(SERVER.to_owned(), Value::from(server))]);
    if let Some((vary, value)) = first.vary.as_ref().zip(first.setting_value(setting)) {
        factors.insert(vary.key().to_owned(), Value::from(value));
    }
    factors
}

/// The factors of a trial of the sweep of the first version.
pub(super) fn cell_factors(first: &folder::Plan, server: &str, cell: u32) -> Factors {
    let (setting, rate) = first.setting_and_rate(cell);
    let mut factors = setting_factors(first, server, setting);
    let (name, values) = match &first.sweep {
        Sweep::LoadLevels(levels) => (LEVEL, levels),
        Sweep::Rates(rates) => (RATE, rates),
    };
    if let Some(&value) = values.get(rate as usize) {
        factors.insert(name.to_owned(), Value::from(value));
    }
    factors
}

/// Whether the capacity of every server is measured. Else all levels are shares of one server's.
fn has_all_capacities(plan: &Plan) -> bool {
    let server = |cell: &Factors| cell.get(SERVER).cloned();
    let measured: Vec<_> = plan
        .stage(CAPACITY)
        .map(|it| it.cells.iter().map(server).collect())
        .unwrap_or_default();
    let mut cells = plan.last_stage().into_iter().flat_map(|it| &it.cells);
    cells.all(|cell| measured.contains(&server(cell)))
}

/// The plan as servers, settings and rates. None: it is of another kind of trial, has other
/// factors, or measures until an interval is narrow.
pub(super) fn classic(plan: &Plan) -> Option<folder::Plan> {
    if plan.kind != super::KIND {
        return None;
    }
    // There, every cell has the same number of trials: others would be missing.
    if plan.stages.iter().any(|it| it.repeats.until.is_some()) {
        return None;
    }
    let settings: Settings = plan.settings.clone().try_into().ok()?;
    let numbers = |factor: &Factor| -> Option<Vec<f64>> {
        let mut numbers: Vec<f64> = factor.values.iter().filter_map(Value::number).collect();
        numbers.sort_by(f64::total_cmp);
        (numbers.len() == factor.values.len()).then_some(numbers)
    };
    let (mut sweep, mut vary) = (None, None);
    for factor in &plan.factors {
        match factor.name.as_str() {
            SERVER => {}
            LEVEL if sweep.is_none() => sweep = Some(Sweep::LoadLevels(numbers(factor)?)),
            RATE if sweep.is_none() => sweep = Some(Sweep::Rates(numbers(factor)?)),
            name if vary.is_none() => vary = Some(Vary::of(name, numbers(factor)?)?),
            _ => return None,
        }
    }
    let sweep = sweep?;
    if matches!(sweep, Sweep::LoadLevels(_)) && !has_all_capacities(plan) {
        return None;
    }
    let stage = plan.last_stage()?;
    let capacity_trials = plan
        .stage(CAPACITY)
        .map_or(0, |capacity| capacity.repeats.most);
    let classic = folder::Plan {
        schema: folder::SCHEMA.to_owned(),
        experiment: plan.experiment.clone(),
        question: plan.question.clone(),
        quick: plan.quick,
        seed: plan.seed,
        repeats: stage.repeats.most,
        trial_ns: settings.trial_ns,
        warmup_ns: settings.warmup_ns,
        load: settings.load,
        server_cpus: settings.server_cpus,
        load_cpus: settings.load_cpus,
        goes_first: settings.goes_first,
        sweep,
        vary,
        capacity_trials,
        servers: settings.servers,
        figures: plan.figures.iter().filter_map(kind_of).collect(),
        notes: plan.notes.clone(),
        hosts: settings.hosts,
    };
    // Every combination must be there: a nested or listed design has a page of the general form.
    let servers = classic.servers.iter();
    let taking_part = servers.filter(|it| it.skipped.is_none()).count();
    let is_crossed = stage.cells.len() == taking_part * classic.cells() as usize;
    is_crossed.then_some(classic)
}
