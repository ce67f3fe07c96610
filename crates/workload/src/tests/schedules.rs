//! Schedules: the same for the same seed, at the requested rate, divisible without change.

use proptest::prelude::*;

use crate::{
    Arrivals, ArrivalsError, Demand, Digest, Distribution, Mix, Op, PlannedRequest, Popularity,
    Request, Superposition, WebFiles,
};

fn demand(seed: u64) -> Demand {
    Demand {
        seed,
        repeat: 0,
        connections: 64,
        arrivals: Distribution::FacebookArrival,
        superposition: Superposition::PerConnection,
        popularity: Popularity::Zipf(0.99),
        records: 1_000_000,
        files: None,
        mix: Mix::sets(0.03),
        ttl: Distribution::Fixed(0.0),
        multiget: Distribution::Fixed(1.0),
    }
}

fn planned(demand: &Demand, count: usize) -> Vec<PlannedRequest> {
    demand.schedule(100_000.0).unwrap().take(count).collect()
}

#[test]
fn the_same_seed_gives_the_same_schedule_on_every_machine() {
    let single = Demand {
        superposition: Superposition::Single,
        ..demand(42)
    };
    let digest = |demand: &Demand| Digest::of(planned(demand, 10_000)).value();
    assert_eq!(digest(&demand(42)), 17_674_431_082_186_797_164);
    assert_eq!(digest(&single), 5_174_232_547_580_481_276);
    assert_ne!(digest(&demand(42)), digest(&demand(43)));
}

/// With a hundred popular records of a million, two schedules share most requests only if the same
/// records are popular.
#[test]
fn repeats_share_popular_records_and_nothing_else() {
    let of = |repeat| {
        let popularity = Popularity::Zipf(1.5);
        let demand = Demand {
            repeat,
            popularity,
            ..demand(42)
        };
        planned(&demand, 10_000)
    };
    let (first, second) = (of(0), of(1));
    let records: std::collections::HashSet<u64> =
        first.iter().map(|it| it.request.record).collect();
    let shared = second
        .iter()
        .filter(|it| records.contains(&it.request.record))
        .count();
    assert!(shared > 7_000, "{shared}");
    let same = first
        .iter()
        .zip(&second)
        .filter(|(a, b)| a.intended_ns == b.intended_ns)
        .count();
    assert!(same < 10, "{same}");
}

#[test]
fn the_first_requests_are_what_they_were_before() {
    let first: Vec<(u64, u32, u64, Op)> = planned(&demand(42), 4)
        .into_iter()
        .map(|p| (p.intended_ns, p.connection, p.request.record, p.request.op))
        .collect();
    assert_eq!(
        first,
        [
            (4244, 53, 168_726, Op::Get),
            (23_005, 34, 566_014, Op::Get),
            (58_620, 45, 965_227, Op::Get),
            (87_124, 56, 803_382, Op::Get),
        ]
    );
}

#[test]
fn the_rate_is_the_offered_one_from_the_start() {
    let distributions = [
        "fixed:1",
        "uniform:2",
        "exponential:3",
        "fb_ia",
        "normal:1,2",
        "gev:0,1,0.1",
    ];
    for text in distributions {
        for superposition in [Superposition::PerConnection, Superposition::Single] {
            let distribution = text.parse().unwrap();
            let arrivals = Arrivals::new(distribution, superposition, 1e6, 500, 0..500, 7).unwrap();
            let times: Vec<u64> = arrivals
                .map(|a| a.intended_ns)
                .take_while(|&ns| ns < 400_000_000)
                .collect();
            // 400 000 arrivals expected in all; a tenth of them in each tenth.
            let off = times.len() as f64 / 400_000.0 - 1.0;
            assert!(off.abs() < 0.01, "{text} {superposition:?}: {off}");
            for tenth in 0..10 {
                let seen = times.iter().filter(|&&ns| ns / 40_000_000 == tenth).count();
                assert!(
                    seen.abs_diff(40_000) < 1600,
                    "{text} {superposition:?} {tenth}: {seen}"
                );
            }
        }
    }
}

#[test]
fn many_connections_with_fixed_gaps_do_not_send_together() {
    let arrivals = Arrivals::new(
        Distribution::Fixed(1.0),
        Superposition::PerConnection,
        1e5,
        1000,
        0..1000,
        7,
    );
    // Each connection once every 10 ms, each millisecond a tenth of them.
    let first: Vec<u64> = arrivals
        .unwrap()
        .take(1000)
        .map(|a| a.intended_ns)
        .collect();
    for millisecond in 0..10 {
        let seen = first
            .iter()
            .filter(|&&ns| ns / 1_000_000 == millisecond)
            .count();
        assert!((60..140).contains(&seen), "{millisecond}: {seen}");
    }
}

#[test]
fn a_connection_follows_its_distribution() {
    let arrivals = Arrivals::new(
        Distribution::FacebookArrival,
        Superposition::PerConnection,
        1e6,
        4,
        0..4,
        1,
    );
    let times: Vec<u64> = arrivals
        .unwrap()
        .filter(|a| a.connection == 2)
        .take(40_001)
        .map(|a| a.intended_ns)
        .collect();
    let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    // The mean gap of 4 µs stands for the distribution's 18.97.
    let scale = Distribution::FacebookArrival.mean().unwrap() / 4000.0;
    for (i, &gap) in gaps.iter().enumerate() {
        let share = (i as f64 + 0.5) / gaps.len() as f64;
        let expected = Distribution::FacebookArrival.cdf(gap as f64 * scale);
        assert!(
            (share - expected).abs() < 0.01,
            "{gap} ns: {share} {expected}"
        );
    }
}

#[test]
fn updates_and_records_follow_the_demand() {
    let all = planned(&demand(5), 200_000);
    let sets = all.iter().filter(|p| p.request.op == Op::Set).count() as f64 / all.len() as f64;
    assert!((sets - 0.03).abs() < 0.002, "{sets}");
    assert!(
        all.iter()
            .all(|p| p.request.record < 1_000_000 && p.connection < 64)
    );
    let never = Demand {
        mix: Mix::sets(0.0),
        ..demand(5)
    };
    assert!(
        planned(&never, 10_000)
            .iter()
            .all(|p| p.request.op == Op::Get)
    );
    let always = Demand {
        mix: Mix::sets(1.0),
        ..demand(5)
    };
    assert!(
        planned(&always, 10_000)
            .iter()
            .all(|p| p.request.op == Op::Set)
    );
}

#[test]
fn a_closed_loop_sends_the_requests_of_the_schedule() {
    let demand = demand(5);
    let open: Vec<Request> = planned(&demand, 20_000)
        .iter()
        .filter(|p| p.connection == 9)
        .map(|p| p.request)
        .collect();
    assert!(open.len() > 100);
    assert_eq!(
        demand
            .requests(9)
            .unwrap()
            .take(open.len())
            .collect::<Vec<_>>(),
        open
    );
}

#[test]
fn impossible_demands_are_named() {
    let fault = |demand: Demand, rate| demand.schedule(rate).unwrap_err().to_string();
    let rate = fault(demand(1), 0.0);
    assert!(
        rate.starts_with("rate 0 requests per second: give"),
        "{rate}"
    );
    assert!(fault(demand(1), f64::NAN).starts_with("rate NaN"));
    let update = fault(
        Demand {
            mix: Mix::sets(1.5),
            ..demand(1)
        },
        1e3,
    );
    assert_eq!(update, "update 1.5: give the share of sets, from 0 to 1");
    let records = fault(
        Demand {
            records: 0,
            ..demand(1)
        },
        1e3,
    );
    assert!(records.starts_with("0 records: give"), "{records}");
    let none = fault(
        Demand {
            connections: 0,
            ..demand(1)
        },
        1e3,
    );
    assert!(none.starts_with("0 connections: give"), "{none}");
    let zero = fault(
        Demand {
            arrivals: Distribution::Fixed(0.0),
            ..demand(1)
        },
        1e3,
    );
    assert!(
        zero.starts_with("arrivals `fixed:0`: the mean gap is 0, so"),
        "{zero}"
    );
    let endless = Demand {
        arrivals: "pareto:0,1,1".parse().unwrap(),
        ..demand(1)
    };
    assert!(fault(endless, 1e3).contains("the mean gap is infinite"));
    let vast = Demand {
        arrivals: "uniform:-1e308,1.5e308".parse().unwrap(),
        ..demand(1)
    };
    assert!(fault(vast, 1e3).contains("cannot be scaled to a rate"));
    let minute = Demand {
        arrivals: Distribution::Fixed(1e-320),
        ..demand(1)
    };
    assert!(fault(minute, 1e3).contains("the mean gap is 0"));
    let part = demand(1).schedule_of(1e3, 60..70).unwrap_err().to_string();
    assert_eq!(part, "connections 60 to 70: there are 64");
    let error = Arrivals::new(
        Distribution::Fixed(1.0),
        Superposition::Single,
        1e99,
        1,
        0..1,
        1,
    );
    assert_eq!(error.unwrap_err(), ArrivalsError::Rate(1e99));
}

proptest! {
    #[test]
    fn threads_share_a_schedule_without_changing_it(seed: u64, cut in 0..=64_u32, single: bool) {
        let superposition =
            if single { Superposition::Single } else { Superposition::PerConnection };
        let demand = Demand { superposition, ..demand(seed) };
        let whole = planned(&demand, 500);
        let end_ns = whole[499].intended_ns;
        let part = |range| {
            let schedule = demand.schedule_of(100_000.0, range).unwrap();
            schedule.take_while(|p| p.intended_ns < end_ns).collect::<Vec<_>>()
        };
        let mut parts = part(0..cut);
        parts.extend(part(cut..64));
        parts.sort_by_key(|p| (p.intended_ns, p.connection));
        let mut expected: Vec<PlannedRequest> =
            whole.into_iter().filter(|p| p.intended_ns < end_ns).collect();
        expected.sort_by_key(|p| (p.intended_ns, p.connection));
        prop_assert_eq!(parts, expected);
    }

    #[test]
    fn intended_times_never_go_back(seed: u64, single: bool) {
        let superposition =
            if single { Superposition::Single } else { Superposition::PerConnection };
        let all = planned(&Demand { superposition, ..demand(seed) }, 2000);
        prop_assert!(all.windows(2).all(|pair| pair[0].intended_ns <= pair[1].intended_ns));
    }
}

#[test]
fn multigets_have_keys_and_writes_have_ttls_by_distribution() {
    let mixed = Demand {
        mix: "get=50,multiget=20,set=20,delete=10".parse().unwrap(),
        ttl: "uniform:0,20".parse().unwrap(),
        multiget: "uniform:2,9".parse().unwrap(),
        ..demand(5)
    };
    let sampler = mixed.record_sampler();
    let mut requests = [0_u32; Op::COUNT];
    let (mut ttls_s, mut lens) = (0, 0);
    for request in mixed.requests(0).unwrap().take(100_000) {
        requests[request.op as usize] += 1;
        let records: Vec<u64> = request.records(&sampler).collect();
        assert_eq!(records.len(), usize::from(request.keys));
        assert_eq!(records[0], request.record);
        assert!(records.iter().all(|&record| record < 1_000_000));
        match request.op {
            Op::Set => {
                assert!(
                    (1..=20).contains(&request.ttl_s()),
                    "0 would mean no expiry"
                );
                ttls_s += request.ttl_s();
            }
            Op::MultiGet => {
                assert!((2..=9).contains(&request.keys));
                lens += u32::from(request.keys);
            }
            _ => assert_eq!((request.ttl_s(), request.keys), (0, 1)),
        }
    }
    let mean = |sum: u32, op: Op| f64::from(sum) / f64::from(requests[op as usize]);
    assert!((mean(ttls_s, Op::Set) - 10.0).abs() < 0.2);
    assert!((mean(lens, Op::MultiGet) - 5.5).abs() < 0.1);
    for (op, share) in [(Op::Get, 0.5), (Op::MultiGet, 0.2), (Op::Delete, 0.1)] {
        let seen = f64::from(requests[op as usize]) / 100_000.0;
        assert!((seen - share).abs() < 0.01, "{op}: {seen}");
    }
}

/// The k-th most popular directory is requested in proportion to 1/k, and a file of each request
/// is one of its directory.
#[test]
fn files_are_requested_by_the_popularity_of_their_directories() {
    let files = WebFiles::new(600, 1).unwrap();
    let demand = Demand {
        files: Some(files),
        popularity: Popularity::Zipf(1.0),
        mix: Mix::sets(0.0),
        ..demand(42)
    };
    let mut counts = vec![0_u32; 600];
    for planned in planned(&demand, 200_000) {
        assert_eq!(planned.request.op, Op::Get);
        counts[(planned.request.record / WebFiles::FILES_PER_DIRECTORY) as usize] += 1;
    }
    let sampler = demand.record_sampler();
    let harmonic: f64 = (1..=600).map(|rank| 1.0 / f64::from(rank)).sum();
    for rank in [1, 2, 3, 10] {
        let count = counts[sampler.record_of_rank(rank - 1) as usize];
        let expected = 200_000.0 / harmonic / rank as f64;
        let off = (f64::from(count) - expected).abs();
        assert!(
            off < 5.0 * expected.sqrt(),
            "rank {rank}: {count} for {expected}"
        );
    }
}
