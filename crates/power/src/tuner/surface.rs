//! True power and p99 of every setting at any rate: simulated at the rungs of a ladder of rates
//! when first needed, and interpolated between them.

use std::collections::BTreeMap;

use super::{Space, Window};
use crate::model::{Law, Machine, Setting, System, simulate};

/// From one rung to the next.
const STEP: f64 = 1.05;

/// What a rate and a setting lead to.
#[derive(Debug, Clone)]
pub struct Surface {
    machine: Machine,
    system: System,
    law: Law,
    space: Space,
    requests: usize,
    seed: u64,
    /// By rung, and indices of delay and speed.
    points: BTreeMap<(i32, (usize, usize)), Window>,
}

impl Surface {
    /// Nothing is simulated yet. Each simulation has `requests` requests, and all have one seed.
    #[must_use]
    pub fn new(
        machine: Machine,
        system: System,
        law: Law,
        space: Space,
        requests: usize,
        seed: u64,
    ) -> Self {
        Self {
            machine,
            system,
            law,
            space,
            requests,
            seed,
            points: BTreeMap::new(),
        }
    }

    /// The settings.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The setting of a point.
    #[must_use]
    pub fn setting(&self, (delay, speed): (usize, usize)) -> Setting {
        Setting::new(self.space.delays_us[delay], self.space.speeds_ghz[speed])
    }

    /// Power and p99 of a point at a rate. Between two rungs, their logarithms are linear in that
    /// of the rate, so beside an overloaded rung p99 is high too.
    pub fn at(&mut self, rate_rps: f64, point: (usize, usize)) -> Window {
        let place = libm::log(rate_rps.max(1.0)) / libm::log(STEP);
        let rung = place.floor();
        let share = place - rung;
        let [low, high] = [rung, rung + 1.0].map(|it| self.rung(it as i32, point));
        let between = |low: f64, high: f64| {
            libm::exp(libm::log(low) * (1.0 - share) + libm::log(high) * share)
        };
        Window {
            power_w: between(low.power_w, high.power_w),
            p99_us: between(low.p99_us, high.p99_us),
        }
    }

    fn rung(&mut self, rung: i32, point: (usize, usize)) -> Window {
        if let Some(known) = self.points.get(&(rung, point)) {
            return *known;
        }
        let setting = self.setting(point);
        let rate_rps = libm::pow(STEP, f64::from(rung));
        let (machine, requests, seed) = (&self.machine, self.requests, self.seed);
        let found = simulate(machine, &self.system, setting, rate_rps, requests, seed);
        let window = Window::simulated(machine, &self.law, setting.speed_ghz, &found);
        self.points.insert((rung, point), window);
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Parameters;

    #[test]
    fn between_two_rungs_the_values_lie_between_those_simulated() {
        let parameters = Parameters::default();
        let space = Space {
            delays_us: vec![2.0],
            speeds_ghz: vec![2.9],
        };
        let system = System::linux(&parameters);
        let law = Law::new(&parameters);
        let mut surface = Surface::new(Machine::default(), system.clone(), law, space, 20_000, 1);
        let rate_rps = |rung: i32| libm::pow(STEP, f64::from(rung));
        let [low, middle, high] = [
            rate_rps(260) * 1.000_001,
            rate_rps(260) * 1.025,
            rate_rps(261) * 0.999_999,
        ]
        .map(|it| surface.at(it, (0, 0)));
        assert!(low.power_w < middle.power_w && middle.power_w < high.power_w);
        assert_eq!(surface.points.len(), 2);
        let machine = Machine::default();
        let setting = Setting::new(2.0, 2.9);
        let found = simulate(&machine, &system, setting, rate_rps(260), 20_000, 1);
        assert!((low.p99_us / found.p99_us() - 1.0).abs() < 1e-3);
        assert!((low.power_w / law.power_w(&machine, 2.9, &found) - 1.0).abs() < 1e-3);
    }
}
