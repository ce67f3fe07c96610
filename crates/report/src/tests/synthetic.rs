//! Synthetic run folders, generated from a seed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Run;
use crate::cache::folder::{
    Cost, FigureKind, Load, LowerBounds, Measurement, Outcome, Phase, Plan, Quantiles, SCHEMA,
    Server, Stolen, Sweep, Trial,
};
use crate::cache::{self, Vary};
use crate::record::Host;

/// Load levels of the sweep.
pub(crate) const LEVELS: [f64; 8] = [0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
/// Trials of a cell.
pub(crate) const REPEATS: u32 = 15;
/// (name, capacity in requests/s, plateau of p99 in ns, processor time per request in ns).
const SERVERS: [(&str, f64, f64, f64); 2] = [
    ("curtail", 241_000.0, 142_000.0, 3_350.0),
    ("memcached", 212_000.0, 178_000.0, 3_900.0),
];

/// A run that a test modifies before it is written.
pub(crate) struct Synthetic {
    pub(crate) plan: Plan,
    pub(crate) host: Host,
    pub(crate) trials: Vec<Trial>,
}

impl Synthetic {
    /// Two servers and a skipped one, eight levels, fifteen repeats; two trials of memcached
    /// failed, one of curtail never ended, and near its capacity the generator was the limit.
    pub(crate) fn ladder(seed: u64) -> Self {
        let mut random = SplitMix(seed);
        let mut trials = Vec::new();
        for (name, capacity, plateau, cpu) in SERVERS {
            for repeat in 0..5 {
                trials.push(capacity_trial(&mut random, name, repeat, capacity, cpu));
            }
            for (cell, level) in (0u32..).zip(LEVELS) {
                for repeat in 0..REPEATS {
                    let law = (capacity, plateau, cpu);
                    trials.push(sweep_trial(&mut random, name, cell, level, repeat, law));
                }
            }
        }
        trials.retain(|trial| trial.id != "s-curtail-7-14");
        for trial in &mut trials {
            if ["s-memcached-4-03", "s-memcached-4-09"].contains(&trial.id.as_str()) {
                trial.outcome = Outcome::Failed("server ended with signal 9".to_owned());
            }
        }
        // In the order of a run: capacity trials first, then the sweep, shuffled.
        trials.sort_by_key(|trial| {
            let shuffled = SplitMix(
                trial
                    .id
                    .bytes()
                    .fold(seed, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b))),
            )
            .next();
            (trial.phase == Phase::Sweep, shuffled)
        });
        for (index, trial) in (0u64..).zip(&mut trials) {
            trial.started_unix_ns = 1_795_223_563_000_000_000 + index * 7_000_000_000;
        }
        Self {
            plan: plan(seed),
            host: host(),
            trials,
        }
    }

    /// Two servers under several settings; the tail doubles from one setting to the next. Sweeps by
    /// level have capacity trials; each saturating connection has 1000 replies per second.
    pub(crate) fn varied(seed: u64, vary: Vary, sweep: Sweep) -> Self {
        Self::varied_from(seed, vary, sweep, 0)
    }

    /// As [`Synthetic::varied`], where the load has the `reference`-th value.
    pub(crate) fn varied_from(seed: u64, vary: Vary, sweep: Sweep, reference: usize) -> Self {
        let mut random = SplitMix(seed);
        let mut plan = plan(seed);
        let has_capacities = matches!(sweep, Sweep::LoadLevels(_));
        let own = vary.values()[reference];
        plan.capacity_trials = if has_capacities { 5 } else { 0 };
        match vary {
            Vary::Connections(_) => plan.load.connections = own as u32,
            Vary::Depth(_) => plan.load.depth = own as u32,
            Vary::Update(_) => plan.load.update = own,
            Vary::Saturating(_) => plan.load.saturating = own as u32,
        }
        plan.figures = vec![FigureKind::Tail];
        plan.servers.truncate(2);
        (plan.vary, plan.sweep) = (Some(vary), sweep);
        let mut trials = Vec::new();
        for (name, capacity, plateau, cpu) in SERVERS {
            for setting in 0..plan.settings() {
                for repeat in 0..plan.capacity_trials {
                    let mut trial = capacity_trial(&mut random, name, repeat, capacity, cpu);
                    trial.id = format!("c-{name}-{setting}-{repeat:02}");
                    trial.cell = setting;
                    trials.push(trial);
                }
            }
            for cell in 0..plan.cells() {
                let (setting, rate) = plan.setting_and_rate(cell);
                let level = match &plan.sweep {
                    Sweep::LoadLevels(levels) => levels[rate as usize],
                    Sweep::Rates(rates) => rates[rate as usize] / capacity,
                };
                let law = (capacity, plateau * f64::from(1 << setting), cpu);
                for repeat in 0..REPEATS {
                    let mut trial = sweep_trial(&mut random, name, cell, level, repeat, law);
                    trial.level = plan.level(cell);
                    trials.push(trial);
                }
            }
        }
        for trial in &mut trials {
            let setting = plan.setting_of(trial.phase, trial.cell);
            trial.setting = plan.setting_value(setting);
            if let (Outcome::Measured(measured), Some(Vary::Saturating(saturating))) =
                (&mut trial.outcome, &plan.vary)
            {
                let count = saturating[setting as usize];
                measured.saturating_rps = (count > 0).then(|| 1_000.0 * f64::from(count));
            }
        }
        for trial in &mut trials {
            if let Outcome::Measured(measured) = &mut trial.outcome {
                measured.generator_limited = false;
            }
        }
        Self {
            plan,
            host: host(),
            trials,
        }
    }

    /// The measurement of a trial.
    pub(crate) fn measurement(&mut self, id: &str) -> &mut Measurement {
        let trial = self
            .trials
            .iter_mut()
            .find(|trial| trial.id == id)
            .expect("a trial");
        match &mut trial.outcome {
            Outcome::Measured(measurement) => measurement,
            Outcome::Failed(why) => panic!("{id} failed: {why}"),
        }
    }

    /// Renames a server in plan and trials.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        for server in self
            .plan
            .servers
            .iter_mut()
            .filter(|server| server.name == from)
        {
            server.name = to.to_owned();
        }
        for trial in self.trials.iter_mut().filter(|trial| trial.server == from) {
            trial.server = to.to_owned();
        }
    }

    /// `trials.jsonl`.
    pub(crate) fn lines(&self) -> String {
        let line = |trial| serde_json::to_string(trial).expect("a trial is JSON") + "\n";
        self.trials.iter().map(line).collect()
    }

    /// The run as it reads from its folder.
    pub(crate) fn run(&self) -> Run {
        let place = tempfile::tempdir().expect("a place");
        Run::open(self.write(place.path())).expect("a run")
    }

    /// The same as servers, settings and rates.
    pub(crate) fn classic(&self) -> cache::Run {
        classic(&self.run())
    }

    /// Writes the folder.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        let folder = folder.join("run");
        fs::create_dir_all(&folder).expect("a folder");
        let plan = toml::to_string_pretty(&self.plan).expect("a plan is TOML");
        fs::write(folder.join("plan.toml"), plan).expect("plan.toml");
        let host = serde_json::to_string_pretty(&self.host).expect("a host is JSON");
        fs::write(folder.join("host.json"), host).expect("host.json");
        fs::write(folder.join("trials.jsonl"), self.lines()).expect("trials.jsonl");
        folder
    }
}

/// A run as servers, settings and rates.
pub(crate) fn classic(run: &Run) -> cache::Run {
    let classic = cache::Run::of(run).expect("complete trials");
    classic.expect("servers, settings and rates")
}

fn plan(seed: u64) -> Plan {
    let server = |name: &str, version: Option<&str>, skipped: Option<&str>| Server {
        name: name.to_owned(),
        command: vec![name.to_owned(), "-p".to_owned(), "{port}".to_owned()],
        version: version.map(str::to_owned),
        skipped: skipped.map(str::to_owned),
    };
    Plan {
        schema: SCHEMA.to_owned(),
        experiment: "rate-ladder".to_owned(),
        question: "Up to what offered rate does each server keep up, and at what tail latency?"
            .to_owned(),
        quick: false,
        seed,
        repeats: REPEATS,
        trial_ns: 5_000_000_000,
        warmup_ns: 1_000_000_000,
        load: Load {
            connections: 15_360,
            depth: 1,
            threads: 1,
            keys: "fb_key".to_owned(),
            values: "fb_value".to_owned(),
            arrivals: "fb_ia".to_owned(),
            popularity: "uniform".to_owned(),
            update: 0.03,
            mix: String::new(),
            multiget: String::new(),
            records: 1_000_000,
            saturating: 0,
            saturating_depth: 512,
        },
        server_cpus: vec![0],
        load_cpus: vec![1],
        goes_first: false,
        hosts: String::new(),
        sweep: Sweep::LoadLevels(LEVELS.to_vec()),
        vary: None,
        capacity_trials: 5,
        servers: vec![
            server("curtail", Some("curtail 0.1.0"), None),
            server("memcached", Some("memcached 1.6.45"), None),
            server("elder-cache", None, Some("not found on PATH")),
        ],
        figures: vec![FigureKind::Throughput, FigureKind::Tail, FigureKind::Cpu],
        notes: Vec::new(),
    }
}

pub(crate) fn host() -> Host {
    Host {
        kernel: "Linux 6.12.0".to_owned(),
        cpu: "Example Processor 9000 @ 2.40GHz".to_owned(),
        processors: 2,
        memory_bytes: 8 << 30,
        virtualised: Some("kvm".to_owned()),
        clock: "tsc".to_owned(),
        governor: None,
        open_files: 1_048_576,
        curtail: "curtail 0.1.0 (release)".to_owned(),
    }
}

fn capacity_trial(
    random: &mut SplitMix,
    server: &str,
    repeat: u32,
    capacity: f64,
    cpu_ns: f64,
) -> Trial {
    let achieved = capacity * random.about(0.015);
    let mut measured = measurement(random, achieved, achieved, 60e6, cpu_ns);
    (measured.response, measured.slip, measured.lateness_p99_ns) = (None, None, None);
    Trial {
        id: format!("c-{server}-0-{repeat:02}"),
        phase: Phase::Capacity,
        server: server.to_owned(),
        cell: 0,
        repeat,
        setting: None,
        level: None,
        offered_rps: None,
        started_unix_ns: 0,
        outcome: Outcome::Measured(Box::new(measured)),
        notes: Vec::new(),
    }
}

fn sweep_trial(
    random: &mut SplitMix,
    server: &str,
    cell: u32,
    level: f64,
    repeat: u32,
    (capacity, plateau_ns, cpu_ns): (f64, f64, f64),
) -> Trial {
    let offered = capacity * level;
    let achieved = offered.min(capacity * 0.985 * random.about(0.01)) * random.about(0.002);
    let queueing = 0.05 * (level / (1.03 - level)).powi(2);
    let p99 = plateau_ns * (1.0 + queueing) * random.about(0.2);
    // At low load, a request includes waking the sleeping server.
    let cpu = cpu_ns * (1.0 + 0.35 * (1.0 - level)) * random.about(0.03);
    let mut measured = measurement(random, offered, achieved, p99, cpu);
    measured.generator_limited = server == "curtail" && level > 0.85 && repeat.is_multiple_of(3);
    if measured.generator_limited {
        measured.lateness_p99_ns = Some(71_000);
    }
    Trial {
        id: format!("s-{server}-{cell}-{repeat:02}"),
        phase: Phase::Sweep,
        server: server.to_owned(),
        cell,
        repeat,
        setting: None,
        level: Some(level),
        offered_rps: Some(offered),
        started_unix_ns: 0,
        outcome: Outcome::Measured(Box::new(measured)),
        notes: Vec::new(),
    }
}

fn measurement(
    random: &mut SplitMix,
    intended_rps: f64,
    achieved: f64,
    p99_ns: f64,
    cpu_ns: f64,
) -> Measurement {
    let answered = (achieved * 5.0) as u64;
    let service = quantiles(answered, p99_ns * 0.8);
    let expected = achieved * service.mean / 1e9;
    // Requests slightly behind at the end are answered in the grace period.
    let unanswered = ((intended_rps - achieved * 1.005) * 5.0).max(0.0) as u64;
    let mut measured = Measurement {
        duration_ns: 5_000_000_000,
        intended: (intended_rps * 5.0) as u64,
        answered,
        censored: 0,
        errors: 0,
        achieved_rps: achieved,
        hit_rate: Some(0.9987),
        resident: Some(0.9991),
        response: Some(quantiles(answered, p99_ns)),
        service,
        slip: Some(quantiles(answered, 21_000.0 * random.about(0.2))),
        lateness_p99_ns: Some(18_000),
        generator_limited: false,
        generator_cpu: 0.99,
        generator_busy: Some(0.2 + 0.75 * intended_rps / 260_000.0),
        lost_connections: Some(0),
        outstanding_mean: expected * random.about(0.01),
        outstanding_unread: 0.0,
        outstanding_expected: expected,
        saturating_rps: None,
        bursts: None,
        cost: Some(Cost {
            user_ns: (cpu_ns * answered as f64 * 0.31) as u64,
            system_ns: (cpu_ns * answered as f64 * 0.69) as u64,
            cpu_ns_per_request: cpu_ns,
            resident_bytes: (512 << 20) + (random.next() % (9 << 20)),
            voluntary_switches: Some(41_000 + random.next() % 900),
            involuntary_switches: Some(300 + random.next() % 90),
        }),
        stolen: Some(Stolen {
            server: 0.012,
            load: 0.015,
        }),
    };
    censor(&mut measured, unanswered);
    measured
}

/// Censors `count` requests of a trial, all slower than any that was answered.
pub(crate) fn censor(measured: &mut Measurement, count: u64) {
    measured.censored = count;
    let share = count as f64 / measured.intended as f64;
    if let Some(response) = &mut measured.response {
        response.lower_bounds = (count > 0).then_some(LowerBounds {
            p50: share > 0.5,
            p90: share > 0.1,
            p95: share > 0.05,
            p99: share > 0.01,
            p999: share > 0.001,
        });
    }
}

fn quantiles(count: u64, p99: f64) -> Quantiles {
    let at = |share: f64| (p99 * share) as u64;
    Quantiles {
        count,
        mean: p99 * 0.35,
        min: at(0.11),
        p50: at(0.3),
        p90: at(0.6),
        p95: at(0.74),
        p99: at(1.0),
        p999: at(2.3),
        max: at(4.1),
        lower_bounds: None,
    }
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 1 ± `share`.
    pub(crate) fn about(&mut self, share: f64) -> f64 {
        1.0 + share * (2.0 * (self.next() >> 11) as f64 / (1u64 << 53) as f64 - 1.0)
    }
}
