//! The verbs of the model: residuals, fit, audit.

use ::power::model::audit::{Least, audit, verticalness};
use ::power::model::fit::{Search, savings, system};
use ::power::model::published::{NAMES, PREDICTED_RPS, Published, Reading, TABLE, Which};
use ::power::model::sweep::Load;
use ::power::model::{Law, Machine, Parameters};
use clap::{Args, ValueEnum};

/// How the columns by speed of the published table are read.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Columns {
    /// As they are printed
    Printed,
    /// The two exchanged, with which the table closes
    Exchanged,
}

impl Columns {
    fn reading(self) -> Reading {
        match self {
            Self::Printed => Reading::Printed,
            Self::Exchanged => Reading::Exchanged,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Residuals {
    /// Only this reading of the published table
    #[arg(long, value_enum)]
    reading: Option<Columns>,
}

#[derive(Debug, Args)]
pub(super) struct Fit {
    /// How the published table is read
    #[arg(long, value_enum, default_value_t = Columns::Printed)]
    reading: Columns,

    /// Seed of the search and of its simulations
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Args)]
pub(super) struct Audit {
    /// Requests of one simulation
    #[arg(long, value_name = "N", default_value_t = 40_000)]
    requests: usize,
}

impl Residuals {
    pub(super) fn print(&self) {
        let readings = match self.reading {
            Some(columns) => vec![columns.reading()],
            None => vec![Reading::Printed, Reading::Exchanged],
        };
        for reading in readings {
            print_residuals(reading, &Parameters::of(reading));
        }
    }
}

impl Fit {
    pub(super) fn print(&self) {
        let reading = self.reading.reading();
        let search = Search {
            seed: self.seed,
            ..Search::new(reading)
        };
        let (found, error) = search.run(|number, error| eprintln!("{number}: {error:.4}"));
        println!("{found:#?}\nsum of squared relative errors: {error:.4}\n");
        print_residuals(reading, &found);
    }
}

fn print_residuals(reading: Reading, parameters: &Parameters) {
    let words = match reading {
        Reading::Printed => "as printed",
        Reading::Exchanged => "with the columns by speed exchanged",
    };
    println!("Energy saved in 30 s, joules; the published table {words}.\n");
    println!("system  rate   {:<22} published    model   error", "line");
    let (mut fitted, mut predicted) = ((0, 0), (0, 0));
    let Search {
        machine,
        requests,
        seed,
        ..
    } = Search::new(reading);
    for row in TABLE {
        let found = savings(&machine, parameters, &row, requests, seed);
        let is_predicted = row.rate_rps >= PREDICTED_RPS;
        for ((name, value), found) in NAMES.iter().zip(row.read(reading).values()).zip(found) {
            let error = found / value - 1.0;
            let (count, bound) = match is_predicted {
                true => (&mut predicted, 0.25),
                false => (&mut fitted, 0.15),
            };
            count.0 += usize::from(error.abs() <= bound);
            count.1 += 1;
            let how = if is_predicted { "predicted" } else { "fitted" };
            println!(
                "{:<7} {:>3} K  {name:<22} {value:>9.1} {found:>8.1} {:>+6.0} %  {how}",
                name_of(row.which),
                row.rate_rps / 1e3,
                error * 100.0
            );
        }
    }
    println!();
    for (words, (count, all)) in [
        ("fitted within 15 %", fitted),
        ("predicted within 25 %", predicted),
    ] {
        println!(
            "{words}: {count} of {all} (target: all, {})",
            verdict(count == all)
        );
    }
    println!();
}

/// What became of a target.
pub(super) fn verdict(is_reached: bool) -> &'static str {
    match is_reached {
        true => "reached",
        false => "missed",
    }
}

pub(super) fn name_of(which: Which) -> &'static str {
    match which {
        Which::Libos => "libOS",
        Which::Linux => "Linux",
    }
}

impl Audit {
    pub(super) fn print(&self) {
        let machine = Machine::default();
        let search = Search::new(Reading::Exchanged);
        let parameters = Parameters::default();
        let found: Vec<[f64; 4]> = TABLE
            .iter()
            .map(|row| savings(&machine, &parameters, row, self.requests, search.seed))
            .collect();
        let printed: Vec<[f64; 4]> = TABLE.iter().map(|row| row.savings.values()).collect();
        println!("Whether the printed table is of one grid: gap around the box, joules");
        println!("system  rate   printed  exchanged");
        for row in TABLE {
            let exchanged = row.savings.exchanged();
            let (which, rate) = (name_of(row.which), row.rate_rps / 1e3);
            println!(
                "{which:<7} {rate:>3} K {:>8.0} {:>10.0}",
                row.savings.gap(),
                exchanged.gap()
            );
        }
        for (name, all) in [("printed", &printed), ("model", &found)] {
            first_and_second(name, all);
        }
        self.third(&machine, &parameters);
        self.fourth_and_fifth(&machine, &parameters);
    }

    fn load<'a>(
        &self,
        machine: &'a Machine,
        system: &'a ::power::model::System,
        row: &Published,
    ) -> Load<'a> {
        let (rate_rps, requests) = (row.rate_rps, self.requests);
        Load {
            machine,
            system,
            rate_rps,
            requests,
            seed: 1,
        }
    }

    fn third(&self, machine: &Machine, parameters: &Parameters) {
        println!("\nFinding 3 (H3): p99 at 2.3 GHz ÷ p99 at 2.9 GHz, at 75 % of the own peak");
        println!("system  delay    ratio  (of work: 1.26)");
        for row in &TABLE[..2] {
            let system = system(parameters, row.which);
            let load = self.load(machine, &system, row);
            for delay_us in [2.0, 50.0, 400.0] {
                let ratio = verticalness(&load, 0.75, 2.3, delay_us);
                println!("{:<7} {delay_us:>3} µs {ratio:>8.2}", name_of(row.which));
            }
        }
    }

    fn fourth_and_fifth(&self, machine: &Machine, parameters: &Parameters) {
        println!("\nFinding 4 (H4), pairs of neighbouring delays; finding 5 (H5), least energy, J");
        println!(
            "system  rate   pairs  lower p99  higher energy  both knobs          speed  delay  neither"
        );
        let law = Law::new(parameters);
        for row in TABLE {
            let system = system(parameters, row.which);
            let audit = audit(&self.load(machine, &system, &row), &law);
            let share = |part: usize| 100.0 * part as f64 / audit.pairs.max(1) as f64;
            let least = audit
                .least
                .map_or_else(|| "no point counts".to_owned(), words);
            println!(
                "{:<7} {:>3} K {:>6} {:>8.0} % {:>12.0} %  {least}",
                name_of(row.which),
                row.rate_rps / 1e3,
                audit.pairs,
                share(audit.tail_rises),
                share(audit.energy_falls)
            );
        }
    }
}

fn words(least: Least) -> String {
    let of = |joules: Option<f64>| joules.map_or_else(|| "-".to_owned(), |it| format!("{it:.0}"));
    format!(
        "{:.0} at {:.0} µs, {:.1} GHz  {:>6} {:>6} {:>7.0}",
        least.both_j,
        least.setting.delay_us,
        least.setting.speed_ghz,
        of(least.speed_j),
        of(least.delay_j),
        least.neither_j
    )
}

/// Finding 1: quotients; finding 2: means of the savings by delay.
fn first_and_second(name: &str, all: &[[f64; 4]]) {
    let quotients = all.iter().flat_map(|it| {
        let [speed_long, speed_short, delay_low, delay_high] = *it;
        let pairs = [
            (speed_long, delay_low),
            (speed_long, delay_high),
            (speed_short, delay_low),
        ];
        let pairs = pairs.into_iter().chain([(speed_short, delay_high)]);
        pairs
            .filter(|(_, delay)| *delay >= 1.0)
            .map(|(speed, delay)| speed / delay)
    });
    let quotients: Vec<f64> = quotients.collect();
    let within = quotients
        .iter()
        .filter(|it| (2.0..=10.0).contains(*it))
        .count();
    let least = quotients.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = quotients.iter().copied().fold(0.0, f64::max);
    let mean = |line: usize| all.iter().map(|it| it[line]).sum::<f64>() / all.len() as f64;
    println!("\nFindings 1 and 2 (H1, H2), {name}");
    println!(
        "saved by speed ÷ saved by delay: {least:.1} to {greatest:.1}; in 2 to 10: {within} of {}",
        quotients.len()
    );
    println!(
        "saved by delay, mean: {:.0} J at the lowest speed, {:.0} J at the highest",
        mean(2),
        mean(3)
    );
}
