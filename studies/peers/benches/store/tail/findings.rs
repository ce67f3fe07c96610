//! What was found out about operations that were run on each of three stores.

use std::time::Duration;

use measure::verdict;

use crate::replicas::{KINDS, REPLICAS, Run};
use crate::times::{SHARES, SLOW_US, Slow, Times};

/// The slowest that are looked at once more.
const SLOWEST: usize = 100;
/// The slowest that are told one by one.
const TOLD: usize = 10;
/// Below so many microseconds shall be all but one operation in ten thousand.
const TARGET_SHARE: f64 = 0.9999;
const TARGET_US: f64 = 20.0;
/// And all of them.
const TARGET_MOST_US: f64 = 100.0;

/// Everything that was found.
pub(crate) struct Findings {
    /// Operations so far.
    count: u64,
    /// The least of the three times, the one in the middle, and that of the first store.
    least: Times,
    middle: Times,
    first: Times,
    /// For each of [`SLOW_US`], operations that took so long on one store alone, on two, on all.
    slow: [[u64; REPLICAS]; SLOW_US.len()],
    kinds: [OfKind; KINDS.len()],
    /// By their least times, the slowest first.
    slowest: Vec<Slowest>,
    /// Places in the runs so far, with and without an operation; and in the second run.
    places: usize,
    places_again: usize,
    /// The least times of operations that were not the same on all stores.
    differing: Times,
}

#[derive(Default)]
struct OfKind {
    slow: Slow,
    most: Duration,
}

/// An operation as it was on each store.
struct Slowest {
    number: u64,
    /// The same in every run, whatever comes of the operations before it.
    place: usize,
    runs: [Run; REPLICAS],
    /// The least of the second run, if that did the same.
    again: Option<Duration>,
}

impl Slowest {
    fn least(&self) -> Duration {
        least(&self.runs)
    }

    /// Of both runs.
    fn least_of_all(&self) -> Duration {
        self.again
            .map_or(self.least(), |again| again.min(self.least()))
    }
}

fn least(runs: &[Run]) -> Duration {
    runs.iter().map(Run::time).min().unwrap_or_default()
}

impl Findings {
    pub(crate) fn new() -> Self {
        Self {
            count: 0,
            least: Times::new(),
            middle: Times::new(),
            first: Times::new(),
            slow: Default::default(),
            kinds: Default::default(),
            slowest: Vec::with_capacity(SLOWEST + 1),
            places: 0,
            places_again: 0,
            differing: Times::new(),
        }
    }

    /// Adds operations as they were on each store.
    pub(crate) fn add(&mut self, runs: [&[Option<Run>]; REPLICAS]) {
        // Each has a place for whatever may be called for: nothing is left out at the end.
        assert!(runs.iter().all(|it| it.len() == runs[0].len()));
        for ((&first, &second), &third) in runs[0].iter().zip(runs[1]).zip(runs[2]) {
            self.places += 1;
            match (first, second, third) {
                (None, None, None) => continue,
                (Some(first), Some(second), Some(third))
                    if is_same(&first, &second) && is_same(&first, &third) =>
                {
                    self.compare([first, second, third]);
                }
                some => {
                    let runs = [some.0, some.1, some.2];
                    let runs: Vec<Run> = runs.into_iter().flatten().collect();
                    self.differing.add(least(&runs));
                }
            }
            self.count += 1;
        }
    }

    fn compare(&mut self, runs: [Run; REPLICAS]) {
        let mut times = runs.map(|run| run.time());
        self.first.add(times[0]);
        times.sort_unstable();
        let [least, middle, most] = times;
        self.least.add(least);
        self.middle.add(middle);
        let kind = &mut self.kinds[runs[0].kind as usize];
        kind.slow.add(least);
        kind.most = kind.most.max(least);
        if most >= Duration::from_micros(SLOW_US[0]) {
            self.count_slow(times);
        }
        if self.slowest.len() < SLOWEST || self.slowest.last().is_some_and(|it| it.least() < least)
        {
            self.keep(runs);
        }
    }

    /// Counts on how many stores an operation was slow: `times` are sorted.
    fn count_slow(&mut self, times: [Duration; REPLICAS]) {
        for (counts, us) in self.slow.iter_mut().zip(SLOW_US) {
            let fast = times.partition_point(|&time| time < Duration::from_micros(us));
            if fast < REPLICAS {
                counts[REPLICAS - fast - 1] += 1;
            }
        }
    }

    #[cold]
    fn keep(&mut self, runs: [Run; REPLICAS]) {
        let kept = Slowest {
            number: self.count,
            place: self.places - 1,
            runs,
            again: None,
        };
        let at = self
            .slowest
            .partition_point(|other| other.least() >= kept.least());
        self.slowest.insert(at, kept);
        self.slowest.truncate(SLOWEST);
    }

    /// Adds operations of a second run, in which the first is done once more: what is slow for a
    /// reason of its own is slow again. Returns whether there are more to look at.
    pub(crate) fn add_again(&mut self, runs: [&[Option<Run>]; REPLICAS]) -> bool {
        let begin = self.places_again;
        self.places_again += runs[0].len();
        for slowest in &mut self.slowest {
            let Some(at) = slowest.place.checked_sub(begin) else {
                continue;
            };
            let [Some(&Some(first)), Some(&Some(second)), Some(&Some(third))] =
                runs.map(|runs| runs.get(at))
            else {
                continue;
            };
            let runs = [first, second, third];
            if runs.iter().all(|run| is_same(run, &slowest.runs[0])) {
                slowest.again = Some(least(&runs));
            }
        }
        let ended = self.places_again;
        self.slowest.iter().any(|slowest| slowest.place >= ended)
    }

    pub(crate) fn print(mut self) {
        println!("{} operations", self.count);
        println!(
            "{} of them not the same on all stores, and left out below: {:.1} us at most\n",
            self.differing.count,
            microseconds(self.differing.most)
        );
        println!("us              the least   the middle one    the first store's");
        for share in SHARES {
            println!(
                "  p{:<8.3} {:>13.1}  {:>15.1}  {:>19.1}",
                share * 100.0,
                self.least.percentile(share),
                self.middle.percentile(share),
                self.first.percentile(share)
            );
        }
        println!(
            "  max       {:>13.1}  {:>15.1}  {:>19.1}",
            microseconds(self.least.most),
            microseconds(self.middle.most),
            microseconds(self.first.most)
        );
        println!("\nslow operations      on one store alone      on two    on all three");
        for ([one, two, all], us) in self.slow.iter().zip(SLOW_US) {
            println!("  {us:>5} us or more {one:>20}  {two:>10}  {all:>14}");
        }
        self.print_kinds();
        self.print_slowest();
        // Whatever is not among them took no longer than the last of them in the first run.
        let rest = self.slowest.get(SLOWEST - 1).map(Slowest::least);
        let most = self.slowest.iter().map(Slowest::least_of_all).chain(rest);
        let most_us = microseconds(most.max().unwrap_or(self.least.most));
        let share_us = self.least.percentile(TARGET_SHARE);
        let share = TARGET_SHARE * 100.0;
        println!("\ntargets, of the least (the maximum: of both runs):");
        for (name, us, below) in [
            (format!("p{share}"), share_us, TARGET_US),
            ("maximum".to_owned(), most_us, TARGET_MOST_US),
        ] {
            let verdict = verdict(&format!("{name} < {below} us"), Some(us < below));
            println!("  {verdict} ({us:.1} us)");
        }
    }

    fn print_kinds(&self) {
        println!(
            "\nslow on all three    operations{}    most us",
            slow_names()
        );
        for (name, kind) in KINDS.iter().zip(&self.kinds) {
            let counts = kind.slow.counts.map(|count| format!("{count:>11}"));
            println!(
                "  {name:<16} {:>12}{} {:>10.1}",
                kind.slow.turns,
                counts.concat(),
                microseconds(kind.most)
            );
        }
    }

    fn print_slowest(&self) {
        println!(
            "\nthe slowest              us on each store    again   visits    bytes   page faults   number"
        );
        for slowest in self.slowest.iter().take(TOLD) {
            let [first, ..] = &slowest.runs;
            let times = slowest
                .runs
                .map(|run| format!("{:>8.1}", microseconds(run.time())));
            let again = slowest
                .again
                .map_or("-".to_owned(), |time| format!("{:.1}", microseconds(time)));
            let faults = slowest.runs.map(|run| format!("{:>4}", run.faults));
            println!(
                "  {:<16}{} {again:>8}   {:>6} {:>8}  {}   {}",
                KINDS[first.kind as usize],
                times.concat(),
                first.visits,
                first.bytes,
                faults.concat(),
                slowest.number
            );
        }
    }
}

/// Whether an operation did the same on two stores.
fn is_same(one: &Run, other: &Run) -> bool {
    let did = |run: &Run| (run.kind, run.outcome, run.bytes, run.visits);
    did(one) == did(other)
}

fn slow_names() -> String {
    SLOW_US
        .map(|us| format!("{:>11}", format!("{us} us")))
        .concat()
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
