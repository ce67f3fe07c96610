//! What the slowest operations of the store take: visits for each, and time, while items of all
//! sizes come and go in a memory that is nine tenths full, the index grows, and the limit moves.
//! One thread works, another tends, as in the server.
//!
//! `[--quick]`: twenty seconds instead of ten minutes. Two kinds of operations are listed apart:
//! those during which the kernel took the processor away (`nonvoluntary_ctxt_switches`), and those
//! that began when the timer ticks, whatever they took. It ticks at equal distances, and an empty
//! loop, run in turns with the operations, shows at which moments: there most of its interruptions
//! are. What a hypervisor takes at other moments cannot be told from the store's own time and stays
//! in; the empty loop says how much of it there is.
#![allow(clippy::print_stdout, reason = "a benchmark speaks to the terminal")]

use std::collections::VecDeque;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rivals::ours::set;
use store::{Config, Expiry, Read, Store, Worker};
use workload::{Law, Picker, Popularity, Purpose, SizeLaw, Stream};

const MEMORY: u64 = 256 << 20;
const RECORDS: u32 = 1_000_000;
const VALUE_MAX: u32 = 8_000;
/// Microseconds up to which times are counted one by one, in tenths.
const FINE_US: usize = 200;
/// Microseconds beyond which times are counted, and compared with an empty loop's.
const SLOW_US: [u64; 5] = [10, 20, 50, 100, 1000];
/// Rounds of operations between two turns of the empty loop.
const ROUNDS: u64 = 8;
/// The timer's period: that of most kernels, and a multiple of most others'.
const PERIOD_NS: u64 = 4_000_000;
/// Parts of it that are told apart.
const PARTS: usize = 40;
/// Where an empty loop is interrupted more often than so many times as in the middle one of all
/// parts, the timer ticks.
const TICKING: usize = 4;
/// Parts at most: where more seem to tick, nothing can be told.
const TICKING_MAX: usize = PARTS / 4;
/// Interruptions of the empty loop that are remembered.
const REMEMBERED: usize = 2_000;
/// Shorter ones than this are none.
const INTERRUPTION: Duration = Duration::from_micros(10);

fn main() {
    let quick = std::env::args().any(|word| word == "--quick");
    let seconds = if quick { 20 } else { 600 };
    let Ok(store) = Store::new(Config {
        memory_bytes: MEMORY,
        memory_max: 2 * MEMORY,
        hash_seed: 7,
        ..Config::DEFAULT
    }) else {
        println!("no memory");
        return;
    };
    let done = AtomicBool::new(false);
    println!(
        "{seconds} s of churn in {} MiB, {RECORDS} records of ETC values\n",
        MEMORY >> 20
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if store.wants_tending() {
                    store.tend();
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let mut churn = Churn::new(store.worker());
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut round = 0;
        let mut floor = Slow::default();
        let mut ticks = Ticks::new();
        floor.spin(Duration::from_millis(500), &mut ticks);
        while Instant::now() < end {
            let start = Instant::now();
            churn.run(100_000, &ticks);
            churn.slow.lasted += start.elapsed();
            round += 1;
            if round % ROUNDS == 0 {
                floor.spin(start.elapsed() * ROUNDS as u32 / 4, &mut ticks);
            }
            // Up and down by a quarter, a few times a second.
            let limit = MEMORY + MEMORY / 4 * (round / 8 % 2);
            if store.set_limit(limit).is_err() {
                println!("the limit cannot be {limit}");
            }
        }
        done.store(true, Ordering::Relaxed);
        let parts = ticks.parts();
        println!("the timer ticks in {parts} of {PARTS} parts of each 4 ms\n");
        let slow = churn.tell();
        tell_floor(&slow, &floor);
    });
    let statistics = store.statistics();
    println!(
        "\n{} evicted, {} expired, {} blocks copied, {} segments drained, {} waits, {} displaced",
        statistics.evicted,
        statistics.expired,
        statistics.copied,
        statistics.drained,
        statistics.waits,
        statistics.displaced
    );
}

/// Times in tenths of microseconds, and those beyond.
struct Times {
    fine: Vec<u64>,
    beyond: Vec<u64>,
    count: u64,
    most: Duration,
}

impl Times {
    fn new() -> Self {
        Self {
            fine: vec![0; FINE_US * 10],
            beyond: Vec::new(),
            count: 0,
            most: Duration::ZERO,
        }
    }

    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.most = self.most.max(time);
        let ns = time.as_nanos() as u64;
        match self.fine.get_mut((ns / 100) as usize) {
            Some(count) => *count += 1,
            None => self.beyond.push(ns),
        }
    }

    /// The time below which this share lies, in microseconds.
    fn percentile(&mut self, share: f64) -> f64 {
        self.beyond.sort_unstable();
        let wanted = (share * self.count as f64) as u64;
        let mut sum = 0;
        for (at, count) in self.fine.iter().enumerate() {
            sum += count;
            if sum > wanted {
                return (at + 1) as f64 / 10.0;
            }
        }
        let at = (wanted - sum.min(wanted)) as usize;
        self.beyond
            .get(at)
            .or(self.beyond.last())
            .map_or(0.0, |&ns| ns as f64 / 1e3)
    }
}

/// Times beyond each of [`SLOW_US`].
#[derive(Default)]
struct Slow {
    counts: [u64; SLOW_US.len()],
    turns: u64,
    lasted: Duration,
}

impl Slow {
    fn add(&mut self, time: Duration) {
        self.turns += 1;
        for (count, us) in self.counts.iter_mut().zip(SLOW_US) {
            *count += u64::from(time.as_micros() >= u128::from(us));
        }
    }

    /// Looks at the clock, and does nothing else.
    fn spin(&mut self, lasting: Duration, ticks: &mut Ticks) {
        let start = Instant::now();
        let mut last = start;
        while last - start < lasting {
            let now = Instant::now();
            self.add(now - last);
            if now - last >= INTERRUPTION {
                ticks.remember(last);
            }
            last = now;
        }
        self.lasted += last - start;
        ticks.learn();
    }
}

/// At which moments the machine interrupts whoever runs.
struct Ticks {
    base: Instant,
    /// Parts of the period in which interruptions of the empty loop began, the latest last.
    seen: VecDeque<usize>,
    ticking: [bool; PARTS],
}

impl Ticks {
    fn new() -> Self {
        Self {
            base: Instant::now(),
            seen: VecDeque::new(),
            ticking: [false; PARTS],
        }
    }

    fn part(&self, at: Instant) -> usize {
        let ns = (at - self.base).as_nanos() as u64 % PERIOD_NS;
        (ns * PARTS as u64 / PERIOD_NS) as usize
    }

    fn remember(&mut self, at: Instant) {
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(self.part(at));
    }

    fn learn(&mut self) {
        let mut counts = [0; PARTS];
        self.seen.iter().for_each(|&part| counts[part] += 1);
        let mut sorted = counts;
        sorted.sort_unstable();
        let usual = sorted[PARTS / 2].max(1);
        self.ticking = counts.map(|count| count > TICKING * usual);
        if self.parts() > TICKING_MAX {
            self.ticking = [false; PARTS];
        }
    }

    /// Parts of the period that are apart.
    fn parts(&self) -> usize {
        self.ticking.iter().filter(|ticking| **ticking).count()
    }

    /// Whether the machine is likely to interrupt what begins now.
    fn is_due(&self, at: Instant) -> bool {
        self.ticking[self.part(at)]
    }
}

/// What the machine took from the operations, by what it took from an empty loop meanwhile.
fn tell_floor(operations: &Slow, floor: &Slow) {
    println!("\nslow ones a second      operations   an empty loop   the rest, of all operations");
    let each = |slow: &Slow, at: usize| slow.counts[at] as f64 / slow.lasted.as_secs_f64();
    for (at, us) in SLOW_US.iter().enumerate() {
        let (ours, empty) = (each(operations, at), each(floor, at));
        let rest = (ours - empty).max(0.0) * operations.lasted.as_secs_f64();
        println!(
            "  {us:>5} us or more  {ours:>12.1}  {empty:>14.1}   {:>12.5} %",
            rest / operations.turns as f64 * 100.0
        );
    }
}

struct Churn {
    worker: Worker,
    picker: Picker,
    sizes: SizeLaw,
    stream: Stream,
    value: Vec<u8>,
    out: Vec<u8>,
    now_s: u32,
    switches: u64,
    times: Times,
    interrupted: Times,
    ticked: Times,
    slow: Slow,
    /// Operations by visits, in powers of two; the last is of more than 64.
    visits: [u64; 9],
    most_visits: u64,
}

impl Churn {
    fn new(worker: Worker) -> Self {
        let popularity = "zipf:0.9".parse().unwrap_or(Popularity::Uniform);
        Self {
            worker,
            picker: Picker::new(popularity, u64::from(RECORDS), 1),
            sizes: SizeLaw::new(
                "fb_value".parse().unwrap_or(Law::Fixed(329.0)),
                1,
                VALUE_MAX,
            ),
            stream: Stream::new(5, Purpose::Other, 0),
            value: vec![b'v'; VALUE_MAX as usize],
            out: Vec::with_capacity(VALUE_MAX as usize),
            now_s: 1,
            switches: switches(),
            times: Times::new(),
            interrupted: Times::new(),
            ticked: Times::new(),
            slow: Slow::default(),
            visits: [0; 9],
            most_visits: 0,
        }
    }

    fn run(&mut self, count: usize, ticks: &Ticks) {
        for _ in 0..count {
            let record = self.picker.draw(&mut self.stream);
            let key = record.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            let len = self.sizes.len_of(self.stream.next_u64()) as usize;
            let kind = self.stream.below(100);
            let before = self.worker.visits();
            let start = Instant::now();
            self.operate(&key, len, kind);
            let time = start.elapsed();
            self.count(time, ticks.is_due(start), self.worker.visits() - before);
            self.worker.quiescent();
        }
        self.now_s += 1;
        while self.worker.maintain(self.now_s, 32) {
            self.worker.quiescent();
        }
    }

    /// Gets, sets where nothing is found, and some of everything else.
    fn operate(&mut self, key: &[u8], len: usize, kind: u64) {
        let hash = self.worker.hash(key);
        match kind {
            0..80 => {
                self.out.clear();
                let out = &mut self.out;
                let read = self
                    .worker
                    .read(key, hash, self.now_s, Read::default(), |item| {
                        item.value().for_each(|piece| out.extend_from_slice(piece));
                        Some(())
                    });
                if read.is_err() {
                    set(
                        &self.worker,
                        key,
                        &self.value[..len],
                        Expiry::NEVER,
                        self.now_s,
                    );
                }
            }
            80..95 => {
                let expiry = Expiry::at(self.now_s + 1 + len as u32 % 100);
                set(&self.worker, key, &self.value[..len], expiry, self.now_s);
            }
            _ => {
                self.worker.delete(key, hash, None, self.now_s);
            }
        }
    }

    fn count(&mut self, time: Duration, is_tick_due: bool, visits: u64) {
        self.slow.add(time);
        let slow = time > Duration::from_micros(20);
        let switches = if slow { switches() } else { self.switches };
        if switches != self.switches {
            self.switches = switches;
            self.interrupted.add(time);
        } else if is_tick_due {
            self.ticked.add(time);
        } else {
            self.times.add(time);
        }
        let class = if visits > 64 {
            8
        } else {
            (u64::BITS - visits.leading_zeros()) as usize
        };
        self.visits[class] += 1;
        self.most_visits = self.most_visits.max(visits);
    }

    fn tell(mut self) -> Slow {
        println!("visits beside what an operation names");
        let names = [
            "0", "1", "2-3", "4-7", "8-15", "16-31", "32-63", "64", "more",
        ];
        for (name, count) in names.iter().zip(self.visits) {
            println!("  {name:<6} {count:>12}");
        }
        println!("  most   {:>12}\n", self.most_visits);
        let apart = [
            ("operations", &mut self.times),
            ("apart: begun when the timer ticks", &mut self.ticked),
            ("apart: the processor was taken away", &mut self.interrupted),
        ];
        for (name, times) in apart {
            println!("{name}: {}", times.count);
            for share in [0.5, 0.99, 0.999, 0.9999, 0.99999] {
                println!(
                    "  p{:<8.3} {:>10.1} us",
                    share * 100.0,
                    times.percentile(share)
                );
            }
            println!("  max       {:>10.1} us", times.most.as_secs_f64() * 1e6);
        }
        self.slow
    }
}

/// How often the kernel has taken the processor from this thread.
fn switches() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or_default()
}
