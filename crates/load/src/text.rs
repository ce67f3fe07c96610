//! The text output of a run: a line for each second, and a table at the end.

mod files;

use std::fmt::Write as _;

use measure::Bounded;
use units::{show_duration, show_rate, show_share, show_size};

use crate::agents;
use crate::measuring::MeasuringReport;
use crate::prefill::Prefill;
use crate::second::Second;
use crate::summary::{LatencyDistribution, Loop, OperationSummary, Summary};

/// Returns the column headers of [`second_line`].
#[must_use]
pub fn second_header() -> String {
    format!(
        "{:>7} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7} {:>11}",
        "time", "rate/s", "p50", "p99", "p99.9", "slip p99", "hits", "outstanding"
    )
}

/// Returns the line of one second of a run. Notes follow the columns, such as the number of errors.
#[must_use]
pub fn second_line(second: &Second) -> String {
    let latency = |it: Option<Bounded>| or_dash(it.map(show_bounded));
    let slip = or_dash(second.slip_p99_ns.map(show_duration));
    let hits = or_dash(second.hit_rate.map(show_share));
    let mut line = format!(
        "{:>6.1}s {:>8} {:>9} {:>9} {:>9} {:>9} {:>7} {:>11}",
        second.at_ns as f64 / 1e9,
        show_rate(second.rate_rps),
        latency(second.p50),
        latency(second.p99),
        latency(second.p999),
        slip,
        hits,
        second.outstanding,
    );
    let mut note = |text: String| line.push_str(&text);
    if second.warmup {
        note("  warm-up".to_owned());
    }
    if second.waiting > 0 {
        note(format!("  {} waiting to be sent", second.waiting));
    }
    if second.errors > 0 {
        note(format!("  {} errors", second.errors));
    }
    if second.failed > 0 {
        note(format!("  {} failed", second.failed));
    }
    if second.lost_connections > 0 {
        note(format!("  {} connections lost", second.lost_connections));
    }
    if second.missing_connections > 0 {
        note(format!(
            "  without {} connections",
            second.missing_connections
        ));
    }
    line
}

/// Returns the result of a prefill, on one line.
#[must_use]
pub fn prefill_line(prefill: &Prefill) -> String {
    let mut line = format!(
        "prefill: {} records, {} in {}; {} resident ({} read back)",
        prefill.records,
        show_size(prefill.bytes),
        show_duration(prefill.elapsed_ns),
        show_share(prefill.resident),
        prefill.sampled,
    );
    if prefill.counters > 0 {
        // Writing into a String cannot fail.
        let _ = write!(line, "; {} counters", prefill.counters);
    }
    if prefill.refused > 0 {
        let _ = write!(line, "; {} refused", prefill.refused);
    }
    line
}

/// Returns the table that is printed at the end of a run: latencies at the summary's percentiles,
/// then the operations, the latencies by size of file, the counts and the checks. If there was a
/// measuring client, its table follows.
#[must_use]
pub fn table(summary: &Summary) -> String {
    let mut text = String::new();
    for line in latency_lines(summary)
        .into_iter()
        .chain(operation_lines(summary))
        .chain(files::lines(summary))
        .chain(count_lines(summary))
    {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if let Some(client) = &summary.measuring_client {
        // Writing into a String cannot fail.
        let _ = write!(
            text,
            "\n{}\n{}",
            client_line(summary, client),
            table(&client.summary)
        );
    }
    text
}

/// Returns the title of the measuring client's table.
fn client_line(load: &Summary, client: &MeasuringReport) -> String {
    format!(
        "measuring client: {} connections, depth {}, beside a load of {}/s",
        client.connections,
        client.depth,
        show_rate(load.achieved_rps)
    )
}

/// Returns a table with a row for each kind of latency: response, service, slip and lateness.
fn latency_lines(summary: &Summary) -> Vec<String> {
    let mut header = format!("{:<10} {:>10}", "latency", "mean");
    for (percentile, _) in &summary.service.percentiles {
        let _ = write!(header, " {:>9}", format!("p{percentile}"));
    }
    let _ = write!(header, " {:>9}", "max");
    let rows = [
        ("response", summary.response.as_ref()),
        ("service", Some(&summary.service)),
        ("slip", summary.slip.as_ref()),
        ("lateness", summary.lateness.as_ref()),
    ];
    let row =
        |(name, row): (&str, Option<&LatencyDistribution>)| row.map(|row| latency_line(name, row));
    std::iter::once(header)
        .chain(rows.into_iter().filter_map(row))
        .collect()
}

/// Returns a row of a latency table: mean, percentiles and maximum.
fn latency_line(name: &str, distribution: &LatencyDistribution) -> String {
    let censored = distribution.censored.as_ref();
    let show = |value_ns, is_lower_bound| {
        // The percentiles and the mean of an empty distribution are 0, which is not a latency.
        let latency = (distribution.count > 0).then_some(Bounded {
            value_ns,
            is_lower_bound,
        });
        or_dash(latency.map(show_bounded))
    };
    let mean = show(distribution.mean.round() as u64, censored.is_some());
    let mut line = format!("{name:<10} {mean:>10}");
    for (percentile, value_ns) in &distribution.percentiles {
        let is_lower_bound = censored.is_some_and(|it| it.lower_bounds.contains(percentile));
        let _ = write!(line, " {:>9}", show(*value_ns, is_lower_bound));
    }
    let _ = write!(line, " {:>9}", show(distribution.max, censored.is_some()));
    line
}

/// Returns a figure as text, or `-` if there is none.
fn or_dash(figure: Option<String>) -> String {
    figure.unwrap_or_else(|| "-".to_owned())
}

/// Returns a latency as text, preceded by `≥` if it is a lower bound.
pub(crate) fn show_bounded(latency: Bounded) -> String {
    let sign = if latency.is_lower_bound { "≥" } else { "" };
    format!("{sign}{}", show_duration(latency.value_ns))
}

/// Returns the lines with rates, counts and checks.
fn count_lines(summary: &Summary) -> Vec<String> {
    let seconds = summary.duration_ns as f64 / 1e9;
    let per_second = |bytes: u64| show_size((bytes as f64 / seconds).round() as u64);
    let offered = match (summary.demand, summary.offered_rps) {
        (Loop::Open, Some(rate_rps)) => format!("offered {}/s", show_rate(rate_rps)),
        _ => "closed loop: latency hides the cost of a stall".to_owned(),
    };
    let hit_share = (summary.gets > 0).then(|| summary.hits as f64 / summary.gets as f64);
    let covered = agents::covered(&summary.agents)
        .map(|(present, all)| format!(", on {present} of {all} connections"));
    let mut lines = vec![
        String::new(),
        format!(
            "{:<10} {}/s of {}{}",
            "achieved",
            show_rate(summary.achieved_rps),
            offered,
            covered.unwrap_or_default()
        ),
        format!(
            "{:<10} {} intended, {} sent, {} answered, {} censored, {} errors",
            "requests",
            summary.intended,
            summary.sent,
            summary.answered,
            summary.censored,
            summary.errors
        ),
    ];
    lines.extend(optional_lines(summary));
    lines.push(format!(
        "{:<10} {} gets ({} hits), {} sets",
        "answers",
        summary.gets,
        or_dash(hit_share.map(show_share)),
        summary.sets
    ));
    lines.extend([
        format!(
            "{:<10} {}/s out, {}/s in",
            "bytes",
            per_second(summary.bytes_sent),
            per_second(summary.bytes_received)
        ),
        format!(
            "{:<10} {:.2} outstanding by count, of which at most {:.2} answers not yet read; by time \
             stamps {:.2}",
            "check",
            summary.outstanding_mean,
            summary.outstanding_unread,
            summary.outstanding_expected
        ),
        format!(
            "{:<10} {} processor, {} busy",
            "generator",
            show_share(summary.generator_cpu),
            show_share(summary.generator_busy)
        ),
    ]);
    lines.extend(summary.saturating_rps.map(|rate_rps| {
        let rate = show_rate(rate_rps);
        format!(
            "{:<10} {rate}/s answered on the saturating connections, not counted above",
            "saturating"
        )
    }));
    lines.extend(watched_line(summary));
    lines.extend(bursts_line(summary));
    lines.extend(stalls_line(summary));
    lines.extend(agents::lines(&summary.agents));
    lines.extend(warnings(summary));
    lines
}

/// Returns the lines that only some runs have: failed requests by kind, the counts of the carrier
/// and of the script, and the number of follow-up requests.
fn optional_lines(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let failures = &summary.failures;
    let kinds = [
        (failures.timed_out, "timed out"),
        (failures.refused, "refused"),
        (failures.closed, "closed before the answer"),
        (failures.no_port, "without a local port"),
    ];
    let kinds: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
    if !kinds.is_empty() {
        let total = failures.total();
        lines.push(format!("{:<10} {total}: {}", "failed", kinds.join(", ")));
    }
    if let Some(carrier) = &summary.carrier {
        let timeout = show_duration(carrier.timeout_ns);
        let counts = [
            (carrier.opened, "connections opened"),
            (carrier.resets, "ended in a reset to bound TIME_WAIT"),
            (
                carrier.late_or_duplicate,
                "late or repeated answers ignored",
            ),
            (carrier.malformed, "malformed datagrams ignored"),
        ];
        let mut line = format!("{:<10} {}, time-out {timeout}", "carrier", carrier.name);
        for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
            let _ = write!(line, ", {count} {what}");
        }
        lines.push(line);
        lines.extend(carrier.http.as_ref().map(files::http_line));
    }
    if let Some(script) = &summary.script {
        let extent = if script.ended { "whole" } else { "part of the" };
        lines.push(format!(
            "{:<10} {extent} script read: {} operations, {} malformed lines",
            "script", script.operations, script.malformed
        ));
    }
    if summary.follow_ups > 0 {
        let count = summary.follow_ups;
        lines.push(format!(
            "{:<10} {count} requests caused by answers, on top of those offered",
            "follow-ups"
        ));
    }
    lines
}

/// Returns the table of operations. It is empty if get and set are the only operations.
fn operation_lines(summary: &Summary) -> Vec<String> {
    let is_get_or_set = |it: &OperationSummary| it.operation == "get" || it.operation == "set";
    if summary.operations.iter().all(is_get_or_set) {
        return Vec::new();
    }
    let time = match summary.demand {
        Loop::Open => "response",
        Loop::Closed => "service",
    };
    let header = format!(
        "{:<12} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7} {:>7} {:>10} {:>10}",
        "operation",
        "answered",
        "hits",
        "misses",
        "conflicts",
        "errors",
        "failed",
        "B out",
        "B in",
        format!("{time} p50"),
        "p99"
    );
    let row = |it: &OperationSummary| {
        let per_request = |bytes: u64| {
            let mean = (it.count > 0).then(|| bytes as f64 / it.count as f64);
            or_dash(mean.map(|mean| format!("{mean:.0}")))
        };
        let distribution = it.response.as_ref().unwrap_or(&it.service);
        format!(
            "{:<12} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7} {:>7} {:>w$} {:>10}",
            it.operation,
            it.count,
            it.hits,
            it.misses,
            it.conflicts,
            it.errors,
            it.failures.total(),
            per_request(it.bytes_sent),
            per_request(it.bytes_received),
            at_percentile(distribution, 50.0),
            at_percentile(distribution, 99.0),
            // The width of the column header, such as `response p50`.
            w = time.len() + 4
        )
    };
    let rows = summary.operations.iter().map(row);
    [String::new(), header].into_iter().chain(rows).collect()
}

/// Returns the percentile `wanted` of a distribution as text, or `-` if the distribution is empty
/// or has no value for this percentile.
fn at_percentile(distribution: &LatencyDistribution, wanted: f64) -> String {
    let mut percentiles = distribution.percentiles.iter();
    let found = percentiles.find(|(percentile, _)| (percentile - wanted).abs() < 1e-9);
    let found = found.filter(|_| distribution.count > 0);
    or_dash(found.map(|&(percentile, value_ns)| {
        let censored = distribution.censored.as_ref();
        show_bounded(Bounded {
            value_ns,
            is_lower_bound: censored.is_some_and(|it| it.lower_bounds.contains(&percentile)),
        })
    }))
}

/// Returns the warnings: facts that limit what the figures mean, or that make them invalid.
fn warnings(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let shown = summary.response.as_ref().unwrap_or(&summary.service);
    if shown.censored.is_some() {
        let why = "includes requests never answered, each at the lowest latency it can have had";
        lines.push(format!("{:<10} a lower bound: {why}", "≥"));
    }
    if summary.lost_connections > 0 {
        lines.push(format!(
            "{:<10} {} connections",
            "lost", summary.lost_connections
        ));
    }
    if !summary.littles_law().holds {
        let why = "LITTLE'S LAW FAILS: the count and the time stamps disagree; trust neither";
        lines.push(why.to_owned());
    }
    if summary.generator_limited {
        let why = "GENERATOR-LIMITED: these figures measure the generator rather than the server";
        lines.push(why.to_owned());
    }
    lines
}

/// Returns the resources that the process named by `--watch-pid` used in the interval. Processor
/// time is divided by the number of requests that the server answered.
fn watched_line(summary: &Summary) -> Option<String> {
    let watched = summary.watched?;
    let answers = summary.answers_of_server().max(1.0);
    let per_request = |ns: u64| show_duration((ns as f64 / answers).round() as u64);
    let switches = watched.voluntary_switches.zip(watched.involuntary_switches);
    let switches = switches.map(|(voluntary, involuntary)| {
        format!("; {voluntary} voluntary, {involuntary} involuntary switches")
    });
    Some(format!(
        "{:<10} {} user, {} system per request; {}{}",
        "watched",
        per_request(watched.user_ns),
        per_request(watched.system_ns),
        show_size(watched.resident_bytes),
        switches.unwrap_or_default(),
    ))
}

/// Returns the mean number of ready connections per wake-up of the server, and the share of
/// wake-ups with a single ready connection.
fn bursts_line(summary: &Summary) -> Option<String> {
    let bursts = summary.bursts.as_ref()?;
    let mean = bursts.mean()?;
    let wakes = bursts.wakes();
    let of_one = bursts.counts.first().copied().unwrap_or_default();
    Some(format!(
        "{:<10} {mean:.2} ready connections per wake-up of the server, {} of {wakes} with a single one",
        "bursts",
        show_share(of_one as f64 / wakes as f64),
    ))
}

/// Returns the percentiles of the wake-up latency that the stall detector measured.
fn stalls_line(summary: &Summary) -> Option<String> {
    let stalls = summary.stalls.as_ref()?;
    let mut shown = String::new();
    for &(percentile, ns) in &stalls.percentiles {
        shown += &format!("{} at p{percentile}, ", show_duration(ns));
    }
    let max = show_duration(stalls.max);
    Some(format!(
        "{:<10} {shown}{max} at most: wake-up latency on the processor watched",
        "stalls"
    ))
}
