//! The peak of a system: rates that rise until throughput stops rising.

use super::published::OBJECTIVE_US;
use super::{Machine, Setting, System, simulate};

/// From one rate to the next.
const STEP: f64 = 1.05;
/// The share of the peak so far by which a rate has to raise the throughput.
const RISE: f64 = 0.005;
/// Rates in sequence that do not raise it, after which it has stopped rising: more than one,
/// because a simulation has noise.
const FLAT: usize = 4;
/// The first rate, as a share of the published peak.
const FIRST: f64 = 0.1;
/// Most rates: 1.05 to this is a factor of 340.
const RATES: usize = 120;

/// What rates that rise have shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Greatest throughput.
    pub rps: f64,
    /// Greatest offered rate that kept the objective, before the first that did not. 0: none did.
    pub kept_rps: f64,
    /// The last offered rate.
    pub last_rps: f64,
}

/// Raises the rate until throughput stops rising. A simulation has `requests` requests.
#[must_use]
pub fn peak(
    machine: &Machine,
    system: &System,
    setting: Setting,
    requests: usize,
    seed: u64,
) -> Peak {
    let mut peak = Peak {
        rps: 0.0,
        kept_rps: 0.0,
        last_rps: system.peak_rps * FIRST,
    };
    let (mut flat, mut keeps) = (0, true);
    for _ in 0..RATES {
        let rate_rps = peak.last_rps;
        let found = simulate(machine, system, setting, rate_rps, requests, seed);
        keeps &= found.keeps(OBJECTIVE_US);
        if keeps {
            peak.kept_rps = rate_rps;
        }
        flat = match found.achieved_rps > peak.rps * (1.0 + RISE) {
            true => 0,
            false => flat + 1,
        };
        peak.rps = peak.rps.max(found.achieved_rps);
        if flat == FLAT {
            break;
        }
        peak.last_rps *= STEP;
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Parameters;

    #[test]
    fn a_peak_is_what_the_cores_can_do_and_falls_with_their_speed() {
        let machine = Machine::default();
        let system = System::linux(&Parameters::default());
        let at = |speed| peak(&machine, &system, Setting::new(2.0, speed), 40_000, 1);
        let [fast, slow] = [2.9, 1.45].map(at);
        assert!((fast.rps / 800e3 - 1.0).abs() < 0.03, "{fast:?}");
        assert!((slow.rps / 400e3 - 1.0).abs() < 0.03, "{slow:?}");
        assert!(
            fast.kept_rps < fast.rps && fast.kept_rps > 0.5 * fast.rps,
            "{fast:?}"
        );
        assert!(fast.last_rps > 1.1 * fast.rps, "{fast:?}");
    }

    #[test]
    fn uneven_connections_keep_the_objective_far_below_the_peak() {
        let machine = Machine::default();
        let system = System::libos(&Parameters::default());
        let found = peak(&machine, &system, Setting::polling(2.9), 40_000, 1);
        // The least loaded core is busy only at a rate beyond the sum of all.
        assert!((found.rps / 2_000e3 - 1.0).abs() < 0.03, "{found:?}");
        assert!(found.last_rps > 2_200e3, "{found:?}");
        assert!(found.kept_rps < 1_950e3, "{found:?}");
    }
}
