//! The trials as a flat table: one row per trial, units in the column names, absent values empty.

use std::io::{self, Write};

use crate::folder::{Measurement, Outcome, Phase, Quantiles, Trial};

const TRIAL_COLUMNS: [&str; 10] = [
    "id",
    "phase",
    "server",
    "cell",
    "repeat",
    "setting",
    "level",
    "offered_rps",
    "started_unix_ns",
    "failure",
];

const MEASUREMENT_COLUMNS: [&str; 21] = [
    "duration_ns",
    "intended",
    "answered",
    "censored",
    "errors",
    "achieved_rps",
    "hit_rate",
    "resident_share",
    "lateness_p99_ns",
    "generator_limited",
    "generator_cpu",
    "outstanding_mean",
    "outstanding_expected",
    "generator_busy",
    "lost_connections",
    "server_stolen_share",
    "load_stolen_share",
    "saturating_rps",
    "burst_mean",
    "response_lower_bounds",
    "outstanding_unread",
];

const QUANTILE_COLUMNS: [&str; 9] = [
    "count", "mean_ns", "min_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns", "max_ns",
];

const COST_COLUMNS: [&str; 6] = [
    "server_user_ns",
    "server_system_ns",
    "server_cpu_ns_per_request",
    "server_resident_bytes",
    "server_voluntary_switches",
    "server_involuntary_switches",
];

/// Writes a header and one row per trial.
///
/// # Errors
/// The writer failed.
pub fn write_csv(trials: &[Trial], writer: impl Write) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(writer);
    table.write_record(header())?;
    for trial in trials {
        table.write_record(row(trial))?;
    }
    table.flush()
}

fn header() -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    names.extend(TRIAL_COLUMNS.map(str::to_owned));
    names.extend(MEASUREMENT_COLUMNS.map(str::to_owned));
    for distribution in ["response", "service", "slip"] {
        names.extend(QUANTILE_COLUMNS.map(|column| format!("{distribution}_{column}")));
    }
    names.extend(COST_COLUMNS.map(str::to_owned));
    names
}

fn row(trial: &Trial) -> Vec<String> {
    let mut fields = vec![
        trial.id.clone(),
        match trial.phase {
            Phase::Capacity => "capacity".to_owned(),
            Phase::Sweep => "sweep".to_owned(),
        },
        trial.server.clone(),
        trial.cell.to_string(),
        trial.repeat.to_string(),
        optional(trial.setting),
        optional(trial.level),
        optional(trial.offered_rps),
        trial.started_unix_ns.to_string(),
    ];
    let measured = match &trial.outcome {
        Outcome::Failed(why) => {
            fields.push(why.clone());
            fields.resize(header().len(), String::new());
            return fields;
        }
        Outcome::Measured(measured) => measured,
    };
    fields.extend([
        String::new(),
        measured.duration_ns.to_string(),
        measured.intended.to_string(),
        measured.answered.to_string(),
        measured.censored.to_string(),
        measured.errors.to_string(),
        measured.achieved_rps.to_string(),
        optional(measured.hit_rate),
        optional(measured.resident),
        optional(measured.lateness_p99_ns),
        measured.generator_limited.to_string(),
        measured.generator_cpu.to_string(),
        measured.outstanding_mean.to_string(),
        measured.outstanding_expected.to_string(),
        optional(measured.generator_busy),
        optional(measured.lost_connections),
        optional(measured.stolen.map(|stolen| stolen.server)),
        optional(measured.stolen.map(|stolen| stolen.load)),
        optional(measured.saturating_rps),
        optional(measured.bursts.as_ref().map(|bursts| bursts.mean)),
        lower_bounds(measured),
        measured.outstanding_unread.to_string(),
    ]);
    for quantiles in [measured.response, Some(measured.service), measured.slip] {
        fields.extend(quantile_fields(quantiles));
    }
    fields.extend(match measured.cost {
        None => COST_COLUMNS.map(|_| String::new()),
        Some(cost) => [
            cost.user_ns.to_string(),
            cost.system_ns.to_string(),
            cost.cpu_ns_per_request.to_string(),
            cost.resident_bytes.to_string(),
            optional(cost.voluntary_switches),
            optional(cost.involuntary_switches),
        ],
    });
    fields
}

/// The percentiles of response time that are lower bounds, such as `p99 p999`.
fn lower_bounds(measured: &Measurement) -> String {
    let bounds = measured.response_bounds();
    let names = [
        ("p50", bounds.p50),
        ("p90", bounds.p90),
        ("p95", bounds.p95),
        ("p99", bounds.p99),
        ("p999", bounds.p999),
    ];
    let names = names.into_iter().filter(|(_, is_bound)| *is_bound);
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    names.join(" ")
}

fn quantile_fields(quantiles: Option<Quantiles>) -> [String; 9] {
    match quantiles {
        None => QUANTILE_COLUMNS.map(|_| String::new()),
        Some(of) => [
            of.count.to_string(),
            of.mean.to_string(),
            of.min.to_string(),
            of.p50.to_string(),
            of.p90.to_string(),
            of.p95.to_string(),
            of.p99.to_string(),
            of.p999.to_string(),
            of.max.to_string(),
        ],
    }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}
