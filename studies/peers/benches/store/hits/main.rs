//! Hit ratios at equal memory: our store itself beside LRU, SIEVE, S3-FIFO and W-TinyLFU, and
//! beside memcached itself, where that is installed.
//!
//! Every design is charged what it spends on a record besides key and value, and asked the same
//! requests from the same seed; the first half of them warms it and is not counted. Where records
//! are counted, not weighed, the store cannot be asked: there its eviction is simulated.
//!
//! `[--quick] [WORKLOAD]`: fewer requests of fewer workloads; the workload called `WORKLOAD`, or
//! those whose names contain it.
//!
//! `--traces[=DIRECTORY] [--quick] [--learning | --judging] [--no-memcached] [TRACE]`: public
//! traces instead (`traces.rs`), which a person has put into the directory, or into that of the
//! variable `CURTAIL_TRACES`. With `--segments`, the eviction alone, with each of its policies
//! (`segments.rs`).
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark speaks to the terminal"
)]

mod cell;
mod real;
mod segments;
mod traces;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;

use measure::verdict;
use peers::cases::chosen;
use peers::policy::{Lru, Policy, S3Fifo, Sieve, TinyLfu};
use peers::segments::{Segments, Shape};
use peers::trace::catalogue::Role;
use workloads::{CASES, RECORDS, Workload};

const REQUESTS: u32 = 10_000_000;
/// Our store is asked by one worker, and again by so many in turn.
const WORKERS: usize = 8;
/// Shares of all records' own bytes that the memory is.
const FOOTPRINTS: [f64; 5] = [0.01, 0.05, 0.1, 0.25, 0.5];
/// The variable that names the directory of traces.
const TRACES_VARIABLE: &str = "CURTAIL_TRACES";
/// Points of the hit ratio that our store may be below the best of the others.
const TARGET_BELOW: f64 = 0.5;

/// What a design spends on a record: header and index that all need for the same commands (CAS,
/// expiry, flags, lengths), as our store lays them out, and its own order of eviction.
mod overhead {
    pub(super) const COMMON: u32 = 24;
    /// Two links of four bytes in a list.
    pub(super) const LINKS: u32 = 8;
    /// A name of four bytes for each record kept.
    pub(super) const GHOST: u32 = 4;
    /// Four rows of four counters of half a byte.
    pub(super) const SKETCH: u32 = 8;
}

fn main() -> ExitCode {
    match std::env::args().find(|word| word.starts_with("--traces")) {
        Some(word) => replay_traces(word.strip_prefix("--traces=")),
        None => replay_workloads(),
    }
}

/// Measures public traces.
fn replay_traces(directory: Option<&str>) -> ExitCode {
    let has = |wanted: &str| std::env::args().any(|word| word == wanted);
    let variable = std::env::var_os(TRACES_VARIABLE).map(PathBuf::from);
    let Some(directory) = directory.map(PathBuf::from).or(variable) else {
        eprintln!(
            "store-hits: --traces needs a directory: --traces=DIRECTORY or {TRACES_VARIABLE}"
        );
        return ExitCode::FAILURE;
    };
    let wanted = wanted();
    traces::run(&traces::Options {
        directory: &directory,
        wanted: wanted.as_deref(),
        role: match (has("--learning"), has("--judging")) {
            (true, false) => Some(Role::Learning),
            (false, true) => Some(Role::Judging),
            _ => None,
        },
        is_quick: has("--quick"),
        with_memcached: !has("--no-memcached"),
        is_segments: has("--segments"),
    });
    ExitCode::SUCCESS
}

/// The name in the arguments.
fn wanted() -> Option<String> {
    std::env::args()
        .skip(1)
        .find(|word| !word.starts_with("--"))
}

/// Measures the workloads made here.
fn replay_workloads() -> ExitCode {
    let has = |wanted: &str| std::env::args().any(|word| word == wanted);
    let requests = if has("--quick") {
        REQUESTS / 5
    } else {
        REQUESTS
    };
    let wanted = wanted();
    let names = match chosen(&CASES.map(|case| case.name), wanted.as_deref()) {
        Ok(names) => names,
        Err(error) => {
            eprintln!("store-hits: {error}");
            return ExitCode::FAILURE;
        }
    };
    for case in CASES {
        let is_left_out = has("--quick") && wanted.is_none() && !case.is_quick;
        if is_left_out || !names.contains(&case.name) {
            continue;
        }
        let workload = (case.make)(requests);
        println!("\n{}: {} requests", case.name, workload.requests.len());
        table(&workload);
    }
    ExitCode::SUCCESS
}

fn hit_ratio(policy: &mut dyn Policy, workload: &Workload, extra: u32) -> f64 {
    let warm = workload.requests.len() / 2;
    let (mut reads, mut hits) = (0_u32, 0_u32);
    for (number, request) in workload.requests.iter().enumerate() {
        let extra = if workload.is_counted { 0 } else { extra };
        let bytes = workload.lens[request.record as usize] + extra;
        if request.is_write {
            policy.write(request.record, bytes);
            continue;
        }
        let hit = policy.request(request.record, bytes);
        reads += u32::from(number >= warm);
        hits += u32::from(hit && number >= warm);
    }
    f64::from(hits) / f64::from(reads)
}

fn table(workload: &Workload) {
    use overhead::{COMMON, GHOST, LINKS, SKETCH};
    println!(
        "memory      LRU    SIEVE  S3-FIFO  W-TinyLFU     ours   ours - best     policy  {WORKERS:>2} workers  \
         memcached"
    );
    let mut least = Least::default();
    for share in FOOTPRINTS {
        let capacity = workload.capacity(share);
        let records = workload.records();
        let kept = (f64::from(RECORDS) * share) as u32;
        let ratio = |policy: &mut dyn Policy, extra| hit_ratio(policy, workload, COMMON + extra);
        let ratios = [
            ratio(&mut Lru::new(capacity, records), LINKS),
            ratio(&mut Sieve::new(capacity, records), LINKS),
            ratio(&mut S3Fifo::new(capacity, records), LINKS + GHOST),
            ratio(&mut TinyLfu::new(capacity, records, kept), LINKS + SKETCH),
        ];
        let best = ratios.iter().copied().fold(0.0, f64::max);
        let (alone, policy) = ours(workload, capacity, 1);
        // The simulated segments know no workers.
        let together = (!workload.is_counted).then(|| ours(workload, capacity, WORKERS).0);
        // memcached cannot be charged nothing.
        let memcached = (!workload.is_counted)
            .then(|| real::memcached(workload, capacity))
            .flatten();
        Least::note(&mut least.beside_best, Some(alone - best));
        Least::note(&mut least.together, together.map(|ratio| ratio - best));
        Least::note(
            &mut least.beside_memcached,
            memcached.map(|ratio| alone - ratio),
        );
        let together = together.map_or("-".to_owned(), |ratio| format!("{ratio:.4}"));
        println!(
            "{:5.0} %  {:7.4}  {:7.4}  {:7.4}    {:7.4}  {alone:7.4}  {:+5.2} points  {policy:>9}  {together:>10}    {:>7}",
            share * 100.0,
            ratios[0],
            ratios[1],
            ratios[2],
            ratios[3],
            (alone - best) * 100.0,
            memcached.map_or("-".to_owned(), |ratio| format!("{ratio:.4}")),
        );
    }
    least.print(workload.is_counted);
}

/// By how much our hit ratio was above another, where it was so the least.
#[derive(Default)]
struct Least {
    /// One worker, the best of the other designs.
    beside_best: Option<f64>,
    /// All workers, the best of the other designs.
    together: Option<f64>,
    /// One worker, memcached.
    beside_memcached: Option<f64>,
}

impl Least {
    fn note(least: &mut Option<f64>, above: Option<f64>) {
        let Some(above) = above else {
            return;
        };
        // What is not a number stays.
        let is_less = |least: f64| !least.is_nan() && (above.is_nan() || above < least);
        if least.is_none_or(is_less) {
            *least = Some(above);
        }
    }

    fn print(&self, is_counted: bool) {
        let points =
            |above: Option<f64>| above.map_or(String::new(), |by| format!(" ({:+.2})", by * 100.0));
        let best = self.beside_best.map(|by| by * 100.0 >= -TARGET_BELOW);
        let target = format!("target ≤ {TARGET_BELOW} points below the best");
        println!("{}{}", verdict(&target, best), points(self.beside_best));
        if is_counted {
            return;
        }
        println!("  with {WORKERS} workers:{}", points(self.together));
        let memcached = self.beside_memcached.map(|by| by > 0.0);
        let verdict = verdict("target above memcached", memcached);
        println!("{verdict}{}", points(self.beside_memcached));
    }
}

/// The hit ratio of our store in `capacity` bytes, with so many workers, and its eviction policy
/// in the end.
fn ours(workload: &Workload, capacity: u64, workers: usize) -> (f64, String) {
    if workload.is_counted {
        // Here an item is charged its own length only.
        let items = capacity / u64::from(workload.lens[0]);
        let shape = Shape::of_store(capacity, items);
        let mut segments = Segments::new(shape, workload.records(), None);
        let ratio = hit_ratio(&mut segments, workload, overhead::COMMON);
        return (ratio, segments.policy().to_owned());
    }
    match real::Ours::new(capacity, workers) {
        Ok(mut store) => {
            let ratio = hit_ratio(&mut store, workload, 0);
            (ratio, store.eviction_policy().to_owned())
        }
        Err(error) => (f64::NAN, error.to_string()),
    }
}
