//! A measurement of the first version survives the conversion to a record and back.

use proptest::prelude::*;

use crate::cache::folder::{Bursts, Cost, LowerBounds, Measurement, Quantiles, Stolen};
use crate::cache::{GENERATOR_LIMITED, decode, encode, metrics};
use crate::record::{Measured, Record};

/// A count that a `f64` holds exactly.
fn count() -> impl Strategy<Value = u64> {
    0..=1_u64 << 53
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..1.0, 0.0..1e12]
}

fn bounds() -> impl Strategy<Value = LowerBounds> {
    any::<[bool; 5]>().prop_map(|[p50, p90, p95, p99, p999]| LowerBounds {
        p50,
        p90,
        p95,
        p99,
        p999,
    })
}

fn quantiles() -> impl Strategy<Value = Quantiles> {
    (proptest::array::uniform8(count()), number()).prop_map(|(counts, mean)| {
        let [count, min, p50, p90, p95, p99, p999, max] = counts;
        Quantiles {
            count,
            mean,
            min,
            p50,
            p90,
            p95,
            p99,
            p999,
            max,
            lower_bounds: None,
        }
    })
}

fn response() -> impl Strategy<Value = Quantiles> {
    (quantiles(), proptest::option::of(bounds())).prop_map(|(mut response, lower_bounds)| {
        response.lower_bounds = lower_bounds;
        response
    })
}

fn cost() -> impl Strategy<Value = Cost> {
    let switches = || proptest::option::of(count());
    (
        proptest::array::uniform3(count()),
        number(),
        switches(),
        switches(),
    )
        .prop_map(
            |([user_ns, system_ns, resident_bytes], cpu, voluntary, involuntary)| Cost {
                user_ns,
                system_ns,
                cpu_ns_per_request: cpu,
                resident_bytes,
                voluntary_switches: voluntary,
                involuntary_switches: involuntary,
            },
        )
}

prop_compose! {
    fn distributions()(
        response in proptest::option::of(response()),
        service in quantiles(),
        slip in proptest::option::of(quantiles()),
    ) -> (Option<Quantiles>, Quantiles, Option<Quantiles>) {
        (response, service, slip)
    }
}

prop_compose! {
    fn measurement()(
        (response, service, slip) in distributions(),
        [duration_ns, intended, answered, errors] in proptest::array::uniform4(count()),
        censored in prop_oneof![Just(0), count()],
        numbers in proptest::array::uniform5(number()),
        optional in proptest::array::uniform5(proptest::option::of(number())),
        [lateness_p99_ns, lost_connections] in
            proptest::array::uniform2(proptest::option::of(count())),
        generator_limited in any::<bool>(),
        cost in proptest::option::of(cost()),
        bursts in proptest::option::of((proptest::collection::vec(count(), 0..9), number())),
    ) -> Measurement {
        let [achieved_rps, generator_cpu, mean, unread, expected] = numbers;
        let [hit_rate, resident, generator_busy, saturating_rps, stolen] = optional;
        Measurement {
            duration_ns,
            intended,
            answered,
            censored,
            errors,
            achieved_rps,
            hit_rate,
            resident,
            response,
            service,
            slip,
            lateness_p99_ns,
            generator_limited,
            generator_cpu,
            generator_busy,
            lost_connections,
            outstanding_mean: mean,
            outstanding_unread: unread,
            outstanding_expected: expected,
            saturating_rps,
            cost,
            bursts: bursts.map(|(counts, mean)| Bursts { counts, mean }),
            stolen: stolen.map(|server| Stolen { server, load: server / 2.0 }),
        }
    }
}

/// The measurement as the report sees it: older builds left the lower bounds to be inferred.
fn seen(mut measurement: Measurement) -> Measurement {
    let bounds = measurement.response_bounds();
    if let Some(response) = &mut measurement.response {
        response.lower_bounds = (bounds != LowerBounds::default()).then_some(bounds);
        if measurement.censored > 0 {
            response.lower_bounds = Some(bounds);
        }
    }
    measurement
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_measurement_survives_encoding_as_a_record(measurement in measurement()) {
        let measured = encode(&measurement);
        let json = serde_json::to_string(&measured).unwrap();
        let read: Measured = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(&read, &measured);
        prop_assert_eq!(decode(&read).unwrap(), seen(measurement));
    }

    #[test]
    fn every_metric_of_a_measurement_is_defined(measurement in measurement()) {
        let measured = encode(&measurement);
        let defined = metrics();
        let is_defined = |name: &String| defined.iter().any(|metric| metric.name == *name);
        for name in measured.metrics.keys().chain(measured.flags.keys()) {
            prop_assert!(is_defined(name), "{}", name);
        }
        let limited = measurement.generator_limited.then_some(GENERATOR_LIMITED);
        prop_assert_eq!(measured.suspect.as_deref(), limited);
    }
}

#[test]
fn a_record_that_lacks_a_metric_is_named() {
    let error = decode(&Measured::default()).unwrap_err();
    assert_eq!(error, "metric `duration_ns` is missing");
}

/// A record is JSON that other programs read: absent parts are absent, not null.
#[test]
fn a_record_has_no_null() {
    let record = r#"{"id":"main-0-0","stage":"main","cell":0,"repeat":0,"factors":{"a":1},
        "started_unix_ns":1,"outcome":{"measured":{"metrics":{"m":1.5}}}}"#;
    let record: Record = serde_json::from_str(record).unwrap();
    let json = serde_json::to_string(&record).unwrap();
    assert!(!json.contains("null"), "{json}");
}
