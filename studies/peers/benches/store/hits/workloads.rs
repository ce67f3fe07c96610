//! What is asked: popularity that stays, scans, overwriting, and popularity that moves.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use workload::{Distribution, Popularity, Purpose, RandomStream, RecordSampler, SizeDistribution};

/// Records that are asked for again and again; some workloads add others.
pub(crate) const RECORDS: u32 = 1_000_000;

#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) record: u32,
    pub(crate) is_write: bool,
}

const fn read(record: u32) -> Request {
    Request {
        record,
        is_write: false,
    }
}

pub(crate) struct Workload {
    pub(crate) requests: Vec<Request>,
    /// Of every record, its key and value.
    pub(crate) lens: Vec<u32>,
    /// Records are counted, not weighed: no design is charged for what it spends on them.
    pub(crate) is_counted: bool,
}

impl Workload {
    fn new(requests: Vec<Request>) -> Self {
        let records = requests.iter().map(|request| request.record + 1).max();
        Self {
            requests,
            lens: vec![30 + 100; records.unwrap_or(0).max(RECORDS) as usize],
            is_counted: false,
        }
    }

    pub(crate) fn records(&self) -> u32 {
        self.lens.len() as u32
    }

    /// A share of the bytes of the records that are asked for again and again.
    pub(crate) fn capacity(&self, share: f64) -> u64 {
        let lens = &self.lens[..RECORDS as usize];
        let bytes: u64 = lens.iter().copied().map(u64::from).sum();
        (bytes as f64 * share) as u64
    }
}

/// One workload.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) is_quick: bool,
    pub(crate) make: fn(u32) -> Workload,
}

const fn case(name: &'static str, make: fn(u32) -> Workload) -> Case {
    Case {
        name,
        is_quick: false,
        make,
    }
}

const fn quick(name: &'static str, make: fn(u32) -> Workload) -> Case {
    Case {
        is_quick: true,
        ..case(name, make)
    }
}

pub(crate) const CASES: [Case; 14] = [
    quick("zipf 0.99, equal numbers of records", counted),
    case("zipf 0.6", |requests| still(0.6, requests)),
    case("zipf 0.8", |requests| still(0.8, requests)),
    quick("zipf 0.99", |requests| still(0.99, requests)),
    case("zipf 1.2", |requests| still(1.2, requests)),
    quick("zipf 0.99, ETC values", etc),
    quick("zipf 0.99 with scans of a tenth of the records", scans),
    case("zipf 0.99, a quarter asked for once and never again", once),
    case("zipf 0.99, 3 % overwrite", |requests| written(3, requests)),
    quick("zipf 0.99, 30 % overwrite", |requests| {
        written(30, requests)
    }),
    case(
        "half zipf 0.99, half a loop over 40 % of the records",
        looped,
    ),
    case(
        "zipf 0.99, the ranks move by one record in 20 requests",
        moving,
    ),
    case("zipf 0.99, seven other ranks in turn", phases),
    case(
        "half zipf 0.9, half records asked for eight times and never again",
        bursts,
    ),
];

fn zipf(theta: f64, requests: u32) -> Vec<u32> {
    let popularity = format!("zipf:{theta}")
        .parse()
        .unwrap_or(Popularity::Uniform);
    let picker = RecordSampler::new(popularity, u64::from(RECORDS), 1);
    let mut stream = RandomStream::new(1, Purpose::Other, 1);
    (0..requests)
        .map(|_| picker.draw(&mut stream) as u32)
        .collect()
}

/// What is beside the zipf is drawn from another stream.
fn dice() -> RandomStream {
    RandomStream::new(1, Purpose::Other, 2)
}

fn still(theta: f64, requests: u32) -> Workload {
    Workload::new(zipf(theta, requests).into_iter().map(read).collect())
}

fn counted(requests: u32) -> Workload {
    Workload {
        is_counted: true,
        ..still(0.99, requests)
    }
}

fn etc(requests: u32) -> Workload {
    let law = SizeDistribution::new(
        "fb_value".parse().unwrap_or(Distribution::Fixed(329.0)),
        1,
        100_000,
    );
    let bits = |record: u32| u64::from(record).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Workload {
        lens: (0..RECORDS)
            .map(|record| 30 + law.len_of(bits(record)))
            .collect(),
        ..still(0.99, requests)
    }
}

/// After every 500 000 requests come 100 000 of records one after another.
fn scans(requests: u32) -> Workload {
    let mut all = Vec::new();
    let mut next = 0;
    for part in zipf(0.99, requests).chunks(RECORDS as usize / 2) {
        all.extend(part.iter().copied().map(read));
        for _ in 0..RECORDS / 10 {
            all.push(read(next));
            next = (next + 1) % RECORDS;
        }
    }
    Workload::new(all)
}

fn once(requests: u32) -> Workload {
    let mut dice = dice();
    let mut fresh = RECORDS..;
    let other = |record| match dice.below(4) {
        0 => fresh.next().unwrap_or(record),
        _ => record,
    };
    let all = zipf(0.99, requests).into_iter().map(other);
    Workload::new(all.map(read).collect())
}

fn written(percent: u64, requests: u32) -> Workload {
    let mut dice = dice();
    let request = |record| Request {
        record,
        is_write: dice.below(100) < percent,
    };
    Workload::new(zipf(0.99, requests).into_iter().map(request).collect())
}

fn looped(requests: u32) -> Workload {
    let mut dice = dice();
    let mut around = (0..RECORDS / 5 * 2).cycle();
    let other = |record| match dice.below(2) {
        0 => around.next().unwrap_or(record),
        _ => record,
    };
    let all = zipf(0.99, requests).into_iter().map(other);
    Workload::new(all.map(read).collect())
}

/// Every rank's record is the next rank's 20 requests later, so the most popular is new each time.
fn moving(requests: u32) -> Workload {
    let popularity = "zipf:0.99".parse().unwrap_or(Popularity::Uniform);
    let picker = RecordSampler::new(popularity, u64::from(RECORDS), 1);
    let mut rank_of = vec![0; RECORDS as usize];
    for rank in 0..RECORDS {
        rank_of[picker.record_of_rank(u64::from(rank)) as usize] = rank;
    }
    let moved = |(number, record): (usize, u32)| {
        let rank = rank_of[record as usize] + number as u32 / 20;
        picker.record_of_rank(u64::from(rank % RECORDS)) as u32
    };
    let all = zipf(0.99, requests).into_iter().enumerate().map(moved);
    Workload::new(all.map(read).collect())
}

/// Each lasts for one and a third requests a record.
fn phases(requests: u32) -> Workload {
    let moved = |(number, record): (usize, u32)| {
        let phase = number as u32 / (RECORDS / 3 * 4);
        (record + phase * (RECORDS / 7)) % RECORDS
    };
    let all = zipf(0.99, requests).into_iter().enumerate().map(moved);
    Workload::new(all.map(read).collect())
}

/// The eight requests fall within one for every ten records.
fn bursts(requests: u32) -> Workload {
    const TIMES: u32 = 8;
    let mut dice = dice();
    let mut due = BinaryHeap::new();
    let mut all = Vec::new();
    for (number, record) in (0_u64..).zip(zipf(0.9, requests / 2)) {
        all.push(read(record));
        if number % u64::from(TIMES) == 0 {
            let fresh = RECORDS + number as u32 / TIMES;
            due.push(Reverse((number, fresh)));
            for _ in 1..TIMES {
                let later = dice.below(u64::from(RECORDS) / 10);
                due.push(Reverse((number + later, fresh)));
            }
        }
        while due.peek().is_some_and(|Reverse((at, _))| *at <= number) {
            all.extend(due.pop().map(|Reverse((_, fresh))| read(fresh)));
        }
    }
    Workload::new(all)
}
