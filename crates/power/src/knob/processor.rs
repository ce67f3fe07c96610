//! Knobs of the processors: `cpufreq` and `cpuidle`.

use super::{Bounds, Form, Knob, Name, Place, Probe, found, present};
use crate::root::{Root, number_in};

const CPUS: &str = "sys/devices/system/cpu";

/// The folders of the processors that have `within`.
fn processors(root: &Root, within: &str) -> Vec<String> {
    let names = root.list(CPUS).into_iter();
    let names = names.filter(|name| {
        name.strip_prefix("cpu")
            .is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let folders = names.map(|name| format!("{CPUS}/{name}/{within}"));
    folders
        .filter(|folder| !root.list(folder).is_empty())
        .collect()
}

/// The same file of each processor.
fn files(root: &Root, file: &str) -> Result<Vec<Place>, String> {
    let folders = processors(root, "cpufreq");
    if folders.is_empty() {
        return Err("no cpufreq driver: the host or the firmware sets the speed".to_owned());
    }
    let files = folders.iter().map(|it| format!("{it}/{file}"));
    let files: Vec<Place> = files
        .filter(|it| root.path(it).exists())
        .map(Place::File)
        .collect();
    match files.is_empty() {
        true => Err(format!("the cpufreq driver has no {file}")),
        false => Ok(files),
    }
}

/// The words in a file of the first processor.
fn choices(root: &Root, file: &str) -> Vec<String> {
    let folder = processors(root, "cpufreq")
        .into_iter()
        .next()
        .unwrap_or_default();
    let text = root.read(&format!("{folder}/{file}")).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// A choice that is the same for all processors.
fn choice(root: &Root, name: Name, file: &str, available: &str) -> Probe {
    let places = match files(root, file) {
        Ok(places) => places,
        Err(why) => return Probe::Absent(why),
    };
    let knob = Knob {
        name,
        present: present(root, places.clone()),
        bounds: Bounds::Choice(choices(root, available)),
        targets: places.into_iter().map(|it| (it, Form::Same)).collect(),
    };
    found(root, knob)
}

pub(super) fn governor(root: &Root) -> Probe {
    choice(
        root,
        Name::Governor,
        "scaling_governor",
        "scaling_available_governors",
    )
}

pub(super) fn energy_preference(root: &Root) -> Probe {
    choice(
        root,
        Name::EnergyPreference,
        "energy_performance_preference",
        "energy_performance_available_preferences",
    )
}

/// One speed: lowest and highest limit are the same. The lowest is opened first, since the kernel
/// refuses a lowest above the highest.
pub(super) fn frequency(root: &Root) -> Probe {
    let places = match files(root, "scaling_max_freq") {
        Ok(places) => places,
        Err(why) => return Probe::Absent(why),
    };
    let mut targets = Vec::new();
    let (mut least, mut most) = (0, u64::MAX);
    for folder in processors(root, "cpufreq") {
        let limit = |file: &str| root.number(&format!("{folder}/{file}")).map(|it| it as u64);
        let (Ok(low), Ok(high)) = (limit("cpuinfo_min_freq"), limit("cpuinfo_max_freq")) else {
            return Probe::Absent("the cpufreq driver has no cpuinfo_min_freq".to_owned());
        };
        (least, most) = (low.max(least), high.min(most));
        let file = |name: &str| Place::File(format!("{folder}/{name}"));
        targets.extend([
            (file("scaling_min_freq"), Form::Fixed(low.to_string())),
            (file("scaling_max_freq"), Form::Same),
            (file("scaling_min_freq"), Form::Same),
        ]);
    }
    let knob = Knob {
        name: Name::Frequency,
        present: present(root, places),
        bounds: Bounds::Range(least, most),
        targets,
    };
    found(root, knob)
}

/// The states above the given number are disabled.
pub(super) fn idle_state(root: &Root) -> Probe {
    let folders = processors(root, "cpuidle");
    let mut targets = Vec::new();
    let (mut deepest, mut enabled) = (0, 0);
    for folder in &folders {
        for state in root.list(folder) {
            let path = format!("{folder}/{state}/disable");
            let Some(number) = number_in(&state).filter(|_| root.path(&path).exists()) else {
                continue;
            };
            deepest = number.max(deepest);
            if root.read(&path).is_ok_and(|it| it == "0") {
                enabled = number.max(enabled);
            }
            targets.push((Place::File(path), Form::OffBelow(number)));
        }
    }
    if targets.is_empty() {
        return Probe::Absent("no cpuidle driver: the host or the firmware idles".to_owned());
    }
    let knob = Knob {
        name: Name::IdleState,
        present: enabled.to_string(),
        bounds: Bounds::Range(0, deepest),
        targets,
    };
    found(root, knob)
}
