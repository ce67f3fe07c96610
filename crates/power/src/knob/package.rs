//! The limit of a package's power (RAPL, `powercap`).

use super::{Bounds, Form, Knob, Name, Place, Probe, found};
use crate::root::Root;

const ZONES: &str = "sys/class/powercap";
const MICROWATTS: u64 = 1_000_000;

/// Whether a zone is a package, not one of its parts.
pub(crate) fn is_package(name: &str) -> bool {
    name.strip_prefix("intel-rapl:")
        .is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(super) fn power_limit(root: &Root) -> Probe {
    let zones: Vec<String> = root
        .list(ZONES)
        .into_iter()
        .filter(|it| is_package(it))
        .collect();
    let mut targets = Vec::new();
    let (mut most, mut present) = (u64::MAX, 0);
    for zone in zones {
        let file = |name: &str| format!("{ZONES}/{zone}/{name}");
        let limit = file("constraint_0_power_limit_uw");
        let Ok(now) = root.number(&limit) else {
            continue;
        };
        // 0 or missing: the hardware does not say, and what is set is what is known to work.
        let told = root
            .number(&file("constraint_0_max_power_uw"))
            .unwrap_or(0.0);
        let greatest = if told > 0.0 { told } else { now };
        most = most.min(greatest as u64 / MICROWATTS);
        present = now as u64 / MICROWATTS;
        targets.push((Place::File(limit), Form::Times(MICROWATTS)));
    }
    if targets.is_empty() {
        return Probe::Absent("no powercap zone of a package".to_owned());
    }
    let knob = Knob {
        name: Name::PowerLimit,
        present: present.to_string(),
        bounds: Bounds::Range(crate::limits::POWER_LIMIT_MIN_W.min(most), most),
        targets,
    };
    found(root, knob)
}
