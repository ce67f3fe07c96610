//! An hour of a day's load under a controller: energy, and windows that broke the objective.
//!
//! ```text
//! trace ─▶ rate of a second ─▶ surface at the setting ─▶ noise ─▶ window ─▶ controller
//!                                                                   └─▶ energy, broken?
//! ```
//!
//! A second is a window. Controllers begin anew with each hour, so the hours of a day are
//! independent of each other.

use super::noise::Noise;
use super::rival::default_delay;
use super::surface::Surface;
use super::trace::Trace;
use super::{Limits, Tuner, Window};

/// What chooses the settings of an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// The device's adaptive delay at low load, at the highest speed.
    Default,
    /// Shortest delay, highest speed: finish and halt.
    RaceToIdle,
    /// Shortest delay, the lowest speed that keeps the objective at the hour's greatest rate, as if
    /// that were known.
    PaceToIdle,
    /// The same with both knobs: of each delay's lowest such speed, the point with the least power
    /// at the hour's mean rate.
    Foreseen,
    /// The tuner: a search at the beginning of the hour; then its best, and a faster setting after
    /// each window within a margin of the objective.
    Tuner,
}

impl Controller {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("default", Self::Default),
        ("race-to-idle", Self::RaceToIdle),
        ("pace-to-idle", Self::PaceToIdle),
        ("foreseen", Self::Foreseen),
        ("tuner", Self::Tuner),
    ];
}

/// What an hour came to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Hour {
    /// Energy of the machine.
    pub energy_j: f64,
    /// Windows.
    pub windows: usize,
    /// Those that broke the objective.
    pub broken: usize,
    /// Of these, those of a search.
    pub broken_searching: usize,
}

/// Simulates an hour, 0 to 23. `seed` is that of the noise.
#[must_use]
pub fn hour(
    surface: &mut Surface,
    trace: &Trace,
    hour: usize,
    controller: Controller,
    limits: &Limits,
    seed: u64,
) -> Hour {
    let rates = trace.hour(hour);
    let fastest = surface.space().speeds_ghz.len() - 1;
    let fixed = match controller {
        Controller::Default => {
            let delay = default_delay(&surface.space().delays_us).unwrap_or(0);
            Some((delay, fastest))
        }
        Controller::RaceToIdle => Some((0, fastest)),
        Controller::PaceToIdle => Some(pace(surface, rates, limits, 0).unwrap_or((0, fastest))),
        Controller::Foreseen => Some(foresee(surface, rates, limits).unwrap_or((0, fastest))),
        Controller::Tuner => None,
    };
    let mut clock = Clock {
        surface,
        rates,
        noise: Noise::new(limits.noise, seed.wrapping_add(hour as u64)),
        objective_us: limits.objective_us,
        hour: Hour::default(),
    };
    match fixed {
        Some(point) => while clock.tick(point).is_some() {},
        None => follow(&mut clock, limits),
    }
    clock.hour
}

/// The seconds of an hour as they pass.
struct Clock<'a> {
    surface: &'a mut Surface,
    rates: &'a [f64],
    noise: Noise,
    objective_us: f64,
    hour: Hour,
}

impl Clock<'_> {
    /// The next second at a setting. None: the hour is over.
    fn tick(&mut self, point: (usize, usize)) -> Option<Window> {
        let rate_rps = *self.rates.get(self.hour.windows)?;
        let truth = self.surface.at(rate_rps, point);
        // The energy is what was used, not what a meter with noise would say.
        self.hour.energy_j += truth.power_w;
        let window = self.noise.window(truth);
        self.hour.windows += 1;
        self.hour.broken += usize::from(window.p99_us >= self.objective_us);
        Some(window)
    }
}

/// Searches, then holds.
fn follow(clock: &mut Clock<'_>, limits: &Limits) {
    let mut tuner = Tuner::new(clock.surface.space().clone(), limits.clone());
    let mut is_over = false;
    while !is_over && let Some(at) = tuner.propose() {
        tuner.perform(at, |_| {
            let window = clock.tick(at);
            is_over = window.is_none();
            // The search ends with the hour, so this is never used.
            window.unwrap_or(Window {
                power_w: 1.0,
                p99_us: f64::INFINITY,
            })
        });
    }
    clock.hour.broken_searching = clock.hour.broken;
    let fastest = clock.surface.space().speeds_ghz.len() - 1;
    let mut at = tuner.best().unwrap_or((0, fastest));
    let near_us = limits.bound_us();
    while let Some(window) = clock.tick(at) {
        if window.p99_us >= near_us {
            at = faster(at, fastest);
        }
    }
}

/// One step of speed, or of delay at the highest speed.
fn faster((delay, speed): (usize, usize), fastest: usize) -> (usize, usize) {
    match speed < fastest {
        true => (delay, speed + 1),
        false => (delay.saturating_sub(1), speed),
    }
}

/// The lowest speed at a delay that keeps the objective at the hour's greatest rate, by the margin
/// of a window. A higher speed only lowers p99, so bisection finds it. None: no speed does.
fn pace(
    surface: &mut Surface,
    rates: &[f64],
    limits: &Limits,
    delay: usize,
) -> Option<(usize, usize)> {
    let fastest = surface.space().speeds_ghz.len() - 1;
    let most_rps = rates.iter().copied().fold(0.0, f64::max);
    let bound_us = limits.bound_us();
    let mut keeps = |speed: usize| surface.at(most_rps, (delay, speed)).p99_us < bound_us;
    if !keeps(fastest) {
        return None;
    }
    let (mut low, mut high) = (0, fastest);
    while low < high {
        let middle = usize::midpoint(low, high);
        match keeps(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Some((delay, high))
}

/// Of the points of [`pace`] at each delay, the one with the least power at the mean rate.
fn foresee(surface: &mut Surface, rates: &[f64], limits: &Limits) -> Option<(usize, usize)> {
    let mean_rps = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let delays = 0..surface.space().delays_us.len();
    let points: Vec<_> = delays
        .filter_map(|delay| pace(surface, rates, limits, delay))
        .collect();
    let power = |point| (surface.at(mean_rps, point).power_w, point);
    let least = points
        .into_iter()
        .map(power)
        .min_by(|a, b| a.0.total_cmp(&b.0));
    least.map(|it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Law, Machine, Parameters, System};
    use crate::tuner::Space;

    fn surface(system: System) -> Surface {
        let law = Law::new(&Parameters::default());
        Surface::new(Machine::default(), system, law, Space::study(), 4_000, 1)
    }

    #[test]
    fn the_tuner_keeps_the_objective_and_saves_most_of_what_can_be_foreseen() {
        let mut surface = surface(System::linux(&Parameters::default()));
        let trace = Trace::new(200e3, 500e3, 1);
        let limits = Limits::default();
        // Load rises most at ten.
        let mut at = |controller| hour(&mut surface, &trace, 10, controller, &limits, 1);
        let [default, race, pace, foreseen, tuned] = Controller::ALL.map(|it| at(it.1));
        for it in [default, race, pace, foreseen, tuned] {
            assert_eq!(it.windows, 3_600);
            assert!(it.broken * 100 <= it.windows, "{it:?}");
        }
        assert!(pace.energy_j < race.energy_j && foreseen.energy_j <= pace.energy_j * 1.001);
        let saved = default.energy_j - tuned.energy_j;
        assert!(
            saved > 0.5 * (default.energy_j - foreseen.energy_j),
            "{tuned:?} {foreseen:?}"
        );
        assert!(tuned.broken_searching <= tuned.broken);
    }

    #[test]
    fn an_overloaded_hour_breaks_every_window_and_a_held_setting_ends_at_the_fastest() {
        let mut surface = surface(System::linux(&Parameters::default()));
        let trace = Trace::new(1_500e3, 1_500e3, 1);
        let limits = Limits::default();
        let tuned = hour(&mut surface, &trace, 0, Controller::Tuner, &limits, 1);
        assert_eq!((tuned.windows, tuned.broken), (3_600, 3_600));
        let race = hour(&mut surface, &trace, 0, Controller::RaceToIdle, &limits, 1);
        assert!((tuned.energy_j / race.energy_j - 1.0).abs() < 1e-9);
        assert_eq!(faster((3, 17), 17), (2, 17));
        assert_eq!(faster((3, 4), 17), (3, 5));
        assert_eq!(faster((0, 17), 17), (0, 17));
    }
}
