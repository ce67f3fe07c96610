//! How fast the store is beside caches and maps of its kind, in one process and in turns.
//!
//! Keys are of 32 bytes and made beforehand, requests are drawn beforehand, every value (of 100
//! bytes, or by the law of ETC) is copied out. A figure is the median over the rounds; rounds of
//! all caches alternate, so that what the machine does meanwhile falls on all of them. A ratio is
//! the median of those within rounds, with its 95 % interval; a target is met where all of that is.
//!
//! Instructions an operation follow, counted by valgrind where it is installed.
//!
//! `[--quick] [--rounds N] [--of CACHE]… [CASE]…`: three rounds, or so many, instead of nine; the
//! caches and the cases that are called so, or all whose names contain it (`instructions`: their
//! table alone).
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark speaks to the terminal"
)]

mod instructions;
mod line;
mod rates;
mod subject;

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use peers::cases::chosen;
use rates::{Rates, Target};
use subject::{Asked, Kind, Subject};
use workload::{Distribution, Popularity, Purpose, RandomStream, RecordSampler, SizeDistribution};

const KEY_LEN: usize = 32;
const VALUE_LEN: u32 = 100;
const VALUE_MAX: u32 = 100_000;
/// Items that lie in the caches of one core: what is left is instructions.
const SMALL: u32 = 10_000;
/// Items that lie in the caches of the processor.
const NEAR: u32 = 100_000;
/// Items of eight times a last-level cache of 32 MiB.
const FAR: u32 = 2_500_000;
const BURST: usize = 16;

/// What is asked.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    items: u32,
    /// Items there is room for.
    room: u32,
    /// Sets in a hundred requests.
    sets: u64,
    burst: usize,
    threads: usize,
    requests: usize,
    /// Lengths of values are as in Facebook's ETC pool, not all the same.
    is_etc: bool,
    /// No two threads ask for the same record: what they still pay for each other is the cache's
    /// doing and not the load's.
    keys_apart: bool,
    target: Option<Target>,
}

const fn case(name: &'static str, items: u32, sets: u64, burst: usize, threads: usize) -> Case {
    Case {
        name,
        items,
        room: items,
        sets,
        burst,
        threads,
        requests: 2_000_000,
        is_etc: false,
        keys_apart: false,
        target: None,
    }
}

const fn at_least(target: Target, case: Case) -> Case {
    Case {
        target: Some(target),
        ..case
    }
}

const fn etc(case: Case) -> Case {
    Case {
        is_etc: true,
        ..case
    }
}

const CASES: [Case; 18] = [
    case("small, sets", SMALL, 100, 1, 1),
    at_least(Target::Best(1.0), case("near, gets", NEAR, 0, 1, 1)),
    at_least(
        Target::OneEach(0.9),
        case("near, gets, 2 threads", NEAR, 0, 1, 2),
    ),
    case("near, 95/5", NEAR, 5, 1, 1),
    case("near, 95/5, 2 threads", NEAR, 5, 1, 2),
    case("near, 50/50", NEAR, 50, 1, 1),
    at_least(
        Target::OneEach(0.8),
        case("near, 50/50, 2 threads", NEAR, 50, 1, 2),
    ),
    at_least(
        Target::OneEach(0.8),
        case("near, 50/50 in bursts of 16, 2 threads", NEAR, 50, BURST, 2),
    ),
    Case {
        keys_apart: true,
        ..case("near, 50/50, keys apart, 2 threads", NEAR, 50, 1, 2)
    },
    at_least(Target::Best(1.0), case("near, sets", NEAR, 100, 1, 1)),
    etc(case("near, ETC values, 95/5", NEAR, 5, 1, 1)),
    etc(case("near, ETC values, sets", NEAR, 100, 1, 1)),
    case("far, gets", FAR, 0, 1, 1),
    at_least(
        Target::Best(2.0),
        case("far, gets in bursts of 16", FAR, 0, BURST, 1),
    ),
    at_least(
        Target::OneEach(0.9),
        case("far, gets in bursts of 16, 2 threads", FAR, 0, BURST, 2),
    ),
    at_least(Target::Best(1.0), case("far, sets", FAR, 100, 1, 1)),
    etc(case(
        "far, ETC values, gets in bursts of 16",
        FAR,
        0,
        BURST,
        1,
    )),
    Case {
        room: NEAR,
        ..case("ten times what fits, a miss is set", 10 * NEAR, 0, 1, 1)
    },
];

/// What the table of instructions is called.
const TABLE: &str = "instructions";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = words.iter().position(|word| word == instructions::BARE) {
        instructions::bare(&words[at + 1..]);
        return ExitCode::SUCCESS;
    }
    let asks = match Asks::parse(&words) {
        Ok(asks) => asks,
        Err(error) => {
            eprintln!("store-speed: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "million operations a second, zipf 0.99, {KEY_LEN} + {VALUE_LEN} bytes or ETC, median of \
         {} rounds",
        asks.rounds
    );
    if asks.rounds < 6 {
        println!("fewer than 6 rounds: their intervals are the whole range, and below 95 %");
    }
    for case in CASES {
        if asks.tables.contains(&case.name) {
            table(case, asks.rounds, &asks.caches);
        }
    }
    if asks.tables.contains(&TABLE) {
        instructions::print(&asks.caches);
    }
    ExitCode::SUCCESS
}

/// What is asked for.
struct Asks {
    rounds: usize,
    caches: Vec<Kind>,
    tables: Vec<&'static str>,
}

impl Asks {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut asks = Self {
            rounds: 9,
            caches: Vec::new(),
            tables: Vec::new(),
        };
        let tables: Vec<&str> = CASES.iter().map(|case| case.name).chain([TABLE]).collect();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                // Of `cargo bench`.
                "--bench" => {}
                "--quick" => asks.rounds = 3,
                "--rounds" => {
                    let rounds = words.next().and_then(|count| count.parse().ok());
                    let rounds = rounds.filter(|&rounds| rounds > 0);
                    asks.rounds = rounds.ok_or("--rounds wants a number from 1 on")?;
                }
                "--of" => {
                    let wanted = words.next().ok_or("--of wants the name of a cache")?;
                    let names = chosen(&Kind::ALL.map(Kind::name), Some(wanted))?;
                    let is_new =
                        |kind: &Kind| names.contains(&kind.name()) && !asks.caches.contains(kind);
                    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(is_new).collect();
                    asks.caches.extend(kinds);
                }
                _ if word.starts_with("--") => return Err(format!("there is no option {word}")),
                _ => asks.tables.extend(chosen(&tables, Some(word))?),
            }
        }
        if asks.caches.is_empty() {
            asks.caches = Kind::ALL.to_vec();
        }
        if asks.tables.is_empty() {
            asks.tables = tables;
        }
        Ok(asks)
    }
}

/// What is asked for: keys, and how long the value of each is.
struct Records {
    keys: Vec<[u8; KEY_LEN]>,
    value_lens: Vec<u32>,
}

impl Records {
    fn of(case: Case) -> Self {
        let mut stream = RandomStream::new(3, Purpose::Other, 0);
        let law = SizeDistribution::new(
            "fb_value".parse().unwrap_or(Distribution::Fixed(329.0)),
            1,
            VALUE_MAX,
        );
        let (mut keys, mut value_lens) = (Vec::new(), Vec::new());
        for number in 0..case.items {
            let bits = stream.next_u64();
            let text = format!("{bits:016x}{number:016}");
            keys.push(std::array::from_fn(|at| text.as_bytes()[at]));
            value_lens.push(if case.is_etc {
                law.len_of(bits)
            } else {
                VALUE_LEN
            });
        }
        Self { keys, value_lens }
    }

    /// A record's bytes on average.
    fn mean_bytes(&self) -> u64 {
        let values: u64 = self.value_lens.iter().copied().map(u64::from).sum();
        KEY_LEN as u64 + values / self.value_lens.len() as u64
    }
}

/// A cache as the threads of a case have it, filled.
fn prepared(case: Case, kind: Kind, records: &Records) -> Vec<Box<dyn Subject>> {
    let fits = case.room >= case.items;
    let bytes = records.mean_bytes();
    let mut handles = kind.make(u64::from(case.room), bytes, case.threads, fits);
    let filled = if kind.is_apart() { handles.len() } else { 1 };
    let value = vec![b'v'; VALUE_MAX as usize];
    for handle in handles.iter_mut().take(filled) {
        for (key, &len) in records.keys.iter().zip(&records.value_lens) {
            handle.set(key, &value[..len as usize]);
        }
        handle.rest();
    }
    handles
}

fn table(case: Case, rounds: usize, kinds: &[Kind]) {
    println!("\n{}", case.name);
    if case.threads > 1 {
        let transfer_ns = line::transfer_ns();
        println!("  a line takes {transfer_ns:.0} ns from one thread to the other");
    }
    let records = Records::of(case);
    let streams: Vec<_> = (0..case.threads)
        .map(|thread| requests(case, thread as u64))
        .collect();
    let fits = case.room >= case.items;
    let kinds: Vec<Kind> = kinds
        .iter()
        .copied()
        .filter(|kind| fits || kind.is_bounded())
        .filter(|kind| case.threads > 1 || !kind.is_apart())
        .collect();
    let mut subjects: Vec<_> = kinds
        .iter()
        .map(|&kind| prepared(case, kind, &records))
        .collect();
    let mut rates = vec![Vec::new(); kinds.len()];
    let mut hits = vec![0.0; kinds.len()];
    for round in 0..rounds {
        for turn in 0..kinds.len() {
            let at = (turn + round) % kinds.len();
            let (rate, hit) = measure(&mut subjects[at], &records, &streams, case);
            rates[at].push(rate);
            hits[at] = hit;
        }
    }
    let rates = Rates { kinds, rates };
    for (kind, hit) in rates.kinds.iter().zip(hits) {
        let beside_apart = match case.threads {
            1 => String::new(),
            _ => format!(
                "   {:>17} times one each",
                rates.shown(*kind, Kind::CurtailApart)
            ),
        };
        println!(
            "  {:<22} {:7.2}   {:>17} times quick_cache{beside_apart}   {:5.1} % hits",
            kind.name(),
            rates.median(*kind).map_or(f64::NAN, |rate| rate / 1e6),
            rates.shown(*kind, Kind::QuickCache),
            hit * 100.0
        );
    }
    if let Some(target) = case.target {
        println!("  {}", rates.judged(target));
    }
}

/// Records, those to be set with the highest bit.
fn requests(case: Case, thread: u64) -> Vec<u32> {
    let threads = case.threads as u32;
    let popularity = "zipf:0.99".parse().unwrap_or(Popularity::Uniform);
    let picker = RecordSampler::new(popularity, u64::from(case.items), 1);
    let mut stream = RandomStream::new(1, Purpose::Other, thread + 10);
    (0..case.requests)
        .map(|_| {
            let drawn = picker.draw(&mut stream) as u32;
            // As popular, but for its neighbour's place.
            let record = match case.keys_apart {
                true => drawn - drawn % threads + thread as u32,
                false => drawn,
            };
            let set = stream.below(100) < case.sets;
            record | u32::from(set) << 31
        })
        .collect()
}

/// The number of the record, and whether it is to be set.
fn record_of(request: u32) -> (usize, bool) {
    ((request & !(1 << 31)) as usize, request >> 31 == 1)
}

/// Requests a second over all threads, and the share of gets that found their value.
fn measure(
    handles: &mut [Box<dyn Subject>],
    records: &Records,
    streams: &[Vec<u32>],
    case: Case,
) -> (f64, f64) {
    let start = Instant::now();
    let counts: Vec<(u64, u64)> = thread::scope(|scope| {
        let threads: Vec<_> = handles
            .iter_mut()
            .zip(streams)
            .map(|(handle, stream)| {
                scope.spawn(move || {
                    let counts = work(handle.as_mut(), records, stream, case);
                    handle.rest();
                    counts
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_default())
            .collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let (gets, hits) = counts
        .into_iter()
        .fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    let done = (case.requests * handles.len()) as f64;
    (done / seconds, hits as f64 / gets.max(1) as f64)
}

fn work(subject: &mut dyn Subject, records: &Records, stream: &[u32], case: Case) -> (u64, u64) {
    let Records { keys, value_lens } = records;
    let value = vec![b'w'; VALUE_MAX as usize];
    let mut out = Vec::with_capacity(BURST * VALUE_MAX as usize);
    let (mut gets, mut hits) = (0, 0);
    if case.burst > 1 {
        let mut burst: Vec<Asked<'_>> = Vec::with_capacity(case.burst);
        for requests in stream.chunks(case.burst) {
            burst.clear();
            burst.extend(requests.iter().map(|&request| {
                let (record, is_set) = record_of(request);
                let value = &value[..value_lens[record] as usize];
                Asked {
                    key: &keys[record],
                    value: is_set.then_some(value),
                }
            }));
            out.clear();
            hits += subject.answer_all(&burst, &mut out) as u64;
            gets += burst.iter().filter(|asked| asked.value.is_none()).count() as u64;
        }
        return (gets, hits);
    }
    let fits = case.room >= case.items;
    for &request in stream {
        let (record, is_set) = record_of(request);
        let key = &keys[record];
        let value = &value[..value_lens[record] as usize];
        if is_set {
            subject.set(key, value);
            continue;
        }
        out.clear();
        gets += 1;
        if subject.get(key, &mut out) {
            hits += 1;
        } else if !fits {
            subject.set(key, value);
        }
    }
    (gets, hits)
}
