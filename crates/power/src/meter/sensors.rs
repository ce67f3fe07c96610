//! Counters and sensors in sysfs.

use super::Energy;
use crate::knob::is_package;
use crate::root::Root;

/// An energy counter that wraps around.
#[derive(Debug, Clone, PartialEq)]
pub struct Counter {
    name: String,
    path: String,
    /// Where it starts again from 0, in microjoules. 0: it does not wrap.
    range_uj: f64,
    is_part: bool,
    last_uj: Option<f64>,
    sum_uj: f64,
}

impl Counter {
    fn new(name: String, path: String, range_uj: f64, is_part: bool) -> Self {
        Self {
            name,
            path,
            range_uj,
            is_part,
            last_uj: None,
            sum_uj: 0.0,
        }
    }

    /// Adds what was used since the last reading. A reading that fails is made up for by the next.
    pub fn sample(&mut self, root: &Root) {
        let Ok(now) = root.number(&self.path) else {
            return;
        };
        if let Some(last) = self.last_uj.replace(now) {
            let since = if now < last {
                now + self.range_uj - last
            } else {
                now - last
            };
            self.sum_uj += since.max(0.0);
        }
    }

    /// Such as `rapl:package-0`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn energy(&self) -> Energy {
        Energy {
            name: self.name.clone(),
            joules: self.sum_uj / 1e6,
            is_part: self.is_part,
        }
    }
}

/// A sensor of power: of one file in microwatts, or of current × voltage in microamperes and
/// microvolts, or a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) last: Option<(f64, f64)>,
    pub(super) joules: f64,
    pub(super) samples: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    Microwatts(String),
    Product(String, String),
    Ipmi,
}

impl Power {
    pub(super) fn new(name: String, source: Source) -> Self {
        Self {
            name,
            source,
            last: None,
            joules: 0.0,
            samples: 0,
        }
    }

    /// Such as `battery:BAT0`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds the trapezoid since the last sample.
    pub fn sample(&mut self, root: &Root, now_s: f64) {
        let watts = match &self.source {
            Source::Microwatts(path) => root.number(path).ok().map(|it| it / 1e6),
            Source::Product(current, voltage) => {
                let both = root.number(current).ok().zip(root.number(voltage).ok());
                both.map(|(current, voltage)| current * voltage / 1e12)
            }
            Source::Ipmi => super::ipmi::read_watts(),
        };
        let Some(watts) = watts.map(f64::abs) else {
            return;
        };
        self.samples += 1;
        if let Some((then_s, before)) = self.last.replace((now_s, watts)) {
            self.joules += (watts + before) / 2.0 * (now_s - then_s).max(0.0);
        }
    }

    /// None: fewer than two samples, which give no time.
    pub(super) fn energy(&self) -> Option<Energy> {
        let energy = Energy {
            name: self.name.clone(),
            joules: self.joules,
            is_part: false,
        };
        (self.samples > 1).then_some(energy)
    }
}

const ZONES: &str = "sys/class/powercap";
const HWMON: &str = "sys/class/hwmon";
const SUPPLIES: &str = "sys/class/power_supply";

/// Energy counters: RAPL and `hwmon`.
#[must_use]
pub fn counters(root: &Root) -> Vec<Counter> {
    let mut found = Vec::new();
    for zone in root.list(ZONES) {
        let file = |name: &str| format!("{ZONES}/{zone}/{name}");
        // Only root may read the counter since CVE-2020-8694.
        if !zone.starts_with("intel-rapl:") || root.number(&file("energy_uj")).is_err() {
            continue;
        }
        let name = root.read(&file("name")).unwrap_or_default();
        // Cores and graphics are inside the package; `psys` is the platform, with the packages in
        // it. Memory is beside the package on servers.
        let is_own = (is_package(&zone) && name != "psys") || name == "dram";
        let range = root.number(&file("max_energy_range_uj")).unwrap_or(0.0);
        let name = match (zone.split(':').nth(1), is_package(&zone)) {
            (Some(package), false) => format!("rapl:package-{package}:{name}"),
            _ => format!("rapl:{name}"),
        };
        found.push(Counter::new(name, file("energy_uj"), range, !is_own));
    }
    for (chip, file) in hwmon(root, "energy") {
        found.push(Counter::new(
            format!("hwmon:{chip}:{file}"),
            path(&chip, &file),
            0.0,
            true,
        ));
    }
    found
}

/// Sensors of power: `hwmon`, and batteries that discharge.
#[must_use]
pub fn powers(root: &Root) -> Vec<Power> {
    let mut found = Vec::new();
    for (chip, file) in hwmon(root, "power") {
        let source = Source::Microwatts(path(&chip, &file));
        found.push(Power::new(format!("hwmon:{chip}:{file}"), source));
    }
    for supply in root.list(SUPPLIES) {
        let file = |name: &str| format!("{SUPPLIES}/{supply}/{name}");
        let is = |name: &str, value: &str| root.read(&file(name)).is_ok_and(|it| it == value);
        if !is("type", "Battery") || !is("status", "Discharging") {
            continue;
        }
        let source = match root.path(&file("power_now")).exists() {
            true => Source::Microwatts(file("power_now")),
            false => Source::Product(file("current_now"), file("voltage_now")),
        };
        found.push(Power::new(format!("battery:{supply}"), source));
    }
    found
}

fn path(chip: &str, file: &str) -> String {
    format!("{HWMON}/{chip}/{file}")
}

/// Chips and their files such as `power1_input`; `power1_average` where there is no such.
fn hwmon(root: &Root, kind: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for chip in root.list(HWMON) {
        let files = root.list(&format!("{HWMON}/{chip}"));
        for file in &files {
            let sensor = file
                .strip_suffix("_input")
                .or_else(|| file.strip_suffix("_average"));
            let Some(sensor) = sensor.filter(|it| it.starts_with(kind)) else {
                continue;
            };
            if file.ends_with("_average") && files.contains(&format!("{sensor}_input")) {
                continue;
            }
            found.push((chip.clone(), file.clone()));
        }
    }
    found
}
