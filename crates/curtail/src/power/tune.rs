//! `curtail power tune`: the search on this machine's knobs, or on the model over many seeds.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use ::power::knob::{Bounds, Knob, Name};
use ::power::meter::Meters;
use ::power::model::Setting;
use ::power::model::published::Which;
use ::power::model::sweep::DELAYS_US;
use ::power::session::Session;
use ::power::tuner::bench::{Case, Outcome};
use ::power::tuner::rival::Rival;
use ::power::tuner::{Limits, Space, Tuner, Window};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use super::machine::{self, Machine};
use super::model::{name_of, verdict};

/// Speeds of a search on a real machine.
const SPEEDS: usize = 18;
/// Targets of the tuner on the model: seeds within 3 % of the optimum, and windows that break the
/// objective; both in per cent.
const NEAR: f64 = 95.0;
const BROKEN: f64 = 1.0;

#[derive(Debug, Args)]
pub(super) struct Tune {
    #[command(flatten)]
    machine: Machine,

    /// p99 must be below this, microseconds
    #[arg(long, value_name = "US", default_value_t = 500.0)]
    objective_us: f64,

    /// Trials
    #[arg(long, value_name = "N", default_value_t = 30,
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    trials: u16,

    /// Windows of a trial
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    windows: u16,

    /// Search on the model with noise instead, over many seeds, and compare
    #[arg(long)]
    on_model: bool,

    /// Only this system, with `--on-model`
    #[arg(long, value_enum, requires = "on_model")]
    system: Option<System>,

    /// Seeds, with `--on-model`
    #[arg(long, value_name = "N", default_value_t = 1_000, requires = "on_model")]
    seeds: u64,

    /// Measures one window under the load: its last word of output is p99 in microseconds
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum System {
    Linux,
    Libos,
}

impl System {
    fn which(self) -> Which {
        match self {
            Self::Linux => Which::Linux,
            Self::Libos => Which::Libos,
        }
    }
}

impl Tune {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let limits = Limits {
            objective_us: self.objective_us,
            trials: self.trials.into(),
            windows: self.windows.into(),
            ..Limits::default()
        };
        match self.on_model {
            true => self.on_model(&limits),
            false => self.on_machine(limits)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn on_model(&self, limits: &Limits) {
        println!(
            "{} seeds, {} trials of {} windows; noise {:.0} % of p99, {:.0} % of power",
            self.seeds,
            limits.trials,
            limits.windows,
            100.0 * limits.noise.0,
            100.0 * limits.noise.1
        );
        let systems = match self.system {
            Some(system) => vec![system],
            None => vec![System::Linux, System::Libos],
        };
        for which in systems.into_iter().map(System::which) {
            for rate_rps in [200e3, 400e3, 600e3] {
                let case = Case::new(which, rate_rps, 100_000);
                let outcomes: Vec<Outcome> = (0..self.seeds)
                    .map(|seed| case.search(limits, seed))
                    .collect();
                println!("\n{}, {} K", name_of(which), rate_rps / 1e3);
                tell(&outcomes);
                for (name, rival) in Rival::ALL {
                    if let Some((found, setting)) = case.rival(rival, limits) {
                        println!(
                            "  {name:<14}{:>6.1} W, p99 {:>4.0} µs: {:.0} µs, {:.1} GHz",
                            found.power_w, found.p99_us, setting.delay_us, setting.speed_ghz
                        );
                    }
                }
            }
        }
    }

    fn on_machine(&self, limits: Limits) -> anyhow::Result<()> {
        if self.command.is_empty() {
            bail!("no COMMAND measures a window (or search on the model: --on-model)");
        }
        let knobs = Knobs::of(&self.machine)?;
        let objective_us = limits.objective_us;
        let mut tuner = Tuner::new(knobs.space.clone(), limits);
        let mut session = self.machine.session()?;
        while let Some(at) = tuner.propose() {
            knobs.set(&mut session, tuner.setting(at))?;
            let mut failure = None;
            tuner.perform(at, |_| {
                // A window that cannot be measured ends the trial, and then the search.
                let broken = Window {
                    power_w: 1.0,
                    p99_us: f64::INFINITY,
                };
                self.window().unwrap_or_else(|error| {
                    failure = Some(error);
                    broken
                })
            });
            if let Some(error) = failure {
                return Err(error);
            }
            if let Some(trial) = tuner.trials().last() {
                let Setting {
                    delay_us,
                    speed_ghz,
                    ..
                } = tuner.setting(at);
                println!(
                    "{delay_us:.0} µs, {speed_ghz:.2} GHz: {:.2} W, p99 {:.0} µs, reward {:.2}",
                    trial.power_w,
                    trial.p99_us,
                    trial.reward(objective_us)
                );
            }
        }
        machine::end(session)?;
        match tuner.best().map(|it| tuner.setting(it)) {
            None => println!("no setting kept the objective"),
            Some(best) => println!("best: {}", knobs.words(best)),
        }
        Ok(())
    }

    /// One window: p99 by the command, and power by RAPL meanwhile.
    fn window(&self) -> anyhow::Result<Window> {
        let root = self.machine.root();
        let begun = Instant::now();
        let mut meters = Meters::begin(&root, false, 0.0);
        let (program, arguments) = self.command.split_first().context("there is no command")?;
        let output = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("run {}", program.display()))?;
        let elapsed_s = begun.elapsed().as_secs_f64();
        meters.sample(&root, elapsed_s);
        let text = String::from_utf8_lossy(&output.stdout);
        let p99_us = text
            .split_whitespace()
            .last()
            .and_then(|it| it.parse().ok());
        let joules = meters
            .processor_joules()
            .context("this machine has no RAPL meter")?;
        Ok(Window {
            power_w: joules / elapsed_s.max(1e-9),
            p99_us: p99_us.context("the command's last word is not p99 in microseconds")?,
        })
    }
}

fn tell(outcomes: &[Outcome]) {
    let share = |of: &dyn Fn(&Outcome) -> bool| {
        100.0 * outcomes.iter().filter(|it| of(it)).count() as f64 / outcomes.len().max(1) as f64
    };
    let windows: usize = outcomes.iter().map(|it| it.windows).sum();
    let broken: usize = outcomes.iter().map(|it| it.broken).sum();
    let mut excess: Vec<f64> = outcomes.iter().map(|it| it.excess).collect();
    excess.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (share * excess.len().saturating_sub(1) as f64) as usize;
        100.0 * (excess.get(index).copied().unwrap_or(f64::NAN) - 1.0)
    };
    let near = share(&|it| it.excess <= 1.03);
    let broken = 100.0 * broken as f64 / windows.max(1) as f64;
    println!(
        "  tuner: within 3 % of the exhaustive optimum in {near:.1} % of seeds (target: {NEAR:.0} %, \
         {}); excess: median {:.1} %, 95th percentile {:.1} %",
        verdict(near >= NEAR),
        at(0.5),
        at(0.95)
    );
    println!(
        "  objective broken in {broken:.2} % of windows (target: at most {BROKEN:.0} %, {})",
        verdict(broken <= BROKEN)
    );
}

/// The knobs of a search, and its space.
struct Knobs {
    speed: Knob,
    /// None: this machine has no delay that may be set; the space has one, of 0.
    delay: Option<Knob>,
    space: Space,
}

impl Knobs {
    fn of(machine: &Machine) -> anyhow::Result<Self> {
        let speed = machine.knob(Name::Frequency)?;
        let delay = machine.knob(Name::RxUsecs).ok();
        let Bounds::Range(least, most) = speed.bounds else {
            bail!("the speed has no range");
        };
        let step = |it: usize| {
            let share = it as f64 / (SPEEDS - 1) as f64;
            (least as f64 + share * (most - least) as f64) / 1e6
        };
        let delays_us = if delay.is_some() {
            DELAYS_US.to_vec()
        } else {
            vec![0.0]
        };
        let space = Space {
            delays_us,
            speeds_ghz: (0..SPEEDS).map(step).collect(),
        };
        Ok(Self {
            speed,
            delay,
            space,
        })
    }

    fn set(&self, session: &mut Session, setting: Setting) -> anyhow::Result<()> {
        session.set(&self.speed, &khz(setting))?;
        if let Some(delay) = &self.delay {
            session.set(delay, &format!("{:.0}", setting.delay_us))?;
        }
        Ok(())
    }

    fn words(&self, setting: Setting) -> String {
        let speed = format!("--set {}={}", self.speed.name.text(), khz(setting));
        match &self.delay {
            Some(delay) => format!(
                "{speed} --set {}={:.0}",
                delay.name.text(),
                setting.delay_us
            ),
            None => speed,
        }
    }
}

fn khz(setting: Setting) -> String {
    format!("{:.0}", setting.speed_ghz * 1e6)
}
