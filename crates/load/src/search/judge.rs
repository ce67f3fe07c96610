//! Judges whether one trial keeps the objectives.

use measure::{Histogram, Verdict, WithCensored, generator_limited_at_p999};
use serde::{Deserialize, Serialize};

use super::objective::{Figure, Objective};
use crate::summary::Summary;

/// The tolerance of the achieved rate. If at most this share of the intended requests is unanswered
/// at the end of the interval, the achieved rate still counts as equal to the offered rate.
///
/// An overloaded server has a backlog that grows during the interval. If fewer than 1 % of the
/// requests are in the backlog at the end, the last request waits less than 1 % of the interval,
/// for example 50 ms in 5 s. A larger backlog breaks the criterion of the achieved rate. A smaller
/// backlog breaks every latency objective whose limit is below the wait that the backlog causes.
/// With a smaller tolerance, the verdict would depend on a few requests, such as those in flight
/// when a short trial begins and ends.
const ACHIEVED_TOLERANCE: f64 = 0.01;

/// The criteria that a trial must meet. A further criterion, which has no setting, is that the
/// achieved rate must equal the offered rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Criteria {
    /// The latency objectives.
    pub objectives: Vec<Objective>,
    /// The greatest share of the requests that may be answered with an error or not at all.
    pub failures_max: f64,
}

/// The verdict on a trial, and its reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Why the trial is invalid. None: it is valid.
    pub invalid_reason: Option<String>,
    /// The measured figure (mean or percentile) of each objective, in the order of the objectives.
    pub latencies: Vec<JudgedLatency>,
    /// The number of answers in the interval, divided by the number of requests intended in it.
    pub achieved_share: f64,
    /// The least `achieved_share` that passes.
    pub achieved_share_min: f64,
    /// The share of the intended requests that failed, were never answered, or were answered with
    /// an error.
    pub failures: f64,
    /// The greatest `failures` that passes.
    pub failures_max: f64,
    /// The criterion whose bound is exceeded by the greatest factor. None: no criterion is broken.
    pub worst: Option<String>,
}

/// The measured figure of one objective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgedLatency {
    /// The name of the figure, such as `mean` or `p99`.
    pub figure: String,
    /// The measured value.
    pub value_ns: u64,
    /// Whether `value_ns` is only a lower bound of the true value, because some requests were never
    /// answered.
    pub is_lower_bound: bool,
    /// The greatest allowed value.
    pub limit_ns: u64,
    /// Whether the true value is certain to be at most the limit.
    pub is_kept: bool,
}

/// Judges a trial.
///
/// - [`Verdict::GeneratorLimited`]: the generator had no local port for a request. Or a criterion
///   was broken, and the generator was so late that its lateness may be the reason. Lateness is
///   judged at its 99th percentile. If an objective has a percentile above the 99th, lateness is
///   judged at its 99.9th percentile too.
/// - [`Verdict::Failed`]: Little's law fails, or there are no response times, so nothing was
///   measured.
/// - [`Verdict::Broken`]: an objective, the achieved rate or the share of failures is out of its
///   bound. The latency of a request that was never answered is unknown. An objective is therefore
///   kept only if its figure would be within the limit even with infinite latencies of all these
///   requests.
/// - [`Verdict::Kept`]: every criterion is within its bound.
///
/// A late generator need not make a trial invalid. Two numbers describe the delay of a request's
/// send. The *slip* of the request is its actual send time minus its intended time. The *lateness*
/// is the part of the delay that the generator itself causes ([`Summary::lateness`]).
///
/// Response times begin at the intended times, so they include the slip. Suppose that a server
/// serves requests in the order of arrival, and that each request arrives late by at most d. Then
/// each answer comes at most d later than with a punctual generator, and never earlier. So a trial
/// that keeps its objectives with a late generator would also keep them with a punctual generator.
/// A trial that exceeds an objective by more than the greatest slip of its requests would also
/// break the objective with a punctual generator.
#[must_use]
pub fn judge(summary: &Summary, criteria: &Criteria) -> Judgement {
    let mut judgement = Judgement {
        verdict: Verdict::Failed,
        invalid_reason: None,
        latencies: Vec::new(),
        achieved_share: achieved_share(summary),
        achieved_share_min: achieved_share_min(summary, criteria),
        failures: (summary.censored + summary.failures.total() + summary.errors) as f64
            / summary.intended.max(1) as f64,
        failures_max: criteria.failures_max,
        worst: None,
    };
    let Some(responses) = Responses::of(summary) else {
        judgement.invalid_reason = Some("the summary has no response times".to_owned());
        return judgement;
    };
    let judged = criteria
        .objectives
        .iter()
        .map(|objective| responses.judge(objective));
    judgement.latencies = judged.collect();
    judgement.worst = worst_criterion(&judgement);
    (judgement.verdict, judgement.invalid_reason) = if summary.failures.no_port > 0 {
        let reason = "the generator had no local port left".to_owned();
        (Verdict::GeneratorLimited, Some(reason))
    } else if !summary.littles_law().holds {
        let reason = "Little's law fails: the count and the time stamps disagree".to_owned();
        (Verdict::Failed, Some(reason))
    } else if judgement.worst.is_none() {
        (Verdict::Kept, None)
    } else if is_generator_late(summary, criteria)
        && !is_broken_by_server(summary, criteria, &responses)
    {
        let reason = "the generator was the limit".to_owned();
        (Verdict::GeneratorLimited, Some(reason))
    } else {
        (Verdict::Broken, None)
    };
    judgement
}

/// Whether an objective would be broken with a punctual generator too. If every request had been
/// sent at its intended time, no response time would be shorter by more than the greatest slip.
///
/// The greatest lateness would be too small a bound. If a request was late, the next request on the
/// connection may have to wait longer. This wait is part of the slip of the next request, but not
/// of its lateness.
///
/// Returns false if a request has no answer. Such a request may never have been sent, so its slip
/// is unknown.
fn is_broken_by_server(summary: &Summary, criteria: &Criteria, responses: &Responses) -> bool {
    let Some(slip_max_ns) = summary.slip_max_ns else {
        return false;
    };
    let is_broken = |objective: &Objective| {
        let limit_ns = objective.limit_ns.saturating_add(slip_max_ns);
        !responses
            .judge(&Objective {
                limit_ns,
                ..*objective
            })
            .is_kept
    };
    responses.censored.is_empty() && criteria.objectives.iter().any(is_broken)
}

/// Returns the number of answers in the interval, divided by the number of requests intended in it.
fn achieved_share(summary: &Summary) -> f64 {
    let answered = summary.achieved_rps * summary.duration_ns as f64 / 1e9;
    answered / summary.intended.max(1) as f64
}

/// Returns the least achieved share that passes. It is 1 minus two allowances: the tolerance, and
/// the longest limit divided by the length of the interval. The second allowance is for requests
/// that are sent shortly before the end of the interval and answered after it. If a server answers
/// every request within the limit, only requests sent in the last stretch of the interval, which is
/// as long as the limit, are unanswered at the end.
fn achieved_share_min(summary: &Summary, criteria: &Criteria) -> f64 {
    let limits = criteria
        .objectives
        .iter()
        .map(|objective| objective.limit_ns);
    let longest_ns = limits.max().unwrap_or_default() as f64;
    (1.0 - ACHIEVED_TOLERANCE - longest_ns / summary.duration_ns.max(1) as f64).max(0.0)
}

/// Whether the generator was so late that its lateness may distort the figure of an objective.
fn is_generator_late(summary: &Summary, criteria: &Criteria) -> bool {
    let is_above_p99 = |objective: &Objective| match objective.figure {
        Figure::Mean => false,
        Figure::Percentile(at) => at > 99.0,
    };
    let lateness = summary.lateness.as_ref();
    let lateness = lateness.and_then(|it| it.histogram().ok());
    let is_late_at_p999 =
        || lateness.is_none_or(|it| generator_limited_at_p999(it.percentile(99.9)));
    let is_p999_needed = criteria.objectives.iter().any(is_above_p99);
    summary.generator_limited || (is_p999_needed && is_late_at_p999())
}

/// Returns the name of the criterion whose bound is exceeded by the greatest factor. None: no
/// criterion is broken.
fn worst_criterion(judgement: &Judgement) -> Option<String> {
    let latencies = judgement
        .latencies
        .iter()
        .filter(|it| !it.is_kept)
        .map(|it| {
            let excess = it.value_ns as f64 / it.limit_ns as f64;
            (it.figure.clone(), excess)
        });
    let achieved = judgement.achieved_share_min / judgement.achieved_share.max(1e-9);
    let failures = judgement.failures / judgement.failures_max.max(1e-9);
    let others = [("achieved rate", achieved), ("failures", failures)];
    let others = others.into_iter().filter(|&(_, excess)| excess > 1.0);
    let all = latencies.chain(others.map(|(name, excess)| (name.to_owned(), excess)));
    all.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name)
}

/// The response times of a trial.
struct Responses {
    /// The response times of answered requests.
    answered: Histogram,
    /// Lower bounds of the response times of requests without an answer: they failed, or were
    /// outstanding at the end.
    censored: Histogram,
}

impl Responses {
    /// Returns the response times of a summary. None: the load was a closed loop, or a histogram of
    /// the summary cannot be decoded.
    fn of(summary: &Summary) -> Option<Self> {
        let response = summary.response.as_ref()?;
        let (answered, censored) = response.answered_and_censored().ok()?;
        Some(Self { answered, censored })
    }

    /// Measures the figure of an objective and compares it with the limit.
    fn judge(&self, objective: &Objective) -> JudgedLatency {
        let responses = WithCensored::new(&self.answered, &self.censored);
        let limit_ns = objective.limit_ns;
        let (value_ns, is_lower_bound, is_kept) = match objective.figure {
            Figure::Mean => {
                let mean_ns = responses.all().mean();
                let is_known = self.censored.is_empty() && !self.answered.is_empty();
                let is_kept = is_known && mean_ns <= limit_ns as f64;
                (mean_ns.round() as u64, !self.censored.is_empty(), is_kept)
            }
            Figure::Percentile(at) => {
                let value = responses.percentile(at);
                let is_kept = responses.is_at_most(at, limit_ns) == Some(true);
                (value.value_ns, value.is_lower_bound, is_kept)
            }
        };
        JudgedLatency {
            figure: objective.figure.to_string(),
            value_ns,
            is_lower_bound,
            limit_ns,
            is_kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;
    use crate::summary::{Failures, LatencyDistribution, Loop, SCHEMA};

    fn histogram_of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    fn distribution(histogram: &Histogram) -> LatencyDistribution {
        LatencyDistribution::of(histogram, &[99.0])
    }

    /// Returns the summary of one second at 1000 requests/s with response times of 1, 2, … 1000 µs.
    /// Each lower bound in `censored` adds a censored request with this bound. In exchange, the
    /// answered request with the longest response time is left out.
    fn summary(censored: impl IntoIterator<Item = u64>) -> Summary {
        let censored = histogram_of(censored);
        let answered = histogram_of((1..=1000 - censored.len()).map(|us| us * 1000));
        Summary {
            schema: SCHEMA.to_owned(),
            demand: Loop::Open,
            offered_rps: Some(1000.0),
            duration_ns: 1_000_000_000,
            intended: 1000,
            sent: 1000,
            answered: answered.len(),
            censored: censored.len(),
            errors: 0,
            achieved_rps: answered.len() as f64,
            gets: 0,
            hits: 0,
            sets: 0,
            lost_connections: 0,
            resident: None,
            response: Some(LatencyDistribution::with_censored(
                &answered,
                &censored,
                &[99.0],
            )),
            service: distribution(&answered),
            slip: Some(distribution(&histogram_of([1000]))),
            slip_max_ns: Some(1_000),
            lateness: Some(distribution(&histogram_of([1000]))),
            generator_limited: false,
            generator_cpu: 0.5,
            generator_busy: 0.5,
            outstanding_mean: 0.5,
            outstanding_unread: 0.0,
            outstanding_expected: 0.5,
            bytes_sent: 0,
            bytes_received: 0,
            unstamped: 0,
            saturating_rps: None,
            watched: None,
            bursts: None,
            stalls: None,
            failures: Failures::default(),
            follow_ups: 0,
            operations: Vec::new(),
            carrier: None,
            script: None,
            files: None,
            closed_loop: None,
            agents: Vec::new(),
            measuring_client: None,
            seconds: Vec::new(),
        }
    }

    fn judged(summary: &Summary, objectives: &str) -> Judgement {
        let objectives = objectives.split(',').map(|text| text.parse().unwrap());
        let criteria = Criteria {
            objectives: objectives.collect(),
            failures_max: 0.001,
        };
        judge(summary, &criteria)
    }

    #[test]
    fn every_objective_is_judged_and_the_most_exceeded_one_is_named() {
        let kept = judged(&summary([]), "p99=1ms,mean=600us");
        assert_eq!((kept.verdict, kept.worst.clone()), (Verdict::Kept, None));
        assert!((989_000..=991_000).contains(&kept.latencies[0].value_ns));
        let broken = judged(&summary([]), "p99=900us,mean=400us,p50=1ms");
        assert_eq!(broken.verdict, Verdict::Broken);
        assert_eq!(broken.worst.as_deref(), Some("mean"));
        let is_kept: Vec<bool> = broken.latencies.iter().map(|it| it.is_kept).collect();
        assert_eq!(is_kept, [false, false, true]);
    }

    #[test]
    fn objective_that_censored_requests_could_exceed_is_not_kept() {
        // The lower bound is above the limit.
        let late = judged(&summary([2_000_000_000; 20]), "p99=10ms");
        assert!(late.latencies[0].is_lower_bound && !late.latencies[0].is_kept);
        // The lower bound is below the limit, because a connection was lost and its requests were
        // given up after 2 µs. The counts are changed such that only the latency objective can be
        // broken, not the share of failures or the achieved rate.
        let mut early = summary([2_000; 20]);
        (early.censored, early.achieved_rps) = (0, 1000.0);
        let early = judged(&early, "p99=10ms");
        let latency = &early.latencies[0];
        assert!(latency.is_lower_bound && latency.value_ns < latency.limit_ns);
        assert_eq!((early.verdict, latency.is_kept), (Verdict::Broken, false));
        // The censored requests are 2 %. They can change the mean, but not the 90th percentile.
        let mut early = summary([2_000; 20]);
        (early.censored, early.achieved_rps) = (0, 1000.0);
        assert_eq!(judged(&early, "p90=1ms").verdict, Verdict::Kept);
        assert_eq!(judged(&early, "mean=1ms").verdict, Verdict::Broken);
    }

    #[test]
    fn too_many_failures_or_missing_answers_break_a_trial() {
        let mut failing = summary([]);
        failing.errors = 2;
        let failing = judged(&failing, "p99=1ms");
        assert_eq!(failing.verdict, Verdict::Broken);
        assert_eq!(failing.worst.as_deref(), Some("failures"));
        let mut slow = summary([]);
        slow.achieved_rps = 970.0;
        let slow = judged(&slow, "p99=1ms");
        assert_eq!(slow.verdict, Verdict::Broken);
        assert_eq!(slow.worst.as_deref(), Some("achieved rate"));
        assert!((slow.achieved_share_min - 0.989).abs() < 1e-9);
        let mut at_the_bounds = summary([]);
        (at_the_bounds.errors, at_the_bounds.achieved_rps) = (1, 992.0);
        assert_eq!(judged(&at_the_bounds, "p99=1ms").verdict, Verdict::Kept);
    }

    #[test]
    fn trial_with_a_late_generator_is_invalid_only_if_lateness_may_have_broken_a_criterion() {
        // Response times are 1 to 1000 µs, and requests are late by up to 100 µs.
        let mut late = summary([]);
        late.generator_limited = true;
        late.slip_max_ns = Some(100_000);
        for (objectives, verdict) in [
            ("p99=1ms", Verdict::Kept),
            ("p99=900us", Verdict::GeneratorLimited),
            ("p99=880us", Verdict::Broken),
            ("p50=450us", Verdict::GeneratorLimited),
            ("mean=510us", Verdict::Kept),
            ("mean=450us", Verdict::GeneratorLimited),
            ("mean=390us", Verdict::Broken),
            ("mean=450us,p99=880us", Verdict::Broken),
        ] {
            assert_eq!(judged(&late, objectives).verdict, verdict, "{objectives}");
        }
        // If the generator was punctual, the same response times break the objective.
        late.generator_limited = false;
        assert_eq!(judged(&late, "p99=900us").verdict, Verdict::Broken);
        // Answers may be missing because their requests were never sent.
        late.generator_limited = true;
        late.achieved_rps = 900.0;
        assert_eq!(judged(&late, "p99=1ms").verdict, Verdict::GeneratorLimited);
    }

    #[test]
    fn p999_of_lateness_is_judged_only_for_objectives_above_p99() {
        let mut late = summary([]);
        // The 99th percentile of lateness is 1 µs, and the 99.9th percentile is 200 µs.
        let late_ns = |number| if number < 995 { 1_000 } else { 200_000 };
        late.lateness = Some(distribution(&histogram_of((0..1000).map(late_ns))));
        late.slip_max_ns = Some(200_000);
        assert_eq!(judged(&late, "p99=980us").verdict, Verdict::Broken);
        assert_eq!(
            judged(&late, "p99.9=980us").verdict,
            Verdict::GeneratorLimited
        );
    }

    /// A model of a server that serves one request at a time, with exponential service times of 100
    /// µs on average. Each connection has at most one outstanding request.
    struct Queue {
        random: Xoshiro256PlusPlus,
        /// The load of the server, as a share of its capacity.
        load: f64,
        connections: usize,
    }

    impl Queue {
        /// Returns a random number from 0 to below 1.
        fn unit(&mut self) -> f64 {
            (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn exponential_ns(&mut self, mean_ns: f64) -> f64 {
            -(1.0 - self.unit()).ln() * mean_ns
        }

        /// Simulates 1000 requests from a punctual generator, and the same requests from a late
        /// generator, which delays some requests by up to `late_max_ns`. Returns the response times
        /// with the punctual generator, the response times with the late generator, and the
        /// greatest slip with the late generator.
        fn run(&mut self, late_max_ns: f64) -> (Vec<u64>, Vec<u64>, u64) {
            // Element 0 of each array belongs to the punctual generator, element 1 to the late one.

            // The time at which the server becomes idle.
            let mut idle_ns = [0.0_f64; 2];
            // The time at which each connection becomes idle.
            let mut connections_ns = [0, 1].map(|_| vec![0.0_f64; self.connections]);
            // The time at which the last request was sent.
            let mut sent_ns = [0.0_f64; 2];
            let mut responses = [const { Vec::new() }; 2];
            let (mut intended_ns, mut slip_max_ns) = (0.0, 0.0_f64);
            for number in 0..1000 {
                intended_ns += self.exponential_ns(100_000.0 / self.load);
                let service_ns = self.exponential_ns(100_000.0);
                let is_late = self.unit() < 0.3;
                let delays_ns = [
                    0.0,
                    if is_late {
                        self.unit() * late_max_ns
                    } else {
                        0.0
                    },
                ];
                for side in 0..2 {
                    let free_ns = &mut connections_ns[side][number % self.connections];
                    // Requests arrive at the server in order.
                    let can_send_ns = free_ns.max(intended_ns).max(sent_ns[side]);
                    sent_ns[side] = can_send_ns + delays_ns[side];
                    idle_ns[side] = idle_ns[side].max(sent_ns[side]) + service_ns;
                    *free_ns = idle_ns[side];
                    responses[side].push((idle_ns[side] - intended_ns) as u64);
                }
                slip_max_ns = slip_max_ns.max(sent_ns[1] - intended_ns);
            }
            let [punctual, late] = responses;
            (punctual, late, slip_max_ns as u64)
        }
    }

    #[test]
    fn verdict_with_a_late_generator_never_contradicts_that_with_a_punctual_one() {
        // With the late generator: the number of verdicts *kept*, and of verdicts *broken*.
        let mut decided = [0; 2];
        for trial in 0..600 {
            let mut queue = Queue {
                random: Xoshiro256PlusPlus::seed_from_u64(trial),
                load: 0.5 + 0.6 * (trial % 100) as f64 / 100.0,
                connections: [1, 8, 1000][trial as usize % 3],
            };
            let late_max_ns = 500_000.0 * queue.unit();
            let (punctual, late, slip_max_ns) = queue.run(late_max_ns);
            let judged_of = |responses: Vec<u64>, slip_max_ns| {
                let mut summary = summary([]);
                summary.response = Some(distribution(&histogram_of(responses)));
                summary.slip_max_ns = Some(slip_max_ns);
                summary.generator_limited = slip_max_ns > 0;
                ["mean=500us", "p99=2ms", "p90=1ms"].map(|it| judged(&summary, it).verdict)
            };
            // The verdicts with the punctual generator.
            let truth = judged_of(punctual, 0);
            for (verdict, truth) in judged_of(late, slip_max_ns).into_iter().zip(truth) {
                match (verdict, truth) {
                    (Verdict::GeneratorLimited, _) => {}
                    (Verdict::Kept, Verdict::Kept) => decided[0] += 1,
                    (Verdict::Broken, Verdict::Broken) => decided[1] += 1,
                    other => panic!("trial {trial}: {other:?}"),
                }
            }
        }
        assert!(decided.iter().all(|&it| it > 50), "{decided:?}");
    }

    #[test]
    fn trial_without_a_local_port_for_a_request_is_generator_limited() {
        let mut exhausted = summary([2_000; 20]);
        exhausted.failures.no_port = 20;
        (exhausted.censored, exhausted.achieved_rps) = (0, 980.0);
        let exhausted = judged(&exhausted, "p99=1ms");
        assert_eq!(exhausted.verdict, Verdict::GeneratorLimited);
        let reason = exhausted.invalid_reason.unwrap();
        assert_eq!(reason, "the generator had no local port left");
    }

    #[test]
    fn trial_that_violates_littles_law_or_has_no_response_times_is_failed() {
        let mut inconsistent = summary([]);
        inconsistent.outstanding_expected = 50.0;
        let inconsistent = judged(&inconsistent, "p99=1ms");
        assert_eq!(inconsistent.verdict, Verdict::Failed);
        assert!(inconsistent.invalid_reason.unwrap().contains("Little"));
        let mut closed = summary([]);
        closed.response = None;
        assert_eq!(judged(&closed, "p99=1ms").verdict, Verdict::Failed);
    }
}
