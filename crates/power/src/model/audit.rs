//! What a sweep of the model says of the study's findings.
//!
//! The hypotheses for findings 3 to 5, which the study has as headings without text or as remarks,
//! are in `docs/decisions/025-energy-model.md`, written before the first sweep.

use super::sweep::{DELAYS_US, Grid, Load, speeds_ghz};
use super::{Law, Setting, simulate};

/// What is asked of a system at a rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Audit {
    /// Pairs of neighbouring delays at one speed, both of which count.
    pub pairs: usize,
    /// Those of which the shorter has the lower p99.
    pub tail_rises: usize,
    /// Those of which the shorter has the higher energy.
    pub energy_falls: usize,
    /// The point with the least energy that counts. None: no point counts.
    pub least: Option<Least>,
}

/// The point with the least energy that counts, and those of each knob alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Least {
    /// Both knobs.
    pub setting: Setting,
    /// Its energy, joules.
    pub both_j: f64,
    /// Speed alone, at the shortest delay. None: no such point counts.
    pub speed_j: Option<f64>,
    /// Delay alone, at the highest speed.
    pub delay_j: Option<f64>,
    /// The shortest delay at the highest speed.
    pub neither_j: f64,
}

/// Sweeps the whole grid.
#[must_use]
pub fn audit(load: &Load<'_>, law: &Law) -> Audit {
    let mut grid = Grid::new(load.clone());
    let (delays, speeds) = (DELAYS_US.len(), speeds_ghz());
    let fastest = speeds.len() - 1;
    let mut energy = |at: (usize, usize)| {
        let counts = grid.counts(at);
        let joules = law.energy_j(load.machine, speeds[at.1], grid.point(at));
        (counts, joules, grid.point(at).p99_us())
    };
    let (mut pairs, mut tail_rises, mut energy_falls) = (0, 0, 0);
    let mut least: Option<(f64, (usize, usize))> = None;
    let (mut speed_j, mut delay_j): (Option<f64>, Option<f64>) = (None, None);
    let lower = |known: Option<f64>, new: f64| Some(known.map_or(new, |it| it.min(new)));
    for speed in 0..speeds.len() {
        let mut before: Option<(f64, f64)> = None;
        for delay in 0..delays {
            let (counts, joules, p99_us) = energy((delay, speed));
            if !counts {
                before = None;
                continue;
            }
            if let Some((tail, spent)) = before.replace((p99_us, joules)) {
                pairs += 1;
                tail_rises += usize::from(p99_us > tail);
                energy_falls += usize::from(joules < spent);
            }
            if least.is_none_or(|(known, _)| joules < known) {
                least = Some((joules, (delay, speed)));
            }
            if delay == 0 {
                speed_j = lower(speed_j, joules);
            }
            if speed == fastest {
                delay_j = lower(delay_j, joules);
            }
        }
    }
    let (_, neither_j, _) = energy((0, fastest));
    let least = least.map(|(both_j, at)| Least {
        setting: grid.setting(at),
        both_j,
        speed_j,
        delay_j,
        neither_j,
    });
    Audit {
        pairs,
        tail_rises,
        energy_falls,
        least,
    }
}

/// How much p99 rises from the highest speed to a lower one at a level of the system's peak: the
/// ratio of the two.
#[must_use]
pub fn verticalness(load: &Load<'_>, level: f64, speed_ghz: f64, delay_us: f64) -> f64 {
    let machine = load.machine;
    let rate_rps = level * load.system.peak_rps;
    let p99 = |speed_ghz: f64| {
        let setting = Setting::new(delay_us, speed_ghz);
        simulate(
            machine,
            load.system,
            setting,
            rate_rps,
            load.requests,
            load.seed,
        )
        .p99_us()
    };
    p99(speed_ghz) / p99(machine.speed_max_ghz)
}
