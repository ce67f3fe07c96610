//! One thread works, another tends, as in the server.
//!
//! Two kinds of operations are listed apart: those during which the kernel took the processor away
//! (`nonvoluntary_ctxt_switches`), and those that began when the timer ticks, whatever they took.
//! It ticks at equal distances, and an empty loop, run in turns with the operations, shows at which
//! moments: there most of its interruptions are. What a hypervisor takes at other moments cannot be
//! told from the store's own time and stays in; the empty loop says how much of it there is.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use measure::verdict;
use store::{PageMaintenance, PageStep, Store, Worker};

use crate::requests::{Client, RECORDS, Request, Requests, Wish};
use crate::ticks::{PARTS, Ticks};
use crate::times::{SHARES, SLOW_US, Slow, Times};
use crate::{CONFIG, MEMORY};

/// Rounds of operations between two turns of the empty loop.
const ROUNDS: u64 = 8;
/// Visits that an operation may make beside what it names.
const VISITS_MOST: u64 = 64;

/// Churns for so many seconds.
pub(crate) fn print(seconds: u64) {
    let Ok(store) = Store::new(CONFIG) else {
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
            let mut tender = PageMaintenance::new(&store);
            let mut has_more = true;
            while !done.load(Ordering::Relaxed) {
                if has_more || store.needs_page_maintenance() {
                    has_more = tender.step() != PageStep::Nothing;
                }
                thread::sleep(Duration::from_micros(250));
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
        statistics.evacuated,
        statistics.waits,
        statistics.evicted_index_full
    );
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
    client: Client,
    requests: Requests,
    switches: u64,
    times: Times,
    interrupted: Times,
    ticked: Times,
    slow: Slow,
    /// Operations by visits, in powers of two; the last is of more than there may be.
    visits: [u64; 9],
    most_visits: u64,
}

impl Churn {
    fn new(worker: Worker) -> Self {
        Self {
            client: Client::new(worker),
            requests: Requests::new(),
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
            let request = self.requests.draw();
            let before = self.client.worker.visits();
            let start = Instant::now();
            self.operate(&request);
            let time = start.elapsed();
            let visits = self.client.worker.visits() - before;
            self.count(time, ticks.is_due(start), visits);
            self.client.worker.quiescent();
        }
        self.client.now_s += 1;
        while self.client.worker.maintain(self.client.now_s, 32) {
            self.client.worker.quiescent();
        }
    }

    fn operate(&mut self, request: &Request) {
        // What is refused is not there afterwards, as in every cache.
        match request.wish {
            Wish::Get => {
                if self.client.get(request).is_err() {
                    let _ = self.client.set_missed(request);
                }
            }
            Wish::Set => {
                let _ = self.client.set(request);
            }
            Wish::Delete => {
                self.client.delete(request);
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
        let class = if visits > VISITS_MOST {
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
        println!("  most   {:>12}", self.most_visits);
        let target = format!("target ≤ {VISITS_MOST} visits");
        let is_reached = self.most_visits <= VISITS_MOST;
        println!("  {}\n", verdict(&target, Some(is_reached)));
        let apart = [
            ("operations", &mut self.times),
            ("apart: begun when the timer ticks", &mut self.ticked),
            ("apart: the processor was taken away", &mut self.interrupted),
        ];
        for (name, times) in apart {
            println!("{name}: {}", times.count);
            for share in SHARES {
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
