//! Converts the generator's summary into a trial's measurement.

use load::summary::{Censored, LatencyDistribution, READABLE, SCHEMA, Summary};
use report::cache::folder::{Bursts, Cost, LowerBounds, Measurement, Quantiles, TrialHistograms};
use report::record::{Better, Metric, Unit};

use crate::limits;

/// What a summary tells of a trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    /// The measurement for the record.
    pub(super) measurement: Box<Measurement>,
    /// Its histograms in full.
    pub(super) histograms: TrialHistograms,
    /// The stalls of the server's processor. None: they were not measured.
    pub(super) stalls: Option<Stalls>,
    /// Requests that the server answered in the interval, to saturating connections too.
    pub(super) answers: f64,
    /// Growth of the server's resident memory since before the connections were opened, for each.
    pub(super) connection_bytes: Option<f64>,
}

/// The name of the metric of [`Measured::connection_bytes`].
pub(super) const CONNECTION_BYTES: &str = "server_connection_bytes";

/// The definition of the metric of [`Measured::connection_bytes`].
pub(super) fn connection_metric() -> Metric {
    Metric::new(
        CONNECTION_BYTES,
        "growth of the server's resident memory since before the connections were opened, for each",
        Unit::from("B".to_owned()),
        Better::Neither,
    )
}

/// Wake-up latencies of a real-time thread on the server's first processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stalls {
    p999_ns: u64,
    max_ns: u64,
}

/// The definitions of the metrics of [`Stalls`].
pub(super) fn stall_metrics() -> Vec<Metric> {
    let judged = format!(
        "after a stall above {}, latencies from the 99.9th percentile do not count",
        units::show_duration(limits::STALL_NS)
    );
    let points = [("p999", "99.9th percentile"), ("max", "maximum")];
    let metric = |(suffix, words): (&str, &str)| Metric {
        judged: Some(judged.clone()),
        ..Metric::new(
            &format!("stall_{suffix}_ns"),
            &format!("stalls of the server's processor, {words}"),
            Unit::nanoseconds(),
            Better::Neither,
        )
    };
    points.map(metric).to_vec()
}

impl Stalls {
    /// Adds the metrics. After a long stall, the highest latencies may be the machine's.
    pub(super) fn add_to(self, measured: &mut report::record::Measured) {
        let values = [("stall_p999_ns", self.p999_ns), ("stall_max_ns", self.max_ns)];
        let values = values.map(|(name, ns)| (name.to_owned(), ns as f64));
        measured.metrics.extend(values);
        if self.max_ns <= limits::STALL_NS {
            return;
        }
        for prefix in ["response", "service"] {
            for suffix in ["p999", "max"] {
                let name = format!("{prefix}_{suffix}_ns");
                if measured.metrics.contains_key(&name) {
                    let flag = measured.flags.entry(name).or_default();
                    flag.invalid.get_or_insert_with(|| "stalled".to_owned());
                }
            }
        }
    }
}

/// Parses a summary of a load over this number of connections, besides saturating ones.
///
/// # Errors
/// The reason why it is not a measurement, which is the reason of the trial's failure.
pub(super) fn read(id: &str, text: &str, connections: u32) -> Result<Measured, String> {
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
    let optional = |from: &Option<LatencyDistribution>, of| -> Result<Option<Quantiles>, String> {
        from.as_ref()
            .map(|distribution| quantiles(distribution, of))
            .transpose()
    };
    let lateness = optional(&summary.lateness, "lateness")?;
    let measurement = Measurement {
        duration_ns: summary.duration_ns,
        intended: summary.intended,
        answered: summary.answered,
        censored: summary.censored,
        errors: summary.errors,
        achieved_rps: summary.achieved_rps,
        hit_rate: (summary.gets > 0).then(|| summary.hits as f64 / summary.gets as f64),
        resident: summary.resident,
        response: optional(&summary.response, "response")?,
        service: quantiles(&summary.service, "service")?,
        slip: optional(&summary.slip, "slip")?,
        lateness_p99_ns: lateness.map(|lateness| lateness.p99),
        generator_limited: summary.generator_limited,
        generator_cpu: summary.generator_cpu,
        generator_busy: Some(summary.generator_busy),
        lost_connections: Some(summary.lost_connections),
        outstanding_mean: summary.outstanding_mean,
        outstanding_unread: summary.outstanding_unread,
        outstanding_expected: summary.outstanding_expected,
        saturating_rps: summary.saturating_rps,
        cost: cost(&summary),
        bursts: bursts(&summary),
        stolen: None,
    };
    let answers = summary.answers_of_server();
    let connection_bytes = summary.watched.and_then(|it| {
        let grown = it.resident_bytes as f64 - it.resident_before_bytes? as f64;
        let saturating = summary.saturating_rps.is_some();
        (!saturating && connections > 0).then(|| grown / f64::from(connections))
    });
    let (response, censored) = match summary.response {
        Some(LatencyDistribution { hdr, censored, .. }) => (Some(hdr), censored.map(|it| it.hdr)),
        None => (None, None),
    };
    let histograms = TrialHistograms {
        id: id.to_owned(),
        response,
        censored,
        service: summary.service.hdr,
        slip: summary.slip.map(|distribution| distribution.hdr),
    };
    let stalls = optional(&summary.stalls, "stalls")?;
    Ok(Measured {
        answers,
        connection_bytes,
        measurement: Box::new(measurement),
        histograms,
        stalls: stalls.map(|it| Stalls {
            p999_ns: it.p999,
            max_ns: it.max,
        }),
    })
}

fn cost(summary: &Summary) -> Option<Cost> {
    let watched = summary.watched?;
    let answers = summary.answers_of_server();
    if answers < 1.0 {
        return None;
    }
    Some(Cost {
        user_ns: watched.user_ns,
        system_ns: watched.system_ns,
        cpu_ns_per_request: (watched.user_ns + watched.system_ns) as f64 / answers,
        resident_bytes: watched.resident_bytes,
        voluntary_switches: watched.voluntary_switches,
        involuntary_switches: watched.involuntary_switches,
    })
}

fn bursts(summary: &Summary) -> Option<Bursts> {
    let bursts = summary.bursts.as_ref()?;
    Some(Bursts {
        counts: bursts.counts.clone(),
        mean: bursts.mean()?,
    })
}

fn quantiles(distribution: &LatencyDistribution, of: &str) -> Result<Quantiles, String> {
    let at = |wanted: f64| {
        let found = distribution
            .percentiles
            .iter()
            .find(|(percentile, _)| (percentile - wanted).abs() < 1e-9);
        found
            .map(|&(_, value)| value)
            .ok_or_else(|| format!("the generator's summary lacks percentile {wanted} of {of}"))
    };
    Ok(Quantiles {
        count: distribution.count,
        mean: distribution.mean,
        min: distribution.min,
        p50: at(50.0)?,
        p90: at(90.0)?,
        p95: at(95.0)?,
        p99: at(99.0)?,
        p999: at(99.9)?,
        max: distribution.max,
        lower_bounds: distribution.censored.as_ref().map(lower_bounds),
    })
}

fn lower_bounds(censored: &Censored) -> LowerBounds {
    let is = |percentile: f64| {
        let mut bounds = censored.lower_bounds.iter();
        bounds.any(|&bound| (bound - percentile).abs() < 1e-9)
    };
    LowerBounds {
        p50: is(50.0),
        p90: is(90.0),
        p95: is(95.0),
        p99: is(99.0),
        p999: is(99.9),
    }
}

#[cfg(test)]
mod tests {
    use load::summary::{Loop, Watched};

    use super::*;

    fn distribution(unit: u64) -> LatencyDistribution {
        let percentiles = [50.0, 90.0, 95.0, 99.0, 99.9];
        LatencyDistribution {
            count: 100,
            mean: unit as f64,
            min: 1,
            max: 10 * unit,
            percentiles: percentiles.map(|p| (p, (p * unit as f64) as u64)).to_vec(),
            hdr: format!("hdr {unit}"),
            censored: None,
        }
    }

    fn summary() -> Summary {
        Summary {
            schema: SCHEMA.to_owned(),
            demand: Loop::Open,
            offered_rps: Some(200.0),
            duration_ns: 500_000_000,
            intended: 110,
            sent: 105,
            answered: 100,
            censored: 10,
            failures: load::summary::Failures::default(),
            follow_ups: 0,
            errors: 0,
            achieved_rps: 160.0,
            gets: 90,
            hits: 45,
            sets: 10,
            lost_connections: 3,
            resident: Some(0.75),
            response: Some(LatencyDistribution {
                count: 110,
                censored: Some(Censored {
                    count: 10,
                    lower_bounds: vec![95.0, 99.0, 99.9],
                    hdr: "hdr censored".to_owned(),
                }),
                ..distribution(1_000)
            }),
            service: distribution(100),
            slip: Some(distribution(10)),
            slip_max_ns: Some(10),
            lateness: Some(distribution(1)),
            generator_limited: false,
            generator_cpu: 0.5,
            generator_busy: 0.25,
            outstanding_mean: 1.0,
            outstanding_unread: 0.0,
            outstanding_expected: 1.1,
            bytes_sent: 1,
            bytes_received: 2,
            unstamped: 0,
            saturating_rps: None,
            stalls: None,
            agents: Vec::new(),
            measuring_client: None,
            watched: Some(Watched {
                user_ns: 3_000,
                system_ns: 5_000,
                resident_bytes: 700,
                resident_before_bytes: Some(300),
                voluntary_switches: Some(8),
                involuntary_switches: Some(9),
            }),
            bursts: Some(load::summary::Bursts {
                counts: vec![3, 0, 1],
                connections: 6,
            }),
            operations: Vec::new(),
            carrier: None,
            files: None,
            script: None,
            closed_loop: None,
        }
    }

    fn read_as(summary: &Summary) -> Result<Measured, String> {
        read("s-a-0-00", &serde_json::to_string(summary).unwrap(), 8)
    }

    #[test]
    fn a_summary_becomes_a_measurement() {
        let Measured { measurement, histograms, stalls, answers, connection_bytes } =
            read_as(&summary()).unwrap();
        assert_eq!((stalls, answers), (None, 80.0));
        assert_eq!(connection_bytes, Some(50.0));
        assert_eq!(measurement.response.unwrap().p999, 99_900);
        let bounds = LowerBounds {
            p95: true,
            p99: true,
            p999: true,
            ..LowerBounds::default()
        };
        assert_eq!(measurement.response.unwrap().lower_bounds, Some(bounds));
        assert_eq!(histograms.censored.as_deref(), Some("hdr censored"));
        assert_eq!(measurement.service.p50, 5_000);
        assert_eq!(measurement.service.lower_bounds, None);
        assert_eq!(measurement.lateness_p99_ns, Some(99));
        assert_eq!(measurement.hit_rate, Some(0.5));
        assert_eq!(measurement.generator_busy, Some(0.25));
        assert_eq!(measurement.lost_connections, Some(3));
        // 8 µs for the 80 answers of half a second at 160 a second.
        assert!((measurement.cost.unwrap().cpu_ns_per_request - 100.0).abs() < 1e-9);
        assert_eq!(histograms.response.as_deref(), Some("hdr 1000"));
        assert_eq!(histograms.service, "hdr 100");
    }

    #[test]
    fn bursts_are_kept_with_their_mean_and_saturating_answers_count_in_the_cost() {
        let beside = Summary {
            saturating_rps: Some(640.0),
            ..summary()
        };
        let measurement = read_as(&beside).unwrap().measurement;
        let bursts = measurement.bursts.unwrap();
        assert_eq!((bursts.counts, bursts.mean), (vec![3, 0, 1], 1.5));
        // 8 µs for the 400 answers of half a second, a fifth of them measured.
        assert!((measurement.cost.unwrap().cpu_ns_per_request - 20.0).abs() < 1e-9);
        let mut silent = summary();
        silent.bursts = None;
        assert_eq!(read_as(&silent).unwrap().measurement.bursts, None);
    }

    #[test]
    fn a_closed_loop_has_no_response_time() {
        let closed = Summary {
            demand: Loop::Closed,
            response: None,
            slip: None,
            lateness: None,
            ..summary()
        };
        let Measured { measurement, histograms, .. } = read_as(&closed).unwrap();
        assert_eq!(
            (measurement.response, measurement.lateness_p99_ns),
            (None, None)
        );
        assert_eq!(histograms.response, None);
    }

    #[test]
    fn what_cannot_be_a_measurement_says_why() {
        let silent = Summary {
            answered: 0,
            ..summary()
        };
        assert_eq!(
            read_as(&silent).unwrap_err(),
            "none of 110 requests was answered"
        );
        let other = Summary {
            schema: "curtail.load/9".to_owned(),
            ..summary()
        };
        assert!(read_as(&other).unwrap_err().contains("of another build"));
        let mut coarse = summary();
        coarse.service.percentiles.remove(3);
        let lacking = "the generator's summary lacks percentile 99 of service";
        assert_eq!(read_as(&coarse).unwrap_err(), lacking);
        assert!(
            read("x", "{\"schema\":", 1)
                .unwrap_err()
                .contains("cannot be read")
        );
    }
}
