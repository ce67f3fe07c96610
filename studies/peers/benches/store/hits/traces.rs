//! Hit ratios of public traces: the store beside the policies, memcached and the optimum.
//!
//! *Memory.* A cell has room for a share of the trace's distinct keys. Items have one length, so
//! that the memory is 512 bytes for each of them, and at least 8 MiB: then the store has a thousand
//! segments, as a large one has, and the items are longer. Traces with sizes are replayed a second
//! time with their own, in a share of the bytes of all their items, where that is enough memory.
//!
//! *Time.* The store counts a read once a second, so a second has to be defined. It is that of the
//! trace, or else a tenth as many requests as items fit: the whole memory is then replaced in ten
//! seconds at the earliest.

use std::path::Path;

use measure::verdict;
use peers::replay::{set_bytes, set_seconds};
use peers::trace::Trace;
use peers::trace::catalogue::{CATALOGUE, Entry, Role};

use crate::FOOTPRINTS;
use crate::cell::{Cell, POINTS, SIMPLE};
use crate::real::KEY_LEN;
use crate::segments::{self, Simulation};

/// Memory for each item of one length.
const ITEM_MEMORY: u64 = 512;
/// Least memory of a cell.
const MEMORY_LEAST: u64 = 8 << 20;
/// Least memory of a cell with the trace's own sizes, which cannot be made longer.
const OWN_MEMORY_LEAST: u64 = 4 << 20;
/// Of the memory for an item, what the store spends on it.
const ITEM_OVERHEAD: u64 = 28;
/// Fewer items than this are no cache: a policy's parts are single items.
const ITEMS_LEAST: u64 = 100;
/// A memory is replaced in at least so many seconds.
const SECONDS: usize = 10;
/// Requests of a trace that are replayed if the measurement is to be quick.
const QUICK_REQUESTS: usize = 500_000;
/// Points of the hit ratio that the store may be below the best of [`SIMPLE`], and memcached.
const TARGET_BELOW: f64 = 1.0;
const TARGET_BELOW_MEMCACHED: f64 = 0.2;

/// What is to be measured.
pub(crate) struct Options<'o> {
    /// Where the traces are.
    pub(crate) directory: &'o Path,
    /// Only traces whose name contains this.
    pub(crate) wanted: Option<&'o str>,
    /// Only traces of this role.
    pub(crate) role: Option<Role>,
    /// Only the first requests of each trace.
    pub(crate) is_quick: bool,
    /// Whether memcached is measured too.
    pub(crate) with_memcached: bool,
    /// Whether the simulated segments are measured instead, where items have one length.
    pub(crate) is_segments: bool,
}

/// A measured cell and what it belongs to.
struct Row {
    entry: Entry,
    share: f64,
    is_own_sizes: bool,
    cell: Cell,
}

/// Measures all wanted traces and prints their tables, then a summary.
pub(crate) fn run(options: &Options<'_>) {
    let mut rows = Vec::new();
    let mut simulations = Vec::new();
    let mut skipped = Vec::new();
    for entry in CATALOGUE {
        let is_wanted = options
            .wanted
            .is_none_or(|wanted| entry.name.contains(wanted));
        if !is_wanted || options.role.is_some_and(|role| role != entry.role) {
            continue;
        }
        match entry.load(options.directory) {
            Ok(Some(trace)) => measure(entry, trace, options, &mut rows, &mut simulations),
            Ok(None) => skipped.push(format!("{}: no file {}", entry.name, entry.path)),
            Err(error) => skipped.push(format!("{}: failed to {error}", entry.name)),
        }
    }
    segments::summarise(&simulations);
    for role in [Role::Learning, Role::Judging] {
        let of_role = |row: &&Row| row.entry.role == role && !row.is_own_sizes;
        summarise(role, &rows.iter().filter(of_role).collect::<Vec<_>>());
    }
    for reason in skipped {
        println!("skipped: {reason}");
    }
}

/// Measures one trace in each memory.
fn measure(
    entry: Entry,
    mut trace: Trace,
    options: &Options<'_>,
    rows: &mut Vec<Row>,
    simulations: &mut Vec<Simulation>,
) {
    if options.is_quick {
        trace.truncate(QUICK_REQUESTS);
    }
    println!(
        "\n{} ({}): {} requests, {} keys, {:.0} % writes",
        entry.name,
        entry.role.name(),
        trace.requests.len(),
        trace.keys,
        trace.write_share() * 100.0
    );
    if options.is_segments {
        Simulation::print_heading();
    } else {
        print_heading();
    }
    let own = trace.clone();
    let mut uniform = trace;
    for share in FOOTPRINTS {
        let items = (f64::from(uniform.keys) * share) as u64;
        if items < ITEMS_LEAST {
            println!("{:5.0} % {items:9}  too few items", share * 100.0);
            continue;
        }
        let memory = (items * ITEM_MEMORY).max(MEMORY_LEAST);
        let bytes = memory / items - ITEM_OVERHEAD;
        set_bytes(&mut uniform, u32::try_from(bytes).unwrap_or(u32::MAX));
        if !own.has_times() {
            set_seconds(&mut uniform, items as usize / SECONDS);
        }
        if !options.is_segments {
            note(entry, share, false, &uniform, memory, options, rows);
            continue;
        }
        match Simulation::measure(&uniform, memory) {
            Ok(simulation) => {
                simulation.print(share);
                simulations.push(simulation);
            }
            Err(error) => println!("{:5.0} %            {error}", share * 100.0),
        }
    }
    if own.has_sizes() && !options.is_segments {
        measure_own(entry, own, options, rows);
    }
}

fn print_heading() {
    println!(
        "                 with as many items as the store                              same memory"
    );
    println!(
        "  size     items    LRU  SIEVE S3-FIFO W-TinyLFU   GDSF optimum   store  - best  policy      - best  memcached  - it"
    );
}

/// Measures a trace with its own sizes.
fn measure_own(entry: Entry, mut trace: Trace, options: &Options<'_>, rows: &mut Vec<Row>) {
    let mut bytes_of = vec![0_u64; trace.keys as usize];
    for request in &mut trace.requests {
        request.bytes = request.bytes.max(KEY_LEN as u32 + 1);
        bytes_of[request.key as usize] = u64::from(request.bytes);
    }
    let total: u64 = bytes_of.iter().sum();
    let mean = (total / u64::from(trace.keys.max(1))).max(1);
    println!("  with its own sizes, {mean} bytes on average (the optimum is then no limit)");
    for share in FOOTPRINTS {
        let memory = (total as f64 * share) as u64;
        if memory < OWN_MEMORY_LEAST {
            println!(
                "{:5.0} % {:9}  too little memory",
                share * 100.0,
                memory / mean
            );
            continue;
        }
        if !trace.has_times() {
            set_seconds(&mut trace, (memory / mean) as usize / SECONDS);
        }
        note(entry, share, true, &trace, memory, options, rows);
    }
}

/// Measures a cell and prints its row.
fn note(
    entry: Entry,
    share: f64,
    is_own_sizes: bool,
    trace: &Trace,
    memory: u64,
    options: &Options<'_>,
    rows: &mut Vec<Row>,
) {
    let has_expiry = trace.requests.iter().any(|request| request.ttl_s > 0);
    let cell = match Cell::measure(trace, memory, options.with_memcached && !has_expiry) {
        Ok(cell) => cell,
        Err(error) => {
            println!("{:5.0} %            {error}", share * 100.0);
            return;
        }
    };
    let [lru, sieve, s3_fifo, tiny_lfu, gdsf] = cell.by_items;
    let memcached = cell
        .memcached
        .map_or("        -      -".to_owned(), |ratio| {
            format!("{ratio:9.4} {:+6.2}", (cell.ours - ratio) * POINTS)
        });
    println!(
        "{:5.0} % {:9} {lru:6.4} {sieve:6.4}  {s3_fifo:6.4}    {tiny_lfu:6.4} {gdsf:6.4}  {:6.4}  {:6.4}  {:+6.2}  {:9}  {:+6.2}  {memcached}",
        share * 100.0,
        cell.items,
        cell.optimum,
        cell.ours,
        (cell.ours - cell.best_by_items()) * POINTS,
        cell.policy,
        (cell.ours - cell.best_by_bytes()) * POINTS,
    );
    rows.push(Row {
        entry,
        share,
        is_own_sizes,
        cell,
    });
}

/// Prints the means over the traces of one role, by size, and whether the targets are met.
fn summarise(role: Role, rows: &[&Row]) {
    if rows.is_empty() {
        return;
    }
    println!(
        "\n{} traces, items of one length, means over the traces",
        role.name()
    );
    println!(
        "  size  traces    LRU  SIEVE S3-FIFO W-TinyLFU   GDSF optimum   store  - best of each   furthest below"
    );
    for share in FOOTPRINTS {
        let of_share: Vec<&Row> = rows
            .iter()
            .copied()
            .filter(|row| row.share == share)
            .collect();
        if of_share.is_empty() {
            continue;
        }
        let mean = |value: &dyn Fn(&Cell) -> f64| {
            of_share.iter().map(|row| value(&row.cell)).sum::<f64>() / of_share.len() as f64
        };
        let [lru, sieve, s3_fifo, tiny_lfu, gdsf] =
            std::array::from_fn(|at| mean(&|cell| cell.by_items[at]));
        let worst = of_share
            .iter()
            .copied()
            .min_by(|a, b| above(a).total_cmp(&above(b)));
        println!(
            "{:5.0} % {:7} {lru:6.4} {sieve:6.4}  {s3_fifo:6.4}    {tiny_lfu:6.4} {gdsf:6.4}  {:6.4}  {:6.4}  {:+14.2}   {}",
            share * 100.0,
            of_share.len(),
            mean(&|cell| cell.optimum),
            mean(&|cell| cell.ours),
            mean(&|cell| cell.ours - cell.best_by_items()) * POINTS,
            worst.map_or(String::new(), |row| format!(
                "{:+.2} {}",
                above(row),
                row.entry.name
            )),
        );
    }
    judge(rows);
}

/// Points of a row's store above the best simple policy.
fn above(row: &Row) -> f64 {
    (row.cell.ours - row.cell.best_by_items()) * POINTS
}

/// Prints whether the targets are met.
fn judge(rows: &[&Row]) {
    let below = rows.iter().filter(|row| above(row) < -TARGET_BELOW).count();
    let target = format!(
        "target ≤ {TARGET_BELOW} points below the best of {}",
        SIMPLE.join(", ")
    );
    println!(
        "{} ({below} of {} cells below)",
        verdict(&target, Some(below == 0)),
        rows.len()
    );
    let beside: Vec<f64> = rows
        .iter()
        .filter_map(|row| Some((row.cell.ours - row.cell.memcached?) * POINTS))
        .collect();
    let below = beside
        .iter()
        .filter(|&&by| by < -TARGET_BELOW_MEMCACHED)
        .count();
    let target = format!("target ≤ {TARGET_BELOW_MEMCACHED} points below memcached");
    let reached = (!beside.is_empty()).then_some(below == 0);
    println!(
        "{} ({below} of {} cells below)",
        verdict(&target, reached),
        beside.len()
    );
}
