//! Meters of energy, and proxies where there is none.
//!
//! | meter | reads |
//! |---|---|
//! | `rapl` | energy counters of packages and of memory, which wrap around |
//! | `hwmon` | energy counters or power sensors of drivers |
//! | `battery` | power of a battery that discharges |
//! | `ipmi` | power of the whole machine, by a command |
//!
//! A counter is exact between two readings. A power sensor is integrated over its samples, so it
//! needs [`Meters::sample`] to be called regularly. Proxies are processor time, context switches
//! and interrupts of the whole machine: they are never converted to joules.

mod ipmi;
mod sensors;

pub use self::ipmi::parse as parse_ipmi;
pub use self::sensors::{Counter, Power, counters, powers};

use crate::root::Root;

/// Joules of one meter since the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Energy {
    /// Such as `rapl:package-0`.
    pub name: String,
    /// Joules.
    pub joules: f64,
    /// What it covers is part of what another covers, or overlaps with it.
    pub is_part: bool,
}

/// What was read at the start and since then.
#[derive(Debug)]
pub struct Meters {
    counters: Vec<Counter>,
    powers: Vec<Power>,
    proxies: Vec<(Proxy, f64)>,
}

impl Meters {
    /// Finds all meters, and begins.
    #[must_use]
    pub fn begin(root: &Root, with_ipmi: bool, now_s: f64) -> Self {
        let mut powers = powers(root);
        if with_ipmi {
            powers.extend(ipmi::power());
        }
        let mut meters = Self {
            counters: counters(root),
            powers,
            proxies: Proxy::ALL
                .iter()
                .filter_map(|it| Some((*it, it.read(root)?)))
                .collect(),
        };
        meters.sample(root, now_s);
        meters
    }

    /// Reads all meters. Counters may wrap around at most once between two calls.
    pub fn sample(&mut self, root: &Root, now_s: f64) {
        self.counters.iter_mut().for_each(|it| it.sample(root));
        self.powers.iter_mut().for_each(|it| it.sample(root, now_s));
    }

    /// Joules by meter so far. Empty: this machine has no meter.
    #[must_use]
    pub fn energies(&self) -> Vec<Energy> {
        let counters = self.counters.iter().map(Counter::energy);
        counters
            .chain(self.powers.iter().filter_map(Power::energy))
            .collect()
    }

    /// The sum over packages and memory by RAPL. None: there is no such counter.
    #[must_use]
    pub fn processor_joules(&self) -> Option<f64> {
        let of_rapl = |it: &Energy| it.name.starts_with("rapl:") && !it.is_part;
        let joules: Vec<f64> = self
            .energies()
            .iter()
            .filter(|it| of_rapl(it))
            .map(|it| it.joules)
            .collect();
        (!joules.is_empty()).then(|| joules.iter().sum())
    }

    /// Proxies since the start.
    #[must_use]
    pub fn proxies(&self, root: &Root) -> Vec<(Proxy, f64)> {
        let since = |(proxy, start): &(Proxy, f64)| Some((*proxy, proxy.read(root)? - start));
        self.proxies.iter().filter_map(since).collect()
    }
}

/// What goes with energy, but is not energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// Seconds in which processors were not idle, summed over them.
    ProcessorTime,
    /// Context switches.
    ContextSwitches,
    /// Interrupts.
    Interrupts,
}

impl Proxy {
    const ALL: [Self; 3] = [Self::ProcessorTime, Self::ContextSwitches, Self::Interrupts];

    /// Its name, which says that it is a proxy.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ProcessorTime => "proxy: processor time (s)",
            Self::ContextSwitches => "proxy: context switches",
            Self::Interrupts => "proxy: interrupts",
        }
    }

    fn read(self, root: &Root) -> Option<f64> {
        let text = root.read("proc/stat").ok()?;
        let line = |key: &str| {
            let line = text.lines().find(|it| it.split(' ').next() == Some(key))?;
            let numbers = line.split_whitespace().skip(1);
            Some(
                numbers
                    .filter_map(|it| it.parse::<f64>().ok())
                    .collect::<Vec<f64>>(),
            )
        };
        match self {
            Self::ProcessorTime => {
                // user nice system idle iowait irq softirq steal, in hundredths of a second.
                // Stolen time was used by another guest.
                let ticks = line("cpu")?;
                let busy = ticks.iter().take(7).sum::<f64>() - ticks.get(3)? - ticks.get(4)?;
                Some(busy / 100.0)
            }
            Self::ContextSwitches => line("ctxt")?.first().copied(),
            Self::Interrupts => line("intr")?.first().copied(),
        }
    }
}
