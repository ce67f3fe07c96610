//! A synthetic run of two servers at several load levels, generated from a seed.

use std::collections::BTreeMap;

use crate::figure::{Figure, FigureKind, Scale};
use crate::record::{
    Better, Factor, Factors, Fault, FaultClass, Flag, Measured, Metric, Outcome, Plan, Record,
    Repeats, Stage, Value, names,
};
use crate::tests::general_run::{General, SplitMix, metric};

/// Load levels of the sweep.
pub(crate) const LEVELS: [f64; 8] = [0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
/// Trials of a cell.
pub(crate) const REPEATS: u32 = 15;
/// Name, capacity in requests per second, plateau of the tail in nanoseconds.
const SERVERS: [(&str, f64, f64); 2] = [
    ("curtail", 241_000.0, 142_000.0),
    ("memcached", 212_000.0, 178_000.0),
];
/// Processor time.
const CPU: &str = "server_cpu_ns_per_request";
/// Why a trial near the capacity of curtail does not count.
pub(crate) const LATE: &str = "the generator was late";

/// Two servers, five trials of each capacity, then eight levels and fifteen repeats: two trials of
/// memcached failed, one of curtail never ended, and near its capacity the generator was late in
/// every third trial.
pub(crate) fn ladder(seed: u64) -> General {
    let mut random = SplitMix(seed);
    let mut records = Vec::new();
    for (server, (name, capacity, plateau)) in (0..).zip(SERVERS) {
        let of = |cell: u32, stage: &str, level: Option<f64>, repeat: u32| {
            let mut factors = Factors::from([(names::SERVER.to_owned(), Value::from(name))]);
            factors.extend(level.map(|it| (names::LEVEL.to_owned(), Value::from(it))));
            let of_cell = level.map_or(0, |_| cell);
            Record {
                id: format!("{}-{name}-{of_cell}-{repeat:02}", &stage[..1]),
                stage: stage.to_owned(),
                cell: level.map_or(server, |_| server * LEVELS.len() as u32 + cell),
                repeat,
                retries: 0,
                resolved: BTreeMap::new(),
                factors,
                started_unix_ns: 1_795_223_563_000_000_000 + u64::from(repeat) * 7_000_000_000,
                outcome: Outcome::Failed(String::new()),
                notes: Vec::new(),
            }
        };
        for repeat in 0..5 {
            let mut record = of(0, names::CAPACITY, None, repeat);
            record.outcome = Outcome::Measured(measured(&mut random, capacity, None));
            records.push(record);
        }
        for (cell, level) in (0..).zip(LEVELS) {
            for repeat in 0..REPEATS {
                let mut record = of(cell, "sweep", Some(level), repeat);
                let offered = capacity * level;
                let queueing = 0.05 * (level / (1.03 - level)).powi(2);
                let p99 = plateau * (1.0 + queueing) * random.about(0.2);
                let mut measured = measured(&mut random, offered.min(capacity * 0.985), Some(p99));
                if name == "curtail" && level > 0.85 && repeat % 3 == 0 {
                    fault(&mut measured, FaultClass::Invalid, LATE);
                }
                record
                    .resolved
                    .insert(names::OFFERED_RPS.to_owned(), offered);
                record.outcome = Outcome::Measured(measured);
                records.push(record);
            }
        }
    }
    records.sort_by_key(|it| (it.stage != names::CAPACITY, it.repeat));
    records.retain(|it| it.id != "s-curtail-7-14");
    let plan = plan(seed);
    let mut run = General { plan, records };
    for id in ["s-memcached-4-03", "s-memcached-4-09"] {
        run.record(id).outcome = Outcome::Failed("server ended with signal 9".to_owned());
    }
    run
}

/// Gives a trial a fault; an invalid one is hollow in figures.
pub(crate) fn fault(measured: &mut Measured, class: FaultClass, reason: &str) {
    measured.fault = Some(Fault {
        class,
        reason: reason.to_owned(),
        spares: Vec::new(),
    });
}

/// Makes the tail of a trial a lower bound.
pub(crate) fn censor(measured: &mut Measured) {
    let flag = Flag {
        lower_bound: true,
        invalid: None,
    };
    measured
        .flags
        .insert(names::RESPONSE_P99_NS.to_owned(), flag);
}

fn measured(random: &mut SplitMix, rate_rps: f64, p99: Option<f64>) -> Measured {
    let achieved_rps = rate_rps * random.about(0.01);
    let expected = 25.0 * random.about(0.2);
    let mut metrics = BTreeMap::from([
        (names::ACHIEVED_RPS.to_owned(), achieved_rps),
        (CPU.to_owned(), 3_500.0 * random.about(0.03)),
        (
            names::OUTSTANDING_MEAN.to_owned(),
            expected * random.about(0.01),
        ),
        (names::OUTSTANDING_EXPECTED.to_owned(), expected),
    ]);
    metrics.extend(p99.map(|it| (names::RESPONSE_P99_NS.to_owned(), it)));
    Measured {
        metrics,
        ..Measured::default()
    }
}

fn plan(seed: u64) -> Plan {
    let servers = SERVERS.map(|(name, ..)| Value::from(name)).to_vec();
    let server = Factor {
        phrase: Some("{}".to_owned()),
        ..Factor::new(names::SERVER, servers)
    };
    let level = Factor {
        title: "load level".to_owned(),
        phrase: Some("at load level {}".to_owned()),
        label: Some("level {}".to_owned()),
        labels: BTreeMap::from([("1".to_owned(), "level 1.0".to_owned())]),
        ..Factor::new(names::LEVEL, LEVELS.map(Value::from).to_vec())
    };
    let of = |server: &Value| Factors::from([(names::SERVER.to_owned(), server.clone())]);
    let cells = server.values.iter().flat_map(|server| {
        LEVELS.map(|level| {
            let mut cell = of(server);
            cell.insert(names::LEVEL.to_owned(), Value::from(level));
            cell
        })
    });
    let stages = vec![
        Stage {
            name: names::CAPACITY.to_owned(),
            repeats: Repeats::fixed(5),
            cells: server.values.iter().map(of).collect(),
        },
        Stage {
            name: "sweep".to_owned(),
            repeats: Repeats::fixed(REPEATS),
            cells: cells.collect(),
        },
    ];
    let figure = |name: &str, y: &str, scale| Figure {
        title: Some(format!("The {name} against the offered rate")),
        x: Some(names::OFFERED_RPS.to_owned()),
        by: Some(names::SERVER.to_owned()),
        knee: Some(names::RESPONSE_P99_NS.to_owned()),
        scale,
        ..Figure::new(name, FigureKind::Curve, y)
    };
    let throughput = Figure {
        diagonal: true,
        ..figure("throughput", names::ACHIEVED_RPS, Scale::Linear)
    };
    Plan {
        experiment: "rate-ladder".to_owned(),
        question: "Up to what offered rate does each server keep up?".to_owned(),
        kind: "cache".to_owned(),
        factors: vec![server, level],
        metrics: metrics(),
        stages,
        figures: vec![
            figure("tail", names::RESPONSE_P99_NS, Scale::Log),
            throughput,
            figure("cpu", CPU, Scale::Linear),
        ],
        ..General::versions(seed).plan
    }
}

fn metrics() -> Vec<Metric> {
    let offered = metric(names::OFFERED_RPS, "offered rate", "/s", Better::Neither);
    let tail = "response time, 99th percentile";
    vec![
        Metric {
            planned: Some(names::RATE.to_owned()),
            ..offered
        },
        metric(names::ACHIEVED_RPS, "achieved rate", "/s", Better::Higher),
        metric(names::RESPONSE_P99_NS, tail, "ns", Better::Lower),
        metric(CPU, "processor time per request", "ns", Better::Lower),
        metric(
            names::OUTSTANDING_MEAN,
            "outstanding, counted",
            "count",
            Better::Neither,
        ),
        metric(
            names::OUTSTANDING_EXPECTED,
            "outstanding, expected",
            "count",
            Better::Neither,
        ),
    ]
}
