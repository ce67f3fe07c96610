//! The load of a day under a controller.

use lab::model::{Computed, Settings};
use power::model::{Law, Machine, System};
use power::tuner::day::{Controller, Hour, hour};
use power::tuner::surface::Surface;
use power::tuner::trace::{DAY_S, HOUR_S, Trace};
use power::tuner::{Limits, Space};

const HOURS: usize = 24;

#[derive(Debug, Clone, Copy)]
pub(super) struct Day {
    controller: Controller,
    least_rps: f64,
    most_rps: f64,
    /// Of the trace: the same for all controllers.
    trace_seed: u64,
}

impl Day {
    pub(super) fn read(settings: &Settings<'_>) -> Result<Self, String> {
        let day = Self {
            controller: settings.one_of("controller", &Controller::ALL)?,
            least_rps: settings.positive("least-rate")?,
            most_rps: settings.positive("most-rate")?,
            trace_seed: settings.whole("trace-seed")?,
        };
        let most = power::limits::RATE_RPS;
        if !(day.least_rps..=most).contains(&day.most_rps) {
            return Err(format!(
                "`most-rate` is {}, not from `least-rate` ({}) to {most}",
                day.most_rps, day.least_rps
            ));
        }
        Ok(day)
    }

    /// Simulations of a trial, roughly: rungs of the ladder of rates × points that are looked at.
    pub(super) fn simulations(&self) -> usize {
        const RUNGS: usize = 35;
        match self.controller {
            Controller::Default | Controller::RaceToIdle => RUNGS,
            Controller::PaceToIdle => RUNGS * 8,
            Controller::Foreseen | Controller::Tuner => RUNGS * 40,
        }
    }

    pub(super) fn compute(
        &self,
        machine: &Machine,
        system: &System,
        law: Law,
        requests: usize,
        seed: u64,
    ) -> Computed {
        let trace = Trace::new(self.least_rps, self.most_rps, self.trace_seed);
        let space = Space::study();
        let mut surface = Surface::new(machine.clone(), system.clone(), law, space, requests, seed);
        let limits = Limits::default();
        let mut at = |it| hour(&mut surface, &trace, it, self.controller, &limits, seed);
        let hours: Vec<Hour> = (0..HOURS).map(&mut at).collect();
        let energy_j: f64 = hours.iter().map(|it| it.energy_j).sum();
        let share =
            |of: fn(&Hour) -> usize| hours.iter().map(of).sum::<usize>() as f64 / DAY_S as f64;
        let by_hour = |of: fn(&Hour) -> f64| -> Vec<f64> {
            hours.iter().map(|it| of(it) / HOUR_S as f64).collect()
        };
        let metrics = vec![
            ("day_energy_kj", energy_j / 1e3),
            ("power_w", energy_j / DAY_S as f64),
            ("energy_per_request_uj", energy_j / trace.requests() * 1e6),
            ("broken_share", share(|it| it.broken)),
            ("broken_searching_share", share(|it| it.broken_searching)),
        ];
        Computed {
            series: vec![
                ("power_by_hour", by_hour(|it| it.energy_j)),
                ("broken_by_hour", by_hour(|it| it.broken as f64)),
            ],
            metrics,
            ..Computed::default()
        }
    }
}
