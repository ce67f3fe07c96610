//! Lines of the grid of delays and speeds, and what a knob saves on them.
//!
//! A point counts if its p99 is below the objective. What a knob saves on a line is the energy at
//! its fastest point that counts, less that at its slowest one. A line counts if two of its points
//! do; *longest delay* and *lowest speed* are the outermost lines that count.

use std::collections::BTreeMap;

use super::published::OBJECTIVE_US;
use super::{Machine, Setting, Simulated, System, law, simulate};

/// The delays of the study, microseconds.
pub const DELAYS_US: [f64; 11] = [
    2.0, 4.0, 10.0, 20.0, 30.0, 40.0, 50.0, 100.0, 200.0, 300.0, 400.0,
];

/// Its speeds: 1.2 to 2.9 GHz in steps of 0.1.
#[must_use]
pub fn speeds_ghz() -> Vec<f64> {
    (12..=29).map(|it| f64::from(it) / 10.0).collect()
}

/// What is simulated at each point.
#[derive(Debug, Clone)]
pub struct Load<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The software.
    pub system: &'a System,
    /// Offered rate.
    pub rate_rps: f64,
    /// Requests of one simulation.
    pub requests: usize,
    /// Seed of all of them.
    pub seed: u64,
}

/// A grid whose points are simulated when they are first needed.
pub struct Grid<'a> {
    load: Load<'a>,
    speeds_ghz: Vec<f64>,
    points: BTreeMap<(usize, usize), Simulated>,
}

/// The ends of a line: indices of delay and speed of its fastest and its slowest point.
type Ends = [(usize, usize); 2];

/// The four lines of a box, in the order of [`super::published::NAMES`]. None: no line counts.
pub type Lines = [Option<Ends>; 4];

impl<'a> Grid<'a> {
    /// Nothing is simulated yet.
    #[must_use]
    pub fn new(load: Load<'a>) -> Self {
        Self {
            load,
            speeds_ghz: speeds_ghz(),
            points: BTreeMap::new(),
        }
    }

    /// The setting of a point.
    #[must_use]
    pub fn setting(&self, (delay, speed): (usize, usize)) -> Setting {
        Setting::new(DELAYS_US[delay], self.speeds_ghz[speed])
    }

    /// What a simulation of a point found.
    pub fn point(&mut self, at: (usize, usize)) -> &Simulated {
        let setting = self.setting(at);
        let load = &self.load;
        self.points.entry(at).or_insert_with(|| {
            let Load {
                machine, system, ..
            } = *load;
            simulate(
                machine,
                system,
                setting,
                load.rate_rps,
                load.requests,
                load.seed,
            )
        })
    }

    /// Whether p99 is below the objective.
    pub fn counts(&mut self, at: (usize, usize)) -> bool {
        self.point(at).keeps(OBJECTIVE_US)
    }

    /// The outermost lines that count.
    pub fn lines(&mut self) -> Lines {
        let (delays, speeds) = (DELAYS_US.len(), self.speeds_ghz.len());
        let slow_delay = (0..delays).rev().find_map(|it| self.speed_line(it));
        let fast_delay = (0..delays).find_map(|it| self.speed_line(it));
        let slow_speed = (0..speeds).find_map(|it| self.delay_line(it));
        let fast_speed = (0..speeds).rev().find_map(|it| self.delay_line(it));
        [slow_delay, fast_delay, slow_speed, fast_speed]
    }

    /// All speeds at a delay. A slower core only waits longer, so the lowest speed that counts is
    /// found by bisection.
    fn speed_line(&mut self, delay: usize) -> Option<Ends> {
        let fastest = self.speeds_ghz.len() - 1;
        if !self.counts((delay, fastest)) {
            return None;
        }
        let (mut low, mut high) = (0, fastest);
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.counts((delay, middle)) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        (high < fastest).then_some([(delay, fastest), (delay, high)])
    }

    /// All delays at a speed.
    fn delay_line(&mut self, speed: usize) -> Option<Ends> {
        let all = || 0..DELAYS_US.len();
        let shortest = all().find(|&it| self.counts((it, speed)))?;
        let longest = all().rev().find(|&it| self.counts((it, speed)))?;
        (shortest < longest).then_some([(shortest, speed), (longest, speed)])
    }

    /// The difference of the law's terms between the ends of a line: active, halted, ring.
    pub(super) fn difference(&mut self, ends: Ends, exponents: (f64, f64)) -> [f64; 3] {
        let machine = self.load.machine;
        let [fast, slow] = ends.map(|at| {
            let speed_ghz = self.setting(at).speed_ghz;
            law::terms(machine, exponents, speed_ghz, self.point(at))
        });
        std::array::from_fn(|it| (fast[it] - slow[it]) * machine.run_s)
    }
}
