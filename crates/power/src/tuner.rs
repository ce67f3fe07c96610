//! The search for the setting with the least energy whose p99 keeps an objective.
//!
//! Bayesian optimisation over the points of a grid, after BayOp (arXiv 2502.14987): a trial has a
//! reward of energy × max(p99 − objective + 1, 1), and a trial whose objective is kept has its
//! energy. What is added is safety: two Gaussian processes, of power and of p99, and only points
//! are tried whose p99 is below the objective by a margin ([`Limits`]); a trial ends with the first
//! window that breaks the objective.
//!
//! | file | concept |
//! |---|---|
//! | `gaussian.rs` | regression by a Gaussian process |
//! | `rival.rs` | what it is compared with: default, race to idle, pace to idle, exhaustive |
//! | `bench.rs` | the tuner on the model with noise, over many seeds |
//! | `noise.rs` | the noise of a window |
//! | `trace.rs` | the load of a day |
//! | `surface.rs` | power and p99 of every setting at any rate |
//! | `day.rs` | an hour of a day under a controller, the tuner or another |

pub mod bench;
pub mod day;
mod gaussian;
mod noise;
pub mod rival;
pub mod surface;
pub mod trace;

use self::gaussian::{Gaussian, Kernel, Observation};
use crate::model::sweep::{DELAYS_US, speeds_ghz};
use crate::model::{Law, Machine, Setting, Simulated};

/// The points that may be set, first the knob of delay, then that of speed.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    /// Ascending.
    pub delays_us: Vec<f64>,
    /// Ascending.
    pub speeds_ghz: Vec<f64>,
}

impl Space {
    /// The delays and speeds of the study.
    #[must_use]
    pub fn study() -> Self {
        Self {
            delays_us: DELAYS_US.to_vec(),
            speeds_ghz: speeds_ghz(),
        }
    }
}

/// What a search must keep, and how careful it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// p99 of a window must be below this.
    pub objective_us: f64,
    /// Trials.
    pub trials: usize,
    /// Windows of a trial that is not ended early.
    pub windows: usize,
    /// Standard deviation of the logarithm of a window's p99, and of its power.
    pub noise: (f64, f64),
    /// Standard deviations of the estimate, and of a window, that p99 must be below the objective.
    pub margins: (f64, f64),
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            objective_us: 500.0,
            trials: 30,
            windows: 20,
            noise: (0.02, 0.01),
            margins: (2.0, 2.0),
        }
    }
}

impl Limits {
    /// What p99 must be below for a window to keep the objective by its margin, microseconds.
    #[must_use]
    pub fn bound_us(&self) -> f64 {
        self.objective_us * libm::exp(-self.window_margin())
    }

    /// The margin of a window, in the logarithm of p99.
    fn window_margin(&self) -> f64 {
        self.margins.1 * self.noise.0
    }
}

/// A window of a trial, one second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Mean power.
    pub power_w: f64,
    /// Response time at the 99th percentile.
    pub p99_us: f64,
}

impl Window {
    /// The true values of a simulation at a speed. Without a response, no objective is kept.
    fn simulated(machine: &Machine, law: &Law, speed_ghz: f64, found: &Simulated) -> Self {
        Self {
            power_w: law.power_w(machine, speed_ghz, found),
            p99_us: match found.latency.is_empty() {
                true => f64::MAX,
                false => found.p99_us(),
            },
        }
    }
}

/// A trial, and what its windows had in the mean of logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Indices of delay and speed.
    pub at: (usize, usize),
    /// Mean power.
    pub power_w: f64,
    /// p99.
    pub p99_us: f64,
    /// Windows that it had.
    pub windows: usize,
    /// Windows that broke the objective.
    pub broken: usize,
}

impl Trial {
    /// The published reward, which is to be small.
    #[must_use]
    pub fn reward(&self, objective_us: f64) -> f64 {
        self.power_w * (self.p99_us - objective_us + 1.0).max(1.0)
    }
}

/// A search: the trials so far.
#[derive(Debug, Clone)]
pub struct Tuner {
    space: Space,
    limits: Limits,
    trials: Vec<Trial>,
}

impl Tuner {
    /// Begins. The first trial is the shortest delay at the highest speed, which is taken to be
    /// safe: if it is not, no setting is.
    #[must_use]
    pub fn new(space: Space, limits: Limits) -> Self {
        Self {
            space,
            limits,
            trials: Vec::new(),
        }
    }

    /// The trials so far.
    #[must_use]
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The setting of a point.
    #[must_use]
    pub fn setting(&self, (delay, speed): (usize, usize)) -> Setting {
        Setting::new(self.space.delays_us[delay], self.space.speeds_ghz[speed])
    }

    /// The point to try next: of those that are safe, the one with the lowest bound of power. None:
    /// all trials were made.
    #[must_use]
    pub fn propose(&self) -> Option<(usize, usize)> {
        if self.trials.len() >= self.limits.trials {
            return None;
        }
        if self.trials.is_empty() {
            return Some(self.first());
        }
        let (tail, power) = (self.tail(), self.power());
        let safe = self
            .points()
            .filter(|&at| self.is_safe(&tail, at, self.limits.margins.0));
        let bound = |at: (usize, usize)| {
            let (mean, deviation) = power.predict(self.place(at));
            mean - 2.0 * deviation
        };
        let best = safe
            .map(|at| (bound(at), at))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        Some(best.map_or(self.first(), |it| it.1))
    }

    /// Makes a trial: measures windows until there are enough, or one breaks the objective.
    pub fn perform(&mut self, at: (usize, usize), mut measure: impl FnMut(Setting) -> Window) {
        let setting = self.setting(at);
        let (mut power, mut tail, mut windows, mut broken) = (0.0, 0.0, 0, 0);
        while windows < self.limits.windows && broken == 0 {
            let window = measure(setting);
            power += libm::log(window.power_w.max(f64::MIN_POSITIVE));
            tail += libm::log(window.p99_us.max(f64::MIN_POSITIVE));
            windows += 1;
            broken += usize::from(window.p99_us >= self.limits.objective_us);
        }
        let mean = |sum: f64| libm::exp(sum / windows.max(1) as f64);
        let (power_w, p99_us) = (mean(power), mean(tail));
        self.trials.push(Trial {
            at,
            power_w,
            p99_us,
            windows,
            broken,
        });
    }

    /// Of the points that were tried and kept the objective, the one with the least power. None:
    /// none kept it.
    #[must_use]
    pub fn best(&self) -> Option<(usize, usize)> {
        if self.trials.is_empty() {
            return None;
        }
        let (tail, power) = (self.tail(), self.power());
        let tried = self.trials.iter().map(|it| it.at);
        // What was measured itself is uncertain by its noise only.
        let safe = tried.filter(|&at| self.is_safe(&tail, at, 1.0));
        let mean = |at: (usize, usize)| power.predict(self.place(at)).0;
        safe.min_by(|&a, &b| mean(a).total_cmp(&mean(b)))
    }

    fn first(&self) -> (usize, usize) {
        (0, self.space.speeds_ghz.len().saturating_sub(1))
    }

    fn points(&self) -> impl Iterator<Item = (usize, usize)> {
        let speeds = self.space.speeds_ghz.len();
        (0..self.space.delays_us.len())
            .flat_map(move |delay| (0..speeds).map(move |it| (delay, it)))
    }

    /// Whether p99 of a point is below the objective by the margins. A longer delay and a lower
    /// speed only raise it, so points beyond one that broke the objective are not safe.
    fn is_safe(&self, tail: &Gaussian, at: (usize, usize), margin: f64) -> bool {
        let beyond = |it: &Trial| {
            let is_broken = it.p99_us >= self.limits.objective_us || it.broken * 5 > it.windows;
            is_broken && at.0 >= it.at.0 && at.1 <= it.at.1
        };
        if self.trials.iter().any(beyond) {
            return false;
        }
        let (mean, deviation) = tail.predict(self.place(at));
        let window_margin = self.limits.window_margin();
        let bound = mean + libm::log(self.prior_us(at)) + margin * deviation + window_margin;
        bound < libm::log(self.limits.objective_us)
    }

    /// p99 as it would be if waiting for interrupts added to all else, and all else were work.
    fn prior_us(&self, at: (usize, usize)) -> f64 {
        let Some(first) = self.trials.first() else {
            return self.limits.objective_us;
        };
        let (here, there) = (self.setting(at), self.setting(first.at));
        let work_us = (first.p99_us - there.delay_us).max(1.0);
        here.delay_us + work_us * there.speed_ghz / here.speed_ghz
    }

    /// Logarithms of delay and speed, each from 0 to 1 over the space.
    fn place(&self, (delay, speed): (usize, usize)) -> [f64; 2] {
        let scaled = |values: &[f64], index: usize| {
            let log = |it: f64| libm::log(it.max(1e-3));
            let (Some(first), Some(last)) = (values.first(), values.last()) else {
                return 0.0;
            };
            let width = log(*last) - log(*first);
            if width > 0.0 {
                (log(values[index]) - log(*first)) / width
            } else {
                0.0
            }
        };
        [
            scaled(&self.space.delays_us, delay),
            scaled(&self.space.speeds_ghz, speed),
        ]
    }

    /// The process of log(p99 ÷ prior).
    fn tail(&self) -> Gaussian {
        let kernel = Kernel {
            deviation: 0.25,
            lengths: [0.5, 0.5],
        };
        let of = |it: &Trial| libm::log(it.p99_us / self.prior_us(it.at));
        self.process(kernel, 0.0, self.limits.noise.0, of)
    }

    /// The process of log(power), around that of the first trial.
    fn power(&self) -> Gaussian {
        let mean = self.trials.first().map_or(0.0, |it| libm::log(it.power_w));
        let kernel = Kernel {
            deviation: 0.5,
            lengths: [1.0, 1.0],
        };
        self.process(kernel, mean, self.limits.noise.1, |it| {
            libm::log(it.power_w)
        })
    }

    fn process(
        &self,
        kernel: Kernel,
        mean: f64,
        noise: f64,
        of: impl Fn(&Trial) -> f64,
    ) -> Gaussian {
        let observe = |it: &Trial| Observation {
            place: self.place(it.at),
            value: of(it),
            variance: noise * noise / it.windows.max(1) as f64,
        };
        Gaussian::new(kernel, mean, self.trials.iter().map(observe).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        Space {
            delays_us: vec![2.0, 20.0, 100.0, 480.0],
            speeds_ghz: vec![1.0, 1.5, 2.0, 3.0],
        }
    }

    /// Power falls with delay and speed, p99 rises.
    fn smooth(setting: Setting) -> Window {
        Window {
            power_w: 20.0 + 5.0 * setting.speed_ghz * setting.speed_ghz - setting.delay_us / 50.0,
            p99_us: 30.0 + setting.delay_us + 150.0 / setting.speed_ghz,
        }
    }

    #[test]
    fn the_optimum_of_a_smooth_space_is_found_without_breaking_the_objective() {
        let mut tuner = Tuner::new(space(), Limits::default());
        while let Some(at) = tuner.propose() {
            tuner.perform(at, smooth);
        }
        // 480 µs breaks it at every speed; 100 µs at 1 GHz has 280 µs.
        assert_eq!(tuner.best(), Some((2, 0)));
        assert!(
            tuner.trials().iter().all(|it| it.broken == 0),
            "{:?}",
            tuner.trials()
        );
        assert_eq!(tuner.trials().len(), 30);
    }

    #[test]
    fn a_trial_ends_with_the_first_broken_window_and_nothing_beyond_is_tried() {
        let mut tuner = Tuner::new(space(), Limits::default());
        tuner.perform((0, 3), smooth);
        tuner.perform((1, 1), |_| Window {
            power_w: 30.0,
            p99_us: 900.0,
        });
        assert_eq!(
            (tuner.trials()[1].windows, tuner.trials()[1].broken),
            (1, 1)
        );
        for _ in 0..10 {
            let at = tuner.propose().unwrap();
            assert!(at.0 < 1 || at.1 > 1, "{at:?}");
            tuner.perform(at, smooth);
        }
    }

    #[test]
    fn if_the_safest_setting_breaks_the_objective_there_is_no_best() {
        let mut tuner = Tuner::new(
            space(),
            Limits {
                trials: 3,
                ..Limits::default()
            },
        );
        while let Some(at) = tuner.propose() {
            assert_eq!(at, (0, 3));
            tuner.perform(at, |_| Window {
                power_w: 50.0,
                p99_us: 900.0,
            });
        }
        assert_eq!(tuner.best(), None);
    }

    #[test]
    fn the_reward_is_the_published_one() {
        let trial = Trial {
            at: (0, 0),
            power_w: 40.0,
            p99_us: 499.0,
            windows: 1,
            broken: 0,
        };
        assert_eq!(trial.reward(500.0), 40.0);
        assert_eq!(
            Trial {
                p99_us: 510.0,
                ..trial
            }
            .reward(500.0),
            440.0
        );
    }
}
