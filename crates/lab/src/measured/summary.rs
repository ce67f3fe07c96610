//! What summaries of `curtail load` make of a trial: metrics, series, histograms, and whether the
//! trial counts.

use load::summary::{LatencyDistribution, READABLE, SCHEMA, Summary};
use report::record::Better::{self, Higher, Lower, Neither};
use report::record::names::{
    ACHIEVED_RPS, OUTSTANDING_EXPECTED, OUTSTANDING_MEAN, OUTSTANDING_UNREAD, RESPONSE,
};
use report::record::{Fault, FaultClass, Measured, Metric, Unit};

use super::extract::Reduce::{self, Max, Mean, Sum};
use crate::{limits, relayed};

struct Number {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    better: Better,
    across: Reduce,
    of: fn(&Summary) -> Option<f64>,
    /// What it is divided by, summed over the generators.
    per: Option<fn(&Summary) -> f64>,
}

impl Number {
    /// None: a generator has no value, or there is nothing to divide by.
    fn over(&self, summaries: &[Summary]) -> Option<f64> {
        let values: Vec<f64> = summaries.iter().filter_map(self.of).collect();
        // A sum or a mean over fewer generators would be of another load.
        let value = self
            .across
            .of(&values)
            .filter(|_| values.len() == summaries.len())?;
        let Some(per) = self.per else {
            return Some(value);
        };
        let whole: f64 = summaries.iter().map(per).sum();
        (whole >= 1.0).then(|| value / whole)
    }

    const fn per(mut self, per: fn(&Summary) -> f64) -> Self {
        self.per = Some(per);
        self
    }
}

const fn number(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    better: Better,
    across: Reduce,
    of: fn(&Summary) -> Option<f64>,
) -> Number {
    Number {
        name,
        title,
        unit,
        better,
        across,
        of,
        per: None,
    }
}

#[rustfmt::skip]
const NUMBERS: [Number; 39] = [
    number(ACHIEVED_RPS, "achieved rate", "/s", Higher, Sum, |s| Some(s.achieved_rps)),
    number("time_per_request_ns", "response time, time ÷ requests of a client", "ns", Lower, Mean, |s| Some(s.closed_loop?.time_per_request_ns)),
    number("requests_per_s", "total load, requests ÷ time", "/s", Higher, Sum, |s| Some(s.closed_loop?.requests_per_s)),
    number("clients_over_mean_rps", "total load, clients ÷ mean service time", "/s", Neither, Sum, |s| Some(s.closed_loop?.connections_over_mean_rps)),
    number("server_cpu_ns_per_request", "processor time of the server per request", "ns", Lower, Max, |s| Some((s.watched?.user_ns + s.watched?.system_ns) as f64)).per(Summary::answers_of_server),
    number("server_wakes_per_request", "voluntary context switches of the server per request", "count", Lower, Max, |s| Some(s.watched?.voluntary_switches? as f64)).per(Summary::answers_of_server),
    number("server_user_ns", "processor time of the server, user", "ns", Neither, Max, |s| Some(s.watched?.user_ns as f64)),
    number("server_system_ns", "processor time of the server, system", "ns", Neither, Max, |s| Some(s.watched?.system_ns as f64)),
    number("server_resident_bytes", "resident memory of the server", "B", Lower, Max, |s| Some(s.watched?.resident_bytes as f64)),
    number("server_voluntary_switches", "voluntary context switches", "count", Neither, Max, |s| Some(s.watched?.voluntary_switches? as f64)),
    number("server_involuntary_switches", "involuntary context switches", "count", Neither, Max, |s| Some(s.watched?.involuntary_switches? as f64)),
    number("burst_mean", "connections served per wake-up", "per wake-up", Neither, Mean, |s| s.bursts.as_ref()?.mean()),
    number("hit_rate", "hit rate", "share", Neither, Sum, |s| Some(s.hits as f64)).per(|s| s.gets as f64),
    number("resident_share", "records resident after the prefill", "share", Neither, Mean, |s| s.resident),
    number("service_inversion", "service inversion", "ratio", Lower, Mean, |s| s.files.as_ref()?.service_inversion),
    number("bytes_received", "bytes received", "B", Neither, Sum, |s| Some(s.bytes_received as f64)),
    number("duration_ns", "measured interval", "ns", Neither, Max, |s| Some(s.duration_ns as f64)),
    number("intended", "requests intended", "count", Neither, Sum, |s| Some(s.intended as f64)),
    number("answered", "requests answered", "count", Neither, Sum, |s| Some(s.answered as f64)),
    number("censored", "requests censored", "count", Neither, Sum, |s| Some(s.censored as f64)),
    number("errors", "error replies", "count", Lower, Sum, |s| Some(s.errors as f64)),
    number("failed_share", "requests that failed without an answer", "share", Lower, Sum, |s| Some(s.failures.total() as f64)).per(|s| s.sent as f64),
    number("timed_out", "requests without an answer in time", "count", Lower, Sum, |s| Some(s.failures.timed_out as f64)),
    number("refused", "requests refused by the host", "count", Lower, Sum, |s| Some(s.failures.refused as f64)),
    number("closed", "requests whose connection ended", "count", Lower, Sum, |s| Some(s.failures.closed as f64)),
    number("no_port", "requests for which the generator had no port", "count", Neither, Sum, |s| Some(s.failures.no_port as f64)),
    number("connection_resets", "connections that the generator reset", "count", Neither, Sum, |s| Some(s.carrier.as_ref()?.resets as f64)),
    number("lost_connections", "connections lost", "count", Lower, Sum, |s| Some(s.lost_connections as f64)),
    number("saturating_rps", "replies to saturating connections", "/s", Neither, Sum, |s| s.saturating_rps),
    number("lateness_p99_ns", "generator's lateness, 99th percentile", "ns", Neither, Max, |s| at(s.lateness.as_ref()?, 99.0)),
    number("generator_cpu", "processor time of the generator, share of one processor", "share", Neither, Mean, |s| Some(s.generator_cpu)),
    number("generator_busy", "generator busy", "share", Neither, Max, |s| Some(s.generator_busy)),
    number(OUTSTANDING_MEAN, "outstanding requests, counted", "count", Neither, Sum, |s| Some(s.outstanding_mean)),
    number(OUTSTANDING_UNREAD, "replies arrived but unread, at most", "count", Neither, Sum, |s| Some(s.outstanding_unread)),
    number(OUTSTANDING_EXPECTED, "outstanding requests, by time stamps", "count", Neither, Sum, |s| Some(s.outstanding_expected)),
    number("stall_p999_ns", "stalls of the server's processor, 99.9th percentile", "ns", Neither, Max, |s| at(s.stalls.as_ref()?, 99.9)),
    number("stall_max_ns", "stalls of the server's processor, maximum", "ns", Neither, Max, |s| Some(s.stalls.as_ref()?.max as f64)),
    number("sets", "values stored", "count", Neither, Sum, |s| Some(s.sets as f64)),
    number("gets", "keys read", "count", Neither, Sum, |s| Some(s.gets as f64)),
];

const CONNECTION_BYTES: &str = "server_connection_bytes";

/// The distributions: prefix, title, which way is better, and the distribution.
type Distribution = fn(&Summary) -> Option<&LatencyDistribution>;
const DISTRIBUTIONS: [(&str, &str, Better, Distribution); 4] = [
    (RESPONSE, "response time", Lower, |s| s.response.as_ref()),
    ("service", "service time", Lower, |s| Some(&s.service)),
    ("slip", "slip", Neither, |s| s.slip.as_ref()),
    (
        "measuring_response",
        "response time of the measuring client",
        Lower,
        |s| s.measuring_client.as_ref()?.summary.response.as_ref(),
    ),
];

/// The points of a distribution: suffix, words, percentile. None: see [`point`].
const POINTS: [(&str, &str, Option<f64>); 8] = [
    ("mean", "mean", None),
    ("min", "minimum", None),
    ("p50", "median", Some(50.0)),
    ("p90", "90th percentile", Some(90.0)),
    ("p95", "95th percentile", Some(95.0)),
    ("p99", "99th percentile", Some(99.0)),
    ("p999", "99.9th percentile", Some(99.9)),
    ("max", "maximum", None),
];

pub(super) fn metrics() -> Vec<Metric> {
    let define = |name: &str, title: &str, unit: &str, better| {
        Metric::new(name, title, Unit::from(unit.to_owned()), better)
    };
    let mut metrics = Vec::new();
    let bounded = "requests that were never answered may lie above this percentile";
    for (prefix, title, better, _) in DISTRIBUTIONS {
        for (suffix, words, _) in POINTS {
            let name = format!("{prefix}_{suffix}_ns");
            metrics.push(Metric {
                bounded: (prefix != "slip").then(|| bounded.to_owned()),
                ..define(&name, &format!("{title}, {words}"), "ns", better)
            });
        }
    }
    let numbers = NUMBERS
        .iter()
        .map(|it| define(it.name, it.title, it.unit, it.better));
    metrics.splice(0..0, numbers);
    let growth = "growth of the server's resident memory per connection";
    metrics.push(define(CONNECTION_BYTES, growth, "B", Neither));
    metrics
}

fn at(distribution: &LatencyDistribution, wanted: f64) -> Option<f64> {
    let mut points = distribution.percentiles.iter();
    let (_, value) = points.find(|(percentile, _)| (percentile - wanted).abs() < 1e-9)?;
    Some(*value as f64)
}

fn point(distribution: &LatencyDistribution, suffix: &str, percentile: Option<f64>) -> Option<f64> {
    match (suffix, percentile) {
        ("mean", _) => Some(distribution.mean),
        ("min", _) => Some(distribution.min as f64),
        ("max", _) => Some(distribution.max as f64),
        (_, percentile) => at(distribution, percentile?),
    }
}

/// Whether a point is a lower bound, because requests were never answered.
fn is_bound(distribution: &LatencyDistribution, suffix: &str, percentile: Option<f64>) -> bool {
    let Some(censored) = &distribution.censored else {
        return false;
    };
    let mut bounds = censored.lower_bounds.iter();
    match percentile {
        Some(percentile) => bounds.any(|it| (it - percentile).abs() < 1e-9),
        None => suffix != "min" && censored.count > 0,
    }
}

pub(super) fn parse(text: &str) -> Result<Summary, String> {
    let summary: Summary = serde_json::from_str(text)
        .map_err(|error| format!("the generator's summary cannot be read: {error}"))?;
    if !READABLE.contains(&summary.schema.as_str()) {
        return Err(format!(
            "the generator's summary is `{}`, not `{SCHEMA}`: it is of another build",
            summary.schema
        ));
    }
    if summary.answered == 0 || summary.service.count == 0 {
        return Err(format!(
            "none of {} requests was answered",
            summary.intended
        ));
    }
    Ok(summary)
}

/// The summary among the lines of an output. None: there is none.
pub(super) fn find(output: &str) -> Option<Result<Summary, String>> {
    let is_summary = |line: &&str| line.starts_with('{') && line.contains("\"curtail.load/");
    output.lines().rev().find(is_summary).map(parse)
}

#[derive(Debug)]
pub(super) struct Summarised {
    pub(super) measured: Measured,
    /// Of each name, base64 of HDR V2.
    pub(super) histograms: Vec<(&'static str, String)>,
    pub(super) answers: f64,
}

/// What these generators measured together. `connections` are those of each, if they are known.
pub(super) fn summarise(
    summaries: &[Summary],
    connections: Option<u32>,
    failures_max: f64,
    is_relay_limited: bool,
) -> Result<Summarised, String> {
    let mut measured = Measured::default();
    for number in &NUMBERS {
        if let Some(value) = number.over(summaries) {
            measured.metrics.insert(number.name.to_owned(), value);
        }
    }
    let mut histograms = Vec::new();
    for (prefix, _, _, of) in DISTRIBUTIONS {
        let parts: Vec<&LatencyDistribution> = summaries.iter().filter_map(of).collect();
        let merged = match parts.as_slice() {
            [only] => Some((*only).clone()),
            parts => LatencyDistribution::merge(parts.iter().copied())
                .map_err(|error| format!("the generators' {prefix} times: {error}"))?,
        };
        let Some(distribution) = merged else { continue };
        for (suffix, _, percentile) in POINTS {
            let name = format!("{prefix}_{suffix}_ns");
            if let Some(value) = point(&distribution, suffix, percentile) {
                measured.metrics.insert(name.clone(), value);
            }
            if is_bound(&distribution, suffix, percentile) {
                measured.flags.entry(name).or_default().lower_bound = true;
            }
        }
        histograms.push((prefix, distribution.hdr));
        if prefix == RESPONSE
            && let Some(censored) = distribution.censored
        {
            histograms.push(("censored", censored.hdr));
        }
    }
    if let [only] = summaries {
        add_series(only, &mut measured);
    }
    if let (Some(connections), [only]) = (connections, summaries) {
        add_connection_bytes(only, connections, &mut measured);
    }
    after_a_stall(&mut measured);
    measured.fault = judge(summaries, failures_max, is_relay_limited);
    for summary in summaries {
        closed_loop_at_its_limit(summary, &mut measured);
    }
    fails_slowly(&mut measured);
    Ok(Summarised {
        measured,
        histograms,
        answers: summaries.iter().map(Summary::answers_of_server).sum(),
    })
}

fn add_series(summary: &Summary, measured: &mut Measured) {
    let mut put = |name: &str, values: Vec<f64>| {
        if !values.is_empty() {
            measured.series.insert(name.to_owned(), values);
        }
    };
    if let Some(bursts) = &summary.bursts {
        put(
            "bursts",
            bursts.counts.iter().map(|&it| it as f64).collect(),
        );
    }
    let deciles = summary
        .files
        .as_ref()
        .and_then(|it| it.size_deciles.as_ref());
    if let Some(deciles) = deciles {
        put(
            "size_deciles",
            deciles.deciles.iter().flatten().copied().collect(),
        );
    }
    let seconds = || summary.seconds.iter().take(limits::SERIES_LEN);
    put("rate_rps", seconds().map(|it| it.rate_rps).collect());
    put("p50_ns", seconds().map(|it| it.p50_ns as f64).collect());
    put("p99_ns", seconds().map(|it| it.p99_ns as f64).collect());
    put("errors", seconds().map(|it| it.errors as f64).collect());
}

fn add_connection_bytes(summary: &Summary, connections: u32, measured: &mut Measured) {
    let Some(watched) = &summary.watched else {
        return;
    };
    let Some(before) = watched.resident_before_bytes else {
        return;
    };
    if summary.saturating_rps.is_none() && connections > 0 {
        let each = (watched.resident_bytes as f64 - before as f64) / f64::from(connections);
        measured.metrics.insert(CONNECTION_BYTES.to_owned(), each);
    }
}

/// After a long stall of the machine, the highest latencies may be the stall's.
fn after_a_stall(measured: &mut Measured) {
    let Some(longest) = measured.metric("stall_max_ns") else {
        return;
    };
    if longest <= limits::STALL_NS as f64 {
        return;
    }
    for prefix in [RESPONSE, "service", "measuring_response"] {
        for suffix in ["p999", "max"] {
            let name = format!("{prefix}_{suffix}_ns");
            if measured.metrics.contains_key(&name) {
                let flag = measured.flags.entry(name).or_default();
                flag.invalid = Some("the server's processor stalled".to_owned());
            }
        }
    }
}

/// What the kernel counted of the server, which holds for the requests as they came, however late.
const OF_THE_KERNEL: [&str; 8] = [
    "server_cpu_ns_per_request",
    "server_wakes_per_request",
    "server_user_ns",
    "server_system_ns",
    "server_resident_bytes",
    "server_voluntary_switches",
    "server_involuntary_switches",
    CONNECTION_BYTES,
];

/// The rule for every trial of every experiment.
fn judge(summaries: &[Summary], failures_max: f64, is_relay_limited: bool) -> Option<Fault> {
    let fault = |class, reason: &str| {
        Some(Fault {
            class,
            reason: reason.to_owned(),
            spares: Vec::new(),
        })
    };
    let late = |reason: &str| {
        Some(Fault {
            class: FaultClass::Invalid,
            reason: reason.to_owned(),
            spares: OF_THE_KERNEL.map(str::to_owned).to_vec(),
        })
    };
    let client = |it: &'_ Summary| it.measuring_client.as_ref().map(|it| it.summary.clone());
    let clients: Vec<Summary> = summaries.iter().filter_map(client).collect();
    let all = || summaries.iter().chain(&clients);
    if !all().all(|it| it.littles_law().holds) {
        let reason = "the requests counted as outstanding contradict the time stamps";
        return fault(FaultClass::Instrument, reason);
    }
    let sum = |of: fn(&Summary) -> u64| all().map(of).sum::<u64>();
    let most = failures_max * sum(|it| it.intended).max(1) as f64;
    // A late generator may lose requests, but it makes no server answer with an error.
    if sum(|it| it.errors) as f64 > most {
        return fault(FaultClass::Failing, "it answers with errors");
    }
    if sum(|it| it.failures.no_port) > 0 {
        return fault(FaultClass::Invalid, "the generator had no free port");
    }
    if all().any(|it| it.agents.iter().any(|agent| agent.missing.is_some())) {
        return fault(FaultClass::Invalid, "an agent was lost");
    }
    if all().any(|it| it.generator_limited && it.response.is_some()) {
        return late("the generator was late");
    }
    if is_relay_limited {
        return late(relayed::LIMITED);
    }
    let failures = sum(|it| it.errors + it.failures.total() + it.lost_connections);
    match failures as f64 > most {
        true => fault(
            FaultClass::Failing,
            "it loses connections or leaves requests unanswered",
        ),
        false => None,
    }
}

/// A generator of a closed loop that was never idle would have asked for more: its rate is a lower
/// bound of what the server can do, and its service times are its own. What defines the load of a
/// closed loop, requests ÷ time, is what it is.
fn closed_loop_at_its_limit(summary: &Summary, measured: &mut Measured) {
    if !summary.generator_limited || summary.response.is_some() {
        return;
    }
    let rate = measured.flags.entry(ACHIEVED_RPS.to_owned());
    rate.or_default().lower_bound = true;
    for (suffix, ..) in POINTS {
        let flag = measured
            .flags
            .entry(format!("service_{suffix}_ns"))
            .or_default();
        flag.invalid = Some("the generator was busy all the time".to_owned());
    }
}

/// The latencies of a server that fails are lower bounds: a refusal is faster than the work.
fn fails_slowly(measured: &mut Measured) {
    let fails = |it: &Fault| it.class == FaultClass::Failing;
    if !measured.fault.as_ref().is_some_and(fails) {
        return;
    }
    for prefix in [RESPONSE, "service", "measuring_response"] {
        for (suffix, ..) in POINTS {
            let name = format!("{prefix}_{suffix}_ns");
            if measured.metrics.contains_key(&name) {
                measured.flags.entry(name).or_default().lower_bound = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(unit: u64) -> LatencyDistribution {
        let mut histogram = measure::Histogram::new();
        histogram.record_n(unit, 100);
        LatencyDistribution {
            count: 100,
            mean: unit as f64,
            min: 1,
            max: 10 * unit,
            percentiles: [50.0, 90.0, 95.0, 99.0, 99.9]
                .map(|p| (p, (p * unit as f64) as u64))
                .to_vec(),
            hdr: histogram.to_base64(),
            censored: None,
        }
    }

    /// An open loop that answered 100 of 110 requests in half a second.
    fn summary() -> Summary {
        let censored = load::summary::Censored {
            count: 10,
            lower_bounds: vec![95.0, 99.0, 99.9],
            hdr: "censored".to_owned(),
        };
        Summary {
            duration_ns: 500_000_000,
            intended: 110,
            censored: 10,
            hits: 45,
            outstanding_expected: 1.02,
            response: Some(LatencyDistribution {
                censored: Some(censored),
                ..distribution(1_000)
            }),
            service: distribution(100),
            slip: Some(distribution(100)),
            lateness: Some(distribution(100)),
            ..crate::tests::fake::summary(Some(160.0), 100)
        }
    }

    fn closed() -> Summary {
        Summary {
            achieved_rps: 160.0,
            outstanding_expected: 1.02,
            service: distribution(100),
            intended: 110,
            ..crate::tests::fake::summary(None, 100)
        }
    }

    fn measured(summaries: &[Summary]) -> Measured {
        summarise(summaries, Some(8), 0.01, false).unwrap().measured
    }

    fn fault(change: impl Fn(&mut Summary)) -> Option<FaultClass> {
        let mut summary = summary();
        change(&mut summary);
        measured(&[summary]).fault.map(|it| it.class)
    }

    #[test]
    fn a_summary_becomes_the_metrics_that_are_defined() {
        let mut with_cost = summary();
        with_cost.watched = Some(load::summary::Watched {
            user_ns: 3_000,
            system_ns: 5_000,
            resident_bytes: 700,
            resident_before_bytes: Some(300),
            voluntary_switches: Some(8),
            involuntary_switches: None,
        });
        with_cost.bursts = Some(load::summary::Bursts {
            counts: vec![3, 0, 1],
            connections: 6,
        });
        let of = summarise(&[with_cost], Some(8), 0.01, false).unwrap();
        let value = |name: &str| of.measured.metric(name);
        assert_eq!(of.answers, 80.0);
        assert_eq!(value("response_p999_ns"), Some(99_900.0));
        assert_eq!(value("service_p50_ns"), Some(5_000.0));
        assert_eq!(value("hit_rate"), Some(0.5));
        assert_eq!(value("server_connection_bytes"), Some(50.0));
        // 8 µs for the 80 answers of half a second at 160 per second.
        assert_eq!(value("server_cpu_ns_per_request"), Some(100.0));
        assert_eq!(value("server_involuntary_switches"), None);
        assert_eq!(
            (value("burst_mean"), &of.measured.series["bursts"][..]),
            (Some(1.5), &[3.0, 0.0, 1.0][..])
        );
        assert!(of.measured.is_lower_bound("response_p95_ns"));
        assert!(of.measured.is_lower_bound("response_max_ns"));
        assert!(!of.measured.is_lower_bound("response_p50_ns"));
        assert!(!of.measured.is_lower_bound("service_p99_ns"));
        assert_eq!(of.measured.fault, None);
        let known: Vec<String> = metrics().into_iter().map(|it| it.name).collect();
        for name in of.measured.metrics.keys().chain(of.measured.flags.keys()) {
            assert!(known.contains(name), "{name}");
        }
        let names: Vec<&str> = of.histograms.iter().map(|it| it.0).collect();
        assert_eq!(names, ["response", "censored", "service", "slip"]);
    }

    #[test]
    fn one_rule_judges_every_trial() {
        use FaultClass::{Failing, Instrument, Invalid};
        assert_eq!(fault(|_| ()), None);
        assert_eq!(fault(|it| it.outstanding_expected = 2.0), Some(Instrument));
        assert_eq!(fault(|it| it.generator_limited = true), Some(Invalid));
        let mut late = summary();
        late.generator_limited = true;
        let late = measured(&[late]);
        assert!(late.invalid("response_p50_ns").is_some() && late.invalid(ACHIEVED_RPS).is_some());
        assert_eq!(late.invalid("server_cpu_ns_per_request"), None);
        assert_eq!(fault(|it| it.failures.no_port = 1), Some(Invalid));
        assert_eq!(fault(|it| it.errors = 1), None);
        assert_eq!(fault(|it| it.errors = 2), Some(Failing));
        assert_eq!(fault(|it| it.lost_connections = 2), Some(Failing));
        assert_eq!(fault(|it| it.failures.timed_out = 2), Some(Failing));
        // What a late generator loses may be its own fault; an error is not.
        for (errors, timed_out, class) in [(0, 2, Invalid), (2, 0, Failing)] {
            let late = |it: &mut Summary| {
                it.generator_limited = true;
                (it.errors, it.failures.timed_out) = (errors, timed_out);
            };
            assert_eq!(fault(late), Some(class));
        }
    }

    #[test]
    fn a_refusal_is_no_fast_answer() {
        let mut failing = summary();
        failing.errors = 100;
        let failing = measured(&[failing]);
        assert!(
            failing.is_lower_bound("service_p50_ns") && failing.is_lower_bound("response_mean_ns")
        );
        assert!(!failing.is_lower_bound(ACHIEVED_RPS));
    }

    #[test]
    fn a_closed_loop_that_is_never_idle_gives_a_lower_bound() {
        let mut busy = closed();
        busy.generator_limited = true;
        let busy = measured(&[busy]);
        assert_eq!(busy.fault, None);
        assert!(busy.is_lower_bound(ACHIEVED_RPS));
        assert_eq!(
            (busy.valid(ACHIEVED_RPS), busy.valid("service_p99_ns")),
            (Some(160.0), None)
        );
        assert_eq!(measured(&[closed()]).metric("response_p99_ns"), None);
    }

    #[test]
    fn several_generators_are_one_load() {
        let mut other = closed();
        other.service = distribution(300);
        other.achieved_rps = 40.0;
        other.outstanding_expected = 1.0;
        let both = measured(&[closed(), other]);
        assert_eq!(both.metric(ACHIEVED_RPS), Some(200.0));
        assert_eq!(both.metric("intended"), Some(220.0));
        // Of the merged histogram: half of the requests took 100 ns, half 300.
        assert_eq!(both.metric("service_p50_ns"), Some(100.0));
        assert_eq!(both.metric("service_p90_ns"), Some(300.0));
        assert_eq!(both.metric("burst_mean"), None);
    }

    #[test]
    fn after_a_stall_the_highest_latencies_do_not_count() {
        let mut stalled = summary();
        stalled.stalls = Some(distribution(limits::STALL_NS));
        let stalled = measured(&[stalled]);
        assert_eq!(stalled.valid("response_p999_ns"), None);
        assert!(stalled.valid("response_p99_ns").is_some());
    }

    #[test]
    fn what_cannot_be_a_measurement_says_why() {
        let text = |summary: &Summary| serde_json::to_string(summary).unwrap();
        let silent = Summary {
            answered: 0,
            ..summary()
        };
        assert_eq!(
            parse(&text(&silent)).unwrap_err(),
            "none of 110 requests was answered"
        );
        let other = Summary {
            schema: "curtail.load/9".to_owned(),
            ..summary()
        };
        assert!(
            parse(&text(&other))
                .unwrap_err()
                .contains("of another build")
        );
        assert!(
            parse("{\"schema\":")
                .unwrap_err()
                .contains("cannot be read")
        );
        let output = format!("progress\n{}\n{{\"more\": 1}}\n", text(&summary()));
        assert_eq!(find(&output).unwrap().unwrap().intended, 110);
        assert!(find("progress\n").is_none());
    }
}
