//! Merges the summaries of the parts of a run into the summary of the run. A part has some of the
//! run's connections. One process generates the load of a part.
//!
//! All parts measure the same interval. Therefore the run's counts, rates and mean numbers of
//! outstanding requests are sums over the parts. Histograms are added bucket by bucket. Percentiles
//! are read from the merged histogram, never averaged.

use measure::{Histogram, HistogramError};

use workload::Op;

use crate::aggregate::carrier as carrier_of;
use crate::carrier::CarrierCounts;
use crate::config::{Config, Rate};
use crate::summary::{
    CarrierSummary, ClosedLoop, Failures, LatencyDistribution, Loop, OperationSummary, SCHEMA,
    Summary,
};

/// The reason why summaries cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// There is no summary to merge.
    #[error("there is no part to merge")]
    Empty,
    /// The summaries belong to different runs, or one of them has another schema or an operation
    /// that this version does not know.
    #[error("the parts have different schemas, intervals, percentiles, carriers or loops")]
    Different,
    /// The summary does not belong to a run with the given settings.
    #[error("it has another schema, interval, percentiles, carrier or kind of load than the run")]
    OtherRun,
    /// A summary is that of a load from a script. Such a load is never divided into parts.
    #[error("a load from a script cannot be divided into parts")]
    Script,
    /// A histogram cannot be read.
    #[error(transparent)]
    Histogram(#[from] HistogramError),
    /// The histogram of all requests does not include the censored ones.
    #[error("the histogram of all requests does not include the censored ones")]
    Censored,
}

impl Summary {
    /// Merges the summaries of the parts of a run into the summary of the run. The result has no
    /// observations of the server or the machine (`resident`, `watched`, `bursts`, `stalls`), no
    /// agents and no measuring client. It has no `files` either, because a run that requests files
    /// is never divided into parts.
    ///
    /// # Errors
    /// The summaries do not belong to parts of one run, or a histogram is damaged.
    pub fn merge(parts: &[Self]) -> Result<Self, MergeError> {
        let first = parts.first().ok_or(MergeError::Empty)?;
        let is_same = |part: &Self| {
            part.schema == SCHEMA
                && (part.demand, part.duration_ns) == (first.demand, first.duration_ns)
        };
        if !parts.iter().all(is_same) {
            return Err(MergeError::Different);
        }
        if parts.iter().any(|part| part.script.is_some()) {
            return Err(MergeError::Script);
        }
        let count = |of: fn(&Self) -> u64| parts.iter().map(of).sum();
        let sum = |of: fn(&Self) -> f64| parts.iter().map(of).sum::<f64>();
        let sum_of_some = |of: fn(&Self) -> Option<f64>| {
            let some: Vec<f64> = parts.iter().filter_map(of).collect();
            (!some.is_empty()).then(|| some.iter().sum())
        };
        // Every part has the same number of threads, so a mean over all threads of the run is the
        // mean of the parts' means.
        let mean = |of: fn(&Self) -> f64| sum(of) / parts.len() as f64;
        let distributions = |of: fn(&Self) -> Option<&LatencyDistribution>| {
            LatencyDistribution::merge(parts.iter().filter_map(of))
        };
        let service = distributions(|part| Some(&part.service))?.ok_or(MergeError::Empty)?;
        let closed_loops = parts.iter().filter_map(|part| part.closed_loop);
        let connections = closed_loops
            .map(|it| it.connections)
            .reduce(u32::saturating_add);
        let closed_loop = connections.map(|connections| {
            let sent = count(|part| part.sent);
            let failed = count(|part| part.failures.total());
            ClosedLoop::new(connections, sent, failed, first.duration_ns, service.mean)
        });
        Ok(Self {
            schema: SCHEMA.to_owned(),
            demand: first.demand,
            offered_rps: sum_of_some(|part| part.offered_rps),
            duration_ns: first.duration_ns,
            intended: count(|part| part.intended),
            sent: count(|part| part.sent),
            answered: count(|part| part.answered),
            censored: count(|part| part.censored),
            failures: Failures::sum(parts.iter().map(|part| &part.failures)),
            follow_ups: count(|part| part.follow_ups),
            errors: count(|part| part.errors),
            achieved_rps: sum(|part| part.achieved_rps),
            gets: count(|part| part.gets),
            hits: count(|part| part.hits),
            sets: count(|part| part.sets),
            lost_connections: count(|part| part.lost_connections),
            resident: None,
            response: distributions(|part| part.response.as_ref())?,
            service,
            slip: distributions(|part| part.slip.as_ref())?,
            // None if the value of any part is None: `min` orders None before every number.
            slip_max_ns: match parts.iter().map(|part| part.slip_max_ns).min() {
                Some(Some(_)) => parts.iter().filter_map(|part| part.slip_max_ns).max(),
                _ => None,
            },
            lateness: distributions(|part| part.lateness.as_ref())?,
            generator_limited: parts.iter().any(|part| part.generator_limited),
            generator_cpu: mean(|part| part.generator_cpu),
            generator_busy: mean(|part| part.generator_busy),
            outstanding_mean: sum(|part| part.outstanding_mean),
            outstanding_unread: sum(|part| part.outstanding_unread),
            outstanding_expected: sum(|part| part.outstanding_expected),
            bytes_sent: count(|part| part.bytes_sent),
            bytes_received: count(|part| part.bytes_received),
            unstamped: count(|part| part.unstamped),
            saturating_rps: sum_of_some(|part| part.saturating_rps),
            watched: None,
            bursts: None,
            stalls: None,
            operations: OperationSummary::merge_all(parts)?,
            carrier: CarrierSummary::merge(parts)?,
            script: None,
            files: None,
            closed_loop,
            agents: Vec::new(),
            measuring_client: None,
            seconds: Vec::new(),
        })
    }
}

impl Summary {
    /// Checks that this is the summary of a part of a run with these settings, and that its
    /// histograms can be read. Summaries that pass this check with the same settings can be merged
    /// with each other.
    ///
    /// # Errors
    /// The summary belongs to another run, or a histogram is damaged.
    pub(crate) fn check_part(&self, config: &Config) -> Result<(), MergeError> {
        let is_open = config.rate != Rate::Max;
        let demand = if is_open { Loop::Open } else { Loop::Closed };
        let carrier = |it: &CarrierSummary| (it.name.clone(), it.timeout_ns);
        let expected = carrier_of(config, &CarrierCounts::default());
        let of_run = [&self.response, &self.slip, &self.lateness];
        let of_operations = self.operations.iter().map(|it| &it.response);
        let services = self.operations.iter().map(|it| &it.service);
        let optional = of_run.into_iter().chain(of_operations);
        let mut distributions = optional
            .clone()
            .flatten()
            .chain(services)
            .chain([&self.service]);
        let is_of_run = self.schema == SCHEMA
            && (self.demand, self.duration_ns) == (demand, config.duration_ns)
            && self.carrier.as_ref().map(carrier) == expected.as_ref().map(carrier)
            && optional.into_iter().all(|it| it.is_some() == is_open)
            && distributions.all(|it| it.percentiles() == config.percentiles);
        match is_of_run {
            true => Self::merge(std::slice::from_ref(self)).map(|_| ()),
            false => Err(MergeError::OtherRun),
        }
    }
}

impl Failures {
    fn sum<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            timed_out: sum.timed_out + part.timed_out,
            refused: sum.refused + part.refused,
            closed: sum.closed + part.closed,
            no_port: sum.no_port + part.no_port,
        })
    }
}

impl OperationSummary {
    /// Merges the summaries of operations that have the same name. An operation that did not occur
    /// in a part is absent from the summary of that part.
    fn merge_all(parts: &[Summary]) -> Result<Vec<Self>, MergeError> {
        let all = parts.iter().flat_map(|part| &part.operations);
        let is_known = |it: &Self| Op::ALL.iter().any(|op| op.name() == it.operation);
        if !all.clone().all(is_known) {
            return Err(MergeError::Different);
        }
        let of = |op: Op| {
            let same: Vec<&Self> = all.clone().filter(|it| it.operation == op.name()).collect();
            (!same.is_empty()).then(|| Self::merge(op, &same))
        };
        Op::ALL.into_iter().filter_map(of).collect()
    }

    fn merge(op: Op, parts: &[&Self]) -> Result<Self, MergeError> {
        let count = |of: fn(&Self) -> u64| parts.iter().map(|part| of(part)).sum();
        let responses = parts.iter().filter_map(|part| part.response.as_ref());
        let services = parts.iter().map(|part| &part.service);
        Ok(Self {
            operation: op.name().to_owned(),
            count: count(|part| part.count),
            keys: count(|part| part.keys),
            hits: count(|part| part.hits),
            misses: count(|part| part.misses),
            conflicts: count(|part| part.conflicts),
            errors: count(|part| part.errors),
            failures: Failures::sum(parts.iter().map(|part| &part.failures)),
            bytes_sent: count(|part| part.bytes_sent),
            bytes_received: count(|part| part.bytes_received),
            response: LatencyDistribution::merge(responses)?,
            service: LatencyDistribution::merge(services)?.ok_or(MergeError::Empty)?,
        })
    }
}

impl CarrierSummary {
    /// Merges the carriers of all parts, which must have the same name and time-out. The counts of
    /// HTTP are not added, because a run over HTTP is never divided. None: the parts used
    /// persistent connections.
    fn merge(parts: &[Summary]) -> Result<Option<Self>, MergeError> {
        let mut carriers = parts.iter().map(|part| part.carrier.as_ref());
        let mut merged = carriers.next().flatten().cloned();
        for carrier in carriers {
            match (&mut merged, carrier) {
                (None, None) => {}
                (Some(sum), Some(other))
                    if (&sum.name, sum.timeout_ns) == (&other.name, other.timeout_ns) =>
                {
                    sum.opened += other.opened;
                    sum.resets += other.resets;
                    sum.late_or_duplicate += other.late_or_duplicate;
                    sum.malformed += other.malformed;
                }
                _ => return Err(MergeError::Different),
            }
        }
        Ok(merged)
    }
}

impl LatencyDistribution {
    /// Returns the histogram of the latencies of all requests. For a censored request, it contains
    /// the lower bound of the latency.
    pub(crate) fn histogram(&self) -> Result<Histogram, HistogramError> {
        Histogram::from_base64(&self.hdr)
    }

    /// Returns two histograms: the latencies of the answered requests, and the lower bounds of the
    /// censored ones.
    pub(crate) fn answered_and_censored(&self) -> Result<(Histogram, Histogram), MergeError> {
        let mut answered = self.histogram()?;
        let censored = match &self.censored {
            Some(censored) => Histogram::from_base64(&censored.hdr)?,
            None => Histogram::new(),
        };
        // The histogram of all requests contains the censored ones, unless it is damaged.
        match answered.subtract(&censored) {
            true => Ok((answered, censored)),
            false => Err(MergeError::Censored),
        }
    }

    /// Returns the percentiles (such as 50.0) for which the distribution has values.
    fn percentiles(&self) -> Vec<f64> {
        let percentiles = self.percentiles.iter().map(|&(percentile, _)| percentile);
        percentiles.collect()
    }

    /// Merges distributions that have values for the same percentiles. None: there is nothing to
    /// merge.
    ///
    /// # Errors
    /// The percentiles differ, or a histogram is damaged.
    pub fn merge<'a>(
        mut parts: impl Iterator<Item = &'a Self> + Clone,
    ) -> Result<Option<Self>, MergeError> {
        let mut answered = Histogram::new();
        let mut censored = Histogram::new();
        for part in parts.clone() {
            let (answered_of_part, censored_of_part) = part.answered_and_censored()?;
            answered.merge(&answered_of_part);
            censored.merge(&censored_of_part);
        }
        let Some(wanted) = parts.next().map(Self::percentiles) else {
            return Ok(None);
        };
        if parts.any(|part| part.percentiles() != wanted) {
            return Err(MergeError::Different);
        }
        Ok(Some(Self::with_censored(&answered, &censored, &wanted)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::summary::{Loop, ScriptSummary};
    use proptest::prelude::*;

    const PERCENTILES: [f64; 4] = [0.0, 50.0, 99.0, 100.0];

    /// The samples of a part: the response times of answered requests, and the lower bounds of
    /// censored requests.
    type Samples = (Vec<u64>, Vec<u64>);

    fn histogram(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        histogram
    }

    /// Returns the summary of an operation to which all samples belong.
    fn operation(op: Op, (answered, censored): &Samples) -> OperationSummary {
        let (answers, bounds) = (histogram(answered), histogram(censored));
        let (answered, censored) = (answered.len() as u64, censored.len() as u64);
        OperationSummary {
            operation: op.name().to_owned(),
            count: answered,
            keys: 2 * answered,
            hits: answered,
            misses: answered,
            conflicts: 3 * answered,
            errors: 4 * answered,
            failures: failures(censored),
            bytes_sent: 5 * answered,
            bytes_received: 6 * answered,
            response: Some(LatencyDistribution::with_censored(
                &answers,
                &bounds,
                &PERCENTILES,
            )),
            service: LatencyDistribution::of(&answers, &PERCENTILES),
        }
    }

    /// Returns failures of each kind, all with different counts.
    fn failures(count: u64) -> Failures {
        Failures {
            timed_out: count,
            refused: 2 * count,
            closed: 3 * count,
            no_port: 4 * count,
        }
    }

    /// Returns the summary of a part that has these samples.
    fn part(samples: &Samples) -> Summary {
        let (answered, censored) = samples;
        let (answers, bounds) = (histogram(answered), histogram(censored));
        let answered_only = LatencyDistribution::of(&answers, &PERCENTILES);
        // Parts whose first sample is even have a second operation.
        let has_second = answered.first().is_some_and(|it| it % 2 == 0);
        let second = has_second.then(|| operation(Op::Cas, samples));
        let answered = answered.len() as u64;
        let censored = censored.len() as u64;
        // Sums of eighths are exact in binary, so they do not depend on the order of addition.
        let eighths = answered as f64 / 8.0;
        Summary {
            schema: SCHEMA.to_owned(),
            demand: Loop::Open,
            offered_rps: Some(eighths),
            duration_ns: 1_000_000_000,
            intended: answered + censored,
            sent: answered + 1,
            answered,
            censored,
            failures: failures(censored),
            follow_ups: 7,
            errors: 1,
            achieved_rps: eighths,
            gets: answered,
            hits: answered,
            sets: 2,
            lost_connections: 3,
            resident: None,
            response: Some(LatencyDistribution::with_censored(
                &answers,
                &bounds,
                &PERCENTILES,
            )),
            service: answered_only.clone(),
            slip: Some(answered_only.clone()),
            slip_max_ns: Some(1_000),
            lateness: Some(answered_only),
            generator_limited: false,
            generator_cpu: 0.5,
            generator_busy: 0.25,
            outstanding_mean: eighths,
            outstanding_unread: 0.0,
            outstanding_expected: eighths,
            bytes_sent: 10,
            bytes_received: 20,
            unstamped: 0,
            saturating_rps: None,
            watched: None,
            bursts: None,
            stalls: None,
            operations: [operation(Op::Get, samples)]
                .into_iter()
                .chain(second)
                .collect(),
            carrier: Some(CarrierSummary {
                name: "udp".to_owned(),
                timeout_ns: 1_000_000,
                opened: answered,
                resets: 1,
                late_or_duplicate: censored,
                malformed: 2,
                http: None,
            }),
            script: None,
            files: None,
            closed_loop: None,
            agents: Vec::new(),
            measuring_client: None,
            seconds: Vec::new(),
        }
    }

    fn samples() -> impl Strategy<Value = Samples> {
        let values = || prop::collection::vec(1_u64..200_000_000_000, 0..40);
        (values(), values())
    }

    /// Summaries of parts with random samples. For tests of other modules too.
    pub(crate) fn summaries() -> impl Strategy<Value = Summary> {
        samples().prop_map(|samples| part(&samples))
    }

    proptest! {
        // A case is slow because it serialises some twenty histograms.
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// However the samples are divided into parts, the merged summary is the summary of one
        /// part that has all samples.
        #[test]
        fn merged_parts_equal_one_part_with_all_samples(
            parts in prop::collection::vec(samples(), 1..6),
        ) {
            let of_parts: Vec<Summary> = parts.iter().map(part).collect();
            let merged = Summary::merge(&of_parts).unwrap();
            let together = |mut all: Samples, part: &Samples| {
                all.0.extend(&part.0);
                all.1.extend(&part.1);
                all
            };
            let all: Samples = parts.iter().fold(Samples::default(), together);
            let with_second: Vec<&Samples> = parts
                .iter()
                .zip(&of_parts)
                .filter(|(_, part)| part.operations.len() == 2)
                .map(|(samples, _)| samples)
                .collect();
            let of_second = with_second.iter().copied().fold(Samples::default(), together);
            let second = (!with_second.is_empty()).then(|| operation(Op::Cas, &of_second));
            // Some counts are constant in every part. Their sums follow from the number of parts.
            let part_count = of_parts.len() as u64;
            let whole = part(&all);
            let expected = Summary {
                follow_ups: 7 * part_count,
                operations: [operation(Op::Get, &all)].into_iter().chain(second).collect(),
                carrier: whole.carrier.clone().map(|carrier| CarrierSummary {
                    resets: part_count,
                    malformed: 2 * part_count,
                    ..carrier
                }),
                sent: all.0.len() as u64 + part_count,
                errors: part_count,
                sets: 2 * part_count,
                lost_connections: 3 * part_count,
                bytes_sent: 10 * part_count,
                bytes_received: 20 * part_count,
                ..whole
            };
            prop_assert_eq!(merged, expected);
        }
    }

    #[test]
    fn run_with_one_limited_part_is_generator_limited() {
        let unlimited = part(&(vec![5], vec![]));
        let limited = Summary {
            generator_limited: true,
            ..unlimited.clone()
        };
        assert!(
            Summary::merge(&[unlimited.clone(), limited])
                .unwrap()
                .generator_limited
        );
        assert!(
            !Summary::merge(&[unlimited.clone(), unlimited])
                .unwrap()
                .generator_limited
        );
    }

    #[test]
    fn closed_loop_rates_follow_from_the_sums_over_all_parts() {
        // From the rates of the parts, the merge uses only the number of connections.
        let (no_failures, any_duration_ns, no_mean_ns) = (0, 1, 0.0);
        let rates_of = |connections, sent, failed| {
            ClosedLoop::new(connections, sent, failed, any_duration_ns, no_mean_ns)
        };
        let closed = |values: Vec<u64>, connections| Summary {
            sent: values.len() as u64,
            closed_loop: Some(rates_of(connections, 0, no_failures)),
            ..part(&(values, vec![]))
        };
        let parts = [closed(vec![100; 30], 2), closed(vec![200; 10], 3)];
        let merged = Summary::merge(&parts).unwrap();
        let rates = merged.closed_loop.unwrap();
        assert_eq!(rates.connections, 5);
        assert_eq!(rates.requests_per_s, 40e9 / merged.duration_ns as f64);
        assert_eq!(rates.connections_over_mean_rps, 5e9 / 125.0);
        assert_eq!(
            rates.time_per_request_ns,
            merged.duration_ns as f64 * 5.0 / 40.0
        );
        // Without a request, the ratios are 0.
        let none = rates_of(5, 0, no_failures);
        let ratios = [
            none.connections_over_mean_rps,
            none.time_per_request_ns,
            none.failed_share,
        ];
        assert_eq!(ratios, [0.0; 3]);
        assert_eq!(rates_of(1, 20, 5).failed_share, 0.25);
        // An open loop has no such rates.
        assert_eq!(
            Summary::merge(&[part(&(vec![5], vec![]))])
                .unwrap()
                .closed_loop,
            None
        );
    }

    #[test]
    fn part_of_a_run_with_other_settings_does_not_pass_the_check() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        config.carrier = crate::config::CarrierKind::Udp;
        (config.duration_ns, config.timeout_ns) = (1_000_000_000, 1_000_000);
        config.percentiles = PERCENTILES.to_vec();
        let valid = part(&(vec![5, 6], vec![7]));
        assert_eq!(valid.check_part(&config), Ok(()));
        let changes: [fn(&mut Config); 4] = [
            |config| config.rate = Rate::Max,
            |config| config.duration_ns += 1,
            |config| config.timeout_ns += 1,
            |config| config.percentiles.push(99.5),
        ];
        for change in changes {
            let mut other = config.clone();
            change(&mut other);
            assert_eq!(valid.check_part(&other), Err(MergeError::OtherRun));
        }
        let mut damaged = valid;
        damaged.operations[0].service.hdr.clear();
        let fault = damaged.check_part(&config).unwrap_err();
        assert!(matches!(fault, MergeError::Histogram(_)), "{fault}");
    }

    #[test]
    fn parts_of_different_runs_are_not_merged() {
        let valid = part(&(vec![5], vec![7]));
        let error_of = |change: fn(&mut Summary)| {
            let mut other = valid.clone();
            change(&mut other);
            Summary::merge(&[valid.clone(), other]).unwrap_err()
        };
        let duration = error_of(|part| part.duration_ns += 1);
        assert_eq!(duration, MergeError::Different);
        assert_eq!(error_of(|part| part.schema.clear()), MergeError::Different);
        assert_eq!(error_of(|part| part.carrier = None), MergeError::Different);
        let timeout = error_of(|part| part.carrier.iter_mut().for_each(|it| it.timeout_ns += 1));
        assert_eq!(timeout, MergeError::Different);
        let unknown = |part: &mut Summary| "unknown".clone_into(&mut part.operations[0].operation);
        assert_eq!(error_of(unknown), MergeError::Different);
        let script = error_of(|part| part.script = Some(ScriptSummary::default()));
        assert_eq!(script, MergeError::Script);
        let percentiles = error_of(|part| part.service.percentiles.clear());
        assert_eq!(percentiles, MergeError::Different);
        let damaged = error_of(|part| part.service.hdr.clear());
        assert!(matches!(damaged, MergeError::Histogram(_)));
        // The histogram of all requests does not contain the value 123 456.
        let not_included = error_of(|part| {
            if let Some(censored) = part.response.iter_mut().find_map(|it| it.censored.as_mut()) {
                censored.hdr = histogram(&[123_456]).to_base64();
            }
        });
        assert_eq!(not_included, MergeError::Censored);
        assert_eq!(Summary::merge(&[]).unwrap_err(), MergeError::Empty);
    }
}
